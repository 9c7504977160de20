//! Counts of nodes, as a status of any kind has them whose places are nodes.
//!
//! Pure. Must not decide anything.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};

use super::closed::{ARCH, NAMESPACE_SELECTOR, OVERLAP, UNTOLERATED};
use crate::api::condition::timestamp;
use crate::api::rollout::{NodeCounts, WithoutAgent};
use crate::rollout::{Bucket, Report, Without};

/// Counts of nodes. `before`: those of the last status.
#[must_use]
pub fn counts(report: &Report, before: Option<&NodeCounts>) -> NodeCounts {
    let number = |count: usize| i32::try_from(count).unwrap_or(i32::MAX);
    let bucket = |bucket| number(report.bucket(bucket));
    let is_closed = |by| number(report.closed(by));
    NodeCounts {
        selected: number(report.selected),
        running: number(report.running),
        updated: number(report.updated),
        outdated: number(report.outdated),
        version_unknown: number(report.unknown.count),
        held_back: number(report.held_back.count),
        unplanned: number(report.unplanned),
        surplus: number(report.surplus.count),
        progress: format!("{}/{}", report.updated, report.selected),
        agents: agents(report),
        untolerated: is_closed(UNTOLERATED),
        arch: is_closed(ARCH),
        namespace_selector: is_closed(NAMESPACE_SELECTOR),
        overlap: is_closed(OVERLAP),
        node_not_ready: bucket(Bucket::NodeNotReady),
        node_lost: bucket(Bucket::NodeLost),
        node_busy: bucket(Bucket::NodeBusy),
        capacity: bucket(Bucket::Capacity),
        admission: bucket(Bucket::Admission),
        image: bucket(Bucket::Image),
        config: bucket(Bucket::Config),
        crash: bucket(Bucket::Crash),
        pulling: bucket(Bucket::Pulling),
        starting: bucket(Bucket::Starting),
        overdue: bucket(Bucket::Overdue),
        terminating: bucket(Bucket::Terminating),
        without_agent: without_agent(report, before),
        examples: examples(report),
    }
}

/// How many nodes have an agent, of all that match; those that another object keeps are not this one's.
fn agents(report: &Report) -> String {
    let kept_off = [UNTOLERATED, ARCH, NAMESPACE_SELECTOR];
    let kept_off: usize = kept_off.into_iter().map(|by| report.closed(by)).sum();
    format!("{}/{}", report.running + report.surplus.count, report.selected + kept_off)
}

/// The nodes that lack an agent. One that stood there before has been without since then: a restarted operator has not
/// seen the loss.
fn without_agent(report: &Report, before: Option<&NodeCounts>) -> Vec<WithoutAgent> {
    let known = before.map(|nodes| nodes.without_agent.as_slice()).unwrap_or_default();
    let since = |without: &Without| {
        let known = known.iter().find(|known| known.node == without.place).and_then(|known| known.since.clone());
        // Times of one format sort as text.
        without.since.map(timestamp).into_iter().chain(known).min()
    };
    let named = |without: &Without| WithoutAgent {
        node: without.place.clone(),
        since: since(without),
        reason: without.cause.to_string(),
    };
    report.without.iter().map(named).collect()
}

/// Names of nodes by the key under which they are counted.
fn examples(report: &Report) -> BTreeMap<String, Vec<String>> {
    let buckets = report.buckets.iter().map(|(bucket, nodes)| (bucket.to_string(), nodes));
    let buckets = buckets.chain(report.closed.iter().map(|(by, nodes)| ((*by).to_owned(), nodes)));
    let others = [("versionUnknown", &report.unknown), ("heldBack", &report.held_back), ("surplus", &report.surplus)];
    let all = buckets.chain(others.map(|(key, nodes)| (key.to_owned(), nodes)));
    all.filter(|(_, nodes)| nodes.count > 0)
        .map(|(key, nodes)| (key, nodes.examples.iter().map(ToString::to_string).collect()))
        .collect()
}

/// The minute after a time, so that a status is not written for seconds.
#[must_use]
pub fn to_the_minute(time: DateTime<Utc>) -> String {
    let minutes = time.timestamp().div_euclid(60) + 1;
    timestamp(DateTime::from_timestamp(minutes * 60, 0).unwrap_or(time))
}
