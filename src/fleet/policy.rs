//! Policy: what the parts of a rollout's policy mean that every kind embeds; or which field is invalid.
//!
//! Pure. Every refusal names the field and the remedy.

use chrono::{DateTime, NaiveTime, TimeDelta, Weekday};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use k8s_openapi::jiff::SignedDuration;

use crate::api::rollout::{Pace, written as share_of};
use crate::api::schedule::{self, Blackout, Promotion, Window};
use crate::rollout::calendar::{self, Calendar, LONGEST, Zone};
use crate::rollout::{self, Hold, Order, Policy, Share, State, Who};

/// `rollout.paused` of an object; `kind`: what the plugin must be told to find it.
#[must_use]
pub fn paused((namespace, name): (&str, &str), kind: Option<&str>) -> Hold {
    let kind = kind.map(|kind| format!(" --kind {kind}")).unwrap_or_default();
    let resume = format!("kubectl oneagent -n {namespace} resume {name}{kind}");
    let why = format!("rollout.paused is true; to continue, set it to false, or use {resume}");
    Hold { state: State::Paused, why: why.into() }
}

/// What the pace of a rollout means where places are nodes; `paused`: what holds it if that is asked for. What is wrong
/// is added to `wrong`.
pub fn of_nodes(pace: &Pace, wait_ready: TimeDelta, paused: impl FnOnce() -> Hold, wrong: &mut Vec<String>) -> Policy {
    let mut share = |field: &str, share: Option<&IntOrString>| {
        let share = share.map(|share| share_of(share).parse::<Share>())?;
        share.map_err(|error| wrong.push(format!("spec.rollout.{field}: {error}"))).ok()
    };
    let budget = share("maxUnavailable", pace.max_unavailable.as_ref());
    let per_zone = share("maxUnavailablePerZone", pace.max_unavailable_per_zone.as_ref());
    let asked = |one: &schedule::Canary, wrong: &mut Vec<String>| {
        let by_hand = one.promotion == Some(Promotion::Manual);
        let canary = canary(("nodes", one.nodes.as_ref()), !one.selector.is_empty(), one.soak.as_deref(), wrong);
        canary.map(|canary| rollout::Canary { by_hand, ..canary })
    };
    let canary = pace.canary.as_ref().and_then(|one| asked(one, wrong));
    let calendar = calendar(&pace.windows, &pace.blackouts, wrong);
    Policy {
        min_ready: TimeDelta::seconds(i64::from(pace.min_ready_seconds.unwrap_or_default())),
        per_zone,
        order: match pace.order.unwrap_or_default() {
            schedule::Order::SpreadAcrossZones => Order::Spread,
            schedule::Order::ZoneByZone => Order::ByZone,
        },
        canary,
        max_failures: pace.max_failures.map(|count| count as usize),
        calendar,
        hold: (pace.paused == Some(true)).then(paused),
        ..Policy::plain(budget.unwrap_or(Share::Percent(10)), wait_ready)
    }
}

/// When anything may be replaced. What is wrong is added to `wrong`.
pub fn calendar(windows: &[Window], blackouts: &[Blackout], wrong: &mut Vec<String>) -> Calendar {
    let mut calendar = Calendar::default();
    for (at, written) in windows.iter().enumerate() {
        match window(written) {
            Ok(window) => calendar.windows.push(window),
            Err(why) => wrong.push(format!("spec.rollout.windows[{at}].{why}")),
        }
    }
    for (at, written) in blackouts.iter().enumerate() {
        match blackout(written) {
            Ok(blackout) => calendar.blackouts.push(blackout),
            Err(why) => wrong.push(format!("spec.rollout.blackouts[{at}].{why}")),
        }
    }
    calendar
}

fn window(written: &Window) -> Result<calendar::Window, String> {
    let zone = written.time_zone.as_deref().filter(|zone| !zone.is_empty()).unwrap_or("UTC");
    let zone = Zone::named(zone)
        .ok_or_else(|| format!("timeZone is {zone:?}, which is no IANA time zone: use one such as Europe/Vienna"))?;
    let start = NaiveTime::parse_from_str(&written.start, "%H:%M")
        .map_err(|_| format!("start is {:?}: use a local time such as 02:00", written.start))?;
    let duration = duration(&written.duration).filter(|duration| *duration > TimeDelta::zero() && *duration <= LONGEST);
    let duration = duration.ok_or_else(|| {
        format!("duration is {:?}: use hours and minutes from 1m to 168h, such as 4h", written.duration)
    })?;
    let days = written.days.iter().filter_map(|day| day.to_string().parse::<Weekday>().ok()).collect();
    Ok(calendar::Window { days, start, duration, zone })
}

fn blackout(written: &Blackout) -> Result<calendar::Blackout, String> {
    let time = |field: &str, text: &str| {
        let time = DateTime::parse_from_rfc3339(text).map(|time| time.to_utc());
        time.map_err(|_| format!("{field} is {text:?}: use a time such as 2026-12-20T00:00:00Z"))
    };
    let (from, to) = (time("from", &written.from)?, time("to", &written.to)?);
    if from >= to {
        return Err(format!("to is {}, which is not after from", written.to));
    }
    Ok(calendar::Blackout { from, to, reason: written.reason.clone().filter(|reason| !reason.is_empty()) })
}

/// Which places go first: so many of what `field` counts, or those that are marked.
pub fn canary(
    (field, share): (&str, Option<&IntOrString>),
    is_marked: bool,
    soak: Option<&str>,
    wrong: &mut Vec<String>,
) -> Option<rollout::Canary> {
    let written = soak;
    let soak = self::soak(written);
    if soak.is_none() {
        wrong.push(format!(
            "spec.rollout.canary.soak is {:?}: use hours, minutes and seconds, such as 10m",
            written.unwrap_or_default()
        ));
    }
    let share = share.map_or(Ok(Share::Count(1)), |share| share_of(share).parse());
    let share = share.map_err(|why: String| wrong.push(format!("spec.rollout.canary.{field}: {why}"))).ok()?;
    let who = if is_marked { Who::Marked } else { Who::Some(share) };
    Some(rollout::Canary { who, soak: soak?, by_hand: false })
}

/// For how long canaries are watched where nothing is said.
const SOAK: TimeDelta = TimeDelta::minutes(10);

/// For how long canaries are watched, as a spec has it.
#[must_use]
pub fn soak(written: Option<&str>) -> Option<TimeDelta> {
    written.filter(|soak| !soak.is_empty()).map_or(Some(SOAK), duration)
}

/// Hours, minutes and seconds.
#[must_use]
pub fn duration(text: &str) -> Option<TimeDelta> {
    let parsed = text.parse::<SignedDuration>().ok().filter(|duration| !duration.is_negative())?;
    TimeDelta::try_seconds(parsed.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::schedule::Day;

    #[test]
    fn a_policy_is_read_and_what_makes_no_sense_is_named() {
        let good = Window {
            days: vec![Day::Sat, Day::Sun],
            start: "02:00".to_owned(),
            duration: "1h30m".to_owned(),
            time_zone: Some("Europe/Vienna".to_owned()),
        };
        let mut wrong = Vec::new();
        let read = calendar(std::slice::from_ref(&good), &[], &mut wrong);
        assert_eq!((read.windows[0].duration, wrong.len()), (TimeDelta::minutes(90), 0));
        assert_eq!(read.windows[0].days, [Weekday::Sat, Weekday::Sun]);
        let bad = [
            Window { time_zone: Some("Europe/Wien".to_owned()), ..good.clone() },
            Window { start: "24:00".to_owned(), ..good.clone() },
            Window { duration: "169h".to_owned(), ..good },
        ];
        let blackout = |from: &str, to: &str| Blackout { from: from.to_owned(), to: to.to_owned(), reason: None };
        let noon = "2026-12-20T12:00:00Z";
        calendar(&bad, &[blackout("tomorrow", noon), blackout(noon, noon)], &mut wrong);
        let said = wrong.join("; ");
        for words in [
            "spec.rollout.windows[0].timeZone is \"Europe/Wien\", which is no IANA time zone",
            "spec.rollout.windows[1].start",
            "spec.rollout.windows[2].duration",
            "spec.rollout.blackouts[0].from",
            "spec.rollout.blackouts[1].to is 2026-12-20T12:00:00Z, which is not after from",
        ] {
            assert!(said.contains(words), "{said}");
        }
    }
}
