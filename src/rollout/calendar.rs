//! The calendar: when agents may be replaced, by windows in local time and by blackouts.
//!
//! Pure: handed the time. Must not know what is replaced.

use std::fmt;

use std::sync::LazyLock;

use chrono::{DateTime, Datelike, NaiveDate, NaiveDateTime, NaiveTime, TimeDelta, Timelike, Utc, Weekday};
use jiff::Timestamp;
use jiff::civil::{self, DateTime as Local};
use jiff::tz::{AmbiguousOffset, TimeZone, TimeZoneDatabase};

/// No window lasts longer.
pub const LONGEST: TimeDelta = TimeDelta::days(7);

/// A time zone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Zone(TimeZone);

impl Zone {
    /// By its name in the IANA database that is compiled in.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        // It keeps what was read.
        static DATABASE: LazyLock<TimeZoneDatabase> = LazyLock::new(TimeZoneDatabase::bundled);
        DATABASE.get(name).ok().map(Self)
    }

    /// When it is this time there, the first time; `None`: a clock jumps over it.
    fn first(&self, local: NaiveDateTime) -> Option<DateTime<Utc>> {
        let small = |number: u32| i8::try_from(number).ok();
        let (date, time) = (local.date(), local.time());
        let (year, month, day) = (i16::try_from(date.year()).ok()?, small(date.month())?, small(date.day())?);
        let time = civil::Time::new(small(time.hour())?, small(time.minute())?, small(time.second())?, 0).ok()?;
        let found = self.0.to_ambiguous_timestamp(Local::from_parts(civil::Date::new(year, month, day).ok()?, time));
        if matches!(found.offset(), AmbiguousOffset::Gap { .. }) {
            return None;
        }
        DateTime::from_timestamp(found.earlier().ok()?.as_second(), 0)
    }

    /// Which day it is there.
    fn day(&self, now: DateTime<Utc>) -> NaiveDate {
        let of = |now: DateTime<Utc>| {
            let date = self.0.to_datetime(Timestamp::from_second(now.timestamp()).ok()?).date();
            let (month, day) = (u32::try_from(date.month()).ok()?, u32::try_from(date.day()).ok()?);
            NaiveDate::from_ymd_opt(date.year().into(), month, day)
        };
        of(now).unwrap_or_else(|| now.date_naive())
    }
}

/// A time that comes again, in which agents may be replaced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Window {
    /// The local days on which it starts; none: every day.
    pub days: Vec<Weekday>,
    /// The local time at which it starts. Where clocks jump over it, it starts when they have; where they show it
    /// twice, the first time.
    pub start: NaiveTime,
    /// How much time passes until it ends, whatever clocks do meanwhile.
    pub duration: TimeDelta,
    pub zone: Zone,
}

impl Window {
    /// When it starts on a local day, if it does.
    fn start_on(&self, day: NaiveDate) -> Option<DateTime<Utc>> {
        if !self.days.is_empty() && !self.days.contains(&day.weekday()) {
            return None;
        }
        let local = day.and_time(self.start);
        // No clock has jumped by more than a day.
        let minutes = 0..=24 * 60;
        minutes.map(|minute| local + TimeDelta::minutes(minute)).find_map(|local| self.zone.first(local))
    }

    /// The one that is open.
    fn open_at(&self, now: DateTime<Utc>) -> Option<DateTime<Utc>> {
        let today = self.zone.day(now);
        // One that starts tomorrow by a clock that jumps may have started.
        let days = (-self.duration.num_days() - 1..=1).map(|day| today + TimeDelta::days(day));
        days.filter_map(|day| self.start_on(day)).find(|start| *start <= now && now < *start + self.duration)
    }

    /// The next start after a moment.
    fn next(&self, after: DateTime<Utc>) -> Option<DateTime<Utc>> {
        let today = self.zone.day(after);
        let days = (-1..=8).map(|day| today + TimeDelta::days(day));
        days.filter_map(|day| self.start_on(day)).filter(|start| *start > after).min()
    }
}

/// A time in which no agent is replaced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blackout {
    pub from: DateTime<Utc>,
    pub to: DateTime<Utc>,
    pub reason: Option<String>,
}

impl Blackout {
    fn is_at(&self, now: DateTime<Utc>) -> bool {
        self.from <= now && now < self.to
    }
}

/// When agents may be replaced; always, if nothing is said.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Calendar {
    /// None: always. They unite.
    pub windows: Vec<Window>,
    pub blackouts: Vec<Blackout>,
}

/// Why nothing may be replaced now, and until when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Closed {
    /// The blackout's reason, where there is one.
    pub reason: Option<String>,
    pub is_blackout: bool,
    /// When it opens; `None`: never.
    pub opens: Option<DateTime<Utc>>,
}

impl fmt::Display for Closed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_blackout { "in a blackout" } else { "outside of every window" })?;
        self.reason.iter().try_for_each(|reason| write!(f, " ({reason})"))?;
        match self.opens {
            Some(opens) => write!(f, " until {}", opens.format("%Y-%m-%dT%H:%M:%SZ")),
            None => f.write_str(" for ever: see rollout.windows and rollout.blackouts"),
        }
    }
}

impl Calendar {
    /// Why it is closed, if it is.
    #[must_use]
    pub fn closed(&self, now: DateTime<Utc>) -> Option<Closed> {
        if self.is_open(now) {
            return None;
        }
        let blackout = self.blackouts.iter().find(|blackout| blackout.is_at(now));
        Some(Closed {
            reason: blackout.and_then(|blackout| blackout.reason.clone()),
            is_blackout: blackout.is_some(),
            opens: self.opens(now),
        })
    }

    fn is_open(&self, now: DateTime<Utc>) -> bool {
        let in_window = self.windows.is_empty() || self.windows.iter().any(|window| window.open_at(now).is_some());
        in_window && !self.blackouts.iter().any(|blackout| blackout.is_at(now))
    }

    /// When it opens next: at a window's start, or at a blackout's end.
    fn opens(&self, now: DateTime<Utc>) -> Option<DateTime<Utc>> {
        self.moments(now).find(|at| self.is_open(*at))
    }

    /// The moments at which it may open, in their order. While a blackout lasts no window opens it: its end comes next,
    /// so that there are no more moments than blackouts, and one start after each.
    fn moments(&self, now: DateTime<Utc>) -> impl Iterator<Item = DateTime<Utc>> {
        let next = move |at: &DateTime<Utc>| {
            let lasting =
                self.blackouts.iter().filter(|blackout| blackout.is_at(*at)).map(|blackout| blackout.to).max();
            lasting.or_else(|| self.next_start(*at))
        };
        std::iter::successors(next(&now), next).take(2 * self.blackouts.len() + 1)
    }

    fn next_start(&self, after: DateTime<Utc>) -> Option<DateTime<Utc>> {
        let starts = self.windows.iter().filter_map(|window| window.next(after));
        let ends = self.blackouts.iter().map(|blackout| blackout.to).filter(|end| *end > after);
        starts.chain(ends).min()
    }

    /// When it may close, or open, next: then it is looked at again.
    #[must_use]
    pub fn changes(&self, now: DateTime<Utc>) -> Option<DateTime<Utc>> {
        let ends = self.windows.iter().filter_map(|window| Some(window.open_at(now)? + window.duration));
        let begins = self.blackouts.iter().map(|blackout| blackout.from).filter(|from| *from > now);
        ends.chain(begins).chain(self.next_start(now)).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn utc(text: &str) -> DateTime<Utc> {
        text.parse().unwrap()
    }

    fn window(days: &[Weekday], start: (u32, u32), hours: i64, zone: &str) -> Calendar {
        let window = Window {
            days: days.to_vec(),
            start: NaiveTime::from_hms_opt(start.0, start.1, 0).unwrap(),
            duration: TimeDelta::hours(hours),
            zone: Zone::named(zone).unwrap(),
        };
        Calendar { windows: vec![window], blackouts: Vec::new() }
    }

    /// The openings of a year, as they would be met by looking at each change.
    fn openings(calendar: &Calendar, from: &str, count: usize) -> Vec<(String, String)> {
        let mut now = utc(from);
        let mut found = Vec::new();
        while found.len() < count {
            let start = if calendar.is_open(now) { now } else { calendar.closed(now).unwrap().opens.unwrap() };
            let mut end = calendar.changes(start).unwrap();
            while calendar.is_open(end) {
                end = calendar.changes(end).unwrap();
            }
            let text = |time: DateTime<Utc>| time.format("%m-%dT%H:%MZ").to_string();
            found.push((text(start), text(end)));
            now = end;
        }
        found
    }

    fn pairs(all: &[(&str, &str)]) -> Vec<(String, String)> {
        all.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect()
    }

    #[test]
    fn without_a_word_it_is_always_open() {
        let always = Calendar::default();
        assert_eq!(
            (always.closed(utc("2026-01-01T00:00:00Z")), always.changes(utc("2026-01-01T00:00:00Z"))),
            (None, None)
        );
    }

    #[test]
    fn a_start_that_clocks_jump_over_is_when_they_have_and_one_that_they_show_twice_is_the_first() {
        // Vienna: 2026-03-29 02:00 → 03:00 at 01:00Z; 2026-10-25 03:00 → 02:00 at 01:00Z.
        let vienna = window(&[Weekday::Sun], (2, 30), 2, "Europe/Vienna");
        assert_eq!(
            openings(&vienna, "2026-03-22T00:00:00Z", 3),
            pairs(&[
                ("03-22T01:30Z", "03-22T03:30Z"),
                ("03-29T01:00Z", "03-29T03:00Z"),
                ("04-05T00:30Z", "04-05T02:30Z")
            ])
        );
        assert_eq!(
            openings(&vienna, "2026-10-24T12:00:00Z", 2),
            pairs(&[("10-25T00:30Z", "10-25T02:30Z"), ("11-01T01:30Z", "11-01T03:30Z")])
        );
        // New York: 2026-03-08 02:00 → 03:00 at 07:00Z; 2026-11-01 02:00 → 01:00 at 06:00Z.
        let new_york = window(&[Weekday::Sun], (2, 15), 1, "America/New_York");
        assert_eq!(openings(&new_york, "2026-03-08T00:00:00Z", 1), pairs(&[("03-08T07:00Z", "03-08T08:00Z")]));
        let new_york = window(&[Weekday::Sun], (1, 15), 1, "America/New_York");
        assert_eq!(openings(&new_york, "2026-11-01T00:00:00Z", 1), pairs(&[("11-01T05:15Z", "11-01T06:15Z")]));
        // Lord Howe moves by half an hour: 2026-10-04 02:00 → 02:30 at 15:30Z of the day before.
        let lord_howe = window(&[Weekday::Sun], (2, 10), 1, "Australia/Lord_Howe");
        assert_eq!(openings(&lord_howe, "2026-10-03T00:00:00Z", 1), pairs(&[("10-03T15:30Z", "10-03T16:30Z")]));
        // Samoa left out a whole day, 2011-12-30.
        let apia = window(&[Weekday::Fri], (12, 0), 1, "Pacific/Apia");
        assert_eq!(openings(&apia, "2011-12-29T12:00:00Z", 1), pairs(&[("12-30T10:00Z", "12-30T11:00Z")]));
    }

    #[test]
    fn windows_cross_midnight_month_and_leap_day_and_unite() {
        let late = window(&[Weekday::Sat], (22, 0), 8, "UTC");
        assert_eq!(
            openings(&late, "2028-01-30T12:00:00Z", 5)[4],
            ("03-04T22:00Z".to_owned(), "03-05T06:00Z".to_owned()),
            "after 2028-02-29"
        );
        assert!(late.is_open(utc("2026-02-01T05:59:59Z")) && !late.is_open(utc("2026-02-01T06:00:00Z")));
        assert_eq!(openings(&late, "2026-02-01T01:00:00Z", 1), pairs(&[("02-01T01:00Z", "02-01T06:00Z")]));
        let every_day = window(&[], (1, 0), 1, "Asia/Tokyo");
        let both = Calendar { windows: [every_day.windows, late.windows].concat(), blackouts: Vec::new() };
        assert_eq!(
            openings(&both, "2026-01-31T17:30:00Z", 2),
            pairs(&[("01-31T22:00Z", "02-01T06:00Z"), ("02-01T16:00Z", "02-01T17:00Z")])
        );
        let week = window(&[Weekday::Mon], (0, 0), 24 * 7, "UTC");
        assert!(week.is_open(utc("2026-01-11T23:59:00Z")), "the seventh day of it");
    }

    #[test]
    fn a_blackout_takes_precedence_and_what_never_opens_is_reported() {
        let from = utc("2026-12-20T00:00:00Z");
        let blackout = Blackout { from, to: utc("2027-01-06T03:00:00Z"), reason: Some("freeze".to_owned()) };
        let mut calendar = window(&[], (2, 0), 2, "UTC");
        calendar.blackouts.push(blackout.clone());
        let closed = calendar.closed(utc("2026-12-24T02:30:00Z")).unwrap();
        assert_eq!((closed.is_blackout, closed.reason.as_deref()), (true, Some("freeze")));
        assert_eq!(closed.opens, Some(utc("2027-01-06T03:00:00Z")), "in the middle of a window");
        assert_eq!(calendar.changes(utc("2026-12-19T02:30:00Z")), Some(utc("2026-12-19T04:00:00Z")));
        let always = Calendar { windows: Vec::new(), blackouts: vec![blackout] };
        assert_eq!(always.changes(utc("2026-12-19T02:30:00Z")), Some(from));
        assert!(always.closed(from).is_some() && always.closed(utc("2027-01-06T03:00:00Z")).is_none());
        let long = Blackout { from, to: utc("2126-12-20T00:00:00Z"), reason: None };
        let long = Calendar { blackouts: vec![long], ..window(&[], (2, 0), 2, "UTC") };
        assert_eq!(long.closed(utc("2026-12-24T02:30:00Z")).unwrap().opens, Some(utc("2126-12-20T02:00:00Z")));
    }

    #[test]
    fn a_long_blackout_is_passed_in_one_step_however_many_windows_there_are() {
        let from = utc("2026-01-01T00:00:00Z");
        let daily = |minute: u32| window(&[], (minute, 0), 1, "Europe/Vienna").windows;
        let ten_years = Blackout { from, to: utc("2036-01-01T00:00:00Z"), reason: None };
        let mut calendar = Calendar { windows: (0..20).flat_map(daily).collect(), blackouts: vec![ten_years] };
        let now = utc("2026-06-01T12:00:00Z");
        assert!(calendar.moments(now).count() <= 3);
        assert_eq!(calendar.closed(now).unwrap().opens, Some(utc("2036-01-01T00:00:00Z")));
        let day =
            |day: i64| Blackout { from: now + TimeDelta::days(day), to: now + TimeDelta::days(day + 1), reason: None };
        calendar.blackouts = (0..300).map(day).collect();
        let last = now + TimeDelta::days(300);
        assert!(calendar.moments(now).position(|at| at >= last).unwrap() <= 300, "one step for each blackout");
        assert_eq!(calendar.closed(now).unwrap().opens, Some(last));
    }

    proptest! {
        /// What is said of the next change is true: nothing changes before it.
        #[test]
        fn nothing_changes_before_the_next_change(
            days in proptest::collection::vec(0_u8..7, 0..4),
            start in 0_u32..24 * 60,
            minutes in 1_i64..7 * 24 * 60,
            zone in proptest::sample::select(vec!["UTC", "Europe/Vienna", "America/New_York", "Australia/Lord_Howe"]),
            at in 1_750_000_000_i64..1_800_000_000,
            part in 0.0_f64..1.0,
        ) {
            let mut calendar = window(&[], (start / 60, start % 60), 1, zone);
            calendar.windows[0].days = days.into_iter().map(|day| Weekday::try_from(day).unwrap()).collect();
            calendar.windows[0].duration = TimeDelta::minutes(minutes);
            let now = DateTime::from_timestamp(at, 0).unwrap();
            let next = calendar.changes(now).unwrap();
            prop_assert!(next > now);
            let between = now + TimeDelta::seconds(((next - now).num_seconds() as f64 * part) as i64);
            prop_assert_eq!(calendar.is_open(between), calendar.is_open(now));
            if let Some(closed) = calendar.closed(now) {
                let opens = closed.opens.unwrap();
                prop_assert!(calendar.is_open(opens) && !calendar.is_open(opens - TimeDelta::seconds(1)));
            }
        }
    }
}
