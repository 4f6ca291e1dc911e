//! Without valid samples the law that runs close to the edge brakes hard, twice in six hours; a source that gaps more often
//! is given the slow stages of the classic law.

use super::times::Times;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// How often it brakes hard within [`WITHIN`] seconds.
const HARD_BRAKES: usize = 2;
const WITHIN: f64 = 6.0 * 3_600.0;

/// How far it has come.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Stage {
    /// Samples come.
    #[default]
    Seeing,
    /// No growth.
    Frozen,
    /// Half.
    Half,
    /// Nothing.
    Stopped,
}

/// What the lack of samples asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asks {
    /// Nothing new.
    Nothing,
    /// Half of the limit.
    Half,
    /// No starts; `hard`: and an end of what is young.
    Stop {
        /// It brakes hard.
        hard: bool,
    },
}

/// A spell without samples, and those before it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Blind {
    /// How far this one has come.
    pub stage: Stage,
    /// The limit when it began.
    pub before: u32,
    /// When earlier ones came to their end stage.
    stops: VecDeque<f64>,
}

impl Blind {
    /// Nobody knows for how long: as if it had stopped with this limit before.
    pub fn lost(before: u32) -> Self {
        Self {
            stage: Stage::Stopped,
            before,
            stops: VecDeque::new(),
        }
    }

    /// What follows from so many seconds without a valid sample.
    pub fn look(&mut self, now: f64, silent: f64, limit: u32, times: &Times) -> Asks {
        if silent <= times.blind_after {
            return Asks::Nothing;
        }
        if self.stage == Stage::Seeing {
            (self.stage, self.before) = (Stage::Frozen, limit);
        }
        self.stops.retain(|at| now - at < WITHIN);
        let hard = self.stops.len() < HARD_BRAKES;
        let (half, stop) = if hard { times.brake } else { times.slow };
        match self.stage {
            Stage::Frozen if silent > half => {
                self.stage = Stage::Half;
                Asks::Half
            }
            Stage::Half if silent > stop => {
                self.stage = Stage::Stopped;
                self.stops.push_back(now);
                Asks::Stop { hard }
            }
            _ => Asks::Nothing,
        }
    }

    /// Samples come again: the limit from which it goes on, if anything was taken away.
    pub fn seen(&mut self) -> Option<u32> {
        let taken = matches!(self.stage, Stage::Half | Stage::Stopped);
        self.stage = Stage::Seeing;
        taken.then_some(self.before)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stages(blind: &mut Blind, from: f64) -> Vec<(u32, Asks)> {
        let mut asked = Vec::new();
        for silent in 0..400_u32 {
            let asks = blind.look(from + f64::from(silent), f64::from(silent), 8, &Times::default());
            if asks != Asks::Nothing {
                asked.push((silent, asks));
            }
        }
        asked
    }

    #[test]
    fn it_brakes_hard_twice_in_six_hours_and_then_slowly() {
        let mut blind = Blind::default();
        let hard = vec![(61, Asks::Half), (121, Asks::Stop { hard: true })];
        let slow = vec![(121, Asks::Half), (301, Asks::Stop { hard: false })];
        assert_eq!(stages(&mut blind, 0.0), hard);
        assert_eq!(blind.seen(), Some(8));
        assert_eq!(stages(&mut blind, 3_600.0), hard);
        blind.seen();
        assert_eq!(stages(&mut blind, 7_200.0), slow);
        blind.seen();
        assert_eq!(
            stages(&mut blind, 8.0 * 3_600.0),
            hard,
            "the first two are over six hours old"
        );
    }

    #[test]
    fn a_short_gap_takes_nothing_away() {
        let mut blind = Blind::default();
        assert_eq!(blind.look(55.0, 55.0, 8, &Times::default()), Asks::Nothing);
        assert_eq!((blind.stage, blind.seen()), (Stage::Frozen, None));
    }
}
