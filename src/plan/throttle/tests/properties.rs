//! What holds whatever the samples, holes and loads are.

use super::*;
use proptest::prelude::*;

#[derive(Debug, Clone)]
enum Move {
    Sample(usize, f64),
    Miss(usize),
    Tick,
    Running(u32),
    Next(Option<u32>),
    Held(bool),
    Max(u32),
    Acknowledge,
    Reload,
    Restart,
}

fn a_move() -> impl Strategy<Value = Move> {
    prop_oneof![
        30 => (0..3usize, 0.0..60.0f64).prop_map(|(s, v)| Move::Sample(s, v)),
        4 => (0..3usize, 0.0..1500.0f64).prop_map(|(s, v)| Move::Sample(s, v)),
        1 => (0..3usize, prop_oneof![Just(f64::NAN), Just(-1.0), Just(f64::INFINITY)]).prop_map(|(s, v)| Move::Sample(s, v)),
        2 => (0..3usize).prop_map(Move::Miss),
        4 => Just(Move::Tick),
        6 => (0..12u32).prop_map(Move::Running),
        2 => prop_oneof![Just(None), (1..5u32).prop_map(Some)].prop_map(Move::Next),
        1 => any::<bool>().prop_map(Move::Held),
        1 => (1..10u32).prop_map(Move::Max),
        1 => Just(Move::Acknowledge),
        1 => Just(Move::Reload),
        1 => Just(Move::Restart),
    ]
}

/// A move, how often it is repeated, and the seconds between repetitions.
fn moves() -> impl Strategy<Value = Vec<(Move, u8, u64)>> {
    let one = (
        a_move(),
        1..20u8,
        prop_oneof![12 => Just(5u64), 3 => 6..20u64, 1 => 20..400u64],
    );
    prop::collection::vec(one, 1..60)
}

const NAMES: [&str; 3] = ["fraud-live", "orders-live", "spend"];

fn all_levels() -> BTreeMap<Name, SignalLevels> {
    let quick = |l: SignalLevels| SignalLevels {
        interval: secs(5),
        ..l
    };
    levels(&[
        (NAMES[0], quick(seconds())),
        (NAMES[1], quick(seconds())),
        (NAMES[2], quick(advising())),
    ])
}

/// What the test itself knows about a signal, without the code under test.
#[derive(Debug, Clone, Copy, Default)]
struct Seen {
    in_a_row: u32,
    last: Option<BootInstant>,
}

struct World {
    night: Night,
    seen: [Seen; 3],
    before: u32,
}

impl World {
    fn new() -> Self {
        let mut night = Night::new(&[], 8);
        night.throttle = Throttle::new(all_levels(), 8, BOOT, night.now);
        night.follows = false;
        Self {
            night,
            seen: [Seen::default(); 3],
            before: 0,
        }
    }

    fn apply(&mut self, m: &Move) -> Result<(), TestCaseError> {
        self.before = self.night.limit();
        self.night.told.clear();
        let max_before = self.night.load.max_limit;
        match m {
            Move::Sample(s, v) => {
                self.note(*s, v.is_finite() && *v >= 0.0);
                self.night.sample(NAMES[*s], *v);
            }
            Move::Miss(s) => {
                self.note(*s, false);
                self.night.no_sample(NAMES[*s], "503");
            }
            Move::Tick => {
                self.night.input(Input::Tick);
            }
            Move::Running(w) => self.night.load.running = *w,
            Move::Next(w) => self.night.load.next_weight = *w,
            Move::Held(h) => self.night.load.held_above = *h,
            Move::Max(m) => self.night.load.max_limit = *m,
            Move::Acknowledge => {
                let told = self
                    .night
                    .throttle
                    .acknowledge(self.night.now, &self.night.tuning);
                self.night.told.extend(told);
            }
            Move::Reload => {
                let load = self.night.load;
                let told =
                    self.night
                        .throttle
                        .configure(all_levels(), &load, self.night.now, &self.night.tuning);
                self.night.told.extend(told);
            }
            Move::Restart => {
                let saved = self.night.throttle.checkpoint();
                let restored = Throttle::restore(&saved, all_levels(), BOOT, self.night.now).unwrap();
                prop_assert_eq!(restored.checkpoint(), saved);
                self.night.throttle = restored;
            }
        }
        self.check(m, max_before)
    }

    fn note(&mut self, s: usize, valid: bool) {
        let seen = &mut self.seen[s];
        if valid {
            *seen = Seen {
                in_a_row: seen.in_a_row + 1,
                last: Some(self.night.now.boot),
            };
        } else {
            seen.in_a_row = 0;
        }
    }

    fn check(&self, m: &Move, max_before: u32) -> Result<(), TestCaseError> {
        let night = &self.night;
        let (limit, now, load) = (night.limit(), night.now.boot, night.load);
        let stepped = matches!(m, Move::Sample(..) | Move::Miss(_) | Move::Tick | Move::Reload);
        if stepped {
            prop_assert!(limit <= load.max_limit, "never above max_limit");
        }
        if limit > self.before {
            prop_assert!(!load.held_above, "no rise while held from above");
            for seen in &self.seen[..2] {
                prop_assert!(
                    seen.in_a_row >= 2,
                    "no rise without two valid samples in a row of every protecting signal"
                );
                prop_assert!(
                    seen.last.is_some_and(|t| now.since(t) <= secs(15)),
                    "nor on old ones"
                );
            }
        }
        let darkest = self.seen[..2].iter().filter_map(|s| s.last).min();
        if matches!(m, Move::Tick) && darkest.is_some_and(|t| now.since(t) >= secs(300)) {
            prop_assert_eq!(limit, 0, "no starts five minutes after the last valid sample");
        }
        if self.seen[..2].iter().any(|s| s.last.is_none()) {
            prop_assert_eq!(
                limit,
                0,
                "nothing before every protecting signal has given samples"
            );
        }
        self.check_told(limit, max_before)
    }

    fn check_told(&self, limit: u32, max_before: u32) -> Result<(), TestCaseError> {
        let changes = self.night.changes();
        prop_assert!(changes.len() <= 1);
        prop_assert!(limit == self.before || changes.len() == 1, "a change is told");
        let Some(change) = changes.first() else {
            return Ok(());
        };
        prop_assert_eq!((change.from, change.to), (self.before, limit));
        prop_assert!(!change.why.is_empty() && !change.why.contains('\n'));
        let last_named = change.signal.as_ref().is_none_or(|s| s.as_str() != NAMES[2]);
        prop_assert!(last_named, "an advising signal binds nothing");
        let running = self.night.load.running;
        match change.rule {
            Rule::Cut => {
                prop_assert!(running <= self.before, "drain rule");
                prop_assert!(change.to >= 1 && change.to < change.from);
                prop_assert!(change.to >= (change.from / 2).max(1));
            }
            Rule::Grow => {
                prop_assert_eq!(change.to, change.from + 1);
                let next = self.night.load.next_weight;
                prop_assert!(next.is_some_and(|w| running + w > change.from), "only when full");
            }
            Rule::Resume | Rule::Seen if change.to > change.from => {
                prop_assert!(
                    change.to <= (max_before / 2).max(self.before).max(1),
                    "at most half"
                );
                let paced = self.night.throttle.start_gap(&self.night.tuning).is_some();
                prop_assert!(
                    paced || running >= change.to,
                    "paced until as much runs: {change:?} {running}"
                );
            }
            Rule::Pause | Rule::Critical | Rule::Latch | Rule::Acknowledged => {
                prop_assert_eq!(change.to, 0);
            }
            _ => {}
        }
        Ok(())
    }
}

fn play(script: Vec<(Move, u8, u64)>) -> Result<(), TestCaseError> {
    let mut world = World::new();
    // Most scripts are to begin with a backfill that runs.
    for _ in 0..3 {
        for s in 0..3 {
            world.apply(&Move::Sample(s, 5.0))?;
        }
        world.night.pass(secs(5));
    }
    for (m, times, gap) in script {
        for _ in 0..times {
            world.night.pass(secs(gap));
            world.apply(&m)?;
        }
    }
    Ok(())
}

/// It went blind before it had allowed anything: what it allows when it is seen again is paced all the same.
#[test]
fn a_limit_that_was_0_before_it_went_blind_rises_with_paced_starts() {
    let none = f64::NAN;
    let script = [
        (0, 0.0, 7, 5),
        (2, 0.0, 16, 5),
        (0, none, 7, 5),
        (0, 0.0, 2, 5),
        (1, 0.0, 2, 8),
        (0, 816.1434104555448, 2, 60),
        (1, 0.0, 2, 5),
        (2, 0.0, 4, 5),
        (1, 200.30768381040096, 2, 50),
        (0, none, 1, 5),
        (0, none, 1, 5),
        (1, 0.0, 7, 5),
        (0, 0.0, 2, 5),
    ];
    let moves = script.map(|(signal, value, times, gap)| (Move::Sample(signal, value), times, gap));
    play(moves.into()).unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 192, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_laws_bounds_hold_whatever_happens(script in moves()) {
        play(script)?;
    }

    #[test]
    fn a_lone_sample_above_hard_among_low_ones_lowers_nothing(
        calm in prop::collection::vec(0.0..29.0f64, 8..60),
        spike in 180.1..1e9f64,
        at in 2..60usize,
        interval in 1..300u64,
    ) {
        let mut night = Night::new(&[("orders-live", SignalLevels { interval: secs(interval), ..seconds() })], 8);
        for (i, value) in calm.iter().enumerate() {
            night.pass(secs(interval));
            night.sample("orders-live", if i == at { spike } else { *value });
        }
        let lowered = night.changes().iter().filter(|c| c.to < c.from).count();
        prop_assert_eq!(lowered, 0);
    }
}
