use super::super::why;
use crate::{
    domain::{
        attach::{Action, Attach, Days, Facts, NativeSeen, PoolSeen, Reading, RunPhase, SeenRun},
        event::Payload,
        ids::{ChunkId, ExternalId},
        spec::Dag,
    },
    plan::testing::Night,
};
use chrono::Duration;

/// Somebody else's backfill under the clock of the night, and what was seen of it.
struct Theirs {
    night: Night,
    days: Days,
    facts: Facts,
}

impl Theirs {
    fn new() -> Self {
        let dag = Dag {
            id: "events_daily".to_owned(),
            conf: Default::default(),
            pool: None,
        };
        let night = Night::new(6).attached(Attach { native: Some(12) }, dag);
        let facts = Facts {
            as_of: Some(night.now),
            native: Some(NativeSeen {
                id: 12,
                paused: false,
                completed: None,
                limit: 3,
                from: night.now,
                to: night.now,
                by: None,
            }),
            ..Facts::default()
        };
        Self {
            night,
            days: Days::new(),
            facts,
        }
    }

    fn day(&self, i: u64) -> ChunkId {
        self.night.day(i)
    }

    fn run(&mut self, i: u64, phase: RunPhase, minutes: i64) {
        let at = self.night.now - Duration::minutes(minutes);
        let run = SeenRun {
            run: ExternalId(format!("backfill__{}", self.day(i))),
            phase,
            word: format!("{phase:?}").to_lowercase(),
            kind: "backfill".to_owned(),
            queued: Some(at - Duration::minutes(1)),
            started: (phase != RunPhase::Queued).then_some(at - Duration::minutes(4)),
            ended: phase.state().is_settled().then_some(at),
            tries: None,
        };
        self.days.entry(self.day(i)).or_default().push(run);
    }

    fn native(&mut self, change: impl FnOnce(&mut NativeSeen)) {
        change(self.facts.native.as_mut().unwrap());
    }

    fn told(&self, i: u64) -> (&'static str, String, String) {
        let mut state = self.night.state.clone();
        let backfill = state.backfills.get_mut(&self.night.id()).unwrap();
        backfill.observe(&self.days, &self.facts, self.night.now);
        let backfill = &state.backfills[&self.night.id()];
        let why = why(&state, backfill, self.day(i), &self.night.around()).unwrap();
        (why.reason, why.text, why.unblock)
    }

    fn text(&self, i: u64) -> String {
        let (reason, text, _) = self.told(i);
        format!("{reason}: {text}")
    }
}

#[test]
fn a_day_that_was_not_read_says_how_far_the_reading_is() {
    let mut theirs = Theirs::new();
    theirs.facts = Facts::default();
    assert_eq!(theirs.text(0), "unread: not read yet: here was asked");
    theirs.facts.as_of = Some(theirs.night.now);
    theirs.facts.reading = Some(Reading {
        read: 300,
        total: 1500,
    });
    assert_eq!(theirs.text(0), "unread: not read yet: 300 of 1,500 runs are read");
    theirs.facts.problem = Some("401 Unauthorized".to_owned());
    assert_eq!(theirs.text(0), "unread: not read: 401 Unauthorized");
}

#[test]
fn a_day_without_a_run_says_how_to_get_one_and_that_it_has_to_wait() {
    let mut theirs = Theirs::new();
    let (_, text, unblock) = theirs.told(0);
    assert_eq!(text, "the server has no run of it");
    assert_eq!(unblock, "a new native backfill can take it when 12 is finished");
    let now = theirs.night.now;
    theirs.native(|n| n.completed = Some(now));
    assert_eq!(
        theirs.told(0).2,
        "backfill native orders 2023-01-01..2023-01-01 --limit 1"
    );
}

/// No day of somebody else's backfill has a turn in a plan of ours.
#[test]
fn a_waiting_day_says_what_holds_it_up_on_the_server() {
    let mut theirs = Theirs::new();
    theirs.run(0, RunPhase::Queued, 11);
    for i in 1..4 {
        theirs.run(i, RunPhase::Running, 2);
    }
    assert_eq!(
        theirs.text(0),
        "limit: waits there for 12m: 3 of 3 days run that native backfill 12 runs at once"
    );
    theirs.native(|n| n.paused = true);
    let (reason, text, unblock) = theirs.told(0);
    assert_eq!(reason, "paused");
    assert!(text.ends_with(": somebody else paused backfill 12"), "{text}");
    assert_eq!(unblock, "p, or backfill resume orders");
    theirs.night.human(Payload::Paused { until: None });
    assert!(
        theirs.text(0).ends_with("12m: paused by minh"),
        "{}",
        theirs.text(0)
    );
    theirs.facts.stuck = Some("the DAG is paused".to_owned());
    assert_eq!(theirs.text(0), "stuck: waits there for 12m: the DAG is paused");
}

#[test]
fn a_full_pool_is_a_reason_too() {
    let mut theirs = Theirs::new();
    theirs.run(0, RunPhase::Queued, 11);
    theirs.facts.pool = Some(PoolSeen {
        name: "backfill_pool".to_owned(),
        slots: 4,
        running: 4,
        waiting: 9,
        others: None,
    });
    assert!(
        theirs
            .text(0)
            .ends_with("all 4 slots of pool backfill_pool are in use"),
        "{}",
        theirs.text(0)
    );
}

#[test]
fn running_by_the_servers_word_alone_is_not_called_running() {
    let mut theirs = Theirs::new();
    theirs.run(0, RunPhase::Running, 16);
    let (reason, text, unblock) = theirs.told(0);
    assert_eq!((reason, unblock.as_str()), ("running", "K stops it"));
    assert_eq!(
        text,
        "runs on the server for 20m, as backfill run backfill__2023-01-01"
    );
    theirs.facts.stuck = Some("no task of it executes".to_owned());
    let (reason, text, _) = theirs.told(0);
    assert_eq!(reason, "stuck");
    assert!(
        text.starts_with("no task of it executes, though it runs on the server for 20m, as "),
        "{text}"
    );
}

#[test]
fn what_ended_names_its_run_and_the_worst_of_several_is_told() {
    let mut theirs = Theirs::new();
    theirs.run(0, RunPhase::Done, 60);
    assert_eq!(
        theirs.text(0),
        "done: done in 4m, ended 60m ago, as backfill run backfill__2023-01-01"
    );
    theirs.run(0, RunPhase::Failed, 10);
    let (reason, text, unblock) = theirs.told(0);
    assert_eq!(reason, "failed");
    assert!(
        text.starts_with("failed: the backfill run is failed, as "),
        "{text}"
    );
    assert!(text.ends_with("; the worst of 2 runs"), "{text}");
    assert!(
        unblock.contains("backfill rerun orders 2023-01-01 --failed"),
        "{unblock}"
    );
}

/// What is old is never told as fine.
#[test]
fn what_was_seen_before_the_server_failed_carries_its_age() {
    let mut theirs = Theirs::new();
    theirs.run(0, RunPhase::Running, 16);
    theirs.facts.as_of = Some(theirs.night.now - Duration::minutes(4));
    theirs.facts.problem = Some("503 from proxy".to_owned());
    assert!(
        theirs.text(0).ends_with("; seen 4m ago, then: 503 from proxy"),
        "{}",
        theirs.text(0)
    );
}

#[test]
fn what_was_asked_for_a_day_is_told_before_its_state() {
    let mut theirs = Theirs::new();
    theirs.run(0, RunPhase::Failed, 10);
    theirs.night.human(Payload::ActionRequested {
        action: Action::Rerun {
            chunks: vec![theirs.day(0)],
            failed_only: true,
        },
        digest: String::new(),
        native: None,
    });
    let text = theirs.told(0).1;
    assert!(
        text.starts_with("re-run what failed in 2023-01-01 (minh): still to be sent; failed"),
        "{text}"
    );
    theirs.run(1, RunPhase::Failed, 10);
    assert!(
        theirs.told(1).1.starts_with("failed"),
        "it is about its own days only"
    );
}

#[test]
fn what_was_let_go_of_says_so_with_its_age_and_the_way_back() {
    let mut theirs = Theirs::new();
    theirs.run(0, RunPhase::Running, 16);
    theirs.night.human(Payload::Detached {});
    theirs.night.later(600);
    let (_, text, unblock) = theirs.told(0);
    assert!(
        text.ends_with("; let go of 10m ago, not looked at since"),
        "{text}"
    );
    assert!(
        unblock.ends_with("backfill attach here --dag events_daily"),
        "{unblock}"
    );
}

/// A day of our own whose date somebody else's run has, and the two ways out.
#[test]
fn a_day_whose_date_is_taken_says_by_what_and_offers_both_ways_out() {
    let mut night = Night::new(2);
    let day = night.day(0);
    night.intend(day);
    let attempt = night.attempt(day);
    let run = ExternalId("scheduled__x".to_owned());
    night.ours(Payload::DateTaken {
        attempt,
        run: run.clone(),
        what: "the scheduled run scheduled__x (success)".to_owned(),
    });
    let told = why(&night.state, night.backfill(), day, &night.around()).unwrap();
    assert_eq!(told.reason, "date-taken");
    assert_eq!(
        told.text,
        "its date is taken by the scheduled run scheduled__x (success)"
    );
    assert!(
        told.unblock
            .contains("backfill take orders 2023-01-01 adopt|clear")
    );
    night.human(Payload::TakeRequested {
        chunk: day,
        run,
        how: crate::domain::attach::Taking::Adopt,
        digest: String::new(),
    });
    let told = why(&night.state, night.backfill(), day, &night.around()).unwrap();
    assert_eq!(
        told.reason, "order",
        "a choice was made, so it has its turn again"
    );
}
