//! What is kept of one PrometheusJmxExporter between two reconciles.
//!
//! Must not decide anything.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::observe::{Content, Version};
use super::target::Labels;
use crate::kernel::aside::Aside;

/// A configuration that has just changed may change again.
const SETTLES: Duration = Duration::from_secs(2);

/// What is kept.
#[derive(Debug, Default)]
pub struct Kept {
    /// Pods whose change the API server refused.
    pub blocked: Aside<String>,
    /// Annotations whose values another client set, by UID of the Pod.
    pub others: Mutex<HashMap<Arc<str>, Vec<String>>>,
    /// Pods that were annotated, by UID: with which port, and as what they were seen. Until the watch shows it they are
    /// not annotated again.
    pub marked: Aside<(Option<u16>, Arc<Labels>)>,
    /// The configuration as it was parsed last.
    pub parsed: Mutex<Option<(Version, Content)>>,
    /// The configuration, and when it was seen to change.
    changed: Mutex<Option<(Content, Option<Instant>)>>,
}

impl Kept {
    /// Takes note of the configuration; returns how long it may change again. What was there at the first look has not
    /// changed.
    pub fn settles_in(&self, content: &Content) -> Option<Duration> {
        let mut changed = self.changed.lock();
        let since = match &*changed {
            Some((known, since)) if known == content => *since,
            Some(_) => Some(Instant::now()),
            None => None,
        };
        *changed = Some((content.clone(), since));
        SETTLES.checked_sub(since?.elapsed()).filter(|left| !left.is_zero())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_configuration_that_changes_settles_and_the_first_one_has() {
        let kept = Kept::default();
        let found = |sha256: &str| Content::Found(sha256.to_owned());
        assert_eq!(kept.settles_in(&found("1")), None);
        assert_eq!(kept.settles_in(&found("2")), Some(SETTLES));
        tokio::time::advance(SETTLES / 2).await;
        assert_eq!(kept.settles_in(&found("2")), Some(SETTLES / 2));
        assert_eq!(kept.settles_in(&found("3")), Some(SETTLES));
        tokio::time::advance(SETTLES).await;
        assert_eq!(kept.settles_in(&found("3")), None);
    }
}
