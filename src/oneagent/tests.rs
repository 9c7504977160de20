//! Places of agents, as this kind's facts make them: versions that hosts report, Pods of the original operator, the
//! namespace's own selector.
//!
//! What the engine makes of places is tried with the engine. Must not test that.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::IpAddr;
use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};

use super::memory::Memory;
use super::places::{Decision, Inventory, decide, places};
use super::revision::{Desired, Pod, Reported, Revision};
use crate::api::name::Version;
use crate::fleet::closed;
use crate::k8s::node::Node;
use crate::k8s::placement::Placement;
use crate::rollout::{Bucket, Phase, Policy, Share, Source, Trouble};

fn at(second: i64) -> DateTime<Utc> {
    DateTime::from_timestamp(1_000_000 + second, 0).unwrap()
}

fn v(minor: u32) -> Version {
    Version { major: 1, minor, revision: 0, day: 20_250_101, time: 0 }
}

fn revision(minor: u32) -> Revision {
    Revision { version: Some(v(minor)), hash: "h".to_owned() }
}

fn desired(minor: u32) -> Desired {
    Desired { revision: revision(minor), strict: false, keeps_versions: false }
}

fn address(number: usize) -> IpAddr {
    IpAddr::from([10, 0, 0, number as u8])
}

/// Agents that run version 1, and what their environment reports.
struct Fleet {
    nodes: Vec<Arc<Node>>,
    pods: Vec<Arc<Pod>>,
    template: Revision,
    reported: HashMap<IpAddr, Version>,
    lost: HashMap<Arc<str>, DateTime<Utc>>,
    namespace_selector: BTreeMap<String, String>,
    memory: Memory,
}

impl Fleet {
    fn new(size: usize, template: u32) -> Self {
        let node = |number| {
            let mut node = Node::named(&format!("node-{number}"));
            node.ip = Some(address(number));
            Arc::new(node)
        };
        let nodes: Vec<Arc<Node>> = (0..size).map(node).collect();
        let pod = |(number, node): (usize, &Arc<Node>)| {
            let created = at(number as i64 - 1_000);
            let named = Pod::named(&format!("pod-{number}"), &node.name);
            Arc::new(Pod { revision: Some(revision(1)), created, ready_since: Some(created), ..named })
        };
        Self {
            pods: nodes.iter().enumerate().map(pod).collect(),
            nodes,
            template: revision(template),
            reported: HashMap::new(),
            lost: HashMap::new(),
            namespace_selector: BTreeMap::new(),
            memory: Memory::default(),
        }
    }

    fn change(&mut self, number: usize, change: impl FnOnce(&mut Pod)) {
        change(Arc::make_mut(&mut self.pods[number]));
    }

    fn decide(&self, budget: u32, desired: &Desired, now: i64) -> Decision {
        let inventory = Inventory {
            nodes: &self.nodes,
            pods: &self.pods,
            placement: &Placement::default(),
            template: Some(&self.template),
            settled: true,
            deleted: &HashSet::new(),
            lost: &self.lost,
            freed: &HashSet::new(),
            aside: &HashMap::new(),
            losses: &HashMap::new(),
            missing: &HashMap::new(),
            deciding_since: at(-10_000),
            in_contact_since: DateTime::UNIX_EPOCH,
            reported: Reported::Answered(&self.reported),
            source: Source::NotNeeded,
            refused: None,
            namespace_selector: &self.namespace_selector,
            canary: &BTreeMap::new(),
            memory: &self.memory,
        };
        let policy = Policy::plain(Share::Count(budget), TimeDelta::seconds(300));
        decide(&policy, Some(desired), &inventory, &places(Some(desired), &inventory), at(now))
    }
}

fn steps(decision: &Decision) -> Vec<&str> {
    decision.plan.steps.iter().map(|step| &*step.pod.name).collect()
}

#[test]
fn nothing_is_downgraded_automatically_and_a_pin_is() {
    let mut fleet = Fleet::new(3, 1);
    fleet.change(0, |pod| pod.revision = Some(revision(5)));
    assert!(steps(&fleet.decide(3, &desired(1), 0)).is_empty());
    let pinned = Desired { strict: true, ..desired(1) };
    assert_eq!(steps(&fleet.decide(3, &pinned, 0)), ["pod-0"]);
}

#[test]
fn a_retry_that_completed_is_over_though_the_field_stays_in_the_spec() {
    let mut fleet = Fleet::new(2, 2);
    for number in 0..2 {
        fleet.change(number, |pod| pod.revision = Some(revision(2)));
    }
    fleet.change(0, |pod| (pod.ready_since, pod.unready_since) = (None, Some(at(900))));
    fleet.memory.retried = Some(crate::oneagent::memory::Retried { version: v(2), at: at(0) });
    let outdated = |fleet: &Fleet| fleet.decide(1, &desired(2), 1_000).plan.report.outdated;
    assert_eq!(outdated(&fleet), 1, "it is tried again where it failed");
    fleet.memory.rollout.last_good = Some(revision(2));
    assert_eq!(outdated(&fleet), 0, "its node is NotReady, say");
}

#[test]
fn a_word_that_promotes_is_about_the_template_that_the_canaries_ran() {
    let edited = Revision { hash: "edited".to_owned(), ..revision(2) };
    let mut memory = Memory::default();
    memory.promoted = memory.promoting(Some(v(2)), &revision(1));
    assert!(!memory.is_promoted(&revision(1)) && !memory.is_promoted(&revision(2)), "it is not desired yet");
    memory.promoted = memory.promoting(Some(v(2)), &revision(2));
    assert!(memory.is_promoted(&revision(2)));
    memory.promoted = memory.promoting(Some(v(2)), &edited);
    assert!(!memory.is_promoted(&edited), "the field has stayed in the spec");
    memory.promoted = memory.promoting(None, &edited);
    memory.promoted = memory.promoting(Some(v(2)), &edited);
    assert!(memory.is_promoted(&edited), "it was named again");
}

#[test]
fn where_versions_are_kept_older_agents_stay() {
    let fleet = Fleet::new(3, 2);
    assert_eq!(steps(&fleet.decide(3, &desired(2), 0)).len(), 3);
    let frozen = Desired { keeps_versions: true, ..desired(2) };
    assert!(steps(&fleet.decide(3, &frozen, 0)).is_empty());
}

#[test]
fn a_pod_made_as_pinned_is_not_deleted_again_because_its_host_still_reports_what_it_had() {
    let mut fleet = Fleet::new(2, 1);
    fleet.reported = [(address(0), v(5))].into();
    fleet.memory.rollout.phase = Phase::Rolling { since: at(-1), stall: None };
    fleet.change(0, |pod| (pod.ready_since, pod.created) = (None, at(0)));
    let pinned = Desired { strict: true, ..desired(1) };
    let decision = fleet.decide(1, &pinned, 1);
    assert_eq!((steps(&decision).len(), decision.plan.report.bucket(Bucket::Starting)), (0, 1));
}

#[test]
fn a_namespace_keeps_agents_off_nodes_only_where_no_pod_gets_there() {
    let mut fleet = Fleet::new(4, 2);
    fleet.namespace_selector = [("region".to_owned(), "east".to_owned())].into();
    Arc::make_mut(&mut fleet.nodes[0]).labels = fleet.namespace_selector.clone();
    fleet.change(1, |pod| (pod.ready_since, pod.trouble) = (None, Some(Trouble::Capacity("no node matches".into()))));
    fleet.pods.remove(2);
    let report = fleet.decide(1, &desired(2), 0).plan.report;
    assert_eq!(
        (report.selected, report.closed(closed::NAMESPACE_SELECTOR), report.running),
        (2, 2, 2),
        "an agent that runs on the fourth says that nobody enforces it there"
    );
    assert_eq!(report.closed[closed::NAMESPACE_SELECTOR].such_as(), "node-1, node-2");
    // A Pod that we deleted is missing because of us.
    fleet.lost.insert(fleet.nodes[2].name.clone(), at(0));
    let report = fleet.decide(1, &desired(2), 0).plan.report;
    assert_eq!(report.closed(closed::NAMESPACE_SELECTOR), 1);
}

#[test]
fn pods_of_the_original_are_judged_by_what_the_vendor_reports() {
    let mut fleet = Fleet::new(2, 1);
    for number in 0..2 {
        fleet.change(number, |pod| pod.revision = None);
    }
    let adopted = fleet.decide(2, &desired(1), 0);
    assert_eq!((adopted.plan.report.unknown.count, adopted.needs_hosts), (2, true));
    assert_eq!((steps(&adopted).len(), adopted.memory.adopted.as_ref().map(|adopted| &*adopted.hash)), (0, Some("h")));
    fleet.memory = adopted.memory;
    fleet.reported = [(address(0), v(1)), (address(1), v(2))].into();
    fleet.template = revision(2);
    assert_eq!(steps(&fleet.decide(2, &desired(2), 0)), ["pod-0"], "the other is at the new version already");
    // A template edit reaches them whatever is reported.
    fleet.reported.clear();
    let edited = Desired { revision: Revision { hash: "h2".into(), ..revision(2) }, ..desired(2) };
    fleet.template = edited.revision.clone();
    assert_eq!(steps(&fleet.decide(2, &edited, 0)).len(), 2);
}

#[test]
fn a_version_that_fails_is_rejected_and_taken_again_when_its_agents_recover() {
    let mut fleet = Fleet::new(2, 2);
    fleet.memory.rollout.phase = Phase::Rolling { since: at(0), stall: None };
    fleet.memory.rollout.last_good = Some(revision(1));
    fleet.change(0, |pod| {
        (pod.revision, pod.created, pod.ready_since) = (Some(revision(2)), at(1), None);
        pod.trouble = Some(Trouble::Crash("CrashLoopBackOff".into()));
    });
    let failed = fleet.decide(1, &desired(2), 2);
    assert_eq!((failed.memory.rejected.as_slice(), failed.plan.steps.len()), ([v(2)].as_slice(), 0));
    (fleet.memory, fleet.template) = (failed.memory, revision(1));
    fleet.change(0, |pod| (pod.ready_since, pod.trouble) = (Some(at(3)), None));
    assert_eq!(fleet.decide(1, &desired(1), 4).memory.rejected, [v(2)]);
    assert!(fleet.decide(1, &desired(1), 400).memory.rejected.is_empty());
}
