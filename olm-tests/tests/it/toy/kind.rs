//! A third kind on frame and engine: it replaces the Pods of a DaemonSet that were made from another revision than its
//! own, one node at a time. All that a kind which replaces Pods has to bring is here, its package apart.

use std::collections::BTreeMap;
use std::iter::empty;
use std::sync::{Arc, Mutex};

use chrono::{DateTime, TimeDelta, Utc};
use kube::CustomResource;
use kube::api::ObjectMeta;
use oneagent_operator::api::condition::{self, Condition, Finding, Transition, Weight, merge};
use oneagent_operator::api::object::ObjectStatus;
use oneagent_operator::api::package::Package;
use oneagent_operator::fleet::daemonsets::{DaemonSets, Reads, by_node, place};
use oneagent_operator::k8s::facts::{NodeFacts, PodFacts};
use oneagent_operator::k8s::watch::{Affects, Change, Id, Key};
use oneagent_operator::kernel::Error;
use oneagent_operator::kernel::feed::Feed;
use oneagent_operator::kernel::kind::{Acted, Cx, Kind, Observation, StatusInput};
use oneagent_operator::kernel::pods::How;
use oneagent_operator::rollout::{self, Decision, Desired, Inventory, Occupant, Place, Policy, Share, Standing, Words};
use serde::{Deserialize, Serialize};

#[derive(CustomResource, Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[kube(group = "toys.example", version = "v1", kind = "Refresh", namespaced, status = "Refreshed", schema = "disabled")]
pub(super) struct RefreshSpec {
    pub revision: String,
    pub node_selector: BTreeMap<String, String>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Refreshed {
    pub conditions: Vec<Condition>,
    pub memory: rollout::Memory<String>,
    pub observed_generation: Option<i64>,
    pub operator_namespace: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, strum::Display, strum::EnumIter)]
pub(super) enum Type {
    Ready,
    Progressing,
    Degraded,
}

#[derive(Debug, Clone, Copy, PartialEq, strum::Display, strum::EnumIter)]
pub(super) enum Reason {
    NotYetReported,
    InvalidSpec,
    RightsMissing,
    WriteRefused,
    Refreshed,
    Refreshing,
}

impl condition::Type for Type {
    oneagent_operator::common_conditions!(Reason);
    const HALTED: &'static str = "Pods run on";

    fn weight(self, _: Option<bool>, _: Reason) -> Weight {
        Weight::Normal
    }
}

impl ObjectStatus for Refreshed {
    type Condition = Type;

    oneagent_operator::status_head!();
}

const WORDS: Words = Words {
    undecided: "no revision is named",
    authority: "nobody",
    place: "node",
    places: "nodes",
    lacking: "without a Pod",
    template: "the template",
    closes: "taint",
};

/// Pods of a DaemonSet say their revision in a label, and belong to the object of its name.
#[derive(Debug)]
pub(super) struct Pods;

impl Reads for Pods {
    type Revision = String;
    type Detail = ();

    fn owner(facts: &PodFacts) -> Option<Key> {
        let owner = facts.metadata.owner_references.as_ref()?.iter().find(|owner| owner.controller == Some(true))?;
        Some((facts.metadata.namespace.clone()?, owner.name.clone()))
    }

    fn revision(facts: &PodFacts) -> Option<String> {
        facts.metadata.labels.as_ref()?.get("revision").cloned()
    }

    fn detail(_: &PodFacts) -> Option<()> {
        None
    }
}

#[derive(Default)]
pub(super) struct Refreshes {
    fleet: Mutex<DaemonSets<Pods>>,
    pub gone: Mutex<Vec<String>>,
}

impl Kind for Refreshes {
    const PACKAGE: &'static Package = &super::package::REFRESHES;
    const COUNTS: (&'static str, &'static str) = ("pods", "Pods");
    type Object = Refresh;
    type Spec = Desired<String>;
    type Seen = Desired<String>;
    type Memory = rollout::Memory<String>;
    type Plan = Decision<String>;
    type Done = ();
    type State = ();

    fn resolve(object: &Refresh) -> Result<Desired<String>, String> {
        let revision = object.spec.revision.clone();
        if revision.is_empty() {
            Err("spec.revision is empty".into())
        } else {
            Ok(Desired { revision, insists: false })
        }
    }

    fn remember(status: &Refreshed, _: &Desired<String>) -> rollout::Memory<String> {
        status.memory.clone()
    }

    async fn observe(
        _: &Cx<'_, Self>,
        desired: Desired<String>,
        _: &rollout::Memory<String>,
        _: DateTime<Utc>,
    ) -> Result<Observation<Desired<String>>, Error> {
        Ok(Observation::Seen(desired))
    }

    fn plan(
        cx: &Cx<'_, Self>,
        memory: &rollout::Memory<String>,
        desired: &Desired<String>,
        now: DateTime<Utc>,
    ) -> Result<Decision<String>, Error> {
        let (nodes, pods) = {
            let mut fleet = cx.kind.fleet.lock().unwrap();
            (fleet.near(cx.key, &cx.object.spec.node_selector, empty(), empty()), fleet.pods(cx.key))
        };
        let pods = by_node(&pods);
        let standing = |pod: &rollout::Pod<String>| match &pod.revision {
            Some(revision) if *revision != desired.revision => Standing::Outdated,
            _ => Standing::Current,
        };
        let occupant = |pod| Occupant { pod, standing: standing(pod) };
        let places: Vec<Place<'_, String>> =
            nodes.iter().map(|node| place(node, pods.get(&*node.name).copied().map(occupant))).collect();
        let policy = Policy::plain(Share::Count(1), TimeDelta::minutes(5));
        let inventory = Inventory {
            template: Some(&desired.revision),
            ..Inventory::plain(&places, WORDS, memory, cx.contact.deciding_since())
        };
        Ok(rollout::decide(&policy, Some(desired), &inventory, &cx.in_flight.ledger(&cx.state.uid), now))
    }

    async fn act(cx: &Cx<'_, Self>, _: &Desired<String>, decision: &mut Decision<String>, (): &mut ()) -> Acted {
        let mut error = None;
        for step in &decision.plan.steps {
            error = cx.take((&cx.state.uid, &step.pod.id), &decision.guard, step, How::Delete).await.err();
        }
        let next = decision.plan.next.and_then(|at| (at - cx.clock.now()).to_std().ok());
        Acted { error, next, busy_until: None }
    }

    fn status(input: &StatusInput<'_, Self>, now: DateTime<Utc>) -> Result<(Refreshed, Vec<Transition>), Error> {
        let report = &input.plan.plan.report;
        let is_done = report.outdated == 0 && report.updated == report.selected;
        let reason = if is_done { Reason::Refreshed } else { Reason::Refreshing };
        let message = format!("{} of {} Pods", report.updated, report.selected);
        let generation = input.object.metadata.generation;
        let ready = Finding { type_: Type::Ready, holds: Some(is_done), reason, message };
        let (conditions, transitions) = merge(&input.before.conditions, &[ready], generation, now);
        let memory = input.plan.plan.memory.clone();
        Ok((Refreshed { conditions, memory, observed_generation: generation, ..Refreshed::default() }, transitions))
    }

    fn unread(metadata: ObjectMeta, status: Option<Refreshed>) -> Refresh {
        Refresh { metadata, spec: RefreshSpec::default(), status }
    }

    fn watch(self: &Arc<Self>, feed: &mut Feed<'_>) {
        feed.follow_cluster("nodes", self, |kind, change: Change<NodeFacts>| {
            kind.fleet.lock().unwrap().node(&change, Utc::now());
            Affects::All
        });
        feed.follow(("pods", "", Id::Name), self, |kind, change: Change<PodFacts>| {
            kind.fleet.lock().unwrap().pod(&change, Utc::now())
        });
    }

    fn gone(&self, key: &Key, _: &str, is_replaced: bool) {
        self.gone.lock().unwrap().push(format!("{} {is_replaced}", key.1));
    }
}
