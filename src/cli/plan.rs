//! `plan NAME`: what a backfill would do. Nothing is started or recorded.

use super::args::Global;
use super::{
    context::{self, Done, Exit, line},
    gaps, partial,
};
use crate::{
    config::{self, Config},
    domain::{
        blackout::{self, Blackout},
        calendar::cut,
        event::Actor,
        human,
        ids::{BackfillId, ChunkId, Name},
        spec::{Lane, Spec},
        state::{Backfill, BackfillState, Chunk, ChunkState, Mark},
        text,
    },
    plan::{decide, preview::units, why},
};
use chrono::{Duration, SecondsFormat, Utc};
use serde_json::json;
use std::collections::BTreeSet;

/// The command.
pub fn plan(global: &Global, name: &str, all: bool) -> Done {
    let config = context::config(global)?;
    let name: Name = name.parse().map_err(Exit::usage)?;
    let Some(configured) = config.backfills.get(&name) else {
        return Err(context::unknown(&config, name.as_str()));
    };
    let spec = &configured.spec;
    // A plan can be looked at without a journal; what it says of an order is then that there is none.
    let journal = context::existing(&config, global.read_only).ok().flatten();
    let state = journal.and_then(|j| j.load_state().ok()).unwrap_or_default();
    let known = state.by_name(name.as_str());
    let draft = draft(spec);
    let order = still_to_run(known.unwrap_or(&draft));
    if global.json {
        let chunks: Vec<_> = order
            .iter()
            .map(|c| {
                json!({
                    "chunk": c.id,
                    "state": c.state.word(),
                    "start": c.interval.start.with_timezone(&spec.timezone).to_rfc3339_opts(SecondsFormat::Secs, false),
                    "end": c.interval.end.with_timezone(&spec.timezone).to_rfc3339_opts(SecondsFormat::Secs, false),
                    "lane": spec.lane(c.id).word(),
                    "weight": spec.weight(c.id),
                    "profile": spec.profiles.get(spec.first_profile(c.id)).map(|p| p.name.to_string()),
                })
            })
            .collect();
        let value = json!({
            "backfill": name, "target": spec.target, "timezone": spec.timezone.name(), "start": spec.start,
            "end": spec.end, "granularity": spec.granularity.word(), "hash": config::spec_hash(spec),
            "max_limit": spec.max_limit, "dag": spec.dag, "blackout": spec.blackout, "partial": partial::of(spec),
            "started": known.map(|b| json!({ "backfill": b.id, "state": b.state().word(), "of": b.chunks.len() })),
            "chunks": chunks,
        });
        return line(&value.to_string());
    }
    line(&words(
        &config,
        spec,
        &order.iter().map(|c| c.id).collect::<Vec<_>>(),
        all,
        known,
    ))
}

/// `, holds now until 20:00 CET` of a window that does.
fn holds_now(window: &Blackout) -> String {
    let closed = blackout::now(std::slice::from_ref(window), Utc::now());
    closed.and_then(|c| c.until).map_or_else(String::new, |until| {
        let until = until.with_timezone(&window.timezone);
        format!(": holds now, until {}", until.format("%H:%M %Z"))
    })
}

/// What would still be started, in order: what waits, and what tries again later. What runs is not started once more,
/// and what is settled, held or given up only when somebody asks for it.
fn still_to_run(backfill: &Backfill) -> Vec<&Chunk> {
    if backfill.cancel.is_some() {
        return Vec::new();
    }
    let now = Utc::now();
    let mut order = decide::in_order(backfill, now);
    let later = |c: &&Chunk| c.state == ChunkState::Failed && c.retry.as_ref().is_some_and(|r| r.at > now);
    order.extend(backfill.chunks.iter().filter(later));
    order
}

/// `31 partitions of out`, or of an order that was started: `28 of 31 partitions of out; not 2 done, 1 running`.
fn overwrites(spec: &Spec, n: usize, order: &[ChunkId], known: Option<&Backfill>) -> String {
    let Some(known) = known else {
        return format!("{} of {}", human::counted(n as u64, "partition"), spec.target);
    };
    let still: BTreeSet<&ChunkId> = order.iter().collect();
    let rest: Vec<ChunkState> = known
        .chunks
        .iter()
        .filter(|c| !still.contains(&c.id))
        .map(|c| c.state)
        .collect();
    let others: Vec<String> = ChunkState::ALL
        .into_iter()
        .map(|s| (rest.iter().filter(|r| **r == s).count(), s))
        .filter(|(n, _)| *n > 0)
        .map(|(n, s)| format!("{n} {}", s.word()))
        .collect();
    let beside = match others.as_slice() {
        [] => String::new(),
        others => format!(" ({})", others.join(", ")),
    };
    let all = human::counted(known.chunks.len() as u64, "partition");
    match order.len() {
        0 => format!("nothing more by itself; {all} of {}{beside}", known.spec.target),
        n => format!("{n} of {all} of {} still{beside}", known.spec.target),
    }
}

/// A backfill as it would be right after its start.
fn draft(spec: &Spec) -> Backfill {
    let id = BackfillId::new(&spec.name, 0);
    let mark = Mark {
        by: Actor::supervisor(),
        at: Utc::now(),
        reason: None,
    };
    Backfill::new(id, spec.clone(), String::new(), mark, 0)
}

fn words(config: &Config, spec: &Spec, order: &[ChunkId], all: bool, known: Option<&Backfill>) -> String {
    let chunks = cut(spec.timezone, spec.start, spec.end, spec.granularity);
    let zone = spec.timezone;
    let mut out = format!(
        "{}  {} {}  data of {} to {}, both included, zone {zone}\n",
        spec.name,
        chunks.len(),
        units(spec, chunks.len()),
        spec.start,
        spec.end
    );
    if let (Some(first), Some(last)) = (chunks.first(), chunks.last()) {
        out.push_str(&format!(
            "  instants    [{}, {})\n",
            first
                .1
                .start
                .with_timezone(&zone)
                .to_rfc3339_opts(SecondsFormat::Secs, false),
            last.1
                .end
                .with_timezone(&zone)
                .to_rfc3339_opts(SecondsFormat::Secs, false)
        ));
        let today = Utc::now().with_timezone(&zone).date_naive();
        if last.1.end > Utc::now() {
            out.push_str(&format!("  note        the range reaches {today} or later, which is not complete yet; set end to {}\n", today - Duration::days(1)));
        }
    }
    for partial in partial::of(spec) {
        out.push_str(&format!("  partial     {}\n", partial.text));
    }
    if let Some(text) = gaps::of(spec, Utc::now()) {
        out.push_str(&format!("  note        {text}\n"));
    }
    let odd = odd_days(spec);
    if !odd.is_empty() {
        out.push_str(&format!("  odd days    {}\n", odd.join(", ")));
    }
    out.push_str(&format!(
        "  overwrites  {}\n",
        overwrites(spec, chunks.len(), order, known)
    ));
    out.push_str(&format!(
        "  runs on     {} with limit {}, {}\n",
        spec.executor,
        spec.max_limit,
        order_words(spec)
    ));
    out.push_str(&work(spec));
    let profiles: Vec<_> = spec.profiles.iter().map(|p| p.name.to_string()).collect();
    out.push_str(&format!("  profiles    {}\n", profiles.join(", then ")));
    for (lane, days) in &spec.lanes {
        out.push_str(&format!(
            "  lane        {} weight {}: {}\n",
            lane.word(),
            lane.weight(),
            human::counted(days.days.len() as u64, "day")
        ));
    }
    for window in &spec.blackout {
        out.push_str(&format!("  blackout    {window}{}\n", holds_now(window)));
    }
    let signals: Vec<String> = spec
        .signals
        .iter()
        .map(|s| {
            config.signals.get(s).map_or(s.to_string(), |c| {
                format!("{s} (soft {}, hard {})", c.soft, c.hard)
            })
        })
        .collect();
    let protected = if signals.is_empty() {
        "none: nothing protects the live pipeline".to_owned()
    } else {
        signals.join(", ")
    };
    let next = match order {
        [] => "nothing waits",
        _ => "",
    };
    let order_line = format!("  signals     {protected}\n  order       {next}");
    out.push_str(order_line.trim_end());
    let shown = if all { order.len() } else { 5.min(order.len()) };
    for id in order.iter().take(shown) {
        let lane = spec.lane(*id);
        let note = if lane == Lane::Normal {
            String::new()
        } else {
            format!("  {}", lane.word())
        };
        out.push_str(&format!("\n    {id}{note}"));
    }
    if shown < order.len() {
        out.push_str(&format!("\n    and {} more (--all)", order.len() - shown));
    }
    out.push_str(&format!("\n  plan        {}\n", config::spec_hash(spec)));
    out.push_str(&then(spec, known));
    out
}

/// What runs each chunk.
fn work(spec: &Spec) -> String {
    let Some(dag) = &spec.dag else {
        return format!("  command     {}\n", spec.command.join(" "));
    };
    let mut out = format!("  dag         {}\n", dag.id);
    if !dag.conf.is_empty() {
        let conf = serde_json::to_string(&dag.conf).unwrap_or_default();
        out.push_str(&format!("  conf        {}\n", text::clean(&conf)));
    }
    if let Some(pool) = &dag.pool {
        out.push_str(&format!("  pool        {pool}\n"));
    }
    out
}

/// What to do with the plan: start it, or what became of the order that was started.
fn then(spec: &Spec, known: Option<&Backfill>) -> String {
    let name = &spec.name;
    let Some(order) = known else {
        return format!("  start it    backfill run {name}");
    };
    let (id, state) = (&order.id, order.state());
    let again = format!("a new order rewrites all of it: backfill run {name} --again --yes");
    let next = match (state, why::unfinished(order)) {
        (BackfillState::Incomplete, Some(why)) => super::prompt::sentence(&why.unblock),
        _ if state.is_final() => again,
        _ => format!("backfill status {name}; supervise it: backfill run {name}"),
    };
    let drift = match config::drift(&order.spec, spec).len() as u64 {
        0 => String::new(),
        n => format!(
            "\n  not in it   {} of this plan: backfill amend {name}",
            human::counted(n, "change")
        ),
    };
    format!(
        "  started     {id} is {}{drift}\n  next        {next}",
        state.word()
    )
}

fn order_words(spec: &Spec) -> &'static str {
    match spec.order {
        crate::domain::spec::Order::OldestFirst => "oldest first",
        crate::domain::spec::Order::NewestFirst => "newest first",
        crate::domain::spec::Order::Custom(_) => "in the order given",
    }
}

/// Days that do not last 24 hours, and days that do not exist.
fn odd_days(spec: &Spec) -> Vec<String> {
    let days = cut(
        spec.timezone,
        spec.start,
        spec.end,
        crate::domain::calendar::Granularity::Day,
    );
    let mut odd: Vec<String> = days
        .iter()
        .filter(|(_, i)| i.length() != Duration::hours(24))
        .map(|(id, i)| {
            format!(
                "{id} lasts {}",
                human::duration(i.length().to_std().unwrap_or_default())
            )
        })
        .collect();
    let more = odd.len().saturating_sub(6);
    odd.truncate(6);
    if more > 0 {
        odd.push(format!("and {more} more"));
    }
    odd
}
