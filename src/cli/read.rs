//! Reading a cluster for a command that looks once: lists with the caller's rights, and what may have been meant.
//!
//! Must not write.

use std::fmt::Debug;
use std::path::Path;
use std::time::Duration;

use k8s_openapi::api::core::v1::Namespace;
use kube::Client;
use kube::api::{Api, ListParams};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::api::oneagent::OneAgent;
use crate::k8s::api_group::Served;
use crate::k8s::node_selector::{self, Selector};
use crate::kernel::{self, Answer, OptionalApis, Singletons, chain};
use crate::oneagent::MANAGER;
use crate::oneagent::observe::{OPENSHIFT, SCHEDULER};

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
        && let Answer::There(scheduler) = Singletons::new(Duration::ZERO).look(client, &SCHEDULER).await
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

/// The OneAgents of a file (`-`: of standard input), which may hold other objects, too.
#[expect(clippy::disallowed_methods, reason = "the command line")]
pub(super) fn oneagents(file: &Path) -> Result<Vec<OneAgent>, String> {
    let shown = file.display();
    let text =
        if file == Path::new("-") { std::io::read_to_string(std::io::stdin()) } else { std::fs::read_to_string(file) };
    let text = text.map_err(|error| format!("cannot read {shown}: {error}"))?;
    let mut found = Vec::new();
    for document in serde_yaml::Deserializer::from_str(&text) {
        let not_yaml = |error: serde_yaml::Error| format!("{shown} is no YAML: {error}");
        let mut value = serde_yaml::Value::deserialize(document).map_err(not_yaml)?;
        value.apply_merge().map_err(not_yaml)?;
        let is = |value: &serde_yaml::Value, kind: &str| value["kind"].as_str() == Some(kind);
        // What `kubectl get -o yaml` prints.
        let items = if is(&value, "List") { value["items"].as_sequence().cloned() } else { None };
        for value in items.unwrap_or_else(|| vec![value]).into_iter().filter(|value| is(value, "OneAgent")) {
            let agent = oneagent(value);
            found.push(agent.map_err(|error| format!("{shown} holds a OneAgent that cannot be read: {error}"))?);
        }
    }
    if found.is_empty() { Err(format!("{shown} holds no OneAgent")) } else { Ok(found) }
}

/// A OneAgent of a file. As the API server does for `kubectl apply`, it refuses fields of the spec that there are not.
fn oneagent(document: serde_yaml::Value) -> Result<OneAgent, String> {
    let said = |error: &dyn std::fmt::Display| error.to_string();
    let written: Value = serde_yaml::from_value(document.clone()).map_err(|error| said(&error))?;
    let agent: OneAgent = serde_yaml::from_value(document).map_err(|error| said(&error))?;
    let known = serde_json::to_value(&agent.spec).map_err(|error| said(&error))?;
    let mut unknown = Vec::new();
    lost(&written["spec"], &known, "spec", &mut unknown);
    if unknown.is_empty() { Ok(agent) } else { Err(format!("unknown field {}", unknown.join(", "))) }
}

/// The fields that reading lost; what is empty need not be kept.
fn lost(written: &Value, known: &Value, path: &str, unknown: &mut Vec<String>) {
    match (written, known) {
        (Value::Object(written), Value::Object(known)) => {
            let is_empty =
                |value: &Value| value.is_null() || value.as_array().is_some_and(Vec::is_empty) || *value == json!({});
            for (key, value) in written.iter().filter(|(_, value)| !is_empty(value)) {
                let path = format!("{path}.{key}");
                match known.get(key) {
                    Some(known) => lost(value, known, &path, unknown),
                    None => unknown.push(path),
                }
            }
        }
        (Value::Array(written), Value::Array(known)) => {
            for (number, (written, known)) in written.iter().zip(known).enumerate() {
                lost(written, known, &format!("{path}[{number}]"), unknown);
            }
        }
        _ => {}
    }
}

/// Names that are less alike than this are not worth a guess.
const ALIKE: f64 = 0.6;

/// What may have been meant.
pub(super) fn nearest(name: &str, names: &[&str]) -> String {
    let likeness = |other: &&&str| strsim::jaro_winkler(name, other);
    let best = names.iter().max_by(|a, b| likeness(a).total_cmp(&likeness(b)));
    let best = best.filter(|best| likeness(best) > ALIKE);
    best.map(|best| format!("; the nearest name is {best}")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_that_there_is_not_is_named_and_what_is_empty_is_no_such_field() {
        let read = |spec: &str| {
            let text =
                format!("apiVersion: dynatrace.com/v1alpha1\nkind: OneAgent\nmetadata: {{name: a}}\nspec: {spec}");
            oneagent(serde_yaml::from_str(&text).unwrap()).map(|_| ())
        };
        assert_eq!(read("{apiUrl: x, nodeSelctor: {a: b}}"), Err("unknown field spec.nodeSelctor".to_owned()));
        let two = read("{apiUrl: x, rollout: {maxUnavailble: 1, canary: {node: 1}}, env: [{name: A, valu: b}]}");
        let all = "unknown field spec.env[0].valu, spec.rollout.canary.node, spec.rollout.maxUnavailble";
        assert_eq!(two, Err(all.to_owned()));
        assert_eq!(
            read("{apiUrl: x, rollout: {windows: [], canary: null}, nodeSelector: {}, tolerations: []}"),
            Ok(())
        );
        for sample in crate::api::oneagent::package::PACKAGE.samples {
            for document in serde_yaml::Deserializer::from_str(sample.yaml) {
                let value = <serde_yaml::Value as serde::Deserialize>::deserialize(document).unwrap();
                if value["kind"] == "OneAgent" {
                    assert_eq!(oneagent(value).map(|_| ()), Ok(()), "{}", sample.file);
                }
            }
        }
    }
}
