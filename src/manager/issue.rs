//! Issue: makes authorities and certificates, and writes them.
//!
//! Never over an object that somebody else made or changed. Must not decide when one is made, nor say a key.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::Api;
use serde_json::json;

use super::authority::{Authorities, AuthorityPlan, Step, first};
use super::context::Cx;
use super::leaves::Issue;
use super::observe::Seen;
use crate::kernel::apply::{create, merge};
use crate::kernel::{self};
use crate::pki::{Authority, Period};
use crate::stack::table::Table;

/// Writes what the authorities need. Returns what stands in its way.
pub async fn authority(cx: &Cx<'_>, seen: &Seen, plan: &AuthorityPlan) -> Result<Option<String>, kernel::Error> {
    let namespace = &*seen.resolved.namespace;
    let secrets: Api<Secret> = Api::namespaced(cx.client.clone(), namespace);
    let another = || {
        let period = Period::of(seen.resolved.lifetimes.authority, cx.clock.now());
        Authority::make(&plan.name, period).map_err(kernel::Error::Unread)
    };
    let name = &*plan.name;
    if plan.is_made {
        let object = json!({ "apiVersion": "v1", "kind": "Secret", "data": first(&another()?),
            "metadata": { "name": name, "namespace": namespace, "labels": plan.labels } });
        let Some(stored) = create(cx.manager, &secrets, &object).await? else {
            return Ok(Some(unlabelled("Secret", name, &plan.labels)));
        };
        tracing::info!(namespace, name, "an authority for certificates is made");
        cx.kind.fleet.with(|all| all.secrets.keep(stored));
    }
    if let Some((step, authorities)) = plan.step.zip(authorities(cx, namespace, name)) {
        let made = if step == Step::Prepare { Some(another()?) } else { None };
        let stored = merge(cx.manager, &secrets, name, &authorities.change(step, made.as_ref())).await?;
        let (signs, next) = (&*authorities.signs.certificate.id, authorities.next.map(|next| next.certificate.id));
        tracing::info!(namespace, name, ?step, signs, next, "the authority for certificates is renewed");
        cx.kind.fleet.with(|all| all.secrets.keep(stored));
    }
    let Some(bundle) = &plan.bundle else { return Ok(None) };
    let maps: Api<ConfigMap> = Api::namespaced(cx.client.clone(), namespace);
    let name = bundle.object["metadata"]["name"].as_str().unwrap_or_default();
    let stored = if bundle.is_there {
        merge(cx.manager, &maps, name, &bundle.object).await?
    } else {
        let Some(stored) = create(cx.manager, &maps, &bundle.object).await? else {
            return Ok(Some(unlabelled("ConfigMap", name, &plan.labels)));
        };
        stored
    };
    cx.kind.fleet.with(|all| all.config_maps.keep(stored));
    Ok(None)
}

/// Issues certificates to a component's servers. Returns what stands in its way.
pub async fn issue(cx: &Cx<'_>, seen: &Seen, issue: &Issue) -> Result<Option<String>, kernel::Error> {
    let (namespace, into) = (&*seen.resolved.namespace, &issue.into);
    let name = &*into.name;
    let signs = Table::own().certificates.as_ref().and_then(|of| authorities(cx, namespace, &of.authority));
    let Some(object) = signs.map(|all| issue.object(&all.signs)).transpose().map_err(kernel::Error::Unread)?.flatten()
    else {
        return Ok(None);
    };
    let api = Api::<Secret>::namespaced(cx.client.clone(), namespace);
    let stored = if issue.over.is_some() {
        merge(cx.manager, &api, name, &object).await?
    } else {
        let Some(stored) = create(cx.manager, &api, &object).await? else {
            return Ok(Some(unlabelled("Secret", name, &into.labels)));
        };
        stored
    };
    let (count, until) = (issue.missing.len(), issue.issued.to.to_rfc3339());
    tracing::info!(namespace, name, count, until, "certificates issued");
    cx.kind.fleet.with(|all| all.secrets.keep(stored));
    Ok(None)
}

fn authorities(cx: &Cx<'_>, namespace: &str, name: &str) -> Option<Authorities> {
    let all = cx.kind.fleet.read();
    all.secrets.get(namespace, name).and_then(|secret| Authorities::read(secret).ok())
}

/// What to do about an object that is there and in no watch of ours.
pub fn unlabelled(kind: &str, name: &str, labels: &BTreeMap<String, String>) -> String {
    let labels: Vec<String> = labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
    let (labels, of) = (labels.join(" "), kind.to_lowercase());
    format!(
        "{kind} {name} exists without its labels: to have it used, kubectl label {of} {name} {labels}; or delete it"
    )
}
