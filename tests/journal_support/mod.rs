//! What the journal's tests share: a place, plain events, and long scripts of all kinds of events.
#![allow(dead_code)]

use backfill::{
    domain::{
        Time,
        attach::{Action, Attach, RunChange, Taking},
        calendar::{Granularity, cut},
        event::{Actor, Force, LimitChange, NewEvent, Next, Outcome, Payload, Rule, Verdict},
        failure::{Failure, FailureClass},
        ids::{AttemptId, BackfillId, ChunkId, ExternalId, Name},
        spec::{OnFailure, Order, Profile, Spec, Throttling},
    },
    journal::{Journal, Options},
};
use chrono::{DateTime, NaiveDate, TimeDelta};
use std::{collections::HashMap, path::PathBuf};

/// A directory of its own with a journal's path in it.
pub struct Place {
    pub dir: tempfile::TempDir,
    pub path: PathBuf,
}

impl Place {
    pub fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("journal.db");
        Self { dir, path }
    }

    pub fn open(&self) -> Journal {
        Journal::open(&self.path, Options::default()).unwrap()
    }

    pub fn open_read_only(&self) -> Journal {
        Journal::open_read_only(&self.path, Options::default()).unwrap()
    }

    /// A connection of the kind that somebody with a SQLite shell has.
    pub fn by_hand(&self) -> rusqlite::Connection {
        rusqlite::Connection::open(&self.path).unwrap()
    }
}

/// Second `n` of the tests' time.
pub fn second(n: i64) -> Time {
    DateTime::from_timestamp(1_700_000_000, 0).unwrap() + TimeDelta::seconds(n)
}

pub fn name(text: &str) -> Name {
    text.parse().unwrap()
}

pub fn backfill_id(text: &str) -> BackfillId {
    text.parse().unwrap()
}

pub fn orders() -> BackfillId {
    backfill_id("orders-abcdef")
}

pub fn minh() -> Actor {
    Actor {
        name: "minh".to_owned(),
        origin: "os user".to_owned(),
    }
}

pub fn spec(of: &str, granularity: Granularity, zone: &str, first: NaiveDate, days: i64) -> Spec {
    Spec {
        name: name(of),
        target: format!("datamart.{of}"),
        environment: Some("prod".to_owned()),
        start: first,
        end: first + TimeDelta::days(days - 1),
        granularity,
        timezone: zone.parse().unwrap(),
        executor: name("here"),
        command: vec!["./job.sh".to_owned(), "{{ ds }}".to_owned()],
        dag: None,
        attach: None,
        cwd: "/srv/orders".to_owned(),
        env_pass: vec!["LANG".to_owned()],
        env: [("A".to_owned(), "b".to_owned())].into(),
        env_secrets: vec!["PASSWORD".to_owned()],
        max_limit: 8,
        order: Order::Custom(vec![ChunkId::day(first)]),
        signals: vec![name("lag")],
        on_failure: OnFailure::StopAfter(3),
        profiles: vec![Profile {
            name: name("default"),
            memory: Some(1 << 29),
            deadline_ms: None,
            values: [("cores".to_owned(), "4".to_owned())].into(),
        }],
        lanes: [(
            backfill::domain::spec::Lane::Heavy,
            backfill::domain::spec::LaneDays {
                days: vec![first],
                profile: Some(name("default")),
            },
        )]
        .into(),
        source: [("path".to_owned(), "s3://raw".to_owned())].into(),
        idempotent: true,
        throttling: Throttling::default(),
        blackout: Vec::new(),
    }
}

pub fn date(y: i32, m: u32, d: u32) -> NaiveDate {
    NaiveDate::from_ymd_opt(y, m, d).unwrap()
}

pub fn started(of: &str, days: i64) -> Payload {
    let spec = spec(of, Granularity::Day, "UTC", date(2023, 1, 1), days);
    Payload::Started {
        spec: Box::new(spec),
        hash: "0123456789ab".to_owned(),
    }
}

/// An event of a human about a backfill.
pub fn said(backfill: &BackfillId, payload: Payload) -> NewEvent {
    NewEvent {
        at: second(0),
        actor: minh(),
        reason: Some("incident 4711".to_owned()),
        backfill: Some(backfill.clone()),
        payload,
    }
}

/// An event of the supervisor.
pub fn done_by_us(backfill: Option<&BackfillId>, payload: Payload) -> NewEvent {
    NewEvent {
        at: second(0),
        actor: Actor::supervisor(),
        reason: None,
        backfill: backfill.cloned(),
        payload,
    }
}

pub fn paused(backfill: &BackfillId) -> NewEvent {
    said(backfill, Payload::Paused { until: None })
}

pub fn attempt(backfill: &BackfillId, chunk: ChunkId, no: u32) -> AttemptId {
    AttemptId {
        backfill: backfill.clone(),
        chunk,
        no,
    }
}

pub fn intended(attempt: &AttemptId) -> NewEvent {
    done_by_us(
        Some(&attempt.backfill),
        Payload::SubmissionIntended {
            attempt: attempt.clone(),
            executor: name("here"),
            profile: 0,
            weight: 1,
        },
    )
}

pub fn accepted(attempt: &AttemptId) -> NewEvent {
    done_by_us(
        Some(&attempt.backfill),
        Payload::SubmissionAccepted {
            attempt: attempt.clone(),
            run: ExternalId("4711:99".to_owned()),
            adopted: false,
            running: true,
        },
    )
}

pub fn ended(attempt: &AttemptId) -> NewEvent {
    done_by_us(
        Some(&attempt.backfill),
        Payload::RunEnded {
            attempt: attempt.clone(),
            outcome: Outcome::Done,
            started: Some(second(1)),
            ended: Some(second(2)),
            peak: Some(1 << 20),
            note: None,
        },
    )
}

/// Writes long, repeatable sequences of every kind of event, most of them legal, without asking the fold: numbers
/// of attempts are counted here.
pub struct Script {
    backfills: Vec<(BackfillId, Vec<ChunkId>, bool)>,
    /// Number of the last attempt at a chunk, and whether it may still be open.
    attempts: HashMap<(usize, usize), (u32, bool)>,
    /// Seq of the last action that was asked for of each backfill.
    asked: [u64; 3],
    count: u64,
    clock: i64,
}

impl Script {
    pub fn new() -> Self {
        let day = cut(
            "UTC".parse().unwrap(),
            date(2023, 1, 1),
            date(2023, 1, 4),
            Granularity::Day,
        );
        let hours = cut(
            "Europe/Berlin".parse().unwrap(),
            date(2023, 10, 29),
            date(2023, 10, 29),
            Granularity::Hour,
        );
        let ids = |chunks: &[(ChunkId, _)]| chunks.iter().map(|(id, _)| *id).collect();
        let (day, hours) = (&day[..], &hours[..]);
        Self {
            backfills: vec![
                (orders(), ids(day), false),
                (backfill_id("clicks-zzzzzz"), ids(hours), false),
                (backfill_id("theirs-yyyyyy"), ids(day), false),
            ],
            attempts: HashMap::new(),
            asked: [0; 3],
            count: 0,
            clock: 0,
        }
    }

    fn spec(&self, which: usize) -> Spec {
        match which {
            0 => spec("orders", Granularity::Day, "UTC", date(2023, 1, 1), 4),
            1 => spec(
                "clicks",
                Granularity::Hour,
                "Europe/Berlin",
                date(2023, 10, 29),
                1,
            ),
            _ => Spec {
                attach: Some(Attach { native: Some(12) }),
                ..spec("theirs", Granularity::Day, "UTC", date(2023, 1, 1), 4)
            },
        }
    }

    /// The next event out of drawn numbers.
    pub fn next(&mut self, kind: u8, chunk: u8, variant: u8) -> NewEvent {
        self.clock += i64::from(variant % 7);
        self.count += 1;
        let which = if variant % 8 == 6 {
            2
        } else {
            usize::from(variant & 1)
        };
        let (id, chunks, begun) = &mut self.backfills[which];
        let (id, chunk_index) = (id.clone(), usize::from(chunk) % chunks.len().min(4));
        let chunk = chunks[chunk_index];
        if !*begun {
            *begun = true;
            let payload = Payload::Started {
                spec: Box::new(self.spec(which)),
                hash: "0123456789ab".to_owned(),
            };
            return self.event(Some(&id), true, payload);
        }
        let (last, open) = self.attempts.entry((which, chunk_index)).or_insert((0, false));
        if kind.is_multiple_of(4) {
            // Now and then an intent that makes no sense, because its chunk is under way.
            *last += u32::from(!*open);
            *open = true;
            let attempt = attempt(&id, chunk, *last);
            let payload = Payload::SubmissionIntended {
                attempt,
                executor: name("here"),
                profile: u32::from(variant % 3),
                weight: u32::from(variant % 4) + 1,
            };
            return self.event(Some(&id), false, payload);
        }
        let attempt = attempt(&id, chunk, (*last).max(1));
        let kind = (kind / 4 * 3 + kind % 4 - 1) % 55;
        if matches!(kind, 21 | 28..=33) {
            *open = false;
        }
        if kind >= 42 {
            return self.levers(kind, which, id, attempt, variant);
        }
        self.spoken(kind, id, attempt, variant)
    }

    /// What is done with an engine's own levers, with pools, and with dates that are taken.
    fn levers(
        &mut self,
        kind: u8,
        which: usize,
        id: BackfillId,
        attempt: AttemptId,
        variant: u8,
    ) -> NewEvent {
        let words = format!("because {variant}");
        let (pool, chunk) = ("backfill_pool".to_owned(), attempt.chunk);
        let run = ExternalId("scheduled__x".to_owned());
        let (ask, step, ok) = (self.asked[which], u32::from(variant / 16 % 2), variant & 4 == 0);
        let payload = match kind {
            42 => Payload::TakeRequested {
                chunk,
                run,
                how: if ok { Taking::Adopt } else { Taking::Clear },
                digest: "a1b2c3".to_owned(),
            },
            43 | 44 => {
                self.asked[which] = self.count;
                let whole_dag = variant & 32 != 0;
                let slots = Action::Slots {
                    pool,
                    slots: i64::from(variant % 5) - 1,
                };
                let actions = [
                    Action::Pause { whole_dag },
                    Action::Resume { whole_dag },
                    slots,
                    Action::Rerun {
                        chunks: vec![chunk],
                        failed_only: whole_dag,
                    },
                ];
                Payload::ActionRequested {
                    action: actions[usize::from(variant / 8 % 4)].clone(),
                    digest: String::new(),
                    native: None,
                }
            }
            45 if variant > 240 => Payload::Detached {},
            45 | 46 => Payload::DateTaken {
                attempt,
                run,
                what: words,
            },
            47 | 48 => Payload::ActionSent {
                ask,
                step,
                sent: words,
                call: "{}".to_owned(),
            },
            49 | 50 => Payload::ActionAnswered {
                ask,
                step,
                ok,
                said: words,
            },
            51 => Payload::ActionEnded { ask, ok, said: words },
            52 => Payload::RunsChanged {
                changes: vec![RunChange {
                    chunk,
                    run,
                    from: None,
                    to: Some("queued".to_owned()),
                }],
            },
            53 => Payload::PoolTaken {
                pool,
                former: i64::from(variant % 4) - 1,
            },
            _ => Payload::PoolReturned {
                pool,
                slots: 3,
                why: words,
            },
        };
        self.event(Some(&id), matches!(kind, 42..=45), payload)
    }

    fn spoken(&mut self, kind: u8, id: BackfillId, attempt: AttemptId, variant: u8) -> NewEvent {
        let chunk = attempt.chunk;
        let chunks = vec![chunk];
        let soon = second(self.clock + 60);
        let words = format!("because {variant}");
        let spec = Box::new(self.spec(usize::from(variant & 1)));
        let human = kind < 18;
        let payload = match kind {
            0 => Payload::Paused {
                until: (variant & 2 == 0).then_some(soon),
            },
            1 => Payload::Resumed {},
            2 => Payload::CapSet {
                cap: (variant & 2 == 0).then_some(u32::from(variant % 5)),
            },
            3 => Payload::Forced {
                force: (variant & 2 == 0).then_some(Force {
                    limit: 3,
                    until: soon,
                }),
            },
            4 => Payload::HoldPlaced { chunks },
            5 => Payload::HoldReleased { chunks },
            6 => Payload::Skipped { chunks },
            7 | 8 => Payload::RerunRequested {
                chunks,
                digest: "a1b2c3".to_owned(),
            },
            9 => Payload::StopRequested { chunks },
            10 if variant > 200 => Payload::CancelRequested {},
            11 => Payload::Amended {
                spec,
                hash: "ba9876543210".to_owned(),
            },
            12 | 13 => Payload::Resolved {
                chunk,
                verdict: [Verdict::Lost, Verdict::Done, Verdict::Failed][usize::from(variant % 3)],
            },
            14 => Payload::LatchAcknowledged {},
            15 => Payload::BreakerReset {},
            16 => Payload::StopSupervising {},
            10 | 17 => Payload::Started {
                spec,
                hash: "x".to_owned(),
            },
            18 => Payload::LeaseTaken {
                epoch: u64::from(variant % 4),
                holder: "db1 pid 7".to_owned(),
                from: (variant & 2 == 0).then_some("epoch 1, db1 pid 3".to_owned()),
            },
            19 => Payload::LeaseReleased {
                epoch: u64::from(variant % 4),
            },
            20 => Payload::PauseApplied {
                in_flight: vec![attempt],
            },
            21 => Payload::SubmissionWithdrawn { attempt, why: words },
            22..=24 => Payload::SubmissionAccepted {
                attempt,
                run: ExternalId(format!("run {variant}")),
                adopted: variant & 2 == 0,
                running: variant & 4 == 0,
            },
            25 if variant & 2 == 0 => Payload::Braked {
                attempts: vec![attempt],
                why: words,
            },
            25 => Payload::RunStarted { attempt },
            26 | 27 => Payload::RunUncertain { attempt, why: words },
            28..=33 => Payload::RunEnded {
                attempt,
                outcome: outcome(variant, soon),
                started: (variant & 4 == 0).then_some(second(self.clock - 5)),
                ended: (variant & 8 == 0).then_some(second(self.clock)),
                peak: (variant & 16 == 0).then_some(u64::from(variant) << 20),
                note: (variant & 32 == 0).then_some(words),
            },
            34 => Payload::LimitChanged {
                change: LimitChange {
                    from: 4,
                    to: u32::from(variant % 8),
                    rule: [Rule::Cut, Rule::Grow, Rule::Pause, Rule::Latch][usize::from(variant % 4)],
                    signal: (variant & 2 == 0).then(|| name("lag")),
                    why: words,
                    checkpoint: r#"{"a":1}"#.to_owned(),
                },
            },
            35 => Payload::BlindSince {
                signal: name("lag"),
                last: (variant & 2 == 0).then_some(second(self.clock - 30)),
                why: words,
            },
            36 if variant & 8 == 0 => Payload::SeenAgain { signal: name("lag") },
            36 => Payload::SignalGone { signal: name("lag") },
            37 => Payload::BreakerOpened {
                why: words,
                retry_at: soon,
            },
            38 => Payload::BreakerClosed {},
            39 => Payload::StoppedOnFailure { chunk, why: words },
            40 => Payload::ConfigReloaded { changes: vec![words] },
            _ => Payload::ConfigRejected { error: words },
        };
        let of_journal = matches!(
            payload,
            Payload::LeaseTaken { .. }
                | Payload::LeaseReleased { .. }
                | Payload::StopSupervising {}
                | Payload::BlindSince { .. }
                | Payload::SeenAgain { .. }
                | Payload::SignalGone { .. }
                | Payload::ConfigReloaded { .. }
                | Payload::ConfigRejected { .. }
        );
        self.event((!of_journal).then_some(&id), human, payload)
    }

    fn event(&self, backfill: Option<&BackfillId>, human: bool, payload: Payload) -> NewEvent {
        NewEvent {
            at: second(self.clock),
            actor: if human { minh() } else { Actor::supervisor() },
            reason: human.then(|| "why not".to_owned()),
            backfill: backfill.cloned(),
            payload,
        }
    }
}

fn outcome(variant: u8, soon: Time) -> Outcome {
    let class = FailureClass::ALL[usize::from(variant) % FailureClass::ALL.len()];
    let failure = Failure {
        class,
        exit: (variant & 2 == 0).then_some(137),
        message: format!("day {variant} broke"),
    };
    match variant % 5 {
        0 | 1 => Outcome::Done,
        2 => Outcome::Failed {
            failure,
            next: Next::Retry {
                at: soon,
                profile: 1,
                used: 1,
                budget: 3,
            },
        },
        3 if variant & 8 == 0 => Outcome::Failed {
            failure,
            next: Next::Quarantine {
                why: "oom at the largest profile".to_owned(),
            },
        },
        3 => Outcome::Failed {
            failure,
            next: Next::Stay,
        },
        _ => Outcome::Cancelled,
    }
}

/// A script of `length` events out of a seed.
pub fn script(seed: u64, length: usize) -> Vec<NewEvent> {
    let mut script = Script::new();
    let mut drawn = seed | 1;
    let mut draw = || {
        drawn = drawn
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (drawn >> 40) as u8
    };
    (0..length).map(|_| script.next(draw(), draw(), draw())).collect()
}

/// A backfill of `chunks` daily chunks in which every chunk was tried `attempts` times, as events.
pub fn long_history(chunks: i64, attempts: u32) -> Vec<NewEvent> {
    let id = orders();
    let mut events = vec![said(&id, started("orders", chunks))];
    for no in 1..=attempts {
        for day in 0..chunks {
            let chunk = ChunkId::day(date(2023, 1, 1) + TimeDelta::days(day));
            let attempt = attempt(&id, chunk, no);
            events.push(intended(&attempt));
            events.push(accepted(&attempt));
            events.push(done_by_us(
                Some(&id),
                Payload::RunEnded {
                    attempt,
                    outcome: Outcome::Failed {
                        failure: Failure {
                            class: FailureClass::Other,
                            exit: Some(1),
                            message: "boom".to_owned(),
                        },
                        next: Next::Stay,
                    },
                    started: Some(second(day)),
                    ended: Some(second(day + 30)),
                    peak: None,
                    note: None,
                },
            ));
        }
    }
    events
}
