//! An operator at a desk: presses keys, looks at what the machine says and wants done. The clock is the desk's own.

#![allow(dead_code, reason = "each test file uses its part")]

use backfill::{
    domain::{
        Time,
        event::Payload,
        ids::{BackfillId, ChunkId},
    },
    tui::{
        effect::Effect,
        model::{Feed, Layer, PlanDialog},
        msg::{Answer, Msg, Press},
        terminal::probe::{Memory, Plans, epoch, year},
        update::{Machine, update},
    },
};
use chrono::Duration;

pub struct Desk {
    pub machine: Machine,
    pub feed: Feed,
    pub memory: Memory,
    pub id: BackfillId,
    pub now: Time,
    pub planner: Plans,
}

pub fn day(text: &str) -> ChunkId {
    text.parse().unwrap()
}

impl Desk {
    /// The year of [`year`], on the screen, with the cursor on the running day, 2023-01-08.
    pub fn new() -> Self {
        let (memory, id) = year().unwrap();
        Self::at(memory, id, None)
    }

    /// The same with the cursor on a day that is done, so that a re-run of it acts.
    pub fn on_a_done_day() -> Self {
        let mut desk = Self::new();
        desk.machine.app.cursor = Some(day("2023-01-02"));
        desk
    }

    pub fn read_only() -> Self {
        let (memory, id) = year().unwrap();
        Self::at(memory, id, Some("flag"))
    }

    pub fn at(memory: Memory, id: BackfillId, read_only: Option<&'static str>) -> Self {
        let mut desk = Self {
            machine: Machine::new(Some(id.to_string()), read_only),
            feed: memory.feed(),
            memory,
            id,
            now: epoch(),
            planner: Plans::default(),
        };
        desk.send(Msg::Fed);
        desk.send(Msg::Drawn);
        desk
    }

    pub fn send(&mut self, msg: Msg) -> Vec<Effect> {
        update(&mut self.machine, &self.feed, &self.planner, msg, self.now)
    }

    /// Time goes by.
    pub fn wait(&mut self, ms: i64) -> &mut Self {
        self.now += Duration::milliseconds(ms);
        self
    }

    /// A frame is drawn, and it has been on the screen for a second.
    pub fn look(&mut self) -> &mut Self {
        self.send(Msg::Drawn);
        self.wait(1000)
    }

    /// Presses keys one after the other, fast, with no frame in between: `"G"`, `"ctrl-d"`, `"v l l"`.
    pub fn fast(&mut self, keys: &str) -> Vec<Effect> {
        keys.split(' ').flat_map(|key| self.press(key, false)).collect()
    }

    /// Presses keys, each after the operator has looked at the screen.
    pub fn keys(&mut self, keys: &str) -> Vec<Effect> {
        keys.split(' ')
            .flat_map(|key| {
                self.look();
                self.press(key, false)
            })
            .collect()
    }

    pub fn hold_down(&mut self, key: &str) -> Vec<Effect> {
        self.press(key, true)
    }

    fn press(&mut self, key: &str, repeat: bool) -> Vec<Effect> {
        let press = Press {
            key: key.parse().unwrap(),
            repeat,
            at: self.now,
        };
        without_watch(self.send(Msg::Key(press)))
    }

    /// Types a text into an input line.
    pub fn text(&mut self, text: &str) -> Vec<Effect> {
        text.chars()
            .flat_map(|c| match c {
                ' ' => self.press("space", false),
                c => self.press(&c.to_string(), false),
            })
            .collect()
    }

    pub fn answer(&mut self, op: u64, answer: Answer) -> Vec<Effect> {
        self.send(Msg::Answer { op, answer })
    }

    /// The journal went on: the screen gets its newest state.
    pub fn refresh(&mut self) -> Vec<Effect> {
        self.feed = self.memory.feed();
        without_watch(self.send(Msg::Fed))
    }

    /// Somebody else says something.
    pub fn happens(&mut self, payload: Payload) -> Vec<Effect> {
        self.memory.happen(true, Some(&self.id.clone()), payload, None);
        self.refresh()
    }

    pub fn cursor(&self) -> String {
        self.machine
            .app
            .cursor
            .map_or_else(|| "none".to_owned(), |c| c.to_string())
    }

    pub fn said(&self) -> String {
        self.machine
            .app
            .toast
            .as_ref()
            .map(|(text, _)| text.clone())
            .unwrap_or_default()
    }

    pub fn dialog(&self) -> &PlanDialog {
        match self.machine.app.layers.last() {
            Some(Layer::Plan(dialog)) => dialog,
            other => panic!("no dialog on top but {other:?}"),
        }
    }

    pub fn marks(&self) -> Vec<&str> {
        self.machine.app.marks.iter().map(String::as_str).collect()
    }
}

pub fn without_watch(effects: Vec<Effect>) -> Vec<Effect> {
    effects
        .into_iter()
        .filter(|e| !matches!(e, Effect::Watch(_)))
        .collect()
}

/// The number of the only effect, which has one.
pub fn op(effects: &[Effect]) -> u64 {
    match effects {
        [Effect::Command { op, .. } | Effect::Submit { op, .. } | Effect::StartSupervisor { op }] => *op,
        other => panic!("expected one numbered effect, got {other:?}"),
    }
}
