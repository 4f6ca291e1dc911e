//! A pool, and who else uses it: it belongs to tasks, not to a DAG.

use super::super::{
    connection::{Call, Connection},
    error::{CallError, Kind},
    wire::{Page, Pool, TaskInstance},
};
use crate::domain::{attach::PoolSeen, text};
use std::collections::BTreeMap;

/// The most pages of tasks that are read to name the others.
const PAGES: usize = 3;
const PAGE: usize = 100;
/// The most letters of a name.
const NAME: usize = 80;

/// A pool as it is now. Tasks of the DAG `own` are not *others*.
pub(super) async fn seen(server: &Connection, name: &str, own: Option<&str>) -> Result<PoolSeen, CallError> {
    let pool = server.pool(name).await?;
    let others = others(server, &pool, own).await?;
    Ok(shown(&pool, others))
}

/// The others are as they were last asked for.
pub(super) fn shown(pool: &Pool, others: Option<Vec<(String, u32)>>) -> PoolSeen {
    let slots = |n: Option<i64>| u32::try_from(n.unwrap_or(0)).unwrap_or(0);
    PoolSeen {
        name: pool.name.clone(),
        slots: pool.slots.max(-1),
        running: slots(pool.running),
        waiting: slots(pool.scheduled),
        others,
    }
}

/// DAGs with tasks in a pool or waiting for it, most tasks first; `None` if that may not be asked.
pub(super) async fn others(
    server: &Connection,
    pool: &Pool,
    own: Option<&str>,
) -> Result<Option<Vec<(String, u32)>>, CallError> {
    let path = server.path(
        server.api().await?,
        &["dags", "~", "dagRuns", "~", "taskInstances"],
    )?;
    let mut call = Call::get(&path).query("pool", &pool.name);
    for state in ["running", "queued", "scheduled"] {
        call = call.query("state", state);
    }
    if pool.include_deferred {
        call = call.query("state", "deferred");
    }
    let mut tasks: BTreeMap<String, u32> = BTreeMap::new();
    let mut read = 0;
    for _ in 0..PAGES {
        let call = call.clone().query("limit", &PAGE.to_string());
        let page: Page<TaskInstance> = match server.ask(&call.query("offset", &read.to_string())).await {
            Ok(page) => page,
            Err(e) if e.kind == Kind::Forbidden => return Ok(None),
            Err(e) => return Err(e),
        };
        read += page.rows.len();
        let total = page.total_entries.unwrap_or(0);
        let done = page.rows.is_empty() || read as u64 >= total;
        let here = |task: &TaskInstance| task.pool.as_ref().is_none_or(|p| *p == pool.name);
        for task in page.rows.into_iter().filter(here) {
            *tasks.entry(task.dag).or_default() += 1;
        }
        if done {
            break;
        }
    }
    let mut others: Vec<(String, u32)> = tasks
        .into_iter()
        .filter(|(dag, _)| own != Some(dag))
        .map(|(dag, n)| (text::one_line(&dag, NAME), n))
        .collect();
    others.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    Ok(Some(others))
}
