//! What a change would do, before it is done: which chunks, which not and why, with a digest of the whole.
//!
//! The count that the preview shows is exactly what runs: a confirmed change is recomputed, and only a plan with
//! the same digest is appended.

mod attached;
mod hold;

pub use hold::hold;

use super::{decide, why};
use crate::domain::{
    Time,
    attach::{Action, Taking},
    event::Rule,
    human,
    ids::{ChunkId, ExternalId},
    spec::Spec,
    state::{Backfill, Chunk, ChunkState},
};
use serde::Serialize;
use sha2::{Digest, Sha256};
use std::time::Duration;

/// A change that an operator asks for.
#[derive(Debug, Clone, PartialEq)]
pub enum Ask {
    /// Re-run days; `true`: only those that failed, are quarantined or were cancelled.
    Rerun(Vec<ChunkId>, bool),
    /// Skip days.
    Skip(Vec<ChunkId>),
    /// Let held days start again.
    Release(Vec<ChunkId>),
    /// Stop running attempts.
    Stop(Vec<ChunkId>),
    /// End the human pause.
    Resume,
    /// Set the cap, or take it away.
    Cap(Option<u32>),
    /// Override the controller for a while.
    Force(u32, Duration),
    /// End the whole order.
    Cancel,
    /// What is done with the engine's own levers, beyond what the other asks mean for an attached backfill.
    Act(Action),
    /// What becomes of somebody else's run on the date of a held chunk.
    Take(ChunkId, ExternalId, Taking),
    /// Let go of an attached backfill.
    Detach,
    /// Stop supervising.
    StopSupervising,
    /// Start a detached supervisor.
    StartSupervising,
}

/// One chunk that a change would act on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PreviewChunk {
    /// The chunk.
    pub chunk: ChunkId,
    /// Its state now, as a word.
    pub state: &'static str,
    /// Number of the attempt that it would get.
    pub attempt: u32,
    /// What is known about its last attempt: `oom exit 137`.
    pub last: String,
    /// Name of the resource profile; empty for runs of somebody else, which have none of ours.
    pub profile: String,
    /// Its lane.
    pub lane: &'static str,
    /// Weight against the limit.
    pub weight: u32,
}

/// What a change would do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Preview {
    /// `Re-run 2 failed days`.
    pub title: String,
    /// Acts on these, in the order of their starts.
    pub will: Vec<PreviewChunk>,
    /// Leaves these alone, and why.
    pub will_not: Vec<(ChunkId, String)>,
    /// Facts as label and value: overwrites, reads, runs on, cost, undo.
    pub facts: Vec<(&'static str, String)>,
    /// The same change as a command line.
    pub same_as: String,
    /// 1: only reduces work. 2: starts or widens work. 3: irreversible.
    pub class: u8,
    /// First 6 hex digits of SHA-256 over everything above that matters.
    pub digest: String,
}

impl Preview {
    /// Whether confirming it would do nothing.
    pub fn is_empty(&self, ask: &Ask) -> bool {
        let on_days = match ask {
            Ask::Rerun(..) | Ask::Skip(..) | Ask::Release(..) | Ask::Stop(..) | Ask::Take(..) => true,
            Ask::Act(action) => matches!(
                action,
                Action::Rerun { .. } | Action::Stop { .. } | Action::Mark { .. } | Action::Create { .. }
            ),
            _ => false,
        };
        on_days && self.will.is_empty() || self.is_refused()
    }

    /// Whether it says why there is nothing to do, and what can be done instead.
    pub fn is_refused(&self) -> bool {
        self.facts
            .iter()
            .any(|(label, value)| *label == "instead" && attached::is_refusal(value))
    }
}

/// The preview of a change. Pure: the same state and question give the same digest.
pub fn make(backfill: &Backfill, ask: &Ask, now: Time) -> Preview {
    if backfill.spec.attach.is_some() && !matches!(ask, Ask::StopSupervising | Ask::StartSupervising) {
        return attached::make(backfill, ask);
    }
    if let Ask::Take(chunk, run, how) = ask {
        return attached::take(backfill, *chunk, &run.0, *how);
    }
    let mut preview = match ask {
        Ask::Rerun(chunks, only_failed) => rerun(backfill, chunks, *only_failed, now),
        Ask::Skip(chunks) => skip(backfill, chunks),
        Ask::Release(chunks) => release(backfill, chunks),
        Ask::Stop(chunks) => stop(backfill, chunks, now),
        _ => whole(backfill, ask, now),
    };
    preview.digest = digest(backfill, &preview);
    preview
}

/// The preview of a change of the journal as a whole, where no backfill is chosen.
pub fn of_journal(ask: &Ask) -> Preview {
    let (title, same_as) = match ask {
        Ask::StopSupervising => ("Stop supervising", "backfill stop"),
        _ => ("Start supervising", "backfill run NAME"),
    };
    let mut preview = empty(title.to_owned(), 2, same_as.to_owned());
    preview.digest = hex(Sha256::new().chain_update(title));
    preview
}

fn hex(hash: Sha256) -> String {
    hash.finalize()
        .iter()
        .take(3)
        .map(|b| format!("{b:02x}"))
        .collect()
}

fn empty(title: String, class: u8, same_as: String) -> Preview {
    Preview {
        title,
        will: Vec::new(),
        will_not: Vec::new(),
        facts: Vec::new(),
        same_as,
        class,
        digest: String::new(),
    }
}

fn rerun(backfill: &Backfill, asked: &[ChunkId], only_failed: bool, now: Time) -> Preview {
    let fits = |state| {
        matches!(
            state,
            ChunkState::Failed | ChunkState::Quarantined | ChunkState::Cancelled
        )
    };
    let (will, will_not) = split(backfill, asked, |chunk| match chunk.state {
        ChunkState::Pending => Err("waits for its start already".to_owned()),
        ChunkState::Held => Err("held; release it first: b".to_owned()),
        state if state.is_active() => Err(format!("{} now; K stops it", state.word())),
        state if only_failed && !fits(state) => Err(format!("{}, not failed", state.word())),
        _ => Ok(()),
    });
    let all = will.len().to_string();
    let what = if only_failed { by_state(&will) } else { all };
    let flag = if only_failed { " --failed" } else { "" };
    let name = &backfill.spec.name;
    let title = format!("Re-run {what} {}", units(&backfill.spec, will.len()));
    let mut preview = empty(title, 2, format!("backfill rerun {name} {}{flag}", days(asked)));
    preview.facts = run_facts(backfill, &will, now);
    preview
        .facts
        .push(("undo", "hold the days (b) until their attempts start".to_owned()));
    preview.will = will;
    preview.will_not = will_not;
    preview
}

/// `2 failed`, `2 failed and 1 quarantined`: no day is called what it is not.
fn by_state(will: &[PreviewChunk]) -> String {
    let n = |word: &str| will.iter().filter(|c| c.state == word).count();
    let counted: Vec<String> = ["failed", "quarantined", "cancelled"]
        .into_iter()
        .filter(|word| n(word) > 0)
        .map(|word| format!("{} {word}", n(word)))
        .collect();
    match counted.split_last() {
        None => "0 failed".to_owned(),
        Some((last, [])) => last.clone(),
        Some((last, first)) => format!("{} and {last}", first.join(", ")),
    }
}

fn skip(backfill: &Backfill, asked: &[ChunkId]) -> Preview {
    let (will, will_not) = split(backfill, asked, |chunk| match chunk.state {
        ChunkState::Done | ChunkState::Skipped => Err(format!("{} already", chunk.state.word())),
        state if state.is_active() => Err(format!("{} now; K stops it", state.word())),
        _ => Ok(()),
    });
    let title = format!("Skip {} {}", will.len(), units(&backfill.spec, will.len()));
    let mut preview = empty(
        title,
        2,
        format!("backfill skip {} {}", backfill.spec.name, days(asked)),
    );
    preview.facts = vec![
        (
            "effect",
            format!(
                "their partitions of {} stay as they are and count as settled",
                backfill.spec.target
            ),
        ),
        ("undo", "re-run the days: R".to_owned()),
    ];
    preview.will = will;
    preview.will_not = will_not;
    preview
}

fn release(backfill: &Backfill, asked: &[ChunkId]) -> Preview {
    let (will, will_not) = split(backfill, asked, |chunk| match chunk.state {
        ChunkState::Held => Ok(()),
        state => Err(format!("{}, not held", state.word())),
    });
    let title = format!("Release {} {}", will.len(), units(&backfill.spec, will.len()));
    let mut preview = empty(
        title,
        2,
        format!("backfill release {} {}", backfill.spec.name, days(asked)),
    );
    preview.facts = run_words(backfill, &will);
    preview.will = will;
    preview.will_not = will_not;
    preview
}

/// What releasing leads to.
fn run_words(backfill: &Backfill, will: &[PreviewChunk]) -> Vec<(&'static str, String)> {
    vec![
        (
            "effect",
            format!(
                "{} may start in their order again",
                units(&backfill.spec, will.len())
            ),
        ),
        ("undo", "hold them again: b".to_owned()),
    ]
}

fn stop(backfill: &Backfill, asked: &[ChunkId], now: Time) -> Preview {
    let (will, will_not) = split(backfill, asked, |chunk| match chunk.open() {
        None => Err(format!("{}, not running", chunk.state.word())),
        Some(attempt) if attempt.stop_requested => Err("asked to stop already".to_owned()),
        Some(_) => Ok(()),
    });
    let lost: chrono::Duration = backfill
        .active()
        .filter(|c| will.iter().any(|w| w.chunk == c.id))
        .filter_map(|c| c.open().and_then(|a| a.started))
        .map(|from| now - from)
        .sum();
    let title = format!(
        "Stop {} running {}",
        will.len(),
        units(&backfill.spec, will.len())
    );
    let mut preview = empty(
        title,
        3,
        format!("backfill stop-runs {} {}", backfill.spec.name, days(asked)),
    );
    preview.facts = vec![
        (
            "effect",
            "TERM to the attempt, KILL after the grace; the days become cancelled".to_owned(),
        ),
        (
            "loses",
            format!(
                "{} of work; old partitions stay in place",
                human::duration(lost.to_std().unwrap_or_default())
            ),
        ),
        ("undo", "none for the attempts; re-run the days: R".to_owned()),
    ];
    preview.will = will;
    for row in &mut preview.will {
        let running = backfill.chunk(row.chunk).and_then(Chunk::open);
        row.attempt = running.map_or(row.attempt, |a| a.no);
    }
    preview.will_not = will_not;
    preview
}

/// Changes of the whole backfill.
fn whole(backfill: &Backfill, ask: &Ask, now: Time) -> Preview {
    let name = &backfill.spec.name;
    let waiting = decide::in_order(backfill, now).len();
    let running = backfill.running_weight();
    let limit = decide::allowed(backfill, now).limit;
    let effect = format!(
        "{waiting} {} wait for their start; limit {limit}, {running} running",
        units(&backfill.spec, waiting)
    );
    let mut preview = match ask {
        Ask::Resume => empty(format!("Resume {name}"), 2, format!("backfill resume {name}")),
        Ask::Cap(Some(cap)) => {
            let class = if *cap < limit { 1 } else { 2 };
            empty(
                format!("Cap the limit at {cap}"),
                class,
                format!("backfill throttle {name} cap {cap}"),
            )
        }
        Ask::Force(to, d) => {
            let d = human::duration(*d);
            let mut p = empty(
                format!("Force limit {to} for {d}"),
                2,
                format!("backfill throttle {name} force {to} --for {d}"),
            );
            p.facts.push((
                "bounds",
                format!(
                    "never above max_limit {}, never while a signal is past hard or blind",
                    backfill.spec.max_limit
                ),
            ));
            p
        }
        Ask::Cancel => {
            let mut p = empty(format!("Cancel {name}"), 3, format!("backfill cancel {name}"));
            let active = backfill.active().count();
            p.facts.push(("stops", format!("{active} running attempts")));
            p.facts.push((
                "cancels",
                format!("{waiting} waiting {}", units(&backfill.spec, waiting)),
            ));
            p.facts.push((
                "undo",
                "none for the attempts; days can be re-run one by one".to_owned(),
            ));
            p
        }
        Ask::StopSupervising => empty("Stop supervising".to_owned(), 2, "backfill stop".to_owned()),
        Ask::StartSupervising => empty("Start supervising".to_owned(), 2, format!("backfill run {name}")),
        _ => empty(
            "Give the limit back to the throttle".to_owned(),
            2,
            format!("backfill throttle {name} auto"),
        ),
    };
    if let Some(pause) = backfill.pause.as_ref().filter(|_| *ask == Ask::Resume) {
        let reason = pause
            .mark
            .reason
            .as_ref()
            .map_or(String::new(), |r| format!(": {r}"));
        preview
            .facts
            .push(("paused", format!("by {}{reason}", pause.mark.by.name)));
    }
    if *ask == Ask::Resume && backfill.limit.rule == Rule::Latch {
        let goes_on = "is acknowledged with it: goes on by itself once its signal is calm";
        preview.facts.push(("latch", goes_on.to_owned()));
    } else if *ask == Ask::Resume && decide::stopped_by_signal(backfill) {
        preview
            .facts
            .push(("stays", format!("stopped by its signal: {}", backfill.limit.why)));
    }
    if !matches!(ask, Ask::Cancel) {
        preview.facts.push(("effect", effect));
    }
    if *ask == Ask::StopSupervising {
        preview
            .facts
            .push(("runs", "running attempts go on; nothing new starts".to_owned()));
    }
    preview
}

fn run_facts(backfill: &Backfill, will: &[PreviewChunk], now: Time) -> Vec<(&'static str, String)> {
    let spec = &backfill.spec;
    let weight: u32 = will.iter().map(|c| c.weight).sum();
    let first: Vec<String> = will.iter().take(3).map(|c| c.chunk.to_string()).collect();
    let more = if will.len() > first.len() {
        format!(" and {} more", will.len() - first.len())
    } else {
        String::new()
    };
    let mut facts = vec![
        (
            "overwrites",
            format!(
                "{} of {}  {}{more}",
                count(will.len(), "partition"),
                spec.target,
                first.join(", ")
            ),
        ),
        (
            "runs on",
            format!(
                "{}, weight {weight} in all, limit {}",
                spec.executor,
                decide::allowed(backfill, now).limit
            ),
        ),
    ];
    if let Some(kind) = spec.source.get("kind") {
        facts.insert(1, ("reads", kind.clone()));
    }
    if let Some(estimate) = estimate(backfill, will.len()) {
        facts.push(("cost", format!("{} of running time", about(estimate))));
    }
    facts
}

/// An estimate is not known to the millisecond.
fn about(estimate: Duration) -> String {
    match estimate.as_secs() {
        0 => "less than a second".to_owned(),
        s => format!("about {}", human::duration(Duration::from_secs(s))),
    }
}

/// Running time of `n` chunks by the median of those that are done; nothing before there are three.
fn estimate(backfill: &Backfill, n: usize) -> Option<Duration> {
    let mut took: Vec<i64> = backfill
        .chunks
        .iter()
        .filter(|c| c.state == ChunkState::Done)
        .filter_map(|c| c.last())
        .filter_map(|a| Some((a.ended? - a.started?).num_milliseconds()))
        .collect();
    took.sort_unstable();
    let median = *took.get(took.len() / 2).filter(|_| took.len() >= 3)?;
    Some(Duration::from_millis(u64::try_from(median).unwrap_or(0)) * u32::try_from(n).unwrap_or(u32::MAX))
}

fn split(
    backfill: &Backfill,
    asked: &[ChunkId],
    check: impl Fn(&Chunk) -> Result<(), String>,
) -> (Vec<PreviewChunk>, Vec<(ChunkId, String)>) {
    let (mut will, mut will_not) = (Vec::new(), Vec::new());
    for &id in asked {
        match backfill.chunk(id).map(|chunk| (chunk, check(chunk))) {
            None => will_not.push((id, format!("not a chunk of {}", backfill.spec.name))),
            Some((_, Err(no))) => will_not.push((id, no)),
            Some((chunk, Ok(()))) => will.push(row(backfill, chunk)),
        }
    }
    (will, will_not)
}

fn row(backfill: &Backfill, chunk: &Chunk) -> PreviewChunk {
    let spec = &backfill.spec;
    let profile = decide::next_profile(backfill, chunk) as usize;
    let last = chunk.attempts.iter().rev().find_map(|a| a.failure.as_ref());
    PreviewChunk {
        chunk: chunk.id,
        state: chunk.state.word(),
        attempt: chunk.next_no(),
        last: last.map_or(String::new(), why::words),
        profile: spec
            .profiles
            .get(profile)
            .filter(|_| spec.attach.is_none())
            .map_or(String::new(), |p| p.name.to_string()),
        lane: spec.lane(chunk.id).word(),
        weight: spec.weight(chunk.id),
    }
}

/// `2023-01-01`, `2023-01-01..2023-01-05`, or the days one by one when they are not a row.
fn days(asked: &[ChunkId]) -> String {
    match asked {
        [] => String::new(),
        [one] => one.to_string(),
        [first, .., last] if asked.len() > 3 => format!("{first}..{last}"),
        few => few.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "),
    }
}

/// `day`, `days`, `hours`: what the chunks of a spec are called.
pub fn units(spec: &Spec, n: usize) -> String {
    let word = spec.granularity.word();
    if n == 1 {
        word.to_owned()
    } else {
        format!("{word}s")
    }
}

fn count(n: usize, word: &str) -> String {
    if n == 1 {
        format!("1 {word}")
    } else {
        format!("{n} {word}s")
    }
}

fn digest(backfill: &Backfill, preview: &Preview) -> String {
    let mut hash = Sha256::new();
    hash.update(backfill.id.as_str());
    hash.update(&backfill.hash);
    hash.update(&preview.title);
    for c in &preview.will {
        hash.update(format!(
            "{}|{}|{}|{}|{};",
            c.chunk, c.state, c.attempt, c.profile, c.weight
        ));
    }
    hex(hash)
}

#[cfg(test)]
mod tests;
