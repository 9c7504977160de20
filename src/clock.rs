//! The clock: the only place that asks what time it is. Everything else is handed the time, or measures with tokio's
//! `Instant`, which a test can move.
//!
//! A lint forbids the other ways. Must not sleep.

use chrono::{DateTime, Utc};

/// What time it is.
#[derive(Debug, Clone, Copy)]
pub struct Clock(fn() -> DateTime<Utc>);

impl Clock {
    /// The machine's.
    #[must_use]
    #[allow(clippy::disallowed_methods, reason = "this is the one place")]
    pub fn of_the_machine() -> Self {
        Self(Utc::now)
    }

    /// The time now.
    #[must_use]
    pub fn now(self) -> DateTime<Utc> {
        (self.0)()
    }
}
