//! Enrol: writes what identifies a store, before its servers are created and when they become others.
//!
//! Never over a Secret that somebody else made or changed. Must not decide which servers there are, nor say a secret.

use k8s_openapi::api::core::v1::Secret;
use kube::api::Api;

use super::context::Cx;
use super::identity::Enrol;
use super::issue::unlabelled;
use super::observe::Seen;
use crate::k8s::hex::hex;
use crate::kernel::apply::{create, merge};
use crate::kernel::{self};

/// A secret has so many bytes: more than anybody can try.
const BYTES: usize = 16;

/// Writes it. Returns what stands in its way.
pub async fn enrol(cx: &Cx<'_>, seen: &Seen, enrol: &Enrol) -> Result<Option<String>, kernel::Error> {
    let (namespace, name) = (&*seen.resolved.namespace, &*enrol.name);
    let api: Api<Secret> = Api::namespaced(cx.client.clone(), namespace);
    let stored = if enrol.over.is_some() {
        merge(cx.manager, &api, name, &enrol.change()).await?
    } else {
        let secrets = enrol.secrets.iter().map(|key| Ok((key.clone(), random()?)));
        let secrets = secrets.collect::<Result<_, kernel::Error>>()?;
        let Some(stored) = create(cx.manager, &api, &enrol.object(namespace, secrets)).await? else {
            return Ok(Some(unlabelled("Secret", name, &enrol.labels)));
        };
        stored
    };
    let servers = enrol.members.to_string().trim_end().replace('\n', ", ");
    tracing::info!(namespace, name, servers, "servers of a store written down");
    cx.kind.fleet.with(|all| all.secrets.keep(stored));
    Ok(None)
}

/// A secret that nobody knows yet.
fn random() -> Result<String, kernel::Error> {
    let mut bytes = [0; BYTES];
    getrandom::fill(&mut bytes).map_err(|why| kernel::Error::Unread(format!("random numbers: {why}")))?;
    Ok(hex(&bytes))
}
