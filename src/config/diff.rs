//! What changed between two configurations, and between a started order and its configuration now, in lines for
//! people. No line holds a secret, nor where one comes from.

use super::{
    AirflowAuth, AirflowConfig, AlertmanagerConfig, BackfillConfig, BurrowConfig, CloudWatchConfig,
    CommandConfig, Config, ExecutorConfig, HttpAuth, HttpConfig, KafkaConfig, KafkaSasl, Matcher,
    PrometheusConfig, SignalConfig, SourceConfig, Unit, Written, tuning,
};
use crate::domain::{
    blackout::Blackout,
    human,
    ids::Name,
    spec::{Dag, LaneDays, OnFailure, Order, Profile, Spec, Throttling},
    text,
};
use sha2::{Digest, Sha256};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Display,
    fmt::Write as _,
    path::{Path, PathBuf},
};

/// Lines such as `signals.orders.soft 50000 to 60000`, in the order of the file's sections.
pub(super) fn configs(old: &Config, new: &Config) -> Vec<String> {
    let mut lines = Lines::default();
    lines.tables("executors", &old.executors, &new.executors, executor);
    lines.tables("signals", &old.signals, &new.signals, signal);
    lines.tables("backfills", &old.backfills, &new.backfills, backfill);
    let moved = " (only after a restart)";
    let (from, to) = (shown(&old.journal.path), shown(&new.journal.path));
    if from != to {
        lines.0.push(format!("journal.path {from} to {to}{moved}"));
    }
    if old.journal.group != new.journal.group {
        let (from, to) = (or_none(&old.journal.group), or_none(&new.journal.group));
        lines.0.push(format!("journal.group {from} to {to}{moved}"));
    }
    lines.0.extend(tuning::difference(&old.tuning, &new.tuning));
    lines.value(
        "screen.theme",
        or_none(&old.screen.theme),
        or_none(&new.screen.theme),
    );
    lines.value(
        "screen.glyphs",
        or_none(&old.screen.glyphs),
        or_none(&new.screen.glyphs),
    );
    lines.0.into_iter().map(|l| text::clean(&l)).collect()
}

#[derive(Default)]
struct Lines(Vec<String>);

impl Lines {
    /// A value that may be shown.
    fn value(&mut self, key: &str, old: impl Display, new: impl Display) {
        let (old, new) = (old.to_string(), new.to_string());
        if old != new {
            self.0.push(format!("{key} {old} to {new}"));
        }
    }

    /// A value that is too long to be shown, or that must not be.
    fn changed<T: PartialEq>(&mut self, key: &str, old: &T, new: &T) {
        if old != new {
            self.0.push(format!("{key} changed"));
        }
    }

    fn tables<T>(
        &mut self,
        kind: &str,
        old: &BTreeMap<Name, T>,
        new: &BTreeMap<Name, T>,
        both: impl Fn(&mut Self, &str, &T, &T),
    ) {
        for (name, before) in old {
            match new.get(name) {
                Some(after) => both(self, &format!("{kind}.{name}"), before, after),
                None => self.0.push(format!("{kind}.{name} removed")),
            }
        }
        let added = new.keys().filter(|n| !old.contains_key(*n));
        self.0.extend(added.map(|n| format!("{kind}.{n} added")));
    }
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

fn or_none<T: Display>(value: &Option<T>) -> String {
    value
        .as_ref()
        .map_or_else(|| "none".to_owned(), ToString::to_string)
}

fn executor(lines: &mut Lines, key: &str, old: &ExecutorConfig, new: &ExecutorConfig) {
    match (old, new) {
        (ExecutorConfig::Local { slots: a }, ExecutorConfig::Local { slots: b }) => {
            lines.value(&format!("{key}.slots"), a, b);
        }
        (ExecutorConfig::Airflow(a), ExecutorConfig::Airflow(b)) => airflow(lines, key, a, b),
        _ => lines.value(&format!("{key}.kind"), kind(old), kind(new)),
    }
}

const fn kind(executor: &ExecutorConfig) -> &'static str {
    match executor {
        ExecutorConfig::Local { .. } => "local",
        ExecutorConfig::Airflow(_) => "airflow",
    }
}

fn airflow(lines: &mut Lines, key: &str, old: &AirflowConfig, new: &AirflowConfig) {
    // Named one by one, so that a new field cannot be forgotten here.
    let AirflowConfig {
        url,
        auth,
        headers,
        plain_headers,
        ca_file,
        environment,
        request_budget,
        slots,
        interval,
    } = old;
    lines.value(&format!("{key}.url"), url, &new.url);
    let way = |auth: &AirflowAuth| {
        let word = match auth {
            AirflowAuth::None => "none",
            AirflowAuth::Password { .. } => "user and password",
            AirflowAuth::Token(_) => "token",
            AirflowAuth::Basic { .. } => "basic",
        };
        word.to_owned()
    };
    lines.changed_words(&format!("{key} login"), auth, &new.auth, way);
    let after = (&new.headers, &new.plain_headers);
    lines.changed(&format!("{key}.headers"), &(headers, plain_headers), &after);
    let ca = |ca: &Option<PathBuf>| or_none(&ca.as_deref().map(shown));
    lines.value(&format!("{key}.ca_file"), ca(ca_file), ca(&new.ca_file));
    lines.value(
        &format!("{key}.environment"),
        or_none(environment),
        or_none(&new.environment),
    );
    lines.value(
        &format!("{key}.request_budget"),
        request_budget,
        new.request_budget,
    );
    lines.value(&format!("{key}.slots"), or_none(slots), or_none(&new.slots));
    let time = human::exact_duration;
    lines.value(&format!("{key}.interval"), time(*interval), time(new.interval));
}

fn signal(lines: &mut Lines, key: &str, old: &SignalConfig, new: &SignalConfig) {
    let unit = |u: Unit| match u {
        Unit::Messages => "messages",
        Unit::Seconds => "seconds",
        Unit::Alerts => "alerts",
    };
    let role = |protects| if protects { "protect" } else { "advise" };
    match (&old.source, &new.source) {
        (SourceConfig::Kafka(a), SourceConfig::Kafka(b)) => kafka(lines, key, a, b),
        (SourceConfig::Prometheus(a), SourceConfig::Prometheus(b)) => prometheus(lines, key, a, b),
        (SourceConfig::Alertmanager(a), SourceConfig::Alertmanager(b)) => alertmanager(lines, key, a, b),
        (SourceConfig::Burrow(a), SourceConfig::Burrow(b)) => burrow(lines, key, a, b),
        (SourceConfig::CloudWatch(a), SourceConfig::CloudWatch(b)) => cloudwatch(lines, key, a, b),
        (SourceConfig::Command(a), SourceConfig::Command(b)) => command(lines, key, a, b),
        (a, b) => lines.value(&format!("{key}.kind"), source_kind(a), source_kind(b)),
    }
    lines.value(&format!("{key}.unit"), unit(old.unit), unit(new.unit));
    lines.value(&format!("{key}.low"), old.low, new.low);
    lines.value(&format!("{key}.soft"), old.soft, new.soft);
    lines.value(&format!("{key}.hard"), old.hard, new.hard);
    lines.value(&format!("{key}.critical"), old.critical, new.critical);
    let time = human::exact_duration;
    lines.value(&format!("{key}.interval"), time(old.interval), time(new.interval));
    lines.value(&format!("{key}.role"), role(old.protects), role(new.protects));
}

fn kafka(lines: &mut Lines, key: &str, old: &KafkaConfig, new: &KafkaConfig) {
    // Named one by one, so that a new field cannot be forgotten here.
    let KafkaConfig {
        brokers,
        groups,
        topics,
        expect,
        without_commit,
        isolation,
        stalled_after,
        most_fetches,
        tls,
        sasl,
        deadline,
    } = old;
    lines.value(&format!("{key}.brokers"), names(brokers), names(&new.brokers));
    lines.value(&format!("{key}.groups"), names(groups), names(&new.groups));
    lines.value(&format!("{key}.topics"), set(topics), set(&new.topics));
    lines.changed(&format!("{key}.expect"), expect, &new.expect);
    lines.changed(
        &format!("{key}.partitions_without_commit"),
        without_commit,
        &new.without_commit,
    );
    lines.changed(&format!("{key}.isolation"), isolation, &new.isolation);
    let time = human::exact_duration;
    lines.value(
        &format!("{key}.stalled_after"),
        time(*stalled_after),
        time(new.stalled_after),
    );
    lines.value(&format!("{key}.most_fetches"), most_fetches, new.most_fetches);
    lines.changed(&format!("{key}.tls"), tls, &new.tls);
    let way = |sasl: &Option<KafkaSasl>| match sasl {
        Some(sasl) => format!("{} {}", sasl.mechanism.word(), sasl.user),
        None => "none".to_owned(),
    };
    lines.changed_words(&format!("{key} login"), sasl, &new.sasl, way);
    lines.value(&format!("{key}.deadline"), time(*deadline), time(new.deadline));
}

fn prometheus(lines: &mut Lines, key: &str, old: &PrometheusConfig, new: &PrometheusConfig) {
    // Named one by one, so that a new field cannot be forgotten here.
    let PrometheusConfig {
        http: endpoint,
        query,
        age_query,
        preset,
        series,
        gone_after,
    } = old;
    let word = |preset: &Option<Written>| or_none(&preset.as_ref().map(|p| p.preset.word()));
    lines.value(&format!("{key}.preset"), word(preset), word(&new.preset));
    lines.changed(&format!("{key}.query"), query, &new.query);
    // With a preset it changes with the query, and is nobody's own.
    if preset.is_none() && new.preset.is_none() {
        lines.changed(&format!("{key}.age_query"), age_query, &new.age_query);
    }
    lines.value(&format!("{key}.series"), or_none(series), or_none(&new.series));
    let time = human::exact_duration;
    lines.value(
        &format!("{key}.gone_after"),
        time(*gone_after),
        time(new.gone_after),
    );
    http(lines, key, endpoint, &new.http);
}

const fn source_kind(source: &SourceConfig) -> &'static str {
    match source {
        SourceConfig::Kafka(_) => "kafka",
        SourceConfig::Prometheus(_) => "prometheus",
        SourceConfig::Alertmanager(_) => "alertmanager",
        SourceConfig::Burrow(_) => "burrow",
        SourceConfig::CloudWatch(_) => "cloudwatch",
        SourceConfig::Command(_) => "command",
    }
}

fn alertmanager(lines: &mut Lines, key: &str, old: &AlertmanagerConfig, new: &AlertmanagerConfig) {
    // Named one by one, so that a new field cannot be forgotten here.
    let AlertmanagerConfig {
        http: endpoint,
        members,
        matchers,
        silenced,
        inhibited,
        watchdog,
        silence,
    } = old;
    let shown = |matchers: &[Matcher]| or_none(&Some(matchers).filter(|m| !m.is_empty()).map(joined));
    lines.value(&format!("{key}.matchers"), shown(matchers), shown(&new.matchers));
    lines.value(&format!("{key}.watchdog"), shown(watchdog), shown(&new.watchdog));
    lines.value(&format!("{key}.members"), names(members), names(&new.members));
    lines.value(&format!("{key}.silenced"), silenced, new.silenced);
    lines.value(&format!("{key}.inhibited"), inhibited, new.inhibited);
    lines.value(&format!("{key}.silence"), silence, new.silence);
    http(lines, key, endpoint, &new.http);
}

fn joined(matchers: &[Matcher]) -> String {
    matchers
        .iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join(" ")
}

fn burrow(lines: &mut Lines, key: &str, old: &BurrowConfig, new: &BurrowConfig) {
    let BurrowConfig {
        http: endpoint,
        cluster,
        groups,
        topics,
    } = old;
    lines.value(&format!("{key}.cluster"), cluster, &new.cluster);
    lines.value(&format!("{key}.groups"), names(groups), names(&new.groups));
    lines.value(&format!("{key}.topics"), set(topics), set(&new.topics));
    http(lines, key, endpoint, &new.http);
}

fn cloudwatch(lines: &mut Lines, key: &str, old: &CloudWatchConfig, new: &CloudWatchConfig) {
    let CloudWatchConfig {
        region,
        streams,
        consumer,
        endpoint,
        keys,
        ca_file,
        deadline,
    } = old;
    lines.value(&format!("{key}.region"), region, &new.region);
    lines.value(&format!("{key}.streams"), names(streams), names(&new.streams));
    let text = |text: &Option<String>| or_none(text);
    lines.value(&format!("{key}.consumer"), text(consumer), text(&new.consumer));
    lines.value(&format!("{key}.endpoint"), text(endpoint), text(&new.endpoint));
    lines.changed(&format!("{key} login"), keys, &new.keys);
    let file = |file: &Option<PathBuf>| or_none(&file.as_deref().map(shown));
    lines.value(&format!("{key}.ca_file"), file(ca_file), file(&new.ca_file));
    let time = human::exact_duration;
    lines.value(&format!("{key}.deadline"), time(*deadline), time(new.deadline));
}

fn command(lines: &mut Lines, key: &str, old: &CommandConfig, new: &CommandConfig) {
    let CommandConfig {
        command,
        folder,
        deadline,
    } = old;
    lines.changed(&format!("{key}.command"), command, &new.command);
    lines.value(&format!("{key} folder"), shown(folder), shown(&new.folder));
    let time = human::exact_duration;
    lines.value(&format!("{key}.deadline"), time(*deadline), time(new.deadline));
}

fn http(lines: &mut Lines, key: &str, old: &HttpConfig, new: &HttpConfig) {
    lines.value(&format!("{key}.url"), &old.url, &new.url);
    lines.value(&format!("{key} login"), login(old), login(new));
    if login(old) == login(new) {
        lines.changed(&format!("{key} login"), &old.auth, &new.auth);
    }
    let headers = |p: &HttpConfig| (p.headers.clone(), p.plain_headers.clone());
    lines.changed(&format!("{key}.headers"), &headers(old), &headers(new));
    let ca = |p: &HttpConfig| or_none(&p.ca_file.as_deref().map(shown));
    lines.value(&format!("{key}.ca_file"), ca(old), ca(new));
    let time = human::exact_duration;
    lines.value(&format!("{key}.deadline"), time(old.deadline), time(new.deadline));
}

const fn login(p: &HttpConfig) -> &'static str {
    match p.auth {
        None => "none",
        Some(HttpAuth::Basic { .. }) => "basic",
        Some(HttpAuth::Bearer(_)) => "bearer",
    }
}

fn backfill(lines: &mut Lines, key: &str, old: &BackfillConfig, new: &BackfillConfig) {
    lines.0.extend(
        drift(&old.spec, &new.spec)
            .into_iter()
            .map(|l| format!("{key}.{l}")),
    );
    let same_names = old.spec.env_secrets == new.spec.env_secrets;
    if same_names {
        lines.changed(&format!("{key}.env secrets"), &old.secrets, &new.secrets);
    }
}

/// The keys in which a started order differs from the order as it is configured now: `max_limit 8 to 4`. Each line
/// starts with its key. Empty: no drift.
///
/// Ask this rather than compare [`spec_hash`]es: a later version of this program may hash the same order differently.
pub fn drift(spec: &Spec, now: &Spec) -> Vec<String> {
    // Named one by one, so that a new field cannot be forgotten here.
    let Spec {
        name,
        target,
        environment,
        start,
        end,
        granularity,
        timezone,
        executor,
        command,
        dag,
        attach,
        cwd,
        env_pass,
        env,
        env_secrets,
        max_limit,
        order,
        signals,
        on_failure,
        profiles,
        lanes,
        source,
        idempotent,
        throttling,
        blackout,
    } = spec;
    let mut lines = Lines::default();
    lines.value("name", name, &now.name);
    lines.value("target", target, &now.target);
    lines.value("environment", or_none(environment), or_none(&now.environment));
    lines.value("start", start, now.start);
    lines.value("end", end, now.end);
    lines.value("granularity", granularity.word(), now.granularity.word());
    lines.value("timezone", timezone, now.timezone);
    lines.value("executor", executor, &now.executor);
    lines.changed("command", command, &now.command);
    let id = |dag: &Option<Dag>| or_none(&dag.as_ref().map(|d| d.id.clone()));
    lines.value("dag", id(dag), id(&now.dag));
    let conf = |dag: &Option<Dag>| dag.as_ref().map(|d| d.conf.clone()).unwrap_or_default();
    lines.changed("conf", &conf(dag), &conf(&now.dag));
    let pool = |dag: &Option<Dag>| or_none(&dag.as_ref().and_then(|d| d.pool.clone()));
    lines.value("pool", pool(dag), pool(&now.dag));
    lines.changed("attach", attach, &now.attach);
    lines.value("cwd", cwd, &now.cwd);
    lines.value("env_pass", names(env_pass), names(&now.env_pass));
    lines.changed("env", env, &now.env);
    lines.value("env secrets", names(env_secrets), names(&now.env_secrets));
    lines.value("max_limit", max_limit, now.max_limit);
    lines.changed_words("order", order, &now.order, order_word);
    lines.value("signals", names(signals), names(&now.signals));
    lines.value(
        "on_failure",
        failure_word(*on_failure),
        failure_word(now.on_failure),
    );
    lines.changed_words("profiles", profiles, &now.profiles, |l| ladder_word(l));
    for lane in lanes
        .keys()
        .chain(now.lanes.keys().filter(|l| !lanes.contains_key(l)))
    {
        let days = |l: &Option<&LaneDays>| l.map_or(0, |l| l.days.len() as u64);
        let (before, after) = (lanes.get(lane), now.lanes.get(lane));
        let word = |l: &Option<&LaneDays>| match l.and_then(|l| l.profile.as_ref()) {
            Some(profile) => format!("{} on {profile}", human::counted(days(l), "day")),
            None => human::counted(days(l), "day"),
        };
        lines.changed_words(lane.word(), &before, &after, word);
    }
    lines.changed("source", source, &now.source);
    lines.value("idempotent", idempotent, now.idempotent);
    lines.value("law", throttling.law.word(), now.throttling.law.word());
    let share = |t: &Throttling| {
        t.cancel_share
            .map_or("never".to_owned(), |s| format!("young, {s} %"))
    };
    lines.value("cancel", share(throttling), share(&now.throttling));
    let windows = |all: &[Blackout]| match all {
        [] => "none".to_owned(),
        all => all.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "),
    };
    lines.value("blackout", windows(blackout), windows(&now.blackout));
    lines.0.into_iter().map(|l| text::clean(&l)).collect()
}

impl Lines {
    /// A value whose words are shown if they differ, and which is said to have changed if only the rest does.
    fn changed_words<T: PartialEq>(&mut self, key: &str, old: &T, new: &T, word: impl Fn(&T) -> String) {
        let (before, after) = (word(old), word(new));
        if before == after {
            self.changed(key, old, new);
        } else {
            self.value(key, before, after);
        }
    }
}

fn set(texts: &BTreeSet<String>) -> String {
    names(&texts.iter().collect::<Vec<_>>())
}

fn names<T: Display>(names: &[T]) -> String {
    if names.is_empty() {
        return "none".to_owned();
    }
    names
        .iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join("+")
}

fn order_word(order: &Order) -> String {
    match order {
        Order::OldestFirst => "oldest-first".to_owned(),
        Order::NewestFirst => "newest-first".to_owned(),
        Order::Custom(chunks) => format!("a list of {}", human::counted(chunks.len() as u64, "chunk")),
    }
}

fn failure_word(policy: OnFailure) -> String {
    match policy {
        OnFailure::Continue => "continue".to_owned(),
        OnFailure::StopAfter(1) => "stop".to_owned(),
        OnFailure::StopAfter(n) => format!("stop_after:{n}"),
    }
}

fn ladder_word(ladder: &[Profile]) -> String {
    let words = ladder.iter().map(|p| match p.memory {
        Some(memory) => format!("{} {}", p.name, human::exact_size(memory)),
        None => p.name.to_string(),
    });
    words.collect::<Vec<_>>().join("+")
}

/// The first 12 hex digits of SHA-256 over the order's canonical JSON: keys sorted, no blanks.
pub fn spec_hash(spec: &Spec) -> String {
    let canonical = match serde_json::to_value(spec) {
        Ok(mut value) => {
            // An order without a later key has the hash that it had before there was that key.
            if let Some(keys) = value.as_object_mut() {
                for later in ["dag", "attach"] {
                    if keys.get(later).is_some_and(serde_json::Value::is_null) {
                        keys.remove(later);
                    }
                }
            }
            let mut out = String::new();
            write_canonical(&value, &mut out);
            out
        }
        // An order always has a JSON form; without one its Debug form still tells two orders apart.
        Err(_) => format!("{spec:?}"),
    };
    let digest = Sha256::digest(canonical.as_bytes());
    digest.iter().take(6).fold(String::new(), |mut hex, byte| {
        // Writing to a String cannot fail.
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

fn write_canonical(value: &serde_json::Value, out: &mut String) {
    match value {
        serde_json::Value::Object(map) => {
            let sorted: BTreeMap<_, _> = map.iter().collect();
            out.push('{');
            for (i, (key, value)) in sorted.into_iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                out.push_str(&serde_json::Value::from(key.as_str()).to_string());
                out.push(':');
                write_canonical(value, out);
            }
            out.push('}');
        }
        serde_json::Value::Array(items) => {
            out.push('[');
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                write_canonical(item, out);
            }
            out.push(']');
        }
        plain => out.push_str(&plain.to_string()),
    }
}
