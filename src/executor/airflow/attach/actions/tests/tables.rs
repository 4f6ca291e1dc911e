//! What one request leaves to be done, by what came of it and how long ago it was.

use super::{super::steps::*, *};
use std::time::Duration;

/// An action whose only request was sent so long ago, with this answer.
fn case(answer: Option<(bool, &str)>, seconds: i64, since: i64) -> Case {
    let now = at("2026-11-29T18:00:00Z");
    let mut asked = asked(Action::Pause { whole_dag: false });
    asked.mark.at = now - TimeDelta::seconds(since);
    asked.steps.push(StepTaken {
        no: 0,
        at: now - TimeDelta::seconds(seconds),
        sent: String::new(),
        call: Call::PauseNative { id: 12 }.write(false, Vec::new()),
        answer: answer.map(|(ok, said)| (ok, said.to_owned())),
    });
    Case::of(&asked, now).unwrap()
}

#[test]
fn a_lever_that_does_not_stand_as_it_should_is_pulled_again_only_when_it_may_be() {
    let raw = Call::PauseNative { id: 12 }.write(false, Vec::new());
    let lost = "its answer was lost, and nothing of it is to be seen yet";
    for (answer, seconds, since, expected) in [
        (Some((true, "done")), 1, 1, Lever::Undone),
        (
            Some((false, "403: Forbidden")),
            1,
            1,
            Lever::Failed("403: Forbidden".into()),
        ),
        (None, 1, 1, Lever::Wait(Duration::from_secs(4), lost.into())),
        (None, 5, 5, Lever::Again(raw.clone())),
        (
            Some((false, "x: it may have been done: 502")),
            4,
            4,
            Lever::Wait(Duration::from_secs(1), lost.into()),
        ),
        (
            Some((false, "x: it may have been done: 502")),
            6,
            6,
            Lever::Again(raw.clone()),
        ),
        (
            Some((false, "x: it was not sent: refused")),
            1,
            1,
            Lever::Wait(Duration::from_secs(2), "x: it was not sent: refused".into()),
        ),
        (
            Some((false, "x: it was not sent: refused")),
            3,
            3,
            Lever::Again(raw.clone()),
        ),
        // A quarter of an hour without any progress.
        (
            Some((false, "x: it was not sent: refused")),
            3,
            901,
            Lever::Failed("x: it was not sent: refused".into()),
        ),
        (
            None,
            3,
            901,
            Lever::Failed("no answer comes, and nothing of it is to be seen".into()),
        ),
        // A clock that was set back since.
        (None, -7200, 1, Lever::Again(raw.clone())),
    ] {
        let case = case(answer, seconds, since);
        assert_eq!(lever(&case, false), expected, "{answer:?} {seconds} {since}");
        assert_eq!(lever(&case, true), Lever::Reached);
    }
    let fresh = Case::of(
        &asked(Action::Pause { whole_dag: false }),
        at("2026-11-29T18:00:00Z"),
    )
    .unwrap();
    assert_eq!(
        (lever(&fresh, true), lever(&fresh, false)),
        (Lever::Already, Lever::Pull)
    );
}

#[test]
fn what_another_version_recorded_ends_the_action_and_is_not_guessed_at() {
    let mut play = Play::new(None, Action::Pause { whole_dag: false });
    play.twelve();
    let Next::Send { sent, call } = play.next() else {
        panic!()
    };
    play.journal(sent, call);
    let step = &mut play.asked.steps[0];
    step.call = step.call.replace("\"v\":1", "\"v\":7");
    let (ok, said) = play.end(&[], false);
    assert!(
        !ok && said.contains("recorded by another version of this program"),
        "{said}"
    );
}

#[test]
fn slots_are_told_as_what_they_do() {
    use super::super::model::pool;
    for (before, slots, ok, said) in [
        (
            2,
            5,
            true,
            "pool p has 5 slots, which takes effect within seconds; tasks that run finish",
        ),
        (
            2,
            1,
            true,
            "pool p has 1 slot, which takes effect within seconds; tasks that run finish",
        ),
        (
            2,
            0,
            true,
            "pool p has 0 slots: tasks that run finish, and none starts",
        ),
        (
            2,
            -1,
            true,
            "pool p has no limit now, which takes effect within seconds",
        ),
        (5, 5, true, "pool p had 5 slots already"),
        (
            2,
            -2,
            false,
            "a pool has no -2 slots: -1 is without limit, 0 starts nothing",
        ),
    ] {
        let mut play = Play::new(
            None,
            Action::Slots {
                pool: "p".into(),
                slots,
            },
        );
        play.model.world().pools.insert("p".into(), pool("p", before));
        assert_eq!(play.end(&[], false), (ok, said.to_owned()));
    }
    let mut play = Play::new(
        None,
        Action::Slots {
            pool: "p".into(),
            slots: 5,
        },
    );
    play.model.world().pools.insert("p".into(), pool("p", 2));
    let Next::Send { sent, call } = play.next() else {
        panic!()
    };
    play.journal(sent, call);
    play.asked.steps[0].answer = Some((true, String::new()));
    play.model.world().pools.insert("p".into(), pool("p", 9));
    assert_eq!(
        play.end(&[], false),
        (
            false,
            "pool p was given 5 slots and has 9 slots now: somebody else sets it, too".to_owned()
        )
    );
}
