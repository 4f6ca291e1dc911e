//! The law's times. They follow the table of times that the classic law has (`[tuning]`): who makes that quicker, for a
//! test or a drill, makes this one quicker too.

use crate::domain::tuning::Tuning;
use std::time::Duration;

/// Times in seconds. The figures are those of the table's defaults.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Times {
    /// 240: after any change before the limit may grow, beside the age of the samples.
    pub dwell: f64,
    /// 690: a change of the limit takes a token; one comes every so often.
    pub token_every: f64,
    /// 60: between two cuts.
    pub cut_gap: f64,
    /// 90: a queue that was empty for so long is at rest.
    pub rested: f64,
    /// 180: at rest one more is tried so often ..
    pub try_every: f64,
    /// 300: .. and not sooner after a cut.
    pub try_after_cut: f64,
    /// 60: what goes beyond the room waits so long for its echo.
    pub echo: f64,
    /// 900: with nothing running nothing can be measured; at rest one is tried after so long.
    pub sleeps: f64,
    /// 120: calm before a resume; doubled up to ..
    pub hold: f64,
    /// 1,800: .. this, when it is paused again ..
    pub longest_hold: f64,
    /// 1,800: .. so soon after it.
    pub soon: f64,
    /// 7,200: soft crossed twice within ..
    pub crossings: f64,
    /// 3,600: .. guards the limit for so long.
    pub guarded: f64,
    /// 120: after so long without a valid sample the last one says nothing about the next.
    pub forgotten: f64,
    /// 3,600: what is not believed because it is unlikely is believed when it stayed the same for so long.
    pub believed: f64,
    /// 45: without a valid sample for so long nothing grows.
    pub blind_after: f64,
    /// 60 and 120: half, and nothing, when it brakes.
    pub brake: (f64, f64),
    /// 120 and 300: the same for a source that gaps often.
    pub slow: (f64, f64),
}

impl Times {
    /// Stretched for a signal that is looked at less often than every 15 seconds: a sample that is not due yet is not
    /// missing.
    #[must_use]
    pub fn of(self, interval: f64) -> Self {
        let least = |time: f64, intervals: f64| time.max(intervals * interval);
        Self {
            blind_after: least(self.blind_after, 3.0),
            brake: (least(self.brake.0, 4.0), least(self.brake.1, 6.0)),
            slow: (least(self.slow.0, 8.0), least(self.slow.1, 12.0)),
            forgotten: least(self.forgotten, 8.0),
            ..self
        }
    }
}

impl From<&Tuning> for Times {
    fn from(tuning: &Tuning) -> Self {
        let seconds = |time: Duration| time.as_secs_f64();
        let (dwell, hold) = (
            seconds(tuning.grow_dwell) / 180.0,
            seconds(tuning.resume_hold) / 300.0,
        );
        let (halve, stop) = (seconds(tuning.blind_halve), seconds(tuning.blind_stop));
        Self {
            dwell: 240.0 * dwell,
            token_every: 690.0 * dwell,
            cut_gap: seconds(tuning.cut_gap),
            rested: 90.0 * dwell,
            try_every: 180.0 * dwell,
            try_after_cut: 300.0 * dwell,
            echo: 60.0 * dwell,
            sleeps: 900.0 * dwell,
            hold: 120.0 * hold,
            longest_hold: seconds(tuning.resume_hold_max) / 2.0,
            soon: seconds(tuning.flap_window),
            crossings: seconds(tuning.latch_window),
            guarded: seconds(tuning.ceiling_memory),
            forgotten: halve,
            believed: seconds(tuning.ceiling_memory),
            blind_after: 0.375 * halve,
            brake: (0.5 * halve, 0.4 * stop),
            slow: (halve, stop),
        }
    }
}

impl Default for Times {
    fn default() -> Self {
        Self::from(&Tuning::default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tables_defaults_give_the_laws_own_times() {
        let times = Times::default();
        assert_eq!(
            (times.dwell, times.token_every, times.cut_gap),
            (240.0, 690.0, 60.0)
        );
        assert_eq!(
            (times.rested, times.try_every, times.try_after_cut),
            (90.0, 180.0, 300.0)
        );
        assert_eq!((times.echo, times.sleeps, times.hold), (60.0, 900.0, 120.0));
        assert_eq!((times.longest_hold, times.soon), (1_800.0, 1_800.0));
        assert_eq!((times.crossings, times.guarded), (7_200.0, 3_600.0));
        assert_eq!((times.forgotten, times.believed), (120.0, 3_600.0));
        assert_eq!(
            (times.blind_after, times.brake, times.slow),
            (45.0, (60.0, 120.0), (120.0, 300.0))
        );
    }

    #[test]
    fn a_signal_that_is_looked_at_every_minute_is_not_blind_between_two_looks() {
        let times = Times::default();
        assert_eq!(times.of(15.0), times);
        assert_eq!(times.of(60.0).blind_after, 180.0);
        assert_eq!(times.of(60.0).brake, (240.0, 360.0));
    }
}
