//! Events in words and as JSON.

use crate::domain::{
    attach::RunChange,
    event::{Event, Next, Outcome, Payload, Read},
    human,
    ids::ChunkId,
};
use chrono::SecondsFormat;
use serde_json::{Value, json};

/// An event as one line of JSON: seq, time, kind, backfill, actor, reason, and the payload's own fields.
pub fn json(event: &Event) -> String {
    json_with(event, None)
}

/// The same, with the reason for which the fold refused it.
pub fn json_with(event: &Event, refused: Option<&str>) -> String {
    let mut object = match &event.payload {
        Read::Known(payload) => serde_json::to_value(payload).unwrap_or_else(|_| json!({})),
        Read::Unknown { kind, version } => json!({ "kind": kind, "v": version, "unknown": true }),
    };
    if let Value::Object(map) = &mut object {
        map.insert("seq".to_owned(), json!(event.seq));
        map.insert(
            "at".to_owned(),
            json!(event.at.to_rfc3339_opts(SecondsFormat::Millis, true)),
        );
        map.insert("actor".to_owned(), json!(event.actor.name));
        if let Some(id) = &event.backfill {
            map.insert("backfill".to_owned(), json!(id));
        }
        if let Some(reason) = &event.reason {
            map.insert("reason".to_owned(), json!(reason));
        }
        if let Some(why) = refused {
            map.insert("refused".to_owned(), json!(why));
        }
    }
    object.to_string()
}

/// An event as one line: time in UTC, words, actor.
pub fn plain(event: &Event) -> String {
    let reason = event.reason.as_ref().map_or(String::new(), |r| format!(" ({r})"));
    format!(
        "{}  {}{reason}  {}",
        event.at.format("%Y-%m-%d %H:%M:%S"),
        words(event),
        event.actor.name
    )
}

/// What happened, in words.
pub fn words(event: &Event) -> String {
    match &event.payload {
        Read::Unknown { kind, version } => format!("{kind} v{version}, from a newer backfill"),
        Read::Known(payload) => of(payload),
    }
}

fn of(payload: &Payload) -> String {
    match payload {
        Payload::Started { spec, hash } => format!(
            "started {} {} .. {}, plan {hash}",
            spec.target, spec.start, spec.end
        ),
        Payload::Paused { until: None } => "paused".to_owned(),
        Payload::Paused { until: Some(at) } => format!("paused until {}", at.format("%H:%M:%S")),
        Payload::Resumed {} => "resumed".to_owned(),
        Payload::CapSet { cap: Some(n) } => format!("capped at {n}"),
        Payload::CapSet { cap: None } => "cap taken away".to_owned(),
        Payload::Forced { force: Some(f) } => {
            format!("limit forced to {} until {}", f.limit, f.until.format("%H:%M:%S"))
        }
        Payload::Forced { force: None } => "force ended".to_owned(),
        Payload::HoldPlaced { chunks } => format!("held {}", several(chunks)),
        Payload::HoldReleased { chunks } => format!("released {}", several(chunks)),
        Payload::Skipped { chunks } => format!("skipped {}", several(chunks)),
        Payload::RerunRequested { chunks, .. } => format!("re-run asked for {}", several(chunks)),
        Payload::StopRequested { chunks } => format!("stop asked for {}", several(chunks)),
        Payload::Braked { attempts, why } => {
            let chunks: Vec<ChunkId> = attempts.iter().map(|a| a.chunk).collect();
            format!(
                "braked, cancelled {}: {why}; they run again later",
                several(&chunks)
            )
        }
        Payload::CancelRequested {} => "cancelled".to_owned(),
        Payload::Amended { hash, .. } => format!("amended, plan {hash}"),
        Payload::Resolved { chunk, verdict } => format!("{chunk} resolved as {verdict:?}").to_lowercase(),
        Payload::TakeRequested { chunk, run, how, .. } => format!("{chunk}: {} {run}", how.word()),
        Payload::ActionRequested { action, .. } => format!("asked for: {}", action.words()),
        Payload::Detached {} => "detached".to_owned(),
        Payload::LatchAcknowledged {} => "what the throttle waits for acknowledged".to_owned(),
        Payload::BreakerReset {} => "breaker closed by hand".to_owned(),
        Payload::StopSupervising {} => "asked the supervisor to stop".to_owned(),
        Payload::LeaseTaken {
            epoch,
            holder,
            from: None,
        } => format!("{holder} supervises, epoch {epoch}"),
        Payload::LeaseTaken {
            epoch,
            holder,
            from: Some(from),
        } => {
            format!("{holder} took over from {from}, epoch {epoch}")
        }
        Payload::LeaseReleased { epoch } => format!("stopped supervising, epoch {epoch}"),
        Payload::PauseApplied { in_flight } => format!("nothing more is sent; {} under way", in_flight.len()),
        Payload::SubmissionIntended {
            attempt, executor, ..
        } => {
            format!("{} goes to {executor}, attempt {}", attempt.chunk, attempt.no)
        }
        Payload::SubmissionWithdrawn { attempt, why } => format!("{} withdrawn: {why}", attempt.chunk),
        Payload::SubmissionAccepted {
            attempt,
            adopted: true,
            ..
        } => format!("{} found running, adopted", attempt.chunk),
        Payload::SubmissionAccepted { attempt, .. } => {
            format!("{} started, attempt {}", attempt.chunk, attempt.no)
        }
        Payload::RunStarted { attempt } => format!("{} runs", attempt.chunk),
        Payload::RunUncertain { attempt, why } => format!("{} uncertain: {why}", attempt.chunk),
        Payload::RunEnded {
            attempt,
            outcome,
            started,
            ended,
            note,
            ..
        } => {
            let took = match (started, ended) {
                (Some(a), Some(b)) => {
                    format!(" in {}", human::duration((*b - *a).to_std().unwrap_or_default()))
                }
                _ => String::new(),
            };
            let note = note.as_ref().map_or(String::new(), |n| format!("; {n}"));
            format!("{} {}{note}", attempt.chunk, end(outcome, &took))
        }
        Payload::DateTaken { attempt, what, .. } => format!("{} held: date taken by {what}", attempt.chunk),
        Payload::ActionSent { sent, .. } => format!("sends {sent}"),
        Payload::ActionAnswered { ok: true, said, .. } => format!("answer: {said}"),
        Payload::ActionAnswered { ok: false, said, .. } => format!("refused: {said}"),
        Payload::ActionEnded { ok: true, said, .. } => said.clone(),
        Payload::ActionEnded { ok: false, said, .. } => format!("not done: {said}"),
        Payload::RunsChanged { changes } => runs_changed(changes),
        Payload::PoolTaken { pool, former } => {
            format!("pool {pool} is ours to set, it had {}", slots(*former))
        }
        Payload::PoolReturned {
            pool,
            slots: now,
            why,
        } => format!("pool {pool} has {} again: {why}", slots(*now)),
        Payload::LimitChanged { change } => change.why.clone(),
        Payload::BlindSince { signal, why, .. } => format!("no valid sample of {signal}: {why}"),
        Payload::SeenAgain { signal } => format!("{signal} gives valid samples again"),
        Payload::SignalGone { signal } => {
            format!(
                "{signal} is not in the configuration any more: it protects nothing and holds nothing back"
            )
        }
        Payload::BreakerOpened { why, .. } => format!("breaker open: {why}"),
        Payload::BreakerClosed {} => "breaker closed".to_owned(),
        Payload::StoppedOnFailure { why, .. } => format!("on_failure stops further starts: {why}"),
        Payload::ConfigReloaded { changes } => format!("configuration reloaded: {}", changes.join("; ")),
        Payload::ConfigRejected { error } => {
            format!(
                "changed configuration not taken over: {}",
                crate::domain::text::one_line(error, 200)
            )
        }
    }
}

fn slots(slots: i64) -> String {
    match u64::try_from(slots) {
        Ok(slots) => human::counted(slots, "slot"),
        Err(_) => "no limit".to_owned(),
    }
}

fn runs_changed(changes: &[RunChange]) -> String {
    let one = |c: &RunChange| {
        let word = |w: &Option<String>| w.clone().unwrap_or_else(|| "nothing".to_owned());
        format!("{} {} to {}", c.chunk, word(&c.from), word(&c.to))
    };
    let named: Vec<String> = changes.iter().take(3).map(one).collect();
    match changes.len().checked_sub(named.len()) {
        None | Some(0) => named.join(", "),
        Some(more) => format!("{}, and {more} more", named.join(", ")),
    }
}

fn end(outcome: &Outcome, took: &str) -> String {
    match outcome {
        Outcome::Done => format!("done{took}"),
        Outcome::Cancelled => "cancelled".to_owned(),
        Outcome::Failed { failure, next } => {
            let next = match next {
                Next::Retry { used, budget, .. } => format!("retry {used}/{budget}"),
                Next::Quarantine { why } => format!("quarantined, {why}"),
                Next::Stay => "stays failed".to_owned(),
            };
            format!("failed{took}: {}; {next}", crate::plan::why::words(failure))
        }
    }
}

fn several(chunks: &[ChunkId]) -> String {
    match chunks {
        [] => "nothing".to_owned(),
        [one] => one.to_string(),
        [first, .., last] => format!("{} chunks, {first} .. {last}", chunks.len()),
    }
}
