//! Spans of time as a script has them.
//!
//! Must not know what takes so long.

use std::fmt;

use chrono::TimeDelta;
use k8s_openapi::jiff::SignedDuration;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A span of time, in whole seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub struct Span(pub TimeDelta);

impl Span {
    /// So many seconds.
    #[must_use]
    pub fn seconds(seconds: i64) -> Self {
        Self(TimeDelta::seconds(seconds))
    }
}

impl TryFrom<String> for Span {
    type Error = String;

    /// `90s`, `5m`, `2h 30m`, `3d`.
    fn try_from(text: String) -> Result<Self, String> {
        let part = |part: &str| match part.strip_suffix('d') {
            Some(days) => days.parse().ok().and_then(TimeDelta::try_days),
            None => part.parse::<SignedDuration>().ok().and_then(|time| TimeDelta::try_seconds(time.as_secs())),
        };
        let parts: Option<Vec<TimeDelta>> = text.split_whitespace().map(part).collect();
        let sum = parts
            .filter(|parts| !parts.is_empty())
            .and_then(|parts| parts.into_iter().try_fold(TimeDelta::zero(), |sum, part| sum.checked_add(&part)));
        let wrong = || format!("{text:?} is not a time such as 90s, 5m, 2h or 3d");
        sum.filter(|sum| *sum >= TimeDelta::zero()).map(Self).ok_or_else(wrong)
    }
}

impl From<Span> for String {
    fn from(span: Span) -> Self {
        span.to_string()
    }
}

impl fmt::Display for Span {
    /// `1d 2h 5m 9s`, without what is zero.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (days, rest) = (self.0.num_days(), self.0.num_seconds() % 86_400);
        let parts = [(days, "d"), (rest / 3600, "h"), (rest / 60 % 60, "m"), (rest % 60, "s")];
        let parts: Vec<String> =
            parts.iter().filter(|(count, _)| *count > 0).map(|(count, unit)| format!("{count}{unit}")).collect();
        if parts.is_empty() { f.write_str("0s") } else { f.write_str(&parts.join(" ")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_read_and_are_written_as_people_write_them() {
        for (text, seconds, shown) in
            [("90s", 90, "1m 30s"), ("0s", 0, "0s"), ("2h 30m", 9_000, "2h 30m"), ("3d", 259_200, "3d")]
        {
            let span = Span::try_from(text.to_owned()).unwrap();
            assert_eq!((span, span.to_string()), (Span::seconds(seconds), shown.to_owned()));
        }
        for wrong in ["", "5", "d", "-1s", "5 apples", "99999999999999d", "-1d"] {
            assert!(Span::try_from(wrong.to_owned()).is_err(), "{wrong}");
        }
    }
}
