//! `check`, under Operator Lifecycle Manager: whether the namespace's OperatorGroups let it install what is asked for.
//!
//! Asks with the caller's rights. Must not fail a check for what the caller may not read.

use kube::Client;
use kube::ResourceExt;
use kube::api::{Api, DynamicObject, ListParams};
use kube::core::{ApiResource, GroupVersionKind};

use super::Findings;

/// Says what of the OperatorGroups is in the way.
pub(super) async fn operator_groups(client: &Client, namespace: &str, findings: &mut Findings) {
    let kind = GroupVersionKind::gvk("operators.coreos.com", "v1", "OperatorGroup");
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &ApiResource::from_gvk(&kind));
    // Without OLM there are none, and a user who may not list them is told nothing of them.
    let Ok(groups) = api.list(&ListParams::default()).await else { return };
    let names: Vec<String> = groups.items.iter().map(ResourceExt::name_any).collect();
    match groups.items.as_slice() {
        [] => {}
        [group] => {
            let spec = &group.data["spec"];
            let targets_all =
                spec["targetNamespaces"].as_array().is_none_or(Vec::is_empty) && spec["selector"].is_null();
            if targets_all {
                say!(
                    "note  OperatorGroup {namespace}/{} targets all namespaces, as another operator's there may (the \
                    Dynatrace Operator suggests this namespace, too): the operator then has its rights in all of them; \
                    to keep it to its own, install it in another namespace",
                    names[0]
                );
            }
        }
        _ => findings.bad(
            &format!("namespace {namespace} has {} OperatorGroups ({})", names.len(), names.join(", ")),
            "OLM installs nothing there while it has more than one: delete all but one",
        ),
    }
}
