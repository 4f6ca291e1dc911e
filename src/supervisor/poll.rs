//! Asking lag sources and executors again and again, each on a task of its own, each with its own deadline.

use super::{
    core::Input,
    record::{Note, Notes},
    silences::Silences,
};
use crate::{
    domain::ids::Name,
    executor::Executor,
    journal::SamplePoint,
    signals::{LagSource, Reading},
};
use chrono::{TimeDelta, Utc};
use std::{sync::Arc, time::Duration};
use tokio::{sync::mpsc::UnboundedSender, task::JoinHandle, time::Instant};

/// Tasks that end when this is dropped.
#[derive(Debug, Default)]
pub struct Pollers {
    tasks: Vec<JoinHandle<()>>,
    /// Those that silence alerts.
    pub silences: Silences,
}

impl Drop for Pollers {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

/// How often an executor's health is asked.
const HEALTH_EVERY: Duration = Duration::from_secs(5);
/// The same while it is not well; how often it really asks outside is the adapter's affair.
const SICK_EVERY: Duration = Duration::from_secs(1);

/// How far back a source is asked for its past.
const PAST: Duration = Duration::from_secs(2 * 3600);
/// The shortest time between two numbers of the past.
const PAST_STEP: Duration = Duration::from_secs(15);

impl Pollers {
    /// Asks once what a signal's source knows of the last hours, for charts: it goes into the journal's samples and
    /// nowhere else, so that no throttle ever acts on it. Beside the reads, which do not wait for it.
    pub fn past(&mut self, name: Name, source: Arc<dyn LagSource>, interval: Duration, notes: Notes) {
        self.tasks.push(tokio::spawn(async move {
            let step = interval.max(PAST_STEP);
            let now = Utc::now();
            match source.history(PAST, step).await {
                Ok(known) => {
                    let points: Vec<SamplePoint> = known
                        .into_iter()
                        // The last step is left to the first read.
                        .filter(|(ago, _)| *ago >= step)
                        .filter_map(|(ago, value)| {
                            Some(SamplePoint {
                                at: now - TimeDelta::from_std(ago).ok()?,
                                value: Ok(value),
                                age: None,
                            })
                        })
                        .collect();
                    if !points.is_empty() {
                        let since = now - TimeDelta::from_std(PAST).unwrap_or_default();
                        notes.send(Note::Past(name, since, points));
                    }
                }
                Err(error) => tracing::info!(signal = %name, %error, "no past for its chart"),
            }
        }));
    }

    /// Reads a signal every `interval`. A slow answer delays the next question, never doubles it.
    pub fn signal(
        &mut self,
        name: Name,
        source: Arc<dyn LagSource>,
        interval: Duration,
        inbox: UnboundedSender<Input>,
    ) {
        self.tasks.push(tokio::spawn(async move {
            let mut ticks = tokio::time::interval(interval.max(Duration::from_millis(50)));
            ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
            let mut heard = Instant::now();
            loop {
                ticks.tick().await;
                let late = heard + patience(interval);
                let reading = read(source.as_ref(), late, |late| {
                    drop(inbox.send(Input::Reading(name.clone(), late)));
                });
                let reading = reading.await;
                heard = Instant::now();
                if inbox.send(Input::Reading(name.clone(), reading)).is_err() {
                    return;
                }
            }
        }));
    }

    /// Asks an executor's health.
    pub fn executor(&mut self, name: Name, executor: Arc<dyn Executor>, inbox: UnboundedSender<Input>) {
        self.tasks.push(tokio::spawn(async move {
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

/// For how long a source may be silent before that is told: a little shorter than a throttle waits (three intervals), so
/// that its reason is known when the signal goes blind.
fn patience(interval: Duration) -> Duration {
    interval.mul_f64(2.8)
}

/// Reads once. Where there is no answer at `late`, what the source says of that is told first.
async fn read(source: &dyn LagSource, late: Instant, tell: impl FnOnce(Reading)) -> Reading {
    let begun = Instant::now();
    let mut reading = source.read();
    if let Ok(reading) = tokio::time::timeout_at(late, &mut reading).await {
        return reading;
    }
    if let Some(error) = source.late(begun.elapsed()) {
        tell(Reading::Failed(error));
    }
    reading.await
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::{AdapterError, Cause};
    use async_trait::async_trait;
    use std::sync::mpsc::{Receiver, sync_channel};
    use tokio::sync::mpsc::unbounded_channel;

    /// What a source knows of the past.
    enum Known {
        Points(Vec<(Duration, f64)>),
        Refused,
        NeverEnds,
    }

    struct Source(Known);

    #[async_trait]
    impl LagSource for Source {
        async fn read(&self) -> Reading {
            Reading::Value {
                value: 1.0,
                age: Duration::ZERO,
                skew_ms: None,
                parts: Vec::new(),
            }
        }

        async fn history(
            &self,
            since: Duration,
            step: Duration,
        ) -> Result<Vec<(Duration, f64)>, AdapterError> {
            assert_eq!((since, step), (PAST, PAST_STEP));
            match &self.0 {
                Known::Points(points) => Ok(points.clone()),
                Known::Refused => Err(AdapterError::new(
                    "lag",
                    "POST /x",
                    Duration::ZERO,
                    Cause::Server,
                    "",
                )),
                Known::NeverEnds => std::future::pending().await,
            }
        }
    }

    /// Polls a source until it has been read twice, with the past first.
    async fn poll(known: Known) -> (Pollers, Receiver<Note>) {
        let (source, name): (Arc<dyn LagSource>, Name) = (Arc::new(Source(known)), "lag".parse().unwrap());
        let (sender, notes) = sync_channel(10);
        let (inbox, mut inputs) = unbounded_channel();
        let mut pollers = Pollers::default();
        let interval = Duration::from_millis(50);
        pollers.past(name.clone(), source.clone(), interval, Notes::to(sender));
        pollers.signal(name, source, interval, inbox);
        for _ in 0..2 {
            // The past never comes in here.
            assert!(matches!(
                inputs.recv().await,
                Some(Input::Reading(_, Reading::Value { .. }))
            ));
        }
        (pollers, notes)
    }

    #[tokio::test]
    async fn the_past_goes_to_the_journal_alone_and_without_its_last_step() {
        let ago = |s: u64| Duration::from_secs(s);
        let begun = Utc::now();
        let points = vec![(ago(7_200), 3.0), (ago(15), 4.0), (ago(14), 5.0), (ago(0), 6.0)];
        let (_pollers, notes) = poll(Known::Points(points)).await;
        let Note::Past(name, since, points) = notes.try_recv().unwrap() else {
            panic!("another note");
        };
        assert_eq!(name.as_str(), "lag");
        let off = |at: crate::domain::Time, ago: i64| (begun - TimeDelta::seconds(ago) - at).abs();
        assert!(off(since, 7_200) < TimeDelta::seconds(30));
        let values: Vec<_> = points.iter().map(|p| (p.value.clone(), p.age)).collect();
        assert_eq!(values, [(Ok(3.0), None), (Ok(4.0), None)]);
        assert!(off(points[1].at, 15) < TimeDelta::seconds(30));
        assert!(notes.try_recv().is_err());
    }

    #[tokio::test]
    async fn a_past_that_never_comes_or_fails_holds_up_no_read() {
        for known in [Known::NeverEnds, Known::Refused, Known::Points(Vec::new())] {
            let (_pollers, notes) = poll(known).await;
            assert!(notes.try_recv().is_err());
        }
    }

    /// Answers when it is let.
    struct Slow(tokio::sync::Notify);

    #[async_trait]
    impl LagSource for Slow {
        async fn read(&self) -> Reading {
            self.0.notified().await;
            Source(Known::NeverEnds).read().await
        }

        fn late(&self, waited: Duration) -> Option<AdapterError> {
            let why = "it takes too long";
            Some(AdapterError::new("lag", "running", waited, Cause::Timeout, why))
        }
    }

    #[tokio::test]
    async fn a_read_without_an_end_is_told_with_the_reason_of_its_source_and_its_number_still_comes() {
        let slow = Slow(tokio::sync::Notify::new());
        let mut told = None;
        // It ends only when its delay was told.
        let reading = read(&slow, Instant::now(), |late| {
            told = Some(late);
            slow.0.notify_one();
        });
        assert!(matches!(reading.await, Reading::Value { .. }));
        assert!(
            matches!(&told, Some(Reading::Failed(error)) if error.detail == "it takes too long"),
            "{told:?}"
        );
    }

    #[tokio::test]
    async fn an_answer_in_time_and_a_source_without_a_reason_are_not_told_twice() {
        let slow = Slow(tokio::sync::Notify::new());
        slow.0.notify_one();
        let far = Instant::now() + Duration::from_secs(600);
        let reading = read(&slow, far, |late| panic!("{late:?}"));
        assert!(matches!(reading.await, Reading::Value { .. }));
        let mute = Source(Known::Refused);
        let reading = read(&mute, Instant::now(), |late| panic!("{late:?}"));
        assert!(matches!(reading.await, Reading::Value { .. }));
    }

    #[test]
    fn the_reason_comes_before_a_throttle_gives_the_signal_up() {
        for interval in [Duration::from_millis(20), Duration::from_secs(15)] {
            assert!(patience(interval) > interval * 2 && patience(interval) < interval * 3);
        }
    }
}
