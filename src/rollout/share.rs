//! A share: how many of the places, as a number or in percent.
//!
//! Must not know of what.

use std::fmt;
use std::str::FromStr;

/// A number of places, or a share of them in percent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Share {
    /// So many.
    Count(u32),
    /// So many in a hundred, rounded up.
    Percent(u32),
}

impl Share {
    /// The share of `total`, rounded up, at least 1.
    #[must_use]
    pub fn of(self, total: usize) -> usize {
        let share = match self {
            Self::Count(count) => count as usize,
            Self::Percent(percent) => (total * percent as usize).div_ceil(100),
        };
        share.max(1)
    }
}

impl FromStr for Share {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let refuse = || format!("{text:?} is neither a number from 1 nor a percentage from 1% to 100%");
        let share = match text.strip_suffix('%') {
            Some(percent) => Self::Percent(number(percent).filter(|p| (1..=100).contains(p)).ok_or_else(refuse)?),
            None => Self::Count(number(text).filter(|n| *n >= 1).ok_or_else(refuse)?),
        };
        Ok(share)
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Count(count) => write!(f, "{count}"),
            Self::Percent(percent) => write!(f, "{percent}%"),
        }
    }
}

/// Digits only: `u32::from_str` alone would take a leading `+`.
fn number(text: &str) -> Option<u32> {
    if text.bytes().all(|b| b.is_ascii_digit()) { text.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_share_rounds_up_and_never_is_nothing() {
        assert_eq!(Share::Percent(10).of(200), 20);
        assert_eq!(Share::Percent(10).of(201), 21);
        assert_eq!(Share::Percent(10).of(0), 1);
        assert_eq!("25%".parse(), Ok(Share::Percent(25)));
        assert_eq!("3".parse(), Ok(Share::Count(3)));
        for wrong in ["0", "0%", "101%", "-1", "ten", "", "%"] {
            assert!(wrong.parse::<Share>().is_err(), "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_parsing_panic(text in ".*") {
            let _ = text.parse::<Share>();
        }
    }
}
