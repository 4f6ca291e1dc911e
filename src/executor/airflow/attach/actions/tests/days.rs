//! Actions on the runs of days: what is left alone, what is said of each day, and what it costs.

use super::*;
use crate::executor::airflow::wire::Api;

fn failed_only(days: impl IntoIterator<Item = u32>) -> Action {
    Action::Rerun {
        chunks: days.into_iter().map(day).collect(),
        failed_only: true,
    }
}

#[test]
fn a_run_that_is_under_way_is_left_alone_and_a_day_without_one_is_not_made() {
    let mut play = Play::new(None, rerun(1..=4));
    play.scheduled(1..=1, RunState::Running)
        .scheduled(2..=2, RunState::Queued)
        .scheduled(3..=3, RunState::Failed);
    let (ok, said) = play.end(&[], false);
    assert!(!ok);
    assert_eq!(
        said,
        "2021-09-03 runs again (1 queued); 2021-09-01 and 2021-09-02 were under way already and left alone; 2021-09-04 \
         has no run to clear: make a native backfill over it"
    );
    assert_eq!(
        play.sent(),
        ["POST /api/v2/dags/events_daily/dagRuns/scheduled__2021-09-03/clear"]
    );
}

#[test]
fn all_runs_of_a_day_run_again_and_the_days_before_and_after_do_not() {
    let mut play = Play::new(None, rerun(2..=2));
    play.scheduled(1..=3, RunState::Success);
    for hour in [1, 23] {
        let id = format!("manual__{hour}");
        let at = date(2) + TimeDelta::hours(hour);
        play.model
            .world()
            .add(run(&id, at, RunKind::Manual, RunState::Failed), None);
    }
    let (ok, said) = play.end(&[], false);
    assert!(ok && said == "2021-09-02 runs again (3 queued)", "{said}");
    assert_eq!(play.done(), ["clear 2021-09-02"; 3]);
}

/// Fact 3.
#[test]
fn a_day_of_a_cancelled_native_backfill_is_made_anew_as_it_was_under_an_id_of_ours() {
    let mut play = Play::new(None, rerun([4]));
    play.twelve_cancelled().days(4..=4, RunState::Failed);
    let old = play.model.world().runs["backfill__2021-09-04"].clone();
    let (ok, said) = play.end(&[], false);
    assert!(ok);
    assert_eq!(
        said,
        "2021-09-04 runs again (1 queued); 2021-09-04 was deleted and made anew, since Airflow starts nothing again of \
         native backfill 12, which is cancelled; its former tries are no longer on the server"
    );
    let id = format!("{}__2021-09-04T00:00:00Z__171", play.target.backfill);
    let new = play.model.world().runs[&id].clone();
    assert_eq!(
        (new.logical_date, new.interval, &new.conf, new.kind),
        (old.logical_date, old.interval, &old.conf, RunKind::Manual)
    );
    assert!(
        id.chars()
            .all(|c| c.is_ascii_alphanumeric() || "_.~:+-".contains(c))
    );
}

#[test]
fn a_day_that_waits_for_ever_under_a_cancelled_native_backfill_is_made_anew_too() {
    let mut play = Play::new(None, rerun([4]));
    play.twelve_cancelled().days(4..=4, RunState::Queued);
    assert!(play.end(&[], false).0);
    assert_eq!(play.done(), ["delete 2021-09-04", "trigger 2021-09-04"]);
}

#[test]
fn a_day_that_a_later_native_backfill_took_is_only_cleared_however_often() {
    // 13 took what was left of 12; its day 4 failed. Cleared by 171, it failed again, and is to be cleared once more.
    let mut play = Play::new(None, rerun([4]));
    play.twelve_cancelled().days(4..=4, RunState::Failed);
    let mut thirteen = native(13, date(3), date(20));
    thirteen.created = Some(at("2026-11-03T00:00:00Z"));
    play.model.world().natives.insert(0, thirteen);
    for (queued, started) in [
        ("2026-11-03T00:00:01Z", "2026-11-03T00:01:00Z"),
        ("2026-11-05T00:00:00Z", "2026-11-05T00:00:10Z"),
    ] {
        let mut world = play.model.world();
        let run = world.runs.get_mut("backfill__2021-09-04").unwrap();
        (run.state, run.queued_at, run.started) = (RunState::Failed, Some(at(queued)), Some(at(started)));
        drop(world);
        play.asked.steps.clear();
        let (ok, said) = play.end(&[], false);
        assert!(ok, "{said}");
    }
    assert_eq!(play.done(), ["clear 2021-09-04"; 2]);
}

#[test]
fn what_waits_and_why_is_said() {
    let mut play = Play::new(None, rerun([4]));
    play.twelve().days(4..=4, RunState::Failed);
    play.model.world().natives[0].paused = true;
    assert_eq!(
        play.end(&[], false),
        (
            true,
            "2021-09-04 runs again (1 queued); native backfill 12 is paused: what waits in it starts when it goes on"
                .to_owned()
        )
    );
    let mut play = Play::new(None, rerun([4]));
    play.scheduled(4..=4, RunState::Failed);
    play.model.world().frozen = true;
    let (_, said) = play.end(&[], false);
    assert!(
        said.ends_with("; the whole DAG is paused: nothing starts before that is lifted"),
        "{said}"
    );
}

#[test]
fn only_what_failed_leaves_a_good_day_alone() {
    let mut play = Play::new(None, failed_only(1..=2));
    play.scheduled(1..=1, RunState::Failed)
        .scheduled(2..=2, RunState::Success);
    assert_eq!(
        play.end(&[], false),
        (
            true,
            "2021-09-01 runs again (1 queued); nothing had failed in 2021-09-02".to_owned()
        )
    );
    assert!(play.sent()[0].ends_with("/clear only_failed=true"));
}

/// A run that somebody marked failed has no failed task: the server accepts the clear and clears nothing.
#[test]
fn a_clear_that_the_server_accepts_and_that_clears_nothing_is_not_told_as_a_success() {
    let mut play = Play::new(None, failed_only([1]));
    play.scheduled(1..=1, RunState::Failed);
    let Next::Send { sent, call } = play.next() else {
        panic!()
    };
    play.journal(sent, call);
    play.asked.steps[0].answer = Some((true, "the run is failed".to_owned()));
    assert_eq!(
        play.end(&[], false),
        (
            false,
            "nothing runs again; 2021-09-01 failed without a failed task, so that nothing was cleared: run the whole \
             day again"
                .to_owned()
        )
    );
}

#[test]
fn airflow_2_starts_no_run_of_its_command_lines_backfill_again_so_that_it_is_made_anew() {
    let mut play = Play::new(None, rerun([4]));
    play.days(4..=4, RunState::Failed);
    play.model.world().api = Api::V1;
    let (ok, said) = play.end(&[], false);
    assert!(
        ok && said.contains("that a backfill of its command line made"),
        "{said}"
    );
    assert_eq!(play.done(), ["delete 2021-09-04", "trigger 2021-09-04"]);
}

#[test]
fn the_date_of_a_deleted_run_that_somebody_else_took_is_told_as_what_it_is() {
    let mut play = Play::new(None, rerun([4]));
    play.twelve_cancelled().days(4..=4, RunState::Failed);
    let Next::Send { sent, call } = play.next() else {
        panic!()
    };
    let call = play.journal(sent, call);
    let answer = play.model.send(&call, Fault::None);
    play.asked.steps[0].answer = answer;
    play.scheduled(4..=4, RunState::Success);
    let (ok, said) = play.end(&[], false);
    assert!(!ok);
    assert_eq!(
        said,
        "nothing runs again; 2021-09-04: its run was deleted to be made anew, and somebody else's run \
         scheduled__2021-09-04 (success) has the date now"
    );
}

/// Every day would hear the same.
#[test]
fn a_server_that_refuses_everything_is_not_asked_for_every_day() {
    for action in [
        rerun(1..=20),
        Action::Mark {
            chunks: (1..=20).map(day).collect(),
            done: true,
        },
    ] {
        let mut play = Play::new(None, action);
        play.scheduled(1..=20, RunState::Failed);
        play.model.world().refuses = Some("403: Forbidden");
        let (ok, said) = play.end(&[], false);
        assert!(!ok && said.contains("403: Forbidden"), "{said}");
        assert!(
            said.ends_with("2021-09-04, 2021-09-05, 2021-09-06 and 14 more were not tried after that"),
            "{said}"
        );
        assert_eq!(play.model.world().requests, 3);
    }
}

#[test]
fn a_run_that_was_deleted_meanwhile_ends_only_its_own_day() {
    let mut play = Play::new(None, rerun(1..=3));
    play.scheduled(1..=3, RunState::Failed);
    let Next::Send { sent, call } = play.next() else {
        panic!()
    };
    play.journal(sent, call);
    play.model.world().runs.remove("scheduled__2021-09-01");
    assert_eq!(
        play.end(&[], false),
        (
            false,
            "2021-09-02 and 2021-09-03 run again (2 queued); 2021-09-01: its run was deleted meanwhile"
                .to_owned()
        )
    );
}

#[test]
fn the_cost_of_many_days_is_two_or_three_looks_each() {
    let mut play = Play::new(None, rerun(1..=30));
    play.scheduled(1..=30, RunState::Success);
    assert!(play.end(&[], false).0);
    let world = play.model.world();
    assert_eq!(world.requests, 30);
    assert!(world.looks <= 30 + 10, "{}", world.looks);
}

#[test]
fn what_runs_cannot_be_marked_and_what_is_so_already_is_not_sent() {
    let mut play = Play::new(
        None,
        Action::Mark {
            chunks: (1..=4).map(day).collect(),
            done: false,
        },
    );
    play.scheduled(1..=1, RunState::Running)
        .scheduled(2..=2, RunState::Failed)
        .scheduled(3..=3, RunState::Success);
    assert_eq!(
        play.end(&[], false),
        (
            false,
            "2021-09-03 is marked failed; 2021-09-02 was failed already; 2021-09-01 was running, and what runs cannot \
             be marked: end it first; 2021-09-04 has no run to mark"
                .to_owned()
        )
    );
    assert_eq!(play.done(), ["mark 2021-09-03"]);
}

fn stop(days: impl IntoIterator<Item = u32>) -> Action {
    Action::Stop {
        chunks: days.into_iter().map(day).collect(),
    }
}

/// Fact 2: the scheduler may write over a run that was marked failed, and what it writes may be *success*.
#[test]
fn a_stop_that_the_scheduler_wrote_over_is_seen_by_the_tasks_and_repeated() {
    for over in [RunState::Success, RunState::Running] {
        let mut play = Play::new(None, stop([1]));
        play.scheduled(1..=1, RunState::Running);
        play.model.world().writes_over = Some(over);
        let before = play.model.world().now;
        assert_eq!(
            play.end(&[], false),
            (true, "2021-09-01 was ended, and marked failed".to_owned())
        );
        assert_eq!(play.done(), ["mark 2021-09-01"; 2]);
        assert_eq!(play.state("scheduled__2021-09-01"), RunState::Failed);
        assert!(
            play.model.world().now - before >= TimeDelta::seconds(10),
            "looked at again after 5 s, twice"
        );
    }
}

#[test]
fn a_run_that_succeeded_before_it_could_be_ended_is_told_as_that() {
    let mut play = Play::new(None, stop([1, 2]));
    play.scheduled(1..=1, RunState::Running)
        .scheduled(2..=2, RunState::Queued);
    let Next::Send { sent, call } = play.next() else {
        panic!()
    };
    play.journal(sent, call);
    play.model
        .world()
        .runs
        .get_mut("scheduled__2021-09-01")
        .unwrap()
        .state = RunState::Success;
    assert_eq!(
        play.end(&[], false),
        (
            true,
            "2021-09-01 succeeded before it could be ended; 2021-09-02 still waits to start: cancel or pause keeps it \
             from that"
                .to_owned()
        )
    );
    assert!(play.done().is_empty());
}
