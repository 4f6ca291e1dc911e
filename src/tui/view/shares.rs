//! How the rows of a drawer are divided between its parts, where a run has tasks.

/// Rows that the parts would fill, without their titles.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Shares {
    pub attempts: u16,
    pub tasks: u16,
    pub facts: u16,
}

/// Rows that they get; what is left is the log's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Given {
    pub attempts: u16,
    pub tasks: u16,
    pub with_facts: bool,
    /// There are blanks between the parts, and keys at the foot.
    pub airy: bool,
}

/// The titles of the three parts.
const TITLES: u16 = 3;
/// Four blanks, and the keys with one above them.
const AIR: u16 = 6;

/// Rows that are not given away yet.
struct Left(u16);

impl Left {
    /// Fills a part up to `wanted` rows as far as there are any.
    fn fill(&mut self, part: &mut u16, wanted: u16) {
        let more = wanted.saturating_sub(*part).min(self.0);
        *part += more;
        self.0 -= more;
    }

    fn has(&mut self, rows: u16) -> bool {
        let enough = self.0 >= rows;
        if enough {
            self.0 -= rows;
        }
        enough
    }
}

impl Shares {
    /// Divides `room` rows. When it is short the newest attempt stays, three tasks, and two lines of the log.
    pub fn within(self, room: u16) -> Given {
        let mut left = Left(room.saturating_sub(TITLES));
        let (mut attempts, mut tasks, mut log) = (0, 0, 0);
        left.fill(&mut log, 2);
        left.fill(&mut attempts, self.attempts.min(1));
        left.fill(&mut tasks, self.tasks.min(3));
        left.fill(&mut attempts, self.attempts.min(2));
        left.fill(&mut tasks, self.tasks.min(5));
        left.fill(&mut log, 4);
        left.fill(&mut attempts, self.attempts);
        let airy = left.0 >= self.facts + AIR && left.has(AIR);
        let with_facts = left.has(self.facts);
        if airy {
            left.fill(&mut log, 8);
            left.fill(&mut tasks, self.tasks.min(14));
        }
        Given {
            attempts,
            tasks,
            with_facts,
            airy,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_matters_stays_when_it_is_short() {
        let all = Shares {
            attempts: 4,
            tasks: 12,
            facts: 4,
        };
        let given = |room| {
            let g = all.within(room);
            (g.attempts, g.tasks, g.with_facts, g.airy)
        };
        assert_eq!(given(9), (1, 3, false, false));
        assert_eq!(given(11), (2, 4, false, false));
        assert_eq!(given(16), (4, 5, false, false));
        assert_eq!(given(20), (4, 5, true, false));
        assert_eq!(given(30), (4, 5, true, true));
        assert_eq!(given(36), (4, 11, true, true));
    }

    proptest! {
        #[test]
        fn no_more_rows_are_given_than_there_are(
            room in 0u16..60, attempts in 0u16..7, tasks in 0u16..300, facts in 0u16..6,
        ) {
            let given = Shares { attempts, tasks, facts }.within(room);
            let more = if given.airy { AIR } else { 0 } + if given.with_facts { facts } else { 0 };
            prop_assert!(given.attempts + given.tasks + more <= room.saturating_sub(TITLES));
            prop_assert!(given.attempts <= attempts && given.tasks <= tasks);
        }
    }
}
