//! Keys and where they mean what. One table ([`super::action::ACTIONS`]) says which action a key is in which place;
//! dispatch, the keys row, help and the palette are all read from it.

use super::{
    action::{ACTIONS, Action, Class, Id, action, availability, foot_verb},
    model::{App, Feed, Layer, Panel},
};
use std::{collections::HashMap, fmt, str::FromStr, sync::LazyLock};

/// A key without its modifiers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Code {
    /// The character that it makes, capitals and signs included.
    Char(char),
    Enter,
    Esc,
    Tab,
    BackTab,
    Backspace,
    Delete,
    Left,
    Right,
    Up,
    Down,
    Home,
    End,
    PageUp,
    PageDown,
    F(u8),
}

/// A key with the modifiers that do not change its character.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Key {
    /// Which.
    pub code: Code,
    /// With control.
    pub ctrl: bool,
    /// With alt (or option, or a leading escape).
    pub alt: bool,
}

impl Key {
    /// A key without modifiers.
    pub const fn plain(code: Code) -> Self {
        Self {
            code,
            ctrl: false,
            alt: false,
        }
    }

    /// The character, if it is text rather than a command.
    pub const fn text(self) -> Option<char> {
        match self.code {
            Code::Char(c) if !self.ctrl && !self.alt => Some(c),
            _ => None,
        }
    }
}

/// Names of keys that make no character.
const NAMES: &[(&str, Code)] = &[
    ("space", Code::Char(' ')),
    ("enter", Code::Enter),
    ("esc", Code::Esc),
    ("tab", Code::Tab),
    ("shift-tab", Code::BackTab),
    ("backspace", Code::Backspace),
    ("delete", Code::Delete),
    ("left", Code::Left),
    ("right", Code::Right),
    ("up", Code::Up),
    ("down", Code::Down),
    ("home", Code::Home),
    ("end", Code::End),
    ("pgup", Code::PageUp),
    ("pgdn", Code::PageDown),
];

impl FromStr for Key {
    type Err = String;

    /// Reads `p`, `R`, `ctrl-d`, `alt-x`, `shift-tab`, `space`, `f5`.
    fn from_str(s: &str) -> Result<Self, String> {
        let (mut rest, mut ctrl, mut alt) = (s, false, false);
        loop {
            if let Some(tail) = rest.strip_prefix("ctrl-") {
                (rest, ctrl) = (tail, true);
            } else if let Some(tail) = rest.strip_prefix("alt-") {
                (rest, alt) = (tail, true);
            } else {
                break;
            }
        }
        let mut chars = rest.chars();
        let code = match (chars.next(), chars.next()) {
            (Some(one), None) => Some(Code::Char(one)),
            _ => NAMES
                .iter()
                .find(|(name, _)| *name == rest)
                .map(|(_, code)| *code),
        };
        let f = || rest.strip_prefix('f').and_then(|n| n.parse().ok()).map(Code::F);
        match code.or_else(f) {
            Some(code) => Ok(Self { code, ctrl, alt }),
            None => Err(format!("`{s}` is not a key")),
        }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.ctrl {
            f.write_str("ctrl-")?;
        }
        if self.alt {
            f.write_str("alt-")?;
        }
        match (NAMES.iter().find(|(_, code)| *code == self.code), self.code) {
            (Some((name, _)), _) => f.write_str(name),
            (None, Code::Char(c)) => write!(f, "{c}"),
            (None, Code::F(n)) => write!(f, "f{n}"),
            (None, _) => f.write_str("key"),
        }
    }
}

/// Where the operator is: what a key means depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Place {
    /// The home screen with the keys in the calendar.
    Calendar,
    /// .. in the lag chart.
    Lag,
    /// .. in the executors.
    Executors,
    /// .. in the events.
    Events,
    /// The day drawer.
    Drawer,
    /// The whole log.
    Log,
    /// A plan dialog without a phrase.
    Plan,
    /// The answer to *why*.
    Why,
    /// Help.
    Help,
    /// Any input line: letters are text here.
    Text,
}

impl Place {
    /// Every place.
    pub const ALL: [Self; 10] = [
        Self::Calendar,
        Self::Lag,
        Self::Executors,
        Self::Events,
        Self::Drawer,
        Self::Log,
        Self::Plan,
        Self::Why,
        Self::Help,
        Self::Text,
    ];

    /// Where the operator is, ignoring `skip` layers from the top.
    fn under(app: &App, skip: usize) -> Self {
        let depth = app.layers.len().saturating_sub(skip);
        match app.layers.get(..depth).and_then(<[Layer]>::last) {
            None => match app.focus {
                Panel::Calendar => Self::Calendar,
                Panel::Lag => Self::Lag,
                Panel::Executors => Self::Executors,
                Panel::Events => Self::Events,
            },
            Some(Layer::Drawer) => Self::Drawer,
            Some(Layer::Log(_)) => Self::Log,
            Some(Layer::Plan(dialog)) if dialog.phrase.is_some() => Self::Text,
            Some(Layer::Plan(_)) => Self::Plan,
            Some(Layer::Why) => Self::Why,
            Some(Layer::Help(_)) => Self::Help,
            Some(
                Layer::Throttle(_)
                | Layer::Palette(..)
                | Layer::Date(_)
                | Layer::Filter(_)
                | Layer::Reason(_)
                | Layer::Attach(_),
            ) => Self::Text,
        }
    }

    /// Where the operator is.
    pub fn of(app: &App) -> Self {
        Self::under(app, 0)
    }

    /// The place that help or the palette on top speaks of.
    pub fn below(app: &App) -> Self {
        Self::under(app, 1)
    }

    pub(super) const fn bit(self) -> u16 {
        1 << self as u16
    }
}

/// All keys of all places. A key that two actions claim belongs to the first; a test sees to it that there is none.
static KEYS: LazyLock<HashMap<(Place, Key), Id>> = LazyLock::new(|| {
    let mut keys = HashMap::new();
    for (place, key, id) in bindings() {
        keys.entry((place, key)).or_insert(id);
    }
    keys
});

fn bindings() -> Vec<(Place, Key, Id)> {
    let mut all = Vec::new();
    for action in ACTIONS {
        for (places, keys) in action.keys {
            for place in Place::ALL.into_iter().filter(|p| places & p.bit() != 0) {
                let keys = keys.iter().filter_map(|k| k.parse::<Key>().ok());
                all.extend(keys.map(|key| (place, key, action.id)));
            }
        }
    }
    all
}

/// The action of a key in a place.
pub fn lookup(place: Place, key: Key) -> Option<Id> {
    KEYS.get(&(place, key)).copied()
}

/// Keys that two actions claim in one place, as `place: key: one and the other`.
pub fn conflicts() -> Vec<String> {
    let mut seen: HashMap<(Place, Key), Id> = HashMap::new();
    let mut bad = Vec::new();
    for (place, key, id) in bindings() {
        match seen.insert((place, key), id) {
            Some(other) if other != id => {
                let (one, two) = (action(other).name, action(id).name);
                bad.push(format!("{place:?}: {key}: {one} and {two}"));
            }
            _ => {}
        }
    }
    bad
}

/// The first key of an action in a place, as text; empty if it has none there.
pub fn key_of(id: Id, place: Place) -> &'static str {
    let here = action(id)
        .keys
        .iter()
        .find(|(places, _)| places & place.bit() != 0);
    here.and_then(|(_, keys)| keys.first()).copied().unwrap_or("")
}

pub use super::view::hints::{HelpRow, Hints, PaletteRow};

/// The most items of the keys row.
const KEYS_ROW: usize = 11;

/// Makes the hints for what the operator sees.
pub fn hints(app: &App, feed: &Feed) -> Hints {
    let place = Place::of(app);
    let about = match place {
        Place::Help => Place::below(app),
        place => place,
    };
    let mut hints = Hints {
        keys: keys_row(app, feed, place),
        help: help(app, feed, about),
        palette: Vec::new(),
    };
    if let Some(Layer::Palette(text, _)) = app.layers.last() {
        let rows = super::update::palette::rows(app, feed, text).into_iter();
        hints.palette = rows.map(|row| row.shown).collect();
    }
    hints
}

fn keys_row(app: &App, feed: &Feed, place: Place) -> Vec<(String, String)> {
    let mut row: Vec<(u8, (String, String))> = ACTIONS
        .iter()
        .filter_map(|a| {
            let (rank, keys) = a.foot?;
            let here = a.keys.iter().any(|(places, _)| places & place.bit() != 0);
            let ready = here && availability(a, app, feed).is_ready();
            let keys = match (keys, place) {
                ("", _) => key_of(a.id, place),
                // There `l` is the log.
                ("hjkl", Place::Drawer) => "hjk",
                _ => keys,
            };
            ready.then(|| (rank, (keys.to_owned(), foot_verb(a, app, feed).to_owned())))
        })
        .collect();
    row.sort_by_key(|(rank, _)| *rank);
    // Help and the command line are the last to go, so they are kept when the row is cut.
    let (last, mut first): (Vec<_>, Vec<_>) = row.into_iter().partition(|(rank, _)| *rank >= LAST);
    first.truncate(KEYS_ROW - last.len().min(KEYS_ROW));
    first.into_iter().chain(last).map(|(_, hint)| hint).collect()
}

/// Items of the keys row from this rank on are never cut.
pub(super) const LAST: u8 = 90;

fn help(app: &App, feed: &Feed, place: Place) -> Vec<HelpRow> {
    let mut rows: Vec<(&Action, HelpRow)> = ACTIONS
        .iter()
        .filter_map(|a| {
            let (_, keys) = a.keys.iter().find(|(places, _)| places & place.bit() != 0)?;
            let row = HelpRow {
                keys: keys.join(" "),
                verb: a.about.to_owned(),
                why_not: why_not(a, app, feed)?,
                group: a.group().word(),
            };
            Some((a, row))
        })
        .collect();
    // What works comes first, and of that what is urgent: nobody scrolls for the key that pauses.
    rows.sort_by_key(|(a, row)| (row.why_not.is_some(), a.group(), a.urgency()));
    rows.into_iter().map(|(_, row)| row).collect()
}

/// Why an action does nothing now, if it does nothing; `None` where read-only took it away altogether.
pub(super) fn why_not(action: &Action, app: &App, feed: &Feed) -> Option<Option<String>> {
    let availability = availability(action, app, feed);
    (!availability.is_hidden()).then(|| availability.reason())
}

/// Whether holding the key down may act again: movement and scrolling, never anything with a class.
pub fn may_repeat(action: &Action) -> bool {
    action.repeats && action.class == Class::Look
}
