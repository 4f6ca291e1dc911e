//! Observations laid over the fold: what an attached backfill's days look like.

use super::{
    Time,
    attach::{Days, Facts, RunPhase, SeenRun},
    failure::{Failure, FailureClass},
    state::{Attempt, Backfill, BackfillState, ChunkState, Phase},
};

impl Backfill {
    /// Lays observations over an attached backfill: the worst run of a day is its state, all of them are its attempts.
    /// Days without a run are *absent* once the whole window was read, and *unread* before. Does nothing to a backfill
    /// of our own. `read` is when the observations were made.
    pub fn observe(&mut self, days: &Days, facts: &Facts, read: Time) {
        if self.spec.attach.is_none() {
            return;
        }
        let without = if facts.as_of.is_some() && facts.reading.is_none() {
            ChunkState::Absent
        } else {
            ChunkState::Unread
        };
        let ids: Vec<_> = self.chunks.iter().map(|c| c.id).collect();
        for id in ids {
            let runs = days.get(&id).map_or(&[][..], Vec::as_slice);
            let worst = runs.iter().max_by_key(|r| r.phase.state().badness());
            let state = worst.map_or(without, |r| r.phase.state());
            let since = worst.and_then(SeenRun::since).unwrap_or(read);
            self.move_to(id, state, since);
            let executor = self.spec.executor.clone();
            if let Some(chunk) = self.chunk_mut(id) {
                chunk.attempts = (1..)
                    .zip(runs)
                    .map(|(no, run)| attempt(no, run, executor.clone(), read))
                    .collect();
                chunk.why = worst.filter(|r| r.phase == RunPhase::Unknown).map(|r| {
                    format!(
                        "the server calls the run {} {}, which this program does not know",
                        r.run, r.word
                    )
                });
            }
        }
        self.seen = Some(facts.clone());
    }

    /// An attached backfill never ends for us by itself: its days can be run again long after its own end.
    pub(super) fn attached_state(&self) -> BackfillState {
        if self.detached.is_some() {
            return BackfillState::Detached;
        }
        let paused_there = self
            .seen
            .as_ref()
            .and_then(|f| f.native.as_ref())
            .is_some_and(|n| n.paused && n.completed.is_none());
        if self.pause.is_some() || paused_there {
            BackfillState::Paused
        } else {
            BackfillState::Running
        }
    }
}

impl SeenRun {
    /// Since when it is in its phase.
    pub fn since(&self) -> Option<Time> {
        match self.phase {
            RunPhase::Queued => self.queued,
            RunPhase::Running => self.started.or(self.queued),
            RunPhase::Done | RunPhase::Failed | RunPhase::Cancelled => self.ended.or(self.started),
            RunPhase::Unknown => None,
        }
    }
}

fn attempt(no: u32, run: &SeenRun, executor: super::ids::Name, read: Time) -> Attempt {
    let phase = match run.phase {
        RunPhase::Queued => Phase::Queued,
        RunPhase::Running => Phase::Running,
        RunPhase::Done => Phase::Done,
        RunPhase::Failed => Phase::Failed,
        RunPhase::Cancelled => Phase::Cancelled,
        RunPhase::Unknown => Phase::Uncertain,
    };
    let failure = (run.phase == RunPhase::Failed).then(|| Failure {
        class: FailureClass::Other,
        exit: None,
        message: format!("the {} run is {}", run.kind, run.word),
    });
    let tries = run.tries.filter(|t| *t > 1).map(|t| format!(", try {t}"));
    Attempt {
        no,
        phase,
        executor,
        profile: 0,
        weight: 1,
        run: Some(run.run.clone()),
        intended: run.queued.or(run.started).or(run.ended).unwrap_or(read),
        started: run.started,
        ended: run.ended,
        failure,
        peak: None,
        note: Some(format!("{} run{}", run.kind, tries.unwrap_or_default())),
        stop_requested: false,
        braked: false,
    }
}
