//! The fold of what the supervisor journals: attempts from intent to end, limits, breakers.

use super::{Folded, RECENT};
use crate::domain::{
    attach::{Taken, Taking},
    event::{Event, Next, Outcome, Payload},
    ids::{AttemptId, ChunkId, Name},
    state::{Attempt, Backfill, Breaker, ChunkState, LimitState, Phase, Retry},
};

impl Backfill {
    /// Everything that the supervisor journals about attempts and limits.
    pub(super) fn outcome(&mut self, event: &Event, payload: &Payload) -> Folded {
        match payload {
            Payload::PauseApplied { in_flight } => {
                if let Some(pause) = &mut self.pause {
                    pause.applied = Some(in_flight.clone());
                }
                if self.cancel.is_some() {
                    self.cancel_applied = Some(in_flight.clone());
                }
            }
            Payload::SubmissionIntended {
                attempt,
                executor,
                profile,
                weight,
            } => {
                return self.intend(event, attempt, executor.clone(), *profile, *weight);
            }
            Payload::LimitChanged { change } => {
                self.limit = LimitState {
                    value: change.to,
                    rule: change.rule,
                    signal: change.signal.clone(),
                    why: change.why.clone(),
                    at: event.at,
                    checkpoint: change.checkpoint.clone(),
                };
            }
            Payload::Braked { attempts, .. } => self.brake(attempts),
            Payload::BreakerOpened { why, retry_at } => {
                self.breaker = Some(Breaker {
                    why: why.clone(),
                    at: event.at,
                    retry_at: *retry_at,
                });
            }
            Payload::BreakerClosed {} => {
                self.breaker = None;
                self.recent.clear();
            }
            Payload::StoppedOnFailure { chunk, why } => self.stopped = Some((*chunk, why.clone())),
            _ => match payload.attempt() {
                Some(attempt) => return self.on_attempt(event, attempt, payload),
                None => return Err("this event needs no backfill".to_owned()),
            },
        }
        Ok(())
    }

    fn intend(
        &mut self,
        event: &Event,
        attempt: &AttemptId,
        executor: Name,
        profile: u32,
        weight: u32,
    ) -> Folded {
        let id = attempt.chunk;
        let at = event.at;
        let chunk = self.chunk_mut(id).ok_or_else(|| format!("{id} is not a chunk"))?;
        if chunk.state.is_active() || attempt.no < chunk.next_no() {
            return Err(format!("{attempt} cannot be intended now"));
        }
        chunk.attempts.push(Attempt {
            no: attempt.no,
            phase: Phase::Intended,
            executor,
            profile,
            weight,
            run: None,
            intended: at,
            started: None,
            ended: None,
            failure: None,
            peak: None,
            note: None,
            stop_requested: false,
            braked: false,
        });
        chunk.retry = None;
        chunk.why = None;
        chunk.mark = None;
        self.last_start = Some(at);
        self.move_to(id, ChunkState::Submitting, at);
        Ok(())
    }

    /// An event about an attempt counts only for the newest attempt of its chunk, and only while that is open.
    fn on_attempt(&mut self, event: &Event, id: &AttemptId, payload: &Payload) -> Folded {
        let at = event.at;
        let chunk = self
            .chunk_mut(id.chunk)
            .ok_or_else(|| format!("{} is not a chunk", id.chunk))?;
        let attempt = match chunk.attempts.last_mut() {
            Some(attempt) if attempt.no == id.no && attempt.phase.is_open() => attempt,
            _ => return Err(format!("{id} is not open")),
        };
        match payload {
            Payload::SubmissionAccepted { run, running, .. } => {
                // What was adopted is ours from now on: tried again, it is cleared.
                if let Some(taken) = &mut chunk.taken {
                    taken.choice = Some(Taking::Clear);
                }
                attempt.run = Some(run.clone());
                attempt.phase = if *running { Phase::Running } else { Phase::Queued };
                if *running {
                    attempt.started.get_or_insert(at);
                }
                chunk.why = None;
                self.move_to(
                    id.chunk,
                    if *running {
                        ChunkState::Running
                    } else {
                        ChunkState::Queued
                    },
                    at,
                );
            }
            Payload::RunStarted { .. } => {
                attempt.phase = Phase::Running;
                attempt.started.get_or_insert(at);
                chunk.why = None;
                self.move_to(id.chunk, ChunkState::Running, at);
            }
            Payload::RunUncertain { why, .. } => {
                attempt.phase = Phase::Uncertain;
                chunk.why = Some(why.clone());
                self.move_to(id.chunk, ChunkState::Uncertain, at);
            }
            Payload::SubmissionWithdrawn { why, .. } => {
                let cancelled = attempt.stop_requested && !attempt.braked;
                attempt.phase = Phase::Withdrawn;
                attempt.ended = Some(at);
                attempt.note = Some(why.clone());
                if cancelled {
                    self.set_marked(id.chunk, ChunkState::Cancelled, event);
                } else {
                    self.wait_again(id.chunk, event);
                }
            }
            Payload::DateTaken { run, what, .. } => {
                attempt.phase = Phase::Withdrawn;
                attempt.ended = Some(at);
                attempt.note = Some(format!("date taken by {what}"));
                chunk.taken = Some(Taken {
                    run: run.clone(),
                    what: what.clone(),
                    choice: None,
                });
                self.set_marked(id.chunk, ChunkState::Held, event);
                if let Some(chunk) = self.chunk_mut(id.chunk) {
                    chunk.why = Some(format!("date taken by {what}"));
                }
            }
            Payload::RunEnded {
                outcome,
                started,
                ended,
                peak,
                note,
                ..
            } => {
                attempt.started = (*started).or(attempt.started);
                attempt.ended = Some((*ended).unwrap_or(at));
                attempt.peak = *peak;
                attempt.note = note.clone();
                self.end(event, id.chunk, outcome);
            }
            _ => {}
        }
        Ok(())
    }

    /// Back to those that wait, as if the attempt had not been.
    fn wait_again(&mut self, id: ChunkId, event: &Event) {
        let rerun = self.chunk(id).and_then(|c| c.rerun.clone());
        self.make_pending(id, event.at);
        if let Some(chunk) = self.chunk_mut(id) {
            chunk.rerun = rerun;
        }
    }

    /// Only attempts that still run are asked to stop; a human's word about them stays above the throttle's.
    fn brake(&mut self, attempts: &[AttemptId]) {
        for id in attempts {
            let open = self.chunk_mut(id.chunk).and_then(|c| c.attempts.last_mut());
            let open = open.filter(|a| a.no == id.no && a.phase.is_open() && !a.stop_requested);
            if let Some(attempt) = open {
                (attempt.stop_requested, attempt.braked) = (true, true);
            }
        }
    }

    fn end(&mut self, event: &Event, id: ChunkId, outcome: &Outcome) {
        let Some(chunk) = self.chunk_mut(id) else { return };
        // The throttle's cancel is undone by the next start, unless the whole order was cancelled meanwhile.
        let braked = *outcome == Outcome::Cancelled && chunk.last().is_some_and(|a| a.braked);
        let (phase, failure) = match outcome {
            Outcome::Done => (Phase::Done, None),
            Outcome::Failed { failure, .. } => (Phase::Failed, Some(failure.clone())),
            Outcome::Cancelled => (Phase::Cancelled, None),
        };
        if let Some(attempt) = chunk.attempts.last_mut() {
            attempt.phase = phase;
            attempt.failure.clone_from(&failure);
        }
        if braked && self.cancel.is_none() {
            return self.wait_again(id, event);
        }
        let Some(chunk) = self.chunk_mut(id) else { return };
        chunk.rerun = None;
        chunk.why = None;
        match outcome {
            Outcome::Done => {
                self.move_to(id, ChunkState::Done, event.at);
                self.remember(None);
            }
            Outcome::Cancelled => self.set_marked(id, ChunkState::Cancelled, event),
            Outcome::Failed { failure, next } => {
                let state = match next {
                    Next::Retry {
                        at,
                        profile,
                        used,
                        budget,
                    } => {
                        chunk.retry = Some(Retry {
                            at: *at,
                            profile: *profile,
                            used: *used,
                            budget: *budget,
                        });
                        ChunkState::Failed
                    }
                    Next::Quarantine { why } => {
                        chunk.why = Some(why.clone());
                        ChunkState::Quarantined
                    }
                    Next::Stay => ChunkState::Failed,
                };
                let cancelled = self.cancel.is_some() && matches!(next, Next::Retry { .. });
                let print = failure.class.counts_for_breaker().then(|| failure.fingerprint());
                if cancelled {
                    self.set_marked(id, ChunkState::Cancelled, event);
                } else {
                    self.move_to(id, state, event.at);
                }
                if let Some(print) = print {
                    self.remember(Some((id, print)));
                }
            }
        }
    }

    fn remember(&mut self, end: Option<(ChunkId, String)>) {
        self.recent.push_back(end);
        if self.recent.len() > RECENT {
            self.recent.pop_front();
        }
    }
}
