//! A night on call for the tests of this floor: a backfill under a virtual clock, driven by events only.

use super::{
    decide::{self, ExecutorFacts, Intent, Surroundings},
    retry,
};
use crate::domain::{
    Time,
    attach::Attach,
    blackout::{Blackout, Weekdays},
    calendar::Granularity,
    event::{Actor, Event, LimitChange, Next, Outcome, Payload, Read, Rule},
    failure::{Failure, FailureClass},
    ids::{BackfillId, ChunkId, ExternalId},
    spec::{Dag, Lane, LaneDays, Law, OnFailure, Order, Profile, Spec, Throttling},
    state::{Backfill, Chunk, State},
    tuning::Tuning,
};
use crate::plan::room::Admission;
use chrono::{Days, NaiveDate, TimeZone, Utc};
use std::{collections::BTreeMap, time::Duration};

/// A failure of a class with a fixed message.
pub fn failure(class: FailureClass) -> Failure {
    Failure {
        class,
        exit: Some(1),
        message: "boom".to_owned(),
    }
}

/// A spec of `days` days from 2023-01-01.
pub fn spec(name: &str, days: u64) -> Spec {
    let start = NaiveDate::from_ymd_opt(2023, 1, 1).unwrap();
    Spec {
        name: name.parse().unwrap(),
        target: "datamart.orders".to_owned(),
        environment: None,
        start,
        end: start + Days::new(days - 1),
        granularity: Granularity::Day,
        timezone: chrono_tz::UTC,
        executor: "here".parse().unwrap(),
        command: vec!["true".to_owned()],
        dag: None,
        attach: None,
        cwd: "/".to_owned(),
        env_pass: Vec::new(),
        env: BTreeMap::new(),
        env_secrets: Vec::new(),
        max_limit: 4,
        order: Order::OldestFirst,
        signals: Vec::new(),
        on_failure: OnFailure::Continue,
        profiles: vec![profile("default")],
        lanes: BTreeMap::new(),
        source: BTreeMap::new(),
        idempotent: true,
        throttling: Throttling::default(),
        blackout: Vec::new(),
    }
}

fn profile(name: &str) -> Profile {
    Profile {
        name: name.parse().unwrap(),
        memory: None,
        deadline_ms: None,
        values: BTreeMap::new(),
    }
}

/// The night. Building methods come first; they start the backfill anew.
pub struct Night {
    /// The virtual clock.
    pub now: Time,
    /// The fold so far.
    pub state: State,
    spec: Spec,
    slots: Option<u32>,
    paced: bool,
    admissions: BTreeMap<BackfillId, Admission>,
}

impl Night {
    pub fn new(days: u64) -> Self {
        let now = Utc.with_ymd_and_hms(2026, 12, 2, 3, 12, 0).unwrap();
        let mut night = Self {
            now,
            state: State::default(),
            spec: spec("orders", days),
            slots: Some(4),
            paced: false,
            admissions: BTreeMap::new(),
        };
        night.begin();
        night
    }

    fn begin(&mut self) {
        self.state = State::default();
        let payload = Payload::Started {
            spec: Box::new(self.spec.clone()),
            hash: "h".to_owned(),
        };
        self.event(
            Actor {
                name: "minh".to_owned(),
                origin: "os user".to_owned(),
            },
            payload,
        );
    }

    fn with(mut self, change: impl FnOnce(&mut Spec)) -> Self {
        change(&mut self.spec);
        self.begin();
        self
    }

    pub fn max_limit(self, limit: u32) -> Self {
        self.with(|s| s.max_limit = limit)
    }

    pub fn dag(self, dag: Dag) -> Self {
        self.with(|s| s.dag = Some(dag))
    }

    pub fn attached(self, attach: Attach, dag: Dag) -> Self {
        self.dag(dag).with(|s| s.attach = Some(attach))
    }

    pub fn later(&mut self, seconds: i64) {
        self.now += chrono::Duration::seconds(seconds);
    }

    pub fn order(self, order: Order) -> Self {
        self.with(|s| s.order = order)
    }

    pub fn profiles(self, names: &[&str]) -> Self {
        self.with(|s| s.profiles = names.iter().map(|n| profile(n)).collect())
    }

    pub fn signals(self, names: &[&str]) -> Self {
        self.with(|s| s.signals = names.iter().map(|n| n.parse().unwrap()).collect())
    }

    pub fn blackout(self, from: &str, to: &str) -> Self {
        let window = Blackout {
            from: from.parse().unwrap(),
            to: to.parse().unwrap(),
            days: Weekdays::DAILY,
            timezone: chrono_tz::UTC,
        };
        self.with(|s| s.blackout.push(window))
    }

    pub fn deadline(self, length: Duration) -> Self {
        let ms = u64::try_from(length.as_millis()).unwrap();
        self.with(|s| s.profiles.iter_mut().for_each(|p| p.deadline_ms = Some(ms)))
    }

    pub fn law(self, law: Law) -> Self {
        self.with(|s| s.throttling.law = law)
    }

    pub fn isolate(self, days: &[u64]) -> Self {
        let days = days.iter().map(|i| self.day(*i).date).collect();
        self.with(|s| drop(s.lanes.insert(Lane::Isolated, LaneDays { days, profile: None })))
    }

    /// An executor that has no slots of its own.
    pub fn without_slots(mut self) -> Self {
        self.slots = None;
        self
    }

    pub fn slots(mut self, slots: u32) -> Self {
        self.slots = Some(slots);
        self
    }

    pub fn admits(mut self, admission: Admission) -> Self {
        let id = self.backfill().id.clone();
        self.admissions.insert(id, admission);
        self
    }

    pub fn paced(mut self) -> Self {
        self.paced = true;
        self
    }

    pub fn second_backfill(mut self) -> Self {
        let id = BackfillId::new(&"second".parse().unwrap(), 7);
        let spec = spec("second", 5);
        self.push(
            Some(id),
            Actor::supervisor(),
            Payload::Started {
                spec: Box::new(spec),
                hash: "h".to_owned(),
            },
        );
        self
    }

    pub fn id(&self) -> BackfillId {
        BackfillId::new(&"orders".parse().unwrap(), 1)
    }

    pub fn day(&self, i: u64) -> ChunkId {
        ChunkId::day(self.spec.start + Days::new(i))
    }

    pub fn backfill(&self) -> &Backfill {
        self.state.backfills.get(&self.id()).unwrap()
    }

    pub fn chunk(&self, day: ChunkId) -> &Chunk {
        self.backfill().chunk(day).unwrap()
    }

    fn push(&mut self, backfill: Option<BackfillId>, actor: Actor, payload: Payload) -> u64 {
        let seq = self.state.head + 1;
        self.state.apply(&Event {
            seq,
            at: self.now,
            actor,
            reason: None,
            backfill,
            payload: Read::Known(payload),
        });
        seq
    }

    /// An event of anybody.
    pub fn event(&mut self, actor: Actor, payload: Payload) -> u64 {
        self.push(Some(self.id()), actor, payload)
    }

    /// A human's command; its seq.
    pub fn human(&mut self, payload: Payload) -> u64 {
        self.event(
            Actor {
                name: "minh".to_owned(),
                origin: "os user".to_owned(),
            },
            payload,
        )
    }

    /// An event of the supervisor.
    pub fn ours(&mut self, payload: Payload) -> u64 {
        self.event(Actor::supervisor(), payload)
    }

    /// An event of the supervisor about the whole journal.
    pub fn journal(&mut self, payload: Payload) -> u64 {
        self.push(None, Actor::supervisor(), payload)
    }

    pub fn intend(&mut self, day: ChunkId) {
        let backfill = self.backfill();
        let chunk = backfill.chunk(day).unwrap();
        let payload = Payload::SubmissionIntended {
            attempt: backfill.attempt_id(day, chunk.next_no()),
            executor: self.spec.executor.clone(),
            profile: decide::next_profile(backfill, chunk),
            weight: backfill.spec.weight(day),
        };
        self.ours(payload);
    }

    /// Intends and accepts the chunk's next attempt.
    pub fn start(&mut self, day: ChunkId) {
        self.intend(day);
        let attempt = self.attempt(day);
        let run = ExternalId("pid 1".to_owned());
        self.ours(Payload::SubmissionAccepted {
            attempt,
            run,
            adopted: false,
            running: true,
        });
    }

    /// The id of the chunk's newest attempt.
    pub fn attempt(&self, day: ChunkId) -> crate::domain::ids::AttemptId {
        self.backfill()
            .attempt_id(day, self.chunk(day).last().unwrap().no)
    }

    fn end(&mut self, day: ChunkId, outcome: Outcome) {
        let attempt = self.attempt(day);
        self.ours(Payload::RunEnded {
            attempt,
            outcome,
            started: None,
            ended: None,
            peak: None,
            note: None,
        });
    }

    pub fn finish(&mut self, day: ChunkId) {
        self.end(day, Outcome::Done);
    }

    pub fn fail_with(&mut self, day: ChunkId, failure: Failure, next: Next) {
        self.end(day, Outcome::Failed { failure, next });
    }

    /// What the retry law says.
    pub fn next(&self, day: ChunkId, failure: &Failure, profile: u32, drawn: f64) -> Next {
        retry::after_failure(
            self.chunk(day),
            &self.spec,
            failure,
            profile,
            drawn,
            self.now,
            &Tuning::default(),
        )
    }

    pub fn limit_to(&mut self, to: u32) {
        self.limit_by(to, if to == 0 { Rule::Pause } else { Rule::Cut });
    }

    /// A limit of the controller, by a rule.
    pub fn limit_by(&mut self, to: u32, rule: Rule) {
        let from = self.backfill().limit.value;
        let change = LimitChange {
            from,
            to,
            rule,
            signal: None,
            why: "because".to_owned(),
            checkpoint: String::new(),
        };
        self.ours(Payload::LimitChanged { change });
    }

    pub fn around(&self) -> Surroundings {
        let facts = ExecutorFacts {
            slots: self.slots,
            problem: None,
        };
        Surroundings {
            now: self.now,
            tuning: Tuning::default(),
            executors: [(self.spec.executor.clone(), facts)].into(),
            signals: None,
            admissions: self.admissions.clone(),
            paced: if self.paced {
                [self.id()].into()
            } else {
                Default::default()
            },
            disk_low: false,
            supervised: true,
            elsewhere: BTreeMap::new(),
        }
    }

    pub fn decide(&self) -> Vec<Intent> {
        decide::decide(&self.state, &self.around())
    }
}
