//! When the shown backfill will be done (law C3), as the feeder hands it to the screen: the pure estimate of
//! `plan::eta` over what the journal knows. Made beside the drawing, because a hundred draws of many chunks do not
//! belong into a frame.

use crate::{
    domain::{
        Time,
        blackout::{self, Blackout},
        ids::BackfillId,
        state::{Backfill, Chunk, ChunkState, Phase, State},
    },
    plan::{
        decide::{self, LookAhead, Stop, Surroundings},
        eta::{self, Eta, Outlook, RunningChunk, WaitingChunk},
        expect,
    },
};
use std::time::Duration;

/// The same world gives the same answer.
const SEED: u64 = 0x6261_636b;

/// What is known about the end of a backfill, and since when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Estimate {
    /// Which backfill.
    pub backfill: BackfillId,
    /// When it was made; its durations count from here.
    pub at: Time,
    /// The limit that it assumes: the one that holds, or while stopped the one with which it will go on.
    pub limit: u32,
    /// The end under that limit.
    pub eta: Eta,
    /// The end under another limit, for which the operator asked.
    pub what_if: Option<(u32, Eta)>,
    /// When the next blackout begins, if nothing of what waits would be done before it.
    pub before_blackout: Option<Time>,
}

/// The limit that an estimate assumes, and whether the clock is stopped.
pub fn assumed(state: &State, backfill: &Backfill, around: &Surroundings) -> (u32, bool) {
    let allowed = decide::allowed(backfill, around.now).limit;
    // A blackout ends by itself and is counted into the time that the rest takes.
    let stopped = allowed == 0 || decide::stops(state, backfill, around).any(|stop| stop != Stop::Blackout);
    let cap = backfill.cap.as_ref().map_or(u32::MAX, |(cap, _)| *cap);
    let goes_on = backfill.spec.max_limit.min(cap.max(1)).max(1);
    (if stopped { goes_on } else { allowed }, stopped)
}

/// Makes the estimate. `duty`: the share of time that starts were not held back, lately. `what_if`: another limit to
/// be answered for.
pub fn make(
    state: &State,
    backfill: &Backfill,
    around: &Surroundings,
    duty: f64,
    what_if: Option<u32>,
) -> Estimate {
    let (limit, stopped) = assumed(state, backfill, around);
    let finished = expect::finished(backfill);
    let running = running(backfill, around.now);
    let waiting = waiting(backfill, around.now);
    let outlook = Outlook {
        finished: &finished,
        running: &running,
        waiting: &waiting,
        limit,
        stopped,
        attempts_per_chunk: attempts_per_chunk(backfill),
        duty,
    };
    let under = |limit: u32| {
        let eta = eta::estimate(&Outlook { limit, ..outlook }, SEED);
        with_blackouts(eta, &backfill.spec.blackout, around.now)
    };
    Estimate {
        backfill: backfill.id.clone(),
        at: around.now,
        limit,
        eta: under(limit),
        what_if: what_if.filter(|other| *other > 0).map(|other| {
            let other = other.min(backfill.spec.max_limit.max(1));
            (other, under(other))
        }),
        before_blackout: before_blackout(backfill, around.now),
    }
}

fn before_blackout(backfill: &Backfill, now: Time) -> Option<Time> {
    let ahead = LookAhead::of(backfill, now)?;
    ahead.holds_all(backfill, now).then_some(ahead.closed.from)
}

fn running(backfill: &Backfill, now: Time) -> Vec<RunningChunk> {
    let runs = |chunk: &Chunk| {
        let attempt = chunk.open()?;
        let elapsed = attempt.started.and_then(|from| (now - from).to_std().ok());
        Some(RunningChunk {
            chunk: chunk.id,
            lane: backfill.spec.lane(chunk.id),
            weight: attempt.weight,
            elapsed: elapsed.unwrap_or_default(),
        })
    };
    backfill.active().filter_map(runs).collect()
}

/// The same end where work goes on outside of blackouts only.
fn with_blackouts(eta: Eta, windows: &[Blackout], now: Time) -> Eta {
    let Eta::Range {
        p50,
        p90,
        long_pole,
        extrapolates,
    } = eta
    else {
        return eta;
    };
    let later = |work| {
        let end = blackout::after(windows, now, work).and_then(|end| (end - now).to_std().ok());
        end.unwrap_or(Duration::MAX)
    };
    Eta::Range {
        p50: later(p50),
        p90: later(p90),
        long_pole,
        extrapolates,
    }
}

/// What will start by itself, in order; retries that are not due yet come last.
fn waiting(backfill: &Backfill, now: Time) -> Vec<WaitingChunk> {
    let later = backfill
        .chunks
        .iter()
        .filter(|c| c.state == ChunkState::Failed && c.retry.as_ref().is_some_and(|retry| retry.at > now));
    let all = decide::in_order(backfill, now).into_iter().chain(later);
    all.map(|chunk| WaitingChunk {
        chunk: chunk.id,
        lane: backfill.spec.lane(chunk.id),
        weight: backfill.spec.weight(chunk.id),
    })
    .collect()
}

/// How many attempts a chunk took until it was done; what a human asked for again counts from there on.
fn attempts_per_chunk(backfill: &Backfill) -> f64 {
    let done = backfill.chunks.iter().filter(|c| c.state == ChunkState::Done);
    let (mut chunks, mut attempts) = (0.0, 0.0);
    for chunk in done {
        let counted = chunk.attempts.iter().skip(chunk.budget_from as usize);
        chunks += 1.0;
        attempts += counted
            .filter(|a| matches!(a.phase, Phase::Done | Phase::Failed))
            .count() as f64;
    }
    if chunks > 0.0 { attempts / chunks } else { 1.0 }
}

/// The share of time in which starts were allowed, from the limit at the end of each minute; older minutes count
/// less, with a time constant of a day. 1 where nothing is known.
pub fn duty(minutes: impl IntoIterator<Item = (Time, u32)>, now: Time) -> f64 {
    let (mut all, mut free) = (0.0, 0.0);
    for (at, limit) in minutes {
        let days = (now - at).num_seconds().max(0) as f64 / 86_400.0;
        let weight = (-days).exp();
        all += weight;
        free += if limit > 0 { weight } else { 0.0 };
    }
    if all > 0.0 { free / all } else { 1.0 }
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
    use chrono::TimeDelta;

    fn of(night: &Night) -> Estimate {
        make(&night.state, night.backfill(), &night.around(), 1.0, Some(2))
    }

    fn after(done: u64) -> Night {
        let mut night = Night::new(30).max_limit(4);
        for i in 0..done {
            let day = night.day(i);
            night.start(day);
            night.now += TimeDelta::minutes(10);
            night.finish(day);
        }
        night
    }

    #[test]
    fn it_says_nothing_before_eight_are_done_and_a_range_from_then_on() {
        assert_eq!(of(&after(7)).eta, Eta::TooEarly { finished: 7 });
        assert!(matches!(of(&after(8)).eta, Eta::Range { .. }));
    }

    /// Case B26: no date while the clock is stopped, whoever stopped it.
    #[test]
    fn while_nothing_starts_there_is_work_left_and_no_date() {
        let mut night = after(8);
        night.human(Payload::Paused { until: None });
        assert!(matches!(of(&night).eta, Eta::Stopped { .. }));
        let mut night = after(8);
        night.limit_to(0);
        assert!(matches!(of(&night).eta, Eta::Stopped { .. }));
        assert_eq!(of(&night).limit, 4, "it will go on with the whole limit");
        let night = after(8);
        let mut around = night.around();
        around.supervised = false;
        let alone = make(&night.state, night.backfill(), &around, 1.0, None);
        assert!(matches!(alone.eta, Eta::Stopped { .. }));
    }

    /// Case B26: from the journal to the estimate, with chunks of ten minutes and six hours of pause in the middle.
    #[test]
    fn six_hours_of_pause_in_the_middle_change_nothing_of_the_work_that_is_left() {
        let work = |estimate: &Estimate| match estimate.eta {
            Eta::Range { p50: work, .. } | Eta::Stopped { work_left: work } => work.as_secs_f64(),
            _ => panic!("{estimate:?}"),
        };
        let near = |a: &Estimate, b: &Estimate| (work(a) / work(b) - 1.0).abs() < 0.05;
        let mut night = Night::new(400).max_limit(4);
        let rounds = |night: &mut Night, from: u64, to: u64| {
            for round in from..to {
                let days = (4 * round..4 * round + 4).map(|i| night.day(i));
                let days: Vec<_> = days.collect();
                days.iter().for_each(|day| night.start(*day));
                night.now += TimeDelta::minutes(10);
                days.iter().for_each(|day| night.finish(*day));
            }
        };
        rounds(&mut night, 0, 50);
        let before = of(&night);
        assert!(matches!(before.eta, Eta::Range { .. }));
        // Four are under way when it is paused; they end.
        rounds(&mut night, 50, 51);
        night.human(Payload::Paused { until: None });
        let mut held = Vec::new();
        for _ in 0..6 {
            night.now += TimeDelta::hours(1);
            held.push(of(&night));
        }
        for held in &held {
            assert!(matches!(held.eta, Eta::Stopped { .. }), "{held:?}");
            assert!(near(held, &before), "{held:?}, before: {before:?}");
        }
        assert_eq!(
            work(&held[0]),
            work(&held[5]),
            "it does not grow while it is held"
        );
        night.human(Payload::Resumed {});
        let after = of(&night);
        assert!(matches!(after.eta, Eta::Range { .. }));
        assert!(near(&after, &before), "{after:?}, before: {before:?}");
    }

    #[test]
    fn another_limit_is_answered_for_beside_the_one_that_holds() {
        let estimate = of(&after(8));
        let Some((2, Eta::Range { p50: slower, .. })) = estimate.what_if else {
            panic!("{estimate:?}");
        };
        let Eta::Range { p50, .. } = estimate.eta else {
            panic!("{estimate:?}");
        };
        assert!(slower > p50, "{slower:?} at 2, {p50:?} at 4");
    }

    #[test]
    fn held_and_skipped_days_are_no_work_and_a_retry_is() {
        let mut night = after(28);
        let (held, failing) = (night.day(28), night.day(29));
        night.human(Payload::HoldPlaced { chunks: vec![held] });
        assert_eq!(waiting(night.backfill(), night.now).len(), 1);
        night.start(failing);
        let failure = failure(FailureClass::Platform);
        let next = Next::Retry {
            at: night.now + TimeDelta::hours(1),
            profile: 0,
            used: 1,
            budget: 3,
        };
        night.fail_with(failing, failure, next);
        let left = waiting(night.backfill(), night.now);
        assert_eq!(left.iter().map(|w| w.chunk).collect::<Vec<_>>(), [failing]);
    }

    #[test]
    fn duty_is_the_share_of_minutes_in_which_something_could_start() {
        let now = Time::UNIX_EPOCH + TimeDelta::days(400);
        let minutes = |n: i64| (0..n).map(move |i| now - TimeDelta::minutes(i));
        assert!((duty(minutes(0).map(|t| (t, 0)), now) - 1.0).abs() < 1e-9);
        let half = duty(minutes(60).zip([0, 4].into_iter().cycle()), now);
        assert!((half - 0.5).abs() < 0.01, "{half}");
    }
}
