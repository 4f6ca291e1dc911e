//! The states that a screen can be in, each as feed, operator and instant.

use super::*;
use backfill::{
    domain::event::Payload as P,
    plan::preview::{Preview, PreviewChunk},
    plan::why::Why,
    tui::model::{Ask, Layer, PlanDialog},
};

/// One state of the world and of the operator.
pub struct Case {
    pub name: &'static str,
    pub feed: Feed,
    pub app: App,
    pub now: Time,
}

fn case(name: &'static str, feed: Feed, app: App, now: Time) -> Case {
    Case { name, feed, app, now }
}

pub fn running() -> Case {
    let mut feed = feed(&night(), t0310(), Some(0.7));
    let attempt = AttemptId {
        backfill: id(),
        chunk: ChunkId::day(day(2022, 11, 25)),
        no: 3,
    };
    let lines = [
        "INFO  stage 9.0: 400 tasks",
        "ERROR Executor: Exception in task 211.3 in stage 9.0",
        "java.lang.OutOfMemoryError: GC overhead limit exceeded",
        "one task read 41.2 GB, median 0.6 GB: hot key, advise salting",
    ];
    feed.log = Some((attempt, lines.map(str::to_owned).into()));
    let mut app = app();
    app.why = Some(Why {
        reason: "quarantined",
        text: "oom x3 at profile xl, the largest".to_owned(),
        unblock: "r runs it again, s skips it".to_owned(),
    });
    case("running", feed, app, t0310())
}

pub fn paused_by_signal() -> Case {
    let mut app = app();
    app.focus = Panel::Lag;
    app.cursor = Some(ChunkId::day(day(2023, 2, 20)));
    let mut feed = feed(&paused_night(), t0318(), Some(-0.4));
    for (n, running) in [("airflow-eu", 1), ("spark-batch", 1)] {
        feed.executors.get_mut(&name(n)).unwrap().running = running;
    }
    case("paused-by-signal", feed, app, t0318())
}

pub fn paused_by_human() -> Case {
    let mut journal = night();
    let at = clock(3, 9, 50);
    journal.because(
        at,
        human("minh"),
        Some("incident 4711"),
        P::Paused { until: None },
    );
    let state = fold(&journal.events);
    let in_flight = state.backfills[&id()].open_attempts();
    journal.push(
        at + TimeDelta::seconds(1),
        Actor::supervisor(),
        P::PauseApplied { in_flight },
    );
    let mut feed = feed(&journal, t0310(), Some(0.7));
    feed.limits.push_back((at, 0, 7));
    case("paused-by-human", feed, app(), t0310())
}

pub fn blind() -> Case {
    let mut journal = night();
    let seen = clock(3, 6, 10);
    // That night the cut came from blindness, not from lag.
    journal.events.retain(
        |e| !matches!(&e.payload, Read::Known(P::LimitChanged { change }) if change.rule == Rule::Cut),
    );
    let last = Some(seen);
    let signal = name("orders-live");
    let refused = "connection refused".to_owned();
    journal.push(
        clock(3, 6, 25),
        Actor::supervisor(),
        P::BlindSince {
            signal,
            last,
            why: refused,
        },
    );
    let why =
        "no valid sample since 03:06:10: no growth, limit 8 to 4 at 03:08:10, no new starts from 03:11:10";
    journal.limit(clock(3, 8, 10), 8, 4, Rule::Blind, why);
    let open = fold(&journal.events).backfills[&id()].open_attempts();
    for attempt in open {
        let why = "no answer".to_owned();
        journal.push(
            clock(3, 6, 12),
            Actor::supervisor(),
            P::RunUncertain { attempt, why },
        );
    }
    journal.in_order();
    let now = t0310();
    let mut feed = feed(&journal, now, None);
    let view = feed.signals.get_mut(&name("orders-live")).unwrap();
    view.problem = Some("connection refused".to_owned());
    for sample in &mut view.samples {
        if sample.0 > seen {
            sample.1 = None;
        }
    }
    let problems = [
        ("airflow-eu", "503 from proxy"),
        ("spark-batch", "no route to host"),
        ("emr-nightly", "token expired, press a"),
    ];
    for (n, problem) in problems {
        let executor = feed.executors.get_mut(&name(n)).unwrap();
        executor.problem = Some(problem.to_owned());
        executor.seen = Some(clock(3, 6, 12));
    }
    feed.limits = VecDeque::from([(clock(1, 50, 0), 8, 8), (clock(3, 8, 10), 4, 7)]);
    let mut app = app();
    app.cursor = None;
    case("blind", feed, app, now)
}

pub fn complete() -> Case {
    complete_from(day(2024, 1, 1))
}

/// Everything up to 2024-03-31 is done.
pub fn complete_from(first: NaiveDate) -> Case {
    let mut journal = Journal::new(id());
    let mut spec = spec();
    (spec.start, spec.end) = (first, day(2024, 3, 31));
    let begun = clock(0, 0, 0);
    let all = cut(spec.timezone, spec.start, spec.end, spec.granularity);
    journal.push(
        begun,
        human("minh"),
        P::Started {
            spec: Box::new(spec),
            hash: "h".to_owned(),
        },
    );
    journal.limit(
        begun,
        0,
        8,
        Rule::Start,
        "limit 0 to 8: two valid samples of orders-live",
    );
    for (i, (chunk, _)) in all.into_iter().enumerate() {
        let at = begun + TimeDelta::seconds(120 * i as i64);
        journal.start(at, chunk, 1, "airflow-eu", 0, true);
        journal.end(
            at + TimeDelta::seconds(100),
            chunk,
            1,
            "airflow-eu",
            Outcome::Done,
        );
    }
    let mut feed = feed(&journal, t0310(), Some(0.0));
    feed.executors.remove(&name("emr-nightly"));
    let mut app = app();
    app.cursor = Some(ChunkId::day(day(2024, 3, 31)));
    case("complete", feed, app, t0310())
}

pub fn first_start() -> Case {
    let mut feed = feed(&Journal::new(id()), t0310(), None);
    feed.signals.clear();
    feed.executors.clear();
    feed.lease = LeaseView::Nobody;
    feed.limits.clear();
    let why = "No config.toml was found, so no executor and no signal is known.";
    feed.config = Some(Err(why.to_owned()));
    let mut app = app();
    (app.backfill, app.cursor) = (None, None);
    case("first-start", feed, app, t0310())
}

/// The screen is up and the first look at the journal has not ended.
pub fn not_looked() -> Case {
    let mut app = app();
    (app.backfill, app.cursor) = (None, None);
    case(
        "not-looked",
        backfill::tui::feeder::nothing_known(t0310()),
        app,
        t0310(),
    )
}

/// Configured, started, and nothing else is known yet.
pub fn empty() -> Case {
    let mut journal = Journal::new(id());
    journal.push(
        clock(3, 10, 0),
        human("minh"),
        P::Started {
            spec: Box::new(spec()),
            hash: "h".to_owned(),
        },
    );
    let mut feed = feed(&journal, t0310(), None);
    feed.signals
        .get_mut(&name("orders-live"))
        .unwrap()
        .samples
        .clear();
    feed.executors.clear();
    feed.limits.clear();
    feed.lease = LeaseView::Nobody;
    let mut app = app();
    app.cursor = Some(ChunkId::day(day(2022, 1, 1)));
    case("empty", feed, app, t0310())
}

fn preview(n: usize, class: u8) -> Preview {
    let will = [
        (2022, 6, 19, "timeout after 45m", 2),
        (2022, 11, 26, "platform: commit conflict", 4),
    ]
    .into_iter()
    .cycle()
    .take(n)
    .enumerate()
    .map(|(i, (y, m, d, last, attempt))| PreviewChunk {
        chunk: ChunkId::day(day(y, m, d) + TimeDelta::days((i / 2) as i64)),
        state: "failed",
        attempt,
        last: last.to_owned(),
        profile: "l".to_owned(),
        lane: "normal",
        weight: 1,
    })
    .collect();
    Preview {
        title: format!("Re-run {n} failed days"),
        will,
        will_not: vec![(
            ChunkId::day(day(2022, 11, 25)),
            "quarantined: R runs it again".to_owned(),
        )],
        facts: vec![
            (
                "overwrites",
                format!("{n} partitions of lake.orders_v2  2022-06-19, 2022-11-26"),
            ),
            ("reads", "snapshot v42".to_owned()),
            (
                "runs on",
                "airflow-eu, normal lane, profile l, weight 1 each".to_owned(),
            ),
            ("cost", "about 35m; starts wait: 7 running, limit 4".to_owned()),
            ("undo", "until the first attempt starts".to_owned()),
        ],
        same_as: "backfill rerun orders-rebuild 2022-06-19 2022-11-26 --failed".to_owned(),
        class,
        digest: "9f31c2".to_owned(),
    }
}

pub fn dialog(n: usize, class: u8, phrase: Option<(&str, &str)>) -> Layer {
    let preview = preview(n, class);
    let days = preview.will.iter().map(|c| c.chunk).collect();
    Layer::Plan(Box::new(PlanDialog {
        ask: Ask::Rerun(days, true),
        ways: Vec::new(),
        preview,
        opened_by: 'r',
        changed: Vec::new(),
        all_days: None,
        phrase: phrase.map(|(a, b)| (a.to_owned(), b.to_owned())),
        outcome: None,
    }))
}

/// The running night with layers above it.
pub fn with(name: &'static str, layers: Vec<Layer>) -> Case {
    let mut case = running();
    case.name = name;
    case.app.layers = layers;
    case
}

/// The journal has not been readable for a while, and an executor does not answer.
pub fn stale() -> Case {
    let mut case = running();
    case.name = "stale";
    case.feed.problem = Some("disk I/O error".to_owned());
    case.feed.as_of = case.now - TimeDelta::seconds(95);
    let executor = case.feed.executors.get_mut(&name("airflow-eu")).unwrap();
    executor.seen = Some(case.now - TimeDelta::minutes(3));
    case.app.events_back = 2;
    case
}

/// Nothing may be changed from here, the supervisor's host has a long name, and a toast is up.
pub fn read_only() -> Case {
    let mut case = running();
    case.name = "read-only";
    case.app.read_only = Some("BACKFILL_READ_ONLY");
    let holder = "scheduler-0.backfills.svc.cluster.example.com pid 4711".to_owned();
    case.feed.lease = LeaseView::Held {
        holder,
        epoch: 12,
        age: Duration::from_secs(1),
    };
    case.app.toast = Some((
        "held 14 days; z undoes it".to_owned(),
        case.now - TimeDelta::seconds(2),
    ));
    case
}

/// A cap is being typed, and the feeder has answered what it would mean.
pub fn throttle() -> Case {
    let mut case = with("throttle", vec![Layer::Throttle("3".to_owned())]);
    case.feed.estimate = estimated(&case.feed.state, case.now, true, Some(3));
    case
}

/// The configuration was changed, is wrong now, and the one before stays in force.
pub fn config_refused() -> Case {
    let mut case = running();
    case.name = "config-refused";
    let mut journal = night();
    journal.push(
        clock(3, 10, 15),
        Actor::supervisor(),
        P::ConfigRejected {
            error: "backfill.toml:12:1: unknown key `sofd`, did you mean `soft`?".to_owned(),
        },
    );
    case.feed = feed(&journal, case.now, Some(0.7));
    case
}

/// The lag panel, opened.
pub fn lag_page() -> Case {
    let mut case = paused_by_signal();
    case.name = "lag-page";
    case.app.layers = vec![Layer::Drawer];
    case
}

/// The lag panel, opened, of a signal with parts, and the law's line under it.
pub fn lag_parts() -> Case {
    let mut case = running();
    case.name = "lag-parts";
    case.app.focus = Panel::Lag;
    case.app.layers = vec![Layer::Drawer];
    case.feed.parts = Some(Arc::new(parts::of(case.now)));
    case.feed.throttle = Some((case.now - TimeDelta::seconds(3), parts::law()));
    case
}

/// The home screen of the same, which has room for the parts where it is wide.
pub fn parts_at_home() -> Case {
    let mut case = lag_parts();
    case.name = "parts-at-home";
    (case.app.focus, case.app.layers) = (Panel::Calendar, Vec::new());
    case
}

/// The same page while the signal holds everything back, under the learned law.
pub fn lag_parts_paused() -> Case {
    let mut case = lag_page();
    case.name = "lag-parts-paused";
    case.feed.parts = Some(Arc::new(parts::of(case.now)));
    case.feed.throttle = Some((case.now - TimeDelta::seconds(3), parts::law_that_paused()));
    case
}

pub fn range() -> Case {
    let mut case = running();
    case.name = "range";
    case.app.range_from = Some(ChunkId::day(day(2022, 11, 1)));
    case.app.cursor = Some(ChunkId::day(day(2022, 11, 30)));
    case
}

pub fn years() -> Case {
    let mut case = running();
    case.name = "years";
    case.app.zoom = Zoom::Years;
    case
}

pub fn filtered() -> Case {
    let mut case = running();
    case.name = "filtered";
    case.app.filter = "failed".to_owned();
    case
}

/// Every state worth looking at.
pub fn all() -> Vec<Case> {
    let changed = |mut layer: Layer| {
        if let Layer::Plan(dialog) = &mut layer {
            dialog.changed = vec!["2022-11-26 runs already: its retry began at 03:12:30".to_owned()];
        }
        layer
    };
    let mut all = vec![
        running(),
        paused_by_signal(),
        paused_by_human(),
        blind(),
        complete(),
        not_looked(),
        first_start(),
        empty(),
        range(),
        years(),
        filtered(),
        with("plan", vec![dialog(2, 2, None)]),
        with("plan-changed", vec![changed(dialog(2, 2, None))]),
        with("plan-many", vec![dialog(28, 2, None)]),
        with("plan-class3", vec![dialog(28, 3, Some(("28", "2")))]),
        throttle(),
        with("why", vec![Layer::Why]),
        with("help", vec![Layer::Help(0)]),
        with("palette", vec![Layer::Palette("re".to_owned(), 1)]),
        with("date", vec![Layer::Date("2023-1".to_owned())]),
        with("filter", vec![Layer::Filter("oom".to_owned())]),
        with("reason", vec![Layer::Reason("incident 4711".to_owned())]),
        with("drawer", vec![Layer::Drawer]),
        with("log", vec![Layer::Drawer, Layer::Log(0)]),
        lag_page(),
        lag_parts(),
        lag_parts_paused(),
        parts_at_home(),
        stale(),
        read_only(),
        config_refused(),
    ];
    all.extend(inside::all());
    all.extend(theirs::all());
    all
}
