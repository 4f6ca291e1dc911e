//! Asking lag sources and executors again and again, each on a task of its own, each with its own deadline.

use super::core::Input;
use crate::{domain::ids::Name, executor::Executor, signals::LagSource};
use std::{sync::Arc, time::Duration};
use tokio::{sync::mpsc::UnboundedSender, task::JoinHandle};

/// Tasks that end when this is dropped.
#[derive(Debug, Default)]
pub struct Pollers(Vec<JoinHandle<()>>);

impl Drop for Pollers {
    fn drop(&mut self) {
        self.0.iter().for_each(JoinHandle::abort);
    }
}

/// How often an executor's health is asked.
const HEALTH_EVERY: Duration = Duration::from_secs(5);
/// The same while it is not well; how often it really asks outside is the adapter's affair.
const SICK_EVERY: Duration = Duration::from_secs(1);

impl Pollers {
    /// Reads a signal every `interval`. A slow answer delays the next question, never doubles it.
    pub fn signal(
        &mut self,
        name: Name,
        source: Arc<dyn LagSource>,
        interval: Duration,
        inbox: UnboundedSender<Input>,
    ) {
        self.0.push(tokio::spawn(async move {
            let mut ticks = tokio::time::interval(interval.max(Duration::from_millis(50)));
            ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
            loop {
                ticks.tick().await;
                let reading = source.read().await;
                if inbox.send(Input::Reading(name.clone(), reading)).is_err() {
                    return;
                }
            }
        }));
    }

    /// Asks an executor's health.
    pub fn executor(&mut self, name: Name, executor: Arc<dyn Executor>, inbox: UnboundedSender<Input>) {
        self.0.push(tokio::spawn(async move {
            loop {
                let health = executor.health().await.map_err(|e| e.to_string());
                let pause = if health.is_ok() { HEALTH_EVERY } else { SICK_EVERY };
                if inbox.send(Input::Health(name.clone(), health)).is_err() {
                    return;
                }
                tokio::time::sleep(pause).await;
            }
        }));
    }
}
