//! What OpenShift says of the cluster as a whole: whether it is one, its proxy, its update, its default node selector.
//!
//! Must not decide. On another cluster nothing of it is there, which is an answer.

use std::sync::Arc;

use super::super::context::Cx;
use super::super::resolve::Resolved;
use super::references::Named;
use crate::k8s::api_group::Served;
use crate::k8s::node_selector::{Selector, of_scheduler};
use crate::k8s::singleton::Singleton;
use crate::kernel::{self, Answer, NodeSelectors};
use crate::openshift::cluster::{BUNDLE, INJECT, OPENSHIFT, PROXY, SCHEDULER, VERSION, is_updating};
use crate::openshift::proxy::ClusterProxy;

/// What it says.
#[derive(Debug, Default)]
pub struct OpenShift {
    /// Whether the cluster is one; `None`: not asked, or not answered.
    pub is_one: Option<bool>,
    /// Its proxy, when the spec wants it.
    pub proxy: Answer,
    /// Its version, when the spec wants it.
    pub version: Answer,
}

impl OpenShift {
    /// The cluster's proxy.
    #[must_use]
    pub fn cluster_proxy(&self) -> Option<ClusterProxy> {
        let Answer::There(proxy) = &self.proxy else { return None };
        ClusterProxy::of(proxy)
    }

    /// Whether the cluster is being updated; `None`: unknown.
    #[must_use]
    pub fn is_updating(&self) -> Option<bool> {
        match &self.version {
            Answer::There(version) => Some(is_updating(version)),
            Answer::Absent => Some(false),
            Answer::Unasked | Answer::Refused(_) | Answer::Unread(_) => None,
        }
    }
}

/// Asks what the spec wants. Whether it is OpenShift at all is asked for before there are Pods: those tell it.
pub(super) async fn openshift(cx: &Cx<'_>, resolved: &Resolved, has_pods: bool) -> OpenShift {
    let wanted = async |wants: bool, one: &Singleton| {
        if wants { cx.kind.singletons.lookup(&cx.client, one).await } else { Answer::Unasked }
    };
    OpenShift {
        is_one: if has_pods { None } else { is_openshift(cx).await.ok() },
        proxy: wanted(resolved.cluster.proxy, &PROXY).await,
        version: wanted(resolved.cluster.pauses, &VERSION).await,
    }
}

/// Whether the cluster is OpenShift.
pub(super) async fn is_openshift(cx: &Cx<'_>) -> Result<bool, kernel::Error> {
    let served = cx.kind.optional_apis.served(&cx.client, &OPENSHIFT).await?;
    Ok(served != Served::Absent)
}

/// The proxy that the operator itself uses with agents that take the cluster's.
pub(super) fn proxy(resolved: &Resolved, openshift: &OpenShift) -> Option<Named> {
    if !resolved.cluster.proxy {
        return None;
    }
    match &openshift.proxy {
        Answer::There(_) => openshift.cluster_proxy().map(|proxy| Named::There(proxy.url.into(), String::new())),
        Answer::Absent => Some(Named::Unusable(
            "spec.openshift.clusterProxy: this cluster has no Proxy cluster (config.openshift.io), which is \
            OpenShift's: set it to false, and name a proxy in spec.proxy if one is needed"
                .to_owned(),
        )),
        Answer::Refused(why) | Answer::Unread(why) => Some(Named::Unread(format!(
            "spec.openshift.clusterProxy: Proxy cluster (config.openshift.io) cannot be read: {why}; grant the \
            operator get of it, or name the proxy in spec.proxy"
        ))),
        Answer::Unasked => None,
    }
}

/// What is said where the ConfigMap for the cluster's certificates has none yet.
pub(super) fn no_certificates(namespace: &str, name: &str) -> Named {
    Named::Unusable(format!(
        "ConfigMap {namespace}/{name} has no key {BUNDLE} yet: OpenShift puts the certificates there that the cluster \
        trusts, if it has label {INJECT}: \"true\" (add it, or delete the ConfigMap, and it is created again); \
        on other clusters set spec.openshift.clusterCAs to false"
    ))
}

/// The namespace's own node selector, or the cluster's default one where the namespace says nothing.
pub(super) async fn selector(cx: &Cx<'_>, namespace: &str) -> Result<Arc<Selector>, kernel::Error> {
    if let Some(fresh) = cx.kind.node_selectors.fresh(namespace) {
        return Ok(fresh);
    }
    let mut found = NodeSelectors::read(&cx.client, namespace).await?;
    if found.is_default && is_openshift(cx).await? {
        match cx.kind.singletons.lookup(&cx.client, &SCHEDULER).await {
            Answer::There(scheduler) => found = of_scheduler(&scheduler),
            Answer::Absent | Answer::Refused(_) | Answer::Unasked => {}
            // Agents that a default one excludes do not come back: not knowing is no answer.
            Answer::Unread(why) => return Err(kernel::Error::Unread(format!("Scheduler cluster: {why}"))),
        }
    }
    Ok(cx.kind.node_selectors.note(namespace, found))
}
