//! What whoever looks must know before all numbers: that nobody supervises, that the disk is full, and what that means
//! for the work. `status` says it first, in words and as JSON.

use super::{context::Context, prompt};
use crate::{
    config::Config,
    domain::{
        Time,
        event::Rule,
        human,
        ids::{AttemptId, ChunkId, Name},
        state::{Backfill, ChunkState, State},
        text,
    },
    journal::{HolderView, Liveness},
    plan::{decide::Surroundings, why::Why},
    supervisor::glance::{self, Room, is_alive},
};
use serde::Serialize;
use std::collections::BTreeSet;

/// Something that keeps the work from going on and that no single backfill tells.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Attention {
    /// A stable word: `disk`, `unsupervised`, `breaker`, `observer`, `config`.
    pub reason: &'static str,
    /// One sentence.
    pub text: String,
    /// What mends it; empty if nothing has to be done.
    pub mend: String,
}

/// What is seen of the journal's place and of its supervisor.
pub struct Seen {
    /// The lease's holder, living or not.
    pub holder: Option<HolderView>,
    room: Option<Room>,
    place: String,
    /// Attempts that ended while nobody watched, of all orders; empty while somebody does.
    ended: BTreeSet<AttemptId>,
    /// The living supervisor's name, since when it supervises, and the signals that it has not measured yet.
    newcomer: Option<(String, Time, BTreeSet<Name>)>,
}

/// What is said of an attempt whose end only its files tell.
pub const UNWATCHED: &str = "ended while nobody watched; the next `backfill run` records how";

/// After this time a supervisor is no newcomer any more, measured or not.
const NEW: chrono::TimeDelta = chrono::TimeDelta::minutes(10);

impl Seen {
    /// Looks.
    pub fn now(ctx: &Context, state: &State, now: Time) -> Self {
        let mut seen = Self {
            holder: glance::holder(&ctx.journal),
            room: glance::room(&ctx.journal, &ctx.config),
            place: text::clean(&ctx.journal.path().display().to_string()),
            ended: BTreeSet::new(),
            newcomer: None,
        };
        if seen.alive().is_none() {
            let open = state.backfills.values().filter(|b| !b.state().is_final());
            seen.ended = open
                .flat_map(|b| glance::ended_unwatched(&ctx.config, b))
                .collect();
        }
        seen.newcomer = seen.alive().and_then(|alive| newcomer(ctx, state, alive, now));
        seen
    }

    /// The holder, if it can still do something.
    pub fn alive(&self) -> Option<&HolderView> {
        self.holder.as_ref().filter(|h| is_alive(h))
    }

    /// What ended of a backfill while nobody watched.
    pub fn ended_of<'a>(&'a self, backfill: &'a Backfill) -> impl Iterator<Item = &'a AttemptId> {
        self.ended.iter().filter(|a| a.backfill == backfill.id)
    }

    /// Why a chunk is called running although its attempt is over.
    pub fn over(&self, backfill: &Backfill, chunk: ChunkId) -> Option<Why> {
        let over = self.ended_of(backfill).find(|a| a.chunk == chunk)?;
        Some(Why {
            reason: "unsupervised",
            text: format!("attempt {} {UNWATCHED}", over.no),
            unblock: format!("backfill run {}", backfill.spec.name),
        })
    }

    /// Whether the supervisor that lives has measured this signal itself.
    pub fn is_measured(&self, signal: &Name) -> bool {
        let new = self.newcomer.as_ref();
        self.alive().is_some() && !new.is_some_and(|(_, _, unmeasured)| unmeasured.contains(signal))
    }

    /// A reason with what only a look at the outside tells: how much room there is, and that what a former supervisor
    /// saw of a signal has not been looked at again.
    pub fn refined(&self, why: Why, state: &State, backfill: &Backfill, now: Time) -> Why {
        match (why.reason, self.room) {
            ("disk", Some(room)) => Why {
                text: room_in_words(room, &self.place),
                ..why
            },
            ("blind" | "signal" | "critical", _) => match self.inherited(state, backfill, now) {
                Some(first) => Why {
                    text: format!("{first}; before that: {}", why.text),
                    ..why
                },
                None => why,
            },
            _ => why,
        }
    }

    fn inherited(&self, state: &State, backfill: &Backfill, now: Time) -> Option<String> {
        let (name, at, unmeasured) = self.newcomer.as_ref()?;
        let signal = backfill.spec.signals.iter().find(|s| unmeasured.contains(*s))?;
        let old = state.blind.get(signal).is_some_and(|b| b.since < *at)
            || backfill.limit.rule != Rule::Start && backfill.limit.at < *at;
        let age = human::age((now - *at).to_std().unwrap_or_default());
        old.then(|| format!("{name} took over {age} ago and has not measured {signal} yet"))
    }
}

/// Whoever has just taken over. The lease is taken a moment before that is journaled; nothing was measured until then.
fn newcomer(
    ctx: &Context,
    state: &State,
    alive: &HolderView,
    now: Time,
) -> Option<(String, Time, BTreeSet<Name>)> {
    let name = text::clean(&alive.holder);
    match &state.holder {
        Some(holder) if holder.epoch == alive.epoch => {
            (now - holder.at < NEW).then(|| (name, holder.at, unmeasured(ctx, holder.at)))
        }
        _ => Some((name, now, ctx.config.signals.keys().cloned().collect())),
    }
}

/// Signals of which nothing was recorded since.
fn unmeasured(ctx: &Context, since: Time) -> BTreeSet<Name> {
    let signals = ctx.config.signals.keys();
    signals
        .filter(|s| ctx.journal.samples_since(s, since).is_ok_and(|p| p.is_empty()))
        .cloned()
        .collect()
}

/// Everything to be said first, the worst first.
pub fn all(
    ctx: &Context,
    state: &State,
    shown: &[&Backfill],
    around: &Surroundings,
    seen: &Seen,
) -> Vec<Attention> {
    let disk = seen.room.filter(|r| r.is_low()).map(|room| disk(room, seen));
    let alone = (!around.supervised).then(|| unsupervised(shown, seen)).flatten();
    let observer = state.unreadable.as_ref().map(|(seq, kind, version)| Attention {
        reason: "observer",
        text: format!(
            "event {seq} ({kind} v{version}) was written by a newer backfill; this one only watches"
        ),
        mend: "install the newer version".to_owned(),
    });
    let config = state.config_error.as_ref().map(|error| Attention {
        reason: "config",
        text: format!("the changed configuration was not taken over: {error}"),
        mend: "mend the file, it is read again by itself".to_owned(),
    });
    disk.into_iter()
        .chain(alone)
        .chain(shown.iter().filter_map(|b| breaker(b, &ctx.config)))
        .chain(observer)
        .chain(config)
        .collect()
}

/// An open breaker: next to nothing starts before somebody has mended the cause.
fn breaker(backfill: &Backfill, config: &Config) -> Option<Attention> {
    let open = backfill
        .breaker
        .as_ref()
        .filter(|_| !backfill.state().is_final())?;
    let name = &backfill.spec.name;
    Some(Attention {
        reason: "breaker",
        text: format!(
            "the breaker of {name} is open, so nothing starts but a canary: {}",
            open.why
        ),
        mend: if prompt::has_drift(backfill, config) {
            format!("backfill amend {name}, then backfill close-breaker {name}")
        } else {
            format!("mend the cause, then backfill close-breaker {name}")
        },
    })
}

/// `less than 500MB is free beside JOURNAL (12MB), so nothing starts`.
fn room_in_words(room: Room, place: &str) -> String {
    let free = human::bytes(room.free);
    if room.is_full() {
        format!(
            "the disk of the journal is full ({free} free beside {place}): nothing can be recorded, so nothing starts"
        )
    } else {
        format!(
            "{free} free beside the journal {place}, less than disk_low = {}, so nothing starts",
            human::exact_size(room.floor)
        )
    }
}

fn disk(room: Room, seen: &Seen) -> Attention {
    let mut text = room_in_words(room, &seen.place);
    if room.is_full() {
        text.push_str("; attempts that run go on, their ends are recorded when there is room");
    }
    if let Some(holder) = &seen.holder
        && let Some(age) = holder.age.filter(|_| holder.liveness == Liveness::Silent)
    {
        text.push_str(&format!(
            "; {} has recorded nothing for {}",
            holder.holder,
            human::duration(age)
        ));
    }
    Attention {
        reason: "disk",
        text,
        mend: "make room on that disk; it goes on by itself".to_owned(),
    }
}

/// `nobody supervises; 12 chunks wait and 2 attempts run unwatched; ..`. `None` if everything shown has ended, and
/// nothing of it is left on a server.
fn unsupervised(shown: &[&Backfill], seen: &Seen) -> Option<Attention> {
    let (ended, live): (Vec<&Backfill>, Vec<&Backfill>) =
        shown.iter().copied().partition(|b| b.state().is_final());
    let (theirs, open): (Vec<&Backfill>, Vec<&Backfill>) =
        live.iter().copied().partition(|b| b.spec.attach.is_some());
    let left: Vec<(&Backfill, String)> = ended
        .into_iter()
        .filter_map(|b| Some((b, left_behind(b)?)))
        .collect();
    let first = live.first().copied().or(left.first().map(|(b, _)| *b))?;
    let waiting: usize = open.iter().map(|b| waiting(b)).sum();
    let ended: usize = open.iter().map(|b| seen.ended_of(b).count()).sum();
    let running = open
        .iter()
        .map(|b| b.active().count())
        .sum::<usize>()
        .saturating_sub(ended);
    let names: Vec<&str> = open.iter().map(|b| b.spec.name.as_str()).collect();
    let whose = if names.len() > 1 {
        format!(" ({})", names.join(", "))
    } else {
        String::new()
    };
    let wait = if waiting == 1 { "waits" } else { "wait" };
    let runs = if running == 1 { "runs" } else { "run" };
    let what: Vec<String> = [
        (waiting > 0).then(|| format!("{} {wait}{whose}", human::counted(waiting as u64, "chunk"))),
        (running > 0).then(|| format!("{} {runs} unwatched", human::counted(running as u64, "attempt"))),
        (ended > 0).then(|| format!("{} {UNWATCHED}", human::counted(ended as u64, "attempt"))),
    ]
    .into_iter()
    .flatten()
    .chain(theirs.iter().map(|b| format!("{} is not looked at", b.spec.name)))
    .chain(left.iter().map(|(_, says)| says.clone()))
    .collect();
    let who = match seen
        .holder
        .as_ref()
        .filter(|h| !is_alive(h) && h.liveness == Liveness::Silent)
    {
        Some(silent) => format!(
            "nobody supervises: {} lives and has not renewed its lease for {} (stopped, hanging, or cut off from its disk)",
            silent.holder,
            silent.age.map_or("long".to_owned(), human::duration)
        ),
        None => "nobody supervises".to_owned(),
    };
    let run = format!("backfill run {}", first.spec.name);
    Some(Attention {
        reason: "unsupervised",
        text: format!("{who}; {}; `{run}` goes on", what.join(", ")),
        mend: run,
    })
}

/// What of an ended backfill still stands on a server, and a supervisor would put in order.
pub fn left_behind(backfill: &Backfill) -> Option<String> {
    let name = &backfill.spec.name;
    if let Some(hold) = &backfill.pool {
        return Some(format!(
            "pool {} was changed for {name} and has not got its {} slots back",
            text::clean(&hold.pool),
            hold.former
        ));
    }
    let open = backfill.asked.iter().find(|a| a.is_open())?;
    Some(format!("{} of {name} is half done", open.action.words()))
}

/// Chunks that a supervisor would start sooner or later.
fn waiting(backfill: &Backfill) -> usize {
    let waits = |s: ChunkState, retries: bool| s == ChunkState::Pending || s == ChunkState::Failed && retries;
    backfill
        .chunks
        .iter()
        .filter(|c| waits(c.state, c.retry.is_some()))
        .count()
}
