//! Somebody else's backfill without an engine: what is seen becomes events and rows, pauses and limits become actions,
//! and every action goes from its request to its end whatever comes in between.

use super::{
    attached::Performed,
    core::{Effect, Input},
    core_tests::Desk,
};
use crate::{
    domain::{
        attach::{Action, Attach, Days, Facts, NativeSeen, PoolSeen, Reading, RunPhase, SeenRun},
        event::{Actor, Payload},
        ids::{ChunkId, ExternalId},
        spec::Dag,
        state::Backfill,
    },
    executor::attach::{Next, Sight},
    plan::testing::Night,
};
use std::{collections::BTreeMap, time::Duration};

const PAUSE: Action = Action::Pause { whole_dag: false };

fn dag(pool: Option<&str>) -> Dag {
    Dag {
        id: "events".to_owned(),
        conf: BTreeMap::new(),
        pool: pool.map(str::to_owned),
    }
}

fn theirs() -> Desk {
    Desk::new(Night::new(4).attached(Attach { native: Some(12) }, dag(None)))
}

fn run(phase: RunPhase) -> SeenRun {
    SeenRun {
        run: ExternalId("backfill__x".to_owned()),
        phase,
        word: format!("{phase:?}").to_lowercase(),
        kind: "backfill".to_owned(),
        queued: None,
        started: None,
        ended: None,
        tries: None,
    }
}

fn facts(desk: &Desk, paused: bool) -> Facts {
    Facts {
        as_of: Some(desk.night.now),
        native: Some(NativeSeen {
            id: 12,
            paused,
            completed: None,
            limit: 3,
            from: desk.night.now,
            to: desk.night.now,
            by: None,
        }),
        ..Facts::default()
    }
}

impl Desk {
    fn id(&self) -> crate::domain::ids::BackfillId {
        self.night.id()
    }

    fn backfill(&self) -> &Backfill {
        &self.seen.backfills[&self.id()]
    }

    fn day(&self, i: u64) -> ChunkId {
        self.night.day(i)
    }

    fn see(&mut self, days: Days, whole: bool, facts: Facts) {
        let sight = Sight { days, whole, facts };
        self.take(Input::Sight(self.id(), Ok(sight)));
    }

    /// Nothing of the days changed; the native backfill is as said.
    fn look(&mut self, paused: bool) {
        let facts = facts(self, paused);
        self.see(Days::new(), false, facts);
    }

    /// Time passes, and what follows from the state becomes durable and leaves.
    fn pass(&mut self) -> Vec<Effect> {
        self.night.now += chrono::Duration::seconds(1);
        self.tick();
        self.append()
    }

    fn next(&mut self, next: Next) -> Vec<Effect> {
        let ask = self.backfill().asked.iter().find(|a| a.is_open()).unwrap().seq;
        self.take(Input::Step(self.id(), ask, Ok(next)));
        self.append()
    }

    fn answer(&mut self, performed: Performed) {
        let asked = self.backfill().asked.iter().find(|a| a.is_open()).unwrap();
        let (ask, step) = (asked.seq, asked.steps.last().unwrap().no);
        self.take(Input::Performed(self.id(), ask, step, performed));
        drop(self.append());
    }

    fn pause(&mut self) {
        self.night.human(Payload::Paused { until: None });
        self.seen = self.night.state.clone();
    }
}

fn send() -> Next {
    Next::Send {
        sent: "PUT /backfills/12/pause".to_owned(),
        call: "{}".to_owned(),
    }
}

fn ended(ok: bool) -> Next {
    Next::Ended {
        ok,
        said: "native backfill 12 is paused".to_owned(),
    }
}

#[test]
fn the_first_reading_of_a_window_is_no_news_and_every_later_change_is() {
    let mut desk = theirs();
    let reading = Facts {
        reading: Some(Reading { read: 1, total: 2 }),
        ..facts(&desk, false)
    };
    desk.see(
        Days::from([(desk.day(0), vec![run(RunPhase::Done)])]),
        false,
        reading,
    );
    let whole = facts(&desk, false);
    let both = Days::from([
        (desk.day(0), vec![run(RunPhase::Done)]),
        (desk.day(1), vec![run(RunPhase::Queued)]),
    ]);
    desk.see(both, true, whole);
    assert!(!desk.core.has_facts());
    let rows: Vec<usize> = desk.core.take_sightings().iter().map(|s| s.days.len()).collect();
    assert_eq!(rows, [1, 1], "only what changed is written");

    let later = facts(&desk, false);
    desk.see(
        Days::from([(desk.day(1), vec![run(RunPhase::Running)])]),
        true,
        later,
    );
    let batch = desk.core.batch();
    let [event] = batch.as_slice() else {
        panic!("{batch:?}")
    };
    assert_eq!(event.actor, Actor::executor(&"here".parse().unwrap()));
    let Payload::RunsChanged { changes } = &event.payload else {
        panic!("{event:?}")
    };
    let told: Vec<_> = changes
        .iter()
        .map(|c| (c.chunk, c.from.as_deref(), c.to.as_deref()))
        .collect();
    assert_eq!(
        told,
        [
            (desk.day(0), Some("done"), None),
            (desk.day(1), Some("queued"), Some("running")),
        ]
    );
    let seen = desk.core.take_sightings();
    assert_eq!(seen[0].days[&desk.day(0)], [], "its run was deleted there");
    assert_eq!(desk.core.elsewhere(&desk.seen)[&desk.id()].running, 1);
}

#[test]
fn sightings_never_go_back_in_time_and_a_failed_look_keeps_what_was_seen() {
    let mut desk = theirs();
    desk.see(
        Days::from([(desk.day(0), vec![run(RunPhase::Done)])]),
        true,
        facts(&desk, false),
    );
    desk.night.now -= chrono::Duration::hours(1);
    desk.take(Input::Sight(desk.id(), Err("503 storm".to_owned())));
    let seen = desk.core.take_sightings();
    assert!(seen[1].at > seen[0].at);
    assert_eq!((seen[1].begun, seen[1].days.len()), (seen[0].at, 0));
    assert_eq!(seen[1].facts.problem.as_deref(), Some("503 storm"));
    assert_eq!(seen[1].facts.as_of, seen[0].facts.as_of, "with its age");
}

#[test]
fn a_pause_becomes_an_action_that_is_journaled_before_it_is_sent_and_confirmed_when_it_holds_there() {
    let mut desk = theirs();
    desk.look(false);
    drop(desk.append());
    desk.pause();
    // Asked for in one batch, looked at in the next, so that its seq is durable.
    let effects = desk.pass();
    let ask = desk.backfill().asked[0].seq;
    assert_eq!(desk.backfill().asked[0].action, PAUSE);
    assert_eq!(effects, [Effect::NextStep(desk.id(), ask)]);
    assert_eq!(desk.pass(), [], "it is being looked at");
    assert_eq!(desk.next(send()), [Effect::Perform(desk.id(), ask, 0)]);
    assert_eq!(desk.backfill().asked[0].steps[0].answer, None);
    desk.answer(Performed::Accepted("200".to_owned()));
    assert_eq!(desk.pass(), [Effect::NextStep(desk.id(), ask)]);
    assert!(desk.backfill().pause.as_ref().unwrap().applied.is_none());
    drop(desk.next(ended(true)));
    assert_eq!(desk.backfill().native_pause, Some(ask));
    desk.look(true);
    drop(desk.pass());
    assert!(
        desk.backfill().pause.as_ref().unwrap().applied.is_some(),
        "seen to hold"
    );
    assert_eq!(desk.pass(), []);
}

#[test]
fn a_request_whose_answer_was_lost_is_looked_for_and_keeps_its_number_when_it_is_sent_again() {
    let mut desk = theirs();
    desk.look(false);
    drop(desk.append());
    desk.pause();
    drop(desk.pass());
    let ask = desk.backfill().asked[0].seq;
    let mark = &desk.backfill().asked[0].mark;
    assert_eq!(mark.reason.as_deref(), Some("paused by minh"));
    drop(desk.next(send()));
    desk.answer(Performed::Unknown("no answer within 600 s".to_owned()));
    assert_eq!(desk.pass(), [Effect::NextStep(desk.id(), ask)]);
    assert_eq!(desk.next(send()), [Effect::Perform(desk.id(), ask, 0)]);
    assert_eq!(desk.backfill().asked[0].steps.len(), 1);
    desk.answer(Performed::Refused(
        "409 Backfill is already completed.".to_owned(),
    ));
    drop(desk.pass());
    drop(desk.next(ended(false)));
    let asked = &desk.backfill().asked[0];
    assert!(!asked.ended.as_ref().unwrap().ok);
    assert_eq!(desk.backfill().native_pause, None);
}

#[test]
fn a_request_that_was_concluded_from_an_older_state_does_not_leave() {
    let mut desk = theirs();
    desk.look(false);
    drop(desk.append());
    desk.pause();
    drop(desk.pass());
    let ask = desk.backfill().asked[0].seq;
    desk.take(Input::Step(desk.id(), ask, Ok(send())));
    desk.meet(Payload::CapSet { cap: Some(2) });
    let effects = desk.append();
    assert_eq!(
        effects,
        [Effect::NextStep(desk.id(), ask)],
        "it is found out again"
    );
    assert!(desk.backfill().asked[0].steps.is_empty());
}

#[test]
fn after_a_restart_an_action_goes_on_where_it_was() {
    let mut desk = theirs();
    desk.look(false);
    drop(desk.append());
    desk.pause();
    drop(desk.pass());
    let ask = desk.backfill().asked[0].seq;
    drop(desk.next(send()));
    let mut again = Desk::new(desk.night);
    assert_eq!(again.pass(), [Effect::NextStep(again.id(), ask)]);
    assert_eq!(again.next(send()), [Effect::Perform(again.id(), ask, 0)]);
}

#[test]
fn what_reduces_work_overtakes_an_action_that_waits() {
    let mut desk = theirs();
    desk.look(false);
    drop(desk.append());
    let rerun = Action::Rerun {
        chunks: vec![desk.day(0)],
        failed_only: false,
    };
    desk.night.human(Payload::ActionRequested {
        action: rerun,
        digest: "a1b2c3".to_owned(),
        native: None,
    });
    desk.seen = desk.night.state.clone();
    drop(desk.pass());
    drop(desk.next(Next::Wait(
        Duration::from_secs(60),
        "the server is slow".to_owned(),
    )));
    assert_eq!(desk.pass(), []);
    let pause = desk.night.human(Payload::ActionRequested {
        action: PAUSE,
        digest: "d4e5f6".to_owned(),
        native: None,
    });
    desk.seen = desk.night.state.clone();
    assert_eq!(desk.pass(), [Effect::NextStep(desk.id(), pause)]);
}

#[test]
fn a_pool_of_our_own_backfill_follows_its_limit_and_is_given_back_before_the_end() {
    let mut desk = Desk::new(Night::new(4).dag(dag(Some("backfill_pool"))));
    let see = |desk: &mut Desk, slots| {
        let pool = PoolSeen {
            name: "backfill_pool".to_owned(),
            slots,
            running: 0,
            waiting: 0,
            others: None,
        };
        desk.night.now += chrono::Duration::seconds(1);
        desk.take(Input::Pool(desk.id(), Ok(pool)));
    };
    see(&mut desk, 9);
    drop(desk.pass());
    assert_eq!(desk.backfill().pool.as_ref().unwrap().former, 9);
    drop(desk.pass());
    let wanted = |desk: &Desk| {
        let asked = desk.backfill().asked.back().unwrap();
        match asked.action {
            Action::Slots { slots, .. } => slots,
            _ => panic!("{asked:?}"),
        }
    };
    assert_eq!(wanted(&desk), 4);
    let set = |desk: &mut Desk| {
        drop(desk.next(send()));
        desk.answer(Performed::Accepted("200".to_owned()));
        drop(desk.pass());
        drop(desk.next(ended(true)));
    };
    set(&mut desk);
    see(&mut desk, 4);
    drop(desk.pass());
    desk.night.human(Payload::CancelRequested {});
    desk.seen = desk.night.state.clone();
    see(&mut desk, 4);
    drop(desk.pass());
    assert_eq!(wanted(&desk), 9);
    assert!(desk.backfill().pool.is_some());
    set(&mut desk);
    see(&mut desk, 9);
    drop(desk.pass());
    assert_eq!(desk.backfill().pool, None);
}
