//! What `run` says when it ends.

use super::{
    context::{Done, Exit, line},
    prompt,
};
use crate::{
    domain::{
        ids::BackfillId,
        state::{Backfill, BackfillState, ChunkState, State},
    },
    plan::why,
};
use serde_json::json;
use std::{collections::BTreeMap, time::Duration};

/// How long the last line waits for somebody to read it.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Says how it ended, and gives the exit code.
///
/// # Errors
/// Exit code 1: it is not complete.
pub fn exit_code(state: &State, id: &BackfillId, json: bool) -> Done {
    let Some(backfill) = state.backfills.get(id) else {
        return Err(Exit::code(1));
    };
    let stored = backfill.state();
    // Told to stop while work is left is not complete either: a script must not take it for the end.
    let code = u8::from(stored != BackfillState::Complete);
    let counts: BTreeMap<&str, u32> = ChunkState::ALL
        .into_iter()
        .filter(|s| backfill.count(*s) > 0)
        .map(|s| (s.word(), backfill.count(s)))
        .collect();
    let then = why::unfinished(backfill).map_or_else(String::new, |w| prompt::sentence(&w.unblock));
    say_last(if json {
        json!({ "ended": id, "state": stored.word(), "counts": counts, "unblock": then, "code": code })
            .to_string()
    } else if then.is_empty() {
        ending(backfill)
    } else {
        format!("{}\n  {then}", ending(backfill))
    });
    if code == 0 { Ok(()) } else { Err(Exit::code(code)) }
}

/// A reader that went away or does not read changes neither the exit code nor that the program ends.
fn say_last(text: String) {
    let (said, waiting) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let _ = line(&text);
        let _ = said.send(());
    });
    let _ = waiting.recv_timeout(LAST_WORDS);
}

/// `orders complete: 60 done, 1 skipped`.
fn ending(backfill: &Backfill) -> String {
    let counts: Vec<String> = ChunkState::ALL
        .into_iter()
        .filter(|s| backfill.count(*s) > 0)
        .map(|s| format!("{} {}", backfill.count(s), s.word()))
        .collect();
    format!(
        "{} {}: {}",
        backfill.spec.name,
        backfill.state().word(),
        counts.join(", ")
    )
}
