//! The one table of actions: name, keys, words, danger class, and when it can be used. Dispatch, the keys row,
//! help, the palette and the read-only filter are read from it and from nothing else.

mod enabled;
mod table;
mod theirs;

pub use table::ACTIONS;

use super::{
    model::{App, Feed},
    update::select,
};

/// How dangerous an action is. Read-only takes away everything above [`Class::Look`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// Only looks.
    Look = 0,
    /// Only reduces work: done at once.
    Reduce = 1,
    /// Starts or widens work: a plan is shown first.
    Widen = 2,
    /// Cannot be taken back: a plan is shown and a phrase is typed.
    Final = 3,
}

/// Every action.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Id {
    MoveLeft,
    MoveDown,
    MoveUp,
    MoveRight,
    PreviousMonth,
    NextMonth,
    GotoDate,
    FirstDay,
    LastDay,
    RowStart,
    RowEnd,
    HalfPageDown,
    HalfPageUp,
    ZoomIn,
    ZoomOut,
    PanelCalendar,
    PanelLag,
    PanelExecutors,
    PanelEvents,
    NextPanel,
    PreviousPanel,
    Open,
    Close,
    Quit,
    Filter,
    NextMatch,
    PreviousMatch,
    OnlyBad,
    MarkRange,
    MarkDay,
    MarkTo,
    MarkFailed,
    MarkQuarantined,
    MarkHeld,
    ClearMarks,
    Pause,
    Resume,
    Hold,
    RerunFailed,
    Rerun,
    Throttle,
    FreeLimit,
    StopRunning,
    Skip,
    Why,
    Arm,
    Log,
    NextTask,
    PreviousTask,
    NewerTry,
    OlderTry,
    Unfold,
    Follow,
    Refresh,
    Yank,
    Help,
    Palette,
    StartSupervising,
    StopSupervising,
    CancelBackfill,
    TakeDate,
    MarkAs,
    Detach,
    PauseDag,
    ResumeDag,
    AttachTo,
    NextBackfill,
    ScrollDown,
    ScrollUp,
    ScrollTop,
    ScrollEnd,
    Confirm,
    CancelDialog,
    AllDays,
    Suspend,
    Interrupt,
}

/// One action of the table.
pub struct Action {
    /// Which.
    pub id: Id,
    /// Its name in the palette, in help and in bug reports.
    pub name: &'static str,
    /// Its keys, by place.
    pub keys: &'static [(u16, &'static [&'static str])],
    /// One or two words for the keys row; empty if it is not in it.
    pub verb: &'static str,
    /// What it does, for help and palette.
    pub about: &'static str,
    /// How dangerous it is.
    pub class: Class,
    /// Holding the key down acts again.
    pub repeats: bool,
    /// Rank in the keys row and the keys as they are written there; empty for the first key of the place.
    pub foot: Option<(u8, &'static str)>,
    /// Why it cannot be used right now.
    pub enabled: fn(&App, &Feed) -> Result<(), String>,
}

/// What an action is for; help and palette list them in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Group {
    /// Changes the world.
    Act,
    /// Explains it.
    Look,
    /// Chooses days.
    Mark,
    /// Goes to days.
    Move,
    /// Arranges the screen.
    Screen,
}

impl Group {
    /// Its title.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Act => "act",
            Self::Look => "look",
            Self::Mark => "mark",
            Self::Move => "move",
            Self::Screen => "screen",
        }
    }
}

/// What an operator wants at once when something goes wrong, first one first.
const URGENT: [Id; 12] = [
    Id::StartSupervising,
    Id::Pause,
    Id::Resume,
    Id::Throttle,
    Id::Hold,
    Id::StopRunning,
    Id::RerunFailed,
    Id::Rerun,
    Id::Skip,
    Id::FreeLimit,
    Id::CancelBackfill,
    Id::StopSupervising,
];

impl Action {
    /// What it is for.
    pub const fn group(&self) -> Group {
        use Id::{
            AllDays, CancelDialog, ClearMarks, Confirm, Filter, FirstDay, Follow, GotoDate, HalfPageDown,
            HalfPageUp, LastDay, Log, MarkDay, MarkFailed, MarkHeld, MarkQuarantined, MarkRange, MarkTo,
            MoveDown, MoveLeft, MoveRight, MoveUp, NewerTry, NextMatch, NextMonth, NextTask, OlderTry,
            OnlyBad, Open, PreviousMatch, PreviousMonth, PreviousTask, RowEnd, RowStart, ScrollDown,
            ScrollEnd, ScrollTop, ScrollUp, Unfold, Why,
        };
        match (self.class, self.id) {
            (Class::Reduce | Class::Widen | Class::Final, _) | (_, Confirm | CancelDialog) => Group::Act,
            (
                _,
                Why | Open | Log | NextMatch | PreviousMatch | Filter | OnlyBad | Follow | AllDays | NextTask
                | PreviousTask | NewerTry | OlderTry | Unfold,
            ) => Group::Look,
            (_, MarkRange | MarkDay | MarkTo | MarkFailed | MarkQuarantined | MarkHeld | ClearMarks) => {
                Group::Mark
            }
            (
                _,
                MoveLeft | MoveDown | MoveUp | MoveRight | PreviousMonth | NextMonth | GotoDate | FirstDay
                | LastDay | RowStart | RowEnd | HalfPageDown | HalfPageUp | ScrollDown | ScrollUp | ScrollTop
                | ScrollEnd,
            ) => Group::Move,
            _ => Group::Screen,
        }
    }

    /// Rank within its group; what is not urgent keeps the order of the table.
    pub fn urgency(&self) -> usize {
        URGENT
            .iter()
            .position(|id| *id == self.id)
            .unwrap_or(URGENT.len())
    }
}

/// The row of an action.
pub fn action(id: Id) -> &'static Action {
    // Every id has a row; a test holds that.
    ACTIONS.iter().find(|a| a.id == id).unwrap_or(&ACTIONS[0])
}

/// Whether an action can be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Availability {
    /// Read-only took it away, with the origin of read-only.
    Hidden(&'static str),
    /// It does nothing right now, and why.
    Disabled(String),
    /// It can be used.
    Ready,
}

impl Availability {
    /// It can be used.
    pub fn is_ready(&self) -> bool {
        *self == Self::Ready
    }

    /// Read-only took it away.
    pub fn is_hidden(&self) -> bool {
        matches!(self, Self::Hidden(_))
    }

    /// Why it does nothing, if it is there and does nothing.
    pub fn reason(self) -> Option<String> {
        match self {
            Self::Disabled(why) => Some(why),
            _ => None,
        }
    }
}

/// Whether an action can be used now. The only place that knows what read-only takes away.
pub fn availability(action: &Action, app: &App, feed: &Feed) -> Availability {
    if action.class > Class::Look {
        if let Some(origin) = app.read_only {
            return Availability::Hidden(origin);
        }
        if let Some((_, kind, version)) = &feed.state.unreadable {
            return Availability::Disabled(format!(
                "the journal holds `{kind}` v{version} of a newer backfill program: this one may only watch"
            ));
        }
    }
    match (action.enabled)(app, feed) {
        Ok(()) => Availability::Ready,
        Err(why) => Availability::Disabled(why),
    }
}

/// The verb of an action in the keys row, which for two of them depends on what they would do now.
pub fn foot_verb(action: &Action, app: &App, feed: &Feed) -> &'static str {
    let shown = select::shown(app, feed);
    match action.id {
        Id::Pause if shown.is_some_and(select::is_resumed_by_p) => "resume",
        Id::Hold if shown.is_some_and(|b| select::few_all_held(app, b)) => "release",
        Id::NextMatch if !app.filter.is_empty() => "next match",
        Id::MoveLeft if app.range_from.is_some() => "extend",
        Id::Close if app.layers.is_empty() => "clear",
        _ => action.verb,
    }
}
