//! Metrics of kinds that replace one Pod a node: how far each rollout is, and for how long nodes were without an agent.
//!
//! Must not count anything itself.

use chrono::TimeDelta;
use prometheus_client::metrics::histogram::Histogram;

use super::{Metrics, States};

#[derive(Debug)]
pub struct Rollouts {
    rollout: States,
    without: Histogram,
}

/// Upper bounds in seconds: an installer takes minutes, a node that went away longer.
const WITHOUT: [f64; 10] = [5.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1_800.0, 3_600.0, 14_400.0];

impl Default for Rollouts {
    fn default() -> Self {
        Self { rollout: States::default(), without: Histogram::new(WITHOUT) }
    }
}

impl Rollouts {
    /// Registered beside the metrics of every kind.
    #[must_use]
    pub fn registered(all: &Metrics) -> Self {
        let own = Self::default();
        let help = "Nodes of a rollout: that may be without an agent because of it (budget), that are (inFlight), and \
            whose agent is to be replaced yet (left)";
        all.register("rollout_nodes", help, own.rollout.family());
        let help = "Time for which a node was without an available agent because a rollout replaced it, in seconds";
        all.register("replacement_seconds", help, own.without.clone());
        own
    }

    /// How far a rollout is, and how long nodes were without an agent that have one again.
    pub fn see(&self, key: &(String, String), [budget, in_flight, left]: [usize; 3], gaps: &[TimeDelta]) {
        let number = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        self.rollout.set(key, [("budget", number(budget)), ("inFlight", number(in_flight)), ("left", number(left))]);
        for gap in gaps {
            self.without.observe(gap.as_seconds_f64().max(0.0));
        }
    }

    /// Forgets an object that is gone.
    pub fn forget(&self, key: &(String, String)) {
        self.rollout.forget(key);
    }
}
