//! What is kept of one ConfigWatcher between two reconciles.
//!
//! Must not decide anything.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use parking_lot::Mutex;
use tokio::time::Instant;

use super::change::Debounce;
use super::observe::Content;
use super::places::{By, Obstacle};
use super::plan::{Missing, Plan};
use crate::kernel::aside::Aside;

/// What is kept.
#[derive(Debug, Default)]
pub struct Kept {
    /// The ConfigMap as it was read last, and the number of its change.
    pub content: Mutex<Option<(Option<u64>, Content)>>,
    /// A change that may not be the last one.
    pub debouncing: Mutex<Option<Debounce>>,
    /// Since when workloads lack the same replicas, and what they looked like then.
    pub missing: Mutex<Missing>,
    /// When a Pod was evicted last.
    pub evicted_at: Mutex<Option<DateTime<Utc>>>,
    /// What is not evicted now.
    pub blocked: Aside<Obstacle>,
    peaks: Mutex<HashMap<Arc<str>, Peak>>,
}

/// The most Pods that were seen of a workload, when that many were seen last, and how many there are.
#[derive(Debug, Clone, Copy)]
struct Peak {
    pods: usize,
    at: Instant,
    now: usize,
}

impl Kept {
    /// Keeps what a plan found.
    pub fn keep(&self, plan: &Plan) {
        self.debouncing.lock().clone_from(&plan.debouncing);
        self.missing.lock().clone_from(&plan.missing);
        self.count(&plan.survey.counted);
    }

    /// Takes note of how many Pods there are of workloads of kinds that are not read.
    fn count(&self, counted: &[(Arc<str>, usize)]) {
        let (mut peaks, at) = (self.peaks.lock(), Instant::now());
        // One without a Pod is not counted.
        peaks.values_mut().for_each(|peak| peak.now = 0);
        for (uid, now) in counted {
            let peak = peaks.entry(uid.clone()).or_insert(Peak { pods: 0, at, now: 0 });
            peak.now = *now;
            if *now >= peak.pods {
                (peak.pods, peak.at) = (*now, at);
            }
        }
    }

    /// No eviction is requested for so long, twice as long each time that the API server refuses it again.
    pub fn step_aside(&self, key: &Arc<str>, obstacle: Obstacle, wait: Duration) {
        let grows = obstacle.by == By::Refusal;
        self.blocked.put(key, obstacle, wait, grows);
    }

    /// One was evicted: what forbade others may forbid none any more. A refusal holds, except for its own workload.
    pub fn was_evicted(&self, workload: Option<&Arc<str>>) {
        self.blocked.retain(|key, obstacle| obstacle.by == By::Refusal && Some(key) != workload);
    }

    /// The most Pods that were seen of workloads of kinds that are not read. `believed_after`: fewer Pods than there
    /// were are believed after so long.
    pub fn peaks(&self, believed_after: Duration) -> HashMap<Arc<str>, usize> {
        let mut peaks = self.peaks.lock();
        for peak in peaks.values_mut().filter(|peak| peak.at.elapsed() >= believed_after) {
            *peak = Peak { pods: peak.now, at: Instant::now(), now: peak.now };
        }
        peaks.retain(|_, peak| peak.pods > 0);
        peaks.iter().map(|(uid, peak)| (uid.clone(), peak.pods)).collect()
    }

    /// How long until fewer Pods than there were are believed.
    pub fn believed_in(&self, believed_after: Duration) -> Option<Duration> {
        let peaks = self.peaks.lock();
        let lacking = peaks.values().filter(|peak| peak.now < peak.pods);
        lacking.map(|peak| believed_after.saturating_sub(peak.at.elapsed())).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn obstacle(by: By) -> Obstacle {
        Obstacle { why: "not now".to_owned(), by }
    }

    #[tokio::test(start_paused = true)]
    async fn fewer_pods_are_believed_after_a_while_and_that_while_asks_for_a_look() {
        let kept = Kept::default();
        let wait = Duration::from_secs(60);
        let look = |pods: usize| {
            let peak = kept.peaks(wait).get("w").copied().unwrap_or_default();
            kept.count(&[("w".into(), pods)]);
            (peak, kept.believed_in(wait))
        };
        assert_eq!(look(3), (0, None));
        tokio::time::advance(wait / 2).await;
        assert_eq!((look(3), look(2)), ((3, None), (3, Some(wait))));
        tokio::time::advance(wait / 2).await;
        assert_eq!(look(2), (3, Some(wait / 2)));
        tokio::time::advance(wait / 2).await;
        assert_eq!(look(2), (2, None));
        // One without a Pod for so long is forgotten.
        kept.count(&[]);
        assert_eq!(kept.believed_in(wait), Some(wait));
        tokio::time::advance(wait).await;
        assert!(kept.peaks(wait).is_empty() && kept.believed_in(wait).is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn an_eviction_ends_what_budgets_forbid_and_leaves_refusals_of_others() {
        let kept = Kept::default();
        let keys: Vec<Arc<str>> = ["budget", "refused", "own"].map(Arc::from).to_vec();
        for (key, by) in keys.iter().zip([By::Budget, By::Refusal, By::Refusal]) {
            kept.step_aside(key, obstacle(by), Duration::from_secs(10));
        }
        kept.was_evicted(Some(&keys[2]));
        assert_eq!(kept.blocked.now().into_keys().collect::<Vec<_>>(), [Arc::from("refused")]);
    }
}
