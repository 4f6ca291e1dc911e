//! `check`: reads the configuration, reaches every endpoint, and says what is wrong and how to mend it.

mod login;

use super::{
    args::Global,
    context::{self, Done, Exit, print},
    gaps, partial,
};
use crate::{
    config::{
        AirflowConfig, CommandConfig, Config, ExecutorConfig, Places, SignalConfig, SourceConfig, Unit,
    },
    domain::{human, ids::Name, spec::Spec, text},
    executor::{
        airflow::{AirflowSetup, Survey, survey},
        template,
    },
    journal::{Journal, OpenError},
    net::{AdapterError, Cause},
    signals::{self, Part, Reading, command::longer_than},
    supervisor::glance,
};
use serde::Serialize;
use std::{
    path::{Path, PathBuf},
    time::Instant,
};

#[derive(Serialize)]
struct Finding {
    what: String,
    ok: bool,
    says: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    mend: String,
}

impl Finding {
    fn ok(what: impl Into<String>, says: impl Into<String>) -> Self {
        Self {
            what: what.into(),
            ok: true,
            says: says.into(),
            mend: String::new(),
        }
    }

    fn bad(what: impl Into<String>, says: impl Into<String>, mend: impl Into<String>) -> Self {
        Self {
            what: what.into(),
            ok: false,
            says: says.into(),
            mend: mend.into(),
        }
    }
}

/// The command. Exit code 0 if all is well, else 2.
pub fn check(global: &Global) -> Done {
    let config = context::config(global)?;
    let mut findings = vec![
        Finding::ok("config", config.path.display().to_string()),
        journal(&config),
    ];
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    findings.extend(runtime.block_on(signals_of(&config)));
    findings.extend(runtime.block_on(servers(&config)));
    for backfill in config.backfills.values() {
        if backfill.spec.dag.is_none() {
            findings.push(command(&backfill.spec));
        }
        findings.push(templates(&backfill.spec));
        findings.extend(partial::of(&backfill.spec).into_iter().map(|p| {
            Finding {
                mend: "its partition would be rewritten from these days alone; leave it so if that is meant"
                    .to_owned(),
                ..Finding::ok(format!("range of {}", backfill.spec.name), p.text)
            }
        }));
        findings.extend(gaps::of(&backfill.spec, chrono::Utc::now()).map(|text| Finding {
            mend: "see docs/throttle.md, blackouts".to_owned(),
            ..Finding::ok(format!("blackouts of {}", backfill.spec.name), text)
        }));
        findings.extend(secrets(&config, &backfill.spec));
    }
    let bad = findings.iter().filter(|f| !f.ok).count();
    print(
        global.json,
        &serde_json::json!({ "ok": bad == 0, "findings": findings }),
        || words(&findings),
    )?;
    if bad == 0 { Ok(()) } else { Err(Exit::code(2)) }
}

fn words(findings: &[Finding]) -> String {
    let lines = findings.iter().map(|f| {
        let word = match (f.ok, f.mend.is_empty()) {
            (false, _) => "BAD ",
            (true, true) => "ok  ",
            (true, false) => "note",
        };
        let mend = if f.mend.is_empty() {
            String::new()
        } else {
            format!("\n         {}", f.mend)
        };
        format!("{word} {}: {}{mend}", f.what, f.says)
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Looks at the journal or at the place where it would be made, and makes nothing.
fn journal(config: &Config) -> Finding {
    let path = &config.journal.path;
    let options = context::options(config);
    let place = text::clean(&path.display().to_string());
    let opened = Journal::could_be_at(path, &options).and_then(|()| Journal::open_read_only(path, options));
    let journal = match opened {
        Ok(journal) => journal,
        Err(OpenError::Missing { .. }) => {
            return Finding::ok(
                "journal",
                format!("nothing has been run here yet; it will be made at {place}"),
            );
        }
        Err(OpenError::Older { .. }) => {
            return Finding::ok("journal", format!("{place}, brought up to date by the next run"));
        }
        Err(error) => {
            return Finding::bad(
                "journal",
                error.to_string(),
                "it has to be on a local disk of this host that this user may write to",
            );
        }
    };
    if let Err(error) = journal.verify() {
        return Finding::bad(
            "journal",
            error.to_string(),
            "restore it from a copy, or move it away; nothing is written to a damaged journal",
        );
    }
    match glance::room(&journal, config) {
        Some(room) if room.is_low() => Finding::bad(
            "journal",
            format!("{} free beside {place}", human::bytes(room.free)),
            "make room: below the floor nothing starts",
        ),
        _ => Finding::ok("journal", place),
    }
}

async fn signals_of(config: &Config) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (name, signal) in &config.signals {
        let what = format!("signal {name}");
        findings.extend(written_query(name, &signal.source));
        let begun = Instant::now();
        let reading = match signals::build(name, signal) {
            Ok(reader) => reader.read().await,
            Err(error) => Reading::Failed(error),
        };
        findings.push(match reading {
            Reading::Value {
                value,
                age,
                skew_ms,
                parts,
            } => {
                let worst = Part::worst(&parts).map_or(String::new(), |(name, _)| format!(" ({name})"));
                let skew = skew_ms
                    .filter(|s| s.abs() > 5000)
                    .map_or(String::new(), |s| format!("; its clock is {} s off", s / 1000));
                let notes: String = parts
                    .iter()
                    .filter(|p| !p.note.is_empty())
                    .map(|p| format!("; {}: {}", p.name, p.note))
                    .collect();
                let value = shown(value, signal.unit);
                Finding::ok(
                    what,
                    format!("{value}{worst}, {} old{skew}{notes}", human::age(age)),
                )
            }
            Reading::NoSample { why, .. } => {
                Finding::bad(what, format!("no sample: {why}"), way_out(&signal.source))
            }
            Reading::Failed(error) => Finding::bad(what, error.nameless(), unreachable(name, signal, &error)),
        });
        // One that was killed has said so.
        if let (SourceConfig::Command(source), Some(Finding { ok: true, .. })) =
            (&signal.source, findings.last())
            && begun.elapsed() > signal.interval
        {
            let took = human::lag_seconds(begun.elapsed().as_secs_f64());
            findings.push(Finding::bad(
                format!("interval of {name}"),
                format!("it took {took}: {}", longer_than(signal.interval)),
                longer(name, source),
            ));
        }
    }
    findings
}

/// What to do about a program that takes too long.
fn longer(name: &Name, source: &CommandConfig) -> String {
    format!(
        "make interval and deadline in [signals.{name}] longer than it takes, or the program faster; {}",
        by_hand(source)
    )
}

/// What a preset asks, for whoever wants to see it in the source's own screen.
fn written_query(name: &Name, source: &SourceConfig) -> Option<Finding> {
    let SourceConfig::Prometheus(source) = source else {
        return None;
    };
    let word = source.preset.as_ref()?.preset.word();
    Some(Finding::ok(
        format!("query of {name}"),
        format!("{word} asks {}", source.query),
    ))
}

/// What to do about a source that does not answer, or refuses.
fn unreachable(name: &Name, signal: &SignalConfig, error: &AdapterError) -> String {
    let http = match &signal.source {
        SourceConfig::Command(source) if error.cause == Cause::Timeout => return longer(name, source),
        SourceConfig::Command(source) => return by_hand(source),
        SourceConfig::Prometheus(source) => Some(&source.http),
        SourceConfig::Alertmanager(source) => Some(&source.http),
        SourceConfig::Burrow(source) => Some(&source.http),
        SourceConfig::Kafka(_) | SourceConfig::CloudWatch(_) => None,
    };
    http.and_then(|http| login::mend(name, http, error.cause))
        .unwrap_or_else(|| {
            format!(
                "look at {} in [signals.{name}], and whether it answers from this host",
                place(&signal.source)
            )
        })
}

fn by_hand(source: &CommandConfig) -> String {
    let word = |word: &String| {
        let plain = |c: char| c.is_alphanumeric() || "_-./:=,@%+".contains(c);
        if !word.is_empty() && word.chars().all(plain) {
            word.clone()
        } else {
            format!("'{}'", word.replace('\'', "'\\''"))
        }
    };
    let words: Vec<String> = source.command.iter().map(word).collect();
    text::clean(&format!(
        "run it by hand in {}, as this user: {}",
        source.folder.display(),
        words.join(" ")
    ))
}

/// A value for people. Of alerts only whether they fire counts.
fn shown(value: f64, unit: Unit) -> String {
    match unit {
        Unit::Alerts if value == 0.0 => "quiet".to_owned(),
        Unit::Alerts => "firing".to_owned(),
        Unit::Messages | Unit::Seconds => value.to_string(),
    }
}

/// The keys that say where a source is.
const fn place(source: &SourceConfig) -> &'static str {
    match source {
        SourceConfig::Kafka(_) => "brokers, tls and sasl",
        SourceConfig::Prometheus(_) | SourceConfig::Alertmanager(_) | SourceConfig::Burrow(_) => "url",
        SourceConfig::CloudWatch(_) => "region, endpoint and the keys",
        SourceConfig::Command(_) => "command",
    }
}

/// What to do about a source that answers without a number.
fn way_out(source: &SourceConfig) -> String {
    match source {
        SourceConfig::Kafka(_) => "compare with kafka-consumer-groups.sh --describe; the user needs Describe on the groups and topics".to_owned(),
        SourceConfig::Prometheus(source) => format!("try the query in Prometheus itself: {}", source.query),
        SourceConfig::Alertmanager(source) => format!(
            "look at {}/#/alerts: all members have to answer, and the watchdog has to be in the list",
            source.http.url
        ),
        SourceConfig::Burrow(source) => format!(
            "look at what Burrow itself says: {}/v3/kafka/{}/consumer",
            source.http.url, source.cluster
        ),
        SourceConfig::CloudWatch(_) => "look for the metric in CloudWatch, namespace AWS/Kinesis: a stream that nobody reads has no iterator age".to_owned(),
        SourceConfig::Command(source) => by_hand(source),
    }
}

/// Whether the command's program is there and can be run.
fn command(spec: &Spec) -> Finding {
    let what = format!("backfill {}", spec.name);
    let Some(program) = spec.command.first() else {
        return Finding::bad(what, "no command", "give command = [\"./job.sh\", \"{{ ds }}\"]");
    };
    if program.contains("{{") {
        return Finding::ok(what, "its program depends on the chunk");
    }
    match resolve(program, Path::new(&spec.cwd)) {
        Some(path) => Finding::ok(what, format!("runs {}", path.display())),
        None => Finding::bad(
            what,
            format!("cannot run {program} in {}", spec.cwd),
            "check that the file is there and executable (chmod +x), or that PATH holds it",
        ),
    }
}

fn resolve(program: &str, cwd: &Path) -> Option<PathBuf> {
    if program.contains('/') {
        return Some(cwd.join(program)).filter(|p| executable(p));
    }
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|dir| dir.join(program))
        .find(|p| executable(p))
}

fn executable(path: &Path) -> bool {
    path.is_file() && rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok()
}

/// Reaches the servers among the executors, and looks at the DAGs that backfills run there.
async fn servers(config: &Config) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (name, executor) in &config.executors {
        let ExecutorConfig::Airflow(server) = executor else {
            continue;
        };
        let specs = config
            .backfills
            .values()
            .map(|b| &b.spec)
            .filter(|s| s.executor == *name);
        let wanted: Vec<(&Name, String)> = specs
            .filter_map(|s| Some((&s.name, s.dag.as_ref()?.id.clone())))
            .collect();
        let dags = wanted.iter().map(|(_, dag)| dag.clone()).collect();
        let state = Places::of(&config.journal.path).state;
        let setup = AirflowSetup::new(name, server, &state, dags);
        match survey(setup).await {
            Ok(found) => findings.extend(of_survey(name, server, &wanted, &found)),
            Err(error) => findings.push(Finding::bad(
                format!("executor {name}"),
                error.nameless(),
                format!("look at url and auth in [executors.{name}], and whether it answers from this host"),
            )),
        }
    }
    findings
}

fn of_survey(
    name: &Name,
    server: &AirflowConfig,
    wanted: &[(&Name, String)],
    found: &Survey,
) -> Vec<Finding> {
    let what = format!("executor {name}");
    let environment = server
        .environment
        .as_deref()
        .map_or(String::new(), |e| format!(" ({e})"));
    let version = format!("Airflow {}{environment}", text::one_line(&found.version, 40));
    let mut findings = vec![match &found.unwell {
        None => Finding::ok(&what, version),
        Some(why) => Finding::bad(
            &what,
            format!("{version}: {why}"),
            "start the scheduler of that server",
        ),
    }];
    if let Some(broken) = found.import_errors.as_ref().filter(|b| !b.is_empty()) {
        findings.push(Finding {
            mend: "DAGs in these files do not run until they are mended".to_owned(),
            ..Finding::ok(&what, format!("import errors: {}", broken.join("; ")))
        });
    }
    findings.extend(wanted.iter().zip(&found.dags).map(|((backfill, _), dag)| {
        let what = format!("backfill {backfill}");
        match &dag.found {
            Ok(how) => Finding::ok(what, format!("runs the DAG {}: {how}", dag.id)),
            Err(why) => Finding::bad(
                what,
                format!("the DAG {}: {why}", dag.id),
                "look at it on the server: its id, its switch, its file",
            ),
        }
    }));
    findings
}

fn templates(spec: &Spec) -> Finding {
    let kind = if spec.dag.is_some() { "conf" } else { "command" };
    let what = format!("{kind} of {}", spec.name);
    match template::check(spec) {
        Ok(()) => Finding::ok(what, "its templates can be filled in"),
        Err(error) => Finding::bad(
            what,
            error,
            "see config.toml.example for the names that templates know",
        ),
    }
}

fn secrets(config: &Config, spec: &Spec) -> Vec<Finding> {
    let Some(backfill) = config.backfills.get(&spec.name) else {
        return Vec::new();
    };
    let resolve = |(name, source): (&String, &crate::config::secret::SecretSource)| {
        let what = format!("secret {name} of {}", spec.name);
        match source.resolve() {
            Ok(_) => Finding::ok(what, "can be read"),
            Err(error) => Finding::bad(what, error.to_string(), "make it readable for this user"),
        }
    };
    backfill.secrets.iter().map(resolve).collect()
}
