//! Enrol: writes what identifies a component, before its servers are created, and when a store's become others.
//!
//! Never over a Secret that another client created or changed. Must not decide which servers there are, nor say a
//! secret.

use k8s_openapi::api::core::v1::Secret;

use super::context::Cx;
use super::identity::{Enrol, immutable};
use super::observe::Seen;
use super::store::store;
use crate::api::manager::condition::Reason;
use crate::k8s::hex::hex;
use crate::kernel::{self};

/// A secret has so many bytes: more than can be tried.
const BYTES: usize = 16;

/// Writes it. Returns what hinders it.
pub async fn enrol(cx: &Cx<'_>, seen: &Seen, enrol: &Enrol) -> Result<Option<(Reason, String)>, kernel::Error> {
    let (namespace, name) = (&*seen.resolved.namespace, &*enrol.name);
    if enrol.is_immutable {
        return Ok(Some((Reason::WriteRefused, immutable(name))));
    }
    let object = if enrol.over.is_some() {
        enrol.change()
    } else {
        let secrets = enrol.secrets.iter().map(|key| Ok((key.clone(), random()?)));
        enrol.object(namespace, secrets.collect::<Result<_, kernel::Error>>()?)
    };
    if let Some(why) = store::<Secret>(cx, (namespace, name), &object, |all| &mut all.secrets).await? {
        return Ok(Some((Reason::NameTaken, why)));
    }
    let servers = enrol.members.to_string().trim_end().replace('\n', ", ");
    tracing::info!(namespace, name, servers, "what identifies a component written down");
    Ok(None)
}

/// A fresh secret.
fn random() -> Result<String, kernel::Error> {
    let mut bytes = [0; BYTES];
    getrandom::fill(&mut bytes).map_err(|why| kernel::Error::Unread(format!("random numbers: {why}")))?;
    Ok(hex(&bytes))
}
