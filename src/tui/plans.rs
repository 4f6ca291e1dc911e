//! The planner of floor 2 over what the screen knows.

use super::{
    effect::Planner,
    model::{Ask, ExecutorView, Feed, LeaseView},
};
use crate::{
    domain::{
        Time, human,
        ids::{BackfillId, ChunkId, Name},
        state::{Backfill, ChunkState},
        tuning::Tuning,
    },
    plan::{
        decide::{ExecutorFacts, Surroundings},
        preview::{self, Preview},
        room::Admission,
        why::{self, Why},
    },
};
use std::collections::{BTreeMap, BTreeSet};

/// Orders that a dialog names before the rest becomes a count.
const NAMED: usize = 6;

/// The planner of the real screen.
pub struct Plans {
    /// The laws' times, for sentences.
    pub tuning: Tuning,
}

impl Planner for Plans {
    fn preview(&self, feed: &Feed, backfill: Option<&BackfillId>, ask: &Ask, now: Time) -> Preview {
        match backfill.and_then(|id| feed.state.backfills.get(id)) {
            Some(backfill) => preview::make(backfill, ask, now),
            None => of_journal(feed, ask),
        }
    }

    fn why(&self, feed: &Feed, backfill: &BackfillId, chunk: ChunkId, now: Time) -> Option<Why> {
        let backfill = feed.state.backfills.get(backfill)?;
        let mut around = surroundings(
            &feed.executors,
            &feed.lease,
            known_signals(feed),
            &self.tuning,
            now,
        );
        around.admissions.extend(admission(feed, backfill, now));
        why::why(&feed.state, backfill, chunk, &around)
    }
}

/// What the learned law admits of the selected backfill, if it was told lately.
pub(super) fn admission(feed: &Feed, backfill: &Backfill, now: Time) -> Option<(BackfillId, Admission)> {
    let (at, report) = feed.throttle.as_ref()?;
    let lately = now - *at < chrono::Duration::seconds(15);
    lately
        .then(|| Some((backfill.id.clone(), report.admission?)))
        .flatten()
}

/// The signals of the configuration, and whether they protect, as far as the whole file was read.
pub(super) fn known_signals(feed: &Feed) -> Option<BTreeMap<Name, bool>> {
    let whole = feed.config_fault.is_none() && matches!(feed.config, Some(Ok(_)));
    let each = feed.signals.iter();
    whole.then(|| {
        each.map(|(name, signal)| (name.clone(), signal.protects))
            .collect()
    })
}

/// What the planner is told beside the journal's state.
pub(super) fn surroundings(
    executors: &BTreeMap<Name, ExecutorView>,
    lease: &LeaseView,
    signals: Option<BTreeMap<Name, bool>>,
    tuning: &Tuning,
    now: Time,
) -> Surroundings {
    let facts = |e: &ExecutorView| ExecutorFacts {
        slots: e.slots,
        problem: e.problem.clone(),
    };
    Surroundings {
        now,
        tuning: tuning.clone(),
        executors: executors.iter().map(|(n, e)| (n.clone(), facts(e))).collect(),
        signals,
        paced: BTreeSet::new(),
        admissions: BTreeMap::new(),
        disk_low: false,
        supervised: *lease != LeaseView::Nobody,
        elsewhere: BTreeMap::new(),
    }
}

/// A supervisor is one for the whole journal: the dialog names every order that it would take up or leave.
fn of_journal(feed: &Feed, ask: &Ask) -> Preview {
    let mut preview = preview::of_journal(ask);
    let open: Vec<&Backfill> = open(feed).collect();
    let (label, then) = match ask {
        Ask::StartSupervising => (
            "supervises",
            "it goes on when this screen is left; one for the whole journal",
        ),
        _ => ("leaves", "running attempts go on; nothing new starts"),
    };
    for (i, backfill) in open.iter().take(NAMED).enumerate() {
        let label = if i == 0 { label } else { "" };
        preview.facts.push((label, told(backfill)));
    }
    if open.len() > NAMED {
        preview
            .facts
            .push(("", format!("and {} more", open.len() - NAMED)));
    }
    preview.facts.push(("effect", then.to_owned()));
    preview
}

/// The orders that a supervisor takes up: started and not ended.
pub(super) fn open(feed: &Feed) -> impl Iterator<Item = &Backfill> {
    feed.state.backfills.values().filter(|b| !b.state().is_final())
}

/// An order, where it stands, and how much of it is still to come.
fn told(backfill: &Backfill) -> String {
    let waiting = u64::from(backfill.count(ChunkState::Pending));
    let active = backfill.active().count() as u64;
    let unit = backfill.spec.granularity.word();
    let paused = backfill.pause.as_ref();
    let state = paused.map_or_else(
        || backfill.state().word().to_owned(),
        |pause| format!("paused by {}", pause.mark.by.name),
    );
    let runs = match active {
        0 => String::new(),
        n => format!(", {} taken over", human::counted(n, "attempt")),
    };
    format!(
        "{}  {state}, {} to start{runs}",
        backfill.id,
        human::counted(waiting, unit)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{domain::event::Payload, plan::testing::Night, tui::feeder::nothing_known};
    use std::sync::Arc;

    fn asked(night: &Night, ask: &Ask) -> Vec<(&'static str, String)> {
        let mut feed = nothing_known(night.now);
        feed.state = Arc::new(night.state.clone());
        let plans = Plans {
            tuning: Tuning::default(),
        };
        plans.preview(&feed, None, ask, night.now).facts
    }

    #[test]
    fn who_starts_a_supervisor_is_told_which_orders_it_takes_up() {
        let mut night = Night::new(5).second_backfill();
        night.start(night.day(0));
        night.human(Payload::Paused { until: None });
        let facts = asked(&night, &Ask::StartSupervising);
        let orders: Vec<&str> = facts.iter().map(|(_, value)| value.as_str()).collect();
        assert_eq!(facts.len(), 3, "{facts:?}");
        assert_eq!((facts[0].0, facts[1].0), ("supervises", ""));
        assert!(
            orders.iter().any(|o| o.starts_with("orders-")
                && o.ends_with("paused by minh, 4 days to start, 1 attempt taken over")),
            "{orders:?}"
        );
        assert_eq!(asked(&night, &Ask::StopSupervising)[0].0, "leaves");
    }

    #[test]
    fn an_order_that_has_ended_is_not_taken_up() {
        let mut night = Night::new(1);
        night.start(night.day(0));
        night.finish(night.day(0));
        let facts = asked(&night, &Ask::StartSupervising);
        assert_eq!(facts.iter().map(|(l, _)| *l).collect::<Vec<_>>(), ["effect"]);
    }
}
