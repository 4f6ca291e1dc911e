//! Taking hold of what somebody else started, from the screen, as sentences: nobody waits for a server, what it says
//! is shown in its words, and only a form that makes sense is journaled.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests are tests")]

mod night;

use backfill::{
    domain::{
        event::Payload,
        ids::{BackfillId, Name},
        state::State,
        tuning::Tuning,
    },
    plan::attach_spec,
    tui::{
        action::{Id, action, availability},
        attaching::{Attaching, Errand, Field, Form, Ordered, Scouted},
        driver::{Appended, Journalist, Order, attach},
        effect::Effect,
        glyphs::GlyphSet,
        model::{Feed, Layer, LeaseView},
        msg::{Answer, Msg, Press},
        plans::Plans,
        scout::{Scout, Scouting},
        terminal::{Hands, inbox},
        theme::Level,
        update::{Machine, update},
    },
};
use chrono::TimeDelta;
use night::{cases::Case, theirs, *};
use std::sync::{Arc, Mutex, mpsc};

struct Operator {
    machine: Machine,
    case: Case,
}

impl Operator {
    fn new() -> Self {
        let case = cases::running();
        let mut machine = Machine::new(None, None);
        machine.app = case.app.clone();
        let mut this = Self { machine, case };
        this.send(Msg::Fed);
        this
    }

    fn send(&mut self, msg: Msg) -> Vec<Effect> {
        let plans = Plans {
            tuning: Tuning::default(),
        };
        let Case { feed, now, .. } = &self.case;
        let effects = update(&mut self.machine, feed, &plans, msg, *now);
        let watch = |e: &Effect| matches!(e, Effect::Watch(_));
        effects.into_iter().filter(|e| !watch(e)).collect()
    }

    fn keys(&mut self, keys: &str) -> Vec<Effect> {
        let mut effects = Vec::new();
        for key in keys.split(' ') {
            self.send(Msg::Drawn);
            self.case.now += TimeDelta::seconds(1);
            let press = Press {
                key: key.parse().unwrap(),
                repeat: false,
                at: self.case.now,
            };
            effects.extend(self.send(Msg::Key(press)));
        }
        effects
    }

    fn text(&mut self, text: &str) {
        let keys: Vec<String> = text.chars().map(|c| c.to_string()).collect();
        self.keys(&keys.join(" "));
    }

    fn brings(&mut self, op: u64, what: Scouted) -> Vec<Effect> {
        self.send(Msg::Scouted { op, what })
    }

    fn layer(&self) -> &Attaching {
        match self.machine.app.layers.last() {
            Some(Layer::Attach(attaching)) => attaching,
            other => panic!("{other:?}"),
        }
    }

    fn form(&self) -> &Form {
        self.layer().form.as_ref().unwrap()
    }

    fn screen(&self, size: (u16, u16)) -> String {
        let look = look("dark", Level::True, GlyphSet::Full);
        text(&screen(
            size,
            &self.case.feed,
            &self.machine.app,
            &look,
            self.case.now,
        ))
    }

    /// The list is open, and one server has answered.
    fn with_offers() -> Self {
        let mut this = Self::new();
        let op = errand(&this.keys("A")).0;
        this.brings(
            op,
            Scouted::Executors(vec![name("airflow-eu"), name("airflow-us")]),
        );
        this.brings(op, Scouted::Offers(name("airflow-eu"), Ok(theirs::offers())));
        this
    }

    /// The form for the first offer, filled in by its server.
    fn with_a_form() -> Self {
        let mut this = Self::with_offers();
        let op = errand(&this.keys("enter")).0;
        this.brings(op, Scouted::Found(Ok(Box::new(theirs::known()))));
        this
    }
}

fn errand(effects: &[Effect]) -> (u64, Errand) {
    match effects {
        [Effect::Scout { op, errand }] => (*op, errand.clone()),
        other => panic!("{other:?}"),
    }
}

fn ordered(form: &Form) -> Ordered {
    let spec = attach_spec::spec(form.wanted().unwrap()).unwrap();
    Ordered {
        id: BackfillId::new(&spec.name, 7),
        hash: "h".to_owned(),
        spec,
    }
}

#[test]
fn a_shows_at_once_that_servers_are_asked_and_each_answer_as_it_comes() {
    let mut operator = Operator::new();
    let (op, asked) = errand(&operator.keys("A"));
    assert_eq!(asked, Errand::Offers);
    assert!(operator.screen((80, 24)).contains("asking the servers for"));
    operator.brings(
        op,
        Scouted::Executors(vec![name("airflow-eu"), name("airflow-us")]),
    );
    assert!(operator.screen((80, 24)).contains("airflow-us  asking for"));
    operator.brings(op, Scouted::Offers(name("airflow-eu"), Ok(theirs::offers())));
    let why = "401 Unauthorized: sign in again".to_owned();
    operator.brings(op, Scouted::Offers(name("airflow-us"), Err(why)));
    let drawn = operator.screen((120, 40));
    for words in [
        "airflow-us  401 Unauthorized: sign in again",
        "events_daily",
        "backfill 12",
        "2023-10-01 .. 2024-01-28",
        "running, limit 3, 61 waiting",
    ] {
        assert!(drawn.contains(words), "{words}\n{drawn}");
    }
}

#[test]
fn answers_to_a_list_that_was_closed_open_nothing_and_change_nothing() {
    let mut operator = Operator::new();
    let (old, _) = errand(&operator.keys("A"));
    operator.keys("esc");
    assert!(operator.machine.app.layers.is_empty());
    operator.brings(old, Scouted::Executors(vec![name("airflow-eu")]));
    assert!(operator.machine.app.layers.is_empty());
    operator.keys("A");
    operator.brings(old, Scouted::Failed("config.toml is gone".to_owned()));
    assert_eq!(operator.layer().problem, None, "that was the list before");
}

#[test]
fn where_nothing_could_hold_backfills_of_others_it_is_said() {
    let mut operator = Operator::new();
    let (op, _) = errand(&operator.keys("A"));
    operator.brings(op, Scouted::Executors(Vec::new()));
    assert!(
        operator
            .screen((80, 24))
            .contains("all executors here are local: there is nothing to attach to")
    );
    assert_eq!(operator.keys("enter"), []);
    assert!(
        operator
            .machine
            .app
            .toast
            .as_ref()
            .unwrap()
            .0
            .contains("nothing to choose")
    );
}

#[test]
fn typing_finds_a_dag_and_a_name_that_nobody_offered_can_be_asked_for() {
    let mut operator = Operator::with_offers();
    operator.text("hourly");
    let dags: Vec<String> = operator
        .layer()
        .choices()
        .into_iter()
        .map(|c| c.offer.dag)
        .collect();
    assert_eq!(dags, ["events_hourly", "hourly"]);
    operator.keys("down");
    let (_, asked) = errand(&operator.keys("enter"));
    let Errand::Find {
        executor,
        dag,
        native,
        live,
    } = asked
    else {
        panic!("{asked:?}");
    };
    assert_eq!(
        (executor, dag.as_str(), native),
        (name("airflow-eu"), "hourly", None)
    );
    assert_eq!(live, [name("orders-rebuild")], "its name must be another one");
}

#[test]
fn the_form_is_filled_in_by_the_server_and_nothing_typed_is_overwritten() {
    let mut operator = Operator::with_offers();
    let (op, asked) = errand(&operator.keys("enter"));
    assert!(
        matches!(asked, Errand::Find { native: Some(12), .. }),
        "{asked:?}"
    );
    assert!(operator.screen((80, 24)).contains("asking airflow-eu .."));
    operator.text("mine");
    operator.brings(op, Scouted::Found(Ok(Box::new(theirs::known()))));
    let form = operator.form();
    let values = Field::ALL.map(|f| form.value(f));
    assert_eq!(
        values,
        ["mine", "2023-10-01", "2024-01-28", "Europe/Berlin", "", ""]
    );
    let drawn = operator.screen((80, 24));
    for words in [
        "PROD",
        "native backfill 12, running, limit 3, by minh",
        "nothing changes there until you ask",
        "backfill attach airflow-eu --native-backfill 12",
    ] {
        assert!(drawn.contains(words), "{words}\n{drawn}");
    }
}

#[test]
fn what_makes_no_sense_is_said_at_its_field_and_sends_nothing() {
    for (field, typed, says) in [
        (Field::Name, "No Name", ""),
        (Field::From, "soon", "`soon` is no day"),
        (Field::Zone, "Berlin", "`Berlin` is no zone"),
        (Field::Zone, "", "do not tell the zone"),
    ] {
        let mut operator = Operator::with_a_form();
        for _ in 0..field as usize {
            operator.keys("down");
        }
        operator.keys("ctrl-u");
        if !typed.is_empty() {
            let keys = typed.replace(' ', "_");
            operator.text(&keys);
        }
        assert_eq!(operator.keys("enter"), [], "{field:?} {typed}");
        let form = operator.form();
        assert_eq!(form.at, field, "{typed}");
        assert!(
            form.outcome.as_ref().unwrap().contains(says),
            "{:?}",
            form.outcome
        );
        operator.keys("up");
        operator.text("x");
        assert_eq!(operator.form().outcome, None, "a word about what was wrong goes");
    }
}

/// A signal can only hold what has a lever.
#[test]
fn a_signal_needs_a_native_backfill_or_a_pool_that_it_could_move() {
    let mut known = theirs::known();
    known.found.native = None;
    let mut form = Form::new(theirs_choice());
    form.learn(Ok(Box::new(known)));
    form.at = Field::Signals;
    *form.line() = "orders-live, billing".to_owned();
    let (field, why) = form.wanted().unwrap_err();
    assert_eq!(field, Field::Pool);
    assert!(why.contains("a signal could pause nothing"), "{why}");
    form.at = Field::Pool;
    *form.line() = "backfill_pool".to_owned();
    let wanted = form.wanted().unwrap();
    assert_eq!(wanted.signals, [name("orders-live"), name("billing")]);
    assert_eq!(wanted.pool.as_deref(), Some("backfill_pool"));
}

fn theirs_choice() -> backfill::tui::attaching::Choice {
    backfill::tui::attaching::Choice {
        executor: name("airflow-eu"),
        offer: theirs::offers().remove(0),
    }
}

#[test]
fn a_form_that_makes_sense_is_checked_journaled_and_then_shown() {
    let mut operator = Operator::with_a_form();
    let (op, asked) = errand(&operator.keys("enter"));
    let Errand::Order(wanted) = asked else {
        panic!("{asked:?}");
    };
    assert_eq!((wanted.native, wanted.max_limit), (Some(12), 3));
    assert_eq!(operator.keys("enter"), [], "once is once");
    let ordered = ordered(operator.form());
    let id = ordered.id.clone();
    let effects = operator.brings(op, Scouted::Order(Ok(Box::new(ordered.clone()))));
    let [Effect::Attach { op, ordered: sent }] = effects.as_slice() else {
        panic!("{effects:?}");
    };
    assert_eq!(**sent, ordered);
    let answer = Answer::Accepted { seq: 9 };
    assert_eq!(
        operator.send(Msg::Answer { op: *op, answer }),
        [],
        "somebody supervises already"
    );
    assert!(operator.machine.app.layers.is_empty());
    assert_ne!(
        operator.machine.app.backfill,
        Some(id.clone()),
        "it is not here yet"
    );
    let mut state = (*operator.case.feed.state).clone();
    state.apply(&backfill::domain::event::Event {
        seq: state.head + 1,
        at: operator.case.now,
        actor: human("minh"),
        reason: None,
        backfill: Some(id.clone()),
        payload: backfill::domain::event::Read::Known(Payload::Started {
            spec: Box::new(ordered.spec),
            hash: ordered.hash,
        }),
    });
    operator.case.feed.state = Arc::new(state);
    operator.send(Msg::Fed);
    assert_eq!(operator.machine.app.backfill, Some(id));
}

#[test]
fn where_nobody_supervises_a_supervisor_is_started_after_it() {
    let mut operator = Operator::with_a_form();
    operator.case.feed.lease = LeaseView::Nobody;
    assert!(
        operator
            .screen((80, 24))
            .contains("a supervisor in the background")
    );
    let (op, _) = errand(&operator.keys("enter"));
    let order = ordered(operator.form());
    let effects = operator.brings(op, Scouted::Order(Ok(Box::new(order))));
    let [Effect::Attach { op, .. }] = effects.as_slice() else {
        panic!("{effects:?}");
    };
    let answer = Answer::Accepted { seq: 9 };
    let effects = operator.send(Msg::Answer { op: *op, answer });
    assert!(
        matches!(&effects[..], [Effect::StartSupervisor { .. }]),
        "{effects:?}"
    );
}

#[test]
fn a_refusal_stays_in_the_form_in_words_and_can_be_tried_again() {
    let mut operator = Operator::with_a_form();
    let (op, _) = errand(&operator.keys("enter"));
    let why = "events-daily is the name of a backfill of the configuration".to_owned();
    operator.brings(op, Scouted::Order(Err(why)));
    assert!(
        operator
            .screen((80, 24))
            .contains("nothing was done: events-daily is the name of a backfill")
    );
    let (op, _) = errand(&operator.keys("enter"));
    let order = ordered(operator.form());
    let effects = operator.brings(op, Scouted::Order(Ok(Box::new(order))));
    let [Effect::Attach { op, .. }] = effects.as_slice() else {
        panic!("{effects:?}");
    };
    let why = "the disk is full".to_owned();
    let answer = Answer::Refused { why };
    operator.send(Msg::Answer { op: *op, answer });
    assert_eq!(
        operator.form().outcome.as_deref(),
        Some("nothing was done: the disk is full")
    );
    operator.keys("esc");
    assert_eq!(operator.layer().form, None, "back to the list");
}

#[test]
fn read_only_attaches_to_nothing() {
    let mut operator = Operator::new();
    operator.machine.app.read_only = Some("flag");
    let row = action(Id::AttachTo);
    assert!(availability(row, &operator.machine.app, &operator.case.feed).is_hidden());
    assert_eq!(operator.keys("A"), []);
}

/// Hands that take nothing.
struct Idle;

impl Hands for Idle {
    fn take(&mut self, _: Effect, _: &Feed) -> Option<Msg> {
        None
    }
}

/// Somebody whose errands end when the test lets them.
struct Slow(Mutex<mpsc::Receiver<()>>);

impl Scout for Slow {
    fn go(&self, _: Errand, tell: &dyn Fn(Scouted)) {
        let _ = self.0.lock().unwrap().recv();
        tell(Scouted::Executors(Vec::new()));
    }
}

#[test]
fn a_server_that_hangs_holds_up_no_key_and_not_more_than_four_questions_wait() {
    let (inbox, _mailbox) = inbox();
    let (release, released) = mpsc::channel();
    let mut hands = Scouting::new(Idle, Arc::new(Slow(Mutex::new(released))), inbox);
    let feed = cases::running().feed;
    let mut ask = |op| {
        let errand = Errand::Offers;
        hands.take(Effect::Scout { op, errand }, &feed)
    };
    for op in 1..=4 {
        assert_eq!(ask(op), None, "it is taken at once");
    }
    let said = ask(5).unwrap();
    assert!(
        matches!(&said, Msg::Scouted { op: 5, what: Scouted::Failed(why) } if why.contains("no answer yet")),
        "{said:?}"
    );
    drop(release);
}

/// A journal that somebody else writes into, too.
struct Shared {
    state: State,
    conflicts: u32,
    appended: Vec<Order>,
}

impl Journalist for Shared {
    fn fresh(&mut self) -> Result<Arc<State>, String> {
        Ok(Arc::new(self.state.clone()))
    }

    fn append(&mut self, order: &Order) -> Appended {
        if self.conflicts > 0 {
            self.conflicts -= 1;
            return Appended::Conflict;
        }
        self.appended.push(order.clone());
        Appended::Accepted { seq: 77 }
    }
}

fn shared(state: State, conflicts: u32) -> Shared {
    Shared {
        state,
        conflicts,
        appended: Vec::new(),
    }
}

#[test]
fn what_is_attached_to_already_or_has_a_taken_name_is_not_started_again() {
    let mut form = Form::new(theirs_choice());
    form.learn(Ok(Box::new(theirs::known())));
    let mut order = ordered(&form);
    order.spec.dag.as_mut().unwrap().pool = Some("backfill_pool".to_owned());
    let there = (*theirs::running().feed.state).clone();
    let mut journal = shared(there.clone(), 0);
    let same = attach(&mut journal, &order);
    assert!(
        matches!(&same, Answer::Refused { why } if why.contains("is attached to it already: show events-daily-")),
        "{same:?}"
    );
    order.spec.end = day(2024, 1, 27);
    let named = attach(&mut journal, &order);
    assert!(
        matches!(&named, Answer::Refused { why } if why == "events-daily is the name of another backfill"),
        "{named:?}"
    );
    order.spec.name = "events-again".parse::<Name>().unwrap();
    let mut journal = shared(there.clone(), 2);
    assert_eq!(attach(&mut journal, &order), Answer::Accepted { seq: 77 });
    let [appended] = journal.appended.as_slice() else {
        panic!("{:?}", journal.appended);
    };
    assert_eq!(
        appended.head,
        Some(there.head),
        "it is looked at again after a conflict"
    );
    let mut journal = shared(there, u32::MAX);
    let busy = attach(&mut journal, &order);
    assert!(
        matches!(&busy, Answer::Refused { why } if why.contains("moved on")),
        "{busy:?}"
    );
}
