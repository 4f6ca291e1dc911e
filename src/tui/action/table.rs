//! The table itself. The order of the rows is the order of help.

use super::{Action, Class, Id, enabled};
use crate::tui::{
    keymap::{LAST, Place},
    model::{App, Feed},
};

const CALENDAR: u16 = Place::Calendar.bit();
const EVENTS: u16 = Place::Events.bit();
const DRAWER: u16 = Place::Drawer.bit();
const LOG: u16 = Place::Log.bit();
const PLAN: u16 = Place::Plan.bit();
const WHY: u16 = Place::Why.bit();
const HELP: u16 = Place::Help.bit();
const TEXT: u16 = Place::Text.bit();
/// Panels in which there is nothing to move in, so that the cursor of the calendar moves.
const GRID: u16 = CALENDAR | Place::Lag.bit() | Place::Executors.bit();
const HOME: u16 = GRID | EVENTS;
const DAYS: u16 = HOME | DRAWER;
const READING: u16 = LOG | WHY | HELP;
const EVERYWHERE: u16 = DAYS | READING | PLAN | TEXT;

type Enabled = fn(&App, &Feed) -> Result<(), String>;
type Keys = &'static [(u16, &'static [&'static str])];

const fn look(id: Id, name: &'static str, keys: Keys, verb: &'static str, about: &'static str) -> Action {
    Action {
        id,
        name,
        keys,
        verb,
        about,
        class: Class::Look,
        repeats: false,
        foot: None,
        enabled: enabled::always,
    }
}

impl Action {
    const fn repeats(mut self) -> Self {
        self.repeats = true;
        self
    }

    const fn foot(mut self, rank: u8, keys: &'static str) -> Self {
        self.foot = Some((rank, keys));
        self
    }

    const fn class(mut self, class: Class) -> Self {
        self.class = class;
        self
    }

    const fn when(mut self, enabled: Enabled) -> Self {
        self.enabled = enabled;
        self
    }
}

/// The table.
pub static ACTIONS: &[Action] = &[
    // The keys row names the four together.
    look(
        Id::MoveLeft,
        "move-left",
        &[(GRID, &["h", "left"]), (DRAWER, &["h", "left"])],
        "move",
        "one week back",
    )
    .repeats()
    .foot(10, "hjkl")
    .when(enabled::has_days),
    look(
        Id::MoveDown,
        "move-down",
        &[(GRID | DRAWER, &["j", "down"])],
        "move",
        "next day; in the zoom of years, next year",
    )
    .repeats()
    .when(enabled::has_days),
    look(
        Id::MoveUp,
        "move-up",
        &[(GRID | DRAWER, &["k", "up"])],
        "move",
        "previous day; in the zoom of years, previous year",
    )
    .repeats()
    .when(enabled::has_days),
    look(
        Id::MoveRight,
        "move-right",
        &[(GRID, &["l", "right"]), (DRAWER, &["right"])],
        "move",
        "one week on",
    )
    .repeats()
    .when(enabled::has_days),
    look(
        Id::PreviousMonth,
        "previous-month",
        &[(DAYS, &["H"])],
        "month",
        "previous month",
    )
    .repeats()
    .when(enabled::has_days),
    look(
        Id::NextMonth,
        "next-month",
        &[(DAYS, &["L"])],
        "month",
        "next month",
    )
    .repeats()
    .when(enabled::has_days),
    look(
        Id::GotoDate,
        "goto-date",
        &[(DAYS, &["g"])],
        "date",
        "asks for a date and goes there; g again is the first day",
    )
    .when(enabled::has_days),
    look(Id::FirstDay, "first-day", &[], "first", "goes to the first day").when(enabled::has_days),
    look(
        Id::LastDay,
        "last-day",
        &[(GRID | DRAWER, &["G"])],
        "last",
        "goes to the last day",
    )
    .when(enabled::has_days),
    look(
        Id::RowStart,
        "row-start",
        &[(GRID, &["0", "home"])],
        "row",
        "first day of the row",
    )
    .when(enabled::has_days),
    look(
        Id::RowEnd,
        "row-end",
        &[(GRID, &["$", "end"])],
        "row",
        "last day of the row",
    )
    .when(enabled::has_days),
    look(
        Id::HalfPageDown,
        "half-page-down",
        &[(GRID, &["ctrl-d", "pgdn"])],
        "half page",
        "half a page on; it destroys nothing, K stops running days",
    )
    .repeats()
    .when(enabled::has_days),
    look(
        Id::HalfPageUp,
        "half-page-up",
        &[(GRID, &["ctrl-u", "pgup"])],
        "half page",
        "half a page back",
    )
    .repeats()
    .when(enabled::has_days),
    look(
        Id::ZoomIn,
        "zoom-in",
        &[(HOME, &["+", "="])],
        "zoom",
        "a cell is a day",
    )
    .foot(20, "+ -")
    .when(enabled::has_days),
    look(
        Id::ZoomOut,
        "zoom-out",
        &[(HOME, &["-", "_"])],
        "zoom",
        "a cell is a week",
    )
    .when(enabled::has_days),
    look(
        Id::Open,
        "open",
        &[(HOME, &["enter"])],
        "open",
        "opens the day: its attempts, why it waits or failed, its log",
    )
    .foot(40, "")
    .when(enabled::has_cursor),
    look(
        Id::Log,
        "log",
        &[(DRAWER, &["l"])],
        "log",
        "the whole log of the newest attempt",
    )
    .foot(15, "")
    .when(enabled::has_attempt),
    look(
        Id::Why,
        "why",
        &[(DAYS, &["w"])],
        "why",
        "why the day does not run, and what would change that",
    )
    .foot(45, "")
    .when(enabled::has_cursor),
    look(
        Id::Filter,
        "filter",
        &[(HOME, &["/"])],
        "filter",
        "shows only days that match words",
    )
    .when(enabled::has_days),
    look(
        Id::NextMatch,
        "next-match",
        &[(DAYS, &["n"])],
        "next failed",
        "next day that matches the filter; without one, the next that needs a human",
    )
    .repeats()
    .foot(30, "")
    .when(enabled::has_days),
    look(
        Id::PreviousMatch,
        "previous-match",
        &[(DAYS, &["N"])],
        "previous failed",
        "previous such day",
    )
    .repeats()
    .when(enabled::has_days),
    look(
        Id::OnlyBad,
        "only-bad",
        &[(HOME, &["!"])],
        "only failed",
        "shows only failed and quarantined days, or all again",
    )
    .when(enabled::has_days),
    look(
        Id::MarkRange,
        "mark-range",
        &[(GRID, &["v"])],
        "select",
        "starts a range at the cursor; v again marks it",
    )
    .when(enabled::has_cursor),
    look(
        Id::MarkDay,
        "mark-day",
        &[(GRID, &["space"])],
        "mark",
        "marks or unmarks the day",
    )
    .when(enabled::has_cursor),
    look(
        Id::MarkTo,
        "mark-to",
        &[(GRID, &["ctrl-space"])],
        "mark to here",
        "marks from the last marked day to the cursor",
    )
    .when(enabled::has_cursor),
    look(
        Id::MarkFailed,
        "mark-failed",
        &[(HOME, &["V"])],
        "mark failed",
        "marks every failed day",
    )
    .when(enabled::has_days),
    look(
        Id::MarkQuarantined,
        "mark-quarantined",
        &[],
        "mark quarantined",
        "marks every quarantined day",
    )
    .when(enabled::has_days),
    look(
        Id::MarkHeld,
        "mark-held",
        &[],
        "mark held",
        "marks every held day",
    )
    .when(enabled::has_days),
    look(
        Id::ClearMarks,
        "clear-marks",
        &[],
        "clear marks",
        "unmarks every day",
    )
    .when(enabled::has_marks),
    look(
        Id::Pause,
        "pause",
        &[(DAYS | LOG | WHY, &["p"])],
        "pause",
        "pauses the whole backfill at once; when it is paused, shows what resuming would do",
    )
    .class(Class::Reduce)
    .foot(55, "")
    .when(enabled::can_pause),
    look(
        Id::Resume,
        "resume",
        &[],
        "resume",
        "shows what resuming would do",
    )
    .class(Class::Widen)
    .when(enabled::can_resume),
    look(
        Id::Hold,
        "hold",
        &[(DAYS, &["b"])],
        "hold",
        "holds the selected days back; when all are held, shows what releasing them would do",
    )
    .class(Class::Reduce)
    .foot(70, "")
    .when(enabled::can_hold),
    look(
        Id::RerunFailed,
        "rerun-failed",
        &[(DAYS, &["r"])],
        "re-run",
        "re-runs the failed days of the selection; without one, all failed days. Shows the plan first",
    )
    .class(Class::Widen)
    .foot(50, "")
    .when(enabled::can_rerun_failed),
    look(
        Id::Rerun,
        "rerun",
        &[(DAYS, &["R"])],
        "re-run all",
        "re-runs every day of the selection, done ones too. Shows the plan first",
    )
    .class(Class::Widen)
    .foot(72, "")
    .when(enabled::has_cursor),
    look(
        Id::Skip,
        "skip",
        &[(DAYS, &["s"])],
        "skip",
        "counts the selected days as settled without running them. Shows the plan first",
    )
    .class(Class::Widen)
    .foot(74, "")
    .when(enabled::can_skip),
    look(
        Id::Throttle,
        "throttle",
        &[(HOME, &["t"])],
        "limit",
        "lowers or raises the cap, overrides the controller for a while, or gives the limit back to it",
    )
    .class(Class::Reduce)
    .foot(60, "")
    .when(enabled::not_final),
    look(
        Id::FreeLimit,
        "free-limit",
        &[],
        "free the limit",
        "takes cap and override away: the controller decides alone",
    )
    .class(Class::Widen)
    .when(enabled::can_free_limit),
    look(
        Id::StopRunning,
        "stop-running",
        &[(DAYS, &["K"])],
        "stop",
        "stops the running attempts of the selection; a phrase is asked for",
    )
    .class(Class::Final)
    .foot(76, "")
    .when(enabled::can_stop),
    look(
        Id::CancelBackfill,
        "cancel-backfill",
        &[],
        "cancel",
        "ends the whole order; its name is asked for",
    )
    .class(Class::Final)
    .when(enabled::not_final),
    look(
        Id::StartSupervising,
        "start-supervising",
        &[(HOME, &["S"])],
        "start supervising",
        "starts a supervisor of its own in the background; it goes on when this screen closes",
    )
    .class(Class::Widen)
    .foot(5, "")
    .when(enabled::nobody_supervises),
    look(
        Id::StopSupervising,
        "stop-supervising",
        &[],
        "stop supervising",
        "asks the supervisor to end; what runs goes on running",
    )
    .class(Class::Widen)
    .when(enabled::somebody_supervises),
    look(
        Id::Arm,
        "arm",
        &[(HOME, &["W"])],
        "arm writes",
        "takes read-only off for this screen, or puts it on",
    ),
    look(
        Id::PanelCalendar,
        "panel-calendar",
        &[(HOME, &["1"])],
        "calendar",
        "keys go to the calendar",
    ),
    look(
        Id::PanelLag,
        "panel-lag",
        &[(HOME, &["2"])],
        "lag",
        "keys go to the lag chart",
    ),
    look(
        Id::PanelExecutors,
        "panel-executors",
        &[(HOME, &["3"])],
        "executors",
        "keys go to the executors",
    ),
    look(
        Id::PanelEvents,
        "panel-events",
        &[(HOME, &["4"])],
        "events",
        "keys go to the events",
    ),
    look(
        Id::NextPanel,
        "next-panel",
        &[(HOME, &["tab"])],
        "panel",
        "next panel",
    ),
    look(
        Id::PreviousPanel,
        "previous-panel",
        &[(HOME, &["shift-tab"])],
        "panel",
        "previous panel",
    ),
    look(
        Id::NextBackfill,
        "next-backfill",
        &[],
        "backfill",
        "shows the next backfill of this journal",
    ),
    look(
        Id::ScrollDown,
        "scroll-down",
        &[(EVENTS | READING | PLAN, &["j", "down", "pgdn", "ctrl-d"])],
        "scroll",
        "scrolls down, towards what is new",
    )
    .repeats()
    .foot(12, "jk")
    .when(enabled::can_scroll),
    look(
        Id::ScrollUp,
        "scroll-up",
        &[(EVENTS | READING | PLAN, &["k", "up", "pgup", "ctrl-u"])],
        "scroll",
        "scrolls up, towards what is old",
    )
    .repeats()
    .when(enabled::can_scroll),
    look(
        Id::ScrollTop,
        "scroll-top",
        &[(LOG | HELP, &["g", "home"])],
        "top",
        "scrolls to the top",
    ),
    look(
        Id::ScrollEnd,
        "scroll-end",
        &[(LOG | HELP, &["G", "end"])],
        "end",
        "scrolls to the end",
    ),
    look(
        Id::Follow,
        "follow",
        &[(HOME | LOG, &["f"])],
        "follow",
        "goes to the newest line and stays there",
    ),
    look(
        Id::Refresh,
        "refresh",
        &[(DAYS | LOG, &["ctrl-r"])],
        "look now",
        "looks at every source now",
    ),
    look(
        Id::Yank,
        "yank",
        &[(DAYS | LOG | WHY, &["y"])],
        "copy id",
        "copies the id of the day, in the drawer of its attempt, to the clipboard",
    )
    .when(enabled::has_cursor),
    look(
        Id::Confirm,
        "confirm",
        &[(PLAN, &["y"])],
        "do it",
        "does what the dialog says, if its plan has not changed",
    )
    .when(enabled::can_confirm),
    look(
        Id::CancelDialog,
        "cancel-dialog",
        &[(PLAN, &["enter", "esc", "q"])],
        "cancel",
        "closes; nothing is done",
    )
    .foot(11, ""),
    look(
        Id::AllDays,
        "all-days",
        &[(PLAN, &["tab"])],
        "every day",
        "lists every day with its reason",
    )
    .foot(14, ""),
    look(
        Id::Close,
        "close",
        &[
            (DAYS | LOG, &["esc"]),
            (WHY, &["esc", "enter", "w"]),
            (HELP, &["esc", "enter", "?"]),
        ],
        "close",
        "closes what is on top, then the range, the filter, the marks",
    )
    .foot(85, "")
    .when(enabled::can_close),
    look(
        Id::Quit,
        "quit",
        &[(DAYS | READING, &["q"])],
        "quit",
        "like esc; where nothing is left to close it leaves the screen. What runs goes on",
    ),
    look(
        Id::Palette,
        "command",
        &[(DAYS | LOG | WHY, &[":", "ctrl-p"])],
        "command",
        "every action by name; also a date, or show NAME",
    )
    .foot(LAST, ""),
    look(
        Id::Help,
        "help",
        &[(DAYS | LOG | WHY | PLAN, &["?"])],
        "help",
        "the keys of this place",
    )
    .foot(LAST + 1, ""),
    look(
        Id::Suspend,
        "suspend",
        &[(EVERYWHERE, &["ctrl-z"])],
        "suspend",
        "gives the terminal back; fg returns. What runs goes on",
    ),
    look(
        Id::Interrupt,
        "interrupt",
        &[(EVERYWHERE, &["ctrl-c"])],
        "quit",
        "asks to leave; twice within 2 s leaves",
    ),
];
