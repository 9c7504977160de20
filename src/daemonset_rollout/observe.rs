//! Observe: the DaemonSet with its revisions, nodes and Pods. Reads caches; its revisions are listed once for each
//! generation, and why Pods are refused where some are missing.
//!
//! Must not decide.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use k8s_openapi::api::apps::v1::{ControllerRevision, DaemonSet};
use kube::Client;
use kube::ResourceExt;
use kube::api::{Api, ListParams};
use tokio::time::Instant;

use super::context::Cx;
use super::fleet::Fleet;
use super::memory::Memory;
use super::resolve::Resolved;
use super::revision::{Listed, Pod, Revision, Revisions, is_seen, lacking, revisions};
use crate::fleet::missing::{Missing, missing};
use crate::fleet::refusal::UNREAD;
use crate::k8s::affinity::of_template;
use crate::k8s::node::Node;
use crate::k8s::placement::{Placement, Verdict};
use crate::kernel::refused::Short;
use crate::kernel::{self, Key, call};
use crate::rollout::Loss;
use crate::rollout::ledger::Ledger;

/// What kept a template from being put back is tried again after so long.
pub const RETRY: Duration = Duration::from_secs(30);

/// What a plan is made from.
#[derive(Debug, Clone)]
pub struct Seen {
    pub resolved: Resolved,
    pub set: Option<Arc<DaemonSet>>,
    pub revisions: Current,
    pub placement: Placement,
    /// Nodes that matter to it.
    pub nodes: Vec<Arc<Node>>,
    pub pods: Vec<Arc<Pod>>,
    /// What we deleted and what is not replaced yet, as of the last look.
    pub ledger: Ledger,
    /// Since when the DaemonSet's controller has counted other nodes, and how many it does.
    pub miscounted: Option<(DateTime<Utc>, usize)>,
    /// Nodes that lost their Pod.
    pub losses: Arc<HashMap<Arc<str>, Loss>>,
    /// Pods for whose deletion the API server is not asked now, by UID, with its words.
    pub aside: HashMap<Arc<str>, String>,
    /// Its words, sorted; also of those for which it is asked again now.
    pub undeletable: Vec<String>,
    /// Since when selected nodes have no Pod at all.
    pub missing: Missing,
    /// Why the API server refuses new Pods.
    pub refused: Option<String>,
    /// The revision that failed and whose template this process replaced, with the generation that had it.
    pub put_back: Option<(Revision, Option<i64>)>,
    /// Why its template cannot be replaced now.
    pub unrestorable: Option<String>,
    /// Names of the DaemonSets of the namespace, where the one that is named does not exist.
    pub names: Vec<String>,
    /// An older object that names the same DaemonSet.
    pub older: Option<String>,
    /// Since when this process decides.
    pub deciding_since: DateTime<Utc>,
    /// Since when the API server has answered without a break.
    pub in_contact_since: DateTime<Utc>,
    pub stopped: bool,
}

/// The revisions of the DaemonSet, as far as they are known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Current {
    Known(Revisions),
    /// Its controller has not written the one of its template yet.
    Unwritten,
    /// They may not be read; the API server's words.
    Unread(String),
}

impl Current {
    /// The revisions, if they are known.
    #[must_use]
    pub fn known(&self) -> Option<&Revisions> {
        if let Self::Known(revisions) = self { Some(revisions) } else { None }
    }
}

impl Seen {
    /// The same where revisions that differ in what is ignored alone are one, under the name by which it is remembered;
    /// `None`: there are no such revisions.
    #[must_use]
    pub fn as_one_revision(&self, memory: &Memory) -> Option<Self> {
        let known = self.revisions.known().filter(|known| known.alike.len() > 1)?;
        let is_alike = |revision: &&Revision| known.alike.contains(&revision.0);
        let name = memory.names().find(is_alike).unwrap_or(&known.current).clone();
        let renamed = |pod: &Arc<Pod>| {
            let is_other = pod.revision.as_ref().is_some_and(|revision| *revision != name && is_alike(&revision));
            if is_other { Arc::new(Pod { revision: Some(name.clone()), ..(**pod).clone() }) } else { pod.clone() }
        };
        let named = |hash: &String| if known.alike.contains(hash) { name.0.clone() } else { hash.clone() };
        let resolved = Resolved {
            retry: self.resolved.retry.as_ref().map(named),
            promote: self.resolved.promote.as_ref().map(named),
            reject: self.resolved.reject.as_ref().map(named),
            ..self.resolved.clone()
        };
        let revisions = Current::Known(Revisions { current: name.clone(), ..known.clone() });
        Some(Self { pods: self.pods.iter().map(renamed).collect(), revisions, resolved, ..self.clone() })
    }
}

/// What the caches show of a DaemonSet.
pub struct Shown {
    pub set: Option<Arc<DaemonSet>>,
    pub placement: Placement,
    pub nodes: Vec<Arc<Node>>,
    pub pods: Vec<Arc<Pod>>,
}

impl Shown {
    /// Of the DaemonSet with this namespace and name.
    #[must_use]
    pub fn of(fleet: &Fleet, key: &Key, memory: &Memory) -> Self {
        let set = fleet.set(key);
        let placement = set.as_ref().and_then(|set| set.spec.as_ref()?.template.spec.as_ref()).map(of_template);
        let placement = placement.unwrap_or_default();
        let away = memory.engine.touched.away.keys().map(String::as_str);
        // Without a DaemonSet no node is to run a Pod.
        let nodes = if set.is_some() { fleet.near(key, &placement.selector, away) } else { Vec::new() };
        let uid = set.as_ref().and_then(|set| set.uid());
        let pods = uid.map(|uid| fleet.pods(key, &uid)).unwrap_or_default();
        Self { set, placement, nodes, pods }
    }
}

/// Gathers it.
pub async fn observe(
    cx: &Cx<'_>,
    resolved: Resolved,
    memory: &Memory,
    now: DateTime<Utc>,
) -> Result<Seen, kernel::Error> {
    let stopped = cx.is_stopped(cx.key).await?;
    let (fleet, kept) = (&cx.kind.fleet, &cx.state.own);
    let key = (resolved.namespace.clone(), resolved.daemon_set.clone());
    let Shown { set, placement, nodes, pods } = Shown::of(fleet, &key, memory);
    let resolved = resolved.beside(set.as_deref());
    let revisions = match &set {
        Some(set) => current(cx, set, &pods, &resolved).await?,
        None => Current::Unwritten,
    };
    let is_selected = |node: &Node| placement.verdict(node) == Verdict::Selected;
    let able: Vec<&Arc<Node>> = nodes.iter().filter(|node| node.ready && is_selected(node)).collect();
    let missing = missing(&kept.refusals.missing(), &able, &pods, now);
    let was_refused = cx.last_status().nodes.as_ref().is_some_and(|nodes| nodes.admission > 0);
    let short = set.as_deref().filter(|_| !missing.is_empty());
    let short = short.map(|daemonset| Short { daemonset, pods: &pods, missing: &missing, quiet: fleet.quiet(&key) });
    let is_short = !missing.is_empty();
    let refused = kept.refusals.ask(&cx.client, (was_refused, is_short), short.as_ref(), UNREAD, now).await;
    kept.refusals.record(missing.clone(), refused.clone());
    // One that need not be replaced any more is not asked for again. One that does not run may be tried again.
    let is_current = |pod: &Pod| {
        let alike = revisions.known().map(|known| &known.alike);
        pod.revision.as_ref().zip(alike).is_some_and(|(revision, alike)| alike.contains(&revision.0))
    };
    let there: HashSet<&str> =
        pods.iter().filter(|pod| !is_current(pod) || pod.ready_since.is_none()).map(|pod| &*pod.id).collect();
    let (aside, undeletable) = kept.aside.of(|uid| there.contains(uid));
    let selected = nodes.iter().filter(|node| is_selected(node)).count();
    let counted = set.as_deref().filter(|set| is_seen(set)).and_then(|set| set.status.as_ref());
    let counted = counted.and_then(|status| usize::try_from(status.desired_number_scheduled).ok());
    let counted = counted.filter(|count| *count != selected);
    let mut since = kept.miscounted.lock();
    *since = counted.and(since.or(Some(now)));
    let miscounted = since.zip(counted);
    drop(since);
    let generation = set.as_ref().and_then(|set| set.metadata.generation);
    let is_believed = |at: &Instant| at.elapsed() < RETRY;
    let tried = kept.unrestorable.lock().clone().filter(|(of, _, at)| *of == generation && is_believed(at));
    let unrestorable = tried.map(|(_, why, _)| why);
    Ok(Seen {
        names: if set.is_none() { fleet.sets(&resolved.namespace) } else { Vec::new() },
        older: fleet.older(cx.key),
        losses: fleet.losses(&key, is_selected),
        ledger: cx.in_flight.ledger(&cx.state.uid),
        deciding_since: cx.contact.deciding_since(),
        in_contact_since: cx.contact.in_contact_since(),
        resolved,
        set,
        revisions,
        placement,
        nodes,
        pods,
        aside,
        undeletable,
        missing,
        refused,
        miscounted,
        put_back: kept.put_back.lock().clone(),
        unrestorable,
        stopped,
    })
}

/// Its revisions: listed once its controller has seen its template, for until then the newest may be an older one; and
/// again where Pods have one that the list did not have.
async fn current(
    cx: &Cx<'_>,
    set: &DaemonSet,
    pods: &[Arc<Pod>],
    resolved: &Resolved,
) -> Result<Current, kernel::Error> {
    if !is_seen(set) {
        return Ok(Current::Unwritten);
    }
    let of = (set.uid().unwrap_or_default(), set.metadata.generation.unwrap_or_default(), resolved.ignore.clone());
    let is_enough = |listed: &&Listed| listed.of == of && lacking(&listed.revisions, pods).is_subset(&listed.lacked);
    if let Some(listed) = cx.state.own.listed.lock().as_ref().filter(is_enough) {
        return Ok(Current::Known(listed.revisions.clone()));
    }
    match list(&cx.client, set, &resolved.namespace).await {
        Ok(all) => Ok(revisions(set, &all, &resolved.ignore).map_or(Current::Unwritten, |revisions| {
            let lacked = lacking(&revisions, pods);
            *cx.state.own.listed.lock() = Some(Listed { of, revisions: revisions.clone(), lacked });
            Current::Known(revisions)
        })),
        Err(error) => Ok(Current::Unread(error.objection().ok_or(error)?)),
    }
}

/// The revisions with the labels of a DaemonSet, as etcd has them.
pub async fn list(client: &Client, set: &DaemonSet, namespace: &str) -> Result<Vec<ControllerRevision>, kernel::Error> {
    let api: Api<ControllerRevision> = Api::namespaced(client.clone(), namespace);
    let labels = set.spec.as_ref().and_then(|spec| spec.selector.match_labels.clone()).unwrap_or_default();
    let selector: Vec<String> = labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
    // Without a resourceVersion the answer is etcd's, and not a cache's.
    let params = ListParams::default().labels(&selector.join(","));
    Ok(call(|| format!("list ControllerRevisions of namespace {namespace}"), api.list(&params)).await?.items)
}
