//! What `status` tells of an attached backfill beside what it tells of all.

use crate::domain::{
    Time,
    attach::{Asked, Facts},
    human,
    state::Backfill,
};
use serde::Serialize;

/// What is seen of somebody else's backfill, and what was done to it.
#[derive(Serialize)]
pub struct AttachedView {
    /// The DAG.
    dag: String,
    /// What was seen; `as_of` is when.
    #[serde(flatten)]
    facts: Facts,
    /// Its age in seconds.
    age_s: Option<f64>,
    /// The pause of the native backfill is ours.
    paused_by_us: bool,
    /// The pool that we hold, and the slots that it gets back.
    pool_former: Option<i64>,
    /// Actions, oldest first: open ones, and the newest that ended.
    actions: Vec<ActionView>,
}

#[derive(Serialize)]
struct ActionView {
    seq: u64,
    action: String,
    by: String,
    sent: Vec<String>,
    /// `None`: under way.
    ok: Option<bool>,
    said: String,
}

/// How many ended actions are told.
const ENDED: usize = 5;

impl AttachedView {
    /// Of a backfill that observations were laid over; `None` of our own.
    pub fn of(backfill: &Backfill, now: Time) -> Option<Self> {
        backfill.spec.attach.as_ref()?;
        let facts = backfill.seen.clone().unwrap_or_default();
        let open = backfill.asked.iter().filter(|a| a.is_open()).count();
        let told = backfill.asked.len().saturating_sub(open + ENDED);
        Some(Self {
            dag: backfill
                .spec
                .dag
                .as_ref()
                .map_or_else(String::new, |d| d.id.clone()),
            age_s: facts
                .as_of
                .map(|at| (now - at).num_milliseconds() as f64 / 1000.0),
            facts,
            paused_by_us: backfill.native_pause.is_some(),
            pool_former: backfill.pool.as_ref().map(|p| p.former),
            actions: backfill.asked.iter().skip(told).map(action).collect(),
        })
    }

    /// The same in words, a line each.
    pub fn words(&self) -> Vec<String> {
        let facts = &self.facts;
        let mut lines = Vec::new();
        let native = facts.native.as_ref().map(|n| {
            let state = match (n.completed.is_some(), n.paused) {
                (true, true) => "cancelled",
                (true, false) => "ended",
                (false, true) if self.paused_by_us => "paused by us",
                (false, true) => "paused there by somebody else",
                (false, false) => "running",
            };
            let by = n.by.as_ref().map_or(String::new(), |by| format!(", by {by}"));
            format!(", native backfill {} {state}, limit {}{by}", n.id, n.limit)
        });
        let age = match self.age_s {
            Some(age) => {
                let age = std::time::Duration::from_secs_f64(age.max(0.0));
                format!("seen {} ago", human::age(age))
            }
            None => "nothing seen yet".to_owned(),
        };
        lines.push(format!(
            "attached to {}{}, {age}",
            self.dag,
            native.unwrap_or_default()
        ));
        if let Some(reading) = facts.reading {
            lines.push(format!("reading {} of {} runs", reading.read, reading.total));
        }
        if facts.undated > 0 {
            lines.push(format!(
                "{} belong to no day",
                human::counted(facts.undated.into(), "run")
            ));
        }
        if let Some(pool) = &facts.pool {
            let former = self
                .pool_former
                .map_or(String::new(), |f| format!(", gets {f} back at the end"));
            lines.push(format!(
                "pool {} {} slots, {} in use, {} waiting{former}",
                pool.name, pool.slots, pool.running, pool.waiting
            ));
        }
        lines.extend(facts.stuck.iter().map(|why| format!("stuck: {why}")));
        lines.extend(facts.problem.iter().map(|why| format!("not seen now: {why}")));
        lines.extend(facts.note.clone());
        lines.extend(self.actions.iter().map(|a| match a.ok {
            None => format!("under way: {}, asked for by {}; {}", a.action, a.by, a.said),
            Some(true) => format!("{}: {}", a.action, a.said),
            Some(false) => format!("{}: NOT DONE: {}", a.action, a.said),
        }));
        lines
    }
}

fn action(asked: &Asked) -> ActionView {
    let last = asked.steps.last().map(|s| match &s.answer {
        None => format!("sent {}, no answer yet", s.sent),
        Some((_, said)) => format!("{}: {said}", s.sent),
    });
    ActionView {
        seq: asked.seq,
        action: asked.action.words(),
        by: asked.mark.by.name.clone(),
        sent: asked.steps.iter().map(|s| s.sent.clone()).collect(),
        ok: asked.ended.as_ref().map(|e| e.ok),
        said: match &asked.ended {
            Some(end) => end.said.clone(),
            None => last.unwrap_or_else(|| "nothing sent yet".to_owned()),
        },
    }
}
