//! The boot clock, which counts suspend and never jumps, and the identity of this boot.

use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Milliseconds since this machine booted, suspend included. Leases live on it, never on wall time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct BootInstant(pub u64);

impl BootInstant {
    /// This instant and a while.
    #[must_use]
    pub fn plus(self, d: Duration) -> Self {
        Self(
            self.0
                .saturating_add(u64::try_from(d.as_millis()).unwrap_or(u64::MAX)),
        )
    }

    /// How long ago `earlier` was; zero if it is later.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }
}

/// Now, on the boot clock.
pub fn boot_now() -> BootInstant {
    #[cfg(target_os = "linux")]
    let clock = rustix::time::ClockId::Boottime;
    // On macOS CLOCK_MONOTONIC counts sleep, which is what is wanted here.
    #[cfg(not(target_os = "linux"))]
    let clock = rustix::time::ClockId::Monotonic;
    let t = rustix::time::clock_gettime(clock);
    let millis = i128::from(t.tv_sec) * 1000 + i128::from(t.tv_nsec) / 1_000_000;
    BootInstant(u64::try_from(millis).unwrap_or(0))
}

/// A text that changes with every boot of this machine.
pub fn boot_id() -> String {
    #[cfg(target_os = "linux")]
    if let Ok(id) = std::fs::read_to_string("/proc/sys/kernel/random/boot_id") {
        return id.trim().to_owned();
    }
    // Elsewhere the instant of the boot, to ten seconds, stands for it.
    let wall = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap_or_default();
    let booted = wall.as_millis().saturating_sub(u128::from(boot_now().0)) / 10_000;
    format!("boot-{booted}")
}

/// This machine's name, cleaned for display.
pub fn host_name() -> String {
    let uname = rustix::system::uname();
    crate::domain::text::one_line(&uname.nodename().to_string_lossy(), 64)
}
