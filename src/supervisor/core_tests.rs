//! The supervisor's decisions without a journal and without an outside: appends that succeed, that meet what others
//! appended, and that fail.

use super::{
    core::{Core, Effect, Input},
    gate::Gate,
    limits::Limits,
};
use crate::{
    config::{HttpConfig, PrometheusConfig, SignalConfig, SourceConfig, Unit},
    domain::{
        event::{NewEvent, Payload, Rule},
        failure::FailureClass,
        ids::AttemptId,
        spec::Law,
        state::{ChunkState, State},
        tuning::Tuning,
    },
    executor::{Probe, RunEnd, RunUpdate, SubmitAnswer},
    host::boot_now,
    plan::testing::{Night, failure},
    signals::Reading,
};
use chrono::Duration;
use std::collections::BTreeMap;

/// A holder at work. `night.state` is what is durable, `seen` what the holder has folded.
pub(super) struct Desk {
    pub(super) night: Night,
    pub(super) seen: State,
    pub(super) core: Core,
    gate: Gate,
}

impl Desk {
    pub(super) fn new(night: Night) -> Self {
        let limits = Limits::restore(&BTreeMap::new(), &night.state, |_| None);
        let slots = BTreeMap::from([("here".parse().unwrap(), Some(4))]);
        let gate = Gate::default();
        gate.lease_renewed(boot_now(), std::time::Duration::from_secs(3600));
        Self {
            seen: night.state.clone(),
            core: Core::new(Tuning::default(), limits, slots),
            gate,
            night,
        }
    }

    pub(super) fn take(&mut self, input: Input) {
        let now = self.night.now;
        self.core.take(&mut self.seen, input, 0.5, now);
    }

    pub(super) fn tick(&mut self) {
        let now = self.night.now;
        self.core.tick(&mut self.seen, &self.gate, now);
    }

    fn decide(&mut self) {
        let now = self.night.now;
        self.core.decide(&mut self.seen, now);
    }

    /// The batch becomes durable; gives the effects that leave.
    pub(super) fn append(&mut self) -> Vec<Effect> {
        drop(self.core.batch());
        self.night.state = self.seen.clone();
        let effects = self.core.effects();
        for effect in &effects {
            if let Effect::Submit(attempt) = effect {
                self.gate.announce(attempt.clone());
            }
        }
        effects
    }

    /// A human's command became durable first: the batch meets a conflict and is made anew.
    pub(super) fn meet(&mut self, command: Payload) {
        let batch = self.core.batch();
        self.night.human(command);
        self.put_back(batch);
    }

    fn put_back(&mut self, batch: Vec<NewEvent>) {
        self.seen = self.night.state.clone();
        self.core.again(&mut self.seen, batch);
        self.tick();
        self.decide();
    }

    fn state_of(&self, day: u64) -> ChunkState {
        let id = self.night.day(day);
        let backfill = self.seen.backfills.get(&self.night.id()).unwrap();
        backfill.chunk(id).unwrap().state
    }
}

fn submits(effects: &[Effect]) -> Vec<&AttemptId> {
    let mut found = Vec::new();
    for effect in effects {
        if let Effect::Submit(id) = effect {
            found.push(id);
        }
    }
    found
}

/// One intent that a crash kept from leaving, and nothing else to do.
fn with_an_unsent_intent() -> (Desk, AttemptId) {
    let mut night = Night::new(1);
    let day = night.day(0);
    night.intend(day);
    let attempt = night.attempt(day);
    let mut desk = Desk::new(night);
    let probes = desk.core.recover(&desk.seen);
    assert_eq!(probes, [Effect::Probe(attempt.clone())]);
    (desk, attempt)
}

/// Case B04.
#[test]
fn an_intent_that_never_left_leaves_after_recovery_also_if_somebody_else_appends_meanwhile() {
    let (mut desk, attempt) = with_an_unsent_intent();
    desk.take(Input::Probed(attempt.clone(), Probe::NeverRan));
    desk.tick();
    desk.meet(Payload::CapSet { cap: Some(3) });
    assert_eq!(submits(&desk.append()), [&attempt]);
}

#[test]
fn an_intent_that_never_left_is_withdrawn_if_a_pause_comes_meanwhile() {
    let (mut desk, attempt) = with_an_unsent_intent();
    desk.take(Input::Probed(attempt, Probe::NeverRan));
    desk.tick();
    desk.meet(Payload::Paused { until: None });
    assert_eq!(submits(&desk.append()), Vec::<&AttemptId>::new());
    assert_eq!(desk.state_of(0), ChunkState::Pending);
    let pause = desk.seen.by_name("orders").unwrap().pause.clone().unwrap();
    assert_eq!(pause.applied, Some(Vec::new()));
}

#[test]
fn a_request_to_stop_leaves_also_if_somebody_else_appends_meanwhile() {
    let mut night = Night::new(2);
    let day = night.day(0);
    night.start(day);
    let attempt = night.attempt(day);
    night.human(Payload::StopRequested { chunks: vec![day] });
    let mut desk = Desk::new(night);
    desk.tick();
    desk.meet(Payload::CapSet { cap: Some(3) });
    assert!(desk.append().contains(&Effect::Stop(attempt)));
}

#[test]
fn a_pause_that_ends_by_itself_does_not_end_another_pause_that_came_meanwhile() {
    let mut night = Night::new(2);
    let until = night.now + Duration::minutes(1);
    night.human(Payload::Paused { until: Some(until) });
    night.now = until;
    let mut desk = Desk::new(night);
    desk.tick();
    desk.meet(Payload::Paused { until: None });
    assert!(submits(&desk.append()).is_empty());
    let pause = desk.seen.by_name("orders").unwrap().pause.clone();
    assert_eq!(pause.unwrap().until, None);
}

#[test]
fn an_answer_survives_an_append_that_failed() {
    let mut desk = Desk::new(Night::new(1));
    desk.decide();
    let effects = desk.append();
    let attempt = submits(&effects)[0].clone();
    let run = crate::domain::ids::ExternalId("pid 1".to_owned());
    desk.take(Input::Submitted(
        attempt,
        SubmitAnswer::Accepted { run, running: true },
    ));
    let batch = desk.core.batch();
    desk.put_back(batch);
    assert!(submits(&desk.append()).is_empty());
    assert_eq!(desk.state_of(0), ChunkState::Running);
}

#[test]
fn an_attempt_without_an_answer_is_asked_about_at_once_and_then_now_and_again() {
    let mut desk = Desk::new(Night::new(1));
    desk.decide();
    let effects = desk.append();
    let attempt = submits(&effects)[0].clone();
    let why = "no answer".to_owned();
    desk.take(Input::Submitted(attempt.clone(), SubmitAnswer::Unknown { why }));
    desk.tick();
    assert_eq!(desk.append(), [Effect::Probe(attempt.clone())]);
    desk.night.now += Duration::seconds(9);
    desk.tick();
    assert!(desk.append().is_empty());
    desk.night.now += Duration::seconds(1);
    desk.tick();
    assert_eq!(desk.append(), [Effect::Probe(attempt)]);
}

#[test]
fn a_stop_is_asked_for_at_once_also_right_after_a_look_at_the_attempt() {
    let mut night = Night::new(1);
    let day = night.day(0);
    night.start(day);
    let attempt = night.attempt(day);
    let why = "gone silent".to_owned();
    night.ours(Payload::RunUncertain {
        attempt: attempt.clone(),
        why,
    });
    let mut desk = Desk::new(night);
    desk.tick();
    desk.append();
    desk.night.human(Payload::StopRequested { chunks: vec![day] });
    desk.seen = desk.night.state.clone();
    desk.tick();
    assert!(desk.append().contains(&Effect::Stop(attempt)));
}

/// An intent that waits for other attempts of its executor to be looked at is not taken back for that.
#[test]
fn a_resent_intent_is_not_withdrawn_while_others_are_still_looked_at() {
    let mut night = Night::new(2);
    for i in 0..2 {
        let day = night.day(i);
        night.intend(day);
    }
    let first = night.attempt(night.day(0));
    let mut desk = Desk::new(night);
    assert_eq!(desk.core.recover(&desk.seen).len(), 2);
    desk.take(Input::Probed(first.clone(), Probe::NeverRan));
    desk.tick();
    assert_eq!(submits(&desk.append()), [&first]);
    desk.tick();
    assert_eq!(desk.state_of(0), ChunkState::Submitting);
}

fn signal() -> SignalConfig {
    SignalConfig {
        source: SourceConfig::Prometheus(PrometheusConfig::at(HttpConfig::at("http://127.0.0.1:1"), "lag")),
        unit: Unit::Messages,
        low: 5.0,
        soft: 10.0,
        hard: 20.0,
        critical: 40.0,
        interval: std::time::Duration::from_secs(1),
        protects: true,
    }
}

/// A signal that an order gets while it runs protects it from then on: nothing starts before its first samples.
#[test]
fn a_signal_that_is_amended_in_protects_at_once() {
    let night = Night::new(3);
    let mut spec = night.backfill().spec.clone();
    spec.signals = vec!["lag".parse().unwrap()];
    let amended = Payload::Amended {
        spec: Box::new(spec),
        hash: "h2".to_owned(),
    };
    let mut desk = Desk::new(night);
    desk.core
        .limits
        .reconfigure(&BTreeMap::from([("lag".parse().unwrap(), signal())]));
    desk.tick();
    desk.append();
    desk.night.human(amended);
    desk.seen = desk.night.state.clone();
    desk.tick();
    desk.decide();
    assert!(submits(&desk.append()).is_empty());
    let limit = &desk.seen.by_name("orders").unwrap().limit;
    assert_eq!((limit.value, limit.rule), (0, Rule::Start), "{}", limit.why);
}

/// Nobody looked at the lag for it since it ended: what the throttle allowed then is no leave to start now.
#[test]
fn an_order_that_is_opened_again_starts_nothing_before_two_new_samples() {
    for law in [Law::Classic, Law::Learned] {
        let lag: crate::domain::ids::Name = "lag".parse().unwrap();
        let mut desk = Desk::new(Night::new(2).signals(&["lag"]).law(law));
        let configured = BTreeMap::from([(lag.clone(), signal())]);
        desk.core.limits.reconfigure(&configured);
        desk.tick();
        let read = |desk: &mut Desk, ago: u64| {
            let reading = Reading::Value {
                value: 1.0 + ago as f64 / 1000.0,
                age: std::time::Duration::from_millis(ago),
                skew_ms: None,
                parts: Vec::new(),
            };
            desk.take(Input::Reading(lag.clone(), reading));
        };
        read(&mut desk, 900);
        read(&mut desk, 800);
        desk.append();
        assert!(desk.seen.by_name("orders").unwrap().limit.value > 0, "{law:?}");
        for day in [0, 1] {
            let day = desk.night.day(day);
            desk.night.start(day);
            desk.night.finish(day);
        }
        desk.seen = desk.night.state.clone();
        desk.tick();
        desk.append();
        let chunks = vec![desk.night.day(0), desk.night.day(1)];
        desk.night.human(Payload::RerunRequested {
            chunks,
            digest: String::new(),
        });
        desk.seen = desk.night.state.clone();
        desk.tick();
        desk.decide();
        let left = desk.append();
        let limit = desk.seen.by_name("orders").unwrap().limit.clone();
        assert!(submits(&left).is_empty(), "{law:?}: {}", limit.why);
        assert_eq!(limit.value, 0, "{law:?}: {}", limit.why);
        assert!(
            limit.why.contains("two valid samples of lag"),
            "{law:?}: {}",
            limit.why
        );
        read(&mut desk, 700);
        read(&mut desk, 600);
        desk.night.later(60);
        desk.tick();
        desk.decide();
        let limit = desk.seen.by_name("orders").unwrap().limit.clone();
        assert!(
            !submits(&desk.append()).is_empty(),
            "{law:?}: {} {}",
            limit.value,
            limit.why
        );
    }
}

/// Case B25: a signal that is gone from the configuration, or has another name there, throttles nothing from the next
/// tick on, and no limit is explained by it.
#[test]
fn a_signal_that_left_the_configuration_throttles_nothing_and_binds_nothing() {
    let name = |text: &str| text.parse::<crate::domain::ids::Name>().unwrap();
    let configured = |names: &[&str]| {
        names
            .iter()
            .map(|n| (name(n), signal()))
            .collect::<BTreeMap<_, _>>()
    };
    for law in [Law::Classic, Law::Learned] {
        for rest in [&["orders-live"][..], &["orders-live", "cheats-live"]] {
            let mut desk = Desk::new(Night::new(9).signals(&["fraud-live", "orders-live"]).law(law));
            desk.core
                .limits
                .reconfigure(&configured(&["fraud-live", "orders-live"]));
            desk.tick();
            let read = |desk: &mut Desk, signal: &str, value: f64, ago: u64| {
                // What lives jitters.
                let value = value + ago as f64 / 1000.0;
                let reading = Reading::Value {
                    value,
                    age: std::time::Duration::from_millis(ago),
                    skew_ms: None,
                    parts: Vec::new(),
                };
                desk.take(Input::Reading(name(signal), reading));
            };
            for ago in [900, 800] {
                read(&mut desk, "orders-live", 1.0, ago);
                read(&mut desk, "fraud-live", 1.0, ago);
            }
            let limit = |desk: &Desk| desk.seen.by_name("orders").unwrap().limit.clone();
            assert!(limit(&desk).value > 0, "{law:?}: {}", limit(&desk).why);
            for ago in [700, 600, 500] {
                read(&mut desk, "fraud-live", 25.0, ago);
            }
            let before = limit(&desk);
            assert_eq!(
                (before.value, before.rule),
                (0, Rule::Pause),
                "{law:?}: {}",
                before.why
            );
            assert_eq!(before.signal, Some(name("fraud-live")));

            desk.core.limits.reconfigure(&configured(rest));
            desk.tick();
            let after = limit(&desk);
            let told = format!("{:?} {} {}", after.signal, after.why, after.checkpoint);
            assert!(!told.contains("fraud"), "{law:?} {rest:?}: {told}");
            let report = desk
                .core
                .limits
                .report(&desk.night.id(), &Tuning::default(), desk.night.now);
            assert!(
                !format!("{report:?}").contains("fraud"),
                "{law:?} {rest:?}: {report:?}"
            );
            // A reading that was still under way says nothing any more.
            read(&mut desk, "fraud-live", 25.0, 400);
            assert!(!format!("{:?}", limit(&desk)).contains("fraud"));
        }
    }
}

/// Case B25: a signal that was blind when it left the configuration is not called blind any more.
#[test]
fn a_blind_signal_that_left_the_configuration_is_blind_no_more() {
    let lag: crate::domain::ids::Name = "lag".parse().unwrap();
    let mut desk = Desk::new(Night::new(3).signals(&["lag"]));
    desk.core.limits.reconfigure(&[(lag.clone(), signal())].into());
    desk.tick();
    desk.night.journal(Payload::BlindSince {
        signal: lag.clone(),
        last: None,
        why: "empty result".to_owned(),
    });
    desk.seen = desk.night.state.clone();
    desk.tick();
    assert!(desk.seen.blind.contains_key(&lag), "it is configured");
    desk.core.limits.reconfigure(&BTreeMap::new());
    desk.tick();
    let backfill = desk.seen.by_name("orders").unwrap();
    assert!(desk.seen.blind.is_empty() && backfill.blind.is_empty());
}

/// An executor that cannot find out whether an attempt is wanted is not asked again without end.
#[test]
fn not_wanted_is_a_failure_unless_somebody_wanted_the_end() {
    let not_wanted = || SubmitAnswer::NotWanted {
        why: "the journal cannot be read".to_owned(),
    };
    let mut desk = Desk::new(Night::new(1));
    desk.decide();
    let effects = desk.append();
    desk.take(Input::Submitted(submits(&effects)[0].clone(), not_wanted()));
    assert_eq!(desk.state_of(0), ChunkState::Failed);

    let mut desk = Desk::new(Night::new(1));
    desk.decide();
    let effects = desk.append();
    let attempt = submits(&effects)[0].clone();
    desk.night.human(Payload::StopRequested {
        chunks: vec![attempt.chunk],
    });
    desk.seen = desk.night.state.clone();
    desk.take(Input::Submitted(attempt, not_wanted()));
    assert_eq!(desk.state_of(0), ChunkState::Cancelled);

    let mut desk = Desk::new(Night::new(1));
    desk.decide();
    let effects = desk.append();
    let why = "the lease was not renewed in time".to_owned();
    desk.take(Input::NotSent(submits(&effects)[0].clone(), why));
    assert_eq!(desk.state_of(0), ChunkState::Pending);
}

/// Day 0 is sent and nobody hears of it.
fn sent_without_an_answer(night: Night) -> (Desk, AttemptId) {
    let mut desk = Desk::new(night);
    desk.decide();
    let effects = desk.append();
    let attempt = submits(&effects)[0].clone();
    let why = "no answer".to_owned();
    desk.take(Input::Submitted(attempt.clone(), SubmitAnswer::Unknown { why }));
    desk.append();
    (desk, attempt)
}

fn traceless(attempt: &AttemptId, under_way: bool) -> Input {
    let why = "no run of it is there".to_owned();
    Input::Probed(attempt.clone(), Probe::Traceless { why, under_way })
}

/// Case B04: the supervisor died while it sent, and its former self may still be heard.
#[test]
fn an_attempt_that_was_under_way_when_its_supervisor_died_is_sent_again_under_its_own_name() {
    let (mut desk, attempt) = with_an_unsent_intent();
    desk.take(traceless(&attempt, true));
    assert_eq!(desk.append(), [Effect::Submit(attempt.clone())]);
    let run = crate::domain::ids::ExternalId("run#1".to_owned());
    let answer = SubmitAnswer::AlreadyExists { run, running: false };
    desk.take(Input::Submitted(attempt, answer));
    assert_eq!(desk.state_of(0), ChunkState::Queued);
}

#[test]
fn what_nothing_came_of_is_sent_three_times_more_before_that_is_a_failure() {
    let (mut desk, attempt) = sent_without_an_answer(Night::new(1));
    for _ in 0..3 {
        desk.take(traceless(&attempt, false));
        assert_eq!(submits(&desk.append()), [&attempt]);
        // While it is being sent nobody asks about it.
        desk.night.now += Duration::seconds(60);
        desk.tick();
        assert!(desk.append().is_empty());
        let why = "the server failed".to_owned();
        desk.take(Input::Submitted(attempt.clone(), SubmitAnswer::Unknown { why }));
        assert_eq!(desk.state_of(0), ChunkState::Uncertain);
    }
    desk.take(traceless(&attempt, true));
    assert_eq!(desk.state_of(0), ChunkState::Uncertain);
    desk.take(traceless(&attempt, false));
    assert!(submits(&desk.append()).is_empty());
    assert_eq!(desk.state_of(0), ChunkState::Failed);
}

#[test]
fn what_may_still_be_under_way_is_neither_sent_nor_given_up_in_a_pause() {
    let (mut desk, attempt) = sent_without_an_answer(Night::new(1));
    desk.night.human(Payload::Paused { until: None });
    desk.seen = desk.night.state.clone();
    desk.take(traceless(&attempt, true));
    assert!(submits(&desk.append()).is_empty());
    assert_eq!(desk.state_of(0), ChunkState::Uncertain);
    desk.take(traceless(&attempt, false));
    assert!(submits(&desk.append()).is_empty());
    assert_eq!(desk.state_of(0), ChunkState::Pending);
}

#[test]
fn what_may_still_be_under_way_is_not_sent_again_after_its_end_was_asked_for() {
    let (mut desk, attempt) = sent_without_an_answer(Night::new(1));
    let chunks = vec![attempt.chunk];
    desk.night.human(Payload::StopRequested { chunks });
    desk.seen = desk.night.state.clone();
    desk.take(traceless(&attempt, true));
    assert!(submits(&desk.append()).is_empty());
    desk.take(traceless(&attempt, false));
    assert_eq!(desk.state_of(0), ChunkState::Cancelled);
}

/// An executor that is away costs no attempt its budget, opens no breaker, and is not asked without end.
#[test]
fn what_could_not_leave_is_no_failure_and_nothing_follows_it_before_the_executor_is_well() {
    let here: crate::domain::ids::Name = "here".parse().unwrap();
    let mut desk = Desk::new(Night::new(8).max_limit(8).slots(8));
    desk.decide();
    let effects = desk.append();
    for attempt in submits(&effects) {
        let why = "connection refused".to_owned();
        desk.take(Input::Submitted(attempt.clone(), SubmitAnswer::NotSent { why }));
    }
    desk.tick();
    desk.decide();
    assert!(submits(&desk.append()).is_empty());
    let backfill = desk.seen.by_name("orders").unwrap();
    assert_eq!(backfill.count(ChunkState::Pending), 8);
    assert!(backfill.breaker.is_none());
    desk.take(Input::Health(here, Ok(())));
    desk.decide();
    assert_eq!(submits(&desk.append()).len(), 4);
}

/// The brake of the learned law: asked to stop, told what became of it, and started again when it is admitted.
#[test]
fn a_run_that_the_throttle_cancels_is_stopped_and_its_chunk_starts_again() {
    let mut night = Night::new(1);
    let day = night.day(0);
    night.start(day);
    let attempt = night.attempt(day);
    let (attempts, why) = (vec![attempt.clone()], "orders would reach 110 s".to_owned());
    night.ours(Payload::Braked { attempts, why });
    let mut desk = Desk::new(night);
    desk.tick();
    assert!(desk.append().contains(&Effect::Stop(attempt.clone())));
    let end = RunEnd {
        cancelled: true,
        ..RunEnd::failed(failure(FailureClass::Other))
    };
    desk.take(Input::Run(attempt.clone(), RunUpdate::Ended(end)));
    assert_eq!(desk.state_of(0), ChunkState::Pending);
    desk.decide();
    let again = desk.append();
    let again = submits(&again);
    assert_eq!((again.len(), again[0].no), (1, attempt.no + 1));
}
