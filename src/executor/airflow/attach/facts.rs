//! What is said of the backfill as a whole, and above all why nothing of it moves.

use super::{
    super::{watch::LONG_QUEUED, wire::Backfill},
    held::Tally,
};
use crate::domain::attach::{NativeSeen, PoolSeen};
use std::time::Duration;

/// Runs that run without a task for this long do nothing; a scheduler takes some seconds from task to task.
const IDLE: Duration = Duration::from_secs(60);

/// What was asked for besides the runs. `None` where nobody knows.
#[derive(Debug, Default)]
pub(super) struct Around {
    /// The native backfill.
    pub(super) native: Option<Backfill>,
    /// The newest native backfill of the DAG, if it was cancelled.
    pub(super) cancelled: Option<u64>,
    /// Who made it.
    pub(super) maker: Option<String>,
    /// What is wrong with the server.
    pub(super) server: Option<String>,
    /// Why the DAG does not run.
    pub(super) dag: Option<String>,
    /// The pool.
    pub(super) pool: Option<PoolSeen>,
    /// Tasks that execute.
    pub(super) executing: Option<u32>,
    /// For so long none did, whenever that was counted.
    pub(super) idle: Duration,
}

/// A native backfill as others see it.
pub(super) fn native_seen(native: &Backfill, by: Option<String>) -> NativeSeen {
    NativeSeen {
        id: native.id,
        paused: native.paused,
        completed: native.completed,
        limit: native.max_active_runs.unwrap_or_default(),
        from: native.from,
        to: native.to,
        by,
    }
}

impl Around {
    pub(super) fn native_seen(&self) -> Option<NativeSeen> {
        let native = self.native.as_ref()?;
        Some(native_seen(native, self.maker.clone()))
    }

    /// Why nothing moves, the cause rather than what follows from it.
    pub(super) fn stuck(&self, tally: &Tally) -> Option<String> {
        let unfinished = self.native.as_ref().filter(|n| n.is_unfinished());
        if tally.running + tally.queued == 0 && unfinished.is_none() {
            // There is nothing to move.
            return None;
        }
        self.server
            .clone()
            .or_else(|| self.dag.clone())
            .or_else(|| self.native_that_starts_nothing(tally))
            .or_else(|| self.pool_without_slots())
            .or_else(|| self.running_without_tasks(tally))
            .or_else(|| queued_for_long(tally, unfinished.is_some_and(|n| n.paused)))
    }

    fn native_that_starts_nothing(&self, tally: &Tally) -> Option<String> {
        let unfinished = self.native.as_ref().filter(|n| n.is_unfinished());
        if let Some(native) = unfinished.filter(|n| n.max_active_runs == Some(0)) {
            return Some(format!(
                "the native backfill {} was made with a limit of 0 days at once: it starts none",
                native.id
            ));
        }
        let cancelled = self
            .cancelled
            .filter(|_| tally.queued_native > 0 && tally.running == 0)?;
        Some(format!(
            "{} of the cancelled native backfill {cancelled}: Airflow never starts them, also not after a clear",
            match tally.queued_native {
                1 => "1 run waits in the name".to_owned(),
                n => format!("{n} runs wait in the name"),
            }
        ))
    }

    fn pool_without_slots(&self) -> Option<String> {
        let pool = self.pool.as_ref().filter(|p| p.slots == 0 && p.running == 0)?;
        Some(format!("the pool {} has no slots: its tasks wait", pool.name))
    }

    fn running_without_tasks(&self, tally: &Tally) -> Option<String> {
        let none = tally.running > 0 && self.executing == Some(0);
        if !none || self.idle < IDLE || tally.still < IDLE {
            return None;
        }
        let full = self.pool.as_ref().filter(|p| p.waiting > 0 && p.slots >= 0);
        let why = full.map_or_else(
            || "they wait for slots, for a worker or for something else".to_owned(),
            |p| {
                format!(
                    "{} tasks wait for one of the {} slots of the pool {}",
                    p.waiting, p.slots, p.name
                )
            },
        );
        Some(format!(
            "{} by the server's word, but none of their tasks has executed for {} minutes: {why}",
            if tally.running == 1 {
                "1 run is running".to_owned()
            } else {
                format!("{} runs are running", tally.running)
            },
            self.idle.min(tally.still).as_secs() / 60
        ))
    }
}

/// Case B10.
fn queued_for_long(tally: &Tally, paused: bool) -> Option<String> {
    let long = tally.queued > 0 && tally.running == 0 && tally.waited >= LONG_QUEUED && tally.still >= IDLE;
    (long && !paused).then(|| {
        format!(
            "{} queued, the first for {} minutes, and none runs: are there free slots and a worker?",
            if tally.queued == 1 {
                "1 run is".to_owned()
            } else {
                format!("{} runs are", tally.queued)
            },
            tally.waited.as_secs() / 60
        )
    })
}

/// What is to be known about successes of which nobody looked at the tasks.
pub(super) fn doubt(tally: &Tally) -> Option<String> {
    (tally.doubtful > 0).then(|| {
        format!(
            "{} succeeded in no time or before the DAG begins, as runs do in which no task ran: look at their tasks",
            runs(tally.doubtful)
        )
    })
}

fn runs(n: u32) -> String {
    if n == 1 {
        "1 run".to_owned()
    } else {
        format!("{n} runs")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn native(fields: Value) -> Option<Backfill> {
        let mut all = json!({
            "id": 12, "dag_id": "events_daily", "from_date": "2024-01-01T00:00:00Z", "to_date": "2024-03-01T00:00:00Z",
            "is_paused": false, "max_active_runs": 3, "completed_at": null,
        });
        all.as_object_mut()
            .unwrap()
            .extend(fields.as_object().unwrap().clone());
        serde_json::from_value(all).unwrap()
    }

    fn tally(running: u32, queued: u32, minutes: u64) -> Tally {
        Tally {
            running,
            queued,
            queued_native: queued,
            waited: Duration::from_secs(60 * minutes),
            still: Duration::from_secs(60 * minutes),
            ..Tally::default()
        }
    }

    fn pool(slots: i64, running: u32, waiting: u32) -> Option<PoolSeen> {
        Some(PoolSeen {
            name: "heavy".into(),
            slots,
            running,
            waiting,
            others: None,
        })
    }

    #[test]
    fn where_nothing_waits_and_nothing_runs_nothing_is_stuck() {
        let around = Around {
            server: Some("dead".into()),
            dag: Some("paused".into()),
            ..Around::default()
        };
        assert_eq!(around.stuck(&tally(0, 0, 99)), None);
        assert_eq!(
            around.stuck(&tally(0, 1, 0)).as_deref(),
            Some("dead"),
            "the server comes first"
        );
        let around = Around {
            native: native(json!({})),
            ..around
        };
        assert_eq!(around.stuck(&tally(0, 0, 99)).as_deref(), Some("dead"));
    }

    /// Case B10.
    #[test]
    fn runs_that_are_queued_for_over_ten_minutes_have_a_reason_unless_they_are_paused_or_others_run() {
        let around = Around::default();
        let words =
            "3 runs are queued, the first for 11 minutes, and none runs: are there free slots and a worker?";
        assert_eq!(around.stuck(&tally(0, 3, 11)).as_deref(), Some(words));
        assert_eq!(around.stuck(&tally(0, 3, 9)), None);
        assert_eq!(around.stuck(&tally(1, 3, 11)), None);
        let paused = Around {
            native: native(json!({"is_paused": true})),
            ..Around::default()
        };
        assert_eq!(paused.stuck(&tally(0, 3, 11)), None);
    }

    /// Airflow's fact 6.
    #[test]
    fn runs_that_run_without_a_task_for_minutes_are_told_from_those_between_two_tasks() {
        let around = |seconds, executing, pool| Around {
            executing,
            pool,
            idle: Duration::from_secs(seconds),
            ..Around::default()
        };
        assert_eq!(around(59, Some(0), None).stuck(&tally(2, 0, 5)), None);
        assert_eq!(around(300, Some(1), None).stuck(&tally(2, 0, 5)), None);
        assert_eq!(
            around(300, None, None).stuck(&tally(2, 0, 5)),
            None,
            "nobody counted"
        );
        assert_eq!(
            around(300, Some(0), None).stuck(&tally(2, 0, 0)),
            None,
            "a run has just ended"
        );
        assert_eq!(
            around(130, Some(0), pool(2, 2, 7))
                .stuck(&tally(2, 0, 5))
                .unwrap(),
            "2 runs are running by the server's word, but none of their tasks has executed for 2 minutes: 7 tasks wait \
             for one of the 2 slots of the pool heavy"
        );
        let none = around(0, Some(0), pool(0, 0, 7)).stuck(&tally(2, 0, 0)).unwrap();
        assert_eq!(none, "the pool heavy has no slots: its tasks wait");
        assert_eq!(
            around(0, Some(1), pool(0, 1, 7)).stuck(&tally(2, 0, 0)),
            None,
            "the last one still runs"
        );
    }

    /// Airflow's facts 3 and 5.
    #[test]
    fn a_native_backfill_that_will_start_nothing_is_said_to() {
        let zero = Around {
            native: native(json!({"max_active_runs": 0})),
            ..Around::default()
        };
        let words = "the native backfill 12 was made with a limit of 0 days at once: it starts none";
        assert_eq!(zero.stuck(&tally(0, 9, 0)).as_deref(), Some(words));
        let cancelled = Around {
            cancelled: Some(12),
            ..Around::default()
        };
        assert_eq!(
            cancelled.stuck(&tally(0, 1, 0)).as_deref(),
            Some(
                "1 run waits in the name of the cancelled native backfill 12: Airflow never starts them, also not after a clear"
            )
        );
        assert_eq!(
            cancelled.stuck(&tally(1, 1, 0)),
            None,
            "it may be another one's turn"
        );
    }

    #[test]
    fn what_is_seen_of_a_native_backfill_is_what_the_server_says() {
        let done = json!({"is_paused": true, "completed_at": "2026-01-01T00:00:00Z"});
        let around = Around {
            native: native(done),
            maker: Some("minh".into()),
            ..Around::default()
        };
        let seen = around.native_seen().unwrap();
        assert_eq!(
            (seen.id, seen.limit, seen.by.as_deref(), seen.is_cancelled()),
            (12, 3, Some("minh"), true)
        );
    }
}
