//! Turning the templates of a command into arguments, those of a DAG's `conf` into parameters, and the same values into
//! `BACKFILL_*` variables.
//!
//! A name that is not known is an error that says which name and which argument, never an empty text: an empty date
//! in what overwrites partitions is the worst of all dates.

use crate::{
    domain::{
        Time,
        calendar::{cut, start_of_day},
        ids::{AttemptId, BackfillId, ChunkId},
        spec::{Dag, Profile, Spec},
        text,
    },
    executor::RunOrder,
};
use minijinja::{
    Environment, ErrorKind, UndefinedBehavior, Value,
    syntax::SyntaxConfig,
    value::{Enumerator, Object},
};
use serde_json::{Map, Value as Json};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

/// The command's arguments, program first.
///
/// # Errors
/// In words, with the argument's position and the name that is not known.
pub fn command(order: &RunOrder) -> Result<Vec<String>, String> {
    render(&order.spec, values_of(order))
}

/// The parameters of a DAG's run, as the user gave them.
///
/// # Errors
/// In words, with the place in `conf` and the name that is not known.
pub fn conf(order: &RunOrder, dag: &Dag) -> Result<Map<String, Json>, String> {
    render_conf(dag, values_of(order))
}

fn values_of(order: &RunOrder) -> BTreeMap<String, String> {
    values(
        &order.attempt,
        &order.spec,
        &order.profile,
        order.start,
        order.end,
    )
}

/// The `BACKFILL_*` variables of an attempt.
pub fn variables(order: &RunOrder) -> BTreeMap<String, String> {
    let values = values_of(order);
    let mut variables: BTreeMap<String, String> = values
        .iter()
        .map(|(name, value)| (variable(name), value.clone()))
        .collect();
    variables.insert("BACKFILL_ID".to_owned(), order.attempt.backfill.to_string());
    variables.insert("BACKFILL_CHUNK".to_owned(), order.attempt.chunk.to_string());
    variables
}

/// Whether the spec's command or its DAG's `conf` can be rendered for its first chunk with each of its profiles, and whether the names
/// of its variables can stand. For the check of a configuration.
///
/// # Errors
/// In words, what is wrong.
pub fn check(spec: &Spec) -> Result<(), String> {
    if spec.command.is_empty() && spec.dag.is_none() {
        return Err("the command is empty: give the program and its arguments as a list".to_owned());
    }
    let backfill = BackfillId::new(&spec.name, 0);
    let midnight = start_of_day(spec.timezone, spec.start);
    let (chunk, start, end) = cut(spec.timezone, spec.start, spec.start, spec.granularity)
        .first()
        .map_or((ChunkId::day(spec.start), midnight, midnight), |(id, i)| {
            (*id, i.start, i.end)
        });
    let attempt = AttemptId {
        backfill,
        chunk,
        no: 1,
    };
    for profile in &spec.profiles {
        let values = values(&attempt, spec, profile, start, end);
        let rendered = match &spec.dag {
            Some(dag) => render_conf(dag, values).map(drop),
            None => render(spec, values).map(drop),
        };
        rendered.map_err(|e| format!("{e} (profile `{}`)", profile.name))?;
        let own = ["name", "memory", "deadline"];
        no_collisions(
            "profile",
            own.into_iter().chain(profile.values.keys().map(String::as_str)),
        )?;
    }
    no_collisions("source", spec.source.keys().map(String::as_str))?;
    let own = spec.env.keys().chain(&spec.env_secrets).chain(&spec.env_pass);
    own.map(String::as_str).try_for_each(variable_can_stand)
}

/// Two keys that give one variable would hide each other.
fn no_collisions<'a>(table: &str, keys: impl Iterator<Item = &'a str>) -> Result<(), String> {
    let mut seen: BTreeMap<String, &str> = BTreeMap::new();
    for key in keys {
        if let Some(other) = seen.insert(variable(&format!("{table}.{key}")), key) {
            return Err(format!(
                "`{table}.{other}` and `{table}.{key}` give the same variable"
            ));
        }
    }
    Ok(())
}

/// Whether a variable may have this name in the environment of a command.
///
/// # Errors
/// In words, why not.
pub fn variable_can_stand(name: &str) -> Result<(), String> {
    if name.is_empty() || name.contains(['=', '\0']) {
        return Err(format!(
            "`{}` cannot be the name of a variable",
            text::clean(name)
        ));
    }
    if name.starts_with("BACKFILL_") {
        return Err(format!(
            "`{}`: names that start with BACKFILL_ are set by backfill itself",
            text::clean(name)
        ));
    }
    Ok(())
}

/// `source.path` is `BACKFILL_SOURCE_PATH`.
fn variable(name: &str) -> String {
    let upper = name.chars().map(|c| {
        if c.is_ascii_alphanumeric() {
            c.to_ascii_uppercase()
        } else {
            '_'
        }
    });
    "BACKFILL_".chars().chain(upper).collect()
}

/// Every value under its name in templates. Instants are RFC 3339 with the offset of the backfill's zone.
fn values(
    attempt: &AttemptId,
    spec: &Spec,
    profile: &Profile,
    start: Time,
    end: Time,
) -> BTreeMap<String, String> {
    let instant = |t: Time| t.with_timezone(&spec.timezone).to_rfc3339();
    let date = attempt.chunk.date;
    let mut values = BTreeMap::from([
        ("ds".to_owned(), date.format("%Y-%m-%d").to_string()),
        ("ds_nodash".to_owned(), date.format("%Y%m%d").to_string()),
        ("data_interval_start".to_owned(), instant(start)),
        ("data_interval_end".to_owned(), instant(end)),
        ("attempt_id".to_owned(), attempt.to_string()),
        ("attempt".to_owned(), attempt.no.to_string()),
        ("backfill".to_owned(), spec.name.to_string()),
        ("target".to_owned(), spec.target.clone()),
        ("profile.name".to_owned(), profile.name.to_string()),
    ]);
    if let Some(memory) = profile.memory {
        values.insert("profile.memory".to_owned(), memory.to_string());
    }
    if let Some(deadline) = profile.deadline_ms {
        values.insert("profile.deadline".to_owned(), (deadline / 1000).to_string());
    }
    for (key, value) in &profile.values {
        values.insert(format!("profile.{key}"), value.clone());
    }
    for (key, value) in &spec.source {
        values.insert(format!("source.{key}"), value.clone());
    }
    values
}

fn render(spec: &Spec, values: BTreeMap<String, String>) -> Result<Vec<String>, String> {
    let renderer = Renderer::new(values)?;
    let mut arguments = Vec::with_capacity(spec.command.len());
    for (at, source) in spec.command.iter().enumerate() {
        let which = if at == 0 {
            "the program".to_owned()
        } else {
            format!("argument {at}")
        };
        let wrong = |what: String| {
            format!(
                "{which} of the command (`{}`): {what}",
                text::one_line(source, 80)
            )
        };
        let argument = renderer.text(source).map_err(wrong)?;
        if argument.contains('\0') {
            return Err(wrong("a NUL character cannot be part of an argument".to_owned()));
        }
        if at == 0 && argument.is_empty() {
            return Err(wrong("is empty".to_owned()));
        }
        arguments.push(argument);
    }
    if arguments.is_empty() {
        return Err("the command is empty".to_owned());
    }
    Ok(arguments)
}

fn render_conf(dag: &Dag, values: BTreeMap<String, String>) -> Result<Map<String, Json>, String> {
    let renderer = Renderer::new(values)?;
    dag.conf
        .iter()
        .map(|(key, value)| Ok((key.clone(), renderer.json(&format!("conf.{key}"), value)?)))
        .collect()
}

/// The template machine with the names of one attempt.
struct Renderer {
    environment: Environment<'static>,
    context: Value,
    values: Arc<BTreeMap<String, String>>,
    missed: Missed,
}

impl Renderer {
    fn new(values: BTreeMap<String, String>) -> Result<Self, String> {
        let (values, missed) = (Arc::new(values), Missed::default());
        let context = Value::from_object(Scope {
            prefix: String::new(),
            values: Arc::clone(&values),
            missed: Arc::clone(&missed),
        });
        let mut environment = Environment::new();
        environment.set_undefined_behavior(UndefinedBehavior::Strict);
        let syntax = SyntaxConfig::builder().keep_trailing_newline(true).build();
        environment.set_syntax(syntax.map_err(|e| e.to_string())?);
        Ok(Self {
            environment,
            context,
            values,
            missed,
        })
    }

    fn text(&self, source: &str) -> Result<String, String> {
        // Most texts are plain; they need no template machine.
        if !source.contains('{') {
            return Ok(source.to_owned());
        }
        self.environment
            .render_str(source, self.context.clone())
            .map_err(|e| in_words(&e, &self.missed, &self.values))
    }

    /// Every text in a value; keys stay as they are.
    fn json(&self, place: &str, value: &Json) -> Result<Json, String> {
        Ok(match value {
            Json::String(source) => {
                let wrong = |what| format!("{place} (`{}`): {what}", text::one_line(source, 80));
                Json::String(self.text(source).map_err(wrong)?)
            }
            Json::Array(items) => items
                .iter()
                .enumerate()
                .map(|(i, item)| self.json(&format!("{place}[{i}]"), item))
                .collect::<Result<_, _>>()?,
            Json::Object(fields) => fields
                .iter()
                .map(|(key, inner)| Ok((key.clone(), self.json(&format!("{place}.{key}"), inner)?)))
                .collect::<Result<Map<_, _>, String>>()?
                .into(),
            plain => plain.clone(),
        })
    }
}

fn in_words(error: &minijinja::Error, missed: &Missed, values: &BTreeMap<String, String>) -> String {
    let name = missed.lock().unwrap_or_else(PoisonError::into_inner).clone();
    if error.kind() == ErrorKind::UndefinedError
        && let Some(name) = name
    {
        let known: Vec<&str> = values.keys().map(String::as_str).collect();
        return format!(
            "`{}` is not known; known are {}",
            text::clean(&name),
            known.join(", ")
        );
    }
    text::one_line(&error.to_string(), 200)
}

/// The last name that was asked for and is not there.
type Missed = Arc<Mutex<Option<String>>>;

/// The root of all names, or `source` or `profile`. It remembers what was asked for in vain, because the template
/// machine's own error does not say it.
#[derive(Debug)]
struct Scope {
    prefix: String,
    values: Arc<BTreeMap<String, String>>,
    missed: Missed,
}

impl Object for Scope {
    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        let key = key.as_str()?;
        let name = format!("{}{key}", self.prefix);
        if let Some(value) = self.values.get(&name) {
            return Some(Value::from(value.as_str()));
        }
        if self.prefix.is_empty() && matches!(key, "source" | "profile") {
            return Some(Value::from_object(Self {
                prefix: format!("{key}."),
                values: Arc::clone(&self.values),
                missed: Arc::clone(&self.missed),
            }));
        }
        *self.missed.lock().unwrap_or_else(PoisonError::into_inner) = Some(name);
        None
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::NonEnumerable
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{
        calendar::Granularity,
        ids::Name,
        spec::{OnFailure, Order, Throttling},
    };
    use chrono::NaiveDate;

    fn profile(name: &str) -> Profile {
        Profile {
            name: name.parse().unwrap(),
            memory: Some(512 << 20),
            deadline_ms: Some(1_800_000),
            values: BTreeMap::from([("cores".to_owned(), "4".to_owned())]),
        }
    }

    fn spec(command: &[&str]) -> Spec {
        let date = NaiveDate::from_ymd_opt(2025, 10, 26).unwrap();
        let name: Name = "orders".parse().unwrap();
        Spec {
            name: name.clone(),
            target: "datamart.orders".to_owned(),
            environment: None,
            start: date,
            end: date,
            granularity: Granularity::Hour,
            timezone: chrono_tz::Europe::Berlin,
            executor: name,
            command: command.iter().map(|c| (*c).to_owned()).collect(),
            dag: None,
            attach: None,
            cwd: "/".to_owned(),
            env_pass: Vec::new(),
            env: BTreeMap::new(),
            env_secrets: Vec::new(),
            max_limit: 1,
            order: Order::OldestFirst,
            signals: Vec::new(),
            on_failure: OnFailure::Continue,
            profiles: vec![profile("default")],
            lanes: BTreeMap::new(),
            source: BTreeMap::from([("path".to_owned(), "s3://raw".to_owned())]),
            idempotent: true,
            throttling: Throttling::default(),
            blackout: Vec::new(),
        }
    }

    /// The second of the two hours that are called 02 on the day when clocks fall back.
    fn order(command: &[&str]) -> RunOrder {
        let spec = spec(command);
        let hours = cut(spec.timezone, spec.start, spec.end, spec.granularity);
        let (chunk, interval) = hours[3];
        RunOrder {
            attempt: AttemptId {
                backfill: BackfillId::new(&spec.name, 0),
                chunk,
                no: 7,
            },
            profile: spec.profiles[0].clone(),
            spec: Arc::new(spec),
            start: interval.start,
            end: interval.end,
            secrets: BTreeMap::new(),
            taking: None,
            epoch: 1,
        }
    }

    fn rendered(template: &str) -> String {
        command(&order(&["x", template])).unwrap().remove(1)
    }

    /// Cases B05 and B07: instants carry their offset, also in the hour that happens twice.
    #[test]
    fn every_name_has_its_value_and_instants_carry_the_offset_of_the_zone() {
        for (template, value) in [
            ("{{ ds }}", "2025-10-26"),
            ("dt={{ds_nodash}}", "dt=20251026"),
            ("{{ data_interval_start }}", "2025-10-26T02:00:00+01:00"),
            ("{{ data_interval_end }}", "2025-10-26T03:00:00+01:00"),
            ("{{ attempt_id }}", "orders-aaaaaa/2025-10-26T02+0100/7"),
            ("{{ attempt }}", "7"),
            ("{{ backfill }}:{{ target }}", "orders:datamart.orders"),
            ("{{ source.path }}/{{ source['path'] }}", "s3://raw/s3://raw"),
            (
                "{{ profile.name }} {{ profile.memory }} {{ profile.deadline }} {{ profile.cores }}",
                "default 536870912 1800 4",
            ),
            ("a {b} } line\n", "a {b} } line\n"),
            ("{{ ds }}\n", "2025-10-26\n"),
        ] {
            assert_eq!(rendered(template), value);
        }
    }

    #[test]
    fn an_unknown_name_is_an_error_that_says_which_and_where() {
        let error = |template: &str| command(&order(&["x", "ok", template])).unwrap_err();
        for (template, name) in [
            ("{{ dss }}", "`dss` is not known; known are attempt, "),
            ("{{ source.pth }}", "`source.pth` is not known"),
            ("{{ profile.gpus }}", "`profile.gpus` is not known"),
            ("{% if nope %}x{% endif %}", "`nope` is not known"),
            ("{{ env.HOME }}", "`env` is not known"),
        ] {
            let error = error(template);
            assert!(error.starts_with("argument 2 of the command"), "{error}");
            assert!(error.contains(name), "{error}");
        }
        assert!(
            error("{{ ds").starts_with("argument 2 of the command (`{{ ds`): syntax error"),
            "{}",
            error("{{ ds")
        );
    }

    #[test]
    fn the_check_finds_what_would_fail_at_run_time() {
        assert_eq!(check(&spec(&["./job.sh", "{{ ds }}"])), Ok(()));
        assert!(check(&spec(&[])).unwrap_err().starts_with("the command is empty"));
        assert!(
            check(&spec(&["{{ source.path[9:] }}"]))
                .unwrap_err()
                .starts_with("the program")
        );
        let mut two = spec(&["x", "{{ profile.cores }}"]);
        two.profiles.push(Profile {
            values: BTreeMap::new(),
            ..profile("large")
        });
        let error = check(&two).unwrap_err();
        assert!(
            error.contains("`profile.cores`") && error.ends_with("(profile `large`)"),
            "{error}"
        );
        let collides = BTreeMap::from([
            ("a-b".to_owned(), String::new()),
            ("a_b".to_owned(), String::new()),
        ]);
        assert!(
            check(&Spec {
                source: collides,
                ..spec(&["x"])
            })
            .unwrap_err()
            .contains("same variable")
        );
        for name in ["BACKFILL_DS", "", "A=B", "A\0"] {
            let env = BTreeMap::from([(name.to_owned(), String::new())]);
            assert!(check(&Spec { env, ..spec(&["x"]) }).is_err(), "{name:?}");
        }
    }

    #[test]
    fn the_variables_are_the_names_in_capitals() {
        let variables = variables(&order(&["x"]));
        for (name, value) in [
            ("BACKFILL_DS", "2025-10-26"),
            ("BACKFILL_ATTEMPT_ID", "orders-aaaaaa/2025-10-26T02+0100/7"),
            ("BACKFILL_BACKFILL", "orders"),
            ("BACKFILL_ID", "orders-aaaaaa"),
            ("BACKFILL_CHUNK", "2025-10-26T02+0100"),
            ("BACKFILL_SOURCE_PATH", "s3://raw"),
            ("BACKFILL_PROFILE_CORES", "4"),
        ] {
            assert_eq!(variables.get(name).map(String::as_str), Some(value), "{name}");
        }
    }

    #[test]
    fn the_texts_of_a_conf_are_templates_wherever_they_stand_and_the_rest_stays_as_it_is() {
        let dag = Dag {
            id: "events_daily".to_owned(),
            conf: serde_json::from_value(serde_json::json!({
                "force": true, "n": 3, "day": "{{ ds }}",
                "deep": [{"memory": "{{ profile.memory }}", "{{ ds }}": null}],
            }))
            .unwrap(),
            pool: None,
        };
        assert_eq!(
            Json::Object(conf(&order(&[]), &dag).unwrap()),
            serde_json::json!({
                "force": true, "n": 3, "day": "2025-10-26",
                "deep": [{"memory": "536870912", "{{ ds }}": null}],
            })
        );
        let wrong = Dag {
            conf: serde_json::from_value(serde_json::json!({"a": {"b": ["", "{{ dss }}"]}})).unwrap(),
            ..dag.clone()
        };
        let error = conf(&order(&[]), &wrong).unwrap_err();
        assert!(
            error.starts_with("conf.a.b[1] (`{{ dss }}`): `dss` is not known; known are attempt, "),
            "{error}"
        );
        let spec = |dag| Spec {
            dag: Some(dag),
            ..spec(&[])
        };
        assert_eq!(check(&spec(dag)), Ok(()));
        assert!(check(&spec(wrong)).unwrap_err().ends_with("(profile `default`)"));
    }
}
