//! What a command that was recorded tells: what, whether somebody supervises, and for those that the supervisor
//! confirms, its word.

use super::context::{Context, Done, Exit};
use crate::{
    domain::{
        attach::{ActionEnd, Asked, Facts},
        event::{Payload, Read},
        human,
        ids::{AttemptId, BackfillId},
        state::{Backfill, BackfillState},
    },
    plan::lever,
};
use chrono::Utc;
use serde::Serialize;
use std::time::{Duration, Instant};

/// How long `pause` and `cancel` wait for the supervisor's word.
const CONFIRM: Duration = Duration::from_secs(5);

/// A command that was recorded.
#[derive(Serialize)]
pub struct Recorded {
    #[serde(skip_serializing_if = "str::is_empty")]
    backfill: Box<str>,
    seq: u64,
    recorded: bool,
    /// Somebody supervised when it was recorded, or confirmed it.
    supervised: bool,
    /// The supervisor's word that nothing more starts; only of what it confirms.
    #[serde(skip_serializing_if = "Option::is_none")]
    confirmed: Option<bool>,
    /// What was under way when it confirmed.
    #[serde(skip_serializing_if = "Option::is_none")]
    in_flight: Option<Vec<AttemptId>>,
    /// Of what ends attempts: somebody is there to end them. Without a supervisor they go on.
    #[serde(skip_serializing_if = "Option::is_none")]
    in_force: Option<bool>,
    /// The backfill's state after it.
    #[serde(skip_serializing_if = "Option::is_none")]
    state: Option<&'static str>,
    message: String,
}

impl Recorded {
    /// Without a confirmation.
    pub fn new(ctx: &Context, backfill: &str, seq: u64, said: &str) -> Self {
        let supervised = ctx.supervised();
        Self {
            backfill: backfill.into(),
            message: format!("{said}{}", nobody(supervised)),
            supervised,
            ..Self::to_the_supervisor(seq, "")
        }
    }

    /// Of stopping runs, which needs somebody who ends them. `recipe`: what does where nobody supervises.
    pub fn of_stop(ctx: &Context, backfill: &str, seq: u64, said: &str, recipe: &str) -> Self {
        let told = Self::new(ctx, backfill, seq, said);
        let message = if told.supervised {
            said.to_owned()
        } else {
            format!("{recipe}; {said}")
        };
        Self {
            in_force: Some(told.supervised),
            message,
            ..told
        }
    }

    /// To the supervisor of all backfills.
    pub fn to_the_supervisor(seq: u64, said: &str) -> Self {
        Self {
            backfill: "".into(),
            seq,
            recorded: true,
            supervised: true,
            confirmed: None,
            in_flight: None,
            in_force: None,
            state: None,
            message: said.to_owned(),
        }
    }

    /// Prints it.
    ///
    /// # Errors
    /// Standard output is gone.
    pub fn tell(&self, ctx: &Context) -> Done {
        ctx.print(self, || self.message.clone())
    }
}

/// What has to be said first of a stop or a cancel while nobody supervises: it kills nothing, and what does so without
/// starting anything.
pub fn goes_on(backfill: &Backfill, cancels: bool) -> String {
    let name = &backfill.spec.name;
    // A paused or cancelled order starts nothing.
    let pause = if cancels || backfill.pause.is_some() || backfill.cancel.is_some() {
        String::new()
    } else {
        format!("`backfill pause {name}` and then ")
    };
    format!(
        "nobody supervises: the runs go on until a supervisor is there; {pause}`backfill run {name}` stops them and \
         starts nothing"
    )
}

const fn nobody(supervised: bool) -> &'static str {
    if supervised {
        ""
    } else {
        "; nobody supervises now, it takes effect with the next `backfill run`"
    }
}

/// What the journal says about a command that the supervisor confirms.
enum Confirmation {
    /// Nothing more is sent; these were under way.
    Applied(Vec<AttemptId>),
    /// Somebody resumed before it was confirmed.
    Resumed(String),
    /// Nothing yet.
    Open,
}

/// Waits for the supervisor's word on the command of that seq. It is read from the events after the command: the
/// state alone would not tell whether a pause that is over was ever confirmed.
fn await_confirmation(ctx: &Context, id: &BackfillId, seq: u64) -> Result<Confirmation, Exit> {
    let began = Instant::now();
    let mut seen = seq;
    loop {
        let waits = ctx.supervised() && began.elapsed() < CONFIRM;
        for event in ctx.journal.read_after(seen, 10_000)? {
            seen = event.seq;
            if event.backfill.as_ref() != Some(id) {
                continue;
            }
            match event.payload {
                Read::Known(Payload::PauseApplied { in_flight }) => {
                    return Ok(Confirmation::Applied(in_flight));
                }
                Read::Known(Payload::Resumed {}) => return Ok(Confirmation::Resumed(event.actor.name)),
                _ => {}
            }
        }
        if !waits {
            return Ok(Confirmation::Open);
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Waits for the supervisor's confirmation and prints what was under way. `supervised`: somebody supervised just
/// before the command was recorded. Whoever confirms a cancel may end with it, so this is not asked afterwards.
///
/// # Errors
/// The journal cannot be read, or standard output is gone.
pub fn confirm(ctx: &Context, id: &BackfillId, seq: u64, supervised: bool, verb: &str) -> Done {
    let confirmation = await_confirmation(ctx, id, seq)?;
    let whole = ctx.state()?;
    let backfill = whole.backfills.get(id);
    let state = backfill.map(Backfill::state);
    let cancels = backfill.is_some_and(|b| b.cancel.is_some());
    let mut told = Recorded {
        backfill: id.as_str().into(),
        supervised,
        confirmed: Some(false),
        state: state.map(BackfillState::word),
        ..Recorded::to_the_supervisor(seq, "")
    };
    told.message = match confirmation {
        Confirmation::Applied(ids) => {
            let message = format!("{verb}; {}", under_way(&ids));
            told.supervised = true;
            told.confirmed = Some(true);
            told.in_flight = Some(ids);
            message
        }
        Confirmation::Resumed(by) => format!("recorded; resumed by {by} meanwhile"),
        Confirmation::Open if ctx.supervised() => "recorded; not yet confirmed by the supervisor".to_owned(),
        // Nobody is needed to end what does not run.
        Confirmation::Open if state == Some(BackfillState::Cancelled) => {
            "cancelled; nobody supervises, and nothing was under way".to_owned()
        }
        Confirmation::Open => match backfill.filter(|_| cancels) {
            Some(cancelled) => {
                told.in_force = Some(false);
                format!("{}; the cancel is recorded", goes_on(cancelled, true))
            }
            None => format!("recorded{}", nobody(false)),
        },
    };
    told.tell(ctx)
}

/// `2 starts were already under way: ..`.
fn under_way(ids: &[AttemptId]) -> String {
    let list: Vec<String> = ids.iter().map(ToString::to_string).collect();
    let count = human::counted(ids.len() as u64, "start");
    match ids.len() {
        0 => "nothing was under way".to_owned(),
        1 => format!("{count} was already under way: {}", list.join(", ")),
        _ => format!("{count} were already under way: {}", list.join(", ")),
    }
}

/// How long an action is waited for at the prompt; longer ones go on, and the journal tells their end.
const ACTION: Duration = Duration::from_secs(20);

/// What came of commands about somebody else's backfill, from the event of that seq on; `is_meant` knows the action, for
/// others may ask for theirs at the same time: the server's words at the end of
/// the action, also of one that the supervisor makes of a pause or its end.
///
/// # Errors
/// The action did not do what it promised: code 1. The journal cannot be read, or standard output is gone.
pub fn action(ctx: &Context, id: &BackfillId, seq: u64, is_meant: impl Fn(&Asked) -> bool) -> Done {
    let began = Instant::now();
    loop {
        let state = ctx.state()?;
        let Some(backfill) = state.backfills.get(id) else {
            return Recorded::new(ctx, id.as_str(), seq, "recorded").tell(ctx);
        };
        let found = backfill.asked.iter().find(|a| a.seq >= seq && is_meant(a));
        if let Some((asked, end)) = found.and_then(|a| Some((a, a.ended.as_ref()?))) {
            return came_to(ctx, id, asked, end);
        }
        // Without a lever that has to be moved there is nothing that a server would have to say.
        let moves = found.is_some() || has_to_move(backfill);
        if !moves || !ctx.supervised() || began.elapsed() > ACTION {
            let said = match found {
                None => without_action(backfill),
                Some(asked) => format!("{}: recorded, under way", asked.action.words()),
            };
            return Recorded::new(ctx, id.as_str(), seq, &said).tell(ctx);
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn came_to(ctx: &Context, id: &BackfillId, asked: &Asked, end: &ActionEnd) -> Done {
    let sent: Vec<&str> = asked.steps.iter().map(|s| s.sent.as_str()).collect();
    let value = serde_json::json!({
        "backfill": id, "seq": asked.seq, "action": asked.action, "sent": sent, "ok": end.ok, "message": end.said,
    });
    if end.ok {
        return ctx.print(&value, || end.said.clone());
    }
    Err(Exit::new(1, format!("{}: {}", asked.action.words(), end.said)))
}

/// Whether the supervisor is about to move the engine's own backfill, as a pause or its end asks for.
fn has_to_move(backfill: &Backfill) -> bool {
    let facts = backfill.seen.as_ref();
    facts.is_some_and(|facts| lever::native(backfill, facts, true, Utc::now()).is_some())
}

/// What a pause of somebody else's backfill, or its end, comes to where no action follows.
fn without_action(backfill: &Backfill) -> String {
    let facts = backfill.seen.as_ref();
    if backfill.spec.attach.is_none() || backfill.detached.is_some() {
        return "recorded".to_owned();
    }
    if backfill.pause.is_none() {
        return match lever::holds(backfill, Utc::now()) {
            None => "recorded: nothing of ours holds it back".to_owned(),
            Some(why) => format!("recorded; it stays held: {why}"),
        };
    }
    if lever::is_paused_there(backfill) {
        return format!(
            "paused; its native backfill was paused there already{}",
            seen_ago(facts)
        );
    }
    match lever::no_native(facts) {
        None => "recorded, under way".to_owned(),
        Some(_) => {
            "recorded; there is no native backfill to pause, so only the pool's slots are lowered".to_owned()
        }
    }
}

fn seen_ago(facts: Option<&Facts>) -> String {
    let age = facts.and_then(|f| (Utc::now() - f.as_of?).to_std().ok());
    age.map_or_else(String::new, |age| format!(", seen {} ago", human::age(age)))
}

/// Why a pause of somebody else's backfill would stop nothing, as far as that is known: such a one is not recorded.
pub fn pauses_nothing(backfill: &Backfill) -> Option<String> {
    let facts = backfill.seen.as_ref().filter(|f| f.as_of.is_some())?;
    let pool = backfill.spec.dag.as_ref().and_then(|d| d.pool.as_ref());
    if backfill.spec.attach.is_none() || backfill.detached.is_some() || pool.is_some() {
        return None;
    }
    let why = lever::no_native(Some(facts))?;
    Some(format!(
        "nothing to pause: {why}, and it was attached without a pool"
    ))
}
