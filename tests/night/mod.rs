//! The same night as in the pictures of the look: three years of orders, lag passes soft at 03:08:30 and hard at
//! 03:12:00. Made of real events, folded by the real fold.
#![allow(dead_code, unused_imports)] // Each test binary uses its own part of the night.

pub mod cases;
mod drawn;
pub mod inside;
mod keys;
pub mod parts;
pub mod theirs;

pub use drawn::{screen, text};
pub use keys::hints;

use backfill::{
    config::Unit,
    domain::{
        Time,
        calendar::{Granularity, cut},
        event::{Actor, Event, LimitChange, Next, Outcome, Payload, Read, Rule},
        failure::{Failure, FailureClass},
        fold::fold,
        ids::{AttemptId, BackfillId, ChunkId, ExternalId, Name},
        spec::{Lane, LaneDays, OnFailure, Order, Profile, Spec, Throttling},
        state::State,
        tuning::Tuning,
    },
    plan::decide::{ExecutorFacts, Surroundings},
    tui::{
        estimate::{self, Estimate},
        glyphs::GlyphSet,
        inside::Pick,
        model::{App, Configured, ExecutorView, Feed, LeaseView, Panel, SignalView, Zoom},
        theme::{Level, Look},
    },
};
use chrono::{NaiveDate, TimeDelta, TimeZone, Utc};
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
    time::Duration,
};

/// 03:10:20 in Berlin.
pub fn t0310() -> Time {
    clock(3, 10, 20)
}

/// 03:18:37 in Berlin.
pub fn t0318() -> Time {
    clock(3, 18, 37)
}

/// A wall time of that night in Berlin.
pub fn clock(h: u32, m: u32, s: u32) -> Time {
    let zone = chrono_tz::Europe::Berlin;
    zone.with_ymd_and_hms(2026, 12, 2, h, m, s)
        .unwrap()
        .with_timezone(&Utc)
}

pub fn name(text: &str) -> Name {
    text.parse().unwrap()
}

pub fn day(y: i32, m: u32, d: u32) -> NaiveDate {
    NaiveDate::from_ymd_opt(y, m, d).unwrap()
}

/// What a screen was opened on.
pub fn configured(file: &str) -> Configured {
    Configured {
        file: file.to_owned(),
        journal: "/var/lib/backfill/journal.db".to_owned(),
    }
}

pub fn id() -> BackfillId {
    "orders-rebuild-k3f7qa".parse().unwrap()
}

pub fn spec() -> Spec {
    let profile = |n: &str, gib: u64| Profile {
        name: name(n),
        memory: Some(gib << 30),
        deadline_ms: Some(45 * 60_000),
        values: BTreeMap::new(),
    };
    Spec {
        name: name("orders-rebuild"),
        target: "lake.orders_v2".to_owned(),
        environment: Some("prod".to_owned()),
        start: day(2022, 1, 1),
        end: day(2024, 12, 31),
        granularity: Granularity::Day,
        timezone: chrono_tz::Europe::Berlin,
        executor: name("airflow-eu"),
        command: vec!["./rebuild".to_owned(), "{{ ds }}".to_owned()],
        dag: None,
        attach: None,
        cwd: "/srv".to_owned(),
        env_pass: Vec::new(),
        env: BTreeMap::new(),
        env_secrets: Vec::new(),
        max_limit: 8,
        order: Order::OldestFirst,
        signals: vec![name("orders-live")],
        on_failure: OnFailure::Continue,
        profiles: vec![profile("m", 4), profile("l", 8), profile("xl", 16)],
        lanes: BTreeMap::from([(
            Lane::Isolated,
            LaneDays {
                days: vec![day(2022, 11, 25), day(2023, 11, 24), day(2024, 11, 29)],
                profile: Some(name("l")),
            },
        )]),
        source: BTreeMap::from([("snapshot".to_owned(), "v42".to_owned())]),
        idempotent: true,
        throttling: Throttling::default(),
        blackout: Vec::new(),
    }
}

/// Writes events one after the other.
pub struct Journal {
    pub events: Vec<Event>,
    id: BackfillId,
}

impl Journal {
    pub fn new(id: BackfillId) -> Self {
        Self {
            events: Vec::new(),
            id,
        }
    }

    pub fn push(&mut self, at: Time, actor: Actor, payload: Payload) {
        self.because(at, actor, None, payload);
    }

    pub fn because(&mut self, at: Time, actor: Actor, reason: Option<&str>, payload: Payload) {
        let whole = matches!(
            payload,
            Payload::ConfigRejected { .. }
                | Payload::LeaseTaken { .. }
                | Payload::BlindSince { .. }
                | Payload::SeenAgain { .. }
                | Payload::SignalGone { .. }
        );
        self.events.push(Event {
            seq: self.events.len() as u64 + 1,
            at,
            actor,
            reason: reason.map(str::to_owned),
            backfill: (!whole).then(|| self.id.clone()),
            payload: Read::Known(payload),
        });
    }

    /// Brings events that were written by topic into the order of time.
    pub fn in_order(&mut self) {
        self.events.sort_by_key(|e| e.at);
        for (i, event) in self.events.iter_mut().enumerate() {
            event.seq = i as u64 + 1;
        }
    }

    fn attempt(&self, chunk: ChunkId, no: u32) -> AttemptId {
        AttemptId {
            backfill: self.id.clone(),
            chunk,
            no,
        }
    }

    pub fn start(&mut self, at: Time, chunk: ChunkId, no: u32, executor: &str, profile: u32, running: bool) {
        let attempt = self.attempt(chunk, no);
        self.push(
            at,
            Actor::supervisor(),
            Payload::SubmissionIntended {
                attempt: attempt.clone(),
                executor: name(executor),
                profile,
                weight: 1,
            },
        );
        self.push(
            at,
            Actor::executor(&name(executor)),
            Payload::SubmissionAccepted {
                attempt,
                run: ExternalId("r".to_owned()),
                adopted: false,
                running,
            },
        );
    }

    pub fn end(&mut self, at: Time, chunk: ChunkId, no: u32, executor: &str, outcome: Outcome) {
        let attempt = self.attempt(chunk, no);
        let payload = Payload::RunEnded {
            attempt,
            outcome,
            started: None,
            ended: None,
            peak: None,
            note: None,
        };
        self.push(at, Actor::executor(&name(executor)), payload);
    }

    pub fn limit(&mut self, at: Time, from: u32, to: u32, rule: Rule, why: &str) {
        let signal = name("orders-live");
        let change = LimitChange {
            from,
            to,
            rule,
            signal: Some(signal.clone()),
            why: why.to_owned(),
            checkpoint: String::new(),
        };
        self.push(at, Actor::signal(&signal), Payload::LimitChanged { change });
    }
}

pub fn human(name: &str) -> Actor {
    Actor {
        name: name.to_owned(),
        origin: "os user".to_owned(),
    }
}

fn fails(class: FailureClass, exit: Option<i32>, message: &str, next: Next) -> Outcome {
    Outcome::Failed {
        failure: Failure {
            class,
            exit,
            message: message.to_owned(),
        },
        next,
    }
}

/// Everything up to 03:10:20: 405 done, 2 skipped, 2 failed, 1 quarantined, 6 running, 1 queued, 14 held.
pub fn night() -> Journal {
    let mut journal = Journal::new(id());
    let spec = spec();
    let begun = clock(3, 10, 20) - TimeDelta::days(2);
    let all: Vec<ChunkId> = cut(spec.timezone, spec.start, spec.end, spec.granularity)
        .into_iter()
        .map(|(id, _)| id)
        .collect();
    journal.push(
        begun,
        human("minh"),
        Payload::Started {
            spec: Box::new(spec),
            hash: "9f31c2".to_owned(),
        },
    );
    let lease = Payload::LeaseTaken {
        epoch: 7,
        holder: "minh".to_owned(),
        from: None,
    };
    journal.push(begun, Actor::supervisor(), lease);
    journal.limit(
        begun,
        0,
        8,
        Rule::Start,
        "limit 0 to 8: two valid samples of orders-live",
    );
    let skipped = [day(2022, 5, 1), day(2022, 5, 2)].map(ChunkId::day);
    journal.push(
        begun,
        human("minh"),
        Payload::Skipped {
            chunks: skipped.into(),
        },
    );
    let freeze: Vec<ChunkId> = (0..14)
        .map(|i| ChunkId::day(day(2023, 12, 25) + TimeDelta::days(i)))
        .collect();
    journal.because(
        begun,
        human("minh"),
        Some("year end freeze"),
        Payload::HoldPlaced { chunks: freeze },
    );
    let bad = [day(2022, 6, 19), day(2022, 11, 25), day(2022, 11, 26)].map(ChunkId::day);
    let until = ChunkId::day(day(2023, 2, 14));
    let mut at = begun;
    let ordinary = all
        .iter()
        .filter(|c| c.date < until.date && !skipped.contains(c) && !bad.contains(c));
    for (i, chunk) in ordinary.enumerate() {
        let executor = if i % 3 == 2 { "spark-batch" } else { "airflow-eu" };
        let took = 9 * 60 + (i as i64 * 7_919) % 900;
        journal.start(at, *chunk, 1, executor, 0, true);
        journal.end(at + TimeDelta::seconds(took), *chunk, 1, executor, Outcome::Done);
        at += TimeDelta::seconds(340);
    }
    black_friday(&mut journal, bad);
    running(&mut journal, until);
    journal
}

/// The three days that need somebody.
fn black_friday(journal: &mut Journal, [timeout, friday, conflict]: [ChunkId; 3]) {
    let evening = |h, m, s| clock(h, m, s) - TimeDelta::days(1);
    journal.start(evening(20, 0, 0), timeout, 1, "airflow-eu", 0, true);
    let stay = fails(FailureClass::Timeout, None, "timeout after 45m", Next::Stay);
    journal.end(evening(20, 45, 0), timeout, 1, "airflow-eu", stay);
    let tries = [
        (evening(23, 2, 10), 31, 1, 1, "oom exit 137"),
        (clock(0, 11, 40), 48, 2, 2, "oom exit 137"),
        (clock(2, 3, 5), 48, 3, 2, "oom exit 137, split ready"),
    ];
    for (at, minutes, no, profile, _) in tries {
        journal.start(at, friday, no, "spark-batch", profile, true);
        let next = if no < 3 {
            Next::Retry {
                at: at + TimeDelta::minutes(60),
                profile: 2,
                used: no,
                budget: 3,
            }
        } else {
            Next::Quarantine {
                why: "oom x3 at profile xl, the largest".to_owned(),
            }
        };
        let oom = fails(FailureClass::Oom, Some(137), "java.lang.OutOfMemoryError", next);
        journal.end(at + TimeDelta::minutes(minutes), friday, no, "spark-batch", oom);
    }
    for no in 1..=3 {
        let at = clock(3, 4, 10) - TimeDelta::minutes(30 * i64::from(3 - no));
        journal.start(at - TimeDelta::minutes(21), conflict, no, "airflow-eu", 0, true);
        let next = Next::Retry {
            at: clock(3, 12, 30),
            profile: 0,
            used: no,
            budget: 10,
        };
        let conflicts = fails(FailureClass::Platform, None, "commit conflict", next);
        journal.end(at, conflict, no, "airflow-eu", conflicts);
    }
}

/// Six running, one queued, and the cut.
fn running(journal: &mut Journal, last_done: ChunkId) {
    journal.start(clock(2, 57, 2), last_done, 1, "airflow-eu", 0, true);
    for d in 15..=19 {
        let chunk = ChunkId::day(day(2023, 2, d));
        let at = clock(2, 55, d - 10);
        journal.start(
            at,
            chunk,
            1,
            if d == 19 { "spark-batch" } else { "airflow-eu" },
            0,
            true,
        );
    }
    journal.start(
        clock(3, 5, 31),
        ChunkId::day(day(2023, 2, 20)),
        1,
        "spark-batch",
        0,
        true,
    );
    let cut = "limit 8 to 4 at 03:08:45: orders-live 64 s is over soft 60, on course past hard 180 in 10m; starts wait";
    journal.limit(clock(3, 8, 45), 8, 4, Rule::Cut, cut);
    journal.end(clock(3, 10, 2), last_done, 1, "airflow-eu", Outcome::Done);
    journal.start(
        clock(2, 56, 40),
        ChunkId::day(day(2023, 2, 21)),
        1,
        "airflow-eu",
        0,
        false,
    );
    journal.in_order();
}

/// On to 03:18:37: paused by the signal, two still run, 410 are done.
pub fn paused_night() -> Journal {
    let mut journal = night();
    let why = "paused by orders-live at 03:12:20: 190 s was over hard 180 for 2 samples; resumes by itself below low 30 for 5m";
    journal.limit(clock(3, 12, 20), 4, 0, Rule::Pause, why);
    let queued = ChunkId::day(day(2023, 2, 21));
    let attempt = journal.attempt(queued, 1);
    journal.push(
        clock(3, 12, 40),
        Actor::executor(&name("airflow-eu")),
        Payload::RunStarted { attempt },
    );
    for (d, at) in [
        (15, (14, 45)),
        (16, (16, 10)),
        (17, (16, 12)),
        (18, (17, 50)),
        (19, (17, 52)),
    ] {
        let chunk = ChunkId::day(day(2023, 2, d));
        let executor = if d == 19 { "spark-batch" } else { "airflow-eu" };
        journal.end(clock(3, at.0, at.1), chunk, 1, executor, Outcome::Done);
    }
    journal.in_order();
    journal
}

/// Lag in seconds at an instant of the night.
pub fn lag_at(at: Time) -> f64 {
    let points = [
        (clock(2, 0, 0), 22.0),
        (clock(2, 50, 0), 27.0),
        (clock(3, 0, 0), 37.0),
        (clock(3, 5, 0), 46.0),
        (clock(3, 8, 30), 60.0),
        (clock(3, 8, 45), 64.0),
        (clock(3, 9, 25), 84.0),
        (clock(3, 10, 10), 96.0),
        (clock(3, 12, 0), 183.0),
        (clock(3, 12, 20), 190.0),
        (clock(3, 14, 30), 213.0),
        (clock(3, 15, 10), 214.0),
        (clock(3, 18, 25), 131.0),
        (clock(3, 30, 0), 30.0),
    ];
    let after = points
        .iter()
        .position(|(t, _)| *t > at)
        .unwrap_or(points.len() - 1)
        .max(1);
    let ((a, x), (b, y)) = (points[after - 1], points[after]);
    let share = (at - a).num_milliseconds() as f64 / (b - a).num_milliseconds() as f64;
    let wave = ((at.timestamp() / 15) % 7) as f64 - 3.0;
    let calm = if at < clock(3, 0, 0) { 0.6 * wave } else { 0.0 };
    x + (y - x) * share.clamp(0.0, 1.0) + calm
}

pub fn signal(now: Time, slope: Option<f64>) -> SignalView {
    let mut samples = VecDeque::new();
    let mut at = clock(1, 55, 10);
    while at <= now {
        samples.push_back((at, Some(lag_at(at))));
        at += TimeDelta::seconds(15);
    }
    SignalView {
        name: name("orders-live"),
        unit: Unit::Seconds,
        low: 30.0,
        soft: 60.0,
        hard: 180.0,
        critical: 900.0,
        interval: Duration::from_secs(15),
        protects: true,
        samples,
        slope,
        problem: None,
    }
}

fn executor(n: &str, running: u32, slots: u32, seen: Time, problem: Option<&str>) -> (Name, ExecutorView) {
    let view = ExecutorView {
        name: name(n),
        running,
        slots: Some(slots),
        levers: n.starts_with("airflow"),
        seen: Some(seen),
        problem: problem.map(str::to_owned),
    };
    (name(n), view)
}

/// A feed of a journal as it looks at an instant.
pub fn feed(journal: &Journal, now: Time, slope: Option<f64>) -> Feed {
    let known: Vec<Event> = journal.events.iter().filter(|e| e.at <= now).cloned().collect();
    let newest = known.len().saturating_sub(500);
    let state = Arc::new(fold(&journal.events));
    Feed {
        estimate: estimated(&state, now, true, None),
        state,
        events: known[newest..].iter().cloned().collect(),
        signals: BTreeMap::from([(name("orders-live"), signal(now, slope))]),
        executors: BTreeMap::from([
            executor("airflow-eu", 5, 6, now - TimeDelta::seconds(3), None),
            executor("spark-batch", 2, 4, now - TimeDelta::seconds(4), None),
            executor(
                "emr-nightly",
                0,
                4,
                now - TimeDelta::minutes(6),
                Some("token expired, press a"),
            ),
        ]),
        lease: LeaseView::Held {
            holder: "minh".to_owned(),
            epoch: 7,
            age: Duration::from_secs(12),
        },
        limits: limits(now),
        throttle: None,
        parts: None,
        as_of: now,
        problem: None,
        log: None,
        inside: None,
        config: Some(Ok(configured("backfill.toml"))),
        config_fault: None,
    }
}

/// Nobody supervises any more, and the feeder knows it.
pub fn alone(feed: &mut Feed, now: Time) {
    feed.lease = LeaseView::Nobody;
    feed.estimate = estimated(&feed.state, now, false, None);
}

/// The end as the feeder would tell it, with an executor that answers.
pub fn estimated(state: &State, now: Time, supervised: bool, what_if: Option<u32>) -> Option<Estimate> {
    let backfill = state.backfills.values().next()?;
    let facts = ExecutorFacts {
        slots: Some(10),
        problem: None,
    };
    let around = Surroundings {
        now,
        tuning: Tuning::default(),
        executors: BTreeMap::from([(backfill.spec.executor.clone(), facts)]),
        signals: None,
        paced: BTreeSet::new(),
        admissions: Default::default(),
        disk_low: false,
        supervised,
        elsewhere: BTreeMap::new(),
    };
    Some(estimate::make(state, backfill, &around, 1.0, what_if))
}

fn limits(now: Time) -> VecDeque<(Time, u32, u32)> {
    [
        (clock(1, 50, 0), 8, 8),
        (clock(3, 8, 45), 4, 8),
        (clock(3, 10, 2), 4, 7),
        (clock(3, 12, 20), 0, 7),
        (clock(3, 14, 45), 0, 6),
        (clock(3, 16, 12), 0, 4),
        (clock(3, 17, 52), 0, 2),
    ]
    .into_iter()
    .filter(|(at, ..)| *at <= now)
    .collect()
}

/// What the operator looks at: the home screen with the cursor on Black Friday.
pub fn app() -> App {
    App {
        backfill: Some(id()),
        cursor: Some(ChunkId::day(day(2022, 11, 25))),
        marks: BTreeSet::new(),
        range_from: None,
        zoom: Zoom::Days,
        focus: Panel::Calendar,
        layers: Vec::new(),
        filter: String::new(),
        only_bad: false,
        toast: None,
        events_back: 0,
        read_only: None,
        pick: Pick::default(),
        unfolded: None,
        why: None,
        quit_asked: None,
    }
}

pub fn look(theme: &str, level: Level, set: GlyphSet) -> Look {
    Look::new(theme, level, set).unwrap()
}
