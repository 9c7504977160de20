//! Findings: what `explain` says of an object, or of a node, and what helps.
//!
//! Pure, for any kind that replaces the Pods of nodes. Must not judge anything: it words what was judged.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::sync::Arc;

use kube::api::ObjectMeta;
use serde::Serialize;

use crate::api::condition::{Condition, has};
use crate::api::rollout::{NodeCounts, RolloutStatus, WithoutAgent};
use crate::k8s::node::{Node, Taint};
use crate::rollout::{Bucket, Cause, Look, Order, Pod, Report, Standing, Start, WaitingOn, Words};

/// One finding.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The object that it is about.
    pub who: String,
    pub what: String,
    /// The command, or the change, that helps or tells more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
    pub kind: Kind,
}

/// What a finding asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Kind {
    /// It has nothing to do with the node that was asked for.
    Unrelated,
    /// All is well, or resolves without action.
    Well,
    /// A person must act.
    Act,
}

/// What an object's status says of it, in the words of its kind.
#[derive(Debug, Clone, Copy)]
pub struct Told<'a> {
    pub metadata: &'a ObjectMeta,
    /// Its resource, as kubectl takes it.
    pub resource: &'static str,
    /// The operator's name.
    pub operator: &'static str,
    /// What its Pods are called.
    pub pods: &'static str,
    /// What its Pods are to become, with the word for it.
    pub to: (&'static str, Option<&'a str>),
    /// What its `rollout.promote` names.
    pub promoted: Option<&'a str>,
    pub status: Option<Status<'a>>,
}

/// What every kind's status has.
#[derive(Debug, Clone, Copy)]
pub struct Status<'a> {
    /// The generation that it was made from.
    pub observed: Option<i64>,
    pub conditions: &'a [Condition],
    pub rollout: Option<&'a RolloutStatus>,
    pub nodes: Option<&'a NodeCounts>,
}

impl Status<'_> {
    fn condition(&self, type_: &str, status: &str) -> Option<&Condition> {
        self.conditions.iter().find(|condition| condition.type_ == type_ && condition.status == status)
    }
}

impl Told<'_> {
    fn who(&self) -> String {
        who(self.metadata)
    }

    /// What its status says: the conclusion, the evidence and the command, in at most five lines.
    #[must_use]
    pub fn findings(&self) -> Vec<Finding> {
        let namespace = self.metadata.namespace.as_deref().unwrap_or_default();
        let mut findings = vec![self.conclusion()];
        let Some(status) = &self.status else { return findings };
        let mut said: Vec<&str> = Vec::new();
        let degraded = status.condition("Degraded", "True");
        let ready = status.condition("Ready", "False");
        let waits = status.rollout.iter().flat_map(|rollout| &rollout.waiting_on).take(2).map(String::as_str);
        let evidence = degraded.into_iter().chain(ready).map(|condition| condition.message.as_str()).chain(waits);
        for text in evidence {
            // One sentence may be part of another.
            let is_known = |known: &&str| known.contains(text) || text.contains(known) || repeats(text, known);
            if said.len() < 3 && !said.iter().any(is_known) {
                said.push(text);
            }
        }
        let kind = findings[0].kind;
        let finding = |text: &str| Finding { who: self.who(), what: text.to_owned(), remedy: None, kind };
        findings.extend(said.into_iter().map(finding));
        let name = self.metadata.name.as_deref().unwrap_or_default();
        let describe = || format!("kubectl -n {namespace} describe {} {name}", self.resource);
        let promote = self.promotion().map(|[promote, _]| promote);
        if let Some(last) = findings.last_mut() {
            last.remedy = if kind == Kind::Act { Some(describe()) } else { promote };
        }
        findings
    }

    /// The commands by which a person says what follows the canaries, while that is awaited.
    #[must_use]
    pub fn promotion(&self) -> Option<[String; 2]> {
        let status = self.status.filter(|status| status.observed == self.metadata.generation)?;
        let is_awaited = has(status.conditions, "Progressing", "AwaitingPromotion");
        let (name, namespace) = (self.metadata.name.as_deref()?, self.metadata.namespace.as_deref()?);
        let revision = self.to.1.filter(|_| is_awaited)?;
        Some(promotion(self.resource, (namespace, name), revision, self.promoted))
    }

    /// How it is, in a line.
    #[must_use]
    pub fn conclusion(&self) -> Finding {
        let finding = |kind, what: String, remedy: Option<String>| Finding { who: self.who(), what, remedy, kind };
        let namespace = self.metadata.namespace.as_deref().unwrap_or_default();
        let Some(status) = &self.status else {
            let what = format!("no operator has looked at it yet: is there one that watches namespace {namespace}?");
            let remedy = format!(
                "kubectl get deployments -A -l app.kubernetes.io/name={} -o yaml | grep -A1 WATCH_NAMESPACE",
                self.operator
            );
            return finding(Kind::Act, what, Some(remedy));
        };
        if status.observed != self.metadata.generation {
            let what = "the operator has not observed its last edit yet".to_owned();
            return finding(Kind::Well, what, None);
        }
        let degraded = status.condition("Degraded", "True");
        let rollout = status.rollout.cloned().unwrap_or_default();
        let counts = status.nodes.cloned().unwrap_or_default();
        let (pods, (word, to)) = (self.pods, self.to);
        let from = rollout.from.as_ref().filter(|_| rollout.state == "Rolling").map(|from| format!(" from {from}"));
        let from = from.unwrap_or_default();
        let to = to.map(|to| format!(" ({word} {to}{from})")).unwrap_or_default();
        let finish = rollout.expected_finish.as_ref().map(|at| format!(", finishes about {at}")).unwrap_or_default();
        let reason = degraded.map(|degraded| format!(" ({})", degraded.reason)).unwrap_or_default();
        let state = if rollout.state.is_empty() { "Unknown" } else { &rollout.state };
        let surplus = match counts.surplus {
            0 => String::new(),
            count => format!(" and on {count} where no new one may start"),
        };
        let what = format!(
            "{state}{reason}: desired {pods}{to} on {} nodes, available {pods} on {}/{} nodes{surplus}{finish}",
            counts.progress, counts.running, counts.selected,
        );
        finding(if degraded.is_some() { Kind::Act } else { Kind::Well }, what, None)
    }
}

/// An object's namespace and name.
#[must_use]
pub fn who(metadata: &ObjectMeta) -> String {
    format!("{}/{}", metadata.namespace.as_deref().unwrap_or_default(), metadata.name.as_deref().unwrap_or_default())
}

/// The causes, each with the names of its nodes.
pub fn by_cause<'n, C: PartialEq>(nodes: impl IntoIterator<Item = &'n (String, C)>) -> Vec<(&'n C, Vec<&'n str>)> {
    let mut causes: Vec<(&C, Vec<&str>)> = Vec::new();
    for (node, why) in nodes {
        match causes.iter_mut().find(|(known, _)| *known == why) {
            Some((_, nodes)) => nodes.push(node),
            None => causes.push((why, vec![node])),
        }
    }
    causes
}

/// Nodes with their causes, each cause once.
#[must_use]
pub fn pairs<C: PartialEq + Display>(nodes: &[(String, C)]) -> String {
    let causes = by_cause(nodes).into_iter();
    causes.map(|(why, nodes)| format!("{} ({why})", nodes.join(", "))).collect::<Vec<_>>().join(", ")
}

/// The first of several that was said, and how many more there are.
#[must_use]
pub fn first_of(said: &[String]) -> Option<String> {
    let (first, others) = said.split_first()?;
    let more = if others.is_empty() { String::new() } else { format!(" (and {} more)", others.len()) };
    Some(format!("{first}{more}"))
}

/// Whether a text about nodes names a cause that was said before.
#[must_use]
pub fn repeats(text: &str, before: &str) -> bool {
    let of_nodes = text.strip_prefix("node ").or_else(|| text.strip_prefix("nodes "));
    let named = of_nodes.and_then(|rest| rest.split_once(": "));
    let last = || text.strip_suffix(')').and_then(|text| text.rsplit_once(" ("));
    named.or_else(last).is_some_and(|(_, cause)| before.contains(cause))
}

/// Why a node has no available Pod. What the kubelet said of a Pod that is gone, only the operator saw: that is known
/// from the status.
#[must_use]
pub fn reason(cause: &Cause, known: Option<&WithoutAgent>) -> String {
    let is_vague = matches!(cause.bucket(), Bucket::Starting | Bucket::Overdue);
    known.filter(|_| is_vague).map_or_else(|| cause.to_string(), |known| known.reason.clone())
}

/// How far the rollout is, and what it waits for, unless that names the `cause` that was said already.
#[must_use]
pub fn progress(rollout: Option<&RolloutStatus>, cause: &str) -> String {
    let Some(rollout) = rollout.filter(|rollout| !rollout.state.is_empty() && rollout.state != "Complete") else {
        return String::new();
    };
    let waits = rollout.waiting_on.first().filter(|waits| cause.is_empty() || !waits.contains(cause));
    let waits = waits.map(|waits| format!(", {waits}")).unwrap_or_default();
    format!(" (rollout: {}{waits})", rollout.state)
}

/// How a node differs from a node selector, if it does; `of`: where that is.
#[must_use]
pub fn unlike<'s>(
    selector: impl IntoIterator<Item = (&'s String, &'s String)>,
    node: &Node,
    of: &str,
) -> Option<String> {
    let (key, value) = selector.into_iter().find(|(key, value)| node.labels.get(*key) != Some(value))?;
    let has = node.labels.get(key).map_or("without that label".to_owned(), |has| format!("{key}={has}"));
    Some(format!("{of} wants {key}={value}, and the node is {has}"))
}

/// What is wrong with a selector of canaries that no node matches.
#[must_use]
pub fn no_canary(selector: &BTreeMap<String, String>, report: &Report) -> Option<String> {
    let labels: Vec<String> = selector.iter().map(|(key, value)| format!("{key}={value}")).collect();
    let node = report.lacks_canaries.as_ref()?;
    Some(format!(
        "spec.rollout.canary.selector is {}, and none of the {} nodes has these labels: a change reaches no node until \
        one does; label nodes, such as: kubectl label node {node} {}; or correct the selector",
        labels.join(","),
        report.selected,
        labels.join(" ")
    ))
}

/// The commands that let others follow the canaries, and that reject what these run. Where the field names that
/// already, it does so since an earlier rollout: first it must be removed.
#[must_use]
pub fn promotion(
    resource: &str,
    (namespace, name): (&str, &str),
    revision: &str,
    promoted: Option<&str>,
) -> [String; 2] {
    let quoted = format!("\"{revision}\"");
    let promoted = if promoted == Some(revision) { "null" } else { &quoted };
    [("promote", promoted), ("reject", &quoted)].map(|(field, value)| {
        format!(
            "kubectl -n {namespace} patch {resource} {name} --type=merge -p \
            '{{\"spec\":{{\"rollout\":{{\"{field}\":{value}}}}}}}'"
        )
    })
}

/// What waits for a person, if the canaries have soaked and it does, with both commands.
#[must_use]
pub fn awaited(
    waiting_on: &[WaitingOn],
    words: &Words,
    resource: &str,
    object: (&str, &str),
    revision: &str,
    promoted: Option<&str>,
) -> Option<String> {
    let waits = waiting_on.iter().find(|waits| matches!(waits, WaitingOn::Promotion(_)))?;
    let [promote, reject] = promotion(resource, object, revision, promoted);
    let why = if promoted == Some(revision) {
        "; rollout.promote has named it since an earlier rollout: remove the field, then this message says how to \
        promote what the canaries run now"
    } else {
        ""
    };
    Some(format!("{}{why}: {promote}; or: {reject}", waits.said(words)))
}

/// When the turn of a node comes whose Pod is to be replaced: with one zone after the other, of the zone whose turn it
/// is.
#[must_use]
pub fn turn(looks: &[Look], order: Order, node: &str) -> String {
    let is_left = |look: &&Look| look.standing == Some(Standing::Outdated);
    let rank = |look: &Look| (look.zone.is_none(), look.zone.clone());
    let first = looks.iter().filter(is_left).map(rank).min().filter(|_| order == Order::ByZone);
    let there: Vec<&Look> =
        looks.iter().filter(|look| first.as_ref().is_none_or(|first| rank(look) == *first)).collect();
    let left = format!("{} of {} nodes are left", there.iter().copied().filter(is_left).count(), there.len());
    match first {
        Some((_, Some(zone))) if !there.iter().any(|look| &*look.name == node) => {
            format!("its turn comes after zone {zone}, where {left}")
        }
        _ => format!("its turn comes: {left}"),
    }
}

/// The command that removes a taint.
#[must_use]
pub fn untaint(node: &Node, taint: &Taint) -> String {
    format!("kubectl taint node {} {}:{}-", node.name, taint.key, taint.effect)
}

/// The command that tells more of what a node's Pod lacks, or helps; `set`: namespace and name of the DaemonSet,
/// `skip`: what takes back that the node is left out.
#[must_use]
pub fn remedy<R>(
    cause: &Cause,
    (namespace, set): (&str, &str),
    (node, pod): (&Node, Option<&Arc<Pod<R>>>),
    skip: Option<String>,
) -> String {
    let of_node = || format!("kubectl describe node {}", node.name);
    let of_pod = |verb: &str, more: &str| match pod {
        Some(pod) => format!("kubectl -n {namespace} {verb} {}{more}", pod.name),
        None => format!("kubectl -n {namespace} describe daemonset {set}"),
    };
    match cause.bucket() {
        Bucket::NodeNotReady | Bucket::NodeLost => of_node(),
        Bucket::NodeBusy => skip.unwrap_or_else(of_node),
        Bucket::Crash => of_pod("logs", " --previous"),
        // It runs, and says itself why it is not Ready.
        Bucket::Overdue if matches!(cause, Cause::Overdue(Start::NotReady(..) | Start::Ceased(..))) => {
            of_pod("logs", "")
        }
        // A Pod keeps the node selector that its namespace had when it was made.
        Bucket::Capacity if cause.to_string().contains("node affinity/selector") => of_pod(
            "delete pod",
            "   # if it still carries a node selector that its namespace has no more: it never ran",
        ),
        _ => of_pod("describe pod", ""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_turn_of_a_node_comes_after_the_zones_before_its_own() {
        let look = |name: &str, zone: Option<&str>, standing| Look {
            name: name.into(),
            zone: zone.map(str::to_owned),
            standing: Some(standing),
            cause: None,
        };
        let (new, old) = (Standing::Current, Standing::Outdated);
        let looks =
            [look("n0", None, old), look("n1", Some("a"), old), look("n2", Some("a"), new), look("n3", Some("b"), old)];
        let by_zone = |node: &str| turn(&looks, Order::ByZone, node);
        assert_eq!(by_zone("n1"), "its turn comes: 1 of 2 nodes are left");
        assert_eq!(by_zone("n3"), "its turn comes after zone a, where 1 of 2 nodes are left");
        assert_eq!(by_zone("n0"), "its turn comes after zone a, where 1 of 2 nodes are left");
        assert_eq!(turn(&looks, Order::Spread, "n3"), "its turn comes: 3 of 4 nodes are left");
    }
}
