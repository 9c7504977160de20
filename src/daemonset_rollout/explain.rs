//! Explain: why a node has no Pod of a DaemonSet, an old one, or waits; for the person on call.
//!
//! Pure: handed what a cluster says, it judges by the operator's own placement, buckets and memory. Must not read
//! anything.

use std::sync::Arc;

use chrono::{DateTime, Utc};

use super::MANAGER;
use super::listed::Listed;
use super::memory::Memory;
use super::observe::Seen;
use super::places::{SKIP, WORDS, is_skipped, places};
use super::revision::{Own, Pod};
use crate::api::daemonset_rollout::DaemonSetRollout;
use crate::fleet::finding::{Finding, Kind, Status, Told, progress, remedy, turn, unlike, untaint, who};
use crate::fleet::refusal;
use crate::k8s::node::Node;
use crate::k8s::placement::Verdict;
use crate::rollout::{self, Bucket, Cause, Desired, Inventory, Look, Standing};

/// What no list shows of a DaemonSetRollout.
#[derive(Debug, Default)]
pub struct Around {
    /// Why the API server refuses its Pods, in its own words.
    pub refused: Option<String>,
    /// What could not be read, and so is not known.
    pub unread: Vec<String>,
}

/// What the status of a DaemonSetRollout says.
#[must_use]
pub fn told(object: &DaemonSetRollout) -> Told<'_> {
    let status = object.status.as_ref();
    let set = status.and_then(|status| status.daemon_set.as_ref());
    Told {
        metadata: &object.metadata,
        resource: "daemonsetrollout",
        operator: MANAGER,
        pods: "Pods",
        to: ("revision", set.and_then(|set| set.revision.as_deref())),
        promoted: object.spec.rollout.as_ref().and_then(|rollout| rollout.promote.as_deref()),
        status: status.map(|status| Status {
            observed: status.observed_generation,
            conditions: &status.conditions,
            rollout: status.rollout.as_ref(),
            nodes: status.nodes.as_ref(),
        }),
    }
}

impl Listed {
    /// How each node is that its DaemonSet runs a Pod on; or why its spec is invalid.
    pub fn looks(&self, object: &DaemonSetRollout, around: &Around, now: DateTime<Utc>) -> Result<Vec<Look>, String> {
        let (seen, memory) = self.seen(object, false, around.refused.clone(), now)?;
        Ok(if seen.set.is_some() { judged(&seen, &memory, now) } else { Vec::new() })
    }

    /// What a DaemonSetRollout has to do with a node.
    #[must_use]
    pub fn node(&self, node: &str, object: &DaemonSetRollout, around: &Around, now: DateTime<Utc>) -> Finding {
        let finding = |kind, what: String, remedy| Finding { who: who(&object.metadata), what, remedy, kind };
        let (seen, memory) = match self.seen(object, false, around.refused.clone(), now) {
            Ok(seen) => seen,
            Err(why) => {
                return finding(Kind::Act, format!("its spec is invalid, so nothing is done: {why}"), None);
            }
        };
        let resolved = &seen.resolved;
        let Some(set) = seen.set.clone() else {
            let what = format!("DaemonSet {}/{} does not exist", resolved.namespace, resolved.daemon_set);
            return finding(Kind::Act, what, None);
        };
        let Some(found) = seen.nodes.iter().find(|known| &*known.name == node) else {
            return finding(Kind::Unrelated, "its DaemonSet does not select it".to_owned(), None);
        };
        let pod = seen.pods.iter().find(|pod| &*pod.node == node && !pod.deleting);
        if let Some((what, remedy)) = unselected(&seen, found, pod) {
            let is_near = seen.placement.verdict(found) != Verdict::NotMatching;
            return finding(if is_near { Kind::Well } else { Kind::Unrelated }, what, remedy);
        }
        let rollout = object.status.as_ref().and_then(|status| status.rollout.as_ref());
        let looks = judged(&seen, &memory, now);
        let look = looks.iter().find(|look| &*look.name == node);
        let (cause, standing) = look.map_or((None, None), |look| (look.cause.clone(), look.standing));
        let unread =
            around.unread.iter().map(|why| format!("; {why}, so more is not known")).collect::<Vec<_>>().concat();
        let skip = is_skipped(found, &resolved.name).then(|| format!("kubectl label node {node} {SKIP}-"));
        let Some(cause) = cause else {
            let turn = turn(&looks, resolved.policy.order, node);
            let what = runs(&seen, (found, pod), (standing, &turn), &self.own(&set));
            return finding(Kind::Well, format!("{what}{}", progress(rollout, "")), skip);
        };
        let what = format!("no available Pod: {cause}{}{unread}", progress(rollout, &cause.to_string()));
        let is_well = matches!(cause, Cause::Starting(_) | Cause::Terminating(false));
        let refused = around.refused.as_ref().filter(|_| cause.bucket() == Bucket::Admission);
        let helps = match refused {
            Some(why) => refusal::read(why, "Pod", &resolved.namespace, "default").full,
            None => remedy(&cause, (&resolved.namespace, &resolved.daemon_set), (found, pod), skip),
        };
        finding(if is_well { Kind::Well } else { Kind::Act }, what, Some(helps))
    }
}

/// How each node is that its DaemonSet runs a Pod on.
fn judged(seen: &Seen, memory: &Memory, now: DateTime<Utc>) -> Vec<Look> {
    let as_one = seen.as_one_revision(memory);
    let seen = as_one.as_ref().unwrap_or(seen);
    let all = places(seen, memory);
    let known = seen.revisions.known();
    let desired = known.map(|known| Desired { revision: known.current.clone(), insists: false });
    let inventory = Inventory {
        template: desired.as_ref().map(|desired| &desired.revision),
        writes_template: false,
        in_contact_since: seen.in_contact_since,
        refused: seen.refused.as_deref(),
        ..Inventory::plain(&all, WORDS, &memory.engine, seen.deciding_since)
    };
    rollout::looks(&seen.resolved.policy, desired.as_ref(), &inventory, now)
}

/// Why no Pod belongs on a node, if none does, and what changes that.
fn unselected(seen: &Seen, node: &Node, pod: Option<&Arc<Pod>>) -> Option<(String, Option<String>)> {
    match seen.placement.verdict(node) {
        Verdict::Selected => None,
        Verdict::Untolerated(taint) => {
            let also = if pod.is_some() { "; a Pod that is there runs on" } else { "" };
            let helps = format!("tolerate it in the DaemonSet's template, or remove it: {}", untaint(node, &taint));
            Some((format!("no new Pod may start: taint {taint} is not tolerated{also}"), Some(helps)))
        }
        Verdict::NotMatching | Verdict::Architecture(_) | Verdict::Overlap(_) => {
            let why = unlike(&seen.placement.selector, node, "its template's nodeSelector");
            let why = why.unwrap_or_else(|| "its template's affinity does not hold of it".to_owned());
            Some((format!("its DaemonSet does not select it: {why}"), None))
        }
    }
}

/// What is said of a Pod that is available.
fn runs(
    seen: &Seen,
    (node, pod): (&Node, Option<&Arc<Pod>>),
    (standing, turn): (Option<Standing>, &str),
    all: &[Own],
) -> String {
    let named = |hash: &str| match all.iter().find(|one| one.hash == hash).and_then(image) {
        Some(image) => format!("revision {hash} ({image})"),
        None => format!("revision {hash}"),
    };
    let of_pod = pod.and_then(|pod| pod.revision.as_ref());
    let it = of_pod.map_or("a Pod without a revision".to_owned(), |revision| named(&revision.0));
    let Some(known) = seen.revisions.known() else {
        return format!("runs {it}; {}", WORDS.undecided);
    };
    let desired = named(&known.current.0);
    match standing {
        Some(Standing::Outdated) if node.busy.is_some() || is_skipped(node, &seen.resolved.name) => {
            let why = node.busy.map_or_else(|| format!("it has label {SKIP}"), str::to_owned);
            format!("runs {it}; {desired} is desired, and the node is left alone: {why}")
        }
        Some(Standing::Outdated) => format!("runs {it}; {desired} is desired, and {turn}"),
        _ => format!("runs {it} as desired"),
    }
}

/// What its first container runs: name and tag, as people know a version.
fn image(one: &Own) -> Option<String> {
    let container = one.template.spec.as_ref()?.containers.first()?;
    let image = container.image.as_deref()?;
    let tag = image.rsplit_once(':').map(|(_, tag)| tag).filter(|tag| !tag.contains('/'));
    Some(format!("{} {}", container.name, tag.unwrap_or(image)))
}
