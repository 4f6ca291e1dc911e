//! The screen's machine: `update(machine, feed, planner, message, now)` changes what the operator looks at and
//! returns what is to be done. It never waits, never reads a clock, touches no file and no network.

mod attach;
mod cursor;
mod dialog;
mod fed;
mod input;
mod inside;
pub mod palette;
mod scroll;
pub mod select;
mod theirs;

pub(in crate::tui) use dialog::{Limit, limit_of, read_limit};
pub(in crate::tui) use theirs::{Line, read as read_theirs};

use super::{
    action::{Action, Availability, Class, Id, action, availability},
    effect::{Effect, Planner, Watch},
    inside::Pick,
    keymap::{Key, Place, key_of, lookup, may_repeat},
    model::{App, Feed, Layer, Panel, Zoom},
    msg::{Answer, Msg, Press},
    view::{self, numbers::until},
};
use crate::domain::{
    Time,
    event::Payload,
    ids::{BackfillId, ChunkId},
};
use chrono::Duration;
use std::collections::BTreeSet;

/// The word that answers a key before the journal does.
pub const SENT: &str = "sent";

/// How long a message stays, how long the second ctrl-c counts, how long keys that change something are ignored
/// after a dialog came up or the window got the keyboard, and from when on a missing answer is spoken of.
pub(in crate::tui) const TOAST: Duration = Duration::seconds(10);
const QUIT_AGAIN: Duration = Duration::seconds(2);
const GUARD: Duration = Duration::milliseconds(300);
const SILENCE: Duration = Duration::seconds(2);
/// A message is there at least so long; from then on the next key takes it away.
const READ: Duration = Duration::seconds(1);

/// What the operator looks at, and what the machine remembers between messages.
#[derive(Debug, Clone)]
pub struct Machine {
    /// What is drawn.
    pub app: App,
    /// Which backfill to show first, as name or id; without one the newest that is not at its end.
    wanted: Option<String>,
    /// Where the cursor was when its day vanished.
    lost: Option<ChunkId>,
    /// Where a mark was set last, for `ctrl-space`.
    last_mark: Option<ChunkId>,
    /// The window got the keyboard at this time.
    focused: Option<Time>,
    /// Since when the top dialog, as it is, has been on the screen.
    seen: Seen,
    /// Numbers of effects.
    next_op: u64,
    /// Sent and not answered.
    pending: Vec<Pending>,
    /// Recorded and not yet folded here: place in the journal, what it was.
    recorded: Vec<(u64, String)>,
    /// The operation of the dialog on top, once it is confirmed.
    dialog_op: Option<u64>,
    /// The operation of the pause that a reason line is open for.
    pause_op: Option<u64>,
    /// When `p` was struck again at the empty reason line.
    second_p: Option<Time>,
    /// The pause whose confirmation was told: its start.
    told_pause: Option<Time>,
    /// Actions of the shown backfill whose end is known.
    told_actions: Option<(BackfillId, BTreeSet<u64>)>,
    /// The operation of an attachment that was sent, and the id that it gets.
    attach_op: Option<(u64, BackfillId)>,
    /// What was attached to and is not in the feed yet: it is shown when it is.
    awaited: Option<BackfillId>,
    /// What the feeder was last told to look at.
    watch: Watch,
    /// How often the operator asked for a look now.
    looks: u32,
    /// The screen is so large that it always shows the day under the cursor, its log included.
    pinned: bool,
    /// Where read-only came from, so that it can be put on again.
    origin: &'static str,
    told_ctrl_d: bool,
    /// Columns and rows of the terminal; none until it is known.
    size: (u16, u16),
    /// Newest event and length of the log when the feed was last taken in, so that what is scrolled back stays put.
    newest: u64,
    log_lines: u64,
}

/// Since when a dialog has been on the screen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Seen {
    /// There is none that guards itself.
    Nothing,
    /// It opened or changed, and no frame has shown it yet.
    NotYet,
    /// A frame showed it at this time.
    Since(Time),
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Pending {
    op: u64,
    what: String,
    at: Time,
}

impl Machine {
    /// A machine that has seen nothing yet. `wanted` is the name or id of the backfill to show; `read_only` says
    /// where read-only comes from (`flag`, `env`, `file`).
    pub fn new(wanted: Option<String>, read_only: Option<&'static str>) -> Self {
        Self {
            app: App {
                backfill: None,
                cursor: None,
                marks: BTreeSet::new(),
                range_from: None,
                zoom: Zoom::Days,
                focus: Panel::Calendar,
                layers: Vec::new(),
                filter: String::new(),
                only_bad: false,
                toast: None,
                events_back: 0,
                read_only,
                pick: Pick::default(),
                unfolded: None,
                why: None,
                quit_asked: None,
            },
            wanted,
            lost: None,
            last_mark: None,
            focused: None,
            seen: Seen::Nothing,
            next_op: 1,
            pending: Vec::new(),
            recorded: Vec::new(),
            dialog_op: None,
            pause_op: None,
            second_p: None,
            told_pause: None,
            told_actions: None,
            attach_op: None,
            awaited: None,
            watch: Watch::default(),
            looks: 0,
            pinned: false,
            origin: read_only.unwrap_or("key"),
            told_ctrl_d: false,
            size: (0, 0),
            newest: 0,
            log_lines: 0,
        }
    }

    /// What was sent and has no answer yet, for the last words after the screen closed.
    pub fn unanswered(&self) -> Vec<String> {
        self.pending.iter().map(|p| p.what.clone()).collect()
    }

    fn say(&mut self, text: impl Into<String>, now: Time) {
        self.app.toast = Some((text.into(), now));
    }

    fn set_cursor(&mut self, id: ChunkId) {
        self.app.cursor = Some(id);
        self.lost = None;
    }

    /// Puts a layer on top; dialogs do not act before they have been seen.
    fn push(&mut self, layer: Layer) {
        self.app.layers.push(layer);
        self.seen = Seen::NotYet;
    }

    fn pop(&mut self) -> Option<Layer> {
        let layer = self.app.layers.pop();
        if matches!(layer, Some(Layer::Plan(_))) {
            self.dialog_op = None;
        }
        if self.app.layers.is_empty() {
            self.seen = Seen::Nothing;
        }
        layer
    }

    /// Numbers an operation and remembers it until its answer comes.
    fn op(&mut self, what: impl Into<String>, now: Time) -> u64 {
        let op = self.next_op;
        self.next_op += 1;
        let what = what.into();
        self.pending.push(Pending { op, what, at: now });
        op
    }

    /// A command that only reduces work: sent at once.
    fn command(
        &mut self,
        backfill: Option<BackfillId>,
        payload: Payload,
        reason: Option<String>,
        what: String,
        now: Time,
    ) -> Effect {
        self.say(format!("{what}: {SENT}"), now);
        let op = self.op(what, now);
        Effect::Command {
            op,
            backfill,
            payload,
            reason,
        }
    }

    /// Why a key that changes something is too early to have been meant.
    fn too_early(&self, at: Time) -> Option<&'static str> {
        let within = |since: Time| at - since < GUARD && at >= since - GUARD;
        if self.focused.is_some_and(within) {
            return Some("ignored: this window just got the keyboard");
        }
        match self.seen {
            Seen::NotYet => Some("ignored: struck before the dialog was on the screen"),
            // A key that was struck before the frame waited in a queue: its operator had not seen the dialog.
            Seen::Since(since) if at - since < GUARD => Some("ignored: struck as the dialog came up"),
            _ => None,
        }
    }
}

/// Takes in one message. `now` is the wall clock; everything that times out is measured with it.
pub fn update(machine: &mut Machine, feed: &Feed, planner: &dyn Planner, msg: Msg, now: Time) -> Vec<Effect> {
    let ctx = Ctx { feed, planner, now };
    let before = (machine.app.cursor, machine.app.backfill.clone());
    let fed = matches!(msg, Msg::Fed);
    let mut effects = match msg {
        Msg::Key(press) => on_key(machine, &ctx, press),
        Msg::Paste(text) => {
            input::paste(machine, &text, now);
            Vec::new()
        }
        Msg::Focus(gained) => {
            machine.focused = gained.then_some(now);
            Vec::new()
        }
        Msg::Resize(width, height) => {
            machine.pinned = view::pins_the_day(width, height);
            machine.size = (width, height);
            Vec::new()
        }
        Msg::Tick => {
            on_tick(machine, now);
            Vec::new()
        }
        Msg::Fed => {
            fed::take_in(machine, feed, now);
            dialog::follow(machine, &ctx);
            Vec::new()
        }
        Msg::Drawn => {
            if machine.seen == Seen::NotYet {
                machine.seen = Seen::Since(now);
            }
            Vec::new()
        }
        Msg::Answer { op, answer } if machine.attach_op.as_ref().is_some_and(|(o, _)| *o == op) => {
            attach::answered(machine, &ctx, answer)
        }
        Msg::Answer { op, answer } => {
            on_answer(machine, &ctx, op, answer);
            Vec::new()
        }
        Msg::Scouted { op, what } => attach::scouted(machine, &ctx, op, what),
        Msg::Note(text) => {
            machine.say(text, now);
            Vec::new()
        }
    };
    inside::day_changed(machine, &before);
    if fed || before != (machine.app.cursor, machine.app.backfill.clone()) {
        machine.app.why = match (&machine.app.backfill, machine.app.cursor) {
            (Some(backfill), Some(chunk)) => planner.why(feed, backfill, chunk, now),
            _ => None,
        };
    }
    effects.extend(fed::watch(machine, feed));
    effects
}

/// What a message is seen against.
struct Ctx<'a> {
    feed: &'a Feed,
    planner: &'a dyn Planner,
    now: Time,
}

fn on_key(machine: &mut Machine, ctx: &Ctx<'_>, press: Press) -> Vec<Effect> {
    machine.app.toast.take_if(|(_, at)| press.at - *at >= READ);
    let place = Place::of(&machine.app);
    match (place, lookup(place, press.key)) {
        (_, Some(id)) => press_action(machine, ctx, id, press),
        (Place::Text, None) => input::key(machine, ctx, press),
        (_, None) => {
            if !is_opening_key(machine, press.key) && !press.repeat {
                machine.say(
                    format!("{} does nothing here, ? lists the keys", press.key),
                    ctx.now,
                );
            }
            Vec::new()
        }
    }
}

/// Whether a key is the one that opened the dialog on top: it never acts there, and is not worth a word.
fn is_opening_key(machine: &Machine, key: Key) -> bool {
    match machine.app.layers.last() {
        Some(Layer::Plan(dialog)) => key.text() == Some(dialog.opened_by),
        _ => false,
    }
}

/// A key that means an action: held-down keys and keys that come too early stop here.
fn press_action(machine: &mut Machine, ctx: &Ctx<'_>, id: Id, press: Press) -> Vec<Effect> {
    let row = action(id);
    if press.repeat && !may_repeat(row) {
        return Vec::new();
    }
    if is_opening_key(machine, press.key) {
        return Vec::new();
    }
    let changes = row.class > Class::Look || id == Id::Confirm;
    if let Some(why) = machine.too_early(press.at).filter(|_| changes) {
        machine.say(why, ctx.now);
        return Vec::new();
    }
    let by = press.key.text().unwrap_or('\r');
    act(machine, ctx, row, by)
}

/// Carries out an action that was asked for by key or by name. `by` is the character that asked.
fn act(machine: &mut Machine, ctx: &Ctx<'_>, row: &Action, by: char) -> Vec<Effect> {
    match availability(row, &machine.app, ctx.feed) {
        Availability::Ready => perform(machine, ctx, row.id, by),
        Availability::Disabled(why) => {
            machine.say(why, ctx.now);
            Vec::new()
        }
        Availability::Hidden(origin) => {
            let arm = key_of(Id::Arm, Place::Calendar);
            machine.say(format!("read-only by {origin}: {arm} arms writes"), ctx.now);
            Vec::new()
        }
    }
}

fn perform(machine: &mut Machine, ctx: &Ctx<'_>, id: Id, by: char) -> Vec<Effect> {
    let Ctx { feed, now, .. } = *ctx;
    match id {
        Id::Quit if !close(machine) => return vec![Effect::Quit],
        Id::Quit => {}
        Id::Close | Id::CancelDialog => {
            close(machine);
        }
        Id::Interrupt => return interrupt(machine, now),
        Id::Suspend => return vec![Effect::Suspend],
        Id::Refresh => {
            machine.looks = machine.looks.wrapping_add(1);
            machine.say("looking at every source now", now);
            return vec![Effect::Refresh];
        }
        Id::Yank => return yank(machine, feed, now),
        Id::Pause
        | Id::Resume
        | Id::Hold
        | Id::RerunFailed
        | Id::Rerun
        | Id::Skip
        | Id::Throttle
        | Id::FreeLimit
        | Id::StopRunning
        | Id::CancelBackfill
        | Id::TakeDate
        | Id::MarkAs
        | Id::Detach
        | Id::PauseDag
        | Id::ResumeDag
        | Id::StartSupervising
        | Id::StopSupervising
        | Id::Confirm
        | Id::AllDays => return dialog::perform(machine, ctx, id, by),
        Id::GotoDate => machine.push(Layer::Date(String::new())),
        Id::Filter => machine.push(Layer::Filter(machine.app.filter.clone())),
        Id::Palette => machine.push(Layer::Palette(String::new(), 0)),
        Id::AttachTo => return attach::open(machine, ctx),
        Id::Open => machine.push(Layer::Drawer),
        Id::Log => inside::open_log(machine, feed),
        Id::NextTask => inside::step(machine, feed, false),
        Id::PreviousTask => inside::step(machine, feed, true),
        Id::NewerTry => inside::go_to_try(machine, feed, true, now),
        Id::OlderTry => inside::go_to_try(machine, feed, false, now),
        Id::Unfold => inside::unfold(machine, feed),
        Id::Why => machine.push(Layer::Why),
        Id::Help => machine.push(Layer::Help(0)),
        Id::NextMatch => cursor::next_match(machine, feed, false, now),
        Id::PreviousMatch => cursor::next_match(machine, feed, true, now),
        Id::NextBackfill => next_backfill(machine, feed, now),
        Id::Arm => arm(machine, now),
        Id::ScrollDown | Id::ScrollUp | Id::ScrollTop | Id::ScrollEnd | Id::Follow => {
            scroll::scroll(machine, ctx, id)
        }
        _ => look(machine, feed, id, now),
    }
    Vec::new()
}

/// Zoom, panels, marks and movement.
fn look(machine: &mut Machine, feed: &Feed, id: Id, now: Time) {
    let app = &mut machine.app;
    let panel = |by: usize| PANELS[(app.focus as usize + by) % PANELS.len()];
    match id {
        Id::ZoomIn => app.zoom = Zoom::Days,
        Id::ZoomOut => app.zoom = Zoom::Years,
        Id::PanelCalendar => app.focus = Panel::Calendar,
        Id::PanelLag => app.focus = Panel::Lag,
        Id::PanelExecutors => app.focus = Panel::Executors,
        Id::PanelEvents => app.focus = Panel::Events,
        Id::NextPanel => app.focus = panel(1),
        Id::PreviousPanel => app.focus = panel(PANELS.len() - 1),
        Id::OnlyBad => app.only_bad = !app.only_bad,
        Id::MarkRange
        | Id::MarkDay
        | Id::MarkTo
        | Id::MarkFailed
        | Id::MarkQuarantined
        | Id::MarkHeld
        | Id::ClearMarks => dialog::mark(machine, feed, id, now),
        _ => cursor::go(machine, feed, id, now),
    }
}

const PANELS: [Panel; 4] = [Panel::Calendar, Panel::Lag, Panel::Executors, Panel::Events];

/// Closes what is on top: a layer, else the range, else the filter, else the marks. `false`: nothing was left.
fn close(machine: &mut Machine) -> bool {
    if machine.pop().is_some() || machine.app.range_from.take().is_some() {
        return true;
    }
    let app = &mut machine.app;
    if !app.filter.is_empty() || app.only_bad {
        app.filter.clear();
        app.only_bad = false;
        return true;
    }
    let marks = !app.marks.is_empty();
    app.marks.clear();
    machine.last_mark = None;
    marks
}

/// Ctrl-c asks, and a second one soon after leaves.
fn interrupt(machine: &mut Machine, now: Time) -> Vec<Effect> {
    let asked = machine.app.quit_asked;
    if asked.is_some_and(|at| now - at < QUIT_AGAIN && now >= at) {
        return vec![Effect::Quit];
    }
    machine.app.quit_asked = Some(now);
    machine.say(
        "ctrl-c again within 2 s leaves the screen; what runs goes on",
        now,
    );
    Vec::new()
}

fn arm(machine: &mut Machine, now: Time) {
    match machine.app.read_only.take() {
        Some(_) => machine.say("writes are armed for this screen; W takes them away", now),
        None => {
            machine.app.read_only = Some(machine.origin);
            machine.say("read-only: nothing can be changed from this screen", now);
        }
    }
}

fn next_backfill(machine: &mut Machine, feed: &Feed, now: Time) {
    let all: Vec<&BackfillId> = feed.state.backfills.keys().collect();
    let here = all
        .iter()
        .position(|id| Some(*id) == machine.app.backfill.as_ref());
    match all.get((here.map_or(0, |i| i + 1)) % all.len().max(1)) {
        Some(next) if all.len() > 1 => fed::show(machine, feed, (*next).clone()),
        _ => machine.say("this journal holds no other backfill", now),
    }
}

/// The id goes to the clipboard: of the attempt where one is on show, else of the day.
fn yank(machine: &mut Machine, feed: &Feed, now: Time) -> Vec<Effect> {
    let Some((backfill, day)) = select::shown(&machine.app, feed).zip(machine.app.cursor) else {
        return Vec::new();
    };
    let attempt = backfill.chunk(day).and_then(|c| c.last());
    let text = match (machine.app.layers.is_empty(), attempt) {
        (false, Some(attempt)) => backfill.attempt_id(day, attempt.no).to_string(),
        _ => format!("{}/{day}", backfill.id),
    };
    machine.say(format!("{text} sent to the terminal's clipboard (OSC 52)"), now);
    vec![Effect::Copy(text)]
}

fn on_tick(machine: &mut Machine, now: Time) {
    if machine.app.quit_asked.is_some_and(|at| now - at >= QUIT_AGAIN) {
        machine.app.quit_asked = None;
    }
    if machine
        .app
        .toast
        .as_ref()
        .is_some_and(|(_, at)| now - *at >= TOAST)
    {
        machine.app.toast = None;
    }
    // What has no answer is not forgotten: it is spoken of until it has one.
    let old_news = machine
        .app
        .toast
        .as_ref()
        .is_none_or(|(_, at)| now - *at >= SILENCE);
    if let Some(oldest) = machine
        .pending
        .first()
        .filter(|p| old_news && now - p.at >= SILENCE)
    {
        let ago = until(now - oldest.at);
        machine.say(format!("{}: {SENT} {ago} ago, no answer yet", oldest.what), now);
    }
}

fn on_answer(machine: &mut Machine, ctx: &Ctx<'_>, op: u64, answer: Answer) {
    let at = machine.pending.iter().position(|p| p.op == op);
    let Some(Pending { what, .. }) = at.map(|at| machine.pending.remove(at)) else {
        return;
    };
    if machine.dialog_op == Some(op) {
        dialog::answered(machine, answer, what, ctx);
        return;
    }
    match answer {
        Answer::Accepted { seq } => {
            // The supervisor's confirmation can be here before the journal's receipt, and says more.
            if Some(op) != machine.pause_op || !fed::is_pause_told(machine, ctx.feed) {
                machine.say(format!("{what}: recorded as event {seq}"), ctx.now);
            }
            machine.recorded.push((seq, what));
            fed::look_for_refusals(machine, ctx.feed, ctx.now);
        }
        Answer::Done { what: done } => machine.say(done, ctx.now),
        Answer::Refused { why } => machine.say(format!("{what}: refused, {why}"), ctx.now),
        Answer::Changed(_) => {
            machine.say(
                format!("{what}: nothing was done, the plan has changed; open it again"),
                ctx.now,
            );
        }
    }
}
