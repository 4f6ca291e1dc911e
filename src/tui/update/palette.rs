//! The palette: every action by name, a date, and the other backfills of the journal.

use super::{cursor, select};
use crate::{
    domain::ids::{BackfillId, ChunkId},
    tui::{
        action::{ACTIONS, Action, Class, Group, Id},
        keymap::{PaletteRow, Place, why_not},
        model::{App, Feed},
    },
};

/// What a row does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Pick {
    /// An action, as if its key had been pressed.
    Action(Id),
    /// Shows another backfill.
    Show(BackfillId),
    /// Goes to a date.
    Date(ChunkId),
}

/// A row of the palette.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// What it does.
    pub what: Pick,
    /// What is shown.
    pub shown: PaletteRow,
}

/// Where a row stands: whether after all that works, how well it fits, what it is for and how urgent it is.
type Standing = (bool, u8, Option<Group>, usize);

/// The rows for the text typed so far, best first: the whole name or key, then beginnings, then letters in order; of
/// what fits alike the urgent first.
/// What cannot be used now comes last and says why; what read-only took away is not there.
pub fn rows(app: &App, feed: &Feed, text: &str) -> Vec<Row> {
    let exact_key = text.trim().to_owned();
    let text = exact_key.to_lowercase();
    let mut ranked: Vec<(Standing, Row)> = Vec::new();
    if let Some(row) = date(app, feed, &text) {
        ranked.push(((false, 0, None, 0), row));
    }
    let place = Place::below(app);
    for action in ACTIONS.iter().filter(|a| offered(a, place)) {
        let keys = keys(action, place);
        let rank = match keys.split(' ').any(|k| k == exact_key) && !exact_key.is_empty() {
            true => Some(0),
            false => rank(action.name, &text)
                .or_else(|| about(action.about, &text))
                .or_else(|| scattered(action, &text)),
        };
        if let Some((rank, why_not)) = rank.zip(why_not(action, app, feed)) {
            let shown = PaletteRow {
                name: action.name.to_owned(),
                keys,
                verb: action.about.to_owned(),
                why_not,
            };
            let what = Pick::Action(action.id);
            // A name that was typed whole comes first also when it cannot be used now: enter must never do something
            // else.
            let last = shown.why_not.is_some() && (rank > 0 || text.is_empty());
            ranked.push((
                (last, rank, Some(action.group()), action.urgency()),
                Row { what, shown },
            ));
        }
    }
    for backfill in feed
        .state
        .backfills
        .values()
        .filter(|b| Some(&b.id) != app.backfill.as_ref())
    {
        let name = format!("show {}", backfill.id);
        if let Some(rank) = rank(&name, &text).or_else(|| in_order(&name, &text).then_some(SCATTERED)) {
            let shown = PaletteRow {
                name,
                keys: String::new(),
                verb: format!("{}, {} chunks", backfill.state().word(), backfill.chunks.len()),
                why_not: None,
            };
            let what = Pick::Show(backfill.id.clone());
            ranked.push(((false, rank, Some(Group::Screen), 0), Row { what, shown }));
        }
    }
    ranked.sort_by_key(|(order, _)| *order);
    ranked.into_iter().map(|(_, row)| row).collect()
}

/// Everything that makes sense by name: what has a key here, and what has no key at all. Movement has not.
fn offered(action: &Action, place: Place) -> bool {
    let here = action.keys.iter().any(|(places, _)| places & place.bit() != 0);
    let within = matches!(action.id, Id::Palette | Id::Help | Id::Close | Id::Open);
    (here || action.keys.is_empty()) && !action.repeats && !within
}

fn keys(action: &Action, place: Place) -> String {
    let here = action.keys.iter().find(|(places, _)| places & place.bit() != 0);
    here.map(|(_, keys)| keys.join(" ")).unwrap_or_default()
}

/// `2023-11-24`, `g 2023-11-24`: a row that goes there.
fn date(app: &App, feed: &Feed, text: &str) -> Option<Row> {
    let text = text.strip_prefix("g ").unwrap_or(text);
    if !text.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let backfill = select::shown(app, feed)?;
    let day = cursor::find_date(backfill, text).ok()?;
    Some(Row {
        what: Pick::Date(day),
        shown: PaletteRow {
            name: format!("g {day}"),
            keys: "g".to_owned(),
            verb: format!("goes to {day} ({})", backfill.spec.timezone),
            why_not: None,
        },
    })
}

/// The letters of the text occur in the name, in their order.
const SCATTERED: u8 = 4;

/// How well a name fits: smaller is better, `None` not at all.
fn rank(name: &str, text: &str) -> Option<u8> {
    if name == text || text.is_empty() {
        return Some(0);
    }
    if name.starts_with(text) {
        return Some(1);
    }
    name.split(['-', ' '])
        .any(|word| word.starts_with(text))
        .then_some(2)
}

/// Its letters occur in the name. What cannot be undone is never offered for a few letters that happen to occur in it.
fn scattered(action: &Action, text: &str) -> Option<u8> {
    (action.class != Class::Final && in_order(action.name, text)).then_some(SCATTERED)
}

/// A word of the description begins with the text.
fn about(sentence: &str, text: &str) -> Option<u8> {
    let hit = sentence
        .split_whitespace()
        .any(|word| word.to_lowercase().starts_with(text));
    (hit && text.len() >= 3).then_some(3)
}

/// Whether all letters of `text` occur in `name`, in this order.
fn in_order(name: &str, text: &str) -> bool {
    let mut rest = name.chars();
    text.chars()
        .filter(|c| !c.is_whitespace())
        .all(|c| rest.any(|r| r == c))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tui::action::action;

    #[test]
    fn whole_names_come_before_beginnings_before_letters_in_order() {
        assert_eq!(rank("rerun", "rerun"), Some(0));
        assert_eq!(rank("rerun-failed", "rerun"), Some(1));
        assert_eq!(rank("mark-failed", "fail"), Some(2));
        assert_eq!(rank("stop-running", "sprn"), None);
        assert!(in_order("stop-running", "sprn"));
        assert!(!in_order("stop-running", "nrs"));
        // The way on where a signal latched, and not the end of everything.
        assert_eq!(rank("cancel-backfill", "ack"), None);
        let cancel = action(Id::CancelBackfill);
        assert_eq!((cancel.class, scattered(cancel, "ack")), (Class::Final, None));
        assert_eq!(about(action(Id::Resume).about, "ack"), Some(3));
    }
}
