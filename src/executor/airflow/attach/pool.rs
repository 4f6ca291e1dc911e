//! A pool, and who else uses it: it belongs to tasks, not to a DAG.

use super::super::{
    connection::{Call, Connection},
    error::{CallError, Kind},
    executor::Inner,
    wire::{Page, Pool, TaskInstance},
};
use crate::{
    domain::{attach::PoolSeen, text},
    host::BootInstant,
};
use std::{
    collections::{BTreeMap, HashMap},
    sync::{Mutex, PoisonError},
    time::Duration,
};

/// The most pages of tasks that are read to name the others.
const PAGES: usize = 3;
const PAGE: usize = 100;
/// The most letters of a name.
const NAME: usize = 80;

/// Between two looks at who uses a pool: a row for each task is a lot to ask for.
const OTHERS_FOR: Duration = Duration::from_secs(60);

/// DAGs and the number of their tasks.
type Users = Vec<(String, u32)>;

/// Who used which pool when that was last asked.
#[derive(Debug, Default)]
pub(in super::super) struct Neighbours(Mutex<HashMap<String, (BootInstant, Option<Users>)>>);

impl Neighbours {
    fn known(&self, pool: &str, now: BootInstant) -> Option<Option<Users>> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (at, users) = known.get(pool)?;
        (now.since(*at) < OTHERS_FOR).then(|| users.clone())
    }

    fn keep(&self, pool: &str, now: BootInstant, users: Option<Users>) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|_, (at, _)| now.since(*at) < OTHERS_FOR);
        known.insert(pool.to_owned(), (now, users));
    }
}

/// A pool as it is now, and who uses it, as of a minute ago at the most. Tasks of the DAG `own` are not *others*.
pub(super) async fn seen(inner: &Inner, name: &str, own: Option<&str>) -> Result<PoolSeen, CallError> {
    let pool = inner.server.pool(name).await?;
    let now = inner.clock.now();
    let users = match inner.neighbours.known(name, now) {
        Some(users) => users,
        None => {
            // That nobody can say who else is there is no reason to hide the slots.
            let users = users(&inner.server, &pool).await.unwrap_or(None);
            inner.neighbours.keep(name, now, users.clone());
            users
        }
    };
    let slots = |n: Option<i64>| u32::try_from(n.unwrap_or(0)).unwrap_or(0);
    let others = users.map(|users| users.into_iter().filter(|(dag, _)| own != Some(dag)));
    let named = |(dag, n): (String, u32)| (text::one_line(&dag, NAME), n);
    Ok(PoolSeen {
        name: pool.name.clone(),
        slots: pool.slots.max(-1),
        running: slots(pool.running),
        waiting: slots(pool.scheduled),
        others: others.map(|others| others.map(named).collect()),
    })
}

/// DAGs with tasks in a pool or waiting for it, most tasks first; `None` if that may not be asked.
async fn users(server: &Connection, pool: &Pool) -> Result<Option<Users>, CallError> {
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
    let mut users: Users = tasks.into_iter().collect();
    users.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    Ok(Some(users))
}
