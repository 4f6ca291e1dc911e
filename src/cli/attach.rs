//! `attach EXECUTOR`: what somebody else started there, on our calendar.

use super::{
    args::{Attach, Global},
    context::{self, Context, Done, Exit, Try, line},
    levers::asking,
};
use crate::{
    config::{self, Config},
    domain::{
        event::Payload,
        ids::{BackfillId, Name},
        spec::Spec,
        state::State,
    },
    executor::attach::{Found, Offer},
    journal::Journal,
    plan::attach_spec::{self, Wanted},
    tui::sources,
};
use chrono::NaiveDate;
use serde::Serialize;
use serde_json::json;

/// The limit of what has neither a native backfill nor a pool that would tell one.
const LIMIT: u32 = 16;

/// The command.
///
/// # Errors
/// Read-only, an executor that has no levers or does not answer, or a window that is none.
pub fn attach(global: &Global, wanted: Attach) -> Done {
    let config = context::config(global)?;
    if wanted.dag.is_none() && wanted.native_backfill.is_none() {
        let ctx = looking(global, config)?;
        return list(&ctx, &wanted.executor);
    }
    if global.read_only {
        return Err(Exit::usage("read-only: attaching is journaled")
            .hint("leave --read-only and BACKFILL_READ_ONLY away"));
    }
    let journal = Journal::open(&config.journal.path, context::options(&config))?;
    let mut ctx = Context::around(global, config, journal);
    let found = asking(&ctx, &wanted.executor, async |levers| {
        levers
            .find(wanted.dag.as_deref(), wanted.native_backfill, wanted.timezone)
            .await
    })?;
    let limit = match &wanted.pool {
        Some(pool) => Some(asking(&ctx, &wanted.executor, async |levers| levers.pool(pool).await)?.slots),
        None => None,
    };
    let spec = order(&ctx, &wanted, found, limit)?;
    let (id, known) = record(&mut ctx, &spec, &wanted)?;
    let supervisor = if ctx.supervised() || wanted.no_supervisor {
        None
    } else {
        Some(sources::spawn(&ctx.config, &[])?.id())
    };
    tell(&ctx, &id, &spec, known, supervisor)
}

/// The list needs no journal; where there is none yet, one in memory would say nothing else.
fn looking(global: &Global, config: Config) -> Result<Context, Exit> {
    match context::existing(&config, global.read_only)? {
        Some(journal) => Ok(Context::around(global, config, journal)),
        None if global.read_only => Err(context::nothing_yet(&config, "")),
        None => {
            let journal = Journal::open(&config.journal.path, context::options(&config))?;
            Ok(Context::around(global, config, journal))
        }
    }
}

#[derive(Serialize)]
struct Row<'a> {
    dag: &'a str,
    native_backfill: Option<u64>,
    from: Option<NaiveDate>,
    to: Option<NaiveDate>,
    words: &'a str,
    attach: String,
}

fn list(ctx: &Context, executor: &str) -> Done {
    let offers = asking(ctx, executor, async |levers| levers.offers().await)?;
    let command = |o: &Offer| match o.native {
        Some(id) => format!("backfill attach {executor} --native-backfill {id}"),
        None => format!("backfill attach {executor} --dag {}", o.dag),
    };
    let rows: Vec<Row<'_>> = offers
        .iter()
        .map(|o| Row {
            dag: &o.dag,
            native_backfill: o.native,
            from: o.window.map(|w| w.0),
            to: o.window.map(|w| w.1),
            words: &o.words,
            attach: command(o),
        })
        .collect();
    ctx.print(&rows, || {
        if rows.is_empty() {
            return format!(
                "{executor} has no unfinished native backfill and no DAG with many runs; name one: --dag ID"
            );
        }
        let line = |r: &Row<'_>| {
            let window = match (r.from, r.to) {
                (Some(from), Some(to)) => format!("{from} .. {to}"),
                _ => String::new(),
            };
            format!("{:<28} {window:<24} {}\n    {}", r.dag, r.words, r.attach)
        };
        rows.iter().map(line).collect::<Vec<_>>().join("\n")
    })
}

fn order(ctx: &Context, wanted: &Attach, mut found: Found, slots: Option<i64>) -> Result<Spec, Exit> {
    let config = &ctx.config;
    let executor: Name = wanted.executor.parse().map_err(Exit::usage)?;
    let signals = wanted.signals.iter().map(|s| signal(config, s));
    let signals = signals.collect::<Result<Vec<_>, _>>()?;
    let Some(timezone) = wanted.timezone.or(found.zone) else {
        return Err(Exit::usage(format!(
            "the runs of {} do not tell the zone of their days",
            found.dag
        ))
        .hint("name it: --timezone Europe/Berlin"));
    };
    let (from, to) = match found.window {
        Some((from, to)) => (Some(from), Some(to)),
        None => (None, None),
    };
    let (Some(start), Some(end)) = (wanted.from.or(from), wanted.to.or(to)) else {
        return Err(
            Exit::usage(format!("{} has no runs that would tell a window", found.dag))
                .hint("name it: --from 2021-01-01 --to 2023-12-31"),
        );
    };
    // Where only the DAG was named, its native backfill is ours to hold if it is about days of the window.
    if wanted.native_backfill.is_none() {
        found.native = found
            .native
            .filter(|n| attach_spec::is_about((n.from, n.to), (start, end), timezone));
    }
    let has_lever = found.native.as_ref().is_some_and(|n| n.completed.is_none()) || wanted.pool.is_some();
    if !signals.is_empty() && !has_lever {
        return Err(Exit::usage(format!(
            "{} has no unfinished native backfill over these days, so a signal could pause nothing",
            found.dag
        ))
        .hint("name the pool of its tasks: --pool"));
    }
    let state = ctx.state()?;
    let name = match &wanted.name {
        Some(name) => name.parse().map_err(Exit::usage)?,
        None => attach_spec::name_for(&found.dag, |n| is_taken(&state, config, n))
            .ok_or_else(|| Exit::usage("every name like that is taken").hint("--name NAME"))?,
    };
    let native = found.native.as_ref();
    let limit = slots
        .and_then(|s| u32::try_from(s).ok())
        .or(native.map(|n| n.limit));
    attach_spec::spec(Wanted {
        name,
        environment: config
            .executors
            .get(&executor)
            .and_then(|e| e.environment())
            .map(str::to_owned),
        executor,
        dag: found.dag,
        native: native
            .filter(|_| wanted.native_backfill.is_some() || has_lever)
            .map(|n| n.id),
        start,
        end,
        timezone,
        pool: wanted.pool.clone(),
        max_limit: limit.unwrap_or(LIMIT),
        signals,
    })
    .map_err(Exit::usage)
}

fn signal(config: &Config, name: &str) -> Result<Name, Exit> {
    let known = config.signals.keys().find(|n| n.as_str() == name);
    known.cloned().ok_or_else(|| {
        let all: Vec<&str> = config.signals.keys().map(Name::as_str).collect();
        Exit::usage(format!("there is no signal {name}")).hint(format!("configured: {}", all.join(", ")))
    })
}

/// A name of the configuration is an order of our own; one of the journal can be used again when that has ended.
fn is_taken(state: &State, config: &Config, name: &Name) -> bool {
    attach_spec::is_live(state, name) || config.backfills.contains_key(name)
}

/// The attached backfill of the same thing, if it is attached to already; else a new one, journaled.
fn record(ctx: &mut Context, spec: &Spec, wanted: &Attach) -> Result<(BackfillId, bool), Exit> {
    let reason = None;
    ctx.on_newest(|ctx, state| {
        if let Some(same) = attach_spec::attached_already(state, spec) {
            return Try::Done((same.id.clone(), true));
        }
        if is_taken(state, &ctx.config, &spec.name) {
            return Try::No(
                Exit::usage(format!("{} is the name of another backfill", spec.name))
                    .hint(format!("--name {}-theirs", wanted.executor)),
            );
        }
        let id = BackfillId::new(&spec.name, rand::random());
        let payload = Payload::Started {
            spec: Box::new(spec.clone()),
            hash: config::spec_hash(spec),
        };
        let event = ctx.event(Some(&id), payload, reason.clone());
        match ctx.journal.append(Some(state.head), None, &[event]) {
            Ok(_) => Try::Done((id, false)),
            Err(error) => error.into(),
        }
    })
}

fn tell(ctx: &Context, id: &BackfillId, spec: &Spec, known: bool, supervisor: Option<u32>) -> Done {
    let dag = spec.dag.as_ref().map_or("", |d| d.id.as_str());
    let native = spec.attach.as_ref().and_then(|a| a.native);
    let value = json!({
        "attached": id, "already": known, "executor": spec.executor, "environment": spec.environment, "dag": dag,
        "native_backfill": native, "from": spec.start, "to": spec.end, "timezone": spec.timezone.name(),
        "supervisor": supervisor,
    });
    if ctx.json {
        return line(&value.to_string());
    }
    let what = native.map_or_else(
        || format!("DAG {dag}"),
        |n| format!("native backfill {n} of {dag}"),
    );
    let verb = if known { "attached before" } else { "attached" };
    let environment = spec
        .environment
        .as_ref()
        .map_or_else(String::new, |e| format!(" ({e})"));
    let supervised = match supervisor {
        Some(pid) => format!("; supervisor started, pid {pid}"),
        None if ctx.supervised() => String::new(),
        None => format!(
            "; nobody supervises, so nothing is looked at: backfill run {}",
            spec.name
        ),
    };
    line(&format!(
        "{verb} to {what} on {}{environment}, {} .. {} {}, as {id}{supervised}\nlook: backfill, or backfill status {}",
        spec.executor, spec.start, spec.end, spec.timezone, spec.name
    ))
}
