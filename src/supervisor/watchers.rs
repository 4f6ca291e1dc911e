//! Tasks that look at attached backfills and at pools, one each, as long as there is something to look at.

use super::core::Input;
use crate::{
    domain::{
        ids::{BackfillId, Name},
        state::{Backfill, State},
    },
    executor::{
        Executor,
        attach::{Levers, Target},
    },
};
use std::{collections::BTreeMap, sync::Arc, time::Duration};
use tokio::{runtime::Handle, sync::mpsc::UnboundedSender, task::JoinHandle};

/// The tasks. They end when this is dropped.
#[derive(Default)]
pub struct Watchers {
    tasks: BTreeMap<BackfillId, (Arc<dyn Executor>, JoinHandle<()>)>,
}

impl Drop for Watchers {
    fn drop(&mut self) {
        self.tasks.values().for_each(|(_, task)| task.abort());
    }
}

impl Watchers {
    /// Starts and ends tasks so that what is to be looked at is looked at, through the executors as they are now.
    pub fn follow(
        &mut self,
        state: &State,
        executors: &BTreeMap<Name, Arc<dyn Executor>>,
        inbox: &UnboundedSender<Input>,
        runtime: &Handle,
    ) {
        let executor = |b: &Backfill| executors.get(&b.spec.executor);
        self.tasks.retain(|id, (through, task)| {
            let same = |b: &Backfill| is_watched(b) && executor(b).is_some_and(|e| Arc::ptr_eq(e, through));
            let stays = state.backfills.get(id).is_some_and(same);
            if !stays {
                task.abort();
            }
            stays
        });
        for backfill in state.backfills.values().filter(|b| is_watched(b)) {
            if self.tasks.contains_key(&backfill.id) {
                continue;
            }
            let Some(through) = executor(backfill) else {
                continue;
            };
            let Some(levers) = through.levers() else { continue };
            let task = runtime.spawn(watch(backfill, levers, inbox.clone()));
            self.tasks.insert(backfill.id.clone(), (through.clone(), task));
        }
    }
}

/// Attached ones until they are let go, and our own as long as they have a pool to follow or to give back.
fn is_watched(backfill: &Backfill) -> bool {
    let pool = || backfill.spec.dag.as_ref().is_some_and(|d| d.pool.is_some());
    let over = backfill.state().is_final();
    backfill.pool.is_some() || (!over && (backfill.spec.attach.is_some() || pool()))
}

fn watch(
    backfill: &Backfill,
    levers: Arc<dyn Levers>,
    inbox: UnboundedSender<Input>,
) -> impl Future<Output = ()> + Send + use<> {
    let id = backfill.id.clone();
    let theirs = backfill.spec.attach.is_some() && backfill.detached.is_none();
    let pool = backfill.spec.dag.as_ref().and_then(|d| d.pool.clone());
    let target = Target {
        backfill: id.clone(),
        spec: Arc::new(backfill.spec.clone()),
    };
    async move {
        if theirs {
            observe(id, levers, target, inbox).await;
        } else if let Some(pool) = pool {
            look_at_pool(id, levers, &pool, inbox).await;
        }
    }
}

async fn observe(id: BackfillId, levers: Arc<dyn Levers>, target: Target, inbox: UnboundedSender<Input>) {
    let every = levers.interval();
    let mut observer = levers.observer(target);
    loop {
        let sight = observer.look().await;
        // The window comes in parts at first: the next part is asked for at once.
        let wait = match &sight {
            Ok(sight) if sight.facts.reading.is_some() => Duration::ZERO,
            _ => every,
        };
        let sight = sight.map_err(|e| e.to_string());
        if inbox.send(Input::Sight(id.clone(), sight)).is_err() {
            return;
        }
        tokio::time::sleep(wait).await;
    }
}

async fn look_at_pool(id: BackfillId, levers: Arc<dyn Levers>, pool: &str, inbox: UnboundedSender<Input>) {
    let every = levers.interval();
    loop {
        let seen = levers.pool(pool).await.map_err(|e| e.to_string());
        if inbox.send(Input::Pool(id.clone(), seen)).is_err() {
            return;
        }
        tokio::time::sleep(every).await;
    }
}
