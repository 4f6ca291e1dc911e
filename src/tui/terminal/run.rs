//! The run loop: waits for messages, hands them to the machine, has effects carried out and draws once when
//! something changed. It is generic over the backend, the drawer, the hands and the host, so that a test owns the
//! whole program. Nothing in it waits for the network, the disk or a child process.

use super::{PANIC, signals::Signal};
use crate::{
    domain::Time,
    tui::{
        effect::{Effect, Planner},
        feeder::News,
        keymap::{Hints, hints},
        model::{App, Feed},
        msg::{Answer, Msg},
        update::{Machine, update},
    },
};
use ratatui::{Frame, Terminal, backend::Backend, layout::Rect};
use std::{
    io,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::Ordering,
        mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel},
    },
    thread,
    time::{Duration, Instant},
};

/// How many messages may wait for the loop, and how many are taken in before a frame is drawn.
const INBOX: usize = 256;
/// The longest sleep; a second of the clock is never missed by more.
const SECOND: Duration = Duration::from_secs(1);
/// How often the loop looks whether the terminal is its own again after a suspend.
const AWAY: Duration = Duration::from_millis(50);
/// How long the screen waits for the message of its own stop before it comes back without.
const STOPPING: Duration = Duration::from_millis(500);
/// How long leaving waits for answers to what was sent.
const LAST_WORDS: Duration = Duration::from_millis(300);

/// Draws a frame from plain values.
pub trait Draw {
    /// Draws; `now` is for ages and the clock.
    fn draw(&mut self, frame: &mut Frame<'_>, feed: &Feed, app: &App, hints: &Hints, now: Time);
}

impl<F: FnMut(&mut Frame<'_>, &Feed, &App, &Hints, Time)> Draw for F {
    fn draw(&mut self, frame: &mut Frame<'_>, feed: &Feed, app: &App, hints: &Hints, now: Time) {
        self(frame, feed, app, hints, now);
    }
}

/// Carries out effects without making the loop wait.
pub trait Hands {
    /// Takes an effect. What can be answered at once is; everything else answers through the inbox.
    fn take(&mut self, effect: Effect, feed: &Feed) -> Option<Msg>;
}

/// The terminal beside the drawing.
pub trait Host {
    /// Sends the frame that was drawn.
    ///
    /// # Errors
    /// The terminal is gone.
    fn commit(&mut self) -> io::Result<()>;
    /// Puts a text into the clipboard.
    ///
    /// # Errors
    /// It does not fit, or the terminal is gone.
    fn copy(&mut self, text: &str) -> io::Result<()>;
    /// Whether there is a shell to return to, in words if not.
    ///
    /// # Errors
    /// There is none.
    fn can_stop(&self) -> Result<(), String>;
    /// Gives the terminal back. Until it is taken again, the stop signal stops the process by itself, and comes as a
    /// message afterwards.
    fn leave(&mut self);
    /// Stops the whole process group at once, this process with it, as the terminal does on ctrl-z.
    fn stop_group(&mut self);
    /// Stops this process alone; returns when it is continued.
    fn stop_here(&mut self);
    /// Whether the terminal may be taken.
    fn in_foreground(&self) -> bool;
    /// Takes the terminal again.
    ///
    /// # Errors
    /// The terminal is gone.
    fn enter(&mut self) -> io::Result<()>;
}

/// Why the loop ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The operator left.
    Quit,
    /// A signal, by number.
    Signal(i32),
    /// The terminal is gone.
    Gone,
    /// Some thread panicked; the report is on the normal screen.
    Panicked,
    /// Nobody can send messages any more.
    Closed,
}

impl End {
    /// The process's exit code.
    pub const fn code(self) -> i32 {
        match self {
            Self::Quit | Self::Closed => 0,
            Self::Signal(signal) => 128 + signal,
            Self::Gone => 129,
            Self::Panicked => 101,
        }
    }
}

enum Item {
    Msg(Msg),
    /// Something lies in the slots.
    Wake,
}

#[derive(Default)]
struct Slots {
    news: Option<News>,
    signals: Vec<Signal>,
    gone: bool,
}

/// Where everything for the loop goes. Bounded: keys beyond the bound are dropped, news are merged, signals and a
/// hang-up always arrive.
#[derive(Clone)]
pub struct Inbox {
    items: SyncSender<Item>,
    slots: Arc<Mutex<Slots>>,
}

/// The loop's end of the inbox.
pub struct Mailbox {
    items: Receiver<Item>,
    slots: Arc<Mutex<Slots>>,
}

/// Makes an inbox.
pub fn inbox() -> (Inbox, Mailbox) {
    let (tx, rx) = sync_channel(INBOX);
    let slots = Arc::<Mutex<Slots>>::default();
    let inbox = Inbox {
        items: tx,
        slots: slots.clone(),
    };
    (inbox, Mailbox { items: rx, slots })
}

impl Inbox {
    fn slots(&self, change: impl FnOnce(&mut Slots)) {
        change(&mut self.slots.lock().unwrap_or_else(PoisonError::into_inner));
        // A full inbox wakes the loop anyway.
        let _ = self.items.try_send(Item::Wake);
    }

    /// Input from the terminal. While the loop does not keep up, further keys are dropped.
    pub fn input(&self, msg: Msg) {
        let _ = self.items.try_send(Item::Msg(msg));
    }

    /// News of the world; merged with what the loop has not taken in yet.
    pub fn news(&self, news: News) {
        self.slots(|slots| match &mut slots.news {
            Some(waiting) => waiting.merge(news),
            empty => *empty = Some(news),
        });
    }

    /// A signal.
    pub fn signal(&self, signal: Signal) {
        self.slots(|slots| slots.signals.push(signal));
    }

    /// The terminal hung up.
    pub fn gone(&self) {
        self.slots(|slots| slots.gone = true);
    }

    /// What somebody brought who was sent out; waits for room, which only their own threads ever do.
    pub fn tell(&self, msg: Msg) {
        let _ = self.items.send(Item::Msg(msg));
    }

    /// What came of an effect; waits for room, which only the driver's threads ever do.
    pub fn answer(&self, op: u64, answer: Answer) {
        let _ = self.items.send(Item::Msg(Msg::Answer { op, answer }));
    }
}

/// The whole program: what a test owns.
pub struct Screen<B: Backend, D, X, H> {
    /// Where frames go.
    pub terminal: Terminal<B>,
    /// The drawer.
    pub draw: D,
    /// Carries out effects.
    pub hands: X,
    /// The terminal beside the drawing.
    pub host: H,
    /// What the operator looks at.
    pub machine: Machine,
    /// The world.
    pub feed: Feed,
    planner: Arc<dyn Planner>,
    clock: Box<dyn Fn() -> Time>,
    dirty: bool,
    /// The terminal belongs to somebody else.
    away: bool,
    /// Messages of a stop and of a continue that the loop knows of already are still to come: each is one. They may
    /// come late, when the screen is back already.
    expect_stop: bool,
    expect_continue: bool,
    /// When the loop went on after it had stopped its group.
    went_on: Option<Instant>,
    end: Option<End>,
}

impl<B: Backend, D: Draw, X: Hands, H: Host> Screen<B, D, X, H> {
    /// Puts the parts together.
    #[allow(clippy::too_many_arguments, reason = "each is a part that tests replace")]
    pub fn new(
        terminal: Terminal<B>,
        draw: D,
        hands: X,
        host: H,
        machine: Machine,
        feed: Feed,
        planner: Arc<dyn Planner>,
        clock: impl Fn() -> Time + 'static,
    ) -> Self {
        Self {
            terminal,
            draw,
            hands,
            host,
            machine,
            feed,
            planner,
            clock: Box::new(clock),
            dirty: true,
            away: false,
            expect_stop: false,
            expect_continue: false,
            went_on: None,
            end: None,
        }
    }

    /// Runs until something ends it, and hands itself back.
    pub fn run(mut self, mailbox: &Mailbox) -> (End, Self) {
        if let Ok(size) = self.terminal.size() {
            self.handle(Msg::Resize(size.width, size.height));
        }
        self.paint();
        let mut tick = Instant::now() + self.to_next_second();
        loop {
            let end = self.turn(mailbox, &mut tick);
            if let Some(end) = end.or(self.end) {
                self.last_words(mailbox);
                return (end, self);
            }
        }
    }

    /// One turn: waits, takes in all that is there, draws once.
    fn turn(&mut self, mailbox: &Mailbox, tick: &mut Instant) -> Option<End> {
        let mut wait = tick.saturating_duration_since(Instant::now());
        if self.away {
            wait = wait.min(AWAY);
        }
        let first = match mailbox.items.recv_timeout(wait) {
            Ok(item) => Some(item),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => return Some(End::Closed),
        };
        if let Some(end) = self.take_slots(mailbox).or_else(panicked) {
            return Some(end);
        }
        for item in first.into_iter().chain(mailbox.items.try_iter().take(INBOX)) {
            if let Item::Msg(msg) = item {
                self.handle(msg);
            }
            if self.end.is_some() {
                return self.end;
            }
        }
        if Instant::now() >= *tick {
            self.handle(Msg::Tick);
            *tick = Instant::now() + self.to_next_second();
        }
        let heard = !self.expect_stop || self.went_on.is_none_or(|at| at.elapsed() >= STOPPING);
        if self.away && heard && self.host.in_foreground() {
            self.come_back();
        }
        if self.dirty && !self.away {
            self.paint();
        }
        None
    }

    /// Signals and a hang-up first, then the news.
    fn take_slots(&mut self, mailbox: &Mailbox) -> Option<End> {
        let Slots { news, signals, gone } =
            std::mem::take(&mut *mailbox.slots.lock().unwrap_or_else(PoisonError::into_inner));
        if gone {
            return Some(End::Gone);
        }
        for signal in signals {
            match signal {
                Signal::End(number) => return Some(End::Signal(number)),
                Signal::Stop => self.stop(),
                Signal::Continue if self.expect_continue => self.expect_continue = false,
                // Somebody stopped us without asking; the terminal may look like anything.
                Signal::Continue => self.away = true,
            }
        }
        if let Some(news) = news {
            let changed = news.apply(&mut self.feed);
            if changed {
                self.handle(Msg::Fed);
            }
        }
        None
    }

    /// Hands a message to the machine and has its effects carried out.
    pub fn handle(&mut self, msg: Msg) {
        let mut queue = vec![msg];
        while let Some(msg) = queue.pop() {
            self.dirty = true;
            let now = (self.clock)();
            for effect in update(&mut self.machine, &self.feed, self.planner.as_ref(), msg, now) {
                queue.extend(self.carry_out(effect));
            }
        }
    }

    fn carry_out(&mut self, effect: Effect) -> Option<Msg> {
        match effect {
            Effect::Quit => {
                self.end = Some(End::Quit);
                None
            }
            Effect::Suspend => self.suspend(),
            Effect::Copy(text) => {
                let failed = self.host.copy(&text).err();
                failed.map(|error| Msg::Note(format!("not copied: {error}")))
            }
            other => self.hands.take(other, &self.feed),
        }
    }

    /// Ctrl-z: the terminal is given back, then the group is stopped as the terminal would have done it.
    fn suspend(&mut self) -> Option<Msg> {
        if let Err(why) = self.host.can_stop() {
            return Some(Msg::Note(why));
        }
        self.host.leave();
        self.away = true;
        (self.expect_stop, self.expect_continue) = (true, true);
        self.host.stop_group();
        self.went_on = Some(Instant::now());
        None
    }

    /// The stop signal arrived: ours, or one from outside.
    fn stop(&mut self) {
        // While the terminal is given back the signal has stopped the process by itself and this comes after it.
        if std::mem::take(&mut self.expect_stop) || self.away {
            return;
        }
        if self.host.can_stop().is_err() {
            // Nobody could ever continue us; the system ignores the signal in this case too.
            return;
        }
        self.host.leave();
        self.away = true;
        self.expect_continue = true;
        self.host.stop_here();
    }

    fn come_back(&mut self) {
        self.away = false;
        self.went_on = None;
        if self.host.enter().is_err() {
            self.end = Some(End::Gone);
            return;
        }
        self.redraw();
        self.handle(Msg::Focus(true));
    }

    /// Forgets what the terminal shows, without asking it anything.
    fn redraw(&mut self) {
        self.dirty = true;
        if let Ok(size) = self.terminal.size()
            && self
                .terminal
                .resize(Rect::from((ratatui::layout::Position::ORIGIN, size)))
                .is_err()
        {
            self.end = Some(End::Gone);
        }
    }

    /// Draws a frame and sends it.
    pub fn paint(&mut self) {
        let now = (self.clock)();
        let hints = hints(&self.machine.app, &self.feed);
        let (draw, feed, app) = (&mut self.draw, &self.feed, &self.machine.app);
        let drawn = self
            .terminal
            .draw(|frame| draw.draw(frame, feed, app, &hints, now))
            .is_ok();
        if !drawn || self.host.commit().is_err() {
            self.end = Some(End::Gone);
            return;
        }
        self.handle(Msg::Drawn);
        self.dirty = false;
    }

    fn to_next_second(&self) -> Duration {
        let past = (self.clock)().timestamp_subsec_millis().min(999);
        (SECOND - Duration::from_millis(u64::from(past))).max(Duration::from_millis(20))
    }

    /// Waits a moment for the answers to what was sent, so that a pause and a quick quit do not leave doubt.
    fn last_words(&mut self, mailbox: &Mailbox) {
        let until = Instant::now() + LAST_WORDS;
        while !self.machine.unanswered().is_empty() {
            let left = until.saturating_duration_since(Instant::now());
            match mailbox.items.recv_timeout(left) {
                Ok(Item::Msg(msg @ Msg::Answer { .. })) => self.handle(msg),
                Ok(_) => {}
                Err(_) => return,
            }
        }
    }
}

/// A panic of another thread ends the loop once its report is written.
fn panicked() -> Option<End> {
    if PANIC.load(Ordering::SeqCst) == 0 {
        return None;
    }
    let until = Instant::now() + SECOND;
    while PANIC.load(Ordering::SeqCst) != 2 && Instant::now() < until {
        thread::sleep(Duration::from_millis(5));
    }
    Some(End::Panicked)
}
