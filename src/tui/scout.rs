//! Asks servers what could be attached to. Each errand has a thread of its own, so that neither the screen nor the
//! feeder waits for a server that hangs.

use super::{
    attaching::{Errand, Known, Ordered, Scouted},
    effect::Effect,
    model::Feed,
    msg::Msg,
    terminal::run::{Hands, Inbox},
};
use crate::{
    config::{self, Config},
    domain::{
        ids::{BackfillId, Name},
        text::one_line,
    },
    executor::attach::Levers,
    net::AdapterError,
    plan::attach_spec::{self, Wanted},
    supervisor::wiring,
};
use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};
use tokio::{runtime, task::JoinSet, time::timeout};

/// How long a server may take for all that one errand asks of it.
const DEADLINE: Duration = Duration::from_secs(30);
/// Errands that may be under way at once.
const MOST: usize = 4;

/// Who goes on errands. Called on a thread of its own; it may take its time.
pub trait Scout: Send + Sync {
    /// Goes, and tells what comes of it as it comes.
    fn go(&self, errand: Errand, tell: &dyn Fn(Scouted));
}

/// Hands that also send somebody on errands.
pub struct Scouting<H> {
    hands: H,
    scout: Arc<dyn Scout>,
    inbox: Inbox,
    away: Arc<AtomicUsize>,
}

impl<H> Scouting<H> {
    /// Around other hands; answers go to `inbox`.
    pub fn new(hands: H, scout: Arc<dyn Scout>, inbox: Inbox) -> Self {
        Self {
            hands,
            scout,
            inbox,
            away: Arc::default(),
        }
    }

    fn send(&self, op: u64, errand: Errand) -> Option<Msg> {
        let failed = |why: String| {
            let what = Scouted::Failed(why);
            Some(Msg::Scouted { op, what })
        };
        if self.away.fetch_add(1, Ordering::SeqCst) >= MOST {
            self.away.fetch_sub(1, Ordering::SeqCst);
            return failed("earlier questions to servers have no answer yet".to_owned());
        }
        let (scout, inbox, away) = (self.scout.clone(), self.inbox.clone(), self.away.clone());
        let spawned = thread::Builder::new().name("scout".to_owned()).spawn(move || {
            scout.go(errand, &|what| inbox.tell(Msg::Scouted { op, what }));
            away.fetch_sub(1, Ordering::SeqCst);
        });
        let error = spawned.err()?;
        self.away.fetch_sub(1, Ordering::SeqCst);
        failed(error.to_string())
    }
}

impl<H: Hands> Hands for Scouting<H> {
    fn take(&mut self, effect: Effect, feed: &Feed) -> Option<Msg> {
        match effect {
            Effect::Scout { op, errand } => self.send(op, errand),
            other => self.hands.take(other, feed),
        }
    }
}

/// Speaks to the servers of whatever configuration there is.
pub struct Abroad {
    /// The configuration's file, as it was named.
    pub explicit: Option<PathBuf>,
}

impl Scout for Abroad {
    fn go(&self, errand: Errand, tell: &dyn Fn(Scouted)) {
        let config = config::find(self.explicit.as_deref())
            .map_err(|e| e.to_string())
            .and_then(|path| Config::load(&path).map_err(|e| e.to_string()));
        let runtime = runtime::Builder::new_current_thread().enable_all().build();
        let (config, runtime) = match (config, runtime) {
            (Ok(config), Ok(runtime)) => (config, runtime),
            (Err(why), _) => return tell(Scouted::Failed(said(&why))),
            (_, Err(error)) => return tell(Scouted::Failed(error.to_string())),
        };
        runtime.block_on(async {
            match errand {
                Errand::Offers => offers(&config, tell).await,
                Errand::Find {
                    executor,
                    dag,
                    native,
                    live,
                } => {
                    let found = find(&config, &executor, (&dag, native), &live).await;
                    tell(Scouted::Found(found.map(Box::new).map_err(|e| said(&e))));
                }
                Errand::Order(wanted) => {
                    let order = order(&config, *wanted).await;
                    tell(Scouted::Order(order.map(Box::new).map_err(|e| said(&e))));
                }
            }
        });
        // A task that hangs is left behind rather than waited for.
        runtime.shutdown_background();
    }
}

/// What a server said, for a line.
fn said(why: &str) -> String {
    one_line(why, 300)
}

async fn in_time<T>(
    executor: &Name,
    asked: impl Future<Output = Result<T, AdapterError>>,
) -> Result<T, String> {
    match timeout(DEADLINE, asked).await {
        Ok(answer) => answer.map_err(|e| e.to_string()),
        Err(_) => Err(format!(
            "{executor} did not answer within {} s",
            DEADLINE.as_secs()
        )),
    }
}

/// Every executor that has levers, all at once.
async fn offers(config: &Config, tell: &dyn Fn(Scouted)) {
    let mut asking = JoinSet::new();
    let mut named = Vec::new();
    let mut unfit = Vec::new();
    for (name, settings) in &config.executors {
        if !settings.has_levers() {
            continue;
        }
        named.push(name.clone());
        match wiring::levers(config, name.as_str()) {
            Ok(levers) => {
                let name = name.clone();
                asking.spawn(async move {
                    let offers = in_time(&name, levers.offers()).await;
                    (name, offers)
                });
            }
            Err(why) => unfit.push((name.clone(), why)),
        }
    }
    tell(Scouted::Executors(named));
    for (name, why) in unfit {
        tell(Scouted::Offers(name, Err(said(&why))));
    }
    while let Some(done) = asking.join_next().await {
        if let Ok((name, offers)) = done {
            tell(Scouted::Offers(name, offers.map_err(|e| said(&e))));
        }
    }
}

fn levers(config: &Config, executor: &Name) -> Result<Arc<dyn Levers>, String> {
    wiring::levers(config, executor.as_str())
}

async fn find(
    config: &Config,
    executor: &Name,
    (dag, native): (&str, Option<u64>),
    live: &[Name],
) -> Result<Known, String> {
    let levers = levers(config, executor)?;
    let dag = native.is_none().then_some(dag);
    let found = in_time(executor, levers.find(dag, native, None)).await?;
    let taken = |n: &Name| live.contains(n) || config.backfills.contains_key(n);
    let name = attach_spec::name_for(&found.dag, taken);
    let settings = config.executors.get(executor);
    Ok(Known {
        name: name.map_or_else(String::new, |n| n.to_string()),
        environment: settings.and_then(|e| e.environment()).map(str::to_owned),
        found,
    })
}

async fn order(config: &Config, mut wanted: Wanted) -> Result<Ordered, String> {
    if config.backfills.contains_key(&wanted.name) {
        return Err(format!(
            "{} is the name of a backfill of the configuration",
            wanted.name
        ));
    }
    if let Some(unknown) = wanted.signals.iter().find(|s| !config.signals.contains_key(*s)) {
        let all: Vec<&str> = config.signals.keys().map(Name::as_str).collect();
        let all = match all[..] {
            [] => "none is configured".to_owned(),
            _ => format!("configured: {}", all.join(", ")),
        };
        return Err(format!("there is no signal {unknown}; {all}"));
    }
    if let Some(pool) = &wanted.pool {
        let levers = levers(config, &wanted.executor)?;
        let seen = in_time(&wanted.executor, levers.pool(pool)).await?;
        wanted.max_limit = u32::try_from(seen.slots).unwrap_or(wanted.max_limit);
    }
    let spec = attach_spec::spec(wanted)?;
    Ok(Ordered {
        id: BackfillId::new(&spec.name, rand::random()),
        hash: config::spec_hash(&spec),
        spec,
    })
}
