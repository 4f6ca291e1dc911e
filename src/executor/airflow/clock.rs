//! The clock of a connection, so that a test can own the time.

use crate::{
    domain::Time,
    host::{BootInstant, boot_now},
};
use async_trait::async_trait;
use chrono::Utc;
use std::{fmt, time::Duration};

/// Where a connection has its time from.
#[async_trait]
pub trait Clock: Send + Sync + fmt::Debug {
    /// Now, on a clock that never jumps: what budgets and lifetimes are measured with.
    fn now(&self) -> BootInstant;

    /// Now, on the wall clock: only for display.
    fn wall(&self) -> Time;

    /// Waits.
    async fn sleep(&self, span: Duration);
}

/// The clocks of this machine.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

#[async_trait]
impl Clock for SystemClock {
    fn now(&self) -> BootInstant {
        boot_now()
    }

    fn wall(&self) -> Time {
        Utc::now()
    }

    async fn sleep(&self, span: Duration) {
        tokio::time::sleep(span).await;
    }
}
