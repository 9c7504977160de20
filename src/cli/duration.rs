//! Durations as people write them on a command line.
//!
//! Must not know a flag.

use std::time::Duration;

use k8s_openapi::jiff::SignedDuration;

/// `15m`, `90s`, `500ms`, `1h 30m`.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    let parsed = text.parse::<SignedDuration>().ok().and_then(|duration| Duration::try_from(duration).ok());
    let duration = parsed.ok_or_else(|| format!("{text:?} is not a duration such as 15m, 90s or 500ms"))?;
    if duration.is_zero() { Err(format!("{text:?} must be longer than nothing")) } else { Ok(duration) }
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
}
