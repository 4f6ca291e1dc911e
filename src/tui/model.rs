//! What a frame is drawn from: the [`Feed`] (what is known about the world, with its ages) and the [`App`] (what
//! this operator looks at). Both are plain values; drawing is a pure function of them, the theme and the area.

use super::{
    attaching::Attaching,
    estimate::Estimate,
    inside::{InsideView, Pick},
    parts::PartsView,
};
pub use crate::plan::preview::Ask;
use crate::{
    config::Unit,
    domain::{
        Time,
        event::Event,
        ids::{AttemptId, BackfillId, ChunkId, Name},
        state::State,
    },
    plan::{preview::Preview, throttle::Report, why::Why},
};
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
    time::Duration,
};

/// A signal as the screen shows it.
#[derive(Debug, Clone, PartialEq)]
pub struct SignalView {
    /// Its name.
    pub name: Name,
    /// Unit of its numbers.
    pub unit: Unit,
    /// Thresholds, in the unit.
    pub low: f64,
    /// Cut level.
    pub soft: f64,
    /// Pause level.
    pub hard: f64,
    /// Hibernate level.
    pub critical: f64,
    /// Poll interval.
    pub interval: Duration,
    /// Whether it stops starts when there are no samples of it.
    pub protects: bool,
    /// Samples of the shown window, oldest first. `None` is a poll that gave no valid sample.
    pub samples: VecDeque<(Time, Option<f64>)>,
    /// Units per second over the slope window; `None` when there are too few samples.
    pub slope: Option<f64>,
    /// What is wrong with it right now, in words; `None` when it is fine.
    pub problem: Option<String>,
}

/// An executor as the screen shows it.
#[derive(Debug, Clone, PartialEq)]
pub struct ExecutorView {
    /// Its name.
    pub name: Name,
    /// Attempts that take a slot.
    pub running: u32,
    /// Slots; `None` of one that has none of its own.
    pub slots: Option<u32>,
    /// What somebody else started there can be attached to.
    pub levers: bool,
    /// When it answered last.
    pub seen: Option<Time>,
    /// What is wrong with it, in words, with the key that helps.
    pub problem: Option<String>,
}

/// Who supervises.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LeaseView {
    /// Nobody: nothing will start.
    Nobody,
    /// A live holder.
    Held {
        /// `host pid 123`.
        holder: String,
        /// Takeover counter.
        epoch: u64,
        /// Age of the last renewal.
        age: Duration,
    },
}

/// Everything known about the world.
#[derive(Debug, Clone)]
pub struct Feed {
    /// The folded journal.
    pub state: Arc<State>,
    /// The newest events, oldest first, at most 500.
    pub events: VecDeque<Event>,
    /// Signals by name.
    pub signals: BTreeMap<Name, SignalView>,
    /// Executors by name.
    pub executors: BTreeMap<Name, ExecutorView>,
    /// Who supervises.
    pub lease: LeaseView,
    /// What the signal on the lag page is made of; `None` while that page is not open.
    pub parts: Option<Arc<PartsView>>,
    /// Limit and running weight of the selected backfill over the shown window: (when, limit, running).
    pub limits: VecDeque<(Time, u32, u32)>,
    /// What the throttle of the selected backfill does and goes by, and when that was so; `None` where nobody told.
    pub throttle: Option<(Time, Report)>,
    /// When the selected backfill will be done; `None` until that was looked into.
    pub estimate: Option<Estimate>,
    /// When the journal was last read successfully.
    pub as_of: Time,
    /// Why the journal cannot be read right now.
    pub problem: Option<String>,
    /// Tail of the log of the attempt in the drawer, already cleaned, and its attempt.
    pub log: Option<(AttemptId, Vec<String>)>,
    /// The inside of the run of the attempt in the drawer, where its executor tells that.
    pub inside: Option<Arc<InsideView>>,
    /// What the screen was opened on, or why on nothing; `None` until the first look has ended.
    pub config: Option<Result<Configured, String>>,
    /// What is wrong with the configuration that the screen itself read, of which it uses what is sound.
    pub config_fault: Option<String>,
}

/// What a screen was opened on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Configured {
    /// The configuration's path.
    pub file: String,
    /// The journal's.
    pub journal: String,
}

/// Zoom of the calendar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Zoom {
    /// A row a year, a cell a week.
    Years,
    /// A row a weekday, a cell a day.
    Days,
}

/// Which panel has the keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Panel {
    /// 1
    Calendar,
    /// 2
    Lag,
    /// 3
    Executors,
    /// 4
    Events,
}

/// A change that is shown and asked for before it happens.
#[derive(Debug, Clone, PartialEq)]
pub struct PlanDialog {
    /// What was asked for.
    pub ask: Ask,
    /// Ways to do it where there are several: words, and what is asked for then. One of them is `ask`.
    pub ways: Vec<(String, Ask)>,
    /// The plan by value, with its digest.
    pub preview: Preview,
    /// The key that opened it; it never acts in the dialog.
    pub opened_by: char,
    /// Set when the plan changed between opening and confirming: what differs.
    pub changed: Vec<String>,
    /// Every day is listed, first row shown.
    pub all_days: Option<usize>,
    /// For class 3: the phrase that must be typed, and what is typed so far.
    pub phrase: Option<(String, String)>,
    /// An action is under way or has ended: one line.
    pub outcome: Option<String>,
}

impl PlanDialog {
    /// Whether up and down go through the days rather than through the ways to do it.
    pub fn scrolls_days(&self) -> bool {
        let days = self.preview.will.len() + self.preview.will_not.len();
        self.all_days.is_some() && (self.ways.len() < 2 || days > FEW_DAYS)
    }
}

/// So many days of a plan are listed without being asked for.
pub const FEW_DAYS: usize = 6;

/// Layers above the home screen, the top one last.
#[derive(Debug, Clone, PartialEq)]
pub enum Layer {
    /// The day drawer.
    Drawer,
    /// The whole log of the drawer's attempt, first row shown from the end.
    Log(usize),
    /// A change to confirm.
    Plan(Box<PlanDialog>),
    /// The throttle dialog: the number being typed.
    Throttle(String),
    /// Why the cursor's day does not run.
    Why,
    /// Keys of this place.
    Help(usize),
    /// The command line or palette: text, and the row that is chosen.
    Palette(String, usize),
    /// A date prompt.
    Date(String),
    /// A filter prompt.
    Filter(String),
    /// A reason line after a pause.
    Reason(String),
    /// A list of what could be attached to, and the form for what was chosen.
    Attach(Box<Attaching>),
}

/// What this operator looks at.
#[derive(Debug, Clone)]
pub struct App {
    /// The backfill on screen.
    pub backfill: Option<BackfillId>,
    /// The day under the cursor.
    pub cursor: Option<ChunkId>,
    /// Marked days.
    pub marks: BTreeSet<String>,
    /// Where a range selection began.
    pub range_from: Option<ChunkId>,
    /// Zoom.
    pub zoom: Zoom,
    /// Focus.
    pub focus: Panel,
    /// Layers, top last.
    pub layers: Vec<Layer>,
    /// The active filter; empty is none.
    pub filter: String,
    /// Only failed and quarantined days.
    pub only_bad: bool,
    /// A line for ten seconds: what was sent, what came of it.
    pub toast: Option<(String, Time)>,
    /// Events are followed rather than scrolled; rows scrolled back.
    pub events_back: usize,
    /// Read-only: actions that change something are not there.
    pub read_only: Option<&'static str>,
    /// What is chosen inside the day's run.
    pub pick: Pick,
    /// The mapped task whose indexes all have a row.
    pub unfolded: Option<String>,
    /// The cached answer to *why* for the cursor's day.
    pub why: Option<Why>,
    /// Ctrl-c was pressed at this instant.
    pub quit_asked: Option<Time>,
}
