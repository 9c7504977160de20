//! Durations and times as people write them on a command line.
//!
//! Must not know a flag.

use std::time::Duration;

use chrono::{DateTime, NaiveDate, Utc};
use k8s_openapi::jiff::SignedDuration;

/// `15m`, `90s`, `500ms`, `1h 30m`.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    let parsed = text.parse::<SignedDuration>().ok().and_then(|duration| Duration::try_from(duration).ok());
    let duration = parsed.ok_or_else(|| format!("{text:?} is not a duration such as 15m, 90s or 500ms"))?;
    if duration.is_zero() { Err(format!("{text:?} must be longer than nothing")) } else { Ok(duration) }
}

/// `2026-12-20T02:00:00Z`, or `2026-12-20` for its midnight in UTC.
pub(super) fn time(text: &str) -> Result<DateTime<Utc>, String> {
    let date = text.parse::<NaiveDate>().ok().and_then(|date| date.and_hms_opt(0, 0, 0)).map(|time| time.and_utc());
    let time = text.parse::<DateTime<Utc>>().ok().or(date);
    time.ok_or_else(|| format!("{text:?} is not a time such as 2026-12-20T02:00:00Z, nor a date such as 2026-12-20"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read_as_people_write_them() {
        assert_eq!(duration("15m"), Ok(Duration::from_secs(900)));
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(duration("1h 30m"), duration("1.5h"));
        for wrong in ["", "15", "m", "0s", "-1s", "5 apples"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_date_is_its_midnight() {
        assert_eq!(time("2026-12-20"), time("2026-12-20T00:00:00Z"));
        assert_eq!(time("2026-12-20T02:00:00+02:00"), time("2026-12-20"));
        for wrong in ["", "2026-13-01", "02:00", "tomorrow"] {
            assert!(time(wrong).unwrap_err().contains("such as 2026-12-20"), "{wrong}");
        }
    }
}
