//! What could not be removed and steps aside for a while, so that the next one has its turn.
//!
//! Gone with the process: no decision that was kept is asked for twice. Must not know what is removed, nor why it could
//! not be.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// What is refused again and again is asked for at least this often.
const LONGEST: Duration = Duration::from_secs(120);

/// What steps aside, by the UID or name of what it is, with the reason.
#[derive(Debug)]
pub struct Aside<T>(Mutex<HashMap<Arc<str>, Step<T>>>);

#[derive(Debug)]
struct Step<T> {
    why: T,
    until: Instant,
    /// How often in a row before this.
    times: u32,
    /// Whether each time in a row is twice as long.
    grows: bool,
}

impl<T> Default for Aside<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T: Clone> Aside<T> {
    /// No request is sent for `wait`; with `grows`, twice as long each time in a row, up to two minutes.
    pub fn put(&self, key: &Arc<str>, why: T, wait: Duration, grows: bool) {
        let mut all = self.0.lock();
        all.retain(|_, step| step.until + LONGEST > Instant::now());
        let times = all.get(key).filter(|step| step.grows && grows).map_or(0, |step| step.times + 1);
        let until = Instant::now() + wait.saturating_mul(1 << times.min(8)).min(LONGEST);
        all.insert(key.clone(), Step { why, until, times, grows });
    }

    /// Keeps only those for which this holds.
    pub fn retain(&self, mut stays: impl FnMut(&Arc<str>, &T) -> bool) {
        self.0.lock().retain(|key, step| stays(key, &step.why));
    }

    /// Of what is still there: what is aside now, and every reason, sorted; also of what is asked for again now.
    pub fn of(&self, is_there: impl Fn(&str) -> bool) -> (HashMap<Arc<str>, T>, Vec<T>)
    where
        T: Ord,
    {
        self.retain(|key, _| is_there(key));
        let mut said: Vec<T> = self.lately().into_values().collect();
        said.sort();
        (self.now(), said)
    }

    /// Whether no request is sent now.
    pub fn holds(&self, key: &str) -> bool {
        self.0.lock().get(key).is_some_and(|step| step.until > Instant::now())
    }

    /// Whether no request is sent now, for this reason.
    pub fn holds_for(&self, key: &str, why: &T) -> bool
    where
        T: PartialEq,
    {
        self.0.lock().get(key).is_some_and(|step| step.until > Instant::now() && step.why == *why)
    }

    /// What is aside now, and why.
    pub fn now(&self) -> HashMap<Arc<str>, T> {
        self.known(Duration::ZERO)
    }

    /// What is aside now or was until a moment ago: it most likely is refused again.
    pub fn lately(&self) -> HashMap<Arc<str>, T> {
        self.known(LONGEST)
    }

    fn known(&self, longer: Duration) -> HashMap<Arc<str>, T> {
        let all = self.0.lock();
        let now = Instant::now();
        let known = all.iter().filter(|(_, step)| step.until + longer > now);
        known.map(|(key, step)| (key.clone(), step.why.clone())).collect()
    }

    /// How long until the first of them has its turn again, or is said no more.
    pub fn ends_in(&self) -> Option<Duration> {
        let now = Instant::now();
        let all = self.0.lock();
        let ends = all.values().flat_map(|step| [step.until, step.until + LONGEST]);
        ends.filter(|at| *at > now).map(|at| at - now).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_is_refused_in_a_row_steps_aside_for_ever_longer_and_what_has_a_wait_of_its_own_does_not() {
        let (aside, pod, seconds) = (Aside::default(), Arc::from("p"), Duration::from_secs);
        for (grows, waits) in [(true, [10, 20, 40, 80, 120, 120]), (false, [10; 6])] {
            for wait in waits {
                aside.put(&pod, "not now", seconds(10), grows);
                assert!(aside.holds("p") && aside.now().contains_key("p"));
                assert_eq!(aside.ends_in(), Some(seconds(wait)));
                tokio::time::advance(seconds(wait)).await;
                assert!(!aside.holds("p") && aside.now().is_empty() && aside.lately().contains_key("p"));
                assert_eq!(aside.ends_in(), Some(LONGEST), "then it is forgotten");
            }
        }
    }
}
