//! Checking the templates of a command before the first chunk needs them: a slip would otherwise fail every chunk.
//!
//! Templates without statements (`{% .. %}`) are also rendered once with sample values, so that an unknown filter is
//! found too. Statements can loop, so they are only parsed.

use super::{
    problem::{Report, nearest},
    read::Entry,
};
use crate::domain::text;
use minijinja::{Environment, UndefinedBehavior, Value};

/// What stands for itself in a command's template.
const PLAIN: [&str; 8] = [
    "ds",
    "ds_nodash",
    "data_interval_start",
    "data_interval_end",
    "attempt_id",
    "attempt",
    "backfill",
    "target",
];

/// The keys that `{{ source.* }}` and `{{ profile.* }}` may name.
pub(super) struct Names {
    /// Keys of the backfill's `source`.
    pub source: Vec<String>,
    /// Keys that every profile of the ladder has, its own limits included.
    pub profile: Vec<String>,
    /// Keys that only some profiles of the ladder have: they would fail the chunk that gets another one.
    pub some_profiles: Vec<String>,
}

impl Names {
    fn sample(&self) -> Value {
        let below = |keys: &[String]| Value::from_pairs(keys.iter().map(|k| (k.clone(), "1")));
        let tables = [("source", below(&self.source)), ("profile", below(&self.profile))];
        let plain = PLAIN.iter().map(|k| (*k, Value::from("1")));
        Value::from_pairs(plain.chain(tables))
    }

    fn all(&self) -> Vec<String> {
        let below = |table: &str, keys: &[String]| -> Vec<String> {
            keys.iter().map(|k| format!("{table}.{k}")).collect()
        };
        PLAIN
            .iter()
            .map(|k| (*k).to_owned())
            .chain(below("source", &self.source))
            .chain(below("profile", &self.profile))
            .collect()
    }
}

/// Checks one argument of a command. `true`: it will render.
pub(super) fn check(report: &mut Report<'_>, entry: &Entry<'_>, template: &str, names: &Names) -> bool {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    let parsed = match environment.template_from_str(template) {
        Ok(parsed) => parsed,
        Err(e) => {
            let why = e.detail().map_or_else(|| e.kind().to_string(), str::to_owned);
            let found = format!("a template that cannot be read ({})", text::one_line(&why, 80));
            entry.problem(report, found, "text with {{ NAME }} in it", "");
            return false;
        }
    };
    let known = names.all();
    let mut unknown: Vec<String> = parsed
        .undeclared_variables(true)
        .into_iter()
        .filter(|v| !known.contains(v))
        .collect();
    unknown.sort();
    for variable in &unknown {
        let some = variable.strip_prefix("profile.");
        if some.is_some_and(|k| names.some_profiles.iter().any(|s| s == k)) {
            let found = format!("{{{{ {variable} }}}}");
            let help = "only some of this backfill's profiles have it";
            entry.problem(report, found, "a key that each profile of the ladder has", help);
        } else {
            refuse(report, entry, variable, &known);
        }
    }
    if unknown.is_empty()
        && !template.contains("{%")
        && let Err(e) = parsed.render(names.sample())
    {
        let why = e.detail().map_or_else(|| e.kind().to_string(), str::to_owned);
        let found = format!(
            "a template that cannot be filled in ({})",
            text::one_line(&why, 80)
        );
        entry.problem(report, found, "text with {{ NAME }} in it", "");
        return false;
    }
    unknown.is_empty()
}

fn refuse(report: &mut Report<'_>, entry: &Entry<'_>, variable: &str, known: &[String]) {
    let near = nearest(variable, known.iter().map(String::as_str));
    let help = match near {
        _ if matches!(variable, "source" | "profile") => format!("write {{{{ {variable}.KEY }}}}"),
        Some(name) => format!("did you mean {{{{ {name} }}}}?"),
        None => format!("known are {}", known.join(", ")),
    };
    let found = format!("{{{{ {} }}}}", text::one_line(variable, 40));
    entry.problem(report, found, "a name that a command's template knows", help);
}
