//! Performs effects: each one a task with a deadline whose outcome comes back as an input. Nothing here decides.

use super::{
    core::{Effect, Input},
    gate::{Gate, Pass},
    kill_point::{self, reached},
};
use crate::{
    config::secret::{Secret, SecretSource},
    domain::{
        failure::{Failure, FailureClass},
        ids::{AttemptId, Name},
        state::State,
    },
    executor::{Executor, Probe, RunOrder, SubmitAnswer},
    host::boot_now,
};
use std::{collections::BTreeMap, sync::Arc, time::Duration};
use tokio::sync::mpsc::UnboundedSender;

/// Secret variables by backfill name.
pub type Secrets = BTreeMap<Name, BTreeMap<String, SecretSource>>;

/// An order with the executor that gets it and where its secrets come from.
type Sendable = (Arc<dyn Executor>, RunOrder, BTreeMap<String, SecretSource>);

/// The hands of the supervisor.
pub struct Driver {
    /// Executors by name.
    pub executors: BTreeMap<Name, Arc<dyn Executor>>,
    /// What every submission passes.
    pub gate: Arc<Gate>,
    /// Where outcomes go.
    pub inbox: UnboundedSender<Input>,
    /// The lease's epoch.
    pub epoch: u64,
    /// How long one request may take.
    pub deadline: Duration,
    /// Where secret variables come from.
    pub secrets: Secrets,
}

impl Driver {
    /// Starts an effect. The state is that after the events which ordered it.
    pub fn perform(&self, effect: Effect, state: &State) {
        match effect {
            Effect::Submit(id) => match self.order(&id, state) {
                Some((executor, order, secrets)) => self.submit(executor, order, secrets),
                None => self.send(Input::Submitted(id, self.no_executor())),
            },
            Effect::Probe(id) => match self.order(&id, state) {
                Some((executor, order, _)) => self.probe(executor, order),
                None => {
                    let why = "its executor is not in the configuration any more".to_owned();
                    self.send(Input::Probed(id, Probe::Unknown { why }));
                }
            },
            Effect::Stop(id) => {
                if let Some((executor, _, _)) = self.order(&id, state) {
                    self.stop(executor, id);
                }
            }
            Effect::NextStep(id, ask) => self.next_step(id, ask, state),
            Effect::Perform(id, ask, step) => self.perform_step(id, (ask, step), state),
        }
    }

    fn send(&self, input: Input) {
        // The loop that would read it is gone only when the process ends.
        let _ = self.inbox.send(input);
    }

    fn no_executor(&self) -> SubmitAnswer {
        let message = "its executor is not in the configuration".to_owned();
        SubmitAnswer::Refused {
            failure: Failure {
                class: FailureClass::Config,
                exit: None,
                message,
            },
        }
    }

    fn order(&self, id: &AttemptId, state: &State) -> Option<Sendable> {
        let backfill = state.backfills.get(&id.backfill)?;
        let chunk = backfill.chunk(id.chunk)?;
        let attempt = chunk.open().filter(|a| a.no == id.no)?;
        let executor = self.executors.get(&attempt.executor)?.clone();
        let profile = backfill
            .spec
            .profiles
            .get(attempt.profile as usize)
            .or(backfill.spec.profiles.last())?
            .clone();
        let order = RunOrder {
            attempt: id.clone(),
            spec: Arc::new(backfill.spec.clone()),
            start: chunk.interval.start,
            end: chunk.interval.end,
            profile,
            secrets: BTreeMap::new(),
            taking: chunk
                .taken
                .as_ref()
                .and_then(|t| Some((t.run.clone(), t.choice?))),
            epoch: self.epoch,
        };
        let sources = self.secrets.get(&backfill.spec.name).cloned().unwrap_or_default();
        Some((executor, order, sources))
    }

    fn submit(
        &self,
        executor: Arc<dyn Executor>,
        mut order: RunOrder,
        sources: BTreeMap<String, SecretSource>,
    ) {
        let (gate, inbox, deadline) = (self.gate.clone(), self.inbox.clone(), self.deadline);
        tokio::spawn(async move {
            let id = order.attempt.clone();
            let broken = Ok(SubmitAnswer::Unknown {
                why: BROKEN.to_owned(),
            });
            let late = inbox.clone();
            let sending = async move {
                match resolve(sources, &order.spec.env_secrets).await {
                    Err(failure) => {
                        gate.withdraw(&order.attempt);
                        Ok(SubmitAnswer::Refused { failure })
                    }
                    Ok(secrets) => {
                        order.secrets = secrets;
                        pass_and_send(&gate, executor, order, deadline, late).await
                    }
                }
            };
            let answer = apart(sending, broken).await;
            reached(kill_point::ANSWERED);
            let _ = inbox.send(match answer {
                Ok(answer) => Input::Submitted(id, answer),
                Err(why) => Input::NotSent(id, why.to_owned()),
            });
        });
    }

    fn probe(&self, executor: Arc<dyn Executor>, order: RunOrder) {
        let (inbox, deadline) = (self.inbox.clone(), self.deadline);
        tokio::spawn(async move {
            let id = order.attempt.clone();
            let broken = Probe::Unknown {
                why: BROKEN.to_owned(),
            };
            let asking = async move {
                match tokio::time::timeout(deadline, executor.probe(order)).await {
                    Ok(probe) => probe,
                    Err(_) => Probe::Unknown {
                        why: format!("no answer within {} s", deadline.as_secs_f32()),
                    },
                }
            };
            let probe = apart(asking, broken).await;
            let _ = inbox.send(Input::Probed(id, probe));
        });
    }

    fn stop(&self, executor: Arc<dyn Executor>, id: AttemptId) {
        let (gate, inbox, deadline) = (self.gate.clone(), self.inbox.clone(), self.deadline);
        tokio::spawn(async move {
            if !gate.lease_holds(boot_now()) {
                return;
            }
            let failed = match tokio::time::timeout(deadline, executor.cancel(&id)).await {
                Ok(Ok(())) => return,
                Ok(Err(error)) => error.to_string(),
                Err(_) => "no answer".to_owned(),
            };
            let _ = inbox.send(Input::StopFailed(id, failed));
        });
    }
}

/// What is said of work that ended without any outcome.
const BROKEN: &str = "the adapter broke off; the supervisor's log has more";

/// Does work on a task of its own, so that a fault in an adapter costs an answer and not the attempt (case B36).
async fn apart<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static, broken: T) -> T {
    match tokio::spawn(work).await {
        Ok(done) => done,
        Err(error) => {
            tracing::error!(%error, "an adapter broke off");
            broken
        }
    }
}

/// The last step before the outside: gate and lease are looked at right here. The error says why it did not leave.
async fn pass_and_send(
    gate: &Gate,
    executor: Arc<dyn Executor>,
    order: RunOrder,
    deadline: Duration,
    inbox: UnboundedSender<Input>,
) -> Result<SubmitAnswer, &'static str> {
    match gate.pass(&order.attempt, boot_now()) {
        Pass::Withdrawn => return Err("withdrawn before it was sent"),
        Pass::LeaseTooOld => return Err("the lease was not renewed in time"),
        Pass::Go => reached(kill_point::GATE_PASSED),
    }
    let id = order.attempt.clone();
    let mut sending = Box::pin(async move { executor.submit(order).await });
    let Ok(answer) = tokio::time::timeout(deadline, &mut sending).await else {
        // A late answer is better than none.
        tokio::spawn(async move { drop(inbox.send(Input::Submitted(id, sending.await))) });
        return Ok(SubmitAnswer::Unknown {
            why: format!("no answer to the submission within {} s", deadline.as_secs_f32()),
        });
    };
    Ok(answer)
}

/// Secrets are read for each attempt. One that cannot be read is a failure of the order, not of the day.
async fn resolve(
    sources: BTreeMap<String, SecretSource>,
    wanted: &[String],
) -> Result<BTreeMap<String, Secret>, Failure> {
    let failure = |message: String| Failure {
        class: FailureClass::Config,
        exit: None,
        message,
    };
    let mut secrets = BTreeMap::new();
    for name in wanted {
        let Some(source) = sources.get(name).cloned() else {
            return Err(failure(format!(
                "the secret variable {name} is not in the configuration any more"
            )));
        };
        let read = tokio::task::spawn_blocking(move || source.resolve()).await;
        match read {
            Ok(Ok(secret)) => drop(secrets.insert(name.clone(), secret)),
            Ok(Err(error)) => return Err(failure(format!("the secret variable {name}: {error}"))),
            Err(_) => return Err(failure(format!("reading the secret variable {name} broke off"))),
        }
    }
    Ok(secrets)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        domain::ids::ExternalId,
        executor::{Capabilities, RecoveryFamily},
        net::AdapterError,
        plan::testing::Night,
    };
    use async_trait::async_trait;
    use std::path::PathBuf;
    use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

    /// Takes a second to answer.
    struct Slow;

    #[async_trait]
    impl Executor for Slow {
        fn capabilities(&self) -> Capabilities {
            Faulty.capabilities()
        }
        async fn submit(&self, _: RunOrder) -> SubmitAnswer {
            tokio::time::sleep(Duration::from_secs(1)).await;
            let run = ExternalId("r".to_owned());
            SubmitAnswer::Accepted { run, running: false }
        }
        async fn probe(&self, order: RunOrder) -> Probe {
            Faulty.probe(order).await
        }
        async fn cancel(&self, attempt: &AttemptId) -> Result<(), AdapterError> {
            Faulty.cancel(attempt).await
        }
        fn log_file(&self, _: &AttemptId) -> Option<PathBuf> {
            None
        }
        async fn health(&self) -> Result<(), AdapterError> {
            Ok(())
        }
    }

    struct Faulty;

    #[async_trait]
    impl Executor for Faulty {
        fn capabilities(&self) -> Capabilities {
            Capabilities {
                recovery: RecoveryFamily::UniqueId,
                cancel: true,
                logs: false,
            }
        }
        async fn submit(&self, _: RunOrder) -> SubmitAnswer {
            panic!("an index out of bounds, say")
        }
        async fn probe(&self, _: RunOrder) -> Probe {
            panic!("an index out of bounds, say")
        }
        async fn cancel(&self, _: &AttemptId) -> Result<(), AdapterError> {
            Ok(())
        }
        fn log_file(&self, _: &AttemptId) -> Option<PathBuf> {
            None
        }
        async fn health(&self) -> Result<(), AdapterError> {
            Ok(())
        }
    }

    /// One attempt that is to be sent to an executor, and a driver with that much patience.
    fn to_be_sent(
        executor: Arc<dyn Executor>,
        deadline: Duration,
    ) -> (Night, AttemptId, Driver, UnboundedReceiver<Input>) {
        let mut night = Night::new(1);
        let day = night.day(0);
        night.intend(day);
        let attempt = night.attempt(day);
        let (inbox, news) = unbounded_channel();
        let gate = Arc::new(Gate::default());
        gate.lease_renewed(boot_now(), Duration::from_secs(60));
        gate.announce(attempt.clone());
        let driver = Driver {
            executors: BTreeMap::from([("here".parse().unwrap(), executor)]),
            gate,
            inbox,
            epoch: 1,
            deadline,
            secrets: Secrets::new(),
        };
        (night, attempt, driver, news)
    }

    #[tokio::test]
    async fn an_answer_that_comes_too_late_is_told_all_the_same() {
        let (night, attempt, driver, mut news) = to_be_sent(Arc::new(Slow), Duration::from_millis(20));
        driver.perform(Effect::Submit(attempt), &night.state);
        let first = news.recv().await.unwrap();
        assert!(
            matches!(first, Input::Submitted(_, SubmitAnswer::Unknown { .. })),
            "{first:?}"
        );
        let second = news.recv().await.unwrap();
        assert!(
            matches!(second, Input::Submitted(_, SubmitAnswer::Accepted { .. })),
            "{second:?}"
        );
    }

    /// Case B36.
    #[tokio::test]
    async fn a_fault_in_an_adapter_is_an_answer_that_nobody_can_trust() {
        let (night, attempt, driver, mut news) = to_be_sent(Arc::new(Faulty), Duration::from_secs(5));
        driver.perform(Effect::Submit(attempt.clone()), &night.state);
        let answered = news.recv().await.unwrap();
        assert!(
            matches!(&answered, Input::Submitted(id, SubmitAnswer::Unknown { .. }) if *id == attempt),
            "{answered:?}"
        );
        driver.perform(Effect::Probe(attempt.clone()), &night.state);
        let probed = news.recv().await.unwrap();
        assert!(
            matches!(&probed, Input::Probed(id, Probe::Unknown { .. }) if *id == attempt),
            "{probed:?}"
        );
    }
}
