//! Whether the server can run anything: it answers 200 also when nothing in it moves.

use super::{
    error::{CallError, Kind},
    executor::Inner,
    wire::{Dag, Health, HealthStatus},
};
use crate::{
    domain::text,
    host::BootInstant,
    net::{AdapterError, Cause},
};
use std::{sync::atomic::Ordering, time::Duration};

/// For so long an answer is good, unless something else fails meanwhile.
const FRESH: Duration = Duration::from_secs(30);
/// Single calls of 7 s are no outage; who does not answer for longer is not well.
const PATIENCE: Duration = Duration::from_secs(10);
/// The most DAGs that are looked at.
const MOST_DAGS: usize = 5;

/// The last look.
#[derive(Debug, Clone)]
pub struct Checkup {
    at: BootInstant,
    found: Result<(), AdapterError>,
}

/// What is wrong with the parts of a server, if anything.
pub(super) fn of_server(health: &Health) -> Option<String> {
    if health.database.status == HealthStatus::Unhealthy {
        return Some("its database is not well".to_owned());
    }
    if health.scheduler.status == HealthStatus::Healthy {
        return None;
    }
    let beat = health.scheduler.heartbeat.map_or_else(
        || "it was never seen".to_owned(),
        |t| format!("last heard of at {}", t.format("%Y-%m-%d %H:%M:%SZ")),
    );
    Some(format!("its scheduler is not alive, {beat}: runs only queue up"))
}

/// Why a DAG's runs do not run, if they do not.
pub(super) fn of_dag(dag: &Dag) -> Option<String> {
    let id = text::one_line(&dag.id, 80);
    if dag.stale {
        Some(format!(
            "the file of the DAG {id} is gone or cannot be read: its runs wait"
        ))
    } else if dag.import_errors {
        Some(format!(
            "the file of the DAG {id} has import errors: its runs may wait"
        ))
    } else if dag.paused {
        Some(format!(
            "the DAG {id} is paused: its runs wait, those under way are frozen"
        ))
    } else {
        None
    }
}

impl Inner {
    /// What is wrong with the server, as of half a minute ago at the most.
    pub(super) async fn check(&self) -> Result<(), AdapterError> {
        self.look_at_silence(self.server.silence())?;
        let mut last = self.checkup.lock().await;
        let (now, doubted) = (self.clock.now(), self.doubted.swap(false, Ordering::SeqCst));
        let fresh = |c: &&Checkup| {
            // A server that is back is to be known as soon as its runs are.
            let good_for = if c.found.is_ok() { FRESH } else { self.interval };
            !doubted && now.since(c.at) < good_for
        };
        let found = match last.as_ref().filter(fresh) {
            Some(checkup) => checkup.found.clone(),
            None => {
                let looking = tokio::time::timeout(PATIENCE, self.look_around()).await;
                let found = looking.unwrap_or_else(|_| self.look_at_silence(PATIENCE));
                *last = Some(Checkup {
                    at: self.clock.now(),
                    found: found.clone(),
                });
                found
            }
        };
        found.and_then(|()| self.look_at_queue())
    }

    async fn look_around(&self) -> Result<(), AdapterError> {
        let health = self.server.health().await?;
        if let Some(what) = of_server(&health) {
            return Err(self.error("look at its health", Cause::Server, &what));
        }
        let mut dags = self.queue().1;
        dags.extend(self.dags.iter().cloned());
        let mut reasons = Vec::new();
        for dag in dags.iter().take(MOST_DAGS) {
            // This also finds out whether credentials are taken that were refused before.
            match self.server.dag(dag).await {
                Ok(dag) => reasons.extend(of_dag(&dag)),
                Err(e) => reasons.push(absent_dag(dag, e)?),
            }
        }
        if dags.is_empty() && self.is_refused() {
            // Somebody has to try them again.
            self.server.dag_stats(&[]).await?;
        }
        // With a DAG that runs there is something to do here.
        if !reasons.is_empty() && reasons.len() == dags.len().min(MOST_DAGS) {
            return Err(self.error("look at its DAGs", Cause::Server, &reasons.join("; ")));
        }
        for reason in reasons {
            tracing::warn!(executor = self.server.name(), reason, "a DAG does not run");
        }
        Ok(())
    }

    fn look_at_silence(&self, silence: Duration) -> Result<(), AdapterError> {
        if silence < PATIENCE {
            return Ok(());
        }
        let what = format!("no answer for {} s", silence.as_secs());
        Err(self.error("look at its health", Cause::Timeout, &what))
    }

    /// All that we have there waits, and for long (case B10).
    fn look_at_queue(&self) -> Result<(), AdapterError> {
        let (queue, _) = self.queue();
        if queue.open == 0 || queue.long_queued < queue.open {
            return Ok(());
        }
        let what = format!(
            "all {} runs of ours have been queued for over 10 minutes: are there free slots and a worker?",
            queue.open
        );
        Err(self.error("look at the queue", Cause::Server, &what))
    }
}

fn absent_dag(dag: &str, error: CallError) -> Result<String, CallError> {
    match error.kind {
        Kind::Absent => Ok(format!("there is no DAG {}", text::one_line(dag, 80))),
        Kind::Forbidden => Ok(format!("the DAG {} may not be read", text::one_line(dag, 80))),
        _ => Err(error),
    }
}
