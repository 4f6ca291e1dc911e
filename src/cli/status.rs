//! `status [NAME]`: how things stand, in words or as JSON, with exit codes that scripts can use.

use super::{
    args::Global,
    attention::{self, Attention, Seen, UNWATCHED},
    context::{self, Context, Done, Exit, find, line},
    law_view::LawView,
    prompt,
    seen::AttachedView,
};
use crate::{
    config::{Config, SignalConfig},
    domain::{
        Time,
        event::Rule,
        human,
        ids::{AttemptId, Name},
        state::{Backfill, BackfillState, Chunk, ChunkState, State},
    },
    plan::{
        decide::{self, Stop, Surroundings},
        lever,
        throttle::{Report, authority::Binding},
        why,
    },
    supervisor::glance,
};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Serialize)]
struct Status {
    /// What stands in the way of everything, the worst first.
    attention: Vec<Attention>,
    supervised: bool,
    holder: Option<String>,
    epoch: Option<u64>,
    config_error: Option<String>,
    /// Set when a newer program wrote what this one cannot read.
    observer: Option<String>,
    backfills: Vec<One>,
}

/// One backfill. `state`, `throttle` and `reason` are told apart.
#[derive(Serialize)]
struct One {
    id: String,
    name: String,
    state: &'static str,
    throttle: &'static str,
    /// What stops every start, by its stable word.
    #[serde(skip)]
    stopped: Option<&'static str>,
    reason: Option<why::Why>,
    why: String,
    limit: u32,
    limit_by: &'static str,
    running: u32,
    max_limit: u32,
    chunks: usize,
    counts: BTreeMap<&'static str, u32>,
    attempts: usize,
    /// Attempts that have not ended.
    under_way: Vec<AttemptId>,
    /// Attempts that are over by their files, and nobody supervises who would record how.
    ended_unwatched: Vec<AttemptId>,
    needs_you: u32,
    /// Why starts are stopped by failures that were alike, and when a canary may try; whether or not it binds.
    breaker: Option<OpenBreaker>,
    paused_by: Option<String>,
    /// What a person forces the limit to, whether or not it counts now.
    force: Option<ForceView>,
    signals: BTreeMap<String, Signal>,
    /// By which law lag sets the limit and what it goes by, as its supervisor last told; `None`: nobody did.
    law: Option<LawView>,
    start: String,
    end: String,
    timezone: String,
    drift: Vec<String>,
    /// Only of an attached backfill.
    #[serde(skip_serializing_if = "Option::is_none")]
    attached: Option<AttachedView>,
}

#[derive(Serialize)]
struct ForceView {
    limit: u32,
    by: String,
    until: Time,
    /// `false` while a signal is past hard or blind, and where lag or a cap allows as much or less.
    counts: bool,
}

#[derive(Serialize)]
struct OpenBreaker {
    why: String,
    since: Time,
    retry_at: Time,
}

#[derive(Serialize)]
struct Signal {
    value: Option<f64>,
    age_s: Option<f64>,
    problem: Option<String>,
    /// By the supervisor that lives; else what is told of it is what a former one saw.
    measured: bool,
    soft: Option<f64>,
    hard: Option<f64>,
    /// The part of the file where its thresholds may be cannot be read.
    #[serde(skip)]
    unread: bool,
}

/// What was told of a throttle longer ago says nothing about now.
const TOLD_LATELY: chrono::Duration = chrono::Duration::seconds(15);

/// The word in `counts` for chunks whose attempt is over and whose end nobody has recorded.
const ENDED: &str = "ended_unwatched";

/// The command.
pub fn status(global: &Global, name: Option<&str>) -> Done {
    let config = context::sound_part(global)?;
    match context::existing(&config, global.read_only)? {
        Some(journal) => how_things_stand(&Context::around(global, config, journal), name),
        None => nothing_yet(global, &config, name),
    }
}

/// Nothing has been run: no trouble, and the journal is not made for it. Asked about one order, it is that one.
fn nothing_yet(global: &Global, config: &Config, name: Option<&str>) -> Done {
    if let Some(name) = name {
        return Err(context::nothing_yet(config, name));
    }
    let status = Status {
        attention: Vec::new(),
        supervised: false,
        holder: None,
        epoch: None,
        config_error: None,
        observer: None,
        backfills: Vec::new(),
    };
    let words = || format!("{}: backfill run NAME", context::nothing_yet_in_words(config));
    context::print(global.json, &status, words)
}

fn how_things_stand(ctx: &Context, name: Option<&str>) -> Done {
    let state = ctx.state()?;
    let around = ctx.surroundings();
    let chosen: Vec<&Backfill> = match name {
        Some(name) => vec![find(&state, &ctx.config, name)?],
        None => newest_of_each(&state),
    };
    let code = chosen
        .iter()
        .map(|b| code_of(&state, b, &around))
        .max()
        .unwrap_or(0);
    let seen = Seen::now(ctx, &state, around.now);
    let status = Status {
        attention: attention::all(ctx, &state, &chosen, &around, &seen),
        supervised: seen.alive().is_some(),
        holder: seen.alive().map(|h| h.holder.clone()),
        epoch: seen.holder.as_ref().map(|h| h.epoch),
        config_error: state.config_error.clone(),
        observer: state.unreadable.as_ref().map(|(seq, kind, version)| {
            format!("event {seq} ({kind} v{version}) was written by a newer backfill; this one only watches")
        }),
        backfills: chosen
            .iter()
            .map(|b| one(ctx, &state, b, &around, &seen))
            .collect(),
    };
    match ctx.print(&status, || words(&status)) {
        Err(exit) if exit.code != 0 => return Err(exit),
        // Also for a reader that went away: the exit code is the answer of a script.
        _ => {}
    }
    if code == 0 { Ok(()) } else { Err(Exit::code(code)) }
}

fn newest_of_each(state: &State) -> Vec<&Backfill> {
    let mut newest: BTreeMap<&Name, &Backfill> = BTreeMap::new();
    for backfill in state.backfills.values() {
        let slot = newest.entry(&backfill.spec.name).or_insert(backfill);
        if backfill.started.at > slot.started.at {
            *slot = backfill;
        }
    }
    newest.into_values().collect()
}

/// 0 fine, 3 paused (by a human or a signal), 4 blind, 1 what does not go on without somebody's help: incomplete,
/// cancelled, supervised by nobody, its breaker open, without room on the journal's disk.
fn code_of(state: &State, backfill: &Backfill, around: &Surroundings) -> u8 {
    let supervised = Surroundings {
        supervised: true,
        ..around.clone()
    };
    let stop = decide::stop_of(state, backfill, &supervised);
    // What a signal holds goes on by itself only where somebody looks at the signal.
    let unwatched = !around.supervised && stop != Some(Stop::Paused);
    match (backfill.state(), stop) {
        (BackfillState::Incomplete | BackfillState::Cancelled, _) => 1,
        (BackfillState::Complete | BackfillState::Detached, _) => {
            u8::from(!around.supervised && attention::left_behind(backfill).is_some())
        }
        // A pause that stops nothing is none.
        (BackfillState::Paused, _) => match lever::pause_there(backfill).and_then(|p| p.why_not()) {
            Some(_) => 1,
            None => 3,
        },
        _ if backfill.breaker.is_some() || unwatched => 1,
        (_, Some(Stop::Blind | Stop::FirstSamples)) => 4,
        _ if blind(state, backfill) => 4,
        (_, Some(Stop::Paused | Stop::Blackout | Stop::Signal | Stop::Critical)) => 3,
        (_, Some(Stop::Disk | Stop::Unprotected)) => 1,
        _ => 0,
    }
}

fn blind(state: &State, backfill: &Backfill) -> bool {
    backfill.spec.signals.iter().any(|s| state.blind.contains_key(s))
}

/// The throttle in one word.
fn throttle(state: &State, backfill: &Backfill) -> &'static str {
    let stopped = backfill.limit.value == 0;
    match backfill.limit.rule {
        _ if backfill.spec.signals.is_empty() => "off",
        Rule::Start if stopped => "waiting",
        Rule::Critical if stopped => "critical",
        Rule::Latch if stopped => "latched",
        Rule::Blind if stopped => "blind",
        _ if stopped => "paused",
        _ if blind(state, backfill) => "blind",
        Rule::Cut => "cut",
        Rule::Resume => "recovering",
        _ => "open",
    }
}

fn one(ctx: &Context, state: &State, backfill: &Backfill, around: &Surroundings, seen: &Seen) -> One {
    let spec = &backfill.spec;
    let allowed = decide::allowed(backfill, around.now);
    let stop = why::stop(state, backfill, around);
    let stopped = stop.as_ref().map(|why| why.reason);
    let reason = stop
        .or_else(|| why::before_blackout(backfill, around.now))
        .map(|w| seen.refined(w, state, backfill, around.now))
        .map(|w| prompt::why(w, backfill, None, &ctx.config, around.now));
    let over: BTreeSet<AttemptId> = seen.ended_of(backfill).cloned().collect();
    let is_over = |c: &Chunk| {
        c.open()
            .is_some_and(|a| over.contains(&backfill.attempt_id(c.id, a.no)))
    };
    let mut counts: BTreeMap<_, u32> = BTreeMap::new();
    for chunk in &backfill.chunks {
        let word = if is_over(chunk) { ENDED } else { chunk.state.word() };
        *counts.entry(word).or_default() += 1;
    }
    let over_weight: u32 = backfill
        .active()
        .filter(|c| is_over(c))
        .filter_map(Chunk::open)
        .map(|a| a.weight)
        .sum();
    let told = glance::throttle(&ctx.journal, &backfill.id);
    // Half a file says nothing about what it was meant to change.
    let whole = ctx.config.faults.is_none();
    let configured = ctx.config.backfills.get(&spec.name).filter(|_| whole);
    One {
        id: backfill.id.to_string(),
        name: spec.name.to_string(),
        state: match &spec.attach {
            Some(_) => lever::word_there(backfill),
            None => backfill.state().word(),
        },
        throttle: throttle(state, backfill),
        stopped,
        why: reason
            .as_ref()
            .map_or_else(|| limit_why(backfill, allowed.by), |r| r.text.clone()),
        reason,
        limit: allowed.limit,
        limit_by: allowed.by.word(),
        running: if spec.attach.is_some() {
            backfill.count(ChunkState::Running)
        } else {
            backfill.running_weight().saturating_sub(over_weight)
        },
        max_limit: spec.max_limit,
        chunks: backfill.chunks.len(),
        counts,
        attempts: backfill.chunks.iter().map(|c| c.attempts.len()).sum(),
        // The runs of somebody else are not attempts of ours.
        under_way: if spec.attach.is_some() {
            Vec::new()
        } else {
            backfill
                .open_attempts()
                .into_iter()
                .filter(|a| !over.contains(a))
                .collect()
        },
        ended_unwatched: over.into_iter().collect(),
        needs_you: [ChunkState::Failed, ChunkState::Quarantined, ChunkState::Uncertain]
            .map(|s| backfill.count(s))
            .iter()
            .sum(),
        breaker: backfill.breaker.as_ref().map(|b| OpenBreaker {
            why: b.why.clone(),
            since: b.at,
            retry_at: b.retry_at,
        }),
        paused_by: backfill.pause.as_ref().map(|p| p.mark.by.name.clone()),
        force: backfill
            .force
            .as_ref()
            .filter(|(force, _)| force.until > around.now)
            .map(|(force, mark)| ForceView {
                limit: force.limit,
                by: mark.by.name.clone(),
                until: force.until,
                counts: decide::force_counts(backfill, *force, around.now),
            }),
        signals: spec
            .signals
            .iter()
            .map(|s| {
                (
                    s.to_string(),
                    signal(ctx, state, (s, told.as_ref()), seen, around.now),
                )
            })
            .collect(),
        law: told.as_ref().map(|told| LawView::new(told, around.now)),
        start: spec.start.to_string(),
        end: spec.end.to_string(),
        timezone: spec.timezone.to_string(),
        drift: configured
            .filter(|_| spec.attach.is_none())
            .map_or_else(Vec::new, |c| crate::config::drift(spec, &c.spec)),
        attached: AttachedView::of(backfill, around.now),
    }
}

/// Why the limit is what it is: the human's doing where a human binds, else the throttle's sentence.
fn limit_why(backfill: &Backfill, by: Binding) -> String {
    match (by, &backfill.cap, &backfill.force) {
        (Binding::Cap, Some((cap, mark)), _) => format!("capped at {cap} by {}", mark.by.name),
        (Binding::Force, _, Some((force, mark))) => {
            format!(
                "forced to {} by {} until {} UTC",
                force.limit.min(backfill.spec.max_limit),
                mark.by.name,
                force.until.format("%H:%M:%S")
            )
        }
        _ if backfill.spec.attach.is_some() && backfill.spec.signals.is_empty() => {
            "no signal protects it: only people pause it".to_owned()
        }
        _ => backfill.limit.why.clone(),
    }
}

/// `told`: what the supervisor last told of the throttle.
fn signal(
    ctx: &Context,
    state: &State,
    (name, told): (&Name, Option<&(Time, Report)>),
    seen: &Seen,
    now: Time,
) -> Signal {
    let config: Option<&SignalConfig> = ctx.config.signals.get(name);
    let since = now - chrono::Duration::minutes(10);
    let samples = ctx.journal.samples_since(name, since).unwrap_or_default();
    let last = samples.iter().rev().find(|s| s.value.is_ok());
    let newest_problem = samples.last().and_then(|s| s.value.as_ref().err().cloned());
    let age = |at: Time| (now - at).num_milliseconds() as f64 / 1000.0;
    Signal {
        value: last.and_then(|s| s.value.as_ref().ok().copied()),
        age_s: last.map(|s| age(s.at) + s.age.unwrap_or_default().as_secs_f64()),
        problem: newest_problem.or_else(|| {
            // The journal has the reason for which it went blind; that of now is told by the throttle.
            let blind = state.blind.get(name)?;
            let lately = told.filter(|(at, _)| now - *at < TOLD_LATELY);
            let signals = lately.map(|(_, report)| report.signals.iter());
            let of_now = signals.and_then(|mut all| all.find(|s| s.name == *name)?.blind.as_ref());
            Some(of_now.map_or_else(|| blind.why.clone(), |b| b.why.clone()))
        }),
        measured: seen.is_measured(name),
        soft: config.map(|c| c.soft),
        hard: config.map(|c| c.hard),
        unread: ctx.config.faults.is_some(),
    }
}

fn words(status: &Status) -> String {
    let mut out = String::new();
    for first in &status.attention {
        out.push_str(&format!(
            "{}{}\n",
            first.text,
            in_brackets(&first.mend, &first.text)
        ));
    }
    match (&status.holder, status.supervised) {
        (Some(holder), true) => out.push_str(&format!("{holder} supervises\n")),
        _ if status
            .attention
            .iter()
            .any(|a| ["unsupervised", "disk"].contains(&a.reason)) => {}
        _ => out.push_str("nobody supervises, and nothing waits\n"),
    }
    if status.backfills.is_empty() {
        out.push_str("no backfill has been started");
    }
    let blocks: Vec<String> = status.backfills.iter().map(words_of).collect();
    out.push_str(&blocks.join("\n"));
    out
}

/// A number as it was read; one of hundreds of digits by its power of ten.
fn number(v: f64) -> String {
    if v.abs() < 1e15 {
        format!("{v}")
    } else {
        format!("{v:e}")
    }
}

/// What mends it, where the sentence does not say it itself.
fn in_brackets(mend: &str, text: &str) -> String {
    if mend.is_empty() || text.contains(mend) {
        String::new()
    } else {
        format!("  [{mend}]")
    }
}

fn words_of(one: &One) -> String {
    let counted = one.counts.iter().filter(|(w, _)| **w != ENDED);
    let mut counts: Vec<String> = counted.map(|(w, n)| format!("{n} {w}")).collect();
    if !one.ended_unwatched.is_empty() {
        counts.push(format!("{} {UNWATCHED}", one.ended_unwatched.len()));
    }
    let by = one
        .paused_by
        .as_ref()
        .map_or(String::new(), |by| format!(" by {by}"));
    // What somebody else started has limits of its own, which are told below.
    let load = match (one.running, one.limit) {
        _ if one.attached.is_some() => String::new(),
        (running, limit) if running > limit => format!("  {running} running, limit {limit}: draining"),
        (running, limit) => format!("  {running} of {limit} running"),
    };
    // What runs goes on: the word alone would say that more begins.
    let stopped = match one.stopped {
        Some(by) if one.attached.is_none() && one.state == BackfillState::Running.word() => {
            format!(", NO STARTS ({by})")
        }
        _ => String::new(),
    };
    let mut out = format!(
        "{}  {}{stopped}{by}{load}  {}\n",
        one.id,
        one.state.to_uppercase(),
        counts.join(", ")
    );
    for (name, s) in &one.signals {
        let value = s.value.map_or("no sample".to_owned(), number);
        let age = s.age_s.map_or(String::new(), |a| {
            format!(
                ", {} old",
                human::age(std::time::Duration::from_secs_f64(a.max(0.0)))
            )
        });
        let problem = s.problem.as_ref().map_or(String::new(), |p| format!("; {p}"));
        let old = if s.measured {
            ""
        } else {
            "; seen by a former supervisor, not measured since"
        };
        let levels = match (s.soft, s.hard) {
            (Some(soft), Some(hard)) => format!(" (soft {soft}, hard {hard})"),
            _ if s.unread => " (its thresholds cannot be read)".to_owned(),
            _ => " (not in the configuration)".to_owned(),
        };
        out.push_str(&format!("  lag {name}  {value}{age}{levels}{problem}{old}\n"));
    }
    for line in one.attached.iter().flat_map(AttachedView::words) {
        out.push_str(&format!("  {line}\n"));
    }
    if let Some(force) = one.force.as_ref().filter(|f| !f.counts) {
        out.push_str(&format!(
            "  force {} by {} until {} UTC, which does not count now\n",
            force.limit,
            force.by,
            force.until.format("%H:%M:%S")
        ));
    }
    out.push_str(&format!("  why {}", one.why));
    if let Some(why) = one.reason.as_ref().filter(|w| !w.unblock.is_empty()) {
        out.push_str(&format!("  [{}]", why.unblock));
    }
    for d in &one.drift {
        out.push_str(&format!("\n  drift {d}  [backfill amend {}]", one.name));
    }
    out
}

/// `why NAME DATE`.
pub fn why_of(ctx: &Context, name: &str, date: &str) -> Done {
    let state = ctx.state()?;
    let backfill = find(&state, &ctx.config, name)?;
    let chunks = crate::plan::select::chunks(backfill, date).map_err(Exit::usage)?;
    let around = ctx.surroundings();
    let seen = Seen::now(ctx, &state, around.now);
    for id in chunks {
        let Some(why) = why::why(&state, backfill, id, &around) else {
            continue;
        };
        let over = seen.over(backfill, id);
        let state_word = match (&over, backfill.chunk(id)) {
            (Some(_), _) => ENDED,
            (None, chunk) => chunk.map_or("", |c| c.state.word()),
        };
        let why = over.unwrap_or_else(|| seen.refined(why, &state, backfill, around.now));
        let why = prompt::why(why, backfill, Some(id), &ctx.config, around.now);
        let value = serde_json::json!({ "chunk": id, "state": state_word, "reason": why.reason, "text": why.text, "unblock": why.unblock });
        let unblock = if why.unblock.is_empty() {
            String::new()
        } else {
            format!("\n  {}", why.unblock)
        };
        ctx.print(&value, || {
            format!("{id} {}: {}{unblock}", state_word.replace('_', " "), why.text)
        })?;
    }
    Ok(())
}

/// `events NAME`.
pub fn events(ctx: &Context, name: &str, last: Option<usize>) -> Done {
    let state = ctx.state()?;
    let id = find(&state, &ctx.config, name)?.id.clone();
    let mut seq = 0;
    let mut shown = Vec::new();
    loop {
        let events = ctx.journal.read_after(seq, 10_000)?;
        let Some(newest) = events.last() else { break };
        seq = newest.seq;
        let mine = events
            .into_iter()
            .filter(|e| e.backfill.is_none() || e.backfill.as_ref() == Some(&id));
        match last {
            None => mine
                .map(|e| show(ctx.json, &state, &e))
                .try_for_each(|text| line(&text))?,
            Some(n) => {
                shown.extend(mine);
                let surplus = shown.len().saturating_sub(n);
                shown.drain(..surplus);
            }
        }
    }
    shown
        .iter()
        .map(|e| show(ctx.json, &state, e))
        .try_for_each(|text| line(&text))
}

/// A command that the fold refused says so: it changed nothing.
fn show(json: bool, state: &State, event: &crate::domain::event::Event) -> String {
    let refused = state.refusal(event.seq);
    match (json, refused) {
        (true, refused) => super::tell::json_with(event, refused),
        (false, Some(why)) => format!("{}  REFUSED: {why}", super::tell::plain(event)),
        (false, None) => super::tell::plain(event),
    }
}
