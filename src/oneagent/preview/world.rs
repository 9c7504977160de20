//! A cluster in memory, in which the operator's plan is carried out: the DaemonSet controller makes Pods at once, and
//! each agent is Ready after the same time.
//!
//! Must not touch a real cluster, nor judge a plan.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};
use k8s_openapi::api::apps::v1::{DaemonSet, DaemonSetStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
use kube::ResourceExt;

use super::super::MANAGER;
use super::super::listed::Cluster;
use super::super::memory::{self, Memory};
use super::super::observe::{Observed, in_its_place};
use super::super::plan::{plan, template_revision};
use super::super::resolve::{Resolved, Wish};
use super::super::revision::Pod;
use super::seen::{Surroundings, observed};
use crate::api::name::Version;
use crate::api::oneagent::condition::Reason;
use crate::api::oneagent::{OneAgent, OneAgentStatus};
use crate::dynatrace::types::zone_key;
use crate::dynatrace::{Hosts, Snapshot, TokenState};
use crate::fleet::daemonsets::ZONE;
use crate::k8s::placement::Verdict;
use crate::rollout::Report;

/// The cluster.
pub(super) struct World {
    pub(super) now: DateTime<Utc>,
    pub(super) each: TimeDelta,
    pub(super) seen: Observed,
    pub(super) resolved: Resolved,
    memory: Memory,
    image: String,
    /// When Pods that were made become Ready, by UID.
    due: BTreeMap<Arc<str>, DateTime<Utc>>,
    made: usize,
}

/// What a look led to.
pub(super) struct Done {
    pub(super) from: Option<Version>,
    pub(super) to: Option<Version>,
    pub(super) template_changes: bool,
    /// Whether another template is there now.
    pub(super) changed: bool,
    pub(super) gains: Vec<String>,
    pub(super) loses: Vec<String>,
    /// Nodes, and whether the agent was broken.
    pub(super) restarts: Vec<(String, bool)>,
    pub(super) problems: Vec<String>,
    pub(super) report: Report,
    /// When something happens next.
    pub(super) next: Option<DateTime<Utc>>,
}

impl World {
    pub(super) fn of(
        cluster: &Cluster,
        agent: &OneAgent,
        resolved: Resolved,
        around: &Surroundings,
        now: DateTime<Utc>,
    ) -> Self {
        let status = agent.status.clone().unwrap_or_default();
        let seen = observed(&cluster.fleet, &resolved, &status, around, now);
        let containers = seen.daemonset.as_ref().and_then(|live| live.spec.as_ref()?.template.spec.as_ref());
        let image = containers.and_then(|pod| pod.containers.first()?.image.clone()).unwrap_or_default();
        let memory = memory::read(&status);
        let mut world =
            Self { now, each: TimeDelta::zero(), seen, resolved, memory, image, due: BTreeMap::new(), made: 0 };
        let (environment, unlisted) = match &world.resolved.versions {
            Some(list) => in_its_place(around.list.clone(), &world.resolved, list),
            None => (Some(Ok(Arc::new(environment(&world, &status)))), None),
        };
        (world.seen.environment, world.seen.unlisted) = (environment, unlisted);
        for pod in world.seen.pods.iter().filter(|pod| pod.ready_since.is_none() && pod.trouble.is_none()) {
            world.due.insert(pod.id.clone(), now);
        }
        world
    }

    /// Why nobody but the environment can say which version is wanted.
    pub(super) fn is_unknown(&self, agent: &OneAgent) -> Option<String> {
        let status = agent.status.as_ref().filter(|_| self.resolved.versions.is_none())?;
        let field = match (self.resolved.wish, status.version_source.as_deref()) {
            (Wish::Newest, _) if self.resolved.frozen => return None,
            (Wish::Newest, Some("Api")) => return None,
            (Wish::Newest, Some("ConfigMap")) => "spec.update.source",
            (Wish::Newest, _) => "spec.update.version",
            (Wish::AgentVersion(wish), _) => {
                let desired: Option<Version> = status.desired_version.as_ref().and_then(|version| version.parse().ok());
                if desired.is_some_and(|desired| wish.admits(&desired)) {
                    return None;
                }
                "spec.agentVersion"
            }
            _ => return None,
        };
        Some(format!(
            "which version it gets without the present {field} only its environment knows: to see what a version would \
            do, name it in spec.update.version"
        ))
    }

    pub(super) fn zones(&self) -> BTreeMap<String, String> {
        let zone = |node: &Arc<crate::k8s::node::Node>| Some((node.name.to_string(), node.labels.get(ZONE)?.clone()));
        self.seen.nodes.iter().filter_map(zone).collect()
    }

    /// What the answer rests on that may not be so.
    pub(super) fn notes(&self, agent: &OneAgent) -> Vec<String> {
        let mut notes = self.resolved.warnings.clone();
        notes.extend(self.resolved.conflicts.iter().map(ToString::to_string));
        let status = agent.status.clone().unwrap_or_default();
        if status.instances_truncated == Some(true) {
            notes.push(
                "which agents updated themselves the status tells of 200 nodes only; of the others what their Pods \
                were made from counts"
                    .to_owned(),
            );
        }
        notes
    }

    /// Whether an agent is on its way.
    pub(super) fn is_moving(&self) -> bool {
        !self.due.is_empty()
    }

    /// Lets time pass.
    pub(super) fn pass(&mut self, until: DateTime<Utc>) {
        self.now = until;
        let Self { due, seen, .. } = self;
        for pod in &mut seen.pods {
            if due.get(&pod.id).is_some_and(|at| *at <= until) {
                let ready = due.remove(&pod.id);
                let pod = Arc::make_mut(pod);
                (pod.ready_since, pod.unready_since) = (ready, None);
            }
        }
        if let Some(Ok(environment)) = &mut seen.environment {
            let environment = Arc::make_mut(environment);
            environment.answered_at = environment.answered_at.map(|_| until);
            environment.hosts_at = environment.hosts_at.map(|_| until);
        }
    }

    /// Makes the plan, and carries it out.
    pub(super) fn step(&mut self) -> Result<Done, serde_json::Error> {
        let plan = plan(&self.memory, &self.resolved, &self.seen, &self.image, self.now)?;
        let decision = plan.assessment.decision;
        let before = self.seen.daemonset.as_deref().and_then(template_revision);
        let mut done = Done {
            from: before.as_ref().and_then(|revision| revision.version),
            to: plan.assessment.choice.version,
            template_changes: false,
            changed: false,
            gains: Vec::new(),
            loses: Vec::new(),
            restarts: Vec::new(),
            problems: plan.assessment.problems.into_iter().map(|(_, message)| message).collect(),
            report: decision.plan.report,
            next: None,
        };
        if let Some(wanted) = plan.objects.daemonset {
            self.seen.daemonset = Some(Arc::new(applied(wanted)?));
            let after = self.seen.daemonset.as_deref().and_then(template_revision);
            done.template_changes =
                before.as_ref().zip(after.as_ref()).is_some_and(|(before, after)| before.hash != after.hash);
            self.place(&mut done);
        }
        self.memory = decision.memory;
        let mut ledger = plan.ledger;
        for step in plan.steps {
            // The guard has the last word here, too.
            if ledger.begin(&plan.guard, &step.place, &step.pod.id, self.now).is_none() {
                continue;
            }
            done.restarts.push((step.pod.node.to_string(), !step.costs));
            self.seen.pods.retain(|pod| pod.id != step.pod.id);
            self.due.remove(&step.pod.id);
            self.make(&step.pod.node.clone());
        }
        self.seen.ledger = ledger;
        let due = self.due.values().min().copied();
        done.changed = before.as_ref() != self.seen.daemonset.as_deref().and_then(template_revision).as_ref();
        // Nodes that changed, and those about to be Ready, are looked at again at once.
        let at_once = (done.changed || due.is_some()).then_some(self.now + TimeDelta::seconds(1));
        let due = due.map(|due| due.max(self.now + TimeDelta::seconds(1)));
        let engines = match self.resolved.policy.calendar.closed(self.now) {
            // The engine looks again and again, lest somebody set the clock; here nobody does.
            Some(closed) if due.is_none() => closed.opens,
            _ => decision.plan.next,
        };
        done.next = [due, engines].into_iter().flatten().filter(|at| *at > self.now).min();
        done.next = done.next.filter(|_| !done.changed).or(at_once);
        Ok(done)
    }

    /// What the DaemonSet controller does at once: Pods where there shall be one, none where there shall not.
    fn place(&mut self, done: &mut Done) {
        let mut empty = Vec::new();
        let mut left = HashSet::new();
        let has: HashSet<Arc<str>> = self.seen.pods.iter().map(|pod| pod.node.clone()).collect();
        for node in &self.seen.nodes {
            match self.resolved.placement.verdict(node) {
                Verdict::Selected if !has.contains(&node.name) => empty.push((node.name.clone(), node.ready)),
                Verdict::NotMatching | Verdict::Architecture(_) | Verdict::Overlap(_) => {
                    left.insert(node.name.clone());
                }
                Verdict::Selected | Verdict::Untolerated(_) => {}
            }
        }
        let gone = self.seen.pods.iter().filter(|pod| left.contains(&pod.node));
        done.loses.extend(gone.map(|pod| pod.node.to_string()));
        self.seen.pods.retain(|pod| !left.contains(&pod.node));
        for (node, is_ready) in empty {
            done.gains.push(node.to_string());
            let uid = self.make(&node);
            if !is_ready {
                self.due.remove(&uid);
            }
        }
    }

    /// A new Pod, from the template that is there.
    fn make(&mut self, node: &Arc<str>) -> Arc<str> {
        self.made += 1;
        let name = format!("new-{}", self.made);
        let revision = self.seen.daemonset.as_deref().and_then(template_revision);
        let pod = Pod { revision, created: self.now, ..Pod::named(&name, node) };
        let uid = pod.id.clone();
        self.due.insert(uid.clone(), self.now + self.each);
        self.seen.pods.push(Arc::new(pod));
        uid
    }
}

/// The environment, as far as the status tells.
fn environment(world: &World, status: &OneAgentStatus) -> Snapshot {
    let desired: Option<Version> = status.desired_version.as_ref().and_then(|version| version.parse().ok());
    let is_away = status
        .conditions
        .iter()
        .any(|condition| condition.status == "True" && condition.reason == Reason::EnvironmentUnreachable.to_string());
    let mut hosts = Hosts::of_zones(&[zone_key(world.resolved.network_zone.as_deref())].into());
    for instance in status.instances.values() {
        let reported = instance.version.as_ref().and_then(|version| version.parse().ok());
        if let (Some(ip), Some(version)) = (instance.ip_address.as_ref().and_then(|ip| ip.parse().ok()), reported) {
            hosts.add(world.resolved.network_zone.as_deref(), ip, version);
        }
    }
    // A spec that wants a certain one, or one of a series, is told what the operator knows of it.
    let known = desired.into_iter().chain(world.memory.rollout.last_good.iter().filter_map(|good| good.version));
    let known = known.chain(world.seen.pods.iter().filter_map(|pod| pod.revision.as_ref()?.version));
    let offered: Option<BTreeSet<Version>> = match world.resolved.wish {
        Wish::Pin { version, .. } if is_unoffered(status, version) => Some(known.collect()),
        Wish::Pin { version, .. } => Some(known.chain([version]).collect()),
        Wish::AgentVersion(wish) => Some(known.filter(|version| wish.admits(version)).collect()),
        _ => None,
    };
    Snapshot {
        latest: desired,
        away: is_away,
        answered_at: Some(world.now),
        paas: TokenState::Ready,
        api: TokenState::Ready,
        hosts: Some(Arc::new(hosts)),
        hosts_at: Some(world.now),
        offered: offered.map(|offered| Arc::new(offered.into_iter().rev().collect())),
        ..Snapshot::default()
    }
}

/// Whether the status says that the environment does not offer a version.
fn is_unoffered(status: &OneAgentStatus, version: Version) -> bool {
    let reason = Reason::VersionNotOffered.to_string();
    let mut said = status.conditions.iter().filter(|condition| condition.reason == reason);
    said.any(|condition| condition.message.contains(&format!("spec.update.version is {version},")))
}

/// A DaemonSet as it is after our write, once its controller has seen it.
pub(in super::super) fn applied(wanted: serde_json::Value) -> Result<DaemonSet, serde_json::Error> {
    let mut live: DaemonSet = serde_json::from_value(wanted)?;
    live.metadata.generation = Some(1);
    live.status = Some(DaemonSetStatus { observed_generation: Some(1), ..DaemonSetStatus::default() });
    live.managed_fields_mut().push(ManagedFieldsEntry {
        manager: Some(MANAGER.to_owned()),
        operation: Some("Apply".to_owned()),
        ..ManagedFieldsEntry::default()
    });
    Ok(live)
}
