//! The same night with somebody else's backfill on the screen: 120 days of events that minh started on the server by
//! hand, seen from outside.

use super::{cases::Case, *};
use backfill::{
    domain::{
        attach::{Action, Attach, Days, Facts, NativeSeen, PoolSeen, Reading, RunPhase, SeenRun, Taking},
        event::Payload as P,
        spec::Dag,
        state::ChunkState,
    },
    executor::attach::{Found, Offer},
    tui::{
        attaching::{Attaching, Choice, Field, Form, Known, Place},
        model::{Ask, Layer},
        msg::{Msg, Press},
        plans::Plans,
        update::{Machine, update},
    },
};
use std::collections::BTreeMap;

pub fn id() -> BackfillId {
    "events-daily-m2x7rd".parse().unwrap()
}

/// 120 days, native backfill 12, throttled by a pool.
pub fn spec() -> Spec {
    Spec {
        name: name("events-daily"),
        target: "events_daily on airflow-eu".to_owned(),
        start: day(2023, 10, 1),
        end: day(2024, 1, 28),
        dag: Some(Dag {
            id: "events_daily".to_owned(),
            conf: BTreeMap::new(),
            pool: Some("backfill_pool".to_owned()),
        }),
        attach: Some(Attach { native: Some(12) }),
        command: Vec::new(),
        signals: Vec::new(),
        profiles: super::spec().profiles.into_iter().take(1).collect(),
        lanes: BTreeMap::new(),
        source: BTreeMap::new(),
        ..super::spec()
    }
}

/// What is known of it: its events, its days, and it as a whole.
pub struct Theirs {
    pub journal: Journal,
    pub days: Days,
    pub facts: Facts,
    pub now: Time,
}

impl Theirs {
    pub fn of(spec: Spec) -> Self {
        let mut journal = Journal::new(id());
        journal.push(
            clock(2, 40, 0),
            human("minh"),
            P::Started {
                spec: Box::new(spec),
                hash: "51ab07".to_owned(),
            },
        );
        let lease = P::LeaseTaken {
            epoch: 7,
            holder: "minh".to_owned(),
            from: None,
        };
        journal.push(clock(2, 40, 1), Actor::supervisor(), lease);
        let native = NativeSeen {
            id: 12,
            paused: false,
            completed: None,
            limit: 3,
            from: "2023-09-30T22:00:00Z".parse().unwrap(),
            to: "2024-01-27T23:00:00Z".parse().unwrap(),
            by: Some("minh".to_owned()),
        };
        let pool = PoolSeen {
            name: "backfill_pool".to_owned(),
            slots: 8,
            running: 3,
            waiting: 2,
            others: Some(vec![("events_hourly".to_owned(), 2)]),
        };
        let facts = Facts {
            as_of: Some(t0310() - TimeDelta::seconds(4)),
            runs: 116,
            native: Some(native),
            pool: Some(pool),
            executing: Some(3),
            ..Facts::default()
        };
        Self {
            journal,
            days: Days::new(),
            facts,
            now: t0310(),
        }
    }

    /// 71 days are done, two failed, three run, 40 wait, four have no run.
    pub fn usual() -> Self {
        let mut this = Self::of(spec());
        for i in 0..116 {
            let phase = match i {
                23 | 24 => RunPhase::Failed,
                0..=72 => RunPhase::Done,
                73..=75 => RunPhase::Running,
                _ => RunPhase::Queued,
            };
            this.run(i, phase);
        }
        this
    }

    pub fn day(i: i64) -> ChunkId {
        ChunkId::day(day(2023, 10, 1) + TimeDelta::days(i))
    }

    pub fn run(&mut self, i: i64, phase: RunPhase) {
        let word = match phase {
            RunPhase::Done => "success",
            RunPhase::Cancelled => "failed",
            RunPhase::Unknown => "napping",
            other => other.state().word(),
        };
        let began = clock(3, 6, 0) - TimeDelta::minutes(4 * (75 - i.min(75)));
        let over = matches!(phase, RunPhase::Done | RunPhase::Failed | RunPhase::Cancelled);
        let run = SeenRun {
            run: ExternalId(format!("backfill__{}T00:00:00+00:00", Self::day(i))),
            phase,
            word: word.to_owned(),
            kind: "backfill".to_owned(),
            queued: Some(clock(2, 30, 0)),
            started: (phase != RunPhase::Queued).then_some(began),
            ended: over.then_some(began + TimeDelta::seconds(190)),
            tries: None,
        };
        self.days.entry(Self::day(i)).or_default().push(run);
    }

    /// An action from its request to as far as it came.
    pub fn act(
        &mut self,
        at: Time,
        who: Actor,
        action: Action,
        sent: &str,
        came: Option<Result<&str, &str>>,
    ) {
        let ask = self.journal.events.len() as u64 + 1;
        let digest = String::new();
        self.journal.push(
            at,
            who,
            P::ActionRequested {
                action,
                digest,
                native: None,
            },
        );
        let (step, call) = (0, String::new());
        let sends = P::ActionSent {
            ask,
            step,
            sent: sent.to_owned(),
            call,
        };
        self.journal
            .push(at + TimeDelta::seconds(1), Actor::supervisor(), sends);
        let Some(came) = came else { return };
        let (ok, said) = (came.is_ok(), came.unwrap_or_else(|e| e).to_owned());
        let airflow = Actor::executor(&name("airflow-eu"));
        let answered = P::ActionAnswered {
            ask,
            step,
            ok,
            said: if ok { "200" } else { "409 Conflict" }.to_owned(),
        };
        self.journal
            .push(at + TimeDelta::seconds(2), airflow.clone(), answered);
        self.journal.push(
            at + TimeDelta::seconds(4),
            airflow,
            P::ActionEnded { ask, ok, said },
        );
    }

    pub fn native(&mut self, change: impl FnOnce(&mut NativeSeen)) {
        change(self.facts.native.as_mut().unwrap());
    }

    /// The screen with the cursor on a day.
    pub fn case(self, name: &'static str, cursor: i64) -> Case {
        let mut feed = feed(&self.journal, self.now, None);
        feed.signals.clear();
        feed.limits.clear();
        feed.executors.retain(|n, _| n.as_str() == "airflow-eu");
        for executor in feed.executors.values_mut() {
            executor.running = 0;
        }
        let mut state = (*feed.state).clone();
        let backfill = state.backfills.get_mut(&id()).unwrap();
        backfill.observe(&self.days, &self.facts, self.now);
        feed.state = Arc::new(state);
        let mut app = app();
        app.backfill = Some(id());
        app.cursor = Some(Self::day(cursor));
        Case {
            name,
            feed,
            app,
            now: self.now,
        }
    }
}

impl Case {
    /// What is on the screen after these keys, each pressed a second after the last.
    pub fn after(mut self, name: &'static str, keys: &[&str]) -> Self {
        let plans = Plans {
            tuning: Tuning::default(),
        };
        let mut machine = Machine::new(None, None);
        machine.app = self.app;
        let mut at = self.now - TimeDelta::seconds(1 + keys.len() as i64);
        update(&mut machine, &self.feed, &plans, Msg::Fed, at);
        for key in keys {
            update(&mut machine, &self.feed, &plans, Msg::Drawn, at);
            at += TimeDelta::seconds(1);
            let press = Press {
                key: key.parse().unwrap(),
                repeat: false,
                at,
            };
            update(&mut machine, &self.feed, &plans, Msg::Key(press), at);
        }
        (self.app, self.name) = (machine.app, name);
        self
    }
}

fn resume() -> Action {
    Action::Resume { whole_dag: false }
}

/// It runs; two failed days are being cleared and the server has not answered yet.
pub fn running() -> Case {
    let mut theirs = Theirs::usual();
    let said = Some(Ok("native backfill 12 is paused"));
    let pause = Action::Pause { whole_dag: false };
    theirs.act(
        clock(2, 51, 0),
        human("minh"),
        pause,
        "PUT /backfills/12/pause",
        said,
    );
    let said = Some(Ok("native backfill 12 runs"));
    theirs.act(
        clock(2, 58, 10),
        human("minh"),
        resume(),
        "PUT /backfills/12/unpause",
        said,
    );
    let changes = vec![backfill::domain::attach::RunChange {
        chunk: Theirs::day(24),
        run: ExternalId("x".to_owned()),
        from: Some("running".to_owned()),
        to: Some("failed".to_owned()),
    }];
    let airflow = Actor::executor(&name("airflow-eu"));
    theirs
        .journal
        .push(clock(3, 2, 0), airflow, P::RunsChanged { changes });
    let again = Action::Rerun {
        chunks: vec![Theirs::day(23), Theirs::day(24)],
        failed_only: true,
    };
    let sent = "POST /dags/events_daily/clearTaskInstances";
    theirs.act(clock(3, 10, 12), human("minh"), again, sent, None);
    theirs.case("attached", 23)
}

/// Somebody else paused it on the server, and it was attached to without a pool.
pub fn paused_there() -> Case {
    let mut spec = spec();
    spec.dag.as_mut().unwrap().pool = None;
    let mut theirs = Theirs {
        days: Theirs::usual().days,
        ..Theirs::of(spec)
    };
    theirs.facts.pool = None;
    theirs.native(|n| n.paused = true);
    theirs.case("attached-paused-there", 80)
}

/// A window of three years is being read.
pub fn reading() -> Case {
    let mut spec = spec();
    (spec.start, spec.end) = (day(2022, 1, 1), day(2024, 12, 31));
    spec.attach = Some(Attach { native: None });
    let mut theirs = Theirs {
        days: Theirs::usual().days,
        ..Theirs::of(spec)
    };
    theirs.facts.native = None;
    theirs.facts.reading = Some(Reading {
        read: 300,
        total: 1500,
    });
    theirs.case("attached-reading", 200)
}

/// The server has not answered for four minutes; a run has a word that is not known.
pub fn not_seen() -> Case {
    let mut theirs = Theirs::usual();
    theirs.run(30, RunPhase::Unknown);
    theirs.facts.as_of = Some(clock(3, 6, 12));
    theirs.facts.problem = Some("503 Service Unavailable from the proxy".to_owned());
    theirs.case("attached-not-seen", 30)
}

/// Paused by us, and the DAG is paused too; the pause is not confirmed.
pub fn stuck() -> Case {
    let mut theirs = Theirs::usual();
    theirs.journal.because(
        clock(3, 9, 50),
        human("minh"),
        Some("incident 4711"),
        P::Paused { until: None },
    );
    let pause = Action::Pause { whole_dag: false };
    let refused = Some(Err("409 Conflict: the DAG is paused"));
    let sent = "PUT /backfills/12/pause";
    theirs.act(clock(3, 9, 51), Actor::supervisor(), pause, sent, refused);
    theirs.facts.stuck = Some("the DAG is paused on the server, so no task starts".to_owned());
    theirs.case("attached-stuck", 74)
}

/// A signal is past hard, and the native backfill is paused for it.
pub fn held_by_signal() -> Case {
    let mut spec = spec();
    spec.signals = vec![name("orders-live")];
    let mut theirs = Theirs {
        days: Theirs::usual().days,
        ..Theirs::of(spec)
    };
    theirs.now = t0318();
    theirs.facts.as_of = Some(t0318() - TimeDelta::seconds(2));
    let why = "paused by orders-live at 03:12:20: 190 s was over hard 180 for 2 samples; resumes by itself below low 30 for 5m";
    theirs.journal.limit(clock(3, 12, 20), 8, 0, Rule::Pause, why);
    let signal = Actor::signal(&name("orders-live"));
    let pause = Action::Pause { whole_dag: false };
    let said = Some(Ok("native backfill 12 is paused"));
    theirs.act(clock(3, 12, 21), signal, pause, "PUT /backfills/12/pause", said);
    theirs.native(|n| n.paused = true);
    let now = theirs.now;
    let mut case = theirs.case("attached-by-signal", 74);
    case.feed.signals = BTreeMap::from([(name("orders-live"), signal_of(now))]);
    case.feed.limits = VecDeque::from([(clock(1, 50, 0), 8, 3), (clock(3, 12, 20), 0, 3)]);
    case
}

fn signal_of(now: Time) -> SignalView {
    super::signal(now, Some(-0.4))
}

/// A pool of ours has fewer slots, lag is fine: actions stand beside the chart.
pub fn with_a_signal() -> Case {
    let mut spec = spec();
    spec.signals = vec![name("orders-live")];
    let mut theirs = Theirs {
        days: Theirs::usual().days,
        ..Theirs::of(spec)
    };
    let pool = "backfill_pool".to_owned();
    let taken = P::PoolTaken {
        pool: pool.clone(),
        former: 8,
    };
    theirs.journal.push(clock(3, 8, 45), Actor::supervisor(), taken);
    let why = "limit 8 to 4 at 03:08:45: orders-live 64 s is over soft 60, on course past hard 180 in 10m";
    theirs.journal.limit(clock(3, 8, 45), 8, 4, Rule::Cut, why);
    let signal = Actor::signal(&name("orders-live"));
    let slots = Action::Slots { pool, slots: 4 };
    let said = Some(Ok("pool backfill_pool has 4 slots"));
    theirs.act(clock(3, 8, 46), signal, slots, "PATCH /pools/backfill_pool", said);
    theirs.facts.pool.as_mut().unwrap().slots = 4;
    let now = theirs.now;
    let mut case = theirs.case("attached-with-a-signal", 74);
    case.feed.signals = BTreeMap::from([(name("orders-live"), super::signal(now, Some(0.7)))]);
    case.feed.limits = VecDeque::from([(clock(1, 50, 0), 8, 3), (clock(3, 8, 45), 4, 3)]);
    case
}

/// It was cancelled there, its waiting days with it; some days of it have no run.
pub fn cancelled() -> Case {
    let mut theirs = Theirs::usual();
    for runs in theirs.days.values_mut().flatten() {
        if runs.phase == RunPhase::Queued {
            (runs.phase, runs.word) = (RunPhase::Cancelled, "failed".to_owned());
            runs.ended = Some(clock(3, 4, 0));
        }
    }
    theirs.native(|n| (n.paused, n.completed) = (true, Some(clock(3, 4, 0))));
    theirs.case("attached-cancelled", 118)
}

/// A day of our own whose date a scheduled run has, in the drawer.
pub fn date_taken() -> Case {
    let mut journal = night();
    let chunk = ChunkId::day(day(2023, 2, 22));
    let attempt = AttemptId {
        backfill: super::id(),
        chunk,
        no: 1,
    };
    let intended = P::SubmissionIntended {
        attempt: attempt.clone(),
        executor: name("airflow-eu"),
        profile: 0,
        weight: 1,
    };
    journal.push(clock(3, 10, 3), Actor::supervisor(), intended);
    let run = ExternalId("scheduled__2023-02-22T00:00:00+00:00".to_owned());
    let what = format!("the scheduled run {} (success)", run.0);
    let taken = P::DateTaken { attempt, run, what };
    journal.push(clock(3, 10, 4), Actor::executor(&name("airflow-eu")), taken);
    let feed = feed(&journal, t0310(), Some(0.7));
    let mut app = app();
    app.cursor = Some(chunk);
    Case {
        name: "date-taken",
        feed,
        app,
        now: t0310(),
    }
}

fn typed(text: &'static str) -> Vec<&'static str> {
    let mut keys = vec!["t"];
    keys.extend(
        text.split("")
            .filter(|c| !c.is_empty())
            .map(|c| if c == " " { "space" } else { c }),
    );
    keys
}

fn palette(name: &'static str) -> Vec<&'static str> {
    let mut keys = vec![":"];
    keys.extend(name.split("").filter(|c| !c.is_empty()));
    keys.push("enter");
    keys
}

fn offer(dag: &str, native: Option<u64>, window: Option<(NaiveDate, NaiveDate)>, words: &str) -> Offer {
    Offer {
        dag: dag.to_owned(),
        native,
        window,
        words: words.to_owned(),
    }
}

/// What a server offers.
pub fn offers() -> Vec<Offer> {
    let autumn = Some((day(2023, 10, 1), day(2024, 1, 28)));
    let years = Some((day(2021, 1, 1), day(2024, 12, 31)));
    vec![
        offer("events_daily", Some(12), autumn, "running, limit 3, 61 waiting"),
        offer("events_hourly", Some(13), None, "paused, limit 16, 1,220 waiting"),
        offer("orders_daily", None, years, "1,261 runs, 12 failed"),
    ]
}

/// What its server says of the first of them.
pub fn known() -> Known {
    let mut theirs = Theirs::usual();
    Known {
        found: Found {
            dag: "events_daily".to_owned(),
            native: theirs.facts.native.take(),
            zone: Some(chrono_tz::Europe::Berlin),
            window: Some((day(2023, 10, 1), day(2024, 1, 28))),
        },
        name: "events-daily".to_owned(),
        environment: Some("prod".to_owned()),
    }
}

/// The list of what could be attached to: one server has answered, one refuses, one has not answered yet.
pub fn attach_list() -> Case {
    let mut case = cases::running();
    case.name = "attach-list";
    let mut attaching = Attaching::new(1, case.now - TimeDelta::seconds(3));
    let place = |executor: &str, offers| Place {
        executor: name(executor),
        offers,
    };
    attaching.places = Some(vec![
        place("airflow-eu", Some(Ok(offers()))),
        place(
            "airflow-us",
            Some(Err("401 Unauthorized: sign in again".to_owned())),
        ),
        place("airflow-old", None),
    ]);
    attaching.chosen = 1;
    case.app.layers = vec![Layer::Attach(Box::new(attaching))];
    case
}

/// The form for the first offer; the operator types a pool.
pub fn attach_form() -> Case {
    let mut case = attach_list();
    case.name = "attach-form";
    let Some(Layer::Attach(attaching)) = case.app.layers.last_mut() else {
        panic!("no list");
    };
    let choice = Choice {
        executor: name("airflow-eu"),
        offer: offers().remove(0),
    };
    let mut form = Form::new(choice);
    form.learn(Ok(Box::new(known())));
    form.at = Field::Pool;
    *form.line() = "backfill_p".to_owned();
    attaching.form = Some(form);
    alone(&mut case.feed, case.now);
    case
}

/// Nothing was started here yet, and there is a server on which others start.
fn first_start() -> Case {
    let mut case = cases::first_start();
    case.name = "first-start-airflow";
    case.feed.config = Some(Ok(configured("/etc/backfill/config.toml")));
    case.feed.executors = cases::running().feed.executors;
    case
}

/// Every state worth looking at.
pub fn all() -> Vec<Case> {
    vec![
        running(),
        paused_there(),
        reading(),
        not_seen(),
        stuck(),
        held_by_signal(),
        with_a_signal(),
        cancelled(),
        date_taken(),
        date_taken().after("date-taken-dialog", &["a"]),
        running().after("attached-rerun", &["r"]),
        running().after("attached-mark", &["D", "down"]),
        running().after("attached-limit", &typed("slots 6")),
        paused_there().after("attached-limit-no-pool", &typed("5")),
        paused_there().after("attached-resume", &["p"]),
        running().after("attached-cancel", &palette("cancel-backfill")),
        running().after("attached-freeze", &palette("pause-dag")),
        running().after("attached-why", &["w"]),
        running().after("attached-help", &["?"]),
        running().after("attached-drawer", &["enter"]),
        attach_list(),
        attach_form(),
        first_start(),
    ]
}

/// What a dialog asks for.
pub fn asked(case: &Case) -> &Ask {
    match case.app.layers.last() {
        Some(Layer::Plan(dialog)) => &dialog.ask,
        other => panic!("no dialog but {other:?}"),
    }
}

/// How many of a state the shown backfill has.
pub fn n(case: &Case, state: ChunkState) -> u32 {
    case.feed.state.backfills[case.app.backfill.as_ref().unwrap()].count(state)
}

/// The choice in the dialog of a taken date.
pub fn taking(case: &Case) -> Taking {
    match asked(case) {
        Ask::Take(_, _, how) => *how,
        other => panic!("{other:?}"),
    }
}
