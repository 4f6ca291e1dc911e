//! Every time and factor of the laws in one table, `[tuning]` in `config.toml`. Tests shorten them; production
//! rarely has a reason to. Defaults are those of the laws C2, C6 and C7.

use std::time::Duration;

/// The table.
#[derive(Debug, Clone, PartialEq)]
pub struct Tuning {
    /// How often the supervisor looks at the clock.
    pub tick: Duration,
    /// Lease: renew every.
    pub lease_renew: Duration,
    /// Lease: no effects when the last renewal is this old.
    pub lease_stop: Duration,
    /// Lease: expires after.
    pub lease_ttl: Duration,
    /// How long one request to an executor may take.
    pub effect_deadline: Duration,
    /// TERM to KILL when a run is stopped.
    pub cancel_grace: Duration,
    /// Gap between starts after a stop, a pause or blindness that is over.
    pub start_gap: Duration,
    /// Smoothing time of the lag.
    pub ewma: Duration,
    /// Window of the slope.
    pub slope_window: Duration,
    /// How far ahead the slope is followed.
    pub horizon: Duration,
    /// Least time between two cuts.
    pub cut_gap: Duration,
    /// Least time before growing.
    pub grow_dwell: Duration,
    /// How long lag must be low and flat before a resume.
    pub resume_hold: Duration,
    /// The longest that the hold doubles to.
    pub resume_hold_max: Duration,
    /// Least time that a pause by a signal lasts.
    pub pause_min: Duration,
    /// A re-pause within this time doubles the hold.
    pub flap_window: Duration,
    /// The third pause within this time latches.
    pub latch_window: Duration,
    /// How long a limit that went wrong is remembered.
    pub ceiling_memory: Duration,
    /// How long critical hibernates.
    pub hibernate: Duration,
    /// Blind for this long: the limit is halved.
    pub blind_halve: Duration,
    /// Blind for this long: no starts.
    pub blind_stop: Duration,
    /// Base of the retry delay; it doubles with each retry of a class.
    pub retry_base: Duration,
    /// The longest retry delay after a user's error.
    pub retry_cap: Duration,
    /// The longest retry delay after a platform failure.
    pub retry_cap_platform: Duration,
    /// When a breaker lets one canary start.
    pub breaker_retry: Duration,
    /// This many chunks in a row with one fingerprint open the breaker.
    pub breaker_row: u32,
    /// How often adopted runs and memory are looked at.
    pub watch: Duration,
    /// With less free space beside the journal than this nothing starts; bytes, a size with its unit in the file.
    pub disk_low: u64,
}

impl Default for Tuning {
    fn default() -> Self {
        let s = Duration::from_secs;
        Self {
            tick: Duration::from_millis(250),
            lease_renew: s(5),
            lease_stop: s(10),
            lease_ttl: s(15),
            effect_deadline: s(10),
            cancel_grace: s(10),
            start_gap: s(10),
            ewma: s(60),
            slope_window: s(300),
            horizon: s(600),
            cut_gap: s(60),
            grow_dwell: s(180),
            resume_hold: s(300),
            resume_hold_max: s(3600),
            pause_min: s(120),
            flap_window: s(1800),
            latch_window: s(7200),
            ceiling_memory: s(3600),
            hibernate: s(300),
            blind_halve: s(120),
            blind_stop: s(300),
            retry_base: s(60),
            retry_cap: s(600),
            retry_cap_platform: s(3600),
            breaker_retry: s(600),
            breaker_row: 5,
            watch: Duration::from_millis(250),
            disk_low: 500_000_000,
        }
    }
}
