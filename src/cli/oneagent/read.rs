//! Reading a cluster for a command that looks once: lists with the caller's rights, and what may have been meant.
//!
//! Must not write.

use std::fmt::Debug;
use std::path::Path;
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Api, ListParams};
use kube::{Client, CustomResourceExt};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::super::schema;
use crate::api::oneagent::OneAgent;
use crate::k8s::api_group::Served;
use crate::k8s::node_selector::{self, Selector};
use crate::kernel::{self, Answer, OptionalApis, Singletons, chain};
use crate::oneagent::MANAGER;
use crate::openshift::cluster::{OPENSHIFT, SCHEDULER};

/// Everything of a kind; the error names it and the verb.
pub(super) async fn list<K>(api: Api<K>, what: &str, labels: &str) -> Result<Vec<K>, String>
where
    K: Clone + DeserializeOwned + Debug,
{
    let listed = api.list(&ListParams::default().labels(labels)).await;
    let failed = async |error| unanswered(&format!("list {what}"), &error).await;
    match listed {
        Ok(list) => Ok(list.items),
        Err(error) => Err(failed(error).await),
    }
}

/// Why a request failed, and what helps.
pub(super) async fn unanswered(request: &str, error: &kube::Error) -> String {
    let why = chain(error);
    match error {
        kube::Error::Api(status) if status.code == 403 => {
            format!("cannot {request}: {why}; an administrator grants that by ClusterRole {MANAGER}-observe")
        }
        kube::Error::Api(status) if status.code == 401 => {
            format!("cannot {request}: the API server does not accept your credentials ({why}); log in again")
        }
        kube::Error::Api(_) => format!("cannot {request}: {why}"),
        _ => {
            let address = kernel::address().await;
            format!("cannot {request}: the API server at {address} does not answer: {why}")
        }
    }
}

/// The node selector that a namespace itself carries, or the cluster's default one.
pub(super) async fn node_selector(client: &Client, namespace: &str) -> Result<Selector, String> {
    let found = Api::<Namespace>::all(client.clone()).get_opt(namespace).await;
    let found = match found {
        Ok(found) => found,
        Err(error) => return Err(unanswered(&format!("get Namespace {namespace}"), &error).await),
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
#[expect(clippy::disallowed_methods, reason = "the command line")]
pub(super) fn written(file: &Path) -> Result<Written, String> {
    let shown = file.display();
    let text =
        if file == Path::new("-") { std::io::read_to_string(std::io::stdin()) } else { std::fs::read_to_string(file) };
    let text = text.map_err(|error| format!("cannot read {shown}: {error}"))?;
    let mut found = Written::default();
    for document in serde_yaml::Deserializer::from_str(&text) {
        let not_yaml = |error: serde_yaml::Error| format!("{shown} is no YAML: {error}");
        let mut value = serde_yaml::Value::deserialize(document).map_err(not_yaml)?;
        value.apply_merge().map_err(not_yaml)?;
        let mut value: Value = serde_yaml::from_value(value).map_err(not_yaml)?;
        // What `kubectl get -o yaml` prints.
        let items = if value["kind"] == "List" { value["items"].as_array_mut().map(std::mem::take) } else { None };
        for value in items.unwrap_or_else(|| vec![value]) {
            if value["kind"] == "OneAgent" {
                let name = value["metadata"]["name"].as_str().unwrap_or("without a name").to_owned();
                let agent = oneagent(value);
                let refused = |error| format!("{shown}: the API server would refuse OneAgent {name}: {error}");
                found.agents.push(agent.map_err(refused)?);
            } else {
                found.others.push(value);
            }
        }
    }
    if found.agents.is_empty() { Err(format!("{shown} holds no OneAgent")) } else { Ok(found) }
}

/// A OneAgent of a file, refused as the API server refuses one.
fn oneagent(written: Value) -> Result<OneAgent, String> {
    let refusals = schema::refusals(&OneAgent::crd(), &written);
    if !refusals.is_empty() {
        return Err(refusals.join("; "));
    }
    serde_json::from_value(written).map_err(|error| error.to_string())
}
