//! Names and versions as types: what a string must look like before the rest of the program may use it.
//!
//! Here because every room needs them and none may disagree. Must not know a client, a clock or a log.

use std::fmt;
use std::str::FromStr;

use chrono::{DateTime, NaiveDateTime, Utc};
use serde::{Deserialize, Serialize};

/// A version of the vendor's agent, `major.minor.revision.YYYYMMDD-HHMMSS`, ordered part by part as numbers.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Version {
    /// First part.
    pub major: u32,
    /// Second part.
    pub minor: u32,
    /// Third part.
    pub revision: u32,
    /// Build day, `YYYYMMDD`.
    pub day: u32,
    /// Build time, `HHMMSS`.
    pub time: u32,
}

/// Why a text is not a [`Version`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is not an agent version; expected major.minor.revision.YYYYMMDD-HHMMSS, such as 1.301.72.20250601-101010"
)]
pub struct NotAVersion(pub String);

impl Version {
    /// `major.minor.revision`, as the vendor tags images.
    #[must_use]
    pub fn short(&self) -> String {
        format!("{}.{}.{}", self.major, self.minor, self.revision)
    }
}

impl Version {
    /// When it was built, as its number says; `None`: that is no time.
    #[must_use]
    pub fn built_at(&self) -> Option<DateTime<Utc>> {
        let text = format!("{:08}{:06}", self.day, self.time);
        NaiveDateTime::parse_from_str(&text, "%Y%m%d%H%M%S").ok().map(|at| at.and_utc())
    }
}

impl FromStr for Version {
    type Err = NotAVersion;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parse = || {
            let mut parts = text.split('.');
            let (major, minor, revision) = (number(parts.next()?)?, number(parts.next()?)?, number(parts.next()?)?);
            let (day, time) = parts.next()?.split_once('-')?;
            if parts.next().is_some() || day.len() != 8 || time.len() != 6 {
                return None;
            }
            Some(Self { major, minor, revision, day: number(day)?, time: number(time)? })
        };
        parse().ok_or_else(|| NotAVersion(text.chars().take(60).collect()))
    }
}

/// Digits only: `u32::from_str` alone would take a leading `+`.
fn number(text: &str) -> Option<u32> {
    if text.bytes().all(|b| b.is_ascii_digit()) { text.parse().ok() } else { None }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}.{:08}-{:06}", self.major, self.minor, self.revision, self.day, self.time)
    }
}

impl fmt::Debug for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for Version {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Version {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// What `spec.agentVersion` may hold: a whole version, or `major.minor.revision` meaning "the newest that begins so".
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VersionWish {
    /// All four parts.
    Exact(Version),
    /// The first three parts.
    Prefix(u32, u32, u32),
}

impl VersionWish {
    /// Whether `version` is what was asked for.
    #[must_use]
    pub fn admits(&self, version: &Version) -> bool {
        match self {
            Self::Exact(wanted) => wanted == version,
            Self::Prefix(major, minor, revision) => {
                (*major, *minor, *revision) == (version.major, version.minor, version.revision)
            }
        }
    }
}

impl FromStr for VersionWish {
    type Err = NotAVersion;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if let Ok(version) = text.parse() {
            return Ok(Self::Exact(version));
        }
        let parts: Option<Vec<u32>> = text.split('.').map(number).collect();
        match parts.as_deref() {
            Some([major, minor, revision]) => Ok(Self::Prefix(*major, *minor, *revision)),
            _ => Err(NotAVersion(text.chars().take(60).collect())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn version(text: &str) -> Version {
        text.parse().unwrap()
    }

    #[test]
    fn versions_compare_as_numbers_not_as_text() {
        assert!(version("1.9.0.20200101-000000") < version("1.10.0.20200101-000000"));
        assert!(version("1.9.0.20200101-000000") < version("1.9.0.20200101-000001"));
        assert!(version("1.9.1.20190101-000000") > version("1.9.0.20200101-000000"));
    }

    #[test]
    fn what_is_not_a_version_is_refused_with_the_shape_it_should_have() {
        for text in [
            "",
            "1.2.3",
            "1.2.3.4",
            "1.2.3.20200101",
            "1.2.3.20200101-1",
            "a.b.c.20200101-000000",
            "+1.2.3.20200101-000000",
            "1.2.3.20200101-000000.5",
            "99999999999.1.1.20200101-000000",
        ] {
            let error = text.parse::<Version>().unwrap_err().to_string();
            assert!(error.contains("major.minor.revision"), "{error}");
        }
    }

    #[test]
    fn three_parts_are_a_wish_for_the_newest_that_begins_so() {
        let wish: VersionWish = "1.219.0".parse().unwrap();
        assert!(wish.admits(&version("1.219.0.20210901-100000")));
        assert!(!wish.admits(&version("1.219.1.20210901-100000")));
    }

    proptest! {
        #[test]
        fn a_version_reads_back_as_it_was_written(a in 0u32..5000, b in 0u32..5000, c in 0u32..5000,
            d in 0u32..99_999_999, t in 0u32..999_999) {
            let v = Version { major: a, minor: b, revision: c, day: d, time: t };
            prop_assert_eq!(v.to_string().parse::<Version>().unwrap(), v);
        }

        #[test]
        fn no_text_at_all_makes_parsing_panic(text in ".*") {
            let _ = text.parse::<Version>();
            let _ = text.parse::<VersionWish>();
        }
    }
}
