//! What reaches the screen's machine: keys and other terminal input, the clock, news of the world, and answers to
//! what was sent. Everything is data, so that a test can be the operator, the terminal and the journal.

use super::{
    attaching::Scouted,
    keymap::{Code, Key},
};
use crate::{domain::Time, plan::preview::Preview};
use crossterm::event::{Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

/// One message to [`super::update::update`].
#[derive(Debug, Clone, PartialEq)]
pub enum Msg {
    /// A key, from the input thread.
    Key(Press),
    /// Text that was pasted as a whole, from the input thread. Text for inputs only.
    Paste(String),
    /// The terminal's window got (`true`) or lost the keyboard.
    Focus(bool),
    /// The terminal has another size.
    Resize(u16, u16),
    /// A second of the clock went by, from the run loop.
    Tick,
    /// The feed changed, from the run loop after it merged the news.
    Fed,
    /// A frame with everything up to here is on the screen, from the run loop.
    Drawn,
    /// What came of an effect, from the driver.
    Answer {
        /// The number that the effect carried.
        op: u64,
        /// What came of it.
        answer: Answer,
    },
    /// What an errand to the servers brought, from the scout.
    Scouted {
        /// The number that the effect carried.
        op: u64,
        /// What it brought; one errand may bring several things.
        what: Scouted,
    },
    /// Something about the terminal that the operator should read, from the run loop.
    Note(String),
}

/// What came of something that was sent.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    /// The journal has it, durably, at this place.
    Accepted {
        /// Its place in the journal.
        seq: u64,
    },
    /// Nothing was done.
    Refused {
        /// Why, in words for the operator.
        why: String,
    },
    /// Nothing was done, because the plan is another one by now.
    Changed(Box<Preview>),
    /// Something outside the journal was done: a supervisor was started.
    Done {
        /// What, in words.
        what: String,
    },
}

/// A key that was pressed, or is held down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Press {
    /// The key, by the character that it makes.
    pub key: Key,
    /// The terminal says that it is held down. Terminals that cannot tell send presses instead.
    pub repeat: bool,
    /// When the input thread read it; a key that waited in a queue keeps the time at which it was struck.
    pub at: Time,
}

impl Msg {
    /// Translates what the terminal sent. Releases, the mouse and keys without a name are nothing.
    pub fn from_terminal(event: Event, at: Time) -> Option<Self> {
        match event {
            Event::Key(key) => Press::from_terminal(key, at).map(Self::Key),
            Event::Paste(text) => Some(Self::Paste(text)),
            Event::FocusGained => Some(Self::Focus(true)),
            Event::FocusLost => Some(Self::Focus(false)),
            Event::Resize(width, height) => Some(Self::Resize(width, height)),
            Event::Mouse(_) => None,
        }
    }
}

impl Press {
    /// Translates a key event; `None` for a release and for keys that have no name here.
    pub fn from_terminal(event: KeyEvent, at: Time) -> Option<Self> {
        if event.kind == KeyEventKind::Release {
            return None;
        }
        let shift = event.modifiers.contains(KeyModifiers::SHIFT);
        let code = match event.code {
            // Terminals that report event types may send the letter of the key with shift beside it.
            KeyCode::Char(c) if shift && c.is_lowercase() => Code::Char(upper(c)),
            KeyCode::Char(c) => Code::Char(c),
            KeyCode::Enter => Code::Enter,
            KeyCode::Esc => Code::Esc,
            KeyCode::Tab if shift => Code::BackTab,
            KeyCode::Tab => Code::Tab,
            KeyCode::BackTab => Code::BackTab,
            KeyCode::Backspace => Code::Backspace,
            KeyCode::Delete => Code::Delete,
            KeyCode::Left => Code::Left,
            KeyCode::Right => Code::Right,
            KeyCode::Up => Code::Up,
            KeyCode::Down => Code::Down,
            KeyCode::Home => Code::Home,
            KeyCode::End => Code::End,
            KeyCode::PageUp => Code::PageUp,
            KeyCode::PageDown => Code::PageDown,
            KeyCode::F(n) => Code::F(n),
            _ => return None,
        };
        let key = Key {
            code,
            ctrl: event.modifiers.contains(KeyModifiers::CONTROL),
            alt: event.modifiers.contains(KeyModifiers::ALT),
        };
        Some(Self {
            key,
            repeat: event.kind == KeyEventKind::Repeat,
            at,
        })
    }
}

/// The capital of a letter that has one of a single character.
fn upper(c: char) -> char {
    let mut all = c.to_uppercase();
    match (all.next(), all.next()) {
        (Some(one), None) => one,
        _ => c,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(code: KeyCode, modifiers: KeyModifiers, kind: KeyEventKind) -> KeyEvent {
        KeyEvent::new_with_kind(code, modifiers, kind)
    }

    #[test]
    fn a_release_is_no_key() {
        let released = event(KeyCode::Char('p'), KeyModifiers::NONE, KeyEventKind::Release);
        assert_eq!(Press::from_terminal(released, Time::MIN_UTC), None);
    }

    #[test]
    fn letters_are_known_by_the_character_that_they_make() {
        let held = event(KeyCode::Char('r'), KeyModifiers::SHIFT, KeyEventKind::Repeat);
        let press = Press::from_terminal(held, Time::MIN_UTC).unwrap();
        assert_eq!((press.key.code, press.repeat), (Code::Char('R'), true));
        let plain = event(KeyCode::Char('R'), KeyModifiers::SHIFT, KeyEventKind::Press);
        assert_eq!(Press::from_terminal(plain, Time::MIN_UTC).unwrap().key, press.key);
    }

    #[test]
    fn shift_tab_is_one_key_however_the_terminal_spells_it() {
        for code in [KeyCode::Tab, KeyCode::BackTab] {
            let press = Press::from_terminal(
                event(code, KeyModifiers::SHIFT, KeyEventKind::Press),
                Time::MIN_UTC,
            );
            assert_eq!(press.unwrap().key.code, Code::BackTab);
        }
    }
}
