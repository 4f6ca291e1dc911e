use super::super::{Preview, make};
use super::*;
use crate::{
    domain::{
        Time,
        attach::{Attach, Days, PoolSeen, Reading, RunPhase, SeenRun},
        event::Payload,
        ids::ExternalId,
        spec::Dag,
    },
    plan::{consent, testing::Night},
};
use chrono::{TimeZone, Utc};

fn run(phase: RunPhase) -> SeenRun {
    SeenRun {
        run: ExternalId("backfill__x".to_owned()),
        phase,
        word: String::new(),
        kind: "backfill".to_owned(),
        queued: None,
        started: None,
        ended: None,
        tries: None,
    }
}

/// Six days: done, failed, running, queued, cancelled, and one without a run.
struct Theirs {
    night: Night,
    facts: Facts,
}

impl Theirs {
    fn new(pool: Option<&str>) -> Self {
        let dag = Dag {
            id: "events_daily".to_owned(),
            conf: Default::default(),
            pool: pool.map(str::to_owned),
        };
        let night = Night::new(6).attached(Attach { native: Some(12) }, dag);
        let at = Utc.with_ymd_and_hms(2023, 1, 1, 0, 0, 0).unwrap();
        let native = NativeSeen {
            id: 12,
            paused: false,
            completed: None,
            limit: 3,
            from: at,
            to: at,
            by: Some("minh".to_owned()),
        };
        let facts = Facts {
            as_of: Some(at),
            native: Some(native),
            ..Facts::default()
        };
        Self { night, facts }
    }

    fn native(mut self, change: impl FnOnce(&mut NativeSeen)) -> Self {
        change(self.facts.native.as_mut().unwrap());
        self
    }

    fn backfill(&self) -> Backfill {
        use RunPhase as P;
        let phases = [P::Done, P::Failed, P::Running, P::Queued, P::Cancelled];
        let days: Days = (0..)
            .zip(phases)
            .map(|(i, p)| (self.night.day(i), vec![run(p)]))
            .collect();
        let mut backfill = self.night.backfill().clone();
        backfill.observe(&days, &self.facts, self.night.now);
        backfill
    }

    fn days(&self) -> Vec<ChunkId> {
        (0..6).map(|i| self.night.day(i)).collect()
    }

    fn preview(&self, ask: &Ask) -> Preview {
        make(&self.backfill(), ask, Time::default())
    }

    fn payloads(&self, ask: &Ask) -> Result<Vec<Payload>, String> {
        let mut state = self.night.state.clone();
        state.backfills.insert(self.night.id(), self.backfill());
        consent::payloads(
            &state,
            Some(&self.night.id()),
            ask,
            &self.preview(ask),
            Time::default(),
        )
    }
}

fn fact<'a>(preview: &'a Preview, label: &str) -> &'a str {
    let found = preview.facts.iter().find(|(l, _)| *l == label);
    found.map_or_else(|| panic!("no {label}: {:?}", preview.facts), |(_, v)| v.as_str())
}

fn numbers(preview: &Preview) -> Vec<String> {
    preview.will.iter().map(|c| c.chunk.to_string()).collect()
}

#[test]
fn a_re_run_takes_days_that_are_over_and_says_of_the_others_why_not() {
    let theirs = Theirs::new(None);
    let all = theirs.preview(&Ask::Rerun(theirs.days(), false));
    assert_eq!(numbers(&all), ["2023-01-01", "2023-01-02", "2023-01-05"]);
    let why: Vec<&str> = all.will_not.iter().map(|(_, w)| w.as_str()).collect();
    assert_eq!(
        why,
        [
            "running now; K stops it",
            "waits for its start already",
            "the server has no run of it: make a native backfill over it",
        ]
    );
    let failed = theirs.preview(&Ask::Rerun(theirs.days(), true));
    assert_eq!(failed.title, "Re-run 1 failed and 1 cancelled days");
    let payloads = theirs.payloads(&Ask::Rerun(theirs.days(), true)).unwrap();
    let [
        Payload::ActionRequested {
            action,
            digest,
            native,
        },
    ] = payloads.as_slice()
    else {
        panic!("{payloads:?}");
    };
    let chunks = vec![theirs.night.day(1), theirs.night.day(4)];
    assert_eq!(
        *action,
        Action::Rerun {
            chunks,
            failed_only: true
        }
    );
    // It is about days, whichever native backfill they are of.
    assert_eq!((digest, *native), (&failed.digest, None));
}

/// Fact 3 of the server: a day of a cancelled native backfill never starts again by a clear.
#[test]
fn days_of_a_cancelled_native_backfill_are_said_to_be_made_anew() {
    let theirs = Theirs::new(None).native(|n| {
        n.paused = true;
        n.completed = Some(Time::default());
    });
    let preview = theirs.preview(&Ask::Rerun(theirs.days(), false));
    assert!(fact(&preview, "anew").starts_with("1 day of a cancelled backfill"));
    let cancel = theirs.preview(&Ask::Cancel);
    assert!(
        cancel.title.contains("native backfill 12 was cancelled"),
        "{}",
        cancel.title
    );
}

#[test]
fn every_plan_names_the_server_and_says_when_the_picture_is_old_or_not_whole() {
    let mut theirs = Theirs::new(None);
    let plan = theirs.preview(&Ask::Cancel);
    assert_eq!(fact(&plan, "server"), "here, DAG events_daily");
    theirs.facts.problem = Some("503".to_owned());
    assert!(fact(&theirs.preview(&Ask::Cancel), "not seen").ends_with("503"));
    theirs.facts.problem = None;
    theirs.facts.reading = Some(Reading {
        read: 300,
        total: 1500,
    });
    assert_eq!(
        fact(&theirs.preview(&Ask::Cancel), "not seen"),
        "300 of 1500 runs are read so far"
    );
}

#[test]
fn cancel_and_replace_count_what_they_promise() {
    let theirs = Theirs::new(None);
    let cancel = theirs.preview(&Ask::Cancel);
    assert_eq!(
        fact(&cancel, "cancels"),
        "1 day waiting never start; there they count as failed"
    );
    assert!(fact(&cancel, "runs").starts_with("1 day running go on"));
    let hard = theirs.preview(&Ask::Act(Action::Cancel { running: true }));
    assert!(fact(&hard, "stops").starts_with("1 day running are ended"));
    let replace = theirs.preview(&Ask::Act(Action::Replace { limit: 1 }));
    assert_eq!(replace.title, "Replace native backfill 12 by one with limit 1");
    assert_eq!(fact(&replace, "runs again"), "1 day failed before");
    assert_eq!(fact(&replace, "undo"), "backfill replace orders 3");
    assert_eq!((cancel.class, hard.class, replace.class), (3, 3, 3));
}

#[test]
fn a_pause_of_somebody_else_is_lifted_only_because_a_human_asks_for_it() {
    let theirs = Theirs::new(None).native(|n| n.paused = true);
    let preview = theirs.preview(&Ask::Resume);
    assert!(fact(&preview, "paused").contains("by somebody else"));
    let payloads = theirs.payloads(&Ask::Resume).unwrap();
    assert!(matches!(
        payloads.as_slice(),
        [Payload::ActionRequested {
            action: Action::Resume { whole_dag: false },
            native: Some(12),
            ..
        }]
    ));
    let running = Theirs::new(None);
    assert!(running.payloads(&Ask::Resume).unwrap_err().contains("not paused"));
}

#[test]
fn a_limit_needs_a_pool_and_says_who_else_is_in_it() {
    let without = Theirs::new(None);
    assert!(without.preview(&Ask::Cap(Some(2))).title.starts_with("No pool"));
    assert!(without.payloads(&Ask::Cap(Some(2))).is_err());
    let mut with = Theirs::new(Some("backfill_pool"));
    with.facts.pool = Some(PoolSeen {
        name: "backfill_pool".to_owned(),
        slots: 5,
        running: 2,
        waiting: 1,
        others: Some(vec![("reports".to_owned(), 2)]),
    });
    let cap = with.preview(&Ask::Cap(Some(2)));
    assert_eq!(fact(&cap, "shared"), "tasks of reports (2) are in the pool, too");
    assert_eq!(
        with.payloads(&Ask::Cap(Some(2))).unwrap(),
        [Payload::CapSet { cap: Some(2) }]
    );
}

#[test]
fn a_new_native_backfill_waits_for_the_unfinished_one_and_then_takes_what_its_rule_says() {
    let create = |theirs: &Theirs, reprocess| {
        theirs.preview(&Ask::Act(Action::Create {
            first: theirs.night.day(0),
            last: theirs.night.day(5),
            limit: 2,
            reprocess,
            newest_first: true,
        }))
    };
    let unfinished = Theirs::new(None);
    assert!(create(&unfinished, Reprocess::None).title.contains("has to wait"));
    let ended = Theirs::new(None).native(|n| n.completed = Some(Time::default()));
    assert_eq!(numbers(&create(&ended, Reprocess::None)), ["2023-01-06"]);
    assert_eq!(create(&ended, Reprocess::Failed).will.len(), 3);
    assert_eq!(create(&ended, Reprocess::Completed).will.len(), 4);
}

#[test]
fn what_is_ours_to_plan_cannot_be_asked_of_somebody_elses_backfill() {
    let theirs = Theirs::new(None);
    for ask in [Ask::Skip(theirs.days()), Ask::Release(theirs.days())] {
        assert!(theirs.preview(&ask).title.contains("backfills of our own"));
        assert!(theirs.payloads(&ask).is_err());
    }
    let mut night = Night::new(2);
    night.human(Payload::Detached {});
    assert!(night.state.refusals.back().unwrap().why.contains("our own"));
    let mut theirs = theirs.night;
    let day = theirs.day(0);
    theirs.human(Payload::Skipped { chunks: vec![day] });
    assert!(
        theirs
            .state
            .refusals
            .back()
            .unwrap()
            .why
            .contains("somebody else's")
    );
}

#[test]
fn a_run_on_a_chunks_date_is_adopted_or_cleared_as_a_human_chose_and_then_goes_first() {
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
    assert_eq!(night.chunk(day).state, S::Held);
    assert_eq!(night.decide()[0].attempt.chunk, night.day(1));
    let ask = Ask::Take(day, run.clone(), Taking::Adopt);
    let preview = make(night.backfill(), &ask, night.now);
    assert_eq!(
        fact(&preview, "it is"),
        "the scheduled run scheduled__x (success)"
    );
    let payloads = consent::payloads(&night.state, Some(&night.id()), &ask, &preview, night.now).unwrap();
    for payload in payloads {
        night.human(payload);
    }
    assert_eq!(
        night.chunk(day).taken.as_ref().unwrap().choice,
        Some(Taking::Adopt)
    );
    assert_eq!(night.decide()[0].attempt.chunk, day);
    // Ours from now on: tried again, it is cleared.
    night.start(day);
    assert_eq!(
        night.chunk(day).taken.as_ref().unwrap().choice,
        Some(Taking::Clear)
    );
    let other = Ask::Take(night.day(1), run, Taking::Adopt);
    assert!(make(night.backfill(), &other, night.now).will.is_empty());
}
