//! What agents take from the cluster: which of it is put on the template, what holds a rollout because of it, and what
//! a user should know.
//!
//! Pure. Must not take a fact for one that is unknown: then what was recorded stays.

use super::super::from_cluster::{FromCluster, bundle, bundle_name};
use super::super::hold::{CLUSTER_UPDATE, CLUSTER_UPDATE_UNKNOWN};
use super::super::observe::{Named, Observed};
use super::super::resolve::Resolved;
use crate::fleet::refusal::is_by_scc;
use crate::kernel::Answer;
use crate::openshift::cluster::REQUIRED_SCC;
use crate::rollout::Hold;

/// The SCC that the bundle grants to the agents' ServiceAccounts.
const PRIVILEGED: &str = "privileged";
/// The ServiceAccount of privileged agents, where the spec names none.
const ACCOUNT: &str = "dynatrace-oneagent";

/// What is put on the template.
pub(super) fn from_cluster(resolved: &Resolved, seen: &Observed, recorded: Option<&FromCluster>) -> FromCluster {
    let proxy = match &seen.openshift.proxy {
        Answer::There(_) => seen.openshift.cluster_proxy(),
        Answer::Refused(_) | Answer::Unread(_) if resolved.cluster.proxy => {
            recorded.and_then(|recorded| recorded.proxy.clone())
        }
        Answer::Absent | Answer::Refused(_) | Answer::Unread(_) | Answer::Unasked => None,
    };
    FromCluster {
        scc: scc(resolved, seen, recorded),
        proxy,
        certificates: resolved.cluster.certificates.then(|| bundle_name(&resolved.name)),
    }
}

/// The SCC that Pods ask for, so that no other takes them. Only for the account that the bundle grants it to, and never
/// against another that an administrator made for it: agents that run under another, or are refused by an SCC with
/// this, show it.
fn scc(resolved: &Resolved, seen: &Observed, recorded: Option<&FromCluster>) -> Option<String> {
    if resolved.pod.unprivileged || resolved.pod.service_account != ACCOUNT {
        return None;
    }
    let asks = if seen.pods.is_empty() {
        match seen.openshift.is_one {
            Some(is_one) => is_one,
            None => return recorded.and_then(|recorded| recorded.scc.clone()),
        }
    } else {
        !seen.admissions.sccs.is_empty() && seen.admissions.sccs.keys().all(|scc| scc == PRIVILEGED)
    };
    insisted(asks, seen.refused.as_deref(), recorded)
}

/// What is asked for while Pods are refused: an SCC that refuses them may be the one that is asked for. Whatever else
/// refuses them, or where that is unknown, what was asked for stays: the SCC may refuse other nodes' Pods.
fn insisted(asks: bool, refused: Option<&str>, recorded: Option<&FromCluster>) -> Option<String> {
    let wanted = || asks.then(|| PRIVILEGED.to_owned());
    match (refused.map(is_by_scc), recorded) {
        (None, _) | (Some(Some(false)), None) => wanted(),
        (Some(Some(true)), _) | (Some(None), None) => None,
        (Some(_), Some(recorded)) => recorded.scc.clone(),
    }
}

/// The ConfigMap to make, into which OpenShift puts the cluster's certificates. It may be made although these are all
/// that is waited for.
pub(super) fn missing_bundle(resolved: &Resolved, seen: &Observed, is_blocked: bool) -> Option<serde_json::Value> {
    let waits_for_it = !seen.other_operator && matches!(seen.trusted, Some(Named::Unusable(_)));
    (seen.bundle_is_missing && (!is_blocked || waits_for_it))
        .then(|| bundle(&resolved.namespace, &resolved.name, &resolved.owner))
}

/// Whether the cluster's own update holds the rollout.
pub(super) fn cluster_update(resolved: &Resolved, seen: &Observed) -> Option<Hold> {
    if !resolved.cluster.pauses {
        return None;
    }
    match seen.openshift.is_updating() {
        Some(true) => Some(CLUSTER_UPDATE),
        Some(false) => None,
        None => Some(CLUSTER_UPDATE_UNKNOWN),
    }
}

/// What admission made of agents that a user should know.
pub(super) fn remarks(resolved: &Resolved, seen: &Observed) -> Vec<String> {
    let mut remarks = Vec::new();
    let is_ours = resolved.pod.service_account == ACCOUNT && !resolved.pod.unprivileged;
    let asks_for_another = resolved.pod.annotations.contains_key(REQUIRED_SCC);
    let foreign = seen.admissions.sccs.iter().find(|(scc, _)| is_ours && !asks_for_another && *scc != PRIVILEGED);
    if let Some((scc, count)) = foreign {
        remarks.push(format!(
            "{count} agents were admitted under SecurityContextConstraints {scc} instead of {PRIVILEGED}, which may \
            change them; to have all replaced and made under {PRIVILEGED}, run oc -n {} adm policy add-scc-to-user \
            {PRIVILEGED} -z {ACCOUNT}, and set spec.annotations to {REQUIRED_SCC}: {PRIVILEGED}",
            resolved.namespace
        ));
    }
    if let Some((text, count)) = seen.admissions.limits.iter().next() {
        remarks.push(format!(
            "a LimitRange of namespace {} changed {count} agents ({text}): an agent that reaches such a limit is \
            ended; set spec.resources, or exempt the namespace",
            resolved.namespace
        ));
    }
    if let Answer::Refused(why) | Answer::Unread(why) = &seen.openshift.version {
        remarks.push(format!("ClusterVersion version (config.openshift.io) cannot be read: {why}"));
    }
    remarks
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fleet::refusal::UNREAD;

    #[test]
    fn an_scc_that_may_refuse_the_pods_is_not_requested_any_more() {
        let (ours, none) = (PRIVILEGED.to_owned(), None);
        let asked = FromCluster { scc: Some(ours.clone()), ..FromCluster::default() };
        let unasked = FromCluster::default();
        let by_scc = "pods \"a-\" is forbidden: required scc/privileged not found";
        let by_quota = "pods \"a-\" is forbidden: exceeded quota: none";
        assert_eq!(insisted(true, None, none), Some(ours.clone()));
        assert_eq!(insisted(true, Some(by_quota), none), Some(ours.clone()));
        assert_eq!(insisted(true, Some(by_scc), Some(&asked)), None);
        // Of two refusals the newest is known, now one and then the other.
        assert_eq!(insisted(true, Some(by_quota), Some(&unasked)), None);
        assert_eq!(insisted(true, Some(by_quota), Some(&asked)), Some(ours.clone()));
        assert_eq!(insisted(true, Some(UNREAD), Some(&asked)), Some(ours.clone()));
        assert_eq!(insisted(true, Some(UNREAD), none), None);
        assert_eq!(insisted(false, None, Some(&asked)), None);
    }
}
