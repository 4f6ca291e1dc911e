//! Sending an attempt so that it runs once, and finding out what became of it.
//!
//! The run's id is made of the backfill and the chunk, so that a chunk has one run on the server however often it is
//! tried: the first attempt triggers it, later ones clear it, or delete it and trigger it anew where its parameters
//! differ. What is about to be sent is on the disk before it leaves ([`super::intent`]).

use super::{
    calls::{Rerun, Trigger},
    error::{CallError, Kind},
    executor::Inner,
    intent::{Before, Intent, Stage, Way, is_over},
    wire::{Api, Run, RunKind, RunState},
};
use crate::{
    domain::{
        attach::Taking,
        failure::{Failure, FailureClass},
        ids::{AttemptId, BackfillId, ChunkId, ExternalId},
        spec::Dag,
        text,
    },
    executor::{Probe, RunEnd, RunOrder, SubmitAnswer, template},
    host::boot_id,
};
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// The id of a chunk's run: `orders-k3f7qa__2023-11-24`. Both texts are of letters that a run id may have, and neither
/// holds `__`, so two chunks never share one; no prefix that Airflow keeps for itself ends in six letters and `__`.
pub fn run_id(backfill: &BackfillId, chunk: ChunkId) -> String {
    format!("{backfill}__{chunk}")
}

/// What the executor calls the run of this attempt: the server's id stays the same when a run is cleared.
pub fn external(run: &str, attempt: &AttemptId) -> ExternalId {
    ExternalId(format!("{run}#{}", attempt.no))
}

/// What we add to the parameters of a run.
fn ours(order: &RunOrder) -> Value {
    let profile = &order.profile;
    let mut values: Map<String, Value> = profile
        .values
        .iter()
        .map(|(k, v)| (k.clone(), json!(v)))
        .collect();
    values.insert("name".to_owned(), json!(profile.name));
    if let Some(memory) = profile.memory {
        values.insert("memory".to_owned(), json!(memory));
    }
    if let Some(deadline) = profile.deadline_ms {
        values.insert("deadline".to_owned(), json!(deadline / 1000));
    }
    json!({
        "chunk": order.attempt.chunk,
        "attempt": order.attempt.no,
        "source": order.spec.source,
        "profile": values,
    })
}

/// The attempt that made a run, if one of ours did.
fn maker(run: &Run, chunk: ChunkId) -> Option<u64> {
    let ours = run.conf.as_ref()?.get("backfill")?;
    let same = ours.get("chunk")?.as_str()? == chunk.to_string();
    ours.get("attempt")?.as_u64().filter(|_| same)
}

/// Whether a run has these parameters, whichever attempt made it.
fn has_parameters(run: &Run, wanted: &Map<String, Value>) -> bool {
    let without_attempt = |conf: &Map<String, Value>| {
        let mut conf = conf.clone();
        if let Some(ours) = conf.get_mut("backfill").and_then(Value::as_object_mut) {
            ours.remove("attempt");
        }
        conf
    };
    let found = run.conf.as_ref().and_then(Value::as_object);
    found.is_some_and(|found| without_attempt(found) == without_attempt(wanted))
}

/// Whether a run was made by an order of the same name for the same chunk, this one or an earlier one.
fn is_related(run: &Run, attempt: &AttemptId) -> bool {
    let same = |(backfill, chunk): (&str, &str)| {
        let backfill = backfill.parse::<BackfillId>();
        backfill.is_ok_and(|b| b.name() == attempt.backfill.name()) && chunk == attempt.chunk.to_string()
    };
    run.id.split_once("__").is_some_and(same) && maker(run, attempt.chunk).is_some()
}

/// An attempt with everything that is sent for it.
struct Job<'a> {
    order: &'a RunOrder,
    dag: &'a Dag,
    conf: Map<String, Value>,
}

impl Job<'_> {
    fn intent(&self, run: &str, way: Way, stage: Stage, inner: &Inner) -> Intent {
        Intent {
            attempt: self.order.attempt.clone(),
            dag: self.dag.id.clone(),
            run: run.to_owned(),
            way,
            stage,
            before: None,
            boot: boot_id(),
            sent: inner.clock.now(),
            deadline_ms: self.order.profile.deadline_ms,
            stop: None,
        }
    }
}

/// What the server shows of an attempt whose answer was lost.
enum Seen {
    /// It has it.
    Taken(Box<Run>),
    /// Nothing came of it, and nothing can any more.
    Nothing,
    /// Nothing came of it yet.
    NotClear(String),
}

/// `the scheduled run X (success)`.
fn told(run: &Run) -> String {
    format!(
        "the {} run {} ({})",
        text::one_line(run.kind.as_str(), 30),
        text::one_line(&run.id, 120),
        text::one_line(run.state.as_str(), 20)
    )
}

fn refused(class: FailureClass, message: &str) -> SubmitAnswer {
    SubmitAnswer::Refused {
        failure: Failure {
            class,
            exit: None,
            message: text::one_line(message, 400),
        },
    }
}

fn unknown(why: impl ToString) -> SubmitAnswer {
    SubmitAnswer::Unknown { why: why.to_string() }
}

fn not_sent(why: impl ToString) -> SubmitAnswer {
    SubmitAnswer::NotSent { why: why.to_string() }
}

impl Inner {
    /// Sends an attempt, or takes up what was sent of it before.
    pub(super) async fn send(self: &Arc<Self>, order: &RunOrder) -> SubmitAnswer {
        let Some(dag) = &order.spec.dag else {
            return refused(
                FailureClass::Config,
                "this executor runs DAGs, and the backfill names none",
            );
        };
        let mut conf = match template::conf(order, dag) {
            Ok(conf) => conf,
            Err(message) => return refused(FailureClass::Config, &message),
        };
        conf.insert("backfill".to_owned(), ours(order));
        let job = Job { order, dag, conf };
        match self.store.read(&order.attempt).await {
            Err(e) => unknown(format!("the record of the attempt cannot be read: {e}")),
            Ok(Some(intent)) if intent.stage != Stage::NotSent => match self.look(&intent).await {
                Err(e) => unknown(e),
                Ok(Seen::Taken(run)) => self.adopt(intent, &run).await,
                // It may still be under way: whichever of the two comes second is refused.
                Ok(Seen::NotClear(_)) if intent.may_be_repeated() => self.trigger(&job, Some(intent)).await,
                Ok(Seen::NotClear(why)) => unknown(why),
                Ok(Seen::Nothing) => self.begin(&job).await,
            },
            Ok(_) => self.begin(&job).await,
        }
    }

    /// The first attempt is only sent: if its run is there, the server says so. A later one looks first, and so does
    /// one that takes somebody else's run.
    async fn begin(self: &Arc<Self>, job: &Job<'_>) -> SubmitAnswer {
        if let Some((theirs, how)) = &job.order.taking {
            match self.server.run(&job.dag.id, &theirs.0).await {
                Err(e) => return not_sent(e),
                Ok(Some(run)) => return self.take_over(job, run, *how).await,
                // The date is free.
                Ok(None) => {}
            }
        }
        let id = run_id(&job.order.attempt.backfill, job.order.attempt.chunk);
        if job.order.attempt.no == 1 {
            return self.trigger(job, None).await;
        }
        match self.server.run(&job.dag.id, &id).await {
            Err(e) => not_sent(e),
            Ok(None) => self.trigger(job, None).await,
            Ok(Some(run)) => self.again(job, run).await,
        }
    }

    /// Makes the run. `earlier`: the record of a request that may still be under way.
    async fn trigger(self: &Arc<Self>, job: &Job<'_>, earlier: Option<Intent>) -> SubmitAnswer {
        let (attempt, start, end) = (&job.order.attempt, job.order.start, job.order.end);
        let id = run_id(&attempt.backfill, attempt.chunk);
        let intent = job.intent(&id, Way::Trigger, Stage::Sending, self);
        if let Err(e) = self.store.write(&intent).await {
            return not_recorded(&e);
        }
        let order = Trigger {
            dag: job.dag.id.clone(),
            run: id,
            logical_date: Some(start),
            interval: Some((start, end)),
            conf: job.conf.clone(),
            note: None,
            partition_key: None,
        };
        match self.server.trigger(&order).await {
            Ok(run) => self.accept(intent, &run).await,
            Err(e) if e.kind == Kind::Conflict => self.conflict(job, intent, &e).await,
            Err(e) => self.failed(intent, earlier, e).await,
        }
    }

    /// 409 does not say whether the id or the date is taken.
    async fn conflict(self: &Arc<Self>, job: &Job<'_>, intent: Intent, error: &CallError) -> SubmitAnswer {
        let attempt = &job.order.attempt;
        match self.server.run(&intent.dag, &intent.run).await {
            Err(e) => return unknown(e),
            Ok(Some(run)) if maker(&run, attempt.chunk) == Some(attempt.no.into()) => {
                return self.adopt(intent, &run).await;
            }
            Ok(Some(run)) => return self.again(job, run).await,
            Ok(None) => {}
        }
        let on_the_date = match self.server.runs_on(&intent.dag, job.order.start).await {
            Err(e) => return unknown(e),
            Ok(runs) => runs,
        };
        let Some(run) = on_the_date.into_iter().next() else {
            return unknown(format!(
                "{error}; and there is neither a run of that id nor one on that date"
            ));
        };
        if is_related(&run, attempt) && is_over(&run.state) {
            return self.again(job, run).await;
        }
        self.mark_not_sent(intent).await;
        SubmitAnswer::DateTaken {
            what: told(&run),
            run: ExternalId(run.id),
        }
    }

    /// Somebody else's run on the chunk's date becomes this attempt's: as it is, or once it is out of the way.
    async fn take_over(self: &Arc<Self>, job: &Job<'_>, run: Run, how: Taking) -> SubmitAnswer {
        if how == Taking::Adopt {
            // Nothing is sent: without its record it is adopted again.
            let intent = job.intent(&run.id, Way::Adopt, Stage::Taken, self);
            return self.adopt(intent, &run).await;
        }
        if is_over(&run.state) {
            return self.again(job, run).await;
        }
        match self.server.api().await {
            Err(e) => not_sent(e),
            // 2.x would delete it also in the moment in which it starts.
            Ok(Api::V2) if run.state == RunState::Queued => self.replace(job, &run).await,
            Ok(_) => refused(
                FailureClass::Platform,
                &format!("{} is not over yet, and only then it is cleared", told(&run)),
            ),
        }
    }

    /// A run of an earlier attempt is there.
    async fn again(self: &Arc<Self>, job: &Job<'_>, run: Run) -> SubmitAnswer {
        let same = has_parameters(&run, &job.conf);
        if !is_over(&run.state) {
            if same {
                let intent = job.intent(&run.id, Way::Trigger, Stage::Taken, self);
                return self.adopt(intent, &run).await;
            }
            let message = format!(
                "the run {} of an earlier attempt, with other parameters, is not over yet",
                text::one_line(&run.id, 120)
            );
            return refused(FailureClass::Platform, &message);
        }
        // A run that a native backfill took over is never started again once that backfill was cancelled.
        if same && run.kind != RunKind::Backfill {
            self.clear(job, &run).await
        } else {
            self.replace(job, &run).await
        }
    }

    async fn clear(self: &Arc<Self>, job: &Job<'_>, run: &Run) -> SubmitAnswer {
        let highest_try = match self.highest_try(&job.dag.id, &run.id).await {
            Ok(highest_try) => highest_try,
            Err(e) => return not_sent(e),
        };
        let mut intent = job.intent(&run.id, Way::Clear, Stage::Sending, self);
        intent.before = Some(Before::of(run, highest_try));
        if let Err(e) = self.store.write(&intent).await {
            return not_recorded(&e);
        }
        match self.server.clear(&job.dag.id, &run.id, Rerun::Whole).await {
            Ok(run) => self.accept(intent, &run).await,
            Err(e) => self.failed(intent, None, e).await,
        }
    }

    async fn replace(self: &Arc<Self>, job: &Job<'_>, run: &Run) -> SubmitAnswer {
        let mut intent = job.intent(&run.id, Way::Replace, Stage::Deleting, self);
        intent.before = Some(Before::of(run, 0));
        if let Err(e) = self.store.write(&intent).await {
            return not_recorded(&e);
        }
        match self.server.delete_run(&job.dag.id, &run.id).await {
            // On a heap of its own: the two ways may lead to each other.
            Ok(_) => Box::pin(self.trigger(job, None)).await,
            Err(e) => self.failed(intent, None, e).await,
        }
    }

    async fn highest_try(&self, dag: &str, run: &str) -> Result<u32, CallError> {
        let tasks = self.server.tasks(dag, run).await?.rows;
        Ok(tasks.iter().map(|t| t.try_number).max().unwrap_or(0))
    }

    /// What an error means: certainly nothing done, or a look at what was done.
    async fn failed(
        self: &Arc<Self>,
        intent: Intent,
        earlier: Option<Intent>,
        error: CallError,
    ) -> SubmitAnswer {
        if error.may_have_happened() {
            return match self.look(&intent).await {
                Ok(Seen::Taken(run)) => self.adopt(intent, &run).await,
                Ok(Seen::Nothing | Seen::NotClear(_)) | Err(_) => unknown(error),
            };
        }
        let repeated = earlier.is_some();
        match earlier {
            // That this one did not leave says nothing about the one before.
            Some(earlier) => self.write(&earlier).await,
            None => self.mark_not_sent(intent).await,
        }
        match error.kind {
            // The credentials are good and the server's no is final: every chunk would hear it.
            Kind::Forbidden | Kind::Absent | Kind::Invalid | Kind::Unsupported => {
                refused(FailureClass::Config, &error.to_string())
            }
            Kind::Conflict => refused(FailureClass::Platform, &error.to_string()),
            _ if repeated => unknown(error),
            _ => not_sent(error),
        }
    }

    async fn mark_not_sent(&self, mut intent: Intent) {
        intent.stage = Stage::NotSent;
        self.write(&intent).await;
    }

    /// Where a record that cannot be written is no reason to stop: what stands there is taken for sent, and looked for
    /// until it is quiet.
    async fn write(&self, intent: &Intent) {
        if let Err(error) = self.store.write(intent).await {
            tracing::warn!(attempt = %intent.attempt, %error, "the record of an attempt cannot be written");
        }
    }

    async fn accept(self: &Arc<Self>, intent: Intent, run: &Run) -> SubmitAnswer {
        let (name, running) = self.take(intent, run).await;
        SubmitAnswer::Accepted { run: name, running }
    }

    async fn adopt(self: &Arc<Self>, intent: Intent, run: &Run) -> SubmitAnswer {
        let (name, running) = self.take(intent, run).await;
        SubmitAnswer::AlreadyExists { run: name, running }
    }

    /// The server has it: from now on it is watched.
    async fn take(self: &Arc<Self>, mut intent: Intent, run: &Run) -> (ExternalId, bool) {
        intent.run.clone_from(&run.id);
        intent.stage = Stage::Taken;
        self.write(&intent).await;
        let name = external(&run.id, &intent.attempt);
        (name, self.watch(intent, run))
    }

    /// Looks for what came of a request without an answer.
    async fn look(&self, intent: &Intent) -> Result<Seen, CallError> {
        let run = self.server.run(&intent.dag, &intent.run).await?;
        let chunk = intent.attempt.chunk;
        let own = run_id(&intent.attempt.backfill, chunk);
        let found = match run {
            None => "no run of it is there",
            Some(run) if intent.stage == Stage::Taken => return Ok(Seen::Taken(Box::new(run))),
            // The run of another order may carry the same number.
            Some(run) if run.id == own && maker(&run, chunk) == Some(intent.attempt.no.into()) => {
                return Ok(Seen::Taken(Box::new(run)));
            }
            Some(run) => {
                if let (Way::Clear, Some(before)) = (intent.way, &intent.before) {
                    let changed = before.has_changed(&run)
                        || self.highest_try(&intent.dag, &run.id).await? > before.highest_try;
                    if changed {
                        return Ok(Seen::Taken(Box::new(run)));
                    }
                }
                "the run is as it was before"
            }
        };
        // Nothing that makes a run was sent while the earlier one was still to be deleted.
        if intent.stage == Stage::Deleting && found.starts_with("no run") {
            return Ok(Seen::Nothing);
        }
        if intent.is_quiet(self.clock.now()) {
            return Ok(Seen::Nothing);
        }
        Ok(Seen::NotClear(format!("its answer was lost, and {found} so far")))
    }

    /// What became of an attempt that this process may not have sent itself.
    pub(super) async fn find(self: &Arc<Self>, order: &RunOrder) -> Probe {
        let unknown = |why: String| Probe::Unknown { why };
        let traceless = |why: &str, under_way| Probe::Traceless {
            why: why.to_owned(),
            under_way,
        };
        let Some(dag) = &order.spec.dag else {
            return unknown("the backfill names no DAG".to_owned());
        };
        let attempt = &order.attempt;
        let intent = match self.store.read(attempt).await {
            Err(e) => return unknown(format!("the record of the attempt cannot be read: {e}")),
            Ok(Some(intent)) if intent.stage == Stage::NotSent => {
                return traceless("its request did not leave", false);
            }
            Ok(intent) => intent,
        };
        let Some(intent) = intent else {
            // Nothing was sent from this state directory; from another one it may have been.
            let id = run_id(&attempt.backfill, attempt.chunk);
            return match self.server.run(&dag.id, &id).await {
                Err(e) => unknown(e.to_string()),
                Ok(Some(run)) if maker(&run, attempt.chunk) == Some(attempt.no.into()) => {
                    let job = Job {
                        order,
                        dag,
                        conf: Map::new(),
                    };
                    let intent = job.intent(&id, Way::Trigger, Stage::Taken, self);
                    self.alive(intent, &run).await
                }
                Ok(_) => Probe::NeverRan,
            };
        };
        match self.look(&intent).await {
            Err(e) => unknown(e.to_string()),
            Ok(Seen::Taken(run)) => self.alive(intent, &run).await,
            Ok(Seen::NotClear(why)) if intent.may_be_repeated() => traceless(&why, true),
            Ok(Seen::NotClear(why)) => unknown(why),
            Ok(Seen::Nothing) if intent.stage == Stage::Taken => Probe::Ended(deleted()),
            Ok(Seen::Nothing) => traceless("nothing came of its request", false),
        }
    }

    /// One that is over is watched, too: the watch looks at its tasks and reports its end.
    async fn alive(self: &Arc<Self>, intent: Intent, run: &Run) -> Probe {
        let over = is_over(&run.state);
        let (name, running) = self.take(intent, run).await;
        Probe::Alive {
            run: name,
            running: running || over,
        }
    }
}

/// The end of a run that is no longer on the server.
pub(super) fn deleted() -> RunEnd {
    RunEnd::failed(Failure {
        class: FailureClass::Platform,
        exit: None,
        message: "its run was deleted on the server".to_owned(),
    })
}

fn not_recorded(error: &std::io::Error) -> SubmitAnswer {
    let message = format!("nothing was sent, since it cannot be recorded on this machine: {error}");
    refused(FailureClass::Platform, &message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn made(id: &str, conf: Value) -> Run {
        serde_json::from_value(json!({"dag_run_id": id, "state": "success", "conf": conf})).unwrap()
    }

    #[test]
    fn parameters_are_compared_without_the_number_of_the_attempt() {
        let conf = |attempt: u32, memory: u64| json!({"force": true, "backfill": {"chunk": "2021-02-04", "attempt": attempt, "profile": {"memory": memory}}});
        let wanted = conf(2, 7).as_object().unwrap().clone();
        assert!(has_parameters(&made("r", conf(1, 7)), &wanted));
        assert!(!has_parameters(&made("r", conf(2, 8)), &wanted));
        assert!(!has_parameters(&made("r", Value::Null), &wanted));
        let chunk: ChunkId = "2021-02-04".parse().unwrap();
        assert_eq!(maker(&made("r", conf(3, 7)), chunk), Some(3));
        assert_eq!(maker(&made("r", conf(3, 7)), "2021-02-05".parse().unwrap()), None);
    }

    #[test]
    fn a_run_is_related_if_an_order_of_the_same_name_made_it_for_the_same_chunk() {
        let attempt: AttemptId = "events-aaaaaa/2021-02-04/1".parse().unwrap();
        let conf = json!({"backfill": {"chunk": "2021-02-04", "attempt": 1}});
        let related = |id: &str| is_related(&made(id, conf.clone()), &attempt);
        assert!(related("events-bbbbbb__2021-02-04"));
        assert!(!related("events-bbbbbb__2021-02-05"));
        assert!(!related("other-bbbbbb__2021-02-04"));
        assert!(!related("scheduled__2021-02-04T00:00:00+00:00"));
        assert!(!is_related(
            &made("events-bbbbbb__2021-02-04", json!({})),
            &attempt
        ));
    }

    proptest! {
        /// Also with a name that is a word of Airflow's own, and in the hour that happens twice.
        #[test]
        fn every_run_id_is_one_that_airflow_takes_and_no_two_chunks_share_it(
            name in "(scheduled|backfill|manual|[a-z][a-z0-9-]{0,30})", drawn: u32, days in 0i64..20_000,
            hour in proptest::option::of((0u8..24, -48i16..56)),
        ) {
            let backfill = BackfillId::new(&name.parse().unwrap(), drawn);
            let date = chrono::NaiveDate::from_ymd_opt(1990, 1, 1).unwrap() + chrono::Duration::days(days);
            let chunk = hour.map_or(ChunkId::day(date), |(h, q)| ChunkId::hour(date, h, q * 15));
            let id = run_id(&backfill, chunk);
            prop_assert!(id.chars().all(|c| c.is_ascii_alphanumeric() || "_.~:+-".contains(c)));
            for reserved in ["scheduled__", "backfill__", "manual__", "asset_triggered__", "dataset_triggered__"] {
                prop_assert!(!id.starts_with(reserved), "{id}");
            }
            let (first, second) = id.split_once("__").unwrap();
            prop_assert_eq!(first.parse::<BackfillId>().unwrap(), backfill);
            prop_assert_eq!(second.parse::<ChunkId>().unwrap(), chunk);
        }
    }
}
