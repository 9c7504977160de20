//! Issue: makes authorities and certificates, and writes them.
//!
//! Never over an object that another client created or changed. Must not decide when one is made, nor say a key.

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use serde_json::json;

use super::authority::{Authorities, AuthorityPlan, Step, first};
use super::context::Cx;
use super::leaves::Issue;
use super::observe::Seen;
use super::store::{store, thaw};
use crate::kernel::{self};
use crate::pki::{Authority, Period};
use crate::stack::table::Table;

/// Writes what the authorities need. Returns what hinders it.
pub async fn authority(cx: &Cx<'_>, seen: &Seen, plan: &AuthorityPlan) -> Result<Option<String>, kernel::Error> {
    let namespace = &*seen.resolved.namespace;
    let another = || {
        let period = Period::of(seen.resolved.lifetimes.authority, cx.clock.now());
        Authority::make(&plan.name, period).map_err(kernel::Error::Unread)
    };
    let name = &*plan.name;
    if plan.is_made {
        let object = json!({ "apiVersion": "v1", "kind": "Secret", "data": first(&another()?),
            "metadata": { "name": name, "namespace": namespace, "labels": plan.labels } });
        if let Some(why) = store::<Secret>(cx, (namespace, name), &object, |all| &mut all.secrets).await? {
            return Ok(Some(why));
        }
        tracing::info!(namespace, name, "an authority for certificates is made");
    }
    if let Some((step, authorities)) = plan.step.zip(authorities(cx, namespace, name)) {
        let made = if step == Step::Prepare { Some(another()?) } else { None };
        let change = authorities.change(step, made.as_ref());
        store::<Secret>(cx, (namespace, name), &change, |all| &mut all.secrets).await?;
        let (signs, next) = (&*authorities.signs.certificate.id, authorities.next.map(|next| next.certificate.id));
        tracing::info!(namespace, name, ?step, signs, next, "the authority for certificates is renewed");
    }
    let Some(bundle) = &plan.bundle else { return Ok(None) };
    let name = bundle["metadata"]["name"].as_str().unwrap_or_default();
    if let Some(uid) = &plan.frozen {
        thaw::<ConfigMap>(cx, (namespace, name), uid).await?;
    }
    store::<ConfigMap>(cx, (namespace, name), bundle, |all| &mut all.config_maps).await
}

/// Issues certificates to a component's servers. Returns what hinders it.
pub async fn issue(cx: &Cx<'_>, seen: &Seen, issue: &Issue) -> Result<Option<String>, kernel::Error> {
    let (namespace, name) = (&*seen.resolved.namespace, &*issue.into.name);
    let signs = Table::own().certificates.as_ref().and_then(|of| authorities(cx, namespace, &of.authority));
    let Some(object) = signs.map(|all| issue.object(&all.signs)).transpose().map_err(kernel::Error::Unread)?.flatten()
    else {
        return Ok(None);
    };
    if let Some(uid) = &issue.frozen {
        thaw::<Secret>(cx, (namespace, name), uid).await?;
    }
    if let Some(why) = store::<Secret>(cx, (namespace, name), &object, |all| &mut all.secrets).await? {
        return Ok(Some(why));
    }
    let (count, until) = (issue.missing.len(), issue.issued.to.to_rfc3339());
    tracing::info!(namespace, name, count, until, "certificates issued");
    Ok(None)
}

fn authorities(cx: &Cx<'_>, namespace: &str, name: &str) -> Option<Authorities> {
    let all = cx.kind.fleet.read();
    all.secrets.get(namespace, name).and_then(|secret| Authorities::read(secret).ok())
}
