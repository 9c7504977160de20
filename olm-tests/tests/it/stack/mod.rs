//! Managers: a stack starts in order, and stays as the spec has it.

mod bad;
mod changes;
mod drift;
mod held;
mod nodes;
mod order;
mod stores;

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::ResourceExt;
use kube::api::{Api, ListParams};
use olm_tests::lab::Lab;
use serde_json::{Value, json};

/// UIDs of Pods, by their names.
type Uids = BTreeMap<String, String>;

/// A lab whose stack is complete.
async fn standing(name: &str, masters: usize, workers: usize) -> Lab<'static> {
    let lab = Lab::of_stacks(name, masters, workers).await;
    lab.cluster.apply(&lab.stack().to_string());
    lab.stack_says("Ready", "AllServing").await;
    lab
}

/// How many Pods have a name that begins so.
async fn servers(lab: &Lab<'_>, begin: &str) -> usize {
    lab.stack_pods().await.iter().filter(|pod| pod.name_any().starts_with(begin)).count()
}

async fn uids(lab: &Lab<'_>) -> Uids {
    lab.stack_pods().await.into_iter().map(|pod| (pod.name_any(), pod.uid().unwrap_or_default())).collect()
}

/// Pods that were not there before, by name.
fn others(before: &Uids, now: &Uids) -> Vec<String> {
    now.iter().filter(|(name, uid)| before.get(*name) != Some(*uid)).map(|(name, _)| name.clone()).collect()
}

/// Its claims, with their UIDs.
async fn claims(lab: &Lab<'_>) -> Vec<(String, Option<String>)> {
    let claims: Api<PersistentVolumeClaim> = Api::namespaced(lab.cluster.client.clone(), &lab.name);
    let list = claims.list(&ListParams::default()).await.expect("claims").items;
    list.iter().map(|claim| (claim.name_any(), claim.uid())).collect()
}

/// An edit of the spec: a container of a service, of the last one in a list, is like the sample's apart from this.
fn with(lab: &Lab<'_>, service: &str, container: &str, change: &Value) -> Value {
    let mut entries = lab.stack()["spec"]["services"][service].clone();
    let entry = match &mut entries {
        Value::Array(all) => all.last_mut().expect("an entry"),
        one => one,
    };
    let containers = entry["spec"]["serviceConfiguration"]["containers"].as_array_mut().expect("containers");
    let changed = containers.iter_mut().find(|one| one["name"] == container).expect("a container");
    for (field, value) in change.as_object().expect("fields") {
        changed[field] = value.clone();
    }
    json!({ "services": { service: entries } })
}

/// Has the operator look at everything again, and waits until it has acted on what it saw. The field is kept and not
/// used.
async fn looks_again(lab: &Lab<'_>) {
    let seen = lab.stack_status().await.observed_generation.unwrap_or_default();
    lab.edit_stack(json!({ "commonConfiguration": { "keystoneSecretInstance": format!("after-{seen}") } })).await;
}
