//! What holds under the learned law whatever samples, holes, doubts, humans and restarts come, from the sample to the
//! start: through the throttle, the order of authority and the decision about starts.

use super::{
    super::{
        Fleet,
        authority::{Controller, effective_limit},
    },
    *,
};
use crate::{
    domain::{
        event::{Force, Payload},
        spec::Law,
        state::Backfill,
    },
    plan::{decide, room::Running, testing::Night as Desk},
};
use proptest::prelude::*;

const NAMES: [&str; 2] = ["fraud-live", "orders-live"];
const MAX: u32 = 8;

#[derive(Debug, Clone)]
enum Move {
    /// A value of a signal, measured so many seconds ago.
    Sample(usize, f64, u64),
    Miss(usize),
    Tick,
    Finish,
    Cap(Option<u32>),
    Force(u32),
    Pause,
    Resume,
    Acknowledge,
    Restart,
}

fn a_move() -> impl Strategy<Value = Move> {
    let value = prop_oneof![
        20 => 0.0..3.0f64,
        20 => 0.0..60.0f64,
        6 => 0.0..300.0f64,
        2 => 0.0..5_000.0f64,
        1 => Just(21.5),
        1 => prop_oneof![Just(f64::NAN), Just(-1.0), Just(f64::INFINITY), Just(1e300)],
    ];
    let age = prop_oneof![10 => Just(0u64), 2 => 0..30u64, 1 => 0..600u64];
    prop_oneof![
        40 => (0..2usize, value, age).prop_map(|(s, v, age)| Move::Sample(s, v, age)),
        4 => (0..2usize).prop_map(Move::Miss),
        4 => Just(Move::Tick),
        6 => Just(Move::Finish),
        1 => prop_oneof![Just(None), (0..10u32).prop_map(Some)].prop_map(Move::Cap),
        1 => (1..12u32).prop_map(Move::Force),
        1 => Just(Move::Pause),
        3 => Just(Move::Resume),
        1 => Just(Move::Acknowledge),
        1 => Just(Move::Restart),
    ]
}

/// A move, how often it is repeated, and the seconds between repetitions.
fn moves() -> impl Strategy<Value = Vec<(Move, u8, u64)>> {
    let seconds = prop_oneof![12 => Just(5u64), 3 => 6..20u64, 1 => 20..400u64];
    prop::collection::vec((a_move(), 1..20u8, seconds), 1..80)
}

fn both() -> BTreeMap<Name, SignalLevels> {
    let quick = SignalLevels {
        interval: secs(5),
        ..seconds()
    };
    levels(&NAMES.map(|name| (name, quick)))
}

/// A backfill from its samples to its starts.
struct World {
    desk: Desk,
    throttle: Throttle,
    now: Now,
    tuning: Tuning,
    /// When each start was.
    starts: Vec<chrono::DateTime<Utc>>,
}

impl World {
    fn new() -> Self {
        let desk = Desk::new(400).max_limit(MAX).slots(50).signals(&NAMES);
        let now = Now {
            wall: desk.now,
            ..start_of_time()
        };
        Self {
            throttle: Throttle::new(both(), MAX, BOOT, now).by_law(Law::Learned),
            desk,
            now,
            tuning: Tuning::default(),
            starts: Vec::new(),
        }
    }

    fn pass(&mut self, seconds: u64) {
        self.now.boot = self.now.boot.plus(secs(seconds));
        self.now.wall += secs(seconds);
        self.desk.now = self.now.wall;
    }

    fn backfill(&self) -> &Backfill {
        self.desk.backfill()
    }

    fn load(&self) -> Load {
        let around = self.desk.around();
        Load {
            running: self.backfill().running_weight(),
            next_weight: decide::next_weight(self.backfill(), &around),
            median_chunk: None,
            held_above: decide::stop_of(&self.desk.state, self.backfill(), &around)
                .is_some_and(decide::Stop::is_above_controller),
            max_limit: MAX,
        }
    }

    fn fleet(&self) -> Vec<Running> {
        let age = |began| (self.now.wall - began) as chrono::TimeDelta;
        let each = self.backfill().active().filter_map(|chunk| chunk.open());
        let running = each.enumerate().map(|(key, attempt)| Running {
            key: key as u64,
            weight: attempt.weight,
            age: age(attempt.intended).num_seconds() as f64,
            expected: 600.0,
            may_be_cancelled: key % 2 == 0,
        });
        running.collect()
    }

    fn journal(&mut self, told: Vec<Outcome>) {
        for outcome in told {
            match outcome.into_event() {
                (actor, payload @ Payload::LimitChanged { .. }) => drop(self.desk.event(actor, payload)),
                (_, payload) => drop(self.desk.journal(payload)),
            }
        }
    }

    /// One step of the throttle, as the supervisor makes it.
    fn step(&mut self, input: Input) -> Result<(), TestCaseError> {
        let before = self.throttle.limit();
        let unseen = match &input {
            Input::NoSample { .. } => true,
            Input::Sample { value, .. } => !value.is_finite() || *value < 0.0,
            Input::Tick => false,
        };
        let (load, fleet) = (self.load(), self.fleet());
        let mut told = self.throttle.step(input, &load, self.now, &self.tuning);
        let governed = self.throttle.govern(
            &Fleet {
                running: &fleet,
                mean: 600.0,
                cancel: Some(0.3),
            },
            &load,
            self.now,
            &self.tuning,
        );
        told.extend(governed.outcomes);
        self.journal(told);

        let after = self.throttle.limit();
        prop_assert!(after <= MAX, "never above max_limit");
        prop_assert_eq!(self.backfill().limit.value, after, "the journal knows");
        prop_assert!(!(unseen && after > before), "no rise on what is no sample");
        if after > before {
            let report = self.throttle.report(self.now, &self.tuning);
            let unsure: Vec<_> = report.signals.iter().filter(|s| s.freezes_growth).collect();
            prop_assert!(
                unsure.is_empty(),
                "{before} to {after} ({}) while not all are seen: {unsure:?}",
                report.why
            );
            prop_assert!(!load.held_above, "no rise while held from above");
        }
        prop_assert!(
            governed.cancel.iter().all(|key| key % 2 == 0),
            "what may not be cancelled is not"
        );
        if load.held_above {
            prop_assert!(governed.cancel.is_empty(), "a human's pause cancels nothing");
        }
        Ok(())
    }

    fn apply(&mut self, m: &Move) -> Result<(), TestCaseError> {
        let paused = self.backfill().pause.is_some();
        match m {
            Move::Sample(s, value, age) => self.step(Input::Sample {
                signal: name(NAMES[*s]),
                value: *value,
                age: secs(*age),
            })?,
            Move::Miss(s) => self.step(Input::NoSample {
                signal: name(NAMES[*s]),
                why: "503".to_owned(),
            })?,
            Move::Tick => self.step(Input::Tick)?,
            Move::Finish => {
                let oldest = self.backfill().active().next().map(|c| c.id);
                if let Some(day) = oldest {
                    self.desk.finish(day);
                }
            }
            Move::Cap(cap) => drop(self.desk.human(Payload::CapSet { cap: *cap })),
            Move::Force(limit) => {
                let until = self.now.wall + chrono::TimeDelta::minutes(5);
                let force = Some(Force { limit: *limit, until });
                self.desk.human(Payload::Forced { force });
            }
            Move::Pause => drop(self.desk.human(Payload::Paused { until: None })),
            Move::Resume => drop(self.desk.human(Payload::Resumed {})),
            Move::Acknowledge => {
                let before = self.throttle.limit();
                let told = self.throttle.acknowledge(self.now, &self.tuning);
                self.journal(told);
                prop_assert_eq!(self.throttle.limit(), before, "it only lifts a latch");
            }
            Move::Restart => {
                let saved = self.throttle.checkpoint();
                let restored = Throttle::restore(&saved, both(), BOOT, self.now).unwrap();
                self.throttle = restored.by_law(Law::Learned);
                prop_assert_eq!(self.throttle.checkpoint(), saved);
            }
        }
        let lifted = paused && self.backfill().pause.is_none();
        prop_assert!(
            !lifted || matches!(m, Move::Resume),
            "only a human lifts a human's pause"
        );
        self.start()
    }

    /// What may start starts; nothing starts that may not.
    fn start(&mut self) -> Result<(), TestCaseError> {
        let mut around = self.desk.around();
        let id = self.desk.id();
        let admission = self.throttle.admission(self.now, &self.tuning);
        around.admissions.extend(admission.map(|a| (id.clone(), a)));
        let gap = self.throttle.start_gap(&self.tuning);
        around.paced.extend(gap.map(|_| id));
        let intents = decide::decide(&self.desk.state, &around);

        let backfill = self.backfill();
        let cap = backfill.cap.as_ref().map(|(cap, _)| *cap);
        let force = backfill.force.as_ref().map(|(force, _)| *force);
        let controller = Controller::from(&self.throttle);
        let (limit, _) = effective_limit(controller, cap, force, MAX, self.now.wall);
        prop_assert!(
            limit <= cap.unwrap_or(MAX).min(MAX),
            "never above a cap or max_limit"
        );
        let forced = force.filter(|f| f.until > self.now.wall).map_or(0, |f| f.limit);
        prop_assert!(
            limit <= self.throttle.limit().max(forced),
            "a force ends at its time"
        );
        let state = self.throttle.state();
        if matches!(
            state,
            ThrottleState::Critical
                | ThrottleState::PausedAuto
                | ThrottleState::Latched
                | ThrottleState::Waiting
        ) {
            prop_assert_eq!(limit, 0, "{:?} is above every human's limit", state);
            prop_assert!(intents.is_empty());
        }

        let before = backfill.running_weight();
        if backfill.pause.is_some() {
            prop_assert!(intents.is_empty(), "nothing starts while a human pauses");
        }
        if gap.is_some() {
            let soon = self
                .starts
                .last()
                .is_some_and(|t| self.now.wall - *t < chrono::TimeDelta::seconds(10));
            prop_assert!(intents.len() <= usize::from(!soon), "paced");
        }
        let starting: u32 = intents.iter().map(|i| i.weight).sum();
        prop_assert!(
            intents.is_empty() || before + starting <= limit,
            "{before} run, {starting} start, {limit} may: {state:?}"
        );
        for intent in intents {
            self.desk.start(intent.attempt.chunk);
            self.starts.push(self.now.wall);
        }
        Ok(())
    }
}

fn play(script: Vec<(Move, u8, u64)>) -> Result<(), TestCaseError> {
    let mut world = World::new();
    // Most scripts are to begin with a backfill that runs.
    for step in 0..6 {
        for s in 0..2 {
            world.apply(&Move::Sample(s, 1.0 + f64::from(step) * 0.1, 0))?;
        }
        world.pass(5);
    }
    for (m, times, gap) in script {
        for _ in 0..times {
            world.pass(gap);
            world.apply(&m)?;
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() })]

    /// No step raises a limit on a sample that is none or is doubted, nor above cap, override, hard or critical; a
    /// human's pause is never lifted, and nothing starts beyond what is allowed.
    #[test]
    fn from_the_sample_to_the_start_the_bounds_hold_whatever_happens(script in moves()) {
        play(script)?;
    }
}
