//! Why a chunk does not run: for any cell of the calendar the one reason that binds, and what would unblock it.

use super::{
    decide::{self, Allowed, Stop, Surroundings},
    throttle::authority::{Binding, fits},
};
use crate::domain::{
    Time,
    failure::Failure,
    human,
    ids::ChunkId,
    spec::Lane,
    state::{Attempt, Backfill, BackfillState, Chunk, ChunkState, Mark, State},
};
use serde::Serialize;

/// The binding reason of a wait.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Why {
    /// A stable word: `paused`, `limit`, `hold`, `blind`, `retry`, ...
    pub reason: &'static str,
    /// One sentence with numbers.
    pub text: String,
    /// What would unblock it, with the key or command that helps; empty if nothing is needed.
    pub unblock: String,
}

impl Why {
    fn new(reason: &'static str, text: impl Into<String>, unblock: impl Into<String>) -> Self {
        Self {
            reason,
            text: text.into(),
            unblock: unblock.into(),
        }
    }
}

/// Why this chunk is where it is. `None` only for a chunk that the backfill does not have.
pub fn why(state: &State, backfill: &Backfill, id: ChunkId, around: &Surroundings) -> Option<Why> {
    let chunk = backfill.chunk(id)?;
    Some(match chunk.state {
        ChunkState::Pending => waiting(state, backfill, chunk, around),
        ChunkState::Failed if chunk.retry.is_some() => retrying(state, backfill, chunk, around),
        _ => of_itself(backfill, chunk, around.now),
    })
}

/// Why the whole backfill starts nothing now; `None` while starts are possible.
pub fn stop(state: &State, backfill: &Backfill, around: &Surroundings) -> Option<Why> {
    decide::stop_of(state, backfill, around).map(|s| of_stop(state, backfill, s, around))
}

/// A chunk that does not wait for the planner.
fn of_itself(backfill: &Backfill, chunk: &Chunk, now: Time) -> Why {
    let name = &backfill.spec.name;
    let day = chunk.id;
    match chunk.state {
        ChunkState::Done => Why::new("done", done(chunk), ""),
        ChunkState::Held => Why::new(
            "hold",
            marked("held", chunk),
            format!("release it: b, or backfill release {name} {day}"),
        ),
        ChunkState::Skipped => Why::new(
            "skipped",
            marked("skipped", chunk),
            format!("re-run it: R, or backfill rerun {name} {day}"),
        ),
        ChunkState::Cancelled => Why::new(
            "cancelled",
            marked("cancelled", chunk),
            format!("re-run it: R, or backfill rerun {name} {day}"),
        ),
        ChunkState::Quarantined => Why::new(
            "quarantined",
            chunk
                .why
                .clone()
                .unwrap_or_else(|| "waits for a decision".to_owned()),
            format!("mend the cause, then r, or skip it: s; its log: backfill logs {name} {day}"),
        ),
        ChunkState::Failed => Why::new(
            "failed",
            last_failure(chunk).map_or_else(|| "failed".to_owned(), words),
            format!("mend the cause, then r, or backfill rerun {name} {day}"),
        ),
        ChunkState::Uncertain => Why::new(
            "uncertain",
            format!(
                "{}; its slot stays taken",
                chunk
                    .why
                    .as_deref()
                    .unwrap_or("the executor does not answer for it")
            ),
            format!(
                "wait for the executor, or say what became of it: backfill resolve {name} {day} lost|done|failed --reason .."
            ),
        ),
        _ => running(chunk, now),
    }
}

fn running(chunk: &Chunk, now: Time) -> Why {
    let Some(attempt) = chunk.open() else {
        return Why::new("running", "runs", "");
    };
    let stopping = if attempt.stop_requested {
        ", asked to stop"
    } else {
        ""
    };
    let since = attempt.started.unwrap_or(attempt.intended);
    let age = human::duration((now - since).to_std().unwrap_or_default());
    let text = match chunk.state {
        ChunkState::Running => format!(
            "attempt {} runs on {} for {age}{stopping}",
            attempt.no, attempt.executor
        ),
        ChunkState::Queued => format!(
            "attempt {} is queued at {} for {age}{stopping}",
            attempt.no, attempt.executor
        ),
        ChunkState::Verifying => format!("attempt {} finished, its result is being checked", attempt.no),
        _ => format!(
            "attempt {} is being sent to {} for {age}{stopping}",
            attempt.no, attempt.executor
        ),
    };
    Why::new(
        chunk.state.word(),
        text,
        if attempt.stop_requested { "" } else { "K stops it" },
    )
}

fn done(chunk: &Chunk) -> String {
    match chunk.last() {
        Some(Attempt {
            no,
            started: Some(from),
            ended: Some(to),
            note,
            ..
        }) => {
            let took = human::duration((*to - *from).to_std().unwrap_or_default());
            let note = note.as_ref().map_or(String::new(), |n| format!("; {n}"));
            format!("done in {took} by attempt {no}{note}")
        }
        _ => "done".to_owned(),
    }
}

fn marked(verb: &str, chunk: &Chunk) -> String {
    match &chunk.mark {
        Some(mark) => format!("{verb} {}", by(mark)),
        None => verb.to_owned(),
    }
}

/// `by minh: incident 4711`.
fn by(mark: &Mark) -> String {
    let reason = mark.reason.as_ref().map_or(String::new(), |r| format!(": {r}"));
    format!("by {}{reason}", mark.by.name)
}

fn last_failure(chunk: &Chunk) -> Option<&Failure> {
    chunk.attempts.iter().rev().find_map(|a| a.failure.as_ref())
}

/// A failure in words: `oom exit 137: killed at 512 MB`.
pub fn words(failure: &Failure) -> String {
    // Adapters may say the code in their own words already.
    let said = failure
        .exit
        .is_some_and(|e| failure.message.starts_with(&format!("exit {e}")));
    let exit = failure
        .exit
        .filter(|_| !said)
        .map_or(String::new(), |e| format!(" exit {e}"));
    let message = if failure.message.is_empty() {
        String::new()
    } else {
        format!(": {}", failure.message)
    };
    format!("{}{exit}{message}", failure.class.word())
}

fn retrying(state: &State, backfill: &Backfill, chunk: &Chunk, around: &Surroundings) -> Why {
    let Some(retry) = &chunk.retry else {
        return of_itself(backfill, chunk, around.now);
    };
    let cause = last_failure(chunk).map_or_else(|| "failed".to_owned(), words);
    let count = format!("retry {}/{}", retry.used, retry.budget);
    if retry.at <= around.now {
        let waits = waiting(state, backfill, chunk, around);
        return Why {
            text: format!("{cause}, {count} is due; {}", waits.text),
            ..waits
        };
    }
    let left = human::duration((retry.at - around.now).to_std().unwrap_or_default());
    Why::new("retry", format!("{cause}, {count} in {left}"), "r runs it now")
}

/// A chunk that waits for its turn: the first reason in the order of authority.
fn waiting(state: &State, backfill: &Backfill, chunk: &Chunk, around: &Surroundings) -> Why {
    if let Some(stop) = stop(state, backfill, around) {
        return stop;
    }
    let running = backfill.running_weight();
    let Allowed { limit, by } = decide::allowed(backfill, around.now);
    let lane = backfill.spec.lane(chunk.id);
    let isolated_runs = backfill
        .active()
        .find(|c| backfill.spec.lane(c.id) == Lane::Isolated);
    if let (Lane::Isolated, Some(other)) = (lane, isolated_runs) {
        return Why::new("lane", format!("the isolated lane is taken by {}", other.id), "");
    }
    let ahead = decide::in_order(backfill, around.now)
        .iter()
        .position(|c| c.id == chunk.id)
        .unwrap_or(0);
    let place = if ahead == 0 {
        "next in order".to_owned()
    } else {
        format!("{ahead} before it in order")
    };
    let weight = backfill.spec.weight(chunk.id);
    if !fits(limit, running, weight) {
        let text = format!(
            "{running} running of limit {limit}{}; {place}",
            binding(backfill, by)
        );
        return Why::new(
            "limit",
            text,
            if by == Binding::Throttle {
                ""
            } else {
                "t changes the limit"
            },
        );
    }
    if let Some(text) = no_slot(state, backfill, around) {
        return Why::new("slots", format!("{text}; {place}"), "");
    }
    if around.paced.contains(&backfill.id) {
        let gap = human::duration(around.tuning.start_gap);
        return Why::new("pace", format!("starts keep a gap of {gap}; {place}"), "");
    }
    Why::new("order", place, "")
}

fn no_slot(state: &State, backfill: &Backfill, around: &Surroundings) -> Option<String> {
    let facts = around.executors.get(&backfill.spec.executor)?;
    let open = |b: &Backfill| {
        b.active()
            .filter(|c| c.open().is_some_and(|a| a.executor == backfill.spec.executor))
            .count()
    };
    let taken: usize = state.backfills.values().map(open).sum();
    (taken >= facts.slots as usize).then(|| {
        format!(
            "all {} slots of {} are taken",
            facts.slots, backfill.spec.executor
        )
    })
}

fn binding(backfill: &Backfill, by: Binding) -> String {
    match by {
        Binding::Cap => backfill
            .cap
            .as_ref()
            .map_or(String::new(), |(_, m)| format!(", capped by {}", m.by.name)),
        Binding::Force => backfill
            .force
            .as_ref()
            .map_or(String::new(), |(_, m)| format!(", forced by {}", m.by.name)),
        Binding::Throttle => backfill
            .limit
            .signal
            .as_ref()
            .map_or(String::new(), |s| format!(", set by {s}")),
        Binding::MaxLimit => String::new(),
    }
}

fn of_stop(state: &State, backfill: &Backfill, stop: Stop, around: &Surroundings) -> Why {
    let name = &backfill.spec.name;
    match stop {
        Stop::Unsupervised => Why::new(
            "unsupervised",
            "nobody supervises, so nothing starts",
            format!("S, or backfill run {name}"),
        ),
        Stop::Observer => {
            let (seq, kind, version) = state.unreadable.clone().unwrap_or_default();
            let text = format!(
                "event {seq} ({kind} v{version}) was written by a newer backfill; this one only watches"
            );
            Why::new("observer", text, "install the newer version")
        }
        Stop::Ended => ended(backfill),
        Stop::Critical => Why::new("critical", backfill.limit.why.clone(), ""),
        Stop::Breaker => {
            let Some(breaker) = &backfill.breaker else {
                return Why::new("breaker", "the breaker is open", "");
            };
            let canary = match (breaker.retry_at - around.now).to_std() {
                Ok(left) if !left.is_zero() => format!("one canary in {}", human::duration(left)),
                _ => "its canary runs".to_owned(),
            };
            Why::new(
                "breaker",
                format!("{}; {canary}", breaker.why),
                "mend the cause, then : close-breaker",
            )
        }
        Stop::OnFailure => {
            let why = backfill.stopped.as_ref().map_or("", |(_, w)| w.as_str());
            Why::new(
                "stopped",
                format!("on_failure stopped it: {why}"),
                format!("p, or backfill resume {name}"),
            )
        }
        Stop::Paused => paused(backfill, around.now),
        Stop::Blind => Why::new(
            "blind",
            backfill.limit.why.clone(),
            "make the signal answer: backfill check",
        ),
        Stop::FirstSamples => Why::new(
            "blind",
            first_samples(state, backfill),
            "make the signal answer: backfill check",
        ),
        Stop::Signal => {
            let latched = backfill.limit.rule == crate::domain::event::Rule::Latch;
            let unblock = if latched {
                "acknowledge it: : acknowledge"
            } else {
                ""
            };
            Why::new("signal", backfill.limit.why.clone(), unblock)
        }
        Stop::Disk => Why::new(
            "disk",
            "less than the floor is free beside the journal",
            "make room on the journal's disk",
        ),
        Stop::Executor => Why::new(
            "executor",
            decide::executor_problem(backfill, around).unwrap_or_default(),
            "backfill check",
        ),
    }
}

fn first_samples(state: &State, backfill: &Backfill) -> String {
    let blind = backfill
        .spec
        .signals
        .iter()
        .find_map(|s| state.blind.get(s).map(|b| (s, b)));
    match blind {
        Some((signal, blind)) => format!("no valid sample of {signal} yet: {}", blind.why),
        None => backfill.limit.why.clone(),
    }
}

fn ended(backfill: &Backfill) -> Why {
    let name = &backfill.spec.name;
    match backfill.state() {
        BackfillState::Cancelling => Why::new(
            "cancelling",
            format!("cancelled; {} attempts have not ended", backfill.active().count()),
            "",
        ),
        BackfillState::Cancelled => Why::new(
            "cancelled",
            "the backfill was cancelled",
            format!("backfill rerun {name} DATE"),
        ),
        BackfillState::Incomplete => Why::new(
            "incomplete",
            needs(backfill),
            format!("backfill rerun {name} DATE, or skip"),
        ),
        state => Why::new(state.word(), format!("the backfill is {}", state.word()), ""),
    }
}

/// `nothing can move without you: 1 quarantined, 3 held`.
fn needs(backfill: &Backfill) -> String {
    let waits = [
        ChunkState::Failed,
        ChunkState::Quarantined,
        ChunkState::Held,
        ChunkState::Cancelled,
    ];
    let counts: Vec<String> = waits
        .into_iter()
        .filter(|s| backfill.count(*s) > 0)
        .map(|s| format!("{} {}", backfill.count(s), s.word()))
        .collect();
    format!("nothing can move without you: {}", counts.join(", "))
}

fn paused(backfill: &Backfill, now: Time) -> Why {
    let name = &backfill.spec.name;
    let Some(pause) = &backfill.pause else {
        return Why::new("paused", "paused", "");
    };
    let until = match pause.until {
        Some(at) if at > now => format!(
            ", for {} more",
            human::duration((at - now).to_std().unwrap_or_default())
        ),
        _ => String::new(),
    };
    Why::new(
        "paused",
        format!("paused {}{until}", by(&pause.mark)),
        format!("p, or backfill resume {name}"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        domain::{
            event::{Next, Payload},
            failure::FailureClass,
        },
        plan::testing::{Night, failure},
    };

    fn reason(night: &Night, day: u64) -> String {
        let why = why(&night.state, night.backfill(), night.day(day), &night.around()).unwrap();
        format!("{}: {}", why.reason, why.text)
    }

    #[test]
    fn the_first_reason_in_the_order_of_authority_is_the_one_that_is_told() {
        let mut night = Night::new(5).max_limit(1);
        assert_eq!(reason(&night, 0), "order: next in order");
        night.start(night.day(0));
        assert_eq!(
            reason(&night, 2),
            "limit: 1 running of limit 1; 1 before it in order"
        );
        night.limit_to(0);
        assert_eq!(reason(&night, 2), "signal: because");
        night.human(Payload::Paused { until: None });
        assert_eq!(reason(&night, 2), "paused: paused by minh");
        let retry_at = night.now + chrono::Duration::minutes(2);
        night.ours(Payload::BreakerOpened {
            why: "5 chunks in a row failed alike: boom".to_owned(),
            retry_at,
        });
        assert_eq!(
            reason(&night, 2),
            "breaker: 5 chunks in a row failed alike: boom; one canary in 2m"
        );
    }

    #[test]
    fn a_failed_day_says_what_failed_and_when_it_is_tried_again() {
        let mut night = Night::new(2);
        let day = night.day(0);
        night.start(day);
        let at = night.now + chrono::Duration::seconds(130);
        night.fail_with(
            day,
            failure(FailureClass::Platform),
            Next::Retry {
                at,
                profile: 0,
                used: 3,
                budget: 10,
            },
        );
        assert_eq!(
            reason(&night, 0),
            "retry: platform exit 1: boom, retry 3/10 in 2m10s"
        );
        night.now = at;
        assert_eq!(
            reason(&night, 0),
            "order: platform exit 1: boom, retry 3/10 is due; next in order"
        );
    }

    #[test]
    fn a_backfill_with_a_signal_waits_for_its_first_samples_and_says_what_is_wrong_with_it() {
        let mut night = Night::new(2).signals(&["orders"]);
        assert_eq!(reason(&night, 0), "blind: waits for two valid samples of orders");
        let payload = Payload::BlindSince {
            signal: "orders".parse().unwrap(),
            last: None,
            why: "empty result".to_owned(),
        };
        night.journal(payload);
        assert_eq!(
            reason(&night, 0),
            "blind: no valid sample of orders yet: empty result"
        );
        assert!(night.decide().is_empty());
    }

    #[test]
    fn every_state_of_a_chunk_has_an_answer() {
        let mut night = Night::new(6).max_limit(6).slots(6);
        night.start(night.day(0));
        night.finish(night.day(0));
        night.start(night.day(1));
        night.human(Payload::HoldPlaced {
            chunks: vec![night.day(2)],
        });
        night.human(Payload::Skipped {
            chunks: vec![night.day(3)],
        });
        night.start(night.day(4));
        night.ours(Payload::RunUncertain {
            attempt: night.attempt(night.day(4)),
            why: "no answer".to_owned(),
        });
        assert_eq!(reason(&night, 0), "done: done in 0s by attempt 1");
        assert_eq!(reason(&night, 1), "running: attempt 1 runs on here for 0s");
        assert_eq!(reason(&night, 2), "hold: held by minh");
        assert_eq!(reason(&night, 3), "skipped: skipped by minh");
        assert_eq!(reason(&night, 4), "uncertain: no answer; its slot stays taken");
    }

    #[test]
    fn without_a_supervisor_nothing_starts_and_that_is_said() {
        let night = Night::new(1);
        let mut around = night.around();
        around.supervised = false;
        let why = why(&night.state, night.backfill(), night.day(0), &around).unwrap();
        assert_eq!(why.reason, "unsupervised");
        assert!(decide::decide(&night.state, &around).is_empty());
    }
}
