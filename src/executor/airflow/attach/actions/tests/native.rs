//! Native backfills: which one is meant, what others did meanwhile, and what is refused.

use super::*;
use crate::{
    domain::attach::Reprocess,
    executor::airflow::wire::{Api, Backfill},
};

const PAUSE: Action = Action::Pause { whole_dag: false };
const RESUME: Action = Action::Resume { whole_dag: false };

fn create(limit: u32, reprocess: Reprocess) -> Action {
    Action::Create {
        first: day(1),
        last: day(5),
        limit,
        reprocess,
        newest_first: false,
    }
}

/// One request is sent and accepted, then this happens, and that is said.
fn after_one(play: &mut Play, meanwhile: impl FnOnce(&mut Backfill)) -> (bool, String) {
    let Next::Send { sent, call } = play.next() else {
        panic!("{:?}", play.next())
    };
    let call = play.journal(sent, call);
    let answer = play.model.send(&call, Fault::None);
    play.asked.steps[0].answer = answer;
    meanwhile(&mut play.model.world().natives[0]);
    play.end(&[], false)
}

#[test]
fn what_somebody_else_undid_is_told_and_not_done_again() {
    let mut play = Play::new(None, PAUSE);
    play.twelve();
    let undone = after_one(&mut play, |n| n.paused = false);
    assert_eq!(
        undone,
        (
            false,
            "native backfill 12 was paused, and somebody let it go on since".to_owned()
        )
    );
    let mut play = Play::new(None, RESUME);
    play.twelve();
    play.model.world().natives[0].paused = true;
    let undone = after_one(&mut play, |n| n.paused = true);
    assert_eq!(
        undone,
        (
            false,
            "native backfill 12 went on, and somebody paused it since".to_owned()
        )
    );
    let mut play = Play::new(None, create(2, Reprocess::None));
    let (ok, said) = after_one(&mut play, |n| {
        (n.paused, n.completed) = (true, Some(at("2026-11-29T17:00:05Z")));
    });
    assert!(!ok && said.ends_with("; somebody cancelled it since"), "{said}");
}

/// A pause without an answer would count as somebody else's, and not be lifted by us.
#[test]
fn a_pause_whose_answer_was_lost_is_asked_for_again_until_it_is_answered() {
    let mut play = Play::new(None, PAUSE);
    play.twelve();
    assert!(play.end(&[Fault::After, Fault::After], false).0);
    assert_eq!(play.asked.steps.len(), 1);
    assert_eq!(play.asked.steps[0].answer.as_ref().map(|a| a.0), Some(true));
}

#[test]
fn what_is_over_or_cancelled_is_told_as_that() {
    let cancelled = "native backfill 12 was cancelled at 2026-11-02 00:00Z";
    for (action, ok, words) in [
        (PAUSE, true, ": it starts no further day anyway"),
        (
            RESUME,
            false,
            ", and Airflow never starts anything of a cancelled one again: make a new native backfill over the days \
             that are left",
        ),
    ] {
        let mut play = Play::new(Some(12), action);
        play.twelve_cancelled();
        assert_eq!(play.end(&[], false), (ok, format!("{cancelled}{words}")));
        assert!(play.sent().is_empty());
    }
    let mut play = Play::new(Some(12), Action::Replace { limit: 5 });
    play.twelve_cancelled();
    let said = play.end(&[], false);
    let words = "native backfill 12 is cancelled already: make a new one over the days that are left";
    assert_eq!(said, (false, words.to_owned()));
}

#[test]
fn the_one_that_is_attached_to_is_meant_and_when_it_is_over_the_one_that_took_its_place() {
    let act = |attached, seen: &[(u64, u32, u32, bool)]| {
        let mut play = Play::new(attached, PAUSE);
        for (id, from, to, over) in seen {
            let mut native = native(*id, date(*from), date(*to));
            native.completed = over.then(|| date(28));
            play.model.world().natives.push(native);
        }
        play.end(&[], false).1
    };
    let starts = |said: String, start: &str| assert!(said.starts_with(start), "{said}");
    starts(
        act(Some(12), &[(12, 1, 9, false)]),
        "native backfill 12 is paused",
    );
    starts(
        act(Some(12), &[(13, 5, 9, false), (12, 1, 9, true)]),
        "native backfill 13 is paused",
    );
    // Another year is no successor.
    starts(
        act(Some(12), &[(13, 20, 25, false), (12, 1, 9, true)]),
        "native backfill 12 was over",
    );
    starts(
        act(None, &[(13, 20, 25, false), (12, 1, 9, true)]),
        "native backfill 13 is paused",
    );
    starts(
        act(Some(11), &[(12, 1, 9, false)]),
        "the server has no native backfill 11",
    );
    starts(
        act(None, &[(12, 1, 9, true)]),
        "events_daily has no unfinished native backfill to pause",
    );
}

/// A yes for one is no yes for another that somebody began meanwhile.
#[test]
fn only_the_native_backfill_that_was_seen_when_it_was_asked_for_is_touched() {
    for action in [
        PAUSE,
        RESUME,
        Action::Cancel { running: false },
        Action::Replace { limit: 5 },
    ] {
        let mut play = Play::new(None, action);
        play.asked.native = Some(12);
        play.twelve_cancelled();
        let mut other = native(13, date(1), date(20));
        other.paused = false;
        play.model.world().natives.push(other);
        let said = "native backfill 12 has ended, and native backfill 13 was begun since: nothing was sent, look again";
        assert_eq!(play.end(&[], false), (false, said.to_owned()));
        assert!(play.sent().is_empty());
    }
}

/// The window of these plays is September 2021.
#[test]
fn a_native_backfill_of_other_days_is_none_of_ours() {
    let mut play = Play::new(None, Action::Cancel { running: false });
    let august = (at("2021-08-01T00:00:00Z"), at("2021-08-31T00:00:00Z"));
    play.model.world().natives.push(native(13, august.0, august.1));
    let (ok, said) = play.end(&[], false);
    assert!(
        !ok && said.contains("has no unfinished native backfill to cancel"),
        "{said}"
    );
    assert!(play.sent().is_empty());
}

#[test]
fn a_paused_native_backfill_is_not_replaced_by_one_that_runs() {
    let mut play = Play::new(None, Action::Replace { limit: 5 });
    play.twelve().days(1..=20, RunState::Queued);
    play.model.world().natives[0].paused = true;
    let (ok, said) = play.end(&[], false);
    assert!(!ok && said.contains("resume it first"), "{said}");
    assert!(play.sent().is_empty());
    let mut play = Play::new(None, Action::Replace { limit: 0 });
    play.twelve().days(1..=20, RunState::Queued);
    assert!(!play.end(&[], false).0);
}

#[test]
fn a_replacement_says_what_is_kept_what_runs_on_and_what_runs_again() {
    let mut play = Play::new(None, Action::Replace { limit: 5 });
    play.twelve()
        .days(1..=6, RunState::Success)
        .days(7..=7, RunState::Failed)
        .days(8..=9, RunState::Running)
        .days(10..=20, RunState::Queued);
    assert_eq!(
        play.end(&[], false),
        (
            true,
            "native backfill 12 is cancelled, and 13 is made in its place: 12 days, 2021-09-07 to 2021-09-20, at most \
             5 at once; 1 of them had failed before and runs again, too; days that are done are kept; 2 days run now, \
             those of the cancelled one beside the limit"
                .to_owned()
        )
    );
    assert_eq!(
        play.sent(),
        [
            "PUT /api/v2/backfills/12/cancel",
            "POST /api/v2/backfills events_daily 2021-09-07T00:00:00Z to 2021-09-20T00:00:00Z max_active_runs=5 \
             reprocess_behavior=failed"
        ]
    );
}

#[test]
fn a_replacement_goes_in_the_direction_in_which_the_days_begin() {
    for (done, waiting, backwards) in [(1..=5, 6..=20, false), (15..=20, 1..=14, true)] {
        let mut play = Play::new(None, Action::Replace { limit: 5 });
        play.twelve()
            .days(done, RunState::Success)
            .days(waiting, RunState::Queued);
        assert!(play.end(&[], false).0);
        assert_eq!(
            play.sent()[1].ends_with("run_backwards=true"),
            backwards,
            "{:?}",
            play.sent()
        );
    }
}

#[test]
fn a_replacement_that_cannot_be_made_after_the_cancel_says_what_is_to_be_done() {
    // Somebody was faster.
    let mut play = Play::new(None, Action::Replace { limit: 5 });
    play.twelve().days(1..=20, RunState::Queued);
    let Next::Send { sent, call } = play.next() else {
        panic!()
    };
    let call = play.journal(sent, call);
    play.asked.steps[0].answer = play.model.send(&call, Fault::None);
    play.model
        .world()
        .natives
        .insert(0, native(13, date(1), date(20)));
    let (ok, said) = play.end(&[], false);
    assert!(!ok);
    assert_eq!(
        said,
        "native backfill 12 is cancelled, and nothing was made in its place: somebody else's came first: native \
         backfill 13 of events_daily is not over, and Airflow has one at a time: wait for it, or cancel or replace it; \
         its days that waited do not run: make a native backfill over them with reprocess failed"
    );
    // The server refuses it.
    let mut play = Play::new(None, Action::Replace { limit: 5 });
    play.twelve().days(1..=20, RunState::Queued);
    let Next::Send { sent, call } = play.next() else {
        panic!()
    };
    let call = play.journal(sent, call);
    play.asked.steps[0].answer = play.model.send(&call, Fault::None);
    play.model.world().refuses = Some("403: Forbidden");
    assert_eq!(
        play.end(&[], false),
        (
            false,
            "native backfill 12 is cancelled, and the one in its place was not made: airflow-prod: 403: Forbidden; 20 \
             days do not run: make a native backfill over 2021-09-01 to 2021-09-20 with limit 5 and reprocess failed"
                .to_owned()
        )
    );
}

/// Fact 4: the server calls another one unfinished for a while after nothing of it is left.
#[test]
fn a_creation_that_is_refused_for_one_that_is_over_by_now_is_tried_again() {
    let mut play = Play::new(None, create(2, Reprocess::None));
    let Next::Send { sent, call } = play.next() else {
        panic!()
    };
    play.journal(sent, call);
    play.asked.steps[0].answer = Some((
        false,
        "airflow-prod: 409: There is already a running backfill".to_owned(),
    ));
    let (ok, said) = play.end(&[], false);
    assert!(ok, "{said}");
    assert_eq!(play.asked.steps.len(), 2);
}

#[test]
fn a_native_backfill_is_not_made_where_that_leads_to_nothing() {
    let said = |action: Action, prepare: &dyn Fn(&mut Play)| {
        let mut play = Play::new(None, action);
        prepare(&mut play);
        let (ok, said) = play.end(&[], false);
        assert!(!ok && play.sent().is_empty(), "{said}");
        said
    };
    assert_eq!(
        said(create(2, Reprocess::None), &|p| {
            p.twelve();
        }),
        "native backfill 12 of events_daily is not over, and Airflow has one at a time: wait for it, or cancel or \
         replace it"
    );
    assert_eq!(
        said(create(0, Reprocess::None), &|_| ()),
        "with a limit of 0 nothing of it would ever start: make it with 1, and pause it"
    );
    assert_eq!(
        said(create(2, Reprocess::None), &|p| {
            p.scheduled(1..=5, RunState::Failed);
        }),
        "a native backfill over 2021-09-01 to 2021-09-05 with reprocess none would run no day"
    );
    let backwards = Action::Create {
        first: day(5),
        last: day(1),
        limit: 1,
        reprocess: Reprocess::None,
        newest_first: false,
    };
    assert_eq!(said(backwards, &|_| ()), "2021-09-05 is after 2021-09-01");
    let two = said(create(2, Reprocess::None), &|p| p.model.world().api = Api::V1);
    assert!(two.starts_with("Airflow 2 has no native backfills: "), "{two}");
}

#[test]
fn a_cancel_says_what_will_not_run_and_what_goes_on() {
    let mut play = Play::new(None, Action::Cancel { running: false });
    play.twelve()
        .days(1..=2, RunState::Running)
        .days(3..=20, RunState::Queued);
    assert_eq!(
        play.end(&[], false),
        (
            true,
            "native backfill 12 is cancelled: 18 days that waited will not run; 2 days that run go on"
                .to_owned()
        )
    );
    let mut play = Play::new(None, Action::Cancel { running: true });
    play.twelve()
        .days(1..=2, RunState::Running)
        .days(3..=20, RunState::Queued);
    // Somebody else's run on a day of it is not ended.
    play.scheduled(1..=1, RunState::Running);
    assert_eq!(
        play.end(&[], false),
        (
            true,
            "native backfill 12 is cancelled: 18 days that waited will not run; 2021-09-01 and 2021-09-02 were ended, \
             and marked failed"
                .to_owned()
        )
    );
    assert_eq!(play.state("scheduled__2021-09-01"), RunState::Running);
    assert_eq!(play.sent().len(), 3);
}

#[test]
fn the_dry_run_of_a_replacement_has_what_waits_and_what_failed() {
    let mut play = Play::new(None, Action::Replace { limit: 5 });
    play.twelve()
        .days(1..=6, RunState::Success)
        .days(7..=7, RunState::Failed)
        .days(8..=9, RunState::Running)
        .days(10..=20, RunState::Queued);
    let days = play.dry_run(&Action::Replace { limit: 5 }).unwrap();
    let expected: Vec<ChunkId> = (7..=7).chain(10..=20).map(day).collect();
    assert_eq!(days, expected);
    assert!(play.dry_run(&PAUSE).is_err());
}
