//! Blackouts, told as nights that begin at 03:12.

use super::{
    decide::{self, Stop},
    testing::Night,
    why,
};
use crate::domain::event::Payload;
use chrono::TimeDelta;
use std::time::Duration;

fn stop(night: &Night) -> Option<Stop> {
    decide::stop_of(&night.state, night.backfill(), &night.around())
}

fn why_of(night: &Night, day: u64) -> (&'static str, String, String) {
    let why = why::why(&night.state, night.backfill(), night.day(day), &night.around()).unwrap();
    (why.reason, why.text, why.unblock)
}

/// A night with so many days done, each of which took so long.
fn after(mut night: Night, done: u64, took: TimeDelta) -> Night {
    let began = night.now;
    for i in 0..done {
        let day = night.day(i);
        night.start(day);
        night.now += took;
        night.finish(day);
        night.now = began;
    }
    night
}

#[test]
fn nothing_starts_in_a_blackout_and_what_runs_goes_on() {
    let mut night = Night::new(5).max_limit(2).blackout("03:30", "05:00");
    night.start(night.day(0));
    assert_eq!(
        night.decide().len(),
        1,
        "18 minutes before, of which nothing is known"
    );
    night.later(18 * 60);
    assert_eq!(stop(&night), Some(Stop::Blackout));
    assert!(night.decide().is_empty());
    assert_eq!(night.backfill().active().count(), 1, "running chunks finish");
    let (reason, text, unblock) = why_of(&night, 1);
    assert_eq!(reason, "blackout");
    assert_eq!(
        text,
        "blackout 03:30 to 05:00 daily UTC: no starts for 90m more; running chunks finish"
    );
    assert!(unblock.contains("backfill amend orders"), "{unblock}");
    night.later(90 * 60);
    assert_eq!(stop(&night), None);
    assert_eq!(night.decide().len(), 1);
}

#[test]
fn a_chunk_that_would_still_run_when_the_blackout_begins_is_not_started() {
    let twenty = TimeDelta::minutes(20);
    let mut night = after(Night::new(20).blackout("03:40", "05:00"), 3, twenty);
    night.now += TimeDelta::minutes(8);
    assert_eq!(night.decide().len(), 4, "20 of 20 minutes left");
    night.later(1);
    assert!(night.decide().is_empty());
    assert_eq!(
        decide::next_weight(night.backfill(), &night.around()),
        None,
        "and the limit does not grow for it"
    );
    let (reason, text, _) = why_of(&night, 5);
    assert_eq!(reason, "blackout");
    assert_eq!(
        text,
        "takes about 20m and would still run when the blackout begins at 03:40 UTC (in 19m); it starts after that"
    );
}

#[test]
fn shorter_chunks_go_before_a_longer_one_that_no_longer_fits() {
    let night = Night::new(20).isolate(&[3]).blackout("03:40", "05:00");
    let night = after(night, 3, TimeDelta::minutes(10));
    let starts: Vec<String> = night
        .decide()
        .iter()
        .map(|i| i.attempt.chunk.to_string())
        .collect();
    assert!(
        !starts.contains(&"2023-01-04".to_owned()),
        "40 minutes by its weight: {starts:?}"
    );
    assert_eq!(starts.first().map(String::as_str), Some("2023-01-05"));
}

#[test]
fn where_nothing_has_finished_the_deadline_counts() {
    let hour = Duration::from_secs(3600);
    let night = Night::new(5).deadline(hour).blackout("04:00", "05:00");
    assert!(night.decide().is_empty(), "48 minutes before");
    let night = Night::new(5).deadline(hour).blackout("04:12", "05:00");
    assert_eq!(night.decide().len(), 4);
    let known = after(
        Night::new(9).deadline(hour).blackout("03:40", "05:00"),
        2,
        TimeDelta::minutes(5),
    );
    assert_eq!(known.decide().len(), 4, "what was measured counts before it");
}

#[test]
fn the_blackout_stands_above_a_pause_and_below_the_breaker_and_says_what_else_holds() {
    let mut night = Night::new(5).blackout("03:00", "05:00");
    night.human(Payload::Paused { until: None });
    assert_eq!(stop(&night), Some(Stop::Blackout));
    let (_, text, unblock) = why_of(&night, 0);
    assert!(text.contains("and even then: paused by minh"), "{text}");
    assert!(unblock.contains("backfill resume"), "{unblock}");
    assert!(
        Stop::Blackout.is_above_controller(),
        "memories do not age meanwhile"
    );
}

#[test]
fn nobody_lifts_a_blackout_by_force_or_by_a_rerun() {
    let mut night = Night::new(5).blackout("03:00", "05:00");
    let force = crate::domain::event::Force {
        limit: 4,
        until: night.now + TimeDelta::hours(1),
    };
    night.human(Payload::Forced { force: Some(force) });
    let chunks = vec![night.day(2)];
    night.human(Payload::HoldPlaced {
        chunks: chunks.clone(),
    });
    night.human(Payload::HoldReleased { chunks });
    assert!(night.decide().is_empty());
}

#[test]
fn what_fits_into_no_gap_is_told_so_instead_of_being_put_off_for_ever() {
    let night = Night::new(5)
        .deadline(Duration::from_secs(4 * 3600))
        .blackout("04:00", "03:00");
    let (reason, text, _) = why_of(&night, 0);
    assert_eq!(reason, "blackout");
    assert!(
        text.ends_with("no time between blackouts is long enough for it"),
        "{text}"
    );
    let all = why::before_blackout(night.backfill(), night.now).unwrap();
    assert_eq!(all.reason, "blackout");
    let open = Night::new(5).blackout("04:00", "05:00");
    assert_eq!(why::before_blackout(open.backfill(), open.now), None);
}

/// What was intended before a crash is asked for anew.
#[test]
fn an_intent_that_never_left_is_not_sent_again_where_it_would_run_into_a_blackout() {
    let mut night = Night::new(5)
        .deadline(Duration::from_secs(600))
        .blackout("04:00", "05:00");
    let day = night.day(0);
    night.intend(day);
    let may = |night: &Night| decide::may_resubmit(&night.state, night.backfill(), day, &night.around());
    assert!(may(&night), "48 minutes before");
    night.later(39 * 60);
    assert!(!may(&night), "nine minutes before");
}
