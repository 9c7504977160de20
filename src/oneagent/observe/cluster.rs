//! What no watch shows, asked of the API server when it is needed: the original operator, the namespace's node
//! selector, why Pods are refused.
//!
//! Must not decide.

use std::sync::Arc;

use k8s_openapi::api::apps::v1::DaemonSet;
use kube::ResourceExt;
use kube::api::Api;

use super::super::context::Cx;
use super::super::resolve::Resolved;
use super::super::revision::Pod;
use super::{Observed, openshift};
use crate::fleet::kept_out::is_ignored;
use crate::k8s::node::Node;
use crate::k8s::node_selector::Selector;
use crate::kernel::{self, call};

/// The original operator: its Deployment, and its name as a field manager.
pub(super) const ORIGINAL: &str = "dynatrace-oneagent-operator";

/// Whether another client has written an object since we took it over.
pub(super) fn wrote(daemonset: &DaemonSet, manager: &str) -> bool {
    daemonset
        .managed_fields()
        .iter()
        .any(|entry| entry.manager.as_deref() == Some(manager) && entry.subresource.is_none())
}

pub(super) async fn original_runs(cx: &Cx<'_>, namespace: &str) -> Result<bool, kernel::Error> {
    const NAME: &str = ORIGINAL;
    let api: Api<k8s_openapi::api::apps::v1::Deployment> = Api::namespaced(cx.client.clone(), namespace);
    let found = call(|| format!("read Deployment {NAME}"), api.get_opt(NAME)).await?;
    Ok(found.is_some_and(|d| d.spec.and_then(|s| s.replicas).unwrap_or(1) > 0))
}

pub(super) async fn cluster_id(cx: &Cx<'_>) -> Result<String, kernel::Error> {
    let api: Api<k8s_openapi::api::core::v1::Namespace> = Api::all(cx.client.clone());
    let read = || async {
        let namespace = call(|| "read Namespace kube-system".to_owned(), api.get("kube-system")).await?;
        Ok::<_, kernel::Error>(namespace.uid().unwrap_or_default())
    };
    cx.kind.cluster_id.get_or_try_init(read).await.cloned()
}

/// What the namespace itself wants of nodes: read where agents lack, and before anything is changed. What cannot be
/// read is as it was.
pub(super) async fn namespace_selector(cx: &Cx<'_>, resolved: &Resolved, lacking: bool) -> Arc<Selector> {
    let known = cx.kind.node_selectors.known(&resolved.namespace);
    let excludes = known.as_ref().is_some_and(|selector| !selector.labels.is_empty());
    if excludes || lacking {
        return openshift::selector(cx, &resolved.namespace).await.ok().or(known).unwrap_or_default();
    }
    known.unwrap_or_default()
}

/// Whether the namespace's node selector is another than that which a plan was made with: looked at before a Pod is
/// replaced or the DaemonSet written, for a successor that may not come back, and agents that a write removes, are
/// lost.
pub async fn selector_changed(cx: &Cx<'_>, resolved: &Resolved, seen: &Observed) -> Result<bool, kernel::Error> {
    let now = openshift::selector(cx, &resolved.namespace).await?;
    Ok(now.labels != seen.namespace_selector)
}

/// Whether new Pods are held to the namespace's node selector: an agent that came to a node outside of it since it was
/// written shows that it is not, and OpenShift's means nothing elsewhere.
pub(super) async fn is_enforced(cx: &Cx<'_>, selector: &Selector, nodes: &[Arc<Node>], pods: &[Arc<Pod>]) -> bool {
    if selector.labels.is_empty() {
        return false;
    }
    if selector.is_openshifts && matches!(openshift::is_openshift(cx).await, Ok(false)) {
        return false;
    }
    !is_ignored(selector, nodes, pods)
}
