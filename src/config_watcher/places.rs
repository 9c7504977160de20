//! Places: the selected Pods as the engine wants them, each a replica of its workload.
//!
//! Pure. Must not choose a Pod to replace, nor know how fast any is replaced.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use chrono::{DateTime, Utc};

use super::change::Tracked;
use super::fleet::Inner;
use super::resolve::Resolved;
use super::revision::{Config, Pod};
use crate::fleet::replicas::{Controller, Counting, Group, NamespaceView, Replica, groups, is_unseen, workload};
use crate::rollout::ledger::Ledger;
use crate::rollout::{Occupant, Place, Standing, Trouble, Words, Workload};

/// What is waited for, in this kind's words.
pub const WORDS: Words = Words {
    undecided: "the ConfigMap has not been read",
    authority: "",
    place: "Pod",
    places: "Pods",
    lacking: "not available",
    template: "the ConfigMap",
    closes: "",
};

/// Whether it runs is unknown: no reason to evict it.
const SILENT: &str = "the kubelet of its node does not report; the Pod may well run (kubectl get nodes)";

/// A selected Pod.
#[derive(Debug)]
pub struct Selected {
    pod: Arc<Pod>,
    standing: Standing,
    workload: usize,
    rank: i64,
    busy: Option<Cow<'static, str>>,
    /// Since when its node's kubelet reports again.
    reporting_since: Option<DateTime<Utc>>,
}

/// What keeps a Pod from being evicted now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Obstacle {
    /// In words.
    pub why: String,
    pub by: By,
}

/// What forbids an eviction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum By {
    /// A PodDisruptionBudget, until more Pods are Ready.
    Budget,
    /// A PodDisruptionBudget that protects Pods which are not Ready themselves.
    Deadlock,
    /// The API server: a policy, a webhook, a missing right.
    Refusal,
}

/// What a workload looks like: expected, available and all its Pods, and when the newest was made.
pub type Fingerprint = (usize, usize, usize, DateTime<Utc>);

/// The Pods that a selector matches.
#[derive(Debug, Default)]
pub struct Survey {
    pub selected: Vec<Selected>,
    pub workloads: Vec<Workload>,
    /// What each of them looks like.
    pub fingerprints: Vec<Fingerprint>,
    /// Left alone, and why.
    pub skipped: Vec<(Arc<str>, Cow<'static, str>)>,
    /// What keeps outdated Pods from being evicted, the worst of it.
    pub obstacle: Option<Obstacle>,
    /// How many Pods there are of workloads of unknown size, by the UID of their controller.
    pub counted: Vec<(Arc<str>, usize)>,
    /// A workload lacks replicas and has Pods that are not selected: no watch tells when they are available.
    pub is_unheard: bool,
}

/// The workloads that are concerned.
#[derive(Default)]
struct Wanted<'c> {
    all: Vec<Controller>,
    /// Of the Pods of each.
    labels: Vec<&'c BTreeMap<String, String>>,
    index: HashMap<Arc<str>, usize>,
}

impl<'c> Wanted<'c> {
    /// The place of a workload among them.
    fn index(&mut self, workload: Controller, labels: &'c BTreeMap<String, String>) -> usize {
        *self.index.entry(workload.uid.clone()).or_insert_with(|| {
            self.all.push(workload);
            self.labels.push(labels);
            self.all.len() - 1
        })
    }
}

/// What the Pods are looked at with.
pub struct SurveyInput<'l> {
    pub resolved: &'l Resolved,
    /// What of the ConfigMap is known; nothing before the first sight.
    pub tracked: Option<&'l Tracked>,
    pub ledger: &'l Ledger,
    /// What may not be evicted now, by workload or by UID of the Pod, and why.
    pub blocked: &'l HashMap<Arc<str>, Obstacle>,
    /// How many Pods workloads of kinds that are not read had.
    pub peaks: &'l HashMap<Arc<str>, usize>,
    /// The operator's own namespace, and the name that its Pods carry.
    pub own: (&'l str, &'l str),
    pub now: DateTime<Utc>,
}

impl Survey {
    /// Looks at the Pods of the watcher's namespace.
    #[must_use]
    pub fn of(fleet: &Inner, input: &SurveyInput<'_>) -> Self {
        let SurveyInput { resolved, .. } = input;
        let mut survey = Self::default();
        let Some(view) = fleet.namespace(&resolved.namespace) else { return survey };
        let (mut wanted, silent) = (Wanted::default(), view.silent_nodes());
        for replica in view.pods.values().filter(|replica| resolved.selects(&replica.labels)) {
            if let Some(why) = skip(input, replica) {
                survey.skipped.push((replica.pod.name.clone(), why));
                continue;
            }
            // One that is being deleted is none of its workload's any more.
            let Some(above) = workload(view, replica).filter(|_| !replica.pod.deleting) else { continue };
            let at = wanted.index(above, &replica.labels);
            survey.selected.push(selected(input, view, replica, at, silent.contains(&*replica.pod.node)));
        }
        // Sentences name the same ones at each look.
        survey.selected.sort_unstable_by(|a, b| a.pod.name.cmp(&b.pod.name));
        // One without a Pod for the moment lacks all of them.
        for (uid, owner) in &view.owners {
            if owner.size.expected > 0 && resolved.selects(&owner.labels) {
                wanted.index(owner.workload(uid), &owner.labels);
            }
        }
        let Wanted { all: wanted, labels, .. } = wanted;
        let removed = input.ledger.deleted();
        let counting = Counting {
            min_ready: resolved.policy.min_ready,
            now: input.now,
            is_removed: &|uid| removed.contains(uid),
            known: input.peaks,
        };
        let all = groups(view, &wanted, counting);
        for selected in &mut survey.selected {
            let Group { name, busy, .. } = &all[selected.workload];
            // What forbids an eviction says nothing of a Pod that is not to be evicted.
            let is_outdated = selected.standing == Standing::Outdated;
            let obstacles = [&selected.pod.id, name].map(|key| input.blocked.get(key).filter(|_| is_outdated));
            let worst = obstacles.into_iter().flatten().max_by_key(|obstacle| obstacle.by as u8).cloned();
            let blocked = obstacles.into_iter().flatten().next().map(|obstacle| Cow::Owned(obstacle.why.clone()));
            selected.busy = selected.busy.take().or_else(|| busy.clone()).or(blocked);
            survey.obstacle = survey.obstacle.take().into_iter().chain(worst).max_by_key(|obstacle| obstacle.by as u8);
        }
        let mut selected = vec![0; all.len()];
        survey.selected.iter().for_each(|one| selected[one.workload] += 1);
        let is_unheard =
            |(group, selected): (&Group, usize)| group.available < group.expected && group.there > selected;
        survey.is_unheard = all.iter().zip(selected).any(is_unheard);
        survey.fingerprints =
            all.iter().map(|group| (group.expected, group.available, group.there, group.newest)).collect();
        let counted = wanted.iter().zip(&all).filter(|(_, group)| group.is_guessed);
        survey.counted = counted.map(|(one, group)| (one.uid.clone(), group.there)).collect();
        let sized = all.into_iter().zip(labels).map(|(group, labels)| Workload {
            budget: fleet.budget(&resolved.namespace, labels, group.expected, resolved.policy.budget),
            name: group.name,
            expected: group.expected,
            available: group.available,
            is_busy: group.busy.is_some(),
            refused: group.refused,
        });
        survey.workloads = sized.collect();
        survey.skipped.sort();
        survey
    }

    /// As the engine wants them.
    #[must_use]
    pub fn places(&self) -> Vec<Place<'_, Config>> {
        self.selected.iter().map(Selected::place).collect()
    }
}

impl Selected {
    fn place(&self) -> Place<'_, Config> {
        let occupant = Occupant { pod: &self.pod, standing: self.standing };
        // As of a place that joined long ago: a Pod that comes during a rollout is a successor.
        Place {
            workload: self.workload,
            rank: self.rank,
            ready_since: self.reporting_since,
            busy: self.busy.clone(),
            ..Place::plain(&self.pod.name, Some(occupant))
        }
    }
}

/// Why a Pod is left alone.
fn skip(input: &SurveyInput<'_>, replica: &Replica<Config>) -> Option<Cow<'static, str>> {
    if let Some(why) = replica.skip() {
        return Some(why.into());
    }
    let (namespace, name) = input.own;
    if input.resolved.namespace == namespace
        && replica.labels.get("app.kubernetes.io/name").is_some_and(|label| label == name)
    {
        return Some("it is this operator's own".into());
    }
    let kind = replica.controller.as_ref().filter(|controller| !controller.makes_again())?.full_kind();
    let is_named = input.resolved.owner_kinds.contains(&kind);
    (!is_named).then(|| format!("its owner is a {kind}; if that creates it again, name it in spec.ownerKinds").into())
}

fn selected(
    input: &SurveyInput<'_>,
    view: &NamespaceView<Config>,
    replica: &Replica<Config>,
    workload: usize,
    is_silent: bool,
) -> Selected {
    let current = input.tracked.filter(|tracked| !tracked.is_outdated(&replica.pod));
    let is_outdated = input.tracked.is_some() && current.is_none();
    let unseen = is_unseen(view, replica).then_some(Cow::Borrowed("its owner is not known yet"));
    let silent = (is_outdated && is_silent).then_some(Cow::Borrowed(SILENT));
    let owner = replica.controller.as_ref().and_then(|controller| view.owners.get(&controller.uid));
    let held = owner.filter(|owner| is_outdated && owner.holds_back(replica)).map(|owner| {
        let why = format!(
            "{} {} holds another template back (updateStrategy), with which this Pod would come back; delete the Pod, \
            or let the workload roll that template out or undo it",
            owner.kind, owner.name
        );
        Cow::Owned(why)
    });
    Selected {
        pod: current.map_or_else(|| replica.pod.clone(), |tracked| made_from(replica, tracked.desired(), is_silent)),
        reporting_since: view.reporting_since.get(&replica.pod.node).copied(),
        standing: if is_outdated { Standing::Outdated } else { Standing::Current },
        workload,
        rank: replica.rank(),
        busy: unseen.or(silent).or(held),
    }
}

/// What a Pod has that is newer than the change. Where its kubelet is silent its progress is unknown.
fn made_from(replica: &Replica<Config>, config: &Config, is_silent: bool) -> Arc<Pod> {
    let mut pod = Pod { revision: Some(config.clone()), ..(*replica.pod).clone() };
    if is_silent && pod.ready_since.is_none() && pod.was_ready.is_none() {
        pod.trouble = Some(Trouble::Unstarted(SILENT.to_owned()));
    }
    Arc::new(pod)
}
