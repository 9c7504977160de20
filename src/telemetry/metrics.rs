//! Metrics that every kind has: few, with bounded labels. Names are Prometheus' own style; each help text gives the
//! unit. A kind registers its own beside them.
//!
//! Labels are namespaces, names, buckets, and the types and reasons of conditions only: no error text, no node.

use std::collections::HashMap;
use std::hash::Hash;
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
use serde::Serialize;
use serde_json::Value;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Outcome {
    result: &'static str,
}

/// An object's place in a scrape: what of it is counted, under which state.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Count {
    namespace: String,
    name: String,
    state: String,
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

/// What the gauges of an object are at.
type Values<L> = Vec<(L, i64)>;

/// Gauges of objects: each object's as they are now, nothing of what they were before.
#[derive(Debug)]
struct Gauges<L> {
    family: Family<L, Gauge>,
    now: Mutex<HashMap<(String, String), Values<L>>>,
}

impl<L: Clone + Eq + Hash> Default for Gauges<L> {
    fn default() -> Self {
        Self { family: Family::default(), now: Mutex::default() }
    }
}

impl<L: Clone + Eq + Hash> Gauges<L> {
    fn set(&self, key: &(String, String), now: Values<L>) {
        let mut all = self.now.lock();
        if all.get(key).is_some_and(|before| *before == now) {
            return;
        }
        for (labels, value) in &now {
            self.family.get_or_create(labels).set(*value);
        }
        let before = all.remove(key).unwrap_or_default();
        for (labels, _) in before.iter().filter(|(before, _)| !now.iter().any(|(labels, _)| labels == before)) {
            self.family.remove(labels);
        }
        all.insert(key.clone(), now);
    }

    fn forget(&self, key: &(String, String)) {
        for (labels, _) in self.now.lock().remove(key).into_iter().flatten() {
            self.family.remove(&labels);
        }
    }
}

/// Counts of objects, by state.
#[derive(Debug, Default)]
pub struct States(Gauges<Count>);

impl States {
    /// To be registered.
    #[must_use]
    pub fn family(&self) -> impl Metric + use<> {
        self.0.family.clone()
    }

    /// The counts of an object now.
    pub fn set<S: ToString>(&self, key: &(String, String), counts: impl IntoIterator<Item = (S, i64)>) {
        let (namespace, name) = key;
        let labels = |state: S| Count { namespace: namespace.clone(), name: name.clone(), state: state.to_string() };
        self.0.set(key, counts.into_iter().map(|(state, count)| (labels(state), count)).collect());
    }

    /// Forgets an object that is gone.
    pub fn forget(&self, key: &(String, String)) {
        self.0.forget(key);
    }
}

/// All metrics of a process.
#[derive(Debug)]
pub struct Metrics {
    registry: Mutex<Registry>,
    conditions: Gauges<Said>,
    counts: States,
    reconciles: Family<Outcome, Counter>,
    seconds: Histogram,
    replaced: Counter,
    statuses: Counter,
    leader: Gauge<f64, AtomicU64>,
}

impl Metrics {
    /// Metrics about objects of a kind. `counts`: the name of the metric that counts what an object has, and its help.
    #[must_use]
    pub fn new(kind: &str, (counts, counted): (&str, &str)) -> Self {
        let metrics = Self {
            registry: Mutex::new(Registry::with_prefix(kind.to_lowercase())),
            conditions: Gauges::default(),
            counts: States::default(),
            reconciles: Family::default(),
            seconds: Histogram::new([0.001, 0.005, 0.02, 0.1, 0.5, 2.0, 10.0]),
            replaced: Counter::default(),
            statuses: Counter::default(),
            leader: Gauge::default(),
        };
        metrics.register("reconciles", &format!("Reconciles of a {kind}, by result"), metrics.reconciles.clone());
        let took = format!("Duration of a reconcile of a {kind}, in seconds");
        metrics.register("reconcile_seconds", &took, metrics.seconds.clone());
        metrics.register("pods_replaced", "Pods removed in order to be replaced", metrics.replaced.clone());
        metrics.register("statuses_written", "Writes of a status", metrics.statuses.clone());
        let help = format!("The conditions of a {kind}: 1 for each as it is now");
        metrics.register("condition", &help, metrics.conditions.family.clone());
        metrics.register(counts, counted, metrics.counts.family());
        metrics.register("leader", "1 where this process acts, 0 where it is a standby", metrics.leader.clone());
        metrics
    }

    /// One of a kind's own.
    pub fn register(&self, name: &str, help: &str, metric: impl Metric) {
        self.registry.lock().register(name, help, metric);
    }

    /// A reconcile of an object.
    pub fn reconciled(&self, good: bool, took: Duration) {
        self.reconciles.get_or_create(&Outcome { result: if good { "success" } else { "error" } }).inc();
        self.seconds.observe(took.as_secs_f64());
    }

    /// A Pod was removed in order to be replaced.
    pub fn replaced(&self) {
        self.replaced.inc();
    }

    /// What the conditions of an object say now: type, status and reason of each.
    pub fn set_conditions<'c>(&self, key: &(String, String), conditions: impl Iterator<Item = [&'c str; 3]>) {
        let said = |[condition, status, reason]: [&str; 3]| Said {
            namespace: key.0.clone(),
            name: key.1.clone(),
            condition: condition.to_owned(),
            status: status.to_owned(),
            reason: reason.to_owned(),
        };
        self.conditions.set(key, conditions.map(|condition| (said(condition), 1)).collect());
    }

    /// What an object has now: the integers of its counts, each under its name.
    pub fn counts(&self, key: &(String, String), counts: &impl Serialize) {
        let Ok(Value::Object(counts)) = serde_json::to_value(counts) else { return };
        self.counts.set(key, counts.into_iter().filter_map(|(state, count)| Some((state, count.as_i64()?))));
    }

    /// Forgets an object that is gone.
    pub fn forget(&self, key: &(String, String)) {
        self.conditions.forget(key);
        self.counts.forget(key);
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
        let metrics = Metrics::new("X", ("pods", "Pods of an X"));
        let key = ("ns".to_owned(), "one".to_owned());
        let lines = || -> Vec<String> {
            let text = metrics.text();
            let of = |line: &&str| line.starts_with("x_condition{");
            text.lines().filter(of).map(|line| line["x_condition".len()..].to_owned()).collect()
        };
        let line = |rest: &str| format!("{{namespace=\"ns\",name=\"one\",{rest}}} 1");
        metrics.set_conditions(&key, [["Ready", "True", "AllUpdated"]].into_iter());
        assert_eq!(lines(), [line("condition=\"Ready\",status=\"True\",reason=\"AllUpdated\"")]);
        metrics.set_conditions(&key, [["Ready", "False", "Paused"]].into_iter());
        assert_eq!(lines(), [line("condition=\"Ready\",status=\"False\",reason=\"Paused\"")]);
        metrics.forget(&key);
        assert_eq!(lines(), Vec::<String>::new());
    }

    #[test]
    fn the_integers_of_a_status_are_counts_under_their_names_until_the_object_is_gone() {
        let metrics = Metrics::new("X", ("pods", "Pods of an X"));
        let key = ("ns".to_owned(), "one".to_owned());
        let lines = || metrics.text().lines().filter(|line| line.starts_with("x_pods{")).map(str::to_owned).collect();
        metrics.counts(&key, &serde_json::json!({ "notReady": 2, "progress": "1/3", "examples": {} }));
        let expected = [r#"x_pods{namespace="ns",name="one",state="notReady"} 2"#.to_owned()];
        assert_eq!(Vec::from_iter::<Vec<String>>(lines()), expected);
        metrics.forget(&key);
        assert_eq!(Vec::from_iter::<Vec<String>>(lines()), Vec::<String>::new());
    }
}
