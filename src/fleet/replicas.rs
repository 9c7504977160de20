//! Replicas: which workload a Pod belongs to, how many it should have, and whether one may be replaced now.
//!
//! Pure, for any kind that replaces the Pods of workloads which are not its own. Must not know why a Pod is replaced.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::ObjectMeta;

use crate::k8s::facts::PodFacts;
use crate::k8s::workload::{DaemonSetFacts, Remade, ReplicaSetFacts, Size, StatefulSetFacts};
use crate::rollout::Pod;

/// Label of a Pod: the revision of its StatefulSet that it was made from.
pub const REVISION_LABEL: &str = "controller-revision-hash";

/// Who controls a Pod, or a ReplicaSet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Controller {
    pub kind: String,
    /// The API group of its kind.
    pub group: String,
    pub name: String,
    pub uid: Arc<str>,
}

impl Controller {
    /// That of an object, if it has one.
    #[must_use]
    pub fn of(metadata: &ObjectMeta) -> Option<Self> {
        let is_it = |owner: &&OwnerReference| owner.controller == Some(true);
        let owner = metadata.owner_references.iter().flatten().find(is_it)?;
        let group = owner.api_version.split_once('/').map_or("", |(group, _)| group).to_owned();
        Some(Self { kind: owner.kind.clone(), group, name: owner.name.clone(), uid: owner.uid.as_str().into() })
    }

    /// Its kind as kubectl takes it: with the group, where it has one.
    #[must_use]
    pub fn full_kind(&self) -> String {
        if self.group.is_empty() { self.kind.clone() } else { format!("{}.{}", self.kind, self.group) }
    }

    /// Whether it is of a kind that recreates every deleted Pod.
    #[must_use]
    pub fn makes_again(&self) -> bool {
        self.is_read() || (self.group.is_empty() && self.kind == "ReplicationController")
    }

    /// Whether it is of a kind whose objects are read.
    fn is_read(&self) -> bool {
        self.group == APPS && matches!(&*self.kind, "ReplicaSet" | "StatefulSet" | "DaemonSet")
    }
}

/// The API group of the workloads that are read.
const APPS: &str = "apps";

/// A Pod that may be a replica of something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replica<R> {
    pub pod: Arc<Pod<R>>,
    pub labels: BTreeMap<String, String>,
    pub controller: Option<Controller>,
    /// It has ended, and starts no more.
    pub is_finished: bool,
    /// It runs to an end: its restartPolicy is not Always.
    pub will_end: bool,
    /// Its node's kubelet has fallen silent: it may well run.
    pub is_silent: bool,
}

impl<R> Replica<R> {
    /// A Pod as its watch shows it.
    #[must_use]
    pub fn of(facts: &PodFacts, pod: Pod<R>) -> Self {
        Self {
            pod: Arc::new(pod),
            labels: facts.metadata.labels.clone().unwrap_or_default(),
            controller: Controller::of(&facts.metadata),
            is_finished: matches!(facts.status.phase.as_deref(), Some("Succeeded" | "Failed")),
            will_end: matches!(facts.spec.restart_policy.as_deref(), Some("Never" | "OnFailure")),
            is_silent: facts.is_silent(),
        }
    }

    /// Whether it is the same except for its resourceVersion.
    #[must_use]
    pub fn is_like(&self, other: &Self) -> bool
    where
        R: Clone + PartialEq,
    {
        let resource_version = other.pod.resource_version.clone();
        let pod = Pod { resource_version, ..(*self.pod).clone() };
        pod == *other.pod && Self { pod: other.pod.clone(), ..self.clone() } == *other
    }

    /// Why it is left alone.
    #[must_use]
    pub fn skip(&self) -> Option<&'static str> {
        match &self.controller {
            _ if self.is_finished => Some("it has ended"),
            None => Some("it has no controller that would create it again"),
            Some(controller) if controller.kind == "Job" => Some("it is a Job's"),
            Some(controller) if controller.kind == "Node" => Some("it is a static Pod of its node"),
            Some(_) if self.will_end => Some("its restartPolicy is not Always: it runs to its end"),
            Some(_) => None,
        }
    }

    /// Whose turn it is within its workload: of a StatefulSet the highest ordinal's.
    #[must_use]
    pub fn rank(&self) -> i64 {
        let is_ordered = self.controller.as_ref().is_some_and(|controller| controller.kind == "StatefulSet");
        self.ordinal().filter(|_| is_ordered).map_or(0, |ordinal| -ordinal)
    }

    fn ordinal(&self) -> Option<i64> {
        self.pod.name.rsplit('-').next()?.parse().ok()
    }

    fn is_there(&self) -> bool {
        !self.is_finished && !self.pod.deleting
    }

    fn is_available(&self, min_ready: TimeDelta, now: DateTime<Utc>) -> bool {
        self.is_there() && self.pod.ready_since.is_some_and(|since| min_ready.is_zero() || since + min_ready <= now)
    }
}

/// An owner of Pods.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    pub kind: &'static str,
    pub name: String,
    /// Labels of the Pods that it makes: they are selected before there is one.
    pub labels: BTreeMap<String, String>,
    pub size: Size,
    /// Who controls it in turn: the Deployment of a ReplicaSet.
    pub controller: Option<Controller>,
    /// Why the API server refuses its Pods.
    pub refused: Option<String>,
    pub remade: Remade,
}

macro_rules! owner {
    ($facts:ident, $kind:literal, $controller:expr, $refused:expr, $remade:expr) => {
        impl From<&$facts> for Owner {
            fn from(facts: &$facts) -> Self {
                Self {
                    kind: $kind,
                    name: facts.metadata.name.clone().unwrap_or_default(),
                    labels: facts.spec.template.metadata.labels.clone(),
                    size: facts.size(),
                    controller: $controller(&facts.metadata),
                    refused: $refused(facts),
                    remade: $remade(facts),
                }
            }
        }
    };
}
// Who controls a StatefulSet may control several, each a workload of its own.
owner!(ReplicaSetFacts, "ReplicaSet", Controller::of, ReplicaSetFacts::refused, |_: &ReplicaSetFacts| Remade::Alike);
owner!(StatefulSetFacts, "StatefulSet", |_: &ObjectMeta| None, |_: &StatefulSetFacts| None, StatefulSetFacts::remade);
owner!(DaemonSetFacts, "DaemonSet", |_: &ObjectMeta| None, |_: &DaemonSetFacts| None, DaemonSetFacts::remade);

impl Owner {
    /// Which workload it is, or belongs to.
    #[must_use]
    pub fn workload(&self, uid: &Arc<str>) -> Controller {
        let own = || Controller {
            kind: self.kind.to_owned(),
            group: APPS.to_owned(),
            name: self.name.clone(),
            uid: uid.clone(),
        };
        self.controller.clone().unwrap_or_else(own)
    }

    /// Whether a Pod of it would come back from another template, which is held back.
    #[must_use]
    pub fn holds_back<R>(&self, replica: &Replica<R>) -> bool {
        match &self.remade {
            Remade::Alike => false,
            Remade::Revision { first, old, new } => {
                let is_below = replica.ordinal().is_some_and(|ordinal| ordinal < *first);
                let next = if is_below { old.as_ref() } else { Some(new) };
                let own = replica.labels.get(REVISION_LABEL);
                own.is_some_and(|own| next.is_some_and(|next| next != own))
            }
            Remade::Generation(next) => replica.pod.template_generation.is_some_and(|own| own != *next),
        }
    }
}

/// The Pods of a namespace by name, and its owners of Pods by UID.
#[derive(Debug, Clone)]
pub struct NamespaceView<R> {
    pub pods: HashMap<Arc<str>, Arc<Replica<R>>>,
    pub owners: HashMap<Arc<str>, Owner>,
    /// Nodes whose kubelets fell silent and report again, and since when.
    pub reporting_since: HashMap<Arc<str>, DateTime<Utc>>,
}

impl<R> Default for NamespaceView<R> {
    fn default() -> Self {
        Self { pods: HashMap::new(), owners: HashMap::new(), reporting_since: HashMap::new() }
    }
}

impl<R> NamespaceView<R> {
    /// Nodes whose kubelets are silent, as far as their Pods here show it.
    #[must_use]
    pub fn silent_nodes(&self) -> HashSet<&str> {
        self.pods.values().filter(|replica| replica.is_silent).map(|replica| &*replica.pod.node).collect()
    }

    /// Takes note of what a watch shows of a Pod.
    pub fn see(&mut self, replica: &Arc<Replica<R>>, now: DateTime<Utc>) {
        let before = self.pods.insert(replica.pod.name.clone(), replica.clone());
        if before.is_some_and(|before| before.is_silent) && !replica.is_silent {
            self.reporting_since.insert(replica.pod.node.clone(), now);
        }
    }

    /// Forgets nodes without a Pod.
    pub fn forget_nodes(&mut self) {
        let nodes: HashSet<&str> = self.pods.values().map(|replica| &*replica.pod.node).collect();
        self.reporting_since.retain(|node, _| nodes.contains(&**node));
    }
}

/// A workload with all its Pods, selected or not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// Kind and name, as sentences name it.
    pub name: Arc<str>,
    pub expected: usize,
    pub available: usize,
    /// Why no one else should replace a Pod of it now.
    pub busy: Option<Cow<'static, str>>,
    pub refused: Option<String>,
    /// How many Pods there are.
    pub there: usize,
    /// When the newest of them was made.
    pub newest: DateTime<Utc>,
    /// How many it should have is unknown: its owner is of a kind that is not read.
    pub is_guessed: bool,
}

/// How a group is counted.
#[derive(Clone, Copy)]
pub struct Counting<'c> {
    pub min_ready: TimeDelta,
    pub now: DateTime<Utc>,
    /// Whether a Pod, by its UID, was removed though the watch may still show it.
    pub is_removed: &'c dyn Fn(&str) -> bool,
    /// How many Pods a workload of a kind that we cannot read had, by the UID of its controller.
    pub known: &'c HashMap<Arc<str>, usize>,
}

/// Which workload, by UID, a Pod belongs to.
#[must_use]
pub fn workload<R>(view: &NamespaceView<R>, replica: &Replica<R>) -> Option<Controller> {
    let controller = replica.controller.as_ref()?;
    let above = view.owners.get(&controller.uid).and_then(|owner| owner.controller.clone());
    Some(above.unwrap_or_else(|| controller.clone()))
}

/// The workloads of these UIDs, each with all its Pods.
#[must_use]
pub fn groups<R>(view: &NamespaceView<R>, wanted: &[Controller], counting: Counting<'_>) -> Vec<Group> {
    let index: HashMap<&str, usize> = wanted.iter().enumerate().map(|(at, one)| (&*one.uid, at)).collect();
    let mut parts: Vec<Parts<'_, R>> = wanted.iter().map(|_| Parts { pods: Vec::new(), sets: Vec::new() }).collect();
    for replica in view.pods.values() {
        let Some(controller) = &replica.controller else { continue };
        let above = view.owners.get(&controller.uid).and_then(|owner| owner.controller.as_ref());
        if let Some(at) = index.get(&*above.unwrap_or(controller).uid) {
            parts[*at].pods.push(replica);
        }
    }
    for (uid, owner) in &view.owners {
        let of = owner.controller.as_ref().map_or(uid, |above| &above.uid);
        if let Some(at) = index.get(&**of) {
            parts[*at].sets.push((uid, owner));
        }
    }
    wanted.iter().zip(parts).map(|(one, parts)| parts.group(one, counting)).collect()
}

/// What a workload consists of.
struct Parts<'c, R> {
    pods: Vec<&'c Replica<R>>,
    /// Its owners of Pods that are read: the ReplicaSets of a Deployment, or itself.
    sets: Vec<(&'c Arc<str>, &'c Owner)>,
}

impl<R> Parts<'_, R> {
    fn group(&self, one: &Controller, counting: Counting<'_>) -> Group {
        let is_available = |replica: &&&Replica<R>| {
            replica.is_available(counting.min_ready, counting.now) && !(counting.is_removed)(&replica.pod.id)
        };
        let there = self.there();
        let known = counting.known.get(&one.uid).copied().unwrap_or_default();
        let is_guessed = self.sets.is_empty();
        let sized = self.sets.iter().map(|(_, set)| set.size.expected).sum();
        Group {
            name: format!("{} {}", one.kind, one.name).into(),
            expected: if is_guessed { there.max(known) } else { sized },
            available: self.pods.iter().filter(is_available).count(),
            busy: self.busy(&one.kind, there, sized).map(|why| Cow::Owned(format!("{} {}: {why}", one.kind, one.name))),
            refused: self.sets.iter().find_map(|(_, set)| set.refused.clone()),
            there,
            newest: self.pods.iter().map(|replica| replica.pod.created).max().unwrap_or_default(),
            is_guessed,
        }
    }

    fn there(&self) -> usize {
        self.pods.iter().filter(|replica| replica.is_there()).count()
    }

    /// Why no one should replace a Pod of it now: it does so itself.
    fn busy(&self, kind: &str, there: usize, expected: usize) -> Option<&str> {
        let has_pods = |uid: &str| {
            let is_its = |replica: &&Replica<R>| {
                replica.is_there() && replica.controller.as_ref().is_some_and(|controller| *controller.uid == *uid)
            };
            self.pods.iter().any(is_its)
        };
        // A ReplicaSet without a Pod may be about to get the first.
        let is_active = |(uid, set): &&(&Arc<str>, &Owner)| set.size.expected > 0 || has_pods(uid);
        if self.sets.iter().filter(is_active).count() > 1 {
            return Some(if kind == "Deployment" {
                "it is rolling out a template of its own; if it is paused, resume it (kubectl rollout resume)"
            } else {
                "it is rolling out a template of its own; finish or resume that with its own tool"
            });
        }
        // Which of them its controller takes is unknown. A DaemonSet's may run where no new one may start.
        let scales = |(_, set): &(&Arc<str>, &Owner)| set.kind != "DaemonSet";
        if there > expected && self.sets.iter().any(scales) {
            return Some("it has more Pods than it should have, and is about to remove some");
        }
        self.sets.iter().find_map(|(_, set)| set.size.busy.as_deref())
    }
}

/// Whether the owner of a Pod is of a kind whose objects are read, and has not been seen yet.
#[must_use]
pub fn is_unseen<R>(view: &NamespaceView<R>, replica: &Replica<R>) -> bool {
    replica.controller.as_ref().is_some_and(|one| one.is_read() && !view.owners.contains_key(&one.uid))
}
