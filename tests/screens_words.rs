//! What the screen says: the state word, the limit that holds, the *why* sentence, the verdict, and how
//! chunks roll up. Made of real events.
#![allow(clippy::unwrap_used, clippy::panic)] // A test may.

mod night;

use backfill::{
    domain::{
        calendar::Granularity,
        event::{Force, Payload as P, Rule},
        ids::ChunkId,
        state::{Backfill, ChunkState},
    },
    tui::{
        model::{Feed, LeaseView},
        view::{
            filter::Filter,
            rollup::{Year, years},
            sentences::{Binder, allowed, held_by_signal, state_word, why},
            verdict::was_it_us,
        },
    },
};
use chrono::TimeDelta;
use night::*;

fn at(journal: &Journal) -> Feed {
    feed(journal, t0310(), Some(0.7))
}

fn of(feed: &Feed) -> &Backfill {
    &feed.state.backfills[&id()]
}

fn words(feed: &Feed) -> (String, String) {
    (
        state_word(feed, of(feed), t0310()).long,
        why(feed, of(feed), t0310()),
    )
}

/// One event more than the night had.
fn after(payload: P, reason: Option<&str>) -> Feed {
    let mut journal = night();
    journal.because(clock(3, 10, 10), human("minh"), reason, payload);
    at(&journal)
}

#[test]
fn a_cut_leaves_it_running_and_says_what_cut_it() {
    let feed = at(&night());
    let (state, why) = words(&feed);
    assert_eq!(state, "RUNNING");
    assert!(why.starts_with("limit 8 to 4 at 03:08:45: orders-live 64 s is over soft 60"));
    assert_eq!(allowed(of(&feed), t0310()).value, 4);
    assert_eq!(allowed(of(&feed), t0310()).by, Binder::Controller);
}

/// The order of authority: a human's pause stands before what a signal says.
#[test]
fn a_human_pause_is_pausing_until_the_supervisor_confirmed_it() {
    let feed = after(P::Paused { until: None }, Some("incident 4711"));
    assert_eq!(
        words(&feed),
        (
            "PAUSING".to_owned(),
            "paused by minh at 03:10:10: \"incident 4711\"; the supervisor has not confirmed it yet"
                .to_owned()
        )
    );
    let confirmed = cases::paused_by_human();
    let word = state_word(&confirmed.feed, of(&confirmed.feed), confirmed.now);
    assert_eq!(
        (word.long.as_str(), word.short.as_str()),
        ("PAUSED by minh", "PAUSED")
    );
    let sentence = why(&confirmed.feed, of(&confirmed.feed), confirmed.now);
    assert_eq!(
        sentence,
        "paused by minh at 03:09:50: \"incident 4711\"; 7 attempts under way then"
    );
    assert_eq!(allowed(of(&confirmed.feed), confirmed.now).by, Binder::Human);
}

#[test]
fn a_pause_with_an_end_says_when_it_ends() {
    let feed = after(
        P::Paused {
            until: Some(clock(3, 30, 0)),
        },
        None,
    );
    assert!(words(&feed).1.ends_with("ends by itself at 03:30:00 in 19m"));
}

#[test]
fn a_pause_that_nobody_can_confirm_is_a_pause() {
    let mut feed = after(P::Paused { until: None }, None);
    feed.lease = LeaseView::Nobody;
    let (state, why) = words(&feed);
    assert_eq!(state, "PAUSED by minh");
    assert!(why.ends_with("nobody supervises, so nothing starts anyway"));
}

#[test]
fn a_signal_past_hard_pauses_and_one_past_critical_is_critical() {
    let case = cases::paused_by_signal();
    let backfill = of(&case.feed);
    assert_eq!(
        state_word(&case.feed, backfill, case.now).long,
        "PAUSED by signal"
    );
    assert!(held_by_signal(&case.feed, backfill, case.now));
    let mut journal = night();
    journal.limit(
        clock(3, 10, 0),
        4,
        0,
        Rule::Critical,
        "critical: 950 s is over critical 900",
    );
    let feed = at(&journal);
    assert_eq!(
        words(&feed),
        (
            "CRITICAL".to_owned(),
            "critical: 950 s is over critical 900".to_owned()
        )
    );
}

#[test]
fn blind_counts_from_the_last_valid_sample() {
    let case = cases::blind();
    let word = state_word(&case.feed, of(&case.feed), case.now);
    assert_eq!(
        (word.long.as_str(), word.short.as_str()),
        ("BLIND 4m10s", "BLIND")
    );
    assert!(!held_by_signal(&case.feed, of(&case.feed), case.now));
}

/// Before the limit was halved, the sentence still names signal, instant and cause.
#[test]
fn a_young_blindness_names_signal_and_cause() {
    let mut journal = night();
    let (signal, why) = (name("orders-live"), "503 Service Unavailable".to_owned());
    let last = Some(clock(3, 9, 50));
    journal.push(
        clock(3, 10, 5),
        human("minh"),
        P::BlindSince { signal, last, why },
    );
    let (state, why) = words(&at(&journal));
    assert_eq!(state, "BLIND 30s");
    assert_eq!(
        why,
        "no valid sample of orders-live since 03:09:50: 503 Service Unavailable; no growth"
    );
}

#[test]
fn a_cap_and_an_override_name_who_and_how_long() {
    let feed = after(P::CapSet { cap: Some(2) }, Some("finance closes"));
    assert_eq!(allowed(of(&feed), t0310()).by, Binder::Cap);
    assert!(
        words(&feed)
            .1
            .starts_with("limit 2: cap set by minh at 03:10:10: \"finance closes\"")
    );
    let force = Force {
        limit: 7,
        until: clock(3, 40, 20),
    };
    let feed = after(P::Forced { force: Some(force) }, None);
    assert_eq!(
        (allowed(of(&feed), t0310()).value, allowed(of(&feed), t0310()).by),
        (7, Binder::Force)
    );
    assert!(
        words(&feed)
            .1
            .starts_with("limit 7: forced by minh until 03:40:20 (in 30m)")
    );
    assert_eq!(
        allowed(of(&feed), clock(3, 41, 0)).value,
        4,
        "an override that ran out is none"
    );
}

/// An override never goes above hard.
#[test]
fn an_override_does_not_lift_a_pause_by_a_signal() {
    let mut journal = paused_night();
    let force = Some(Force {
        limit: 7,
        until: clock(4, 0, 0),
    });
    journal.push(clock(3, 18, 0), human("minh"), P::Forced { force });
    let feed = feed(&journal, t0318(), Some(-0.4));
    assert_eq!(allowed(of(&feed), t0318()).value, 0);
}

#[test]
fn a_breaker_and_a_stop_on_failure_say_what_they_wait_for() {
    let breaker = P::BreakerOpened {
        why: "5 in a row: no such table".to_owned(),
        retry_at: clock(3, 20, 0),
    };
    let (state, why) = words(&after(breaker, None));
    assert_eq!(state, "PAUSED by breaker");
    assert_eq!(
        why,
        "breaker open since 03:10:10: 5 in a row: no such table; one chunk is tried at 03:20:00"
    );
    let chunk = ChunkId::day(day(2022, 6, 19));
    let stopped = P::StoppedOnFailure {
        chunk,
        why: "1 of 1 allowed".to_owned(),
    };
    let (state, why) = words(&after(stopped, None));
    assert_eq!(state, "PAUSED by failure");
    assert_eq!(why, "no further starts since 2022-06-19 failed: 1 of 1 allowed");
}

#[test]
fn the_end_says_what_it_was() {
    let case = cases::complete();
    assert_eq!(
        why(&case.feed, of(&case.feed), case.now),
        "all 91 days are done since 03:01:40"
    );
    let mut journal = night();
    let state = backfill::domain::fold::fold(&journal.events);
    let rest: Vec<ChunkId> = state.backfills[&id()]
        .chunks
        .iter()
        .filter(|c| matches!(c.state, ChunkState::Pending | ChunkState::Held))
        .map(|c| c.id)
        .collect();
    journal.push(clock(3, 10, 0), human("minh"), P::Skipped { chunks: rest });
    for chunk in state.backfills[&id()].active() {
        journal.end(
            clock(3, 10, 1),
            chunk.id,
            1,
            "airflow-eu",
            backfill::domain::event::Outcome::Done,
        );
    }
    let conflict = ChunkId::day(day(2022, 11, 26));
    journal.push(
        clock(3, 10, 2),
        human("minh"),
        P::Skipped {
            chunks: vec![conflict],
        },
    );
    let (state, why) = words(&at(&journal));
    assert_eq!(state, "INCOMPLETE");
    assert_eq!(why, "nothing can move without you: 1 failed, 1 quarantined");
}

#[test]
fn a_journal_that_cannot_be_read_is_said_before_all_else() {
    let mut feed = at(&night());
    feed.problem = Some("disk I/O error".to_owned());
    assert_eq!(
        words(&feed).1,
        "the journal cannot be read since 03:10:20: disk I/O error"
    );
}

#[test]
fn was_it_us_needs_lag_to_turn_and_compares_it_with_what_ran() {
    let say = |t: backfill::domain::Time| t.format("%H:%M").to_string();
    let paused = clock(3, 12, 20);
    let limits = |now| feed(&night(), now, None).limits.into_iter();
    let early = was_it_us(
        &signal(clock(3, 13, 0), None),
        limits(clock(3, 13, 0)),
        paused,
        say,
    );
    assert_eq!(early.answer, "Too early.");
    let yes = was_it_us(&signal(t0318(), None), limits(t0318()), paused, say);
    assert_eq!(yes.answer, "Likely yes.");
    assert!(
        yes.evidence.contains("25 s after running weight fell 7 to 6"),
        "{}",
        yes.evidence
    );
    let idle = [(clock(1, 0, 0), 8, 7)].into_iter();
    let no = was_it_us(&signal(t0318(), None), idle, paused, say);
    assert_eq!(no.answer, "Likely no.");
    let silent = backfill::tui::model::SignalView {
        samples: Default::default(),
        ..signal(t0318(), None)
    };
    assert_eq!(
        was_it_us(&silent, limits(t0318()), paused, say).answer,
        "Too early."
    );
}

#[test]
fn a_year_counts_what_begins_in_it_and_the_worst_of_a_week_wins() {
    let feed = at(&night());
    let year = Year::of(of(&feed), 2022, |_| true);
    assert_eq!((year.chunks, year.settled, year.busy), (365, 362, true));
    let (column, row) = year.place(day(2022, 11, 25));
    assert_eq!(year.day(column, row).unwrap().state, ChunkState::Quarantined);
    let week = year.week(column).unwrap();
    assert_eq!((week.state, week.failed), (ChunkState::Failed, 1));
    assert_eq!(year.date(column, row), Some(day(2022, 11, 25)));
    assert!(!Year::of(of(&feed), 2024, |_| true).busy);
    assert_eq!(years(of(&feed)), Some((2022, 2024)));
}

/// A week or month fills all of its days, also those in the year after, and counts once.
#[test]
fn long_chunks_fill_their_days_and_count_once() {
    let mut journal = Journal::new(id());
    let mut spec = spec();
    (spec.granularity, spec.start, spec.end) = (Granularity::Week, day(2022, 12, 20), day(2023, 1, 20));
    journal.push(
        clock(3, 0, 0),
        human("minh"),
        P::Started {
            spec: Box::new(spec),
            hash: "h".to_owned(),
        },
    );
    let feed = at(&journal);
    let (old, new) = (
        Year::of(of(&feed), 2022, |_| true),
        Year::of(of(&feed), 2023, |_| true),
    );
    assert_eq!(old.days.iter().flatten().count(), 12);
    assert_eq!(
        new.days.iter().flatten().count(),
        20,
        "1 January belongs to the week of 26 December"
    );
    assert_eq!((old.chunks, new.chunks), (2, 3));
    assert_eq!(years(of(&feed)), Some((2022, 2023)));
}

#[test]
fn a_leap_year_that_begins_on_a_sunday_has_54_weeks() {
    let mut journal = Journal::new(id());
    let mut spec = spec();
    (spec.start, spec.end) = (day(2012, 1, 1), day(2012, 12, 31));
    journal.push(
        clock(3, 0, 0),
        human("minh"),
        P::Started {
            spec: Box::new(spec),
            hash: "h".to_owned(),
        },
    );
    let feed = at(&journal);
    let year = Year::of(of(&feed), 2012, |_| true);
    assert_eq!(year.columns(), 54);
    assert_eq!(year.place(day(2012, 12, 31)), (53, 0));
}

#[test]
fn a_filter_looks_at_date_state_cause_and_hand() {
    let feed = at(&night());
    let count = |text: &str, only_bad: bool| {
        let mut app = app();
        app.filter = text.to_owned();
        app.only_bad = only_bad;
        let filter = Filter::of(&app);
        of(&feed).chunks.iter().filter(|c| filter.shows(c)).count()
    };
    assert_eq!(count("", false), 1_096);
    assert_eq!(count("2022-11", false), 30);
    assert_eq!(count("quarantined", false), 1);
    assert_eq!(count("Timeout", false), 1);
    assert_eq!(count("OutOfMemory", false), 1);
    assert_eq!(count("freeze", false), 14);
    assert_eq!(count("", true), 3);
    assert_eq!(count("2022-06", true), 1);
    assert_eq!(count("2022-11-25", false), 1);
    assert_eq!(count("-02-29", false), 1);
    assert_eq!(count("no such thing", false), 0);
}

#[test]
fn a_lag_before_its_first_pause_is_flat_only_when_it_is() {
    let mut case = cases::running();
    case.feed.signals.get_mut(&name("orders-live")).unwrap().slope = Some(0.001);
    let look = look(
        "dark",
        backfill::tui::theme::Level::None,
        backfill::tui::glyphs::GlyphSet::Ascii,
    );
    let drawn = text(&screen((120, 40), &case.feed, &case.app, &look, case.now));
    assert!(drawn.contains("96 s flat  low 30"), "{drawn}");
    case.feed.signals.get_mut(&name("orders-live")).unwrap().slope = Some(-0.4);
    let drawn = text(&screen(
        (120, 40),
        &case.feed,
        &case.app,
        &look,
        case.now + TimeDelta::zero(),
    ));
    assert!(drawn.contains("96 s v 0.4/s low in 3m"), "{drawn}");
}
