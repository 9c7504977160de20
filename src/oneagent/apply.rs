//! Apply: writes the objects of a plan, and says what the API server refuses of them.
//!
//! Writes only through `kernel`. Must not decide what an object is made of.

use std::sync::Arc;

use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::Api;
use serde_json::Value;

use super::MANAGER;
use super::build::{ISTIO, istio};
use super::context::{Cx, OneAgents};
use super::done::Done;
use super::from_cluster::bundle_name;
use super::observe::Observed;
use super::plan::Objects;
use super::resolve::Resolved;
use crate::api::oneagent::condition::Reason;
use crate::fleet::edited;
use crate::k8s::api_group::Wanted;
use crate::kernel::apply::{apply, is_as_desired, merge};
use crate::kernel::kind::Prepared;
use crate::kernel::set::Owner;
use crate::kernel::{self, operator::RESYNC};

/// What could not be applied.
#[derive(Debug)]
pub enum Failure {
    /// The pull secret, without which no Pod starts; its name.
    PullSecret(String, kernel::Error),
    /// The ConfigMap for the cluster's certificates; its name.
    Bundle(String, kernel::Error),
    /// Anything else.
    Other(kernel::Error),
}

impl From<kernel::Error> for Failure {
    fn from(error: kernel::Error) -> Self {
        Self::Other(error)
    }
}

impl Failure {
    /// What the API server refuses does not get better in silence: it is said. What it refuses for its content waits
    /// for another spec; the rest, a policy or a webhook, is tried again.
    pub fn refusal(self, cx: &Cx<'_>) -> Prepared<OneAgents> {
        let (namespace, agent) = cx.key;
        let (reason, message, error) = match self {
            Self::Other(error) => {
                if let Some(message) = error.refusal() {
                    let message = format!("the API server refuses what the spec asks for: {message}");
                    return Prepared::Refused { problem: Some((Reason::InvalidSpec, message)), then: Ok(RESYNC) };
                }
                let message = cx.state.complaint(&error).map(|why| {
                    format!(
                        "the API server refuses DaemonSet {namespace}/{agent}: {why}; fix the policy, webhook or right \
                        that refuses it; it is tried again"
                    )
                });
                (Reason::WriteRefused, message, error)
            }
            Self::Bundle(name, error) => {
                let message = error.objection().map(|why| {
                    format!(
                        "ConfigMap {namespace}/{name} for the cluster's certificates cannot be made: {why}; fix what \
                        refuses it, or set spec.openshift.clusterCAs to false"
                    )
                });
                (Reason::TrustedCAsMissing, message, error)
            }
            // Whatever refuses it may not be watched.
            Self::PullSecret(name, error) => {
                let message = error.objection().map(|why| {
                    format!(
                        "Secret {namespace}/{name} cannot be written: {why}; delete it or fix what refuses it, or name \
                        a Secret of yours in spec.customPullSecret"
                    )
                });
                (Reason::PullSecretInvalid, message, error)
            }
        };
        Prepared::Refused { problem: message.map(|message| (reason, message)), then: Err(error) }
    }
}

/// Applies every planned object. Taken apart without `..`: an object that is never applied does not compile.
pub async fn apply_objects(
    cx: &Cx<'_>,
    resolved: &Resolved,
    seen: &Observed,
    planned: &Objects,
) -> Result<Done, Failure> {
    let Objects { pull_secret, daemonset, istio, bundle } = planned;
    if let Some(bundle) = &bundle {
        let api: Api<ConfigMap> = Api::namespaced(cx.client.clone(), &resolved.namespace);
        let written = apply(MANAGER, &api, bundle, None).await;
        written.map_err(|error| Failure::Bundle(bundle_name(&resolved.name), error))?;
        cx.kind.metrics.applied();
        tracing::info!(
            namespace = resolved.namespace,
            name = resolved.name,
            "the cluster's certificates are asked for"
        );
    }
    // First: Pods pull with it.
    if let Some(secret) = &pull_secret {
        let api: Api<Secret> = Api::namespaced(cx.client.clone(), &resolved.namespace);
        let written = if secret.is_there {
            merge(MANAGER, &api, &secret.name, &secret.change()).await.map(drop)
        } else {
            apply(MANAGER, &api, &secret.object(&resolved.namespace), None).await.map(drop)
        };
        written.map_err(|error| Failure::PullSecret(secret.name.clone(), error))?;
        cx.kind.metrics.applied();
        tracing::info!(
            namespace = resolved.namespace,
            name = resolved.name,
            secret = secret.name,
            "pull secret applied"
        );
    }
    let stored = match &daemonset {
        Some(desired) => apply_daemonset(cx, resolved, seen, desired).await?,
        None => None,
    };
    let istio = match &istio {
        Some(istio) => converge(cx, resolved, istio).await,
        None => None,
    };
    let replaced = |stored: &Arc<DaemonSet>| {
        seen.daemonset.as_ref().is_some_and(|live| edited::generation(live) != edited::generation(stored))
    };
    Ok(Done { istio, template_replaced: stored.as_ref().is_some_and(replaced) })
}

/// Makes Istio's objects what they should be. Nothing waits for them; returns why they are not, if they are desired.
async fn converge(cx: &Cx<'_>, resolved: &Resolved, wanted: &Wanted) -> Option<String> {
    let owner =
        Owner { uid: &resolved.uid, namespace: &resolved.namespace, selector: &istio::selector(&resolved.name) };
    match cx.kind.optional_apis.converge(&cx.client, &ISTIO, owner, wanted).await {
        Ok(0) => None,
        Ok(writes) => {
            tracing::info!(namespace = resolved.namespace, name = resolved.name, writes, "Istio's objects changed");
            None
        }
        Err(trouble) => Some(trouble).filter(|_| resolved.istio),
    }
}

/// Applies the DaemonSet. Returns it as stored, `None` when nothing was written.
async fn apply_daemonset(
    cx: &Cx<'_>,
    resolved: &Resolved,
    seen: &Observed,
    desired: &Value,
) -> Result<Option<Arc<DaemonSet>>, kernel::Error> {
    let api: Api<DaemonSet> = Api::namespaced(cx.client.clone(), &resolved.namespace);
    let written = cx.state.own.belief.apply(MANAGER, &api, desired, seen.daemonset.as_deref()).await?;
    let Some(stored) = written else { return Ok(None) };
    cx.kind.metrics.applied();
    tracing::info!(namespace = resolved.namespace, name = resolved.name, "DaemonSet applied");
    let stored = Arc::new(stored);
    cx.kind.fleet.wrote(cx.key, stored.clone());
    Ok(Some(stored))
}

/// Whether the DaemonSet that is there will be written.
pub fn writes_over(seen: &Observed, planned: &Objects) -> Result<bool, kernel::Error> {
    let (Some(wanted), Some(live)) = (&planned.daemonset, &seen.daemonset) else { return Ok(false) };
    Ok(!is_as_desired(MANAGER, wanted, &**live)?)
}
