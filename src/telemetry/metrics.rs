//! Metrics that every kind has: few, with bounded labels. Names are Prometheus' own style; each help text gives the
//! unit. A kind registers its own beside them.
//!
//! Labels are namespaces, names, buckets, and the types and reasons of conditions only: no error text, no node.

use std::collections::HashMap;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use parking_lot::Mutex;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Metric, Registry};

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Outcome {
    result: &'static str,
}

/// An object's place in a scrape: what of it is counted, under which state.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Count {
    namespace: String,
    name: String,
    state: &'static str,
}

/// Counts of objects, by state.
#[derive(Debug, Clone, Default)]
pub struct States(Family<Count, Gauge>);

impl States {
    /// To be registered.
    #[must_use]
    pub fn family(&self) -> impl Metric + use<> {
        self.0.clone()
    }

    /// The counts of an object now.
    pub fn set(&self, (namespace, name): &(String, String), counts: &[(&'static str, i32)]) {
        for (state, count) in counts {
            let labels = Count { namespace: namespace.clone(), name: name.clone(), state };
            self.0.get_or_create(&labels).set(i64::from(*count));
        }
    }

    /// Forgets an object that is gone.
    pub fn forget(&self, (namespace, name): &(String, String), counts: &[(&'static str, i32)]) {
        for (state, _) in counts {
            self.0.remove(&Count { namespace: namespace.clone(), name: name.clone(), state });
        }
    }
}

/// What a condition of an object says, in a scrape.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Said {
    namespace: String,
    name: String,
    condition: String,
    status: String,
    reason: String,
}

/// What the conditions of all objects say: 1 for each as it is now, nothing for what it said before.
#[derive(Debug, Default)]
struct Conditions {
    said: Family<Said, Gauge>,
    now: Mutex<HashMap<(String, String), Vec<Said>>>,
}

impl Conditions {
    fn set(&self, key: &(String, String), now: &[Said]) {
        let mut all = self.now.lock();
        if all.get(key).is_some_and(|before| before == now) {
            return;
        }
        for said in now {
            self.said.get_or_create(said).set(1);
        }
        let before = all.insert(key.clone(), now.to_vec()).unwrap_or_default();
        for said in before.iter().filter(|said| !now.contains(said)) {
            self.said.remove(said);
        }
    }

    fn forget(&self, key: &(String, String)) {
        for said in self.now.lock().remove(key).into_iter().flatten() {
            self.said.remove(&said);
        }
    }
}

/// All metrics of a process.
#[derive(Debug)]
pub struct Metrics {
    registry: Mutex<Registry>,
    conditions: Conditions,
    reconciles: Family<Outcome, Counter>,
    seconds: Histogram,
    replaced: Counter,
    statuses: Counter,
    leader: Gauge<f64, AtomicU64>,
}

impl Metrics {
    /// Metrics whose names begin with `prefix`, about objects that people call `object`.
    #[must_use]
    pub fn new(prefix: &str, object: &str) -> Self {
        let metrics = Self {
            registry: Mutex::new(Registry::with_prefix(prefix)),
            conditions: Conditions::default(),
            reconciles: Family::default(),
            seconds: Histogram::new([0.001, 0.005, 0.02, 0.1, 0.5, 2.0, 10.0]),
            replaced: Counter::default(),
            statuses: Counter::default(),
            leader: Gauge::default(),
        };
        metrics.register("reconciles", &format!("Looks at a {object}, by result"), metrics.reconciles.clone());
        let took = format!("Duration of a look at a {object}, in seconds");
        metrics.register("reconcile_seconds", &took, metrics.seconds.clone());
        metrics.register("pods_replaced", "Pods removed in order to be replaced", metrics.replaced.clone());
        metrics.register("statuses_written", "Writes of a status", metrics.statuses.clone());
        let help = format!("What the conditions of a {object} say: 1 for each as it is now");
        metrics.register("condition", &help, metrics.conditions.said.clone());
        metrics.register("leader", "1 where this process acts, 0 where it stands by", metrics.leader.clone());
        metrics
    }

    /// One of a kind's own.
    pub fn register(&self, name: &str, help: &str, metric: impl Metric) {
        self.registry.lock().register(name, help, metric);
    }

    /// A look at an object.
    pub fn reconciled(&self, good: bool, took: Duration) {
        self.reconciles.get_or_create(&Outcome { result: if good { "success" } else { "error" } }).inc();
        self.seconds.observe(took.as_secs_f64());
    }

    /// A Pod was removed in order to be replaced.
    pub fn replaced(&self) {
        self.replaced.inc();
    }

    /// What the conditions of an object say now: type, status and reason of each.
    pub fn says<'c>(&self, key: &(String, String), conditions: impl Iterator<Item = [&'c str; 3]>) {
        let said = |[condition, status, reason]: [&str; 3]| Said {
            namespace: key.0.clone(),
            name: key.1.clone(),
            condition: condition.to_owned(),
            status: status.to_owned(),
            reason: reason.to_owned(),
        };
        self.conditions.set(key, &conditions.map(said).collect::<Vec<_>>());
    }

    /// Forgets what the conditions of an object said that is gone.
    pub fn forget(&self, key: &(String, String)) {
        self.conditions.forget(key);
    }

    /// A status was written.
    pub fn status_written(&self) {
        self.statuses.inc();
    }

    /// Whether this process acts.
    pub fn leads(&self, leads: bool) {
        self.leader.set(f64::from(u8::from(leads)));
    }

    /// The text that a scrape gets.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = String::new();
        // Writing into a String cannot fail.
        let _ = encode(&mut text, &self.registry.lock());
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_condition_says_one_thing_at_a_time_and_nothing_when_its_object_is_gone() {
        let metrics = Metrics::new("x", "X");
        let key = ("ns".to_owned(), "one".to_owned());
        let lines = || -> Vec<String> {
            let text = metrics.text();
            let of = |line: &&str| line.starts_with("x_condition{");
            text.lines().filter(of).map(|line| line["x_condition".len()..].to_owned()).collect()
        };
        let line = |rest: &str| format!("{{namespace=\"ns\",name=\"one\",{rest}}} 1");
        metrics.says(&key, [["Ready", "True", "AllUpdated"]].into_iter());
        assert_eq!(lines(), [line("condition=\"Ready\",status=\"True\",reason=\"AllUpdated\"")]);
        metrics.says(&key, [["Ready", "False", "Paused"]].into_iter());
        assert_eq!(lines(), [line("condition=\"Ready\",status=\"False\",reason=\"Paused\"")]);
        metrics.forget(&key);
        assert_eq!(lines(), Vec::<String>::new());
    }
}
