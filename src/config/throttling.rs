//! `law`, `cancel` and `cancel_share` of `[backfills.NAME]`.

use super::{ExecutorConfig, problem::Report, read::Section};
use crate::domain::spec::{Law, Throttling};

/// By which law lag sets the limit, and whether the throttle may cancel young attempts to brake: by itself only where
/// runs are processes here, whose end is certain, and never where an attempt cannot simply be run again.
pub(super) fn throttling(
    report: &mut Report<'_>,
    section: &Section<'_>,
    server: Option<&ExecutorConfig>,
    idempotent: Option<bool>,
) -> Option<Throttling> {
    let law = match section.get("law") {
        Some(e) => e.word(report, &[("learned", Law::Learned), ("classic", Law::Classic)]),
        None => Some(Law::Learned),
    };
    let local = matches!(server, Some(ExecutorConfig::Local { .. }));
    let young = match section.get("cancel") {
        Some(e) => e.word(report, &[("young", true), ("never", false)]),
        None => Some(local && idempotent != Some(false)),
    };
    if let (Some(true), Some(false), Some(e)) = (young, idempotent, section.get("cancel")) {
        let help = "what is cancelled is run again from its beginning: that needs an attempt that replaces its whole partition";
        e.problem(report, "\"young\" beside idempotent = false", "\"never\"", help);
        return None;
    }
    let share = match section.get("cancel_share") {
        Some(e) => e.whole(report, 1, 100).and_then(|n| u8::try_from(n).ok()),
        None => Some(CANCEL_SHARE),
    };
    let share = share?;
    Some(Throttling {
        law: law?,
        cancel_share: young?.then_some(share),
    })
}

/// Per cent of an hour's work that may be lost to cancels, unless the file says otherwise.
const CANCEL_SHARE: u8 = 40;
