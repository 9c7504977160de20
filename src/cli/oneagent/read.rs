//! Reading what is about OneAgents alone: what a file holds beside them, and the node selector of their namespace.
//!
//! Must not write.

use std::path::Path;
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::Api;
use serde_json::Value;

use super::super::read::{Edited, Reader, objects, of_kind};
use crate::api::oneagent::OneAgent;
use crate::k8s::api_group::Served;
use crate::k8s::node_selector::{self, Selector};
use crate::kernel::{Answer, OptionalApis, Singletons};
use crate::oneagent::MANAGER;
use crate::openshift::cluster::{OPENSHIFT, SCHEDULER};

/// The node selector that a namespace itself carries, or the cluster's default one.
pub(super) async fn node_selector(reader: Reader<'_>, namespace: &str) -> Result<Selector, String> {
    let client = reader.client;
    let found = match Api::<Namespace>::all(client.clone()).get_opt(namespace).await {
        Ok(found) => found,
        Err(error) => return Err(reader.unanswered(&format!("get Namespace {namespace}"), &error)),
    };
    let mut selector = found.as_ref().map(node_selector::of).unwrap_or_default();
    if selector.is_default
        && let Answer::There(scheduler) = Singletons::new(Duration::ZERO).lookup(client, &SCHEDULER).await
    {
        selector = node_selector::of_scheduler(&scheduler);
    }
    // OpenShift's means nothing elsewhere.
    if selector.is_openshifts && !selector.labels.is_empty() {
        let served = OptionalApis::new(MANAGER, Duration::ZERO).served(client, &OPENSHIFT).await;
        if served.map_err(|error| error.chain())? == Served::Absent {
            selector = Selector::default();
        }
    }
    Ok(selector)
}

/// What a file holds.
#[derive(Default)]
pub(super) struct Written {
    /// Its OneAgents.
    pub(super) agents: Vec<OneAgent>,
    /// Its Secrets and ConfigMaps.
    others: Vec<Value>,
}

impl Written {
    /// The value of a key in a Secret or ConfigMap of the file.
    pub(super) fn value(&self, kind: &str, name: &str, key: &str) -> Option<String> {
        let is_it = |object: &&Value| object["kind"] == kind && object["metadata"]["name"] == name;
        let object = self.others.iter().find(is_it)?;
        let (plain, data) = (object["stringData"][key].as_str(), object["data"][key].as_str());
        match (kind, plain, data) {
            (_, Some(text), _) | ("ConfigMap", None, Some(text)) => Some(text.to_owned()),
            (_, None, Some(text)) => String::from_utf8(BASE64_STANDARD.decode(text).ok()?).ok(),
            (_, None, None) => None,
        }
    }
}

/// The OneAgents of a file (`-`: of standard input), and what of its other objects they may name.
pub(super) fn written(file: &Path) -> Result<Written, String> {
    let edited = Edited { shown: file.display().to_string(), objects: objects(file)? };
    let (agents, others) = of_kind(edited)?;
    if agents.is_empty() {
        Err(format!("{} holds no OneAgent", file.display()))
    } else {
        Ok(Written { agents, others })
    }
}
