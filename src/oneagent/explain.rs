//! Explain: why a node has no agent, an old one, or waits; for the person on call.
//!
//! Pure: handed what a cluster says, it judges by the operator's own placement, buckets and memory. What only the
//! operator itself knows (since when a Pod is missing, what the environment reports of hosts) it does not: there it
//! says what the status says. Must not read anything.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use chrono::{DateTime, Utc};

use super::MANAGER;
use super::listed::Cluster;
use super::memory;
use super::places::{Inventory, SKIP, places};
use super::plan::template_revision;
use super::problem::lift_selectors;
use super::resolve::{Resolved, Wish};
use super::revision::{Desired, Pod, Reported, Revision};
use crate::api::name::Version;
use crate::api::oneagent::{OneAgent, OneAgentStatus};
use crate::fleet::finding::{self, Finding, Kind, Status, Told, progress, reason, remedy, untaint, who};
use crate::fleet::kept_out::is_ignored;
use crate::fleet::refusal::{self, Refusal};
use crate::k8s::node::Node;
use crate::k8s::node_selector::Selector;
use crate::k8s::placement::Verdict;
use crate::rollout::{self, Bucket, Cause, Look, Source, Standing};

/// What no list shows of a OneAgent.
#[derive(Debug, Default)]
pub struct Around {
    /// The node selector that its namespace carries.
    pub selector: Selector,
    /// Why the API server refuses its Pods, in its own words.
    pub refused: Option<String>,
    /// What could not be read, and so is not known.
    pub unread: Vec<String>,
}

impl Cluster {
    /// What a OneAgent has to do with a node; `None`: there is no such node.
    #[must_use]
    pub fn node(&self, name: &str, agent: &OneAgent, around: &Around, now: DateTime<Utc>) -> Option<Finding> {
        let nodes = self.fleet.nodes();
        let node = nodes.iter().find(|node| &*node.name == name)?;
        Some(self.of_node(agent, (node, &nodes), around, now))
    }

    fn of_node(
        &self,
        agent: &OneAgent,
        (node, nodes): (&Arc<Node>, &[Arc<Node>]),
        around: &Around,
        now: DateTime<Utc>,
    ) -> Finding {
        let who = who(&agent.metadata);
        let finding = |kind, what: String, remedy: Option<String>| Finding { who: who.clone(), what, remedy, kind };
        let resolved = match self.resolved(agent, nodes) {
            Ok(resolved) => resolved,
            Err(why) => return finding(Kind::Act, format!("its spec is invalid, so nothing is done: {why}"), None),
        };
        let pods = self.fleet.pods(&(resolved.namespace.clone(), resolved.name.clone()));
        let pod = pods.iter().find(|pod| pod.node == node.name);
        if let Some((what, remedy)) = unselected(&resolved, node, pod) {
            let is_near = resolved.placement.verdict(node) != Verdict::NotMatching;
            return finding(if is_near { Kind::Well } else { Kind::Unrelated }, what, remedy);
        }
        let account = &resolved.pod.service_account;
        let refusal = around.refused.as_ref().map(|why| refusal::read(why, "OneAgent", &resolved.namespace, account));
        let obstacles = (refusal.as_ref(), &around.selector);
        let looks = self.judged(agent, &resolved, nodes, (&pods, obstacles), now);
        let turn = finding::turn(&looks, resolved.policy.order, &node.name);
        let judged = looks.into_iter().find(|look| look.name == node.name).map(|look| (look.cause, look.standing));
        let status = agent.status.clone().unwrap_or_default();
        let has_none = self.workload(agent).0.is_none();
        if let Some(degraded) =
            status.conditions.iter().find(|c| has_none && c.type_ == "Degraded" && c.status == "True")
        {
            let what = format!("no agent is installed yet ({}): {}", degraded.reason, degraded.message);
            return finding(Kind::Act, what, None);
        }
        let Some((cause, standing)) = judged else {
            let what = format!(
                "no available agent: the namespace's own node selector excludes it{}{}",
                progress(status.rollout.as_ref(), ""),
                unread(around)
            );
            return finding(Kind::Act, what, Some(lift_selectors(&resolved.namespace)));
        };
        match (cause, refusal) {
            (Some(cause), Some(refusal)) if cause.bucket() == Bucket::Admission => finding(
                Kind::Act,
                format!("no available agent: {cause}{}", progress(status.rollout.as_ref(), &cause.to_string())),
                Some(refusal.full),
            ),
            (Some(cause), _) => {
                let unread = unread(around);
                let known = status.nodes.iter().flat_map(|nodes| &nodes.without_agent);
                let known = known.clone().find(|without| *without.node == *node.name);
                let since = known.and_then(|known| known.since.as_ref()).map(|since| format!(" since {since}"));
                let reason = reason(&cause, known);
                let since = since.unwrap_or_default();
                let what = format!(
                    "no available agent{since}: {reason}{}{unread}",
                    progress(status.rollout.as_ref(), &reason)
                );
                let kind = if matches!(cause, Cause::Starting(_) | Cause::Terminating(false)) {
                    Kind::Well
                } else {
                    Kind::Act
                };
                finding(
                    kind,
                    what,
                    Some(remedy(&cause, (&resolved.namespace, &resolved.name), (node, pod), left_out(node))),
                )
            }
            (None, _) => finding(Kind::Well, runs((standing, &turn), pod, node, &status), left_out(node)),
        }
    }

    /// How each node is that a OneAgent keeps an agent on; or why its spec is invalid.
    pub fn looks(&self, agent: &OneAgent, around: &Around, now: DateTime<Utc>) -> Result<Vec<Look>, String> {
        let nodes = self.fleet.nodes();
        let resolved = self.resolved(agent, &nodes)?;
        let pods = self.fleet.pods(&(resolved.namespace.clone(), resolved.name.clone()));
        let account = &resolved.pod.service_account;
        let refusal = around.refused.as_ref().map(|why| refusal::read(why, "OneAgent", &resolved.namespace, account));
        let mut looks = self.judged(agent, &resolved, &nodes, (&pods, (refusal.as_ref(), &around.selector)), now);
        // What is desired is not in the DaemonSet's template yet.
        if agent.status.as_ref().is_some_and(waits) {
            let current = looks.iter_mut().filter(|look| look.standing == Some(Standing::Current));
            current.for_each(|look| look.standing = Some(Standing::Outdated));
        }
        Ok(looks)
    }

    /// Those that its namespace's node selector excludes are not among them.
    fn judged(
        &self,
        agent: &OneAgent,
        resolved: &Resolved,
        nodes: &[Arc<Node>],
        (pods, (refusal, selector)): (&[Arc<Pod>], (Option<&Refusal>, &Selector)),
        now: DateTime<Utc>,
    ) -> Vec<Look> {
        let status = agent.status.clone().unwrap_or_default();
        let live = self.fleet.daemonset(&(resolved.namespace.clone(), resolved.name.clone()));
        let template = live.as_deref().and_then(template_revision);
        let version = status.desired_version.as_ref().and_then(|version| version.parse().ok());
        let desired = template.as_ref().map(|template| Desired {
            revision: Revision { version: version.or(template.version), hash: template.hash.clone() },
            strict: is_exact(resolved.wish, version),
            keeps_versions: resolved.frozen,
        });
        let memory = memory::read(&status);
        // Where the operator knows of each agent what it is, what Pods say of themselves is as good.
        let unknown = status.nodes.as_ref().map_or(0, |nodes| nodes.version_unknown);
        let nobodys = BTreeMap::new();
        let (deleted, lost, missing) = (HashSet::new(), HashMap::new(), HashMap::new());
        let inventory = Inventory {
            nodes,
            pods,
            placement: &resolved.placement,
            template: template.as_ref(),
            settled: true,
            deleted: &deleted,
            lost: &lost,
            freed: &deleted,
            aside: &HashMap::new(),
            losses: &HashMap::new(),
            missing: &missing,
            deciding_since: now,
            in_contact_since: DateTime::UNIX_EPOCH,
            reported: if unknown > 0 { Reported::NotYet } else { Reported::Silent },
            source: Source::NotNeeded,
            refused: refusal.map(|refusal| refusal.short),
            namespace_selector: if is_ignored(selector, nodes, pods) { &nobodys } else { &selector.labels },
            canary: &resolved.canary,
            memory: &memory,
        };
        let all = places(desired.as_ref(), &inventory);
        let wanted = desired.as_ref().map(|d| rollout::Desired { revision: d.revision.clone(), insists: false });
        rollout::looks(&resolved.policy, wanted.as_ref(), &inventory.for_engine(&all), now)
    }
}

/// Why no agent belongs on a node, if none does, and what changes that.
fn unselected(resolved: &Resolved, node: &Node, pod: Option<&Arc<Pod>>) -> Option<(String, Option<String>)> {
    let also = if pod.is_some() { "; an agent that is there runs on" } else { "" };
    match resolved.placement.verdict(node) {
        Verdict::Selected => None,
        Verdict::NotMatching => Some((format!("does not select it: {}", unlike(resolved, node)), None)),
        Verdict::Untolerated(taint) => Some((
            format!("no new agent may start: taint {taint} is not tolerated{also}"),
            Some(format!("add it to spec.tolerations, or remove it: {}", untaint(node, &taint))),
        )),
        Verdict::Architecture(architecture) => Some((
            format!("no agent is served for its architecture, {architecture}"),
            Some("a OneAgent of its own, with kubernetes.io/arch in spec.nodeSelector; see Architectures".to_owned()),
        )),
        Verdict::Overlap(other) => {
            Some((format!("left to OneAgent {other}, which is older and selects it, too"), None))
        }
    }
}

/// What a node lacks that the spec wants.
fn unlike(resolved: &Resolved, node: &Node) -> String {
    let placement = &resolved.placement;
    if let Some(unlike) = finding::unlike(&placement.selector, node, "spec.nodeSelector") {
        return unlike;
    }
    if let Some((key, value)) = placement.virtual_nodes.iter().find(|(key, value)| node.labels.get(key) == Some(value))
    {
        return format!("{key}={value} says that it is a virtual node, on which no host agent can run");
    }
    "spec.affinity does not hold of it".to_owned()
}

/// What is said of an agent that is available.
fn runs(
    (standing, turn): (Option<Standing>, &str),
    pod: Option<&Arc<Pod>>,
    node: &Node,
    status: &OneAgentStatus,
) -> String {
    let version = pod.and_then(|pod| pod.revision.as_ref()?.version).map(|version| format!(" {version}"));
    let version = version.unwrap_or_default();
    let desired = status.desired_version.as_deref().unwrap_or("another");
    let rollout = progress(status.rollout.as_ref(), "");
    match standing {
        Some(Standing::Outdated) if node.busy.is_some() || is_left_out(node) => {
            format!("runs agent{version}; {desired} is desired, and the node is left alone{}", busy(node))
        }
        Some(Standing::Outdated) if version.trim() == desired => {
            format!("runs agent{version} in a Pod from before the last edit, and {turn}{rollout}")
        }
        Some(Standing::Outdated) => format!("runs agent{version}; {desired} is desired, and {turn}{rollout}"),
        Some(Standing::Unknown | Standing::Unheard) => format!(
            "runs an agent that was made as{version} and may have updated itself; {desired} is desired, and the \
            environment's host list says what it is{rollout}"
        ),
        Some(Standing::HeldBack) => format!("runs agent{version}, which is newer than what is desired{rollout}"),
        // What is desired is not in the DaemonSet's template yet.
        Some(Standing::Current) | None if waits(status) => {
            format!("runs agent{version}, and its turn comes once the rollout continues{rollout}")
        }
        Some(Standing::Current) | None => format!("runs agent{version} as desired{rollout}"),
    }
}

/// What could not be read, and so is not known.
fn unread(around: &Around) -> String {
    around.unread.iter().map(|why| format!("; {why}, so more is not known")).collect::<Vec<_>>().concat()
}

/// Whether exactly the desired version will do, not a newer one. A pin that is not obeyed keeps what runs.
fn is_exact(wish: Wish, desired: Option<Version>) -> bool {
    match wish {
        Wish::Pin { version, .. } => desired == Some(version),
        Wish::Image { .. } => desired.is_some(),
        Wish::Newest | Wish::AgentVersion(_) | Wish::UserUrl => false,
    }
}

/// Whether a rollout is held before it began.
fn waits(status: &OneAgentStatus) -> bool {
    let state = status.rollout.as_ref().map(|rollout| rollout.state.as_str()).unwrap_or_default();
    let is_held = matches!(state, "Paused" | "Waiting" | "Stopped");
    is_held && status.nodes.as_ref().is_some_and(|nodes| nodes.updated == 0 && nodes.outdated > 0)
}

fn is_left_out(node: &Node) -> bool {
    node.labels.get(SKIP).is_some_and(|value| value != "false")
}

fn busy(node: &Node) -> String {
    node.busy.map_or_else(|| format!(": it has label {SKIP}"), |why| format!(": {why}"))
}

fn left_out(node: &Node) -> Option<String> {
    (node.busy.is_none() && is_left_out(node)).then(|| format!("kubectl label node {} {SKIP}-", node.name))
}

/// What the status of a OneAgent says.
#[must_use]
pub fn told(agent: &OneAgent) -> Told<'_> {
    let status = agent.status.as_ref();
    Told {
        metadata: &agent.metadata,
        resource: "oneagent",
        operator: MANAGER,
        pods: "agents",
        to: ("version", status.and_then(|status| status.desired_version.as_deref())),
        promoted: agent.spec.rollout.as_ref().and_then(|rollout| rollout.promote.as_deref()),
        status: status.map(|status| Status {
            observed: status.observed_generation,
            conditions: &status.conditions,
            rollout: status.rollout.as_ref(),
            nodes: status.nodes.as_ref(),
        }),
    }
}
