//! How many requests a minute a server is asked, however much there is to know (case S06).

use crate::host::BootInstant;
use std::{collections::VecDeque, time::Duration};

const MINUTE: Duration = Duration::from_secs(60);
/// Of this many parts of the budget one is kept for what an operator or the throttle does: a pause must not wait
/// behind polls.
const ACT_SHARE: usize = 5;

/// What a request is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// To know something.
    Read,
    /// To change something.
    Act,
    /// To know everything once: outside the budget, and counted.
    ColdStart,
}

tokio::task_local! {
    static ACTING: ();
}

/// Does work whose looks are for acting: they have their share of the budget, too, and do not wait behind polls.
pub async fn acting<T>(work: impl Future<Output = T>) -> T {
    ACTING.scope((), work).await
}

impl Purpose {
    /// What a request is for within the work that asks for it.
    pub fn within(self) -> Self {
        match self {
            Self::Read if ACTING.try_with(|()| ()).is_ok() => Self::Act,
            other => other,
        }
    }
}

/// The requests of the last minute, and how many there may be.
#[derive(Debug)]
pub struct Budget {
    per_minute: usize,
    /// Oldest first; `true` where it was outside the budget.
    sent: VecDeque<(BootInstant, bool)>,
}

impl Budget {
    /// A budget of so many requests a minute, at least one.
    pub fn new(per_minute: u32) -> Self {
        Self {
            per_minute: usize::try_from(per_minute.max(1)).unwrap_or(usize::MAX),
            sent: VecDeque::new(),
        }
    }

    /// Takes the place of one request.
    ///
    /// # Errors
    /// There is none now: how long until there may be one.
    pub fn take(&mut self, now: BootInstant, purpose: Purpose) -> Result<(), Duration> {
        self.forget(now);
        let places = self.places(purpose);
        let mut counted = self.sent.iter().filter(|(_, exempt)| !exempt);
        let count = counted.clone().count();
        if count >= places
            && let Some((at, _)) = counted.nth(count - places)
        {
            return Err(MINUTE.saturating_sub(now.since(*at)));
        }
        self.sent.push_back((now, purpose == Purpose::ColdStart));
        Ok(())
    }

    /// How many places there are now.
    pub fn room(&mut self, now: BootInstant, purpose: Purpose) -> usize {
        self.forget(now);
        let taken = self.sent.iter().filter(|(_, exempt)| !exempt).count();
        self.places(purpose).saturating_sub(taken)
    }

    const fn places(&self, purpose: Purpose) -> usize {
        match purpose {
            Purpose::ColdStart => usize::MAX,
            Purpose::Act => self.per_minute,
            Purpose::Read => self.per_minute - self.per_minute / ACT_SHARE,
        }
    }

    /// How many were sent in the last minute, those outside the budget included.
    pub fn last_minute(&mut self, now: BootInstant) -> usize {
        self.forget(now);
        self.sent.len()
    }

    /// How many a minute there may be.
    pub const fn per_minute(&self) -> usize {
        self.per_minute
    }

    fn forget(&mut self, now: BootInstant) {
        while self.sent.front().is_some_and(|(at, _)| now.since(*at) >= MINUTE) {
            self.sent.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(seconds: u64) -> BootInstant {
        BootInstant(seconds * 1000)
    }

    #[test]
    fn a_part_of_the_budget_is_kept_for_acting() {
        let mut budget = Budget::new(10);
        for _ in 0..8 {
            assert_eq!(budget.take(at(100), Purpose::Read), Ok(()));
        }
        assert_eq!(budget.take(at(101), Purpose::Read), Err(Duration::from_secs(59)));
        assert_eq!(budget.take(at(101), Purpose::Act), Ok(()));
        assert_eq!(budget.take(at(101), Purpose::Act), Ok(()));
        assert_eq!(budget.take(at(101), Purpose::Act), Err(Duration::from_secs(59)));
        assert_eq!(budget.take(at(160), Purpose::Read), Ok(()));
    }

    #[tokio::test]
    async fn a_look_for_acting_has_the_share_of_acting() {
        assert_eq!(Purpose::Read.within(), Purpose::Read);
        acting(async {
            tokio::task::yield_now().await;
            assert_eq!(Purpose::Read.within(), Purpose::Act);
            assert_eq!(Purpose::ColdStart.within(), Purpose::ColdStart);
        })
        .await;
        assert_eq!(Purpose::Read.within(), Purpose::Read);
    }

    #[test]
    fn a_cold_start_waits_for_nothing_and_takes_nothing_away_but_is_counted() {
        let mut budget = Budget::new(1);
        for _ in 0..100 {
            assert_eq!(budget.take(at(5), Purpose::ColdStart), Ok(()));
        }
        assert_eq!(budget.take(at(5), Purpose::Read), Ok(()));
        assert_eq!(budget.last_minute(at(64)), 101);
        assert_eq!(budget.last_minute(at(65)), 0);
    }

    proptest! {
        /// Case S06.
        #[test]
        fn no_minute_ever_holds_more_requests_than_the_budget(
            per_minute in 1_u32..40,
            asked in proptest::collection::vec((0_u64..4000, any::<bool>()), 1..300),
        ) {
            let mut budget = Budget::new(per_minute);
            let (mut now, mut sent) = (0, Vec::new());
            for (later, act) in asked {
                now += later;
                let purpose = if act { Purpose::Act } else { Purpose::Read };
                match budget.take(BootInstant(now), purpose) {
                    Ok(()) => sent.push(now),
                    Err(wait) => {
                        prop_assert!(wait > Duration::ZERO && wait <= MINUTE);
                        // Who waits as long as told gets the place.
                        now += u64::try_from(wait.as_millis()).unwrap();
                        prop_assert_eq!(budget.take(BootInstant(now), purpose), Ok(()));
                        sent.push(now);
                    }
                }
            }
            for begin in &sent {
                let within = sent.iter().filter(|at| (*begin..*begin + 60_000).contains(at)).count();
                prop_assert!(within <= per_minute as usize);
            }
        }
    }
}
