//! Why a chunk waits for the end of a blackout, or is not begun before one.

use super::Why;
use crate::{
    domain::{
        Time,
        blackout::{self, Closed},
        human,
        state::{Backfill, Chunk, State},
    },
    plan::decide::{self, LookAhead, Stop, Surroundings},
};
use std::time::Duration;

/// One holds now. What would hold beneath it is told with it, or its end would be a disappointment.
pub(super) fn holds(state: &State, backfill: &Backfill, around: &Surroundings) -> Why {
    let Some(closed) = blackout::now(&backfill.spec.blackout, around.now) else {
        return Why::new("blackout", "a blackout holds", "");
    };
    let beneath = decide::stops(state, backfill, around)
        .filter(|stop| *stop != Stop::Blackout)
        .map(|stop| super::of_stop(state, backfill, stop, around))
        .next();
    let text = format!("{}; running chunks finish", sentence(&closed, around.now));
    match beneath {
        Some(why) => Why::new(
            "blackout",
            format!("{text}; and even then: {}", why.text),
            why.unblock,
        ),
        None => Why::new("blackout", text, way_out(backfill)),
    }
}

/// One begins before anything that waits would be done, so that nothing starts although nothing else holds.
pub fn ahead(backfill: &Backfill, now: Time) -> Option<Why> {
    let ahead = LookAhead::of(backfill, now).filter(|a| a.holds_all(backfill, now))?;
    let takes = ahead.too_long(backfill, decide::in_order(backfill, now).first()?)?;
    Some(too_long(backfill, &ahead, takes, now))
}

/// One begins before the chunk would be done.
pub(super) fn comes(backfill: &Backfill, chunk: &Chunk, now: Time) -> Option<Why> {
    let ahead = LookAhead::of(backfill, now)?;
    let takes = ahead.too_long(backfill, chunk)?;
    Some(too_long(backfill, &ahead, takes, now))
}

fn too_long(backfill: &Backfill, ahead: &LookAhead, takes: Duration, now: Time) -> Why {
    let zone = ahead.closed.window.timezone;
    let longest = blackout::longest_free(&backfill.spec.blackout, now);
    let fits_never = longest.and_then(|l| l.to_std().ok()).is_some_and(|l| l <= takes);
    let then = if fits_never {
        "no time between blackouts is long enough for it"
    } else {
        "it starts after that"
    };
    let text = format!(
        "takes about {} and would still run when the blackout begins at {} (in {}); {then}",
        human::duration(takes),
        ahead.closed.from.with_timezone(&zone).format("%H:%M %Z"),
        human::duration((ahead.closed.from - now).to_std().unwrap_or_default()),
    );
    let help = if fits_never {
        let name = &backfill.spec.name;
        format!(
            "waiting does not help: shorten its deadline or `blackout` in the configuration, then backfill amend {name}"
        )
    } else {
        way_out(backfill)
    };
    Why::new("blackout", text, help)
}

/// `blackout 08:00 to 20:00 mon-fri Europe/Berlin: no starts for 4h10m more`.
fn sentence(closed: &Closed, now: Time) -> String {
    let window = closed.window;
    match closed.until {
        Some(until) => format!(
            "blackout {window}: no starts for {} more",
            human::duration((until - now).to_std().unwrap_or_default())
        ),
        None => format!("blackout {window}: no starts for more than a week"),
    }
}

fn way_out(backfill: &Backfill) -> String {
    let name = &backfill.spec.name;
    format!("wait, or take it out of `blackout` in the configuration, then backfill amend {name}")
}
