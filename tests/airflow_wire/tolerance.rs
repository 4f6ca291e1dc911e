//! Servers of other versions have other fields and other words: that never keeps an answer from being read.

use crate::airflow_support::*;
use backfill::executor::airflow::wire::{
    Backfill, BackfillDay, Dag, DagDetails, DagStats, Health, ImportError, Pool, Run, RunState, TaskInstance,
};
use proptest::prelude::*;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

/// A kind of answer: a recorded one, the fields without which nothing can be concluded, and those that are strict
/// where they are present.
struct Form {
    sample: Value,
    core: &'static [&'static str],
    strict: &'static [&'static str],
    read: fn(Value) -> Result<(), String>,
}

fn read<T: DeserializeOwned>(document: Value) -> Result<(), String> {
    serde_json::from_value::<T>(document)
        .map(|_| ())
        .map_err(|e| e.to_string())
}

const RUN_DATES: &[&str] = &[
    "logical_date",
    "execution_date",
    "data_interval_start",
    "data_interval_end",
    "partition_date",
    "queued_at",
    "start_date",
    "end_date",
];

fn forms() -> Vec<Form> {
    let form = |sample: Value, core, strict, read| Form {
        sample,
        core,
        strict,
        read,
    };
    let first = |name: &str, list: &str| json_of(name)[list][0].clone();
    let (run, task): (&[&str], &[&str]) = (&["dag_run_id", "state"], &["task_id"]);
    let backfill: &[&str] = &["id", "dag_id", "from_date", "to_date", "is_paused"];
    vec![
        form(json_of("v2_dag_run_trigger.json"), run, RUN_DATES, read::<Run>),
        form(json_of("v1_dag_run_trigger.json"), run, RUN_DATES, read::<Run>),
        form(
            first("v2_dag_runs_partitioned.json", "dag_runs"),
            run,
            RUN_DATES,
            read::<Run>,
        ),
        form(
            first("v2_task_instances_failed.json", "task_instances"),
            task,
            &[],
            read::<TaskInstance>,
        ),
        form(
            first("v1_task_instances.json", "task_instances"),
            task,
            &[],
            read::<TaskInstance>,
        ),
        form(json_of("v2_dag.json"), &["dag_id"], &[], read::<Dag>),
        form(json_of("v1_dag.json"), &["dag_id"], &[], read::<Dag>),
        form(
            json_of("v2_dag_details.json"),
            &["dag_id"],
            &[],
            read::<DagDetails>,
        ),
        form(
            json_of("v1_dag_details.json"),
            &["dag_id"],
            &[],
            read::<DagDetails>,
        ),
        form(
            first("v2_pools.json", "pools"),
            &["name", "slots"],
            &["include_deferred"],
            read::<Pool>,
        ),
        form(
            json_of("v2_backfill_paused.json"),
            backfill,
            &["completed_at"],
            read::<Backfill>,
        ),
        form(
            first("v2_backfill_dry_run.json", "backfills"),
            &[],
            &["logical_date", "partition_date"],
            read::<BackfillDay>,
        ),
        form(
            json_of("v2_health.json"),
            &["metadatabase", "scheduler"],
            &[],
            read::<Health>,
        ),
        form(
            first("v2_dag_stats.json", "dags"),
            &["dag_id", "stats"],
            &[],
            read::<DagStats>,
        ),
        form(
            first("v2_import_errors.json", "import_errors"),
            &[],
            &[],
            read::<ImportError>,
        ),
    ]
}

fn anything() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(2, 8, 3, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            proptest::collection::btree_map("[a-z_]{1,8}", inner, 0..3)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

fn fields(form: &Form) -> &Map<String, Value> {
    form.sample.as_object().unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn fields_that_are_new_gone_null_or_of_another_shape_are_no_obstacle(
        which in 0_usize..15,
        new in proptest::collection::btree_map("x_[a-z]{1,8}", anything(), 0..4),
        fate in proptest::collection::vec((0_usize..64, 0_u8..3, anything()), 0..8),
    ) {
        let form = &forms()[which];
        let mut document = fields(form).clone();
        let names: Vec<String> = document.keys().cloned().collect();
        for (at, change, value) in fate {
            let name = &names[at % names.len()];
            if form.core.contains(&name.as_str()) {
                continue;
            }
            match change {
                0 => { document.remove(name); }
                1 if *name != "include_deferred" => {
                    document.insert(name.clone(), Value::Null);
                }
                2 if !form.strict.contains(&name.as_str()) => { document.insert(name.clone(), value); }
                _ => {}
            }
        }
        document.extend(new);
        let document = Value::Object(document);
        let shown = document.to_string();
        prop_assert_eq!((form.read)(document), Ok(()), "{}", shown);
    }

    #[test]
    fn a_word_that_is_new_is_kept_as_it_came(word in "[a-z_]{1,20}", strange in anything()) {
        let run = |state: Value, kind: Value, by: Value| {
            let mut document = json_of("v2_dag_run_trigger.json");
            document["state"] = state;
            document["run_type"] = kind;
            document["triggered_by"] = by;
            serde_json::from_value::<Run>(document)
        };
        let known = run(json!(word), json!(word), json!(word)).unwrap();
        prop_assert_eq!(known.state.as_str(), word.as_str());
        prop_assert_eq!(known.kind.as_str(), word.as_str());
        prop_assert_eq!(known.triggered_by.as_ref().map(|t| t.as_str()), Some(word.as_str()));
        prop_assert!(run(strange.clone(), strange.clone(), strange.clone()).is_ok());
        let mut task = json_of("v2_task_instances_failed.json")["task_instances"][0].clone();
        task["state"] = json!(word);
        let task: TaskInstance = serde_json::from_value(task).unwrap();
        prop_assert_eq!(task.state.as_ref().map(|s| s.as_str()), Some(word.as_str()));
    }
}

#[test]
fn a_date_that_is_not_understood_is_never_taken_for_no_date() {
    for name in RUN_DATES {
        let mut document = json_of("v2_dag_run_trigger.json");
        document[*name] = json!("first of March");
        assert!(serde_json::from_value::<Run>(document).is_err(), "{name}");
    }
    let mut document = json_of("v2_backfill_paused.json");
    document["completed_at"] = json!(17);
    assert!(serde_json::from_value::<Backfill>(document).is_err());
}

#[test]
fn the_core_of_3_0_is_enough() {
    let run: Run = serde_json::from_value(json!({
        "dag_run_id": "r", "dag_id": "d", "logical_date": null, "queued_at": null, "start_date": null,
        "end_date": null, "data_interval_start": null, "data_interval_end": null, "run_after": "2026-01-01T00:00:00Z",
        "last_scheduling_decision": null, "run_type": "manual", "state": "success", "triggered_by": "ui",
        "conf": {}, "note": null, "dag_versions": [], "bundle_version": null,
    }))
    .unwrap();
    assert_eq!(
        (run.state, run.user, run.partition_key),
        (RunState::Success, None, None)
    );
}
