//! Somebody else's backfill under the operator's hands, as sentences: which keys mean what, what they ask for, and
//! what is never done without its plan.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests are tests")]

mod night;

use backfill::{
    domain::{
        attach::{Action, ActionEnd, Asked, Taking},
        event::Payload,
        tuning::Tuning,
    },
    plan::consent::payloads,
    tui::{
        action::{ACTIONS, Class, Id, action, availability},
        effect::Effect,
        glyphs::GlyphSet,
        model::{Ask, Layer, PlanDialog},
        msg::{Msg, Press},
        plans::Plans,
        theme::Level,
        update::{Machine, update},
    },
};
use chrono::TimeDelta;
use night::{cases::Case, theirs, *};
use std::sync::Arc;

struct Operator {
    machine: Machine,
    case: Case,
    plans: Plans,
}

impl Operator {
    fn at(case: Case) -> Self {
        let mut machine = Machine::new(None, None);
        machine.app = case.app.clone();
        let mut this = Self {
            machine,
            case,
            plans: Plans {
                tuning: Tuning::default(),
            },
        };
        this.send(Msg::Fed);
        this
    }

    fn send(&mut self, msg: Msg) -> Vec<Effect> {
        let Case { feed, now, .. } = &self.case;
        let effects = update(&mut self.machine, feed, &self.plans, msg, *now);
        effects
            .into_iter()
            .filter(|e| !matches!(e, Effect::Watch(_)))
            .collect()
    }

    /// Presses keys, each after a look at the screen.
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

    fn text(&mut self, text: &str) -> Vec<Effect> {
        let keys: Vec<String> = text
            .chars()
            .map(|c| {
                if c == ' ' {
                    "space".to_owned()
                } else {
                    c.to_string()
                }
            })
            .collect();
        self.keys(&keys.join(" "))
    }

    /// Runs an action by its name.
    fn command(&mut self, name: &str) -> Vec<Effect> {
        self.keys(":");
        self.text(name);
        self.keys("enter")
    }

    fn dialog(&self) -> &PlanDialog {
        match self.machine.app.layers.last() {
            Some(Layer::Plan(dialog)) => dialog,
            other => panic!("no dialog on top but {other:?}"),
        }
    }

    fn said(&self) -> String {
        let toast = self.machine.app.toast.as_ref();
        toast.map(|(text, _)| text.clone()).unwrap_or_default()
    }

    fn why_not(&self, id: Id) -> String {
        let availability = availability(action(id), &self.machine.app, &self.case.feed);
        availability.reason().unwrap_or_default()
    }

    /// What a confirmed dialog appends.
    fn appended(&self) -> Vec<Payload> {
        let dialog = self.dialog();
        let (feed, app) = (&self.case.feed, &self.machine.app);
        payloads(
            &feed.state,
            app.backfill.as_ref(),
            &dialog.ask,
            &dialog.preview,
            self.case.now,
        )
        .unwrap()
    }

    /// The state changes under the screen.
    fn change(&mut self, change: impl FnOnce(&mut backfill::domain::state::Backfill)) {
        let mut state = (*self.case.feed.state).clone();
        change(state.backfills.get_mut(&theirs::id()).unwrap());
        self.case.feed.state = Arc::new(state);
        self.send(Msg::Fed);
    }

    fn screen(&self, size: (u16, u16)) -> String {
        let look = look("dark", Level::True, GlyphSet::Full);
        let Case { feed, now, .. } = &self.case;
        text(&screen(size, feed, &self.machine.app, &look, *now))
    }
}

#[test]
fn p_pauses_the_native_backfill_at_once_by_an_event_of_the_operators() {
    let mut operator = Operator::at(theirs::running());
    let effects = operator.keys("p");
    let [Effect::Command { payload, .. }] = effects.as_slice() else {
        panic!("{effects:?}");
    };
    assert_eq!(*payload, Payload::Paused { until: None });
    assert!(operator.said().contains("sent"), "{}", operator.said());
}

#[test]
fn where_somebody_paused_it_on_the_server_p_plans_to_resume_it_there() {
    let mut operator = Operator::at(theirs::paused_there());
    assert_eq!(operator.keys("p"), []);
    assert_eq!(operator.dialog().ask, Ask::Resume);
    let appended = operator.appended();
    let [Payload::ActionRequested { action, .. }] = appended.as_slice() else {
        panic!("{appended:?}");
    };
    assert_eq!(*action, Action::Resume { whole_dag: false });
}

#[test]
fn r_asks_for_what_failed_and_y_submits_it_with_the_digest_that_was_shown() {
    let mut operator = Operator::at(theirs::running());
    operator.keys("r");
    let digest = operator.dialog().preview.digest.clone();
    let appended = operator.appended();
    let [Payload::ActionRequested { action, .. }] = appended.as_slice() else {
        panic!("{appended:?}");
    };
    let chunks = vec![theirs::Theirs::day(23), theirs::Theirs::day(24)];
    let failed_only = true;
    assert_eq!(*action, Action::Rerun { chunks, failed_only });
    let effects = operator.keys("y");
    assert!(matches!(&effects[..], [Effect::Submit { digest: d, .. }] if *d == digest));
}

/// Ending running days is a choice in the same dialog, and another plan: its phrase has to be typed anew.
/// What was counted a minute ago must not be confirmed as the present.
#[test]
fn an_open_plan_follows_what_is_seen_and_keeps_what_was_typed() {
    let mut operator = Operator::at(theirs::running());
    operator.command("cancel-backfill");
    operator.text("events");
    let cancels = |operator: &Operator| {
        let facts = &operator.dialog().preview.facts;
        facts
            .iter()
            .find(|(label, _)| *label == "cancels")
            .unwrap()
            .1
            .clone()
    };
    let before = cancels(&operator);
    let id = operator.machine.app.backfill.clone().unwrap();
    let state = std::sync::Arc::make_mut(&mut operator.case.feed.state);
    let backfill = state.backfills.get_mut(&id).unwrap();
    let waiting = backfill.count(backfill::domain::state::ChunkState::Queued);
    let none_waits = backfill.chunks.iter().map(|c| (c.id, Vec::new())).collect();
    let facts = backfill.seen.clone().unwrap();
    backfill.observe(&none_waits, &facts, operator.case.now);
    operator.send(Msg::Fed);
    let now = cancels(&operator);
    assert!(before.starts_with(&format!("{waiting} days")), "{before}");
    assert!(now.starts_with("0 days waiting"), "{now}");
    let typed = operator.dialog().phrase.clone().map(|(_, typed)| typed);
    assert_eq!(typed.as_deref(), Some("events"));
}

/// With every day listed, the keys that choose must not fall silent.
#[test]
fn up_and_down_choose_a_way_unless_there_is_a_list_to_scroll() {
    let mut operator = Operator::at(theirs::running());
    operator.command("cancel-backfill");
    operator.keys("tab down");
    assert_eq!(operator.dialog().ask, Ask::Act(Action::Cancel { running: true }));
    assert!(operator.screen((80, 24)).contains("up down chooses"));
}

#[test]
fn the_cancel_dialog_offers_to_end_running_days_too_and_asks_for_the_name() {
    let mut operator = Operator::at(theirs::running());
    operator.command("cancel-backfill");
    assert_eq!(operator.dialog().ask, Ask::Cancel);
    operator.text("events");
    let before = operator.dialog().preview.same_as.clone();
    assert_eq!(operator.keys("down"), []);
    let dialog = operator.dialog();
    assert_eq!(dialog.ask, Ask::Act(Action::Cancel { running: true }));
    assert_ne!(dialog.preview.same_as, before);
    assert_eq!(
        dialog.phrase,
        Some(("events-daily".to_owned(), String::new())),
        "what was typed was for the other plan"
    );
    operator.keys("down");
    assert_eq!(
        operator.dialog().ask,
        Ask::Act(Action::Cancel { running: true }),
        "there is no third way"
    );
    operator.text("events-daily");
    let effects = operator.keys("enter");
    assert!(
        matches!(
            &effects[..],
            [Effect::Submit {
                ask: Ask::Act(Action::Cancel { running: true }),
                ..
            }]
        ),
        "{effects:?}"
    );
    operator.keys("up");
    assert_eq!(
        operator.dialog().ask,
        Ask::Act(Action::Cancel { running: true }),
        "what is sent does not change any more"
    );
}

/// Case S17 for the ways of a dialog: a plan that has not been on the screen is not confirmed.
#[test]
fn after_another_way_was_chosen_its_plan_has_to_be_seen_first() {
    let mut operator = Operator::at(theirs::date_taken());
    operator.keys("a down up");
    let at = operator.case.now;
    let press = |key: &str| Press {
        key: key.parse().unwrap(),
        repeat: false,
        at,
    };
    assert_eq!(operator.send(Msg::Key(press("y"))), [], "no frame has shown it");
    assert!(operator.said().contains("ignored"), "{}", operator.said());
    assert_eq!(operator.keys("y").len(), 1);
}

#[test]
fn a_taken_date_is_adopted_or_with_a_phrase_cleared() {
    let mut operator = Operator::at(theirs::date_taken());
    operator.keys("a");
    let adopts = operator.dialog().clone();
    assert!(matches!(adopts.ask, Ask::Take(_, _, Taking::Adopt)));
    assert_eq!((adopts.preview.class, adopts.phrase), (2, None));
    operator.keys("down");
    let clears = operator.dialog().clone();
    assert!(matches!(clears.ask, Ask::Take(_, _, Taking::Clear)));
    assert_eq!(clears.phrase.map(|(wanted, _)| wanted).as_deref(), Some("1"));
    let appended = operator.appended();
    assert!(
        matches!(
            &appended[..],
            [Payload::TakeRequested {
                how: Taking::Clear,
                ..
            }]
        ),
        "{appended:?}"
    );
    operator.keys("esc h");
    let why = operator.why_not(Id::TakeDate);
    assert!(
        why.starts_with("no run of others has the date of 2023-02-15"),
        "{why}"
    );
}

#[test]
fn a_taken_date_needs_a_human_and_is_found_by_n() {
    let mut operator = Operator::at(theirs::date_taken());
    operator.keys("g g N");
    assert_eq!(
        operator.machine.app.cursor.map(|c| c.to_string()).as_deref(),
        Some("2023-02-22")
    );
}

#[test]
fn the_limit_is_written_to_the_pool_and_every_change_of_it_shows_its_plan() {
    for (typed, wanted) in [
        ("4", Ask::Cap(Some(4))),
        (
            "slots 6",
            Ask::Act(Action::Slots {
                pool: "backfill_pool".to_owned(),
                slots: 6,
            }),
        ),
        ("replace 2", Ask::Act(Action::Replace { limit: 2 })),
    ] {
        let mut operator = Operator::at(theirs::running());
        operator.keys("t");
        operator.text(typed);
        assert_eq!(operator.keys("enter"), [], "{typed}");
        assert_eq!(operator.dialog().ask, wanted, "{typed}");
        let facts = &operator.dialog().preview.facts;
        assert!(
            facts.iter().any(|(l, v)| *l == "server" && v.contains("(prod)")),
            "{facts:?}"
        );
    }
}

#[test]
fn without_a_pool_a_number_can_only_mean_that_it_is_made_again() {
    let mut operator = Operator::at(theirs::paused_there());
    operator.keys("t");
    operator.text("auto");
    operator.keys("enter");
    assert_eq!(
        operator.said(),
        "type replace 4: no pool was named when it was attached"
    );
    operator.keys("ctrl-u");
    operator.text("3");
    operator.keys("enter");
    assert_eq!(operator.said(), "native backfill 12 has limit 3 already");
    operator.keys("ctrl-u");
    operator.text("5");
    operator.keys("enter");
    let dialog = operator.dialog();
    assert_eq!(dialog.ask, Ask::Act(Action::Replace { limit: 5 }));
    assert_eq!(
        dialog.phrase.as_ref().map(|(wanted, _)| wanted.as_str()),
        Some("events-daily")
    );
}

#[test]
fn the_whole_dag_is_frozen_by_name_only_and_its_name_is_typed() {
    let mut operator = Operator::at(theirs::running());
    let row = action(Id::PauseDag);
    assert!(
        row.keys.is_empty(),
        "no key freezes a DAG by a slip of the finger"
    );
    assert_eq!(operator.command("pause-dag"), []);
    let dialog = operator.dialog();
    assert_eq!(dialog.ask, Ask::Act(Action::Pause { whole_dag: true }));
    assert_eq!(
        dialog.phrase.as_ref().map(|(wanted, _)| wanted.as_str()),
        Some("events_daily")
    );
}

#[test]
fn days_are_called_done_or_failed_after_a_choice_and_their_number() {
    let mut operator = Operator::at(theirs::running());
    operator.keys("D down");
    let dialog = operator.dialog();
    let days = vec![theirs::Theirs::day(23)];
    assert_eq!(
        dialog.ask,
        Ask::Act(Action::Mark {
            chunks: days,
            done: false
        })
    );
    assert!(!dialog.acts(), "it is failed already");
    assert_eq!(dialog.phrase, None, "nothing needs to be allowed");
    operator.keys("up");
    assert!(operator.dialog().acts());
    assert_eq!(operator.dialog().phrase, Some(("1".to_owned(), String::new())));
}

/// Every action on somebody else's backfill that starts, ends or widens work shows its plan, and none is silent.
#[test]
fn none_of_the_levers_moves_without_its_dialog() {
    for id in [
        Id::RerunFailed,
        Id::Rerun,
        Id::CancelBackfill,
        Id::MarkAs,
        Id::Detach,
        Id::PauseDag,
        Id::ResumeDag,
    ] {
        let mut operator = Operator::at(theirs::running());
        let row = action(id);
        assert_eq!(operator.command(row.name), [], "{}", row.name);
        let dialog = operator.dialog();
        assert!(dialog.preview.class >= 2, "{}", row.name);
        assert_eq!(dialog.phrase.is_some(), row.class == Class::Final, "{}", row.name);
        let facts = &dialog.preview.facts;
        assert!(
            facts
                .iter()
                .any(|(label, value)| *label == "server" && value.contains("airflow-eu (prod)")),
            "{}: {facts:?}",
            row.name
        );
        let drawn = operator.screen((120, 40));
        assert!(drawn.contains("PROD"), "{}", row.name);
    }
}

/// Attempts, profiles and our own slots are nothing that an engine of others has.
#[test]
fn no_dialog_of_theirs_uses_a_word_of_ours() {
    for case in theirs::all() {
        let attached = case
            .app
            .backfill
            .as_ref()
            .is_some_and(|name| case.feed.state.backfills[name].spec.attach.is_some());
        if !attached || !matches!(case.app.layers.last(), Some(Layer::Plan(_) | Layer::Throttle(_))) {
            continue;
        }
        let look = look("dark", Level::None, GlyphSet::Ascii);
        let drawn = text(&screen((80, 24), &case.feed, &case.app, &look, case.now));
        let inside: String = drawn
            .lines()
            .filter(|l| l.starts_with('|') || l.contains(" |"))
            .collect();
        for word in ["attempt", "profile", "lane ", "weight", "max_limit"] {
            assert!(!inside.contains(word), "{word} in {}\n{drawn}", case.name);
        }
    }
}

#[test]
fn what_belongs_to_a_plan_of_ours_is_off_and_says_what_there_is_instead() {
    let operator = Operator::at(theirs::running());
    assert!(
        operator
            .why_not(Id::Hold)
            .ends_with("p pauses it there, K stops a day")
    );
    assert!(operator.why_not(Id::Skip).ends_with("D calls a day done"));
    let operator = Operator::at(cases::running());
    for id in [Id::MarkAs, Id::Detach, Id::PauseDag, Id::ResumeDag] {
        assert_eq!(operator.why_not(id), "orders-rebuild is our own backfill");
    }
}

#[test]
fn when_its_native_backfill_is_over_its_levers_are_off_and_its_days_are_not() {
    let operator = Operator::at(theirs::cancelled());
    for id in [Id::Pause, Id::CancelBackfill] {
        let why = operator.why_not(id);
        assert!(why.contains("native backfill 12 was cancelled"), "{why}");
    }
    assert!(
        operator
            .why_not(Id::Pause)
            .ends_with("pause-dag freezes the whole DAG")
    );
    for id in [Id::RerunFailed, Id::Rerun, Id::MarkAs, Id::Detach] {
        assert_eq!(operator.why_not(id), "", "{id:?}");
    }
}

#[test]
fn what_was_let_go_of_is_left_alone() {
    let mut operator = Operator::at(theirs::running());
    operator.change(|b| b.detached = Some(b.started.clone()));
    for id in [
        Id::Pause,
        Id::Resume,
        Id::Rerun,
        Id::RerunFailed,
        Id::StopRunning,
        Id::CancelBackfill,
        Id::MarkAs,
        Id::Detach,
        Id::PauseDag,
    ] {
        assert_ne!(operator.why_not(id), "", "{id:?}");
    }
}

#[test]
fn read_only_takes_every_lever_away() {
    let mut operator = Operator::at(theirs::running());
    operator.machine.app.read_only = Some("flag");
    for row in ACTIONS.iter().filter(|a| a.class > Class::Look) {
        let availability = availability(row, &operator.machine.app, &operator.case.feed);
        assert!(availability.is_hidden(), "{}", row.name);
    }
}

fn end(asked: &mut Asked, ok: bool, said: &str) {
    asked.ended = Some(ActionEnd {
        ok,
        said: said.to_owned(),
        at: t0310(),
    });
}

#[test]
fn the_end_of_an_action_is_told_once_in_the_servers_words() {
    let mut operator = Operator::at(theirs::running());
    assert_eq!(operator.said(), "", "what ended before is no news");
    operator.change(|b| end(b.asked.back_mut().unwrap(), true, "2 days run again"));
    assert_eq!(
        operator.said(),
        "re-run what failed in 2 days: done, 2 days run again"
    );
    operator.machine.app.toast = None;
    operator.send(Msg::Fed);
    assert_eq!(operator.said(), "", "once");
    let mut operator = Operator::at(theirs::running());
    operator.change(|b| end(b.asked.back_mut().unwrap(), false, "404 Not Found"));
    assert!(
        operator.said().ends_with("NOT DONE, 404 Not Found"),
        "{}",
        operator.said()
    );
}

/// In a dialog with a phrase letters are text, and tab still lists every day.
#[test]
fn tab_lists_the_days_of_a_dialog_that_asks_for_a_phrase() {
    let mut operator = Operator::at(theirs::running());
    operator.keys("D tab");
    assert_eq!(operator.dialog().all_days, Some(0));
    operator.keys("tab");
    assert_eq!(operator.dialog().all_days, None);
}

/// What a signal of ours paused goes on by itself; a human's pause on top of it is still one key.
#[test]
fn p_pauses_also_what_a_signal_holds_already() {
    let mut operator = Operator::at(theirs::held_by_signal());
    let effects = operator.keys("p");
    assert!(
        matches!(
            &effects[..],
            [Effect::Command {
                payload: Payload::Paused { .. },
                ..
            }]
        ),
        "{effects:?}"
    );
}
