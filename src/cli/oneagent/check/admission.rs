//! `check`, on OpenShift: under which SCC its admission would take the agents' Pods, before there are any.
//!
//! Asks with the caller's rights. Must not fail a check for what the caller may not read.

use k8s_openapi::api::authorization::v1::ResourceAttributes;
use kube::Client;
use kube::api::{Api, DynamicObject, ListParams};
use kube::core::{ApiResource, GroupVersionKind};

use super::Findings;
use crate::kernel::{self, chain};
use crate::oneagent::build::template::{Surroundings, base};
use crate::oneagent::resolve::Resolved;
use crate::openshift::scc::{Scc, admitting};

const GROUP: &str = "security.openshift.io";

/// Says under which SCC agents will run, or why under none.
pub(super) async fn admission(client: &Client, resolved: &Resolved, findings: &mut Findings) {
    let kind = GroupVersionKind::gvk(GROUP, "v1", "SecurityContextConstraints");
    let plural = ApiResource::from_gvk_with_plural(&kind, "securitycontextconstraints");
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &plural);
    let sccs: Vec<Scc> = match api.list(&ListParams::default()).await {
        Ok(list) => {
            let read = |object: DynamicObject| serde_json::from_value(serde_json::to_value(object).ok()?).ok();
            list.items.into_iter().filter_map(read).collect()
        }
        // Elsewhere than on OpenShift there are none.
        Err(kube::Error::Api(status)) if status.code == 404 => return,
        Err(error) => {
            say!("note  under which SCC agents will run is not known: cannot list {GROUP}: {}", chain(&error));
            return;
        }
    };
    let account = resolved.pod.service_account.as_str();
    let namespace = resolved.namespace.as_str();
    let mut usable = Vec::new();
    for scc in &sccs {
        let may_use = ResourceAttributes {
            group: Some(GROUP.into()),
            resource: Some("securitycontextconstraints".into()),
            name: Some(scc.metadata.name.clone()),
            namespace: Some(namespace.into()),
            verb: Some("use".into()),
            ..ResourceAttributes::default()
        };
        let may = scc.names(namespace, account)
            || match kernel::review::may(client, (namespace, account), may_use).await {
                Ok(may) => may,
                Err(error) => {
                    say!(
                        "note  under which SCC agents will run is not known: {}: grant yourself create of \
                        subjectaccessreviews.authorization.k8s.io",
                        chain(&error)
                    );
                    return;
                }
            };
        if may {
            usable.push(scc);
        }
    }
    let pod = base(resolved, &Surroundings::default()).spec.unwrap_or_default();
    if let Some(scc) = admitting(usable.iter().copied(), &pod) {
        findings.good(&format!("agents will run under SecurityContextConstraints {}", scc.metadata.name));
        return;
    }
    let why = |scc: &&Scc| format!("{}: {}", scc.metadata.name, scc.against(&pod).join(", "));
    let refused: Vec<String> = usable.iter().map(why).collect();
    let refused = if refused.is_empty() { "it may use none".to_owned() } else { refused.join("; ") };
    findings.bad(
        &format!(
            "no SecurityContextConstraints that ServiceAccount {namespace}/{account} may use admit agents ({refused})"
        ),
        &format!("oc -n {namespace} adm policy add-scc-to-user privileged -z {account}"),
    );
}
