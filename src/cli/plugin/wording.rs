//! How states, versions, times and ends are written for a person.
//!
//! Pure. Must not choose what is shown.

use chrono::{DateTime, TimeDelta, Utc};
use jiff::tz::TimeZone;

use crate::api::rollout::PastRollout;

/// A state as a sentence has it: `RolledBack` as rolled back.
pub(super) fn words(state: &str) -> String {
    let mut words = String::new();
    for letter in state.chars() {
        if letter.is_uppercase() && !words.is_empty() {
            words.push(' ');
        }
        words.extend(letter.to_lowercase());
    }
    words
}

/// Versions without the time at which they were built, if they can still be told apart.
pub(super) fn shortened(from: Option<&str>, to: Option<&str>) -> (Option<String>, Option<String>) {
    let short = |version: &str| match version.rsplit_once('.') {
        Some((release, built)) if built.len() == 15 && built.contains('-') => release.to_owned(),
        _ => version.to_owned(),
    };
    let (one, other) = (from.map(short), to.map(short));
    if one.is_some() && one == other {
        return (from.map(str::to_owned), to.map(str::to_owned));
    }
    (one, other)
}

/// A time as people here say it, and how far away it is.
pub(super) fn when(at: &str, now: DateTime<Utc>) -> String {
    let Ok(time) = DateTime::parse_from_rfc3339(at) else { return at.to_owned() };
    let away = time.to_utc() - now;
    // What tests compare does not depend on where they run.
    let zone = if cfg!(test) { TimeZone::UTC } else { TimeZone::system() };
    let here = jiff::Timestamp::from_second(time.timestamp()).map(|time| time.to_zoned(zone));
    let form = if away.abs() < TimeDelta::hours(18) { "%H:%M %Z" } else { "%a %-d %b %H:%M %Z" };
    let text = here.map_or_else(|_| at.to_owned(), |time| time.strftime(form).to_string());
    if away >= TimeDelta::zero() {
        format!("{text} (in {})", lasting(away))
    } else {
        format!("{text} ({} ago)", lasting(-away))
    }
}

/// A duration in its two largest units.
pub(super) fn lasting(time: TimeDelta) -> String {
    let (days, hours, minutes) = (time.num_days(), time.num_hours() % 24, time.num_minutes() % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{} s", time.num_seconds()),
        (0, 0, minutes) => format!("{minutes} min"),
        (0, hours, minutes) => format!("{hours} h {minutes} min"),
        (days, hours, _) => format!("{days} d {hours} h"),
    }
}

/// An end, in a sentence.
pub(super) fn ended(past: &PastRollout, now: DateTime<Utc>) -> String {
    let (from, to) = shortened(past.from.as_deref(), past.to.as_deref());
    let way = match (from, to) {
        (Some(from), Some(to)) if from == to => format!("a changed Pod template of {to}"),
        (from, to) => [from, to].into_iter().flatten().collect::<Vec<_>>().join(" to "),
    };
    format!("{} {way}, {}", past.result.to_lowercase(), when(&past.ended_at, now))
}
