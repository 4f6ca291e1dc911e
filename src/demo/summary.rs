//! How a demo ended, as one line. A pure function of the journal's state and events.

use crate::domain::{
    event::{Event, Payload, Read, Rule},
    ids::BackfillId,
    state::{Backfill, BackfillState, ChunkState, Phase},
};
use serde::Serialize;
use std::{fmt, time::Duration};

/// The end of a demo. Its JSON has exactly these keys, in this order.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Summary {
    /// The backfill's state: `complete`, `incomplete`, ..
    pub state: &'static str,
    /// All chunks.
    pub chunks: u32,
    /// Finished and verified.
    pub done: u32,
    /// Failed, with or without a retry to come.
    pub failed: u32,
    /// Out of the way until a human decides.
    pub quarantined: u32,
    /// Attempts that left for the executor; withdrawn ones did not.
    pub attempts: u32,
    /// How often starts were stopped by a human or by a signal.
    pub pauses: u32,
    /// Seconds from start to end on the wall, to a tenth.
    pub wall_s: f64,
}

impl Summary {
    /// Sums up a backfill; the events are those of its journal.
    pub fn of<'a>(backfill: &Backfill, events: impl IntoIterator<Item = &'a Event>, wall: Duration) -> Self {
        let attempts = backfill
            .chunks
            .iter()
            .flat_map(|c| &c.attempts)
            .filter(|a| a.phase != Phase::Withdrawn)
            .count();
        Self {
            state: backfill.state().word(),
            chunks: number(backfill.chunks.len()),
            done: backfill.count(ChunkState::Done),
            failed: backfill.count(ChunkState::Failed),
            quarantined: backfill.count(ChunkState::Quarantined),
            attempts: number(attempts),
            pauses: pauses(&backfill.id, events),
            wall_s: (wall.as_secs_f64() * 10.0).round() / 10.0,
        }
    }

    /// 0 when the backfill is complete, else 1.
    pub fn exit_code(&self) -> u8 {
        u8::from(self.state != BackfillState::Complete.word())
    }
}

/// In words, for people.
impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: {} of {} done, {} failed, {} quarantined, {} attempts, {} pauses, {} s",
            self.state,
            self.done,
            self.chunks,
            self.failed,
            self.quarantined,
            self.attempts,
            self.pauses,
            self.wall_s
        )
    }
}

/// How often starts of a backfill were stopped: each pause by a human, and each time that a signal took the limit
/// to 0. Going on from there, to critical or to a latch, is the same stop.
fn pauses<'a>(id: &BackfillId, events: impl IntoIterator<Item = &'a Event>) -> u32 {
    let stops = events
        .into_iter()
        .filter(|e| e.backfill.as_ref() == Some(id))
        .filter(|e| match &e.payload {
            Read::Known(Payload::Paused { .. }) => true,
            Read::Known(Payload::LimitChanged { change }) => {
                matches!(change.rule, Rule::Pause | Rule::Critical | Rule::Latch)
                    && change.from > 0
                    && change.to == 0
            }
            _ => false,
        })
        .count();
    number(stops)
}

fn number(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{
        Time,
        event::{Actor, LimitChange, Next, Outcome},
        failure::{Failure, FailureClass},
        fold::fold,
        ids::{AttemptId, ExternalId},
    };
    use std::collections::BTreeMap;

    /// Writes the events of one backfill of four days.
    struct Script {
        id: BackfillId,
        events: Vec<Event>,
    }

    impl Script {
        fn new() -> Self {
            let mut script = Self {
                id: "orders-aaaaaa".parse().unwrap(),
                events: Vec::new(),
            };
            let spec = serde_json::from_value(serde_json::json!({
                "name": "orders", "target": "datamart.orders", "environment": null,
                "start": "2024-12-28", "end": "2024-12-31", "granularity": "day", "timezone": "UTC",
                "executor": "here", "command": ["x"], "cwd": "/", "env_pass": [], "env": {}, "env_secrets": [],
                "max_limit": 4, "order": "oldest-first", "signals": [], "on_failure": "continue",
                "profiles": [{"name": "default", "memory": null, "deadline_ms": null}],
                "lanes": BTreeMap::<String, String>::new(), "source": {}, "idempotent": true,
            }));
            script.add(Payload::Started {
                spec: Box::new(spec.unwrap()),
                hash: String::new(),
            });
            script
        }

        fn add(&mut self, payload: Payload) {
            let seq = self.events.len() as u64 + 1;
            self.events.push(Event {
                seq,
                at: Time::from_timestamp(1_700_000_000 + seq as i64, 0).unwrap(),
                actor: Actor {
                    name: "minh".to_owned(),
                    origin: "os user".to_owned(),
                },
                reason: None,
                backfill: Some(self.id.clone()),
                payload: Read::Known(payload),
            });
        }

        fn intend(&mut self, day: u32, no: u32) -> AttemptId {
            let attempt: AttemptId = format!("{}/2024-12-{day}/{no}", self.id).parse().unwrap();
            self.add(Payload::SubmissionIntended {
                attempt: attempt.clone(),
                executor: "here".parse().unwrap(),
                profile: 0,
                weight: 1,
            });
            attempt
        }

        fn run(&mut self, day: u32, no: u32, outcome: Outcome) {
            let attempt = self.intend(day, no);
            self.add(Payload::SubmissionAccepted {
                attempt: attempt.clone(),
                run: ExternalId("1".to_owned()),
                adopted: false,
                running: true,
            });
            self.add(Payload::RunEnded {
                attempt,
                outcome,
                started: None,
                ended: None,
                peak: None,
                note: None,
            });
        }

        fn limit(&mut self, from: u32, to: u32, rule: Rule) {
            self.add(Payload::LimitChanged {
                change: LimitChange {
                    from,
                    to,
                    rule,
                    signal: None,
                    why: String::new(),
                    checkpoint: String::new(),
                },
            });
        }

        fn summary(&self) -> Summary {
            let state = fold(&self.events);
            let backfill = state.find("orders").unwrap();
            Summary::of(backfill, &self.events, Duration::from_millis(12_345))
        }
    }

    fn failed(next: Next) -> Outcome {
        Outcome::Failed {
            failure: Failure {
                class: FailureClass::Data,
                exit: Some(65),
                message: String::new(),
            },
            next,
        }
    }

    #[test]
    fn a_complete_demo_is_one_line_with_exactly_the_promised_keys() {
        let mut script = Script::new();
        for day in 28..=31 {
            script.run(day, 1, Outcome::Done);
        }
        let summary = script.summary();
        assert_eq!(
            serde_json::to_string(&summary).unwrap(),
            r#"{"state":"complete","chunks":4,"done":4,"failed":0,"quarantined":0,"attempts":4,"pauses":0,"wall_s":12.3}"#
        );
        assert_eq!(summary.exit_code(), 0);
    }

    #[test]
    fn what_failed_for_good_makes_it_incomplete_and_is_counted_apart() {
        let mut script = Script::new();
        let retry = Next::Retry {
            at: Time::from_timestamp(1_800_000_000, 0).unwrap(),
            profile: 0,
            used: 1,
            budget: 2,
        };
        script.run(28, 1, failed(retry));
        script.run(28, 2, Outcome::Done);
        script.run(
            29,
            1,
            failed(Next::Quarantine {
                why: "bad data".to_owned(),
            }),
        );
        script.run(30, 1, failed(Next::Stay));
        script.run(31, 1, Outcome::Done);
        let s = script.summary();
        assert_eq!((s.state, s.exit_code()), ("incomplete", 1));
        assert_eq!(
            (s.chunks, s.done, s.failed, s.quarantined, s.attempts),
            (4, 2, 1, 1, 5)
        );
    }

    #[test]
    fn an_attempt_that_was_withdrawn_never_left_and_does_not_count() {
        let mut script = Script::new();
        let attempt = script.intend(28, 1);
        script.add(Payload::SubmissionWithdrawn {
            attempt,
            why: "paused".to_owned(),
        });
        script.run(28, 2, Outcome::Done);
        assert_eq!(script.summary().attempts, 1);
        assert_eq!(
            (script.summary().state, script.summary().exit_code()),
            ("running", 1)
        );
    }

    #[test]
    fn pauses_are_counted_once_each_whoever_made_them() {
        let mut script = Script::new();
        script.add(Payload::Paused { until: None });
        script.add(Payload::Resumed {});
        script.limit(4, 3, Rule::Cut);
        script.limit(3, 0, Rule::Pause);
        script.limit(0, 0, Rule::Critical);
        script.limit(0, 1, Rule::Resume);
        script.limit(1, 0, Rule::Critical);
        script.limit(0, 0, Rule::Latch);
        assert_eq!(script.summary().pauses, 3);
    }

    #[test]
    fn pauses_of_another_backfill_do_not_count() {
        let mut script = Script::new();
        script.add(Payload::Paused { until: None });
        script.events.last_mut().unwrap().backfill = Some("orders-bbbbbb".parse().unwrap());
        assert_eq!(script.summary().pauses, 0);
    }
}
