//! Sentences that are shared with the screen, as they have to read at a prompt: where the screen names a key, a prompt
//! needs the command.

use crate::{
    config::{self, Config},
    domain::{
        Time,
        ids::ChunkId,
        state::{Backfill, Chunk, ChunkState},
    },
    plan::{decide, preview::Preview, throttle::authority::Binding, why::Why},
};

/// What the screen calls an action that has a command; in sentences it stands before `, or backfill ..`.
const KEYS: [&str; 8] = ["S", "p", "b", "R", "r", "s", ": close-breaker", ": acknowledge"];

/// Commands that ask before they act: a line to be copied says yes.
const ASKING: [&str; 10] = [
    "rerun",
    "skip",
    "stop-runs",
    "cancel",
    "amend",
    "mark",
    "replace",
    "native",
    "take",
    "detach",
];

/// A reason whose way out can be typed. `chunk`: the one that was asked about. Where the configuration has changed,
/// an open breaker's cause may be mended in it already; then taking it over comes first.
pub fn why(why: Why, backfill: &Backfill, chunk: Option<ChunkId>, config: &Config, now: Time) -> Why {
    let unblock = if why.unblock.is_empty() {
        String::new()
    } else {
        let known = chunk.and_then(|id| backfill.chunk(id));
        typed(&why, backfill, known, now).unwrap_or_else(|| sentence(&why.unblock))
    };
    let unblock = amend_first(unblock, backfill, has_drift(backfill, config));
    Why { unblock, ..why }
}

/// What helps against an open breaker, where the configuration says another order than the one that was started.
pub fn amend_first(unblock: String, backfill: &Backfill, drift: bool) -> String {
    if drift && unblock.contains("close-breaker") {
        format!("backfill amend {}, then: {unblock}", backfill.spec.name)
    } else {
        unblock
    }
}

/// Whether the configuration says another order than the one that was started.
pub fn has_drift(backfill: &Backfill, config: &Config) -> bool {
    let whole = config.faults.is_none();
    let configured = config.backfills.get(&backfill.spec.name).filter(|_| whole);
    configured.is_some_and(|c| !config::drift(&backfill.spec, &c.spec).is_empty())
}

/// Where the screen's sentence names nothing but a key.
fn typed(why: &Why, backfill: &Backfill, chunk: Option<&Chunk>, now: Time) -> Option<String> {
    let name = &backfill.spec.name;
    let chunk = chunk?;
    let day = chunk.id;
    match (why.reason, chunk.state) {
        ("retry", _) => Some(format!("backfill rerun {name} {day}")),
        ("limit", _) if backfill.spec.attach.is_some() => Some(format!("backfill replace {name} N")),
        ("limit", _) => Some(match decide::allowed(backfill, now).by {
            Binding::MaxLimit => format!("set a larger max_limit, then backfill amend {name}"),
            _ => format!("backfill throttle {name} auto"),
        }),
        ("quarantined", ChunkState::Quarantined) => Some(format!(
            "mend the cause, then backfill rerun {name} {day}, or skip it: backfill skip {name} {day}; its log: \
             backfill logs {name} {day}"
        )),
        (reason, state) if state.is_active() && reason == state.word() && reason != "uncertain" => {
            Some(format!("backfill stop-runs {name} {day}"))
        }
        _ => None,
    }
}

/// A sentence without the keys that stand beside a command.
pub fn sentence(text: &str) -> String {
    KEYS.iter().fold(text.to_owned(), |text, key| {
        let beside = format!("{key}, or backfill ");
        let text = match text.strip_prefix(&beside) {
            Some(rest) => format!("backfill {rest}"),
            None => text,
        };
        text.replace(&format!(" {beside}"), " backfill ")
    })
}

/// A plan whose sentences name commands, and whose own command can be copied as it stands.
pub fn preview(mut preview: Preview, backfill: &Backfill) -> Preview {
    let name = &backfill.spec.name;
    for (day, why) in &mut preview.will_not {
        if let Some(first) = why.strip_suffix("release it first: b") {
            *why = format!("{first}release it first: backfill release {name} {day}");
        } else if let Some(now) = why.strip_suffix("K stops it") {
            *why = format!("{now}backfill stop-runs {name} {day} stops it");
        } else if let Some(now) = why.strip_suffix("stop it first (K)") {
            *why = format!("{now}stop it first: backfill stop-runs {name} {day}");
        }
    }
    let verb = preview.same_as.split(' ').nth(1).unwrap_or_default().to_owned();
    let days = preview
        .same_as
        .split(' ')
        .skip(3)
        .filter(|d| !d.starts_with("--"))
        .collect::<Vec<_>>()
        .join(" ");
    let back = if verb == "hold" { "release" } else { "hold" };
    for (_, fact) in &mut preview.facts {
        if let Some(before) = fact.strip_suffix(": R") {
            *fact = format!("{before}: backfill rerun {name} {days}");
        } else if let Some(before) = fact.strip_suffix(": b") {
            *fact = format!("{before}: backfill {back} {name} {days}");
        } else if fact.contains("the days (K)") {
            *fact = fact.replace("stop the days (K)", &format!("backfill stop-runs {name} {days}"));
        } else if fact.contains("the days (b)") {
            *fact = fact.replace("hold the days (b)", &format!("backfill hold {name} {days}"));
        }
    }
    if ASKING.contains(&verb.as_str()) {
        preview.same_as.push_str(" --yes");
    }
    preview
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_beside_a_command_are_left_away_and_nothing_else_is() {
        for (screen, prompt) in [
            ("S, or backfill run orders", "backfill run orders"),
            (
                "S, or backfill run orders; then: mend the cause, then : close-breaker, or backfill close-breaker orders",
                "backfill run orders; then: mend the cause, then backfill close-breaker orders",
            ),
            (
                "release: b, or backfill release orders 2023-01-03",
                "release: backfill release orders 2023-01-03",
            ),
            (
                "acknowledge it: : acknowledge, or backfill acknowledge orders",
                "acknowledge it: backfill acknowledge orders",
            ),
            (
                "make room on the journal's disk",
                "make room on the journal's disk",
            ),
        ] {
            assert_eq!(sentence(screen), prompt);
        }
    }
}
