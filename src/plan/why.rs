//! Why a chunk does not run: for any cell of the calendar the one reason that binds, and what would unblock it.

mod attached;
mod blackout;

pub use attached::under_way;
pub use blackout::ahead as before_blackout;

use super::{
    decide::{self, Allowed, Stop, Surroundings},
    lever,
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
    if backfill.spec.attach.is_some() {
        return Some(attached::why(backfill, chunk, around));
    }
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

/// Why an order that has ended did not become complete, and what would set it in motion again; `None` of every other.
pub fn unfinished(backfill: &Backfill) -> Option<Why> {
    let ends = matches!(
        backfill.state(),
        BackfillState::Incomplete | BackfillState::Cancelled
    );
    ends.then(|| ended(backfill))
}

/// A chunk that does not wait for the planner.
fn of_itself(backfill: &Backfill, chunk: &Chunk, now: Time) -> Why {
    let name = &backfill.spec.name;
    let day = chunk.id;
    match chunk.state {
        ChunkState::Done => Why::new("done", done(chunk), ""),
        ChunkState::Held if is_taken(chunk) => {
            let what = chunk.taken.as_ref().map_or("another run", |t| t.what.as_str());
            attached::taken(backfill, day, what)
        }
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

/// Whether a chunk waits for a human to say what becomes of somebody else's run on its date.
pub fn is_taken(chunk: &Chunk) -> bool {
    chunk.state == ChunkState::Held && chunk.taken.as_ref().is_some_and(|t| t.choice.is_none())
}

fn running(chunk: &Chunk, now: Time) -> Why {
    let Some(attempt) = chunk.open() else {
        return Why::new("running", "runs", "");
    };
    let stopping = if attempt.braked {
        ", is being cancelled to brake and runs again later"
    } else if attempt.stop_requested {
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
    match stop(state, backfill, around) {
        // The wait is not what binds: a re-run would wait for the same.
        Some(stop) => Why {
            text: format!("{cause}, {count} in {left}; {}", stop.text),
            ..stop
        },
        None => Why::new("retry", format!("{cause}, {count} in {left}"), "r runs it now"),
    }
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
    if let Some(why) = blackout::comes(backfill, chunk, around.now) {
        return why;
    }
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
    if let Some(text) = no_room(backfill, weight, by, around) {
        return Why::new("room", format!("{text}; {place}"), "");
    }
    if around.paced.contains(&backfill.id) {
        let gap = human::duration(around.tuning.start_gap);
        return Why::new("pace", format!("starts keep a gap of {gap}; {place}"), "");
    }
    Why::new("order", place, "")
}

/// The limit would allow it, the learned law does not admit it yet.
fn no_room(backfill: &Backfill, weight: u32, by: Binding, around: &Surroundings) -> Option<String> {
    let admission = decide::admission(backfill, by, around)?;
    let running = backfill.running_weight();
    if admission.allows(running, weight) {
        return None;
    }
    if weight > 1 && weight > admission.heavy {
        return Some(format!(
            "of weight {weight}: starts when lag is low enough for it"
        ));
    }
    let wait = admission.one_more_in.map(|s| {
        let wait = std::time::Duration::try_from_secs_f64(s).unwrap_or_default();
        format!(", one more in {}", human::duration(wait))
    });
    Some(format!(
        "the live load leaves room for {}, {running} running{}",
        admission.up_to,
        wait.unwrap_or_default()
    ))
}

fn no_slot(state: &State, backfill: &Backfill, around: &Surroundings) -> Option<String> {
    let slots = around.executors.get(&backfill.spec.executor)?.slots?;
    let open = |b: &Backfill| {
        b.active()
            .filter(|c| c.open().is_some_and(|a| a.executor == backfill.spec.executor))
            .count()
    };
    let taken: usize = state.backfills.values().map(open).sum();
    (taken >= slots as usize).then(|| format!("all {slots} slots of {} are taken", backfill.spec.executor))
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
        Stop::Unsupervised => unsupervised(state, backfill, around),
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
                format!("mend the cause, then : close-breaker, or backfill close-breaker {name}"),
            )
        }
        Stop::Blackout => blackout::holds(state, backfill, around),
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
            format!(
                "make the signal answer: backfill check; if what it shows is true: backfill acknowledge {name}"
            ),
        ),
        Stop::FirstSamples => Why::new(
            "blind",
            first_samples(state, backfill),
            "make the signal answer: backfill check",
        ),
        Stop::Signal => {
            let latched = backfill.limit.rule == crate::domain::event::Rule::Latch;
            let unblock = if latched {
                format!("acknowledge it: : acknowledge, or backfill acknowledge {name}")
            } else {
                String::new()
            };
            Why::new("signal", backfill.limit.why.clone(), unblock)
        }
        Stop::Unprotected => Why::new(
            "unprotected",
            "what protects it is not in the configuration any more, so nothing starts",
            format!(
                "put its signals back into the file, or take the order over as it is there: backfill amend {name}"
            ),
        ),
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

/// Nobody supervises. What a supervisor would not change is told with it, or its start would be a disappointment.
fn unsupervised(state: &State, backfill: &Backfill, around: &Surroundings) -> Why {
    let text = if backfill.spec.attach.is_some() {
        "nobody supervises, so nothing is looked at and no lever is moved; on the server it goes on"
    } else {
        "nobody supervises, so nothing starts"
    };
    let unblock = format!("S, or backfill run {}", backfill.spec.name);
    let supervised = Surroundings {
        supervised: true,
        ..around.clone()
    };
    let beneath = match decide::stop_of(state, backfill, &supervised) {
        // It measures for itself.
        None | Some(Stop::FirstSamples | Stop::Blind) => return Why::new("unsupervised", text, unblock),
        Some(beneath) => of_stop(state, backfill, beneath, &supervised),
    };
    let then = match beneath.unblock.as_str() {
        "" => unblock,
        help => format!("{unblock}; then: {help}"),
    };
    Why::new(
        "unsupervised",
        format!("{text}; and even then: {}", beneath.text),
        then,
    )
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
        BackfillState::Incomplete => Why::new("incomplete", needs(backfill), what_moves_it(backfill)),
        BackfillState::Detached => Why::new(
            "detached",
            "it was let go of, and is not looked at any more",
            attached::again(backfill),
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

/// The commands that set an incomplete order in motion again, for what it really waits for.
fn what_moves_it(backfill: &Backfill) -> String {
    let name = &backfill.spec.name;
    if backfill.stopped.is_some() {
        return format!("mend the cause, then backfill resume {name}");
    }
    let held = days(backfill, |c| c.state == ChunkState::Held && !is_taken(c));
    let taken = days(backfill, is_taken);
    let ended = days(backfill, |c| {
        matches!(
            c.state,
            ChunkState::Failed | ChunkState::Quarantined | ChunkState::Cancelled
        )
    });
    let release = held.map(|days| format!("release: b, or backfill release {name} {days}"));
    let rerun =
        ended.map(|days| format!("mend the cause, then backfill rerun {name} {days} --failed, or skip"));
    let take = taken.map(|days| {
        format!("decide about the runs that have the dates of {days}: backfill take {name} DAY adopt|clear")
    });
    let all: Vec<String> = release.into_iter().chain(take).chain(rerun).collect();
    all.join("; ")
}

/// The chunk in such a state, or the range of days that holds all of them, as commands take it.
fn days(backfill: &Backfill, such: impl Fn(&Chunk) -> bool) -> Option<String> {
    let mut all = backfill.chunks.iter().filter(|c| such(c)).map(|c| c.id);
    let first = all.next()?;
    Some(match all.next_back() {
        None => first.to_string(),
        Some(last) => format!("{}..{}", first.date, last.date),
    })
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
        format!("paused {}{until}{}", by(&pause.mark), but(backfill)),
        format!("p, or backfill resume {name}"),
    )
}

/// Why a pause does not hold on the server of somebody else's backfill, if it does not.
fn but(backfill: &Backfill) -> String {
    let why_not = lever::pause_there(backfill).and_then(|there| there.why_not());
    why_not.map_or_else(String::new, |why| format!(", but {why}"))
}

#[cfg(test)]
mod tests;
