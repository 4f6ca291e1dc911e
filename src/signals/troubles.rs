//! Several things are watched by one signal, and some of them have no number.

use super::{NoSample, Reading};
use crate::domain::text;

/// The longest explanation.
const WHY: usize = 600;

/// What keeps the things from having a number, each with its name.
#[derive(Debug, Default)]
pub(super) struct Troubles(Vec<(NoSample, String)>);

impl Troubles {
    /// Adds one. `name` and `why` may come from outside.
    pub(super) fn add(&mut self, health: NoSample, name: &str, why: &str) {
        self.0.push((health, format!("{name}: {why}")));
    }

    /// The reading that says all of them, the worst first and those of one sort in the order in which they came;
    /// `None` if there is none.
    pub(super) fn reading(mut self) -> Option<Reading> {
        self.0.sort_by_key(|(health, _)| rank(*health));
        let health = self.0.first()?.0;
        let words: Vec<&str> = self.0.iter().map(|(_, why)| why.as_str()).collect();
        Some(Reading::NoSample {
            health,
            why: text::one_line(&words.join(" | "), WHY),
        })
    }
}

/// Which trouble speaks for the reading. What stands still holds, whatever the others do; numbers that contradict
/// themselves come before those that are not there.
const fn rank(health: NoSample) -> u8 {
    match health {
        NoSample::Stalled => 0,
        NoSample::Invalid => 1,
        NoSample::Missing => 2,
        NoSample::Partial => 3,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_trouble_speaks_for_all_and_all_are_named() {
        let mut troubles = Troubles::default();
        troubles.add(NoSample::Partial, "a", "2 of 3");
        troubles.add(NoSample::Missing, "b", "gone");
        troubles.add(NoSample::Stalled, "c\u{1b}[2J", "stands still");
        troubles.add(NoSample::Missing, "d", "gone, too");
        let expected = Reading::NoSample {
            health: NoSample::Stalled,
            why: "c^[[2J: stands still | b: gone | d: gone, too | a: 2 of 3".to_owned(),
        };
        assert_eq!(troubles.reading(), Some(expected));
        assert_eq!(Troubles::default().reading(), None);
    }
}
