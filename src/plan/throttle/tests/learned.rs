//! Where the learned law decides: what it must leave to the rules around it, and that the cases of the classic law hold
//! under it, too.

use super::{super::authority::fits, *};
use crate::{
    domain::spec::Law,
    plan::{
        room::Running,
        throttle::{Fleet, Governed},
    },
};

const ORDERS: &str = "orders-live";
const FRAUD: &str = "fraud-live";

/// A night under the learned law, with what runs.
struct Learned {
    night: Night,
    /// The oldest first.
    running: Vec<Running>,
    /// Whether chunks start as the law admits.
    starts: bool,
    cancel: Option<f64>,
    cancelled: Vec<u64>,
    steps: u64,
}

impl Learned {
    fn new() -> Self {
        Self::of(Night::orders(8))
    }

    fn of(mut night: Night) -> Self {
        night.throttle = night.throttle.by_law(Law::Learned);
        night.follows = false;
        Self {
            night,
            running: Vec::new(),
            starts: true,
            cancel: None,
            cancelled: Vec::new(),
            steps: 0,
        }
    }

    /// After hours of rest, with work that runs.
    fn at_rest() -> Self {
        let mut learned = Self::new();
        learned.lag_for(1.0, secs(3 * 3600));
        assert!(learned.limit() >= 4, "{}", learned.limit());
        assert_eq!(learned.running.len() as u32, learned.limit());
        learned.night.told.clear();
        learned
    }

    /// What is at hand is told to the law, and what it admits starts.
    fn take(&mut self, input: Input) -> Governed {
        let night = &mut self.night;
        night.load.running = self.running.len() as u32;
        let (now, load) = (night.now, night.load);
        let told = night.throttle.step(input, &load, now, &night.tuning);
        let fleet = Fleet {
            running: &self.running,
            mean: 600.0,
            cancel: self.cancel,
        };
        let governed = night.throttle.govern(&fleet, &load, now, &night.tuning);
        night.told.extend(told);
        night.told.extend(governed.outcomes.clone());
        self.cancelled.extend(&governed.cancel);
        self.running.retain(|r| !governed.cancel.contains(&r.key));
        self.start();
        governed
    }

    fn start(&mut self) {
        while self.starts && !self.night.load.held_above {
            let running = self.running.len() as u32;
            self.night.throttle.runs(self.night.now, running);
            let admission = self.night.throttle.admission(self.night.now, &self.night.tuning);
            let admitted = admission.is_none_or(|a| a.allows(running, 1));
            if !fits(self.limit(), running, 1) || !admitted {
                return;
            }
            self.steps += 1;
            self.running.push(run(self.steps));
        }
    }

    /// Time passes; what has run for ten minutes ends.
    fn pass(&mut self, d: Duration) {
        self.night.pass(d);
        for run in &mut self.running {
            run.age += d.as_secs_f64();
        }
        self.running.retain(|r| r.age < 600.0);
    }

    /// A quarter of a minute passes, and ends with a sample or without one.
    fn next(&mut self, lag: Option<f64>) {
        self.pass(INTERVAL);
        self.read(ORDERS, lag);
    }

    fn read(&mut self, signal: &str, lag: Option<f64>) -> Governed {
        let signal = name(signal);
        self.take(match lag {
            Some(value) => Input::Sample {
                signal,
                value,
                age: Duration::ZERO,
            },
            None => Input::NoSample {
                signal,
                why: "empty result".to_owned(),
            },
        })
    }

    /// About this much for a while: what lives jitters.
    fn lag_for(&mut self, value: f64, d: Duration) {
        for step in 0..d.as_secs() / INTERVAL.as_secs() {
            self.next(Some(value + (step % 7) as f64 * 0.1));
        }
    }

    /// It falls from one value to another as fast as is believed.
    fn falls(&mut self, from: f64, to: f64) {
        let mut value = from;
        while value > to {
            value = (value - 40.0).max(to);
            self.next(Some(value));
        }
    }

    fn limit(&self) -> u32 {
        self.night.limit()
    }

    fn said(&self) -> (u32, ThrottleState) {
        (self.night.limit(), self.night.state())
    }

    fn start_gap(&self) -> Option<Duration> {
        self.night.throttle.start_gap(&self.night.tuning)
    }

    fn restarted(&self) -> Throttle {
        let checkpoint = self.night.throttle.checkpoint();
        let levels = levels(&[(ORDERS, seconds())]);
        let restored = Throttle::restore(&checkpoint, levels, BOOT, self.night.now).unwrap();
        restored.by_law(Law::Learned)
    }
}

/// A chunk that has just begun.
fn run(key: u64) -> Running {
    Running {
        key,
        weight: 1,
        age: 0.0,
        expected: 600.0,
        may_be_cancelled: true,
    }
}

fn fleet(n: u32) -> Vec<Running> {
    (0..u64::from(n)).map(run).collect()
}

#[test]
fn sight_that_comes_back_past_critical_does_not_end_the_rest() {
    let mut learned = Learned::new();
    learned.starts = false;
    for lag in [10.0, 8.0, 5.0] {
        learned.next(Some(lag));
    }
    assert_eq!(learned.said().0, 2);
    for _ in 0..5 {
        learned.next(None);
    }
    assert_eq!(learned.said(), (1, ThrottleState::Blind), "half");
    for lag in [950.0, 951.0, 952.0, 953.0] {
        learned.next(Some(lag));
    }
    assert_eq!(learned.said(), (0, ThrottleState::Critical));
    for step in 0..10 {
        learned.next(Some(940.0 - f64::from(step)));
        assert_eq!(learned.said(), (0, ThrottleState::Critical), "step {step}");
    }
}

/// Case B25: what was removed or renamed throttles nothing and is named nowhere, under either law.
#[test]
fn a_signal_that_is_removed_or_renamed_drops_out_at_once() {
    let after = [
        ("removed", vec![(ORDERS, seconds())]),
        ("renamed", vec![("cheats-live", seconds()), (ORDERS, seconds())]),
    ];
    for law in [Law::Classic, Law::Learned] {
        for (what, rest) in &after {
            let mut learned = Learned::of(Night::new(&[(FRAUD, seconds()), (ORDERS, seconds())], 4));
            learned.night.throttle = learned.night.throttle.by_law(law);
            let both = |learned: &mut Learned, fraud: f64| {
                learned.next(Some(1.0));
                learned.read(FRAUD, Some(fraud));
            };
            for step in 0..60 {
                both(&mut learned, 1.0 + f64::from(step % 3) * 0.1);
            }
            assert!(learned.limit() > 0, "{law:?} {what}");
            for step in 0..10 {
                both(&mut learned, 400.0 + f64::from(step));
            }
            assert_eq!(learned.limit(), 0, "{law:?} {what}");
            assert_eq!(learned.night.report().binding, Some(name(FRAUD)));

            let night = &mut learned.night;
            let told = night
                .throttle
                .configure(levels(rest), &night.load, night.now, &night.tuning);
            let everything = format!(
                "{:?} {:?} {} {:?}",
                told.last(),
                night.report(),
                night.throttle.checkpoint(),
                night.throttle.terms()
            );
            assert!(!everything.contains("fraud"), "{law:?} {what}: {everything}");
            learned.lag_for(1.0, secs(600));
            assert_eq!(
                learned.limit() > 0,
                *what == "removed",
                "{law:?}: {:?}",
                learned.said()
            );
            if *what == "renamed" {
                // It is another signal, which has to be seen first.
                assert_eq!(learned.night.report().binding, Some(name("cheats-live")));
                let why = learned.night.report().why;
                assert!(!why.contains("fraud"), "{law:?}: {why}");
            }
        }
    }
}

/// Case B27: one spike shorter than two samples.
#[test]
fn one_single_sample_above_hard_stops_and_cancels_nothing_however_high_it_is() {
    for spike in [181.0, 899.0, 5000.0, 1e12] {
        let mut learned = Learned::at_rest();
        learned.cancel = Some(1.0);
        let limit = learned.limit();
        learned.next(Some(spike));
        assert_eq!(learned.limit(), limit, "{spike}");
        learned.lag_for(1.0, secs(300));
        let lowered = learned
            .night
            .changes()
            .into_iter()
            .filter(|c| c.to < c.from)
            .count();
        assert_eq!(lowered, 0, "{spike}: {:?}", learned.night.steps());
        assert!(learned.cancelled.is_empty(), "{spike}");
    }
}

/// Case B27: critical while running hibernates for five minutes, and what runs keeps its progress.
#[test]
fn critical_while_running_starts_nothing_for_five_minutes_and_cancels_nothing() {
    let mut learned = Learned::at_rest();
    let running: Vec<u64> = learned.running.iter().map(|r| r.key).collect();
    learned.next(Some(950.0));
    learned.next(Some(951.0));
    assert_eq!(learned.said(), (0, ThrottleState::Critical));
    let why = &learned.night.last_change().why;
    assert!(
        why.starts_with("critical: orders-live 951 s is over critical 900; no starts for 5m, then as paused"),
        "{why}"
    );
    learned.falls(951.0, 1.0);
    assert_eq!(learned.said(), (0, ThrottleState::PausedAuto), "20 samples later");
    assert!(learned.cancelled.is_empty());
    // Nothing was added, and what is gone ran for its ten minutes.
    assert!(learned.running.iter().all(|r| running.contains(&r.key)));
    learned.lag_for(1.0, secs(300));
    assert!(learned.limit() > 0, "calm for two minutes");
}

/// Case B27: critical while already held.
#[test]
fn critical_while_a_human_holds_is_shown_cancels_nothing_and_is_no_pause_of_ours() {
    let mut learned = Learned::at_rest();
    learned.cancel = Some(1.0);
    learned.night.load.held_above = true;
    let running = learned.running.len();
    for step in 0..4 {
        learned.next(Some(950.0 + f64::from(step)));
        // Chunks may end; none is ended.
        assert!(learned.cancelled.is_empty() && learned.running.len() <= running);
    }
    assert_eq!(learned.night.state(), ThrottleState::Critical);
    assert_eq!(learned.night.report().pauses.0, 0, "the limit did not go wrong");
    // Who lets go in that moment starts nothing before it is calm.
    learned.night.load.held_above = false;
    learned.next(Some(955.0));
    assert_eq!(learned.said(), (0, ThrottleState::Critical));
    learned.falls(955.0, 1.0);
    learned.lag_for(1.0, secs(600));
    assert!(learned.limit() > 0, "{:?}", learned.night.steps());
}

/// Case B28, for everything that is no sample: never later than under the classic law.
#[test]
fn without_samples_nothing_grows_and_it_is_at_most_half_at_two_minutes_and_nothing_at_five() {
    type Dark = fn(&mut Learned);
    let ways: [(&str, Dark); 5] = [
        ("empty result", |l| l.next(None)),
        ("NaN", |l| l.next(Some(f64::NAN))),
        ("negative", |l| l.next(Some(-1.0))),
        ("infinite", |l| l.next(Some(f64::INFINITY))),
        ("silence", |l| {
            l.pass(INTERVAL);
            l.take(Input::Tick);
        }),
    ];
    for (what, dark) in ways {
        let mut learned = Learned::at_rest();
        let (limit, running) = (learned.limit(), learned.running.len());
        for step in 1..=24 {
            dark(&mut learned);
            let most = match step * 15 {
                0..120 => limit,
                120..300 => limit / 2,
                _ => 0,
            };
            assert!(
                learned.limit() <= most,
                "{what}, step {step}: {:?}",
                learned.said()
            );
        }
        assert_eq!(learned.night.state(), ThrottleState::Blind, "{what}");
        assert!(learned.cancelled.is_empty(), "{what}: what runs is left alone");
        assert!(learned.running.len() <= running);
        learned.next(Some(1.0));
        assert_eq!(learned.limit(), 0, "{what}: one sample does not end it");
        learned.next(Some(1.1));
        assert!(learned.limit() > 0, "{what}: two do");
        assert!(
            learned.limit() <= limit / 2,
            "{what}: {:?}",
            learned.night.steps()
        );
    }
}

/// Case B28: a metric that stands still is no measurement.
#[test]
fn a_frozen_metric_is_as_good_as_none() {
    let mut learned = Learned::new();
    learned.lag_for(20.0, secs(3600));
    let limit = learned.limit();
    assert!(limit > 0);
    for _ in 0..40 {
        learned.next(Some(21.3));
        assert!(learned.limit() <= limit, "{:?}", learned.night.steps());
    }
    assert_eq!(learned.said(), (0, ThrottleState::Blind));
}

/// Case B30: a lower `max_limit` takes nothing away from what runs, and neither does raising it within the drain.
#[test]
fn a_lower_limit_drains_and_a_raise_within_the_drain_cancels_nothing() {
    let mut learned = Learned::at_rest();
    learned.cancel = Some(1.0);
    let running = learned.running.len() as u32;
    learned.night.load.max_limit = 2;
    learned.next(Some(1.0));
    assert_eq!(learned.limit(), 2);
    for _ in 0..4 {
        learned.next(Some(1.0));
        let left = learned.running.len() as u32;
        assert!(left <= running && (left >= 2 || learned.running.iter().any(|r| r.age == 0.0)));
    }
    learned.night.load.max_limit = 8;
    learned.lag_for(1.0, secs(60));
    assert!(learned.cancelled.is_empty());
    assert!(learned.limit() >= 2, "and it is grown into again");
}

/// Case B31: after any resume, starts are paced until what is allowed runs.
#[test]
fn after_a_resume_by_the_signal_starts_come_one_by_one() {
    let mut learned = Learned::at_rest();
    let former = learned.limit();
    for lag in [250.0, 251.0] {
        learned.next(Some(lag));
    }
    assert_eq!(learned.said(), (0, ThrottleState::PausedAuto));
    learned.falls(251.0, 1.0);
    learned.starts = false;
    for _ in 0..60 {
        learned.next(Some(1.0));
        if learned.limit() > 0 {
            break;
        }
    }
    let change = learned.night.last_change().clone();
    assert_eq!((change.from, change.rule), (0, Rule::Resume), "{change:?}");
    assert!(change.to <= former, "{change:?}");
    assert_eq!(learned.start_gap(), Some(secs(10)));
    learned.running = fleet(change.to);
    learned.next(Some(1.0));
    assert_eq!(learned.start_gap(), None, "as much runs as was allowed");
}

/// Case B31: also when it was a human who let go.
#[test]
fn when_a_human_lets_go_the_limit_goes_on_from_half_and_starts_are_paced() {
    let mut learned = Learned::at_rest();
    let former = learned.limit();
    learned.night.load.held_above = true;
    learned.lag_for(1.0, secs(1800));
    assert!(learned.running.is_empty());
    learned.night.load.held_above = false;
    learned.starts = false;
    learned.next(Some(1.0));
    assert_eq!(learned.night.steps(), [(former, former / 2, Rule::Resume)]);
    assert_eq!(learned.start_gap(), Some(secs(10)));
}

/// Case B31: also when it was blind.
#[test]
fn when_it_is_seen_again_the_limit_goes_on_from_half_and_starts_are_paced() {
    let mut learned = Learned::at_rest();
    let former = learned.limit();
    learned.starts = false;
    for _ in 0..40 {
        learned.next(None);
    }
    assert_eq!(learned.limit(), 0);
    learned.lag_for(1.0, secs(45));
    let change = learned.night.last_change().clone();
    assert_eq!((change.from, change.rule), (0, Rule::Seen), "{change:?}");
    assert!((1..=former / 2).contains(&change.to), "{change:?}");
    assert_eq!(learned.start_gap(), Some(secs(10)));
}

type Story = (&'static str, ThrottleState, fn() -> Learned);

fn stories() -> Vec<Story> {
    fn paused() -> Learned {
        let mut learned = Learned::at_rest();
        learned.next(Some(250.0));
        learned.next(Some(251.0));
        learned
    }
    vec![
        ("waiting", ThrottleState::Waiting, || {
            let mut learned = Learned::new();
            learned.next(Some(3.3));
            learned
        }),
        ("open", ThrottleState::Open, Learned::at_rest),
        ("paused", ThrottleState::PausedAuto, || {
            let mut learned = paused();
            learned.falls(251.0, 9.9);
            learned
        }),
        ("recovering", ThrottleState::Recovering, || {
            let mut learned = Learned::at_rest();
            learned.night.load.held_above = true;
            learned.lag_for(1.0, secs(900));
            learned.night.load.held_above = false;
            learned.next(Some(1.1));
            learned
        }),
        ("latched", ThrottleState::Latched, || {
            let mut learned = paused();
            for _ in 0..2 {
                learned.falls(251.0, 1.0);
                while learned.limit() == 0 {
                    learned.lag_for(1.0, secs(60));
                }
                learned.next(Some(250.0));
                learned.next(Some(251.0));
            }
            learned
        }),
        ("critical", ThrottleState::Critical, || {
            let mut learned = Learned::at_rest();
            learned.next(Some(950.0));
            learned.next(Some(951.0));
            learned
        }),
        ("blind", ThrottleState::Blind, || {
            let mut learned = Learned::at_rest();
            for _ in 0..6 {
                learned.next(None);
            }
            learned
        }),
        ("held by a human", ThrottleState::Open, || {
            let mut learned = Learned::at_rest();
            learned.night.load.held_above = true;
            learned.lag_for(1.1, secs(100));
            learned
        }),
    ]
}

/// Case B34: for every state, what is restored is equal, and goes on equally.
#[test]
fn after_a_kill_the_throttle_is_what_it_was_and_goes_on_the_same() {
    for (story, state, tell) in stories() {
        let mut learned = tell();
        assert_eq!(learned.night.state(), state, "{story}");
        let mut other = tell();
        other.night.throttle = learned.restarted();
        let (before, after) = (&learned.night.throttle, &other.night.throttle);
        assert_eq!(before.checkpoint(), after.checkpoint(), "{story}");
        assert_eq!((before.limit(), before.state()), (after.limit(), after.state()));
        assert_eq!(
            before.start_gap(&learned.night.tuning),
            other.start_gap(),
            "{story}"
        );
        let admits = |l: &Learned| l.night.throttle.admission(l.night.now, &l.night.tuning);
        assert_eq!(admits(&learned), admits(&other), "{story}");
        for learned in [&mut learned, &mut other] {
            learned.night.told.clear();
            learned.cancel = Some(0.5);
        }
        for step in 0..400u32 {
            let lag = match step {
                60..70 => 300.0 + f64::from(step),
                70..90 => 380.0 - 18.0 * f64::from(step - 69),
                _ => f64::from(step % 11) / 3.0,
            };
            learned.next(Some(lag));
            other.next(Some(lag));
            assert_eq!(learned.night.told, other.night.told, "{story}, sample {step}");
            assert_eq!(learned.cancelled, other.cancelled, "{story}, sample {step}");
        }
        let stays = story.contains("latched") || story.contains("human");
        assert!(!learned.night.told.is_empty() || stays, "{story}");
    }
}

/// A cut to nothing is no pause: what comes after it has to be called by its name, or the screen says *running*.
#[test]
fn lag_past_hard_and_critical_is_a_pause_and_critical_also_where_nothing_was_allowed_before() {
    let mut learned = Learned::at_rest();
    learned.starts = false;
    learned.running.truncate(1);
    let mut lag = 1.0;
    while learned.limit() > 0 {
        lag += 0.5;
        learned.next(Some(lag));
    }
    assert!(lag < 180.0, "cut to nothing before hard: {lag}");
    let why = learned.night.last_change().why.clone();
    assert_eq!(learned.night.state(), ThrottleState::Cut, "{why}");
    while lag < 215.0 {
        lag += 9.0;
        learned.next(Some(lag));
    }
    assert_eq!(learned.night.state(), ThrottleState::PausedAuto);
    assert!(learned.night.last_change().why.contains("was over hard 180"));
    while lag < 1_000.0 {
        lag += 40.0;
        learned.next(Some(lag));
    }
    assert_eq!(learned.night.state(), ThrottleState::Critical);
}
