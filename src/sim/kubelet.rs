//! Kubelets: what they make of the Pods that they start.
//!
//! Must not know what a Pod is for.

use chrono::{DateTime, TimeDelta, Utc};
use serde_json::Value;

use super::fate::Fate;
use super::pool::Times;
use super::status::{crashing, creating, no_image, ready, refused, starting};
use super::world::{Due, World};

/// A fault shows after so long.
const SHOWS: i64 = 1;
/// Of a Pod that is Ready so soon the watches show nothing before.
const SOON: i64 = 5;
/// The DaemonSet controller waits so long before it replaces a Pod that its kubelet refused.
const BACK_OFF: i64 = 10;

impl World {
    /// What a kubelet makes of a Pod that it starts, or starts again.
    pub(super) fn start(&mut self, name: &str) {
        let Some(pod) = self.pods.get(name) else { return };
        let node = pod["spec"]["nodeName"].as_str().unwrap_or_default().to_owned();
        if !self.is_up(&node) || !pod["metadata"]["deletionTimestamp"].is_null() {
            return;
        }
        let value = pod["metadata"]["annotations"][self.annotation].as_str();
        let of_its_own = value.and_then(|value| self.fates.get(value));
        let fate = self.fates_on.get(&node).or(of_its_own).copied();
        let fate = fate.unwrap_or_else(|| Fate::Ready(self.time_to_ready(&node)));
        // A slow one runs at once, and is not Ready.
        if matches!(fate, Fate::Ready(after) if after > SOON) {
            self.set_status(name, starting(self.now));
        }
        let status = |seconds: i64, status: fn(DateTime<Utc>) -> Value| {
            (seconds, Due::Status(name.to_owned(), status(self.now + TimeDelta::seconds(seconds))))
        };
        let all = match fate {
            Fate::Ready(after) => vec![status(after, ready)],
            Fate::Crashes => vec![status(SHOWS, crashing)],
            Fate::CrashesAfter(after) => vec![status(SHOWS, ready), status(SHOWS + after, crashing)],
            Fate::Pulls(after) => vec![status(SHOWS, creating), status(after, ready)],
            Fate::NoImage => vec![status(SHOWS, no_image)],
            Fate::Refused => vec![status(SHOWS, refused), (SHOWS + BACK_OFF, Due::Remove(name.to_owned()))],
            Fate::KillsNode => vec![(SHOWS, Due::Silence(node))],
        };
        for (seconds, due) in all {
            self.after(seconds, due);
        }
    }

    /// How long a Pod takes on a node, this time.
    fn time_to_ready(&mut self, node: &str) -> i64 {
        let pool = self.pool_of.get(node).and_then(|pool| self.pools.get(pool));
        let times = pool.map_or_else(Times::usual, |(pool, _)| pool.time_to_ready);
        match times {
            Times::Always(_) => times.at(0.5),
            Times::Spread(_) => times.at(self.draw()),
        }
    }
}
