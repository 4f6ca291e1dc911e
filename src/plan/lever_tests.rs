use super::*;
use crate::{
    domain::{
        attach::{Attach, NativeSeen},
        event::{Actor, LimitChange, Payload},
        spec::Dag,
    },
    plan::testing::Night,
};

const POOL: &str = "backfill_pool";

fn theirs(native: Option<u64>) -> Night {
    Night::new(10).attached(
        Attach { native },
        Dag {
            id: "events_daily".to_owned(),
            conf: Default::default(),
            pool: Some(POOL.to_owned()),
        },
    )
}

fn ours() -> Night {
    Night::new(10).dag(Dag {
        id: "events_daily".to_owned(),
        conf: Default::default(),
        pool: Some(POOL.to_owned()),
    })
}

fn facts(night: &Night, paused: bool) -> Facts {
    Facts {
        as_of: Some(night.now),
        native: Some(NativeSeen {
            id: 12,
            paused,
            completed: None,
            limit: 3,
            from: night.now,
            to: night.now,
            by: None,
        }),
        ..Facts::default()
    }
}

fn slots(slots: i64) -> PoolSeen {
    PoolSeen {
        name: POOL.to_owned(),
        slots,
        running: 0,
        waiting: 0,
        others: None,
    }
}

fn limit(night: &mut Night, to: u32, rule: Rule) {
    let from = night.backfill().limit.value;
    night.ours(Payload::LimitChanged {
        change: LimitChange {
            from,
            to,
            rule,
            signal: Some("lag".parse().unwrap()),
            why: format!("limit {from} to {to}: lag said so"),
            checkpoint: String::new(),
        },
    });
}

fn native_lever(night: &Night, paused: bool) -> Option<Lever> {
    native(night.backfill(), &facts(night, paused), true, night.now)
}

fn pool_lever(night: &Night, has: i64) -> Option<Lever> {
    pool(night.backfill(), &slots(has), night.now, night.now)
}

/// An action is asked for, sent, accepted and over.
fn done(night: &mut Night, action: Action, ok: bool) {
    done_by(Actor::supervisor(), night, action, ok);
}

fn done_by(actor: Actor, night: &mut Night, action: Action, ok: bool) {
    night.event(
        actor,
        Payload::ActionRequested {
            action,
            digest: String::new(),
            native: None,
        },
    );
    let ask = night.backfill().asked.back().unwrap().seq;
    let (sent, call, said) = ("PUT".to_owned(), String::new(), "200".to_owned());
    night.ours(Payload::ActionSent {
        ask,
        step: 0,
        sent,
        call,
    });
    night.ours(Payload::ActionAnswered {
        ask,
        step: 0,
        ok,
        said: said.clone(),
    });
    night.ours(Payload::ActionEnded { ask, ok, said });
    night.later(1);
}

#[test]
fn what_was_seen_of_a_pool_before_our_own_request_is_not_taken_for_somebody_elses() {
    let mut night = ours();
    night.ours(Payload::PoolTaken {
        pool: POOL.to_owned(),
        former: 8,
    });
    done(&mut night, set(4), true);
    let before = night.now;
    night.human(Payload::CapSet { cap: Some(2) });
    night.later(5);
    done(&mut night, set(2), true);
    assert_eq!(pool(night.backfill(), &slots(4), before, night.now), None);
}

fn asked(lever: Option<Lever>) -> Option<Action> {
    match lever {
        Some(Lever::Ask(action, _)) => Some(action),
        _ => None,
    }
}

const PAUSE: Action = Action::Pause { whole_dag: false };
const RESUME: Action = Action::Resume { whole_dag: false };

fn set(slots: i64) -> Action {
    Action::Slots {
        pool: POOL.to_owned(),
        slots,
    }
}

#[test]
fn what_ran_before_we_took_hold_of_it_is_left_alone_until_somebody_or_a_signal_says_otherwise() {
    let night = theirs(Some(12));
    assert_eq!(native_lever(&night, false), None);
    assert_eq!(native_lever(&night, true), None, "somebody else's pause");
    assert_eq!(pool_lever(&night, 3), None);
    assert_eq!(pool_lever(&night, 100), None);
}

/// A signal that left the configuration lifts none of its pauses; a person's pause ends when that person says so.
#[test]
fn without_its_signal_only_a_persons_pause_is_lifted() {
    let unprotected = |night: &Night| asked(native(night.backfill(), &facts(night, true), false, night.now));
    let mut night = theirs(Some(12));
    done_by(Actor::signal(&"lag".parse().unwrap()), &mut night, PAUSE, true);
    assert_eq!(
        asked(native_lever(&night, true)),
        Some(RESUME),
        "the signal is there"
    );
    assert_eq!(unprotected(&night), None);
    let mut night = theirs(Some(12));
    done(&mut night, PAUSE, true);
    assert_eq!(unprotected(&night), Some(RESUME));
}

#[test]
fn a_humans_pause_pauses_the_native_backfill_and_its_end_resumes_it() {
    let mut night = theirs(Some(12));
    night.human(Payload::Paused { until: None });
    let Some(Lever::Ask(action, why)) = native_lever(&night, false) else {
        panic!("not asked for");
    };
    assert_eq!((action, why.as_str()), (PAUSE, "paused by minh"));
    done(&mut night, PAUSE, true);
    assert_eq!(native_lever(&night, true), None, "it is paused");
    night.human(Payload::Resumed {});
    assert_eq!(asked(native_lever(&night, true)), Some(RESUME));
    done(&mut night, RESUME, true);
    assert_eq!(native_lever(&night, false), None);
}

#[test]
fn a_pause_by_a_signal_is_lifted_when_the_signal_lets_go_and_not_while_a_human_pauses_too() {
    let mut night = theirs(Some(12));
    limit(&mut night, 0, Rule::Pause);
    assert_eq!(asked(native_lever(&night, false)), Some(PAUSE));
    done(&mut night, PAUSE, true);
    night.human(Payload::Paused { until: None });
    limit(&mut night, 2, Rule::Resume);
    assert_eq!(native_lever(&night, true), None);
    night.human(Payload::Resumed {});
    assert_eq!(asked(native_lever(&night, true)), Some(RESUME));
}

#[test]
fn somebody_elses_pause_is_never_lifted_and_a_pause_that_they_lifted_is_not_set_again() {
    let mut night = theirs(Some(12));
    night.human(Payload::Paused { until: None });
    // It was found paused: no step of ours was accepted.
    night.event(
        Actor::supervisor(),
        Payload::ActionRequested {
            action: PAUSE,
            digest: String::new(),
            native: None,
        },
    );
    let ask = night.backfill().asked.back().unwrap().seq;
    night.ours(Payload::ActionEnded {
        ask,
        ok: true,
        said: "was paused already".to_owned(),
    });
    night.human(Payload::Resumed {});
    assert_eq!(native_lever(&night, true), None);

    let mut night = theirs(Some(12));
    limit(&mut night, 0, Rule::Pause);
    done(&mut night, PAUSE, true);
    assert_eq!(
        native_lever(&night, false),
        None,
        "lifted on the server by somebody"
    );
}

#[test]
fn an_action_that_failed_is_asked_for_again_after_a_while_and_one_under_way_is_not_doubled() {
    let mut night = theirs(Some(12));
    night.human(Payload::Paused { until: None });
    done(&mut night, PAUSE, false);
    assert_eq!(native_lever(&night, false), None);
    night.later(PATIENCE.as_secs() as i64);
    assert_eq!(asked(native_lever(&night, false)), Some(PAUSE));
    night.event(
        Actor::supervisor(),
        Payload::ActionRequested {
            action: PAUSE,
            digest: String::new(),
            native: None,
        },
    );
    assert_eq!(native_lever(&night, false), None);
}

#[test]
fn an_ended_or_detached_native_backfill_has_no_lever() {
    let mut night = theirs(Some(12));
    night.human(Payload::Paused { until: None });
    let mut ended = facts(&night, false);
    ended.native.as_mut().unwrap().completed = Some(night.now);
    assert_eq!(native(night.backfill(), &ended, true, night.now), None);
    night.human(Payload::Detached {});
    assert_eq!(native_lever(&night, false), None);
}

#[test]
fn the_limit_is_written_to_the_pool_after_its_slots_were_remembered_and_given_back_at_the_end() {
    let mut night = ours();
    assert_eq!(
        pool_lever(&night, 8),
        Some(Lever::TakePool {
            pool: POOL.to_owned(),
            former: 8
        })
    );
    night.ours(Payload::PoolTaken {
        pool: POOL.to_owned(),
        former: 8,
    });
    assert_eq!(asked(pool_lever(&night, 8)), Some(set(4)), "max_limit");
    done(&mut night, set(4), true);
    assert_eq!(pool_lever(&night, 4), None);
    night.human(Payload::CapSet { cap: Some(2) });
    assert_eq!(asked(pool_lever(&night, 4)), Some(set(2)));
    done(&mut night, set(2), true);
    night.human(Payload::CancelRequested {});
    assert_eq!(asked(pool_lever(&night, 2)), Some(set(8)), "what it had");
    done(&mut night, set(8), true);
    assert!(matches!(
        pool_lever(&night, 8),
        Some(Lever::LetPoolGo { slots: 8, .. })
    ));
    night.ours(Payload::PoolReturned {
        pool: POOL.to_owned(),
        slots: 8,
        why: "given back".to_owned(),
    });
    assert_eq!(pool_lever(&night, 8), None);
}

#[test]
fn a_pool_never_gets_more_than_it_had_and_never_too_little_for_running_days_to_finish() {
    let night = ours();
    assert_eq!(pool_lever(&night, 3), None, "max_limit 4, and the pool has 3");
    let mut night = theirs(Some(12));
    limit(&mut night, 0, Rule::Pause);
    night.ours(Payload::PoolTaken {
        pool: POOL.to_owned(),
        former: -1,
    });
    assert_eq!(asked(pool_lever(&night, -1)), Some(set(1)));
    // Without a native backfill the pool is the only lever.
    let mut night = theirs(None);
    limit(&mut night, 0, Rule::Pause);
    night.ours(Payload::PoolTaken {
        pool: POOL.to_owned(),
        former: 5,
    });
    assert_eq!(asked(pool_lever(&night, 5)), Some(set(0)));
}

#[test]
fn a_pool_that_somebody_else_set_is_left_as_they_want_it() {
    let mut night = theirs(Some(12));
    limit(&mut night, 2, Rule::Cut);
    night.ours(Payload::PoolTaken {
        pool: POOL.to_owned(),
        former: 5,
    });
    done(&mut night, set(2), true);
    let Some(Lever::LetPoolGo { slots: 7, why, .. }) = pool_lever(&night, 7) else {
        panic!("not let go");
    };
    assert!(why.contains("somebody else"), "{why}");
}

#[test]
fn a_pool_goes_back_to_what_it_had_when_the_limit_is_whole_again() {
    let mut night = theirs(Some(12));
    limit(&mut night, 2, Rule::Cut);
    night.ours(Payload::PoolTaken {
        pool: POOL.to_owned(),
        former: 5,
    });
    done(&mut night, set(2), true);
    limit(&mut night, 4, Rule::Grow);
    assert_eq!(asked(pool_lever(&night, 2)), Some(set(5)));
    done(&mut night, set(5), true);
    assert!(matches!(pool_lever(&night, 5), Some(Lever::LetPoolGo { .. })));
}

/// What the night's backfill looks like with this seen of it.
fn seen(night: &Night, facts: &Facts) -> Backfill {
    let mut backfill = night.backfill().clone();
    backfill.observe(&Default::default(), facts, night.now);
    backfill
}

#[test]
fn a_pause_that_the_server_refused_or_somebody_lifted_is_not_called_one() {
    let mut night = theirs(Some(12));
    assert_eq!(pause_there(&seen(&night, &facts(&night, false))), None);
    night.human(Payload::Paused { until: None });
    let before = facts(&night, false);
    assert_eq!(pause_there(&seen(&night, &before)), Some(PauseThere::Asked));
    assert_eq!(
        pause_there(night.backfill()),
        Some(PauseThere::Asked),
        "never seen"
    );
    night.later(1);
    done(&mut night, PAUSE, false);
    let refused = seen(&night, &facts(&night, false));
    assert_eq!(pause_there(&refused), Some(PauseThere::NotDone("200".to_owned())));
    assert_eq!(word_there(&refused), "not paused");
    // What we did is newer than what was seen.
    done(&mut night, PAUSE, true);
    assert_eq!(pause_there(&seen(&night, &before)), Some(PauseThere::Holds));
    let paused = seen(&night, &facts(&night, true));
    assert_eq!(
        (pause_there(&paused), word_there(&paused)),
        (Some(PauseThere::Holds), "paused")
    );
    night.later(60);
    let lifted = seen(&night, &facts(&night, false));
    assert_eq!(pause_there(&lifted), Some(PauseThere::LiftedThere));
    assert!(
        pause_there(&lifted)
            .unwrap()
            .why_not()
            .unwrap()
            .contains("somebody let it go on")
    );
}

#[test]
fn after_our_own_resume_an_older_look_is_not_somebody_elses_pause() {
    let mut night = theirs(Some(12));
    let before = facts(&night, true);
    night.later(1);
    done(&mut night, Action::Resume { whole_dag: false }, true);
    assert!(!is_paused_there(&seen(&night, &before)));
    night.later(60);
    assert!(
        is_paused_there(&seen(&night, &facts(&night, true))),
        "that is newer"
    );
}

#[test]
fn a_pause_without_a_native_backfill_holds_by_the_pool_or_not_at_all() {
    let none = |night: &Night| Facts {
        native: None,
        ..facts(night, false)
    };
    let mut night = theirs(None);
    night.human(Payload::Paused { until: None });
    assert_eq!(pause_there(&seen(&night, &none(&night))), Some(PauseThere::Asked));
    night.ours(Payload::PoolTaken {
        pool: POOL.to_owned(),
        former: 8,
    });
    done(&mut night, set(0), true);
    assert_eq!(pause_there(&seen(&night, &none(&night))), Some(PauseThere::Holds));
    let dag = Dag {
        id: "events_daily".to_owned(),
        conf: Default::default(),
        pool: None,
    };
    let mut without = Night::new(3).attached(Attach { native: None }, dag);
    without.human(Payload::Paused { until: None });
    let there = pause_there(&seen(&without, &none(&without)));
    assert!(matches!(there, Some(PauseThere::NoLever(_))), "{there:?}");
}

/// Without a signal the rule is that of the start for ever: a human's cap counts all the same.
#[test]
fn a_cap_on_somebody_elses_backfill_is_written_to_its_pool_also_without_a_signal() {
    let mut night = theirs(Some(12));
    assert_eq!(pool_lever(&night, 8), None);
    night.human(Payload::CapSet { cap: Some(2) });
    let taken = Lever::TakePool {
        pool: POOL.to_owned(),
        former: 8,
    };
    assert_eq!(pool_lever(&night, 8), Some(taken));
}

/// A supervisor that is killed at the request only sees that the slots are there.
#[test]
fn slots_whose_answer_was_lost_are_ours_to_give_back() {
    let mut night = ours();
    night.ours(Payload::PoolTaken {
        pool: POOL.to_owned(),
        former: 8,
    });
    night.event(
        Actor::supervisor(),
        Payload::ActionRequested {
            action: set(4),
            digest: String::new(),
            native: None,
        },
    );
    let ask = night.backfill().asked.back().unwrap().seq;
    night.ours(Payload::ActionSent {
        ask,
        step: 0,
        sent: "PATCH".to_owned(),
        call: String::new(),
    });
    let said = "pool backfill_pool has 4 slots".to_owned();
    night.ours(Payload::ActionEnded { ask, ok: true, said });
    assert_eq!(night.backfill().pool.as_ref().unwrap().written, Some(4));
}

#[test]
fn what_was_asked_for_and_not_sent_is_not_done_after_letting_go_and_what_was_sent_is_ended() {
    let ask = |night: &mut Night, action: Action| {
        night.human(Payload::ActionRequested {
            action,
            digest: String::new(),
            native: Some(12),
        })
    };
    let mut night = theirs(Some(12));
    let sent = ask(&mut night, Action::Replace { limit: 3 });
    night.ours(Payload::ActionSent {
        ask: sent,
        step: 0,
        sent: "PUT".to_owned(),
        call: String::new(),
    });
    let unsent = ask(&mut night, Action::Pause { whole_dag: true });
    night.human(Payload::Detached {});
    let open: Vec<u64> = night
        .backfill()
        .asked
        .iter()
        .filter(|a| a.is_open())
        .map(|a| a.seq)
        .collect();
    assert_eq!(open, [sent]);
    let ended = night.backfill().asked.iter().find(|a| a.seq == unsent).unwrap();
    let end = ended.ended.as_ref().unwrap();
    assert!(!end.ok && end.said.contains("let go of"), "{}", end.said);
}

#[test]
fn an_action_is_about_the_native_backfill_that_was_seen_unless_we_made_another_since() {
    let mut night = theirs(Some(12));
    let before = facts(&night, false);
    let about = |night: &Night, facts: &Facts, action| meant(night.backfill(), Some(facts), &action);
    assert_eq!(about(&night, &before, PAUSE), Some(12));
    assert_eq!(about(&night, &before, Action::Pause { whole_dag: true }), None);
    night.later(1);
    done(&mut night, Action::Replace { limit: 5 }, true);
    assert_eq!(about(&night, &before, Action::Cancel { running: true }), None);
    night.later(1);
    assert_eq!(
        about(&night, &facts(&night, false), PAUSE),
        Some(12),
        "seen since"
    );
}

/// A look that began before a replace ended may come in after it.
#[test]
fn a_look_that_still_shows_what_was_replaced_does_not_say_which_one_an_action_is_about() {
    let mut night = theirs(Some(12));
    night.event(
        Actor::supervisor(),
        Payload::ActionRequested {
            action: Action::Replace { limit: 5 },
            digest: String::new(),
            native: Some(12),
        },
    );
    let ask = night.backfill().asked.back().unwrap().seq;
    let said = "native backfill 12 is cancelled, and 13 made".to_owned();
    let sent = "PUT".to_owned();
    night.ours(Payload::ActionSent {
        ask,
        step: 0,
        sent,
        call: String::new(),
    });
    night.ours(Payload::ActionEnded { ask, ok: true, said });
    night.later(5);
    let late = facts(&night, false);
    assert_eq!(meant(night.backfill(), Some(&late), &PAUSE), None);
    let mut newer = late;
    newer.native.as_mut().unwrap().id = 13;
    assert_eq!(meant(night.backfill(), Some(&newer), &PAUSE), Some(13));
}
