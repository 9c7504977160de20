//! Metrics that every kind has: few, with bounded labels. Names are Prometheus' own style; each help text gives the
//! unit. A kind registers its own beside them.
//!
//! Labels are namespaces, names and buckets only: no error text, no node.

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

/// All metrics of a process.
#[derive(Debug)]
pub struct Metrics {
    registry: Mutex<Registry>,
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
