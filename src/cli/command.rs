//! Commands that append one event: each says what was recorded, and whether the supervisor has confirmed it.

use super::{
    args::{Consent, Days, Reason, ThrottleTo, VerdictArg},
    ask,
    context::{Context, Done, Exit, Try, find},
    levers, prompt,
    told::{self, Recorded},
};
use crate::{
    config,
    domain::{
        attach::Action,
        blackout,
        event::{Force, Payload},
        human,
        ids::{BackfillId, ChunkId},
        spec::Spec,
        state::{Backfill, ChunkState, State},
    },
    plan::{
        consent, decide,
        preview::{self, Ask, Preview},
        select,
    },
};
use chrono::Utc;
use std::time::Duration;

/// Longest force.
const FORCE_MAX: Duration = Duration::from_secs(4 * 3600);

/// Appends a command about a whole backfill and prints what was recorded.
fn simple(ctx: &mut Context, name: &str, payload: Payload, reason: Reason, said: &str) -> Done {
    let state = ctx.state()?;
    let id = find(&state, &ctx.config, name)?.id.clone();
    let event = ctx.event(Some(&id), payload, reason.reason);
    let (seq, _) = ctx.send(None, event)?;
    Recorded::new(ctx, id.as_str(), seq, said).tell(ctx)
}

/// `pause NAME`.
pub fn pause(ctx: &mut Context, name: &str, duration: Option<Duration>, reason: Reason) -> Done {
    let until = duration.map(|d| Utc::now() + chrono::Duration::from_std(d).unwrap_or_default());
    let state = ctx.state()?;
    let backfill = find(&state, &ctx.config, name)?;
    let (id, attached) = (backfill.id.clone(), backfill.spec.attach.is_some());
    if let Some(why) = told::pauses_nothing(backfill) {
        return Err(Exit::usage(why).hint(format!("backfill pause {} --whole-dag", backfill.spec.name)));
    }
    let event = ctx.event(Some(&id), Payload::Paused { until }, reason.reason);
    let supervised = ctx.supervised();
    let (seq, _) = ctx.send(None, event)?;
    if attached {
        // What runs there is not ours to count: the server's word is what a pause comes to.
        let pause = Action::Pause { whole_dag: false };
        return told::action(ctx, &id, seq, |asked| asked.action == pause);
    }
    told::confirm(ctx, &id, seq, supervised, "paused")
}

/// `cancel NAME`.
pub fn cancel(ctx: &mut Context, name: &str, running: bool, consent: Consent) -> Done {
    if levers::is_attached(ctx, name)? {
        let ask = if running {
            Ask::Act(Action::Cancel { running })
        } else {
            Ask::Cancel
        };
        return levers::change(ctx, name, &ask, consent);
    }
    if running {
        return Err(Exit::usage(
            "--running is for attached backfills: of our own what runs is always stopped",
        ));
    }
    let (state, id, mut preview) = preview_of(ctx, name, &Ask::Cancel)?;
    if let Some(backfill) = state.backfills.get(&id) {
        preview = prompt::preview(preview, backfill);
        unwatched_first(ctx, backfill, &Ask::Cancel, &mut preview);
    }
    if !ask::consent_given(ctx, &preview, &consent)? {
        return Ok(());
    }
    let event = ctx.event(Some(&id), Payload::CancelRequested {}, consent.reason);
    drop(state);
    let supervised = ctx.supervised();
    let (seq, _) = ctx.send(None, event)?;
    told::confirm(ctx, &id, seq, supervised, "cancelled")
}

/// `resume NAME`.
pub fn resume(ctx: &mut Context, name: &str, yes: bool, reason: Reason) -> Done {
    if levers::is_attached(ctx, name)? {
        let consent = Consent {
            dry_run: false,
            // Our own pause is ours to lift; one that somebody set on the server is asked about.
            yes: yes || !levers::paused_by_others(ctx, name)?,
            reason: reason.reason,
        };
        return levers::change(ctx, name, &Ask::Resume, consent);
    }
    simple(ctx, name, Payload::Resumed {}, reason, "resumed")
}

/// `acknowledge NAME`.
pub fn acknowledge(ctx: &mut Context, name: &str, reason: Reason) -> Done {
    simple(ctx, name, Payload::LatchAcknowledged {}, reason, "acknowledged")
}

/// `close-breaker NAME`.
pub fn close_breaker(ctx: &mut Context, name: &str, reason: Reason) -> Done {
    simple(ctx, name, Payload::BreakerReset {}, reason, "breaker closed")
}

/// `throttle NAME ..`.
pub fn throttle(ctx: &mut Context, name: &str, to: ThrottleTo) -> Done {
    match to {
        ThrottleTo::Slots { n, consent } => levers::slots(ctx, name, n, consent),
        ThrottleTo::Cap { .. } | ThrottleTo::Force { .. } if levers::without_pool(ctx, name)? => {
            Err(Exit::usage(format!(
                "{name} was attached without a pool, so no limit can be written"
            ))
            .hint(format!(
                "backfill replace {name} N makes its native backfill anew"
            )))
        }
        ThrottleTo::Cap { n: 0, .. } => {
            Err(Exit::usage("a cap of 0 is a pause").hint(format!("backfill pause {name}")))
        }
        ThrottleTo::Cap { n, reason } => {
            let state = ctx.state()?;
            let backfill = find(&state, &ctx.config, name)?;
            let most = backfill.spec.max_limit;
            if n > most {
                let why = format!("a cap of {n} caps nothing: max_limit is {most}");
                return Err(Exit::usage(why).hint(format!("backfill throttle {name} auto")));
            }
            let said = match &backfill.cap {
                Some((cap, _)) => format!("capped at {n}, was {cap}"),
                None => format!("capped at {n}"),
            };
            simple(ctx, name, Payload::CapSet { cap: Some(n) }, reason, &said)
        }
        ThrottleTo::Force { duration, .. } if duration > FORCE_MAX || duration.is_zero() => {
            Err(Exit::usage("a force lasts longer than nothing and at most 4h").hint("--for 30m"))
        }
        ThrottleTo::Force { n: 0, .. } => {
            Err(Exit::usage("a force of 0 is a pause").hint(format!("backfill pause {name}")))
        }
        ThrottleTo::Force { n, duration, reason } => {
            let until = Utc::now() + chrono::Duration::from_std(duration).unwrap_or_default();
            let state = ctx.state()?;
            let backfill = find(&state, &ctx.config, name)?;
            let said = forced(backfill, n, duration);
            simple(
                ctx,
                name,
                Payload::Forced {
                    force: Some(Force { limit: n, until }),
                },
                reason,
                &said,
            )
        }
        ThrottleTo::Auto { reason } => {
            let state = ctx.state()?;
            let id = find(&state, &ctx.config, name)?.id.clone();
            let uncap = ctx.event(Some(&id), Payload::CapSet { cap: None }, reason.reason.clone());
            ctx.send(None, uncap)?;
            simple(
                ctx,
                name,
                Payload::Forced { force: None },
                reason,
                "the throttle alone sets the limit",
            )
        }
    }
}

/// `rerun NAME DATE.. [--failed]`, or `rerun NAME --failed`.
pub fn rerun(ctx: &mut Context, name: &str, days: &[String], failed: bool, consent: Consent) -> Done {
    // Without days it is the whole order; the grammar lets only what failed be asked for like that.
    on_days(ctx, name, days, consent, |chunks| Ask::Rerun(chunks, failed))
}

/// `skip NAME DATE..`.
pub fn skip(ctx: &mut Context, days: Days) -> Done {
    on_days(ctx, &days.name, &days.days, days.consent, Ask::Skip)
}

/// `stop-runs NAME DATE..`.
pub fn stop_runs(ctx: &mut Context, days: Days) -> Done {
    on_days(ctx, &days.name, &days.days, days.consent, Ask::Stop)
}

/// `hold NAME DATE..`: only reduces work, so it is not asked for.
pub fn hold(ctx: &mut Context, days: Days) -> Done {
    mark(
        ctx,
        days,
        |chunks| Payload::HoldPlaced { chunks },
        ("held", true),
        preview::hold,
    )
}

/// `release NAME DATE..`.
pub fn release(ctx: &mut Context, days: Days) -> Done {
    let preview = |backfill: &Backfill, chunks: &[ChunkId]| {
        preview::make(backfill, &Ask::Release(chunks.to_vec()), Utc::now())
    };
    mark(
        ctx,
        days,
        |chunks| Payload::HoldReleased { chunks },
        ("released", false),
        preview,
    )
}

fn mark(
    ctx: &mut Context,
    days: Days,
    payload: impl FnOnce(Vec<ChunkId>) -> Payload,
    (verb, held): (&str, bool),
    preview: impl FnOnce(&Backfill, &[ChunkId]) -> Preview,
) -> Done {
    let state = ctx.state()?;
    let backfill = find(&state, &ctx.config, &days.name)?;
    let chunks = select::all(backfill, &days.days).map_err(Exit::usage)?;
    let (id, n) = (backfill.id.clone(), chunks.len());
    if days.consent.dry_run {
        let preview = prompt::preview(preview(backfill, &chunks), backfill);
        if preview.will.is_empty() {
            return Err(nothing_to_do(&preview));
        }
        return ctx.print(&preview, || ask::words(&preview));
    }
    let is_so = |state: &State, chunk: &ChunkId| {
        let chunk = state.backfills.get(&id).and_then(|b| b.chunk(*chunk));
        chunk.is_some_and(|c| (c.state == ChunkState::Held) == held)
    };
    let other: Vec<ChunkId> = chunks.iter().copied().filter(|c| !is_so(&state, c)).collect();
    let event = ctx.event(Some(&id), payload(chunks), days.consent.reason);
    let (seq, after) = ctx.send(None, event)?;
    let changed = other.iter().filter(|c| is_so(&after, c)).count();
    let message = format!("{verb} {} of {n}", human::counted(changed as u64, "chunk"));
    Recorded::new(ctx, id.as_str(), seq, &message).tell(ctx)
}

pub(super) fn nothing_to_do(preview: &Preview) -> Exit {
    let why = preview
        .will_not
        .first()
        .map_or(String::new(), |(day, why)| format!(" for {day}: {why}"));
    Exit::usage(format!("nothing to do{why}"))
}

fn preview_of(ctx: &Context, name: &str, ask: &Ask) -> Result<(State, BackfillId, Preview), Exit> {
    let state = ctx.state()?;
    let backfill = find(&state, &ctx.config, name)?;
    let preview = preview::make(backfill, ask, Utc::now());
    let id = backfill.id.clone();
    Ok((state, id, preview))
}

/// A change with a preview: shown, consented to, and appended only if the plan is still the one that was shown.
fn on_days(
    ctx: &mut Context,
    name: &str,
    days: &[String],
    consent: Consent,
    make: impl Fn(Vec<ChunkId>) -> Ask,
) -> Done {
    let state = ctx.state()?;
    let backfill = find(&state, &ctx.config, name)?;
    let chunks = match days {
        [] => backfill.chunks.iter().map(|c| c.id).collect(),
        days => select::all(backfill, days).map_err(Exit::usage)?,
    };
    let ask = make(chunks);
    let id = backfill.id.clone();
    let mut preview = prompt::preview(preview::make(backfill, &ask, Utc::now()), backfill);
    if preview.is_empty(&ask) {
        return Err(nothing_to_do(&preview));
    }
    let recipe = told::goes_on(backfill, false);
    unwatched_first(ctx, backfill, &ask, &mut preview);
    if !ask::consent_given(ctx, &preview, &consent)? {
        return Ok(());
    }
    let seq = append_same_plan(ctx, &id, &ask, &preview, consent.reason)?;
    let n = preview.will.len();
    let message = format!(
        "{} recorded for {}",
        preview.title,
        human::counted(n as u64, "chunk")
    );
    if levers::is_attached(ctx, name)? {
        return told::action(ctx, &id, seq, |asked| asked.seq == seq);
    }
    match ask {
        Ask::Stop(_) => Recorded::of_stop(ctx, id.as_str(), seq, &message, &recipe).tell(ctx),
        _ => Recorded::new(ctx, id.as_str(), seq, &message).tell(ctx),
    }
}

/// A plan that ends runs says first that nobody is there to end them.
fn unwatched_first(ctx: &Context, backfill: &Backfill, ask: &Ask, preview: &mut Preview) {
    let cancels = *ask == Ask::Cancel;
    if (cancels && backfill.active().next().is_some() || matches!(ask, Ask::Stop(_))) && !ctx.supervised() {
        preview.facts.insert(0, ("but", told::goes_on(backfill, cancels)));
    }
}

/// Appends with the head that the plan was made at. If others appended meanwhile the plan is made again: the same
/// digest is appended, another one is not.
pub(super) fn append_same_plan(
    ctx: &mut Context,
    id: &BackfillId,
    ask: &Ask,
    shown: &Preview,
    reason: Option<String>,
) -> Result<u64, Exit> {
    ctx.on_newest(|ctx, state| {
        let Some(backfill) = state.backfills.get(id) else {
            return Try::No(Exit::usage("the backfill is gone"));
        };
        let now = preview::make(backfill, ask, Utc::now());
        if now.digest != shown.digest {
            let lines = consent::differences(shown, &now).join("\n  ");
            return Try::No(Exit::usage(format!(
                "the plan changed meanwhile, nothing was done:\n  {lines}\nask again"
            )));
        }
        match consent::payloads(state, Some(id), ask, &now, Utc::now()) {
            Ok(payloads) => append(ctx, state, id, payloads, reason.as_ref()),
            Err(why) => Try::No(Exit::usage(why)),
        }
    })
}

/// Appends with the head of `state`; gives the seq of the first event, if the fold accepted it.
fn append(
    ctx: &mut Context,
    state: &State,
    id: &BackfillId,
    payloads: Vec<Payload>,
    reason: Option<&String>,
) -> Try<u64> {
    let events: Vec<_> = payloads
        .into_iter()
        .map(|p| ctx.event(Some(id), p, reason.cloned()))
        .collect();
    let seq = match ctx.journal.append(Some(state.head), None, &events) {
        Ok(seqs) => seqs.first().copied().unwrap_or_default(),
        Err(error) => return error.into(),
    };
    match ctx.state() {
        Ok(after) => match after.refusal(seq) {
            Some(why) => Try::No(Exit::usage(format!("refused: {why}"))),
            None => Try::Done(seq),
        },
        Err(exit) => Try::No(exit),
    }
}

/// `resolve NAME DATE lost|done|failed --reason ..`.
pub fn resolve(ctx: &mut Context, name: &str, date: &str, verdict: VerdictArg, reason: String) -> Done {
    let state = ctx.state()?;
    let backfill = find(&state, &ctx.config, name)?;
    let chunks = select::chunks(backfill, date).map_err(Exit::usage)?;
    let [chunk] = chunks.as_slice() else {
        return Err(Exit::usage("resolve takes one chunk at a time"));
    };
    let payload = Payload::Resolved {
        chunk: *chunk,
        verdict: verdict.into(),
    };
    simple(
        ctx,
        name,
        payload,
        Reason { reason: Some(reason) },
        &format!("{chunk} resolved"),
    )
}

/// `stop`.
pub fn stop(ctx: &mut Context, reason: Reason) -> Done {
    if !ctx.supervised() {
        return Err(Exit::usage("nobody supervises this journal"));
    }
    let event = ctx.event(None, Payload::StopSupervising {}, reason.reason);
    let (seq, _) = ctx.send(None, event)?;
    Recorded::to_the_supervisor(seq, "the supervisor was asked to stop; running attempts go on").tell(ctx)
}

/// What a force will do, and whether it does it now.
fn forced(backfill: &Backfill, n: u32, duration: std::time::Duration) -> String {
    let most = backfill.spec.max_limit;
    let to = if n > most {
        format!("{most}, max_limit ({n} was asked for)")
    } else {
        n.to_string()
    };
    let lasts = human::duration(duration);
    let recorded = |but: String| format!("recorded for {lasts}, to {to}, but it does not count now: {but}");
    if !decide::is_forcible(backfill) {
        return recorded(backfill.limit.why.clone());
    }
    let now = Utc::now();
    if let Some(closed) = blackout::now(&backfill.spec.blackout, now) {
        let until = closed.until.map_or(String::new(), |t| {
            format!(
                " until {}",
                t.with_timezone(&backfill.spec.timezone).format("%H:%M %Z")
            )
        });
        return recorded(format!("a blackout holds{until}"));
    }
    let force = Force {
        limit: n,
        until: now + duration,
    };
    let by_itself = backfill.limit.value;
    let cap = backfill.cap.as_ref().filter(|(cap, _)| *cap < n.min(most));
    match (decide::force_counts(backfill, force, now), cap) {
        (true, None) => format!("forced to {to} for {lasts}; never while a signal is past hard or blind"),
        (true, Some((cap, mark))) => format!(
            "forced to {cap} for {lasts}, where {} capped it ({n} was asked for); never while a signal is past hard or blind",
            mark.by.name
        ),
        (false, Some((cap, mark))) => recorded(format!("it is capped at {cap} by {}", mark.by.name)),
        (false, None) => recorded(format!(
            "the limit is {by_itself} by itself, and a force only raises it; backfill throttle {} cap {n} lowers it",
            backfill.spec.name
        )),
    }
}

/// `amend NAME`.
pub fn amend(ctx: &mut Context, name: &str, consent: Consent) -> Done {
    let state = ctx.state()?;
    let backfill = find(&state, &ctx.config, name)?;
    if let Some(faults) = &ctx.config.faults {
        // What is missing in what is sound may be there.
        return Err(Exit::config(faults));
    }
    let Some(configured) = ctx.config.backfills.get(&backfill.spec.name) else {
        return Err(Exit::usage(format!(
            "{name} is not in {}",
            ctx.config.path.display()
        )));
    };
    let drift = config::drift(&backfill.spec, &configured.spec);
    if drift.is_empty() {
        let agree = "the configuration and the started backfill agree; nothing to amend";
        let value = serde_json::json!({ "backfill": backfill.id, "recorded": false, "message": agree });
        return ctx.print(&value, || agree.to_owned());
    }
    let spec = configured.spec.clone();
    let mut preview = preview::make(backfill, &Ask::Resume, Utc::now());
    preview.title = format!("Amend {name}: {}", human::counted(drift.len() as u64, "change"));
    preview.facts = drift.iter().map(|d| ("change", d.clone())).collect();
    preview.same_as = format!("backfill amend {name} --yes");
    let id = backfill.id.clone();
    if !ask::consent_given(ctx, &preview, &consent)? {
        return Ok(());
    }
    let seq = append_same_drift(ctx, &id, &spec, &drift, consent.reason)?;
    let message = format!("{name} amended");
    Recorded::new(ctx, id.as_str(), seq, &message).tell(ctx)
}

/// Appends the changed order if it still means the changes that were shown.
fn append_same_drift(
    ctx: &mut Context,
    id: &BackfillId,
    spec: &Spec,
    shown: &[String],
    reason: Option<String>,
) -> Result<u64, Exit> {
    ctx.on_newest(|ctx, state| {
        let now = state
            .backfills
            .get(id)
            .map_or_else(Vec::new, |b| config::drift(&b.spec, spec));
        if now != shown {
            let lines = now.join("\n  ");
            return Try::No(Exit::usage(format!(
                "the order changed meanwhile, nothing was done; now it would be:\n  {lines}\nask again"
            )));
        }
        let amended = Payload::Amended {
            spec: Box::new(spec.clone()),
            hash: config::spec_hash(spec),
        };
        append(ctx, state, id, vec![amended], reason.as_ref())
    })
}
