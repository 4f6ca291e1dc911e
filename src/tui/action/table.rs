//! The table itself. The order of the rows is the order of help.

use super::{Action, Class, Id, enabled, theirs};
use crate::tui::{
    keymap::{LAST, Place},
    model::{App, Feed},
};

const CALENDAR: u16 = Place::Calendar.bit();
const EVENTS: u16 = Place::Events.bit();
const EXECUTORS: u16 = Place::Executors.bit();
const DRAWER: u16 = Place::Drawer.bit();
const LOG: u16 = Place::Log.bit();
const PLAN: u16 = Place::Plan.bit();
const WHY: u16 = Place::Why.bit();
const HELP: u16 = Place::Help.bit();
const TEXT: u16 = Place::Text.bit();
/// Panels in which there is nothing to move in, so that the cursor of the calendar moves.
const GRID: u16 = CALENDAR | Place::Lag.bit() | EXECUTORS;
const HOME: u16 = GRID | EVENTS;
const DAYS: u16 = HOME | DRAWER;
const READING: u16 = LOG | WHY | HELP;
const EVERYWHERE: u16 = DAYS | READING | PLAN | TEXT;

type Enabled = fn(&App, &Feed) -> Result<(), String>;
type Keys = &'static [(u16, &'static [&'static str])];

const fn look(id: Id, name: &'static str, keys: Keys, about: &'static str) -> Action {
    Action {
        id,
        name,
        keys,
        verb: "",
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

    const fn foot(mut self, rank: u8, keys: &'static str, verb: &'static str) -> Self {
        self.foot = Some((rank, keys));
        self.verb = verb;
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
        "one week back",
    )
    .repeats()
    .foot(10, "hjkl", "move")
    .when(enabled::has_days),
    look(
        Id::MoveDown,
        "move-down",
        &[(GRID | DRAWER, &["j", "down"])],
        "next day; in the zoom of years, next year",
    )
    .repeats()
    .when(enabled::has_days),
    look(
        Id::MoveUp,
        "move-up",
        &[(GRID | DRAWER, &["k", "up"])],
        "previous day; in the zoom of years, previous year",
    )
    .repeats()
    .when(enabled::has_days),
    look(
        Id::MoveRight,
        "move-right",
        &[(GRID, &["l", "right"]), (DRAWER, &["right"])],
        "one week on",
    )
    .repeats()
    .when(enabled::has_days),
    look(
        Id::PreviousMonth,
        "previous-month",
        &[(DAYS, &["H"])],
        "previous month",
    )
    .repeats()
    .when(enabled::has_days),
    look(Id::NextMonth, "next-month", &[(DAYS, &["L"])], "next month")
        .repeats()
        .when(enabled::has_days),
    look(
        Id::GotoDate,
        "goto-date",
        &[(DAYS, &["g"])],
        "go to a date; g again is the first day",
    )
    .when(enabled::has_days),
    look(Id::FirstDay, "first-day", &[], "first day").when(enabled::has_days),
    look(Id::LastDay, "last-day", &[(GRID | DRAWER, &["G"])], "last day").when(enabled::has_days),
    look(
        Id::RowStart,
        "row-start",
        &[(GRID, &["0", "home"])],
        "first day of the row",
    )
    .when(enabled::has_days),
    look(
        Id::RowEnd,
        "row-end",
        &[(GRID, &["$", "end"])],
        "last day of the row",
    )
    .when(enabled::has_days),
    look(
        Id::HalfPageDown,
        "half-page-down",
        &[(GRID, &["ctrl-d", "pgdn"])],
        "half a page on; destroys nothing",
    )
    .repeats()
    .when(enabled::has_days),
    look(
        Id::HalfPageUp,
        "half-page-up",
        &[(GRID, &["ctrl-u", "pgup"])],
        "half a page back",
    )
    .repeats()
    .when(enabled::has_days),
    look(
        Id::ZoomIn,
        "zoom-in",
        &[(HOME, &["+", "="])],
        "zoom in: a cell is a day",
    )
    .foot(20, "+ -", "zoom")
    .when(enabled::has_days),
    look(
        Id::ZoomOut,
        "zoom-out",
        &[(HOME, &["-", "_"])],
        "zoom out: a cell is a week",
    )
    .when(enabled::has_days),
    look(
        Id::Open,
        "open",
        &[(HOME, &["enter"])],
        "open the day: attempts, reasons, log",
    )
    .foot(40, "", "open")
    .when(enabled::has_cursor),
    look(Id::Log, "log", &[(DRAWER, &["l"])], "log of the newest attempt")
        .foot(15, "", "log")
        .when(enabled::has_attempt),
    look(
        Id::NextTask,
        "next-task",
        &[(DRAWER | LOG, &["tab"])],
        "next task of the day's run, and its log",
    )
    .repeats()
    .foot(16, "", "task")
    .when(enabled::has_tasks),
    look(
        Id::PreviousTask,
        "previous-task",
        &[(DRAWER | LOG, &["shift-tab"])],
        "previous task of the day's run",
    )
    .repeats()
    .when(enabled::has_tasks),
    look(
        Id::OlderTry,
        "older-try",
        &[(DRAWER | LOG, &[","])],
        "the try before, also of an earlier attempt",
    )
    .foot(17, ", .", "try")
    .when(enabled::has_tries),
    look(
        Id::NewerTry,
        "newer-try",
        &[(DRAWER | LOG, &["."])],
        "the try after; past the last, whichever is newest",
    )
    .when(enabled::has_tries),
    look(
        Id::Unfold,
        "unfold",
        &[(DRAWER, &["enter"])],
        "every index of the mapped task, or one row",
    )
    .foot(18, "", "unfold")
    .when(enabled::has_fold),
    look(
        Id::Why,
        "why",
        &[(DAYS, &["w"])],
        "why the day does not run, what would help",
    )
    .foot(45, "", "why")
    .when(enabled::has_cursor),
    look(
        Id::Filter,
        "filter",
        &[(HOME, &["/"])],
        "filter: only days that match",
    )
    .when(enabled::has_days),
    look(
        Id::NextMatch,
        "next-match",
        &[(DAYS, &["n"])],
        "next match, or next day that needs you",
    )
    .repeats()
    .foot(30, "", "next failed")
    .when(enabled::has_days),
    look(
        Id::PreviousMatch,
        "previous-match",
        &[(DAYS, &["N"])],
        "previous such day",
    )
    .repeats()
    .when(enabled::has_days),
    look(
        Id::OnlyBad,
        "only-bad",
        &[(HOME, &["!"])],
        "only failed and quarantined, or all again",
    )
    .when(enabled::has_days),
    look(
        Id::MarkRange,
        "mark-range",
        &[(GRID, &["v"])],
        "begin a range here; v again marks it",
    )
    .when(enabled::has_cursor),
    look(
        Id::MarkDay,
        "mark-day",
        &[(GRID, &["space"])],
        "mark or unmark the day",
    )
    .when(enabled::has_cursor),
    look(
        Id::MarkTo,
        "mark-to",
        &[(GRID, &["ctrl-space"])],
        "mark from the last mark to here",
    )
    .when(enabled::has_cursor),
    look(
        Id::MarkFailed,
        "mark-failed",
        &[(HOME, &["V"])],
        "mark every failed day",
    )
    .when(enabled::has_days),
    look(
        Id::MarkQuarantined,
        "mark-quarantined",
        &[],
        "mark every quarantined day",
    )
    .when(enabled::has_days),
    look(Id::MarkHeld, "mark-held", &[], "mark every held day").when(enabled::has_days),
    look(Id::ClearMarks, "clear-marks", &[], "unmark every day").when(enabled::has_marks),
    look(
        Id::Pause,
        "pause",
        &[(DAYS | LOG | WHY, &["p"])],
        "pause at once; when paused, plan to resume",
    )
    .class(Class::Reduce)
    // The most urgent key is there at every width.
    .foot(25, "", "pause")
    .when(enabled::can_pause),
    look(
        Id::Resume,
        "resume",
        &[],
        "resume or acknowledge a latch, after its plan",
    )
    .class(Class::Widen)
    .when(enabled::can_resume),
    look(
        Id::Hold,
        "hold",
        &[(DAYS, &["b"])],
        "hold back; when all are held, release",
    )
    .class(Class::Reduce)
    .foot(70, "", "hold")
    .when(enabled::can_hold),
    look(
        Id::RerunFailed,
        "rerun-failed",
        &[(DAYS, &["r"])],
        "re-run all that failed or is quarantined",
    )
    .class(Class::Widen)
    .foot(50, "", "re-run failed")
    .when(enabled::can_rerun_failed),
    look(Id::Rerun, "rerun", &[(DAYS, &["R"])], "re-run, done days too")
        .class(Class::Widen)
        .foot(72, "", "re-run")
        .when(theirs::can_rerun),
    look(Id::Skip, "skip", &[(DAYS, &["s"])], "skip: settled without a run")
        .class(Class::Widen)
        .foot(74, "", "skip")
        .when(enabled::can_skip),
    look(
        Id::Throttle,
        "throttle",
        &[(DAYS, &["t"])],
        "limit: 6 caps, 6 for 30m forces, auto frees",
    )
    .class(Class::Reduce)
    .foot(60, "", "limit")
    .when(theirs::can_limit),
    look(
        Id::FreeLimit,
        "free-limit",
        &[],
        "give the limit back to the controller",
    )
    .class(Class::Widen)
    .when(enabled::can_free_limit),
    look(
        Id::StopRunning,
        "stop-running",
        &[(DAYS, &["K"])],
        "stop what runs",
    )
    .class(Class::Final)
    .foot(76, "", "stop")
    .when(enabled::can_stop),
    look(
        Id::CancelBackfill,
        "cancel-backfill",
        &[],
        "cancel the whole order",
    )
    .class(Class::Final)
    .when(theirs::can_cancel),
    look(
        Id::TakeDate,
        "take-date",
        &[(GRID & !EXECUTORS | EVENTS | DRAWER | WHY, &["a"])],
        "adopt or clear the run that has the day's date",
    )
    .class(Class::Widen)
    .foot(46, "", "date taken")
    .when(theirs::can_take),
    look(
        Id::MarkAs,
        "mark-as",
        &[(DAYS, &["D"])],
        "call days done or failed on the server, by your word",
    )
    .class(Class::Final)
    .foot(78, "", "mark")
    .when(theirs::can_mark),
    look(
        Id::AttachTo,
        "attach",
        &[(HOME, &["A"])],
        "take hold of what somebody else started",
    )
    .class(Class::Widen)
    .foot(80, "", "attach")
    .when(theirs::can_attach),
    look(Id::Detach, "detach", &[], "let go of somebody else's backfill")
        .class(Class::Widen)
        .when(theirs::can_detach),
    look(
        Id::PauseDag,
        "pause-dag",
        &[],
        "freeze the whole DAG, its live schedule too",
    )
    .class(Class::Final)
    .when(theirs::is_held),
    look(Id::ResumeDag, "resume-dag", &[], "let a frozen DAG run again")
        .class(Class::Widen)
        .when(theirs::is_held),
    look(
        Id::StartSupervising,
        "start-supervising",
        &[(HOME, &["S"])],
        "start a supervisor in the background",
    )
    .class(Class::Widen)
    .foot(5, "", "start supervising")
    .when(enabled::nobody_supervises),
    look(
        Id::StopSupervising,
        "stop-supervising",
        &[],
        "end the supervisor; what runs goes on",
    )
    .class(Class::Widen)
    .when(enabled::somebody_supervises),
    look(
        Id::Arm,
        "arm",
        &[(HOME, &["W"])],
        "arm writes, or put read-only on",
    ),
    look(
        Id::PanelCalendar,
        "panel-calendar",
        &[(HOME, &["1"])],
        "keys go to the calendar",
    ),
    look(
        Id::PanelLag,
        "panel-lag",
        &[(HOME, &["2"])],
        "keys go to the lag chart",
    ),
    look(
        Id::PanelExecutors,
        "panel-executors",
        &[(HOME, &["3"])],
        "keys go to the executors",
    ),
    look(
        Id::PanelEvents,
        "panel-events",
        &[(HOME, &["4"])],
        "keys go to the events",
    ),
    look(Id::NextPanel, "next-panel", &[(HOME, &["tab"])], "next panel"),
    look(
        Id::PreviousPanel,
        "previous-panel",
        &[(HOME, &["shift-tab"])],
        "previous panel",
    ),
    look(
        Id::NextBackfill,
        "next-backfill",
        &[],
        "show the next backfill of this journal",
    ),
    look(
        Id::ScrollDown,
        "scroll-down",
        &[(EVENTS | READING | PLAN, &["j", "down", "pgdn", "ctrl-d"])],
        "scroll down",
    )
    .repeats()
    .foot(12, "jk", "scroll")
    .when(enabled::can_scroll),
    look(
        Id::ScrollUp,
        "scroll-up",
        &[(EVENTS | READING | PLAN, &["k", "up", "pgup", "ctrl-u"])],
        "scroll up",
    )
    .repeats()
    .when(enabled::can_scroll),
    look(
        Id::ScrollTop,
        "scroll-top",
        &[(LOG | HELP, &["g", "home"])],
        "to the top",
    ),
    look(
        Id::ScrollEnd,
        "scroll-end",
        &[(LOG | HELP, &["G", "end"])],
        "to the end",
    ),
    look(
        Id::Follow,
        "follow",
        &[(HOME | LOG, &["f"])],
        "follow the newest line",
    ),
    look(
        Id::Refresh,
        "refresh",
        &[(DAYS | LOG, &["ctrl-r"])],
        "look at every source now",
    ),
    look(
        Id::Yank,
        "yank",
        &[(DAYS | LOG | WHY, &["y"])],
        "copy the id of the day or attempt",
    )
    .when(enabled::has_cursor),
    look(
        Id::Confirm,
        "confirm",
        &[(PLAN, &["y"])],
        "do it, if the plan has not changed",
    )
    .when(enabled::can_confirm),
    look(
        Id::CancelDialog,
        "cancel-dialog",
        &[(PLAN, &["enter", "esc", "q"])],
        "close; nothing is done",
    )
    .foot(11, "", "cancel"),
    look(
        Id::AllDays,
        "all-days",
        &[(PLAN, &["tab"])],
        "every day with its reason",
    )
    .foot(14, "", "details"),
    look(
        Id::Close,
        "close",
        &[
            (DAYS | LOG, &["esc"]),
            (WHY, &["esc", "enter", "w"]),
            (HELP, &["esc", "enter", "?"]),
        ],
        "close the top, then range, filter, marks",
    )
    .foot(85, "", "close")
    .when(enabled::can_close),
    look(
        Id::Quit,
        "quit",
        &[(DAYS | READING, &["q"])],
        "like esc; at the bottom quit, runs go on",
    ),
    look(
        Id::Palette,
        "command",
        &[(DAYS | LOG | WHY, &[":", "ctrl-p"])],
        "every action by name, a date, show NAME",
    )
    .foot(LAST, "", "command"),
    look(
        Id::Help,
        "help",
        &[(DAYS | LOG | WHY | PLAN, &["?"])],
        "the keys of this place",
    )
    .foot(LAST + 1, "", "help"),
    look(
        Id::Suspend,
        "suspend",
        &[(EVERYWHERE, &["ctrl-z"])],
        "suspend; fg returns, runs go on",
    ),
    look(
        Id::Interrupt,
        "interrupt",
        &[(EVERYWHERE, &["ctrl-c"])],
        "twice within 2 s quits, runs go on",
    ),
];
