//! SecurityContextConstraints: which of them OpenShift would admit a Pod under, and what the others have against it.
//!
//! As its admission decides: of those that the account may use, by priority, then the most restrictive, then by name.
//! Of the order among equal priorities only what tells our Pods apart is here: whether privileged containers are
//! allowed, then the host, then capabilities. Pure. Must not ask who may use what.

use std::cmp::Reverse;

use k8s_openapi::api::core::v1::PodSpec;
use serde::Deserialize;

/// One, as far as it decides here.
#[allow(clippy::struct_excessive_bools, reason = "as the API has them")]
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Scc {
    pub metadata: Metadata,
    pub priority: Option<i32>,
    /// Accounts that may use it.
    pub users: Vec<String>,
    /// Groups that may use it.
    pub groups: Vec<String>,
    pub allow_privileged_container: bool,
    #[serde(rename = "allowHostNetwork")]
    pub host_network: bool,
    #[serde(rename = "allowHostPID")]
    pub host_pid: bool,
    #[serde(rename = "allowHostIPC")]
    pub host_ipc: bool,
    #[serde(deserialize_with = "or_none")]
    pub allowed_capabilities: Vec<String>,
    #[serde(deserialize_with = "or_none")]
    pub volumes: Vec<String>,
}

/// Its name.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Metadata {
    pub name: String,
}

/// A list that may be null.
fn or_none<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

impl Scc {
    /// Whether it names an account among its users, or a group of every ServiceAccount.
    #[must_use]
    pub fn names(&self, namespace: &str, account: &str) -> bool {
        let user = format!("system:serviceaccount:{namespace}:{account}");
        let groups = ["system:authenticated", "system:serviceaccounts"].map(str::to_owned);
        let own = format!("system:serviceaccounts:{namespace}");
        self.users.contains(&user) || self.groups.iter().any(|group| groups.contains(group) || *group == own)
    }

    /// What it has against a Pod.
    #[must_use]
    pub fn against(&self, pod: &PodSpec) -> Vec<String> {
        let mut against = Vec::new();
        let host = [
            (pod.host_network, self.host_network, "the host's network"),
            (pod.host_pid, self.host_pid, "the host's processes"),
            (pod.host_ipc, self.host_ipc, "the host's IPC"),
        ];
        let forbidden = host.into_iter().filter(|(asks, allows, _)| *asks == Some(true) && !allows);
        against.extend(forbidden.map(|(_, _, what)| format!("it does not allow {what}")));
        for volume in pod.volumes.iter().flatten() {
            let value = serde_json::to_value(volume).unwrap_or_default();
            let kind = value.as_object().and_then(|map| map.keys().find(|key| *key != "name").cloned());
            if let Some(kind) =
                kind.filter(|kind| !self.volumes.iter().any(|allowed| allowed == "*" || allowed == kind))
            {
                against.push(format!("it does not allow volumes of type {kind}"));
            }
        }
        for context in pod.containers.iter().filter_map(|container| container.security_context.as_ref()) {
            if context.privileged == Some(true) && !self.allow_privileged_container {
                against.push("it does not allow privileged containers".to_owned());
            }
            let added = context.capabilities.iter().flat_map(|capabilities| capabilities.add.iter().flatten());
            let missing: Vec<&str> =
                added.filter(|wanted| !self.allows_capability(wanted)).map(String::as_str).collect();
            if !missing.is_empty() {
                against.push(format!("it does not allow the capabilities {}", missing.join(", ")));
            }
        }
        against
    }

    fn allows_capability(&self, wanted: &str) -> bool {
        self.allowed_capabilities.iter().any(|allowed| allowed == "*" || allowed == wanted)
    }
}

/// The one under which a Pod would be admitted, of those that its account may use.
#[must_use]
pub fn admitting<'a>(usable: impl Iterator<Item = &'a Scc>, pod: &PodSpec) -> Option<&'a Scc> {
    let order = |scc: &&Scc| {
        let capabilities = scc.allowed_capabilities.iter().any(|allowed| allowed == "*");
        let host = [scc.host_network, scc.host_pid, scc.host_ipc].into_iter().filter(|allowed| *allowed).count();
        (
            Reverse(scc.priority.unwrap_or_default()),
            scc.allow_privileged_container,
            host,
            (capabilities, scc.allowed_capabilities.len()),
            scc.metadata.name.clone(),
        )
    };
    usable.filter(|scc| scc.against(pod).is_empty()).min_by_key(order)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    /// The default ones of OpenShift 4.20, as recorded.
    fn defaults() -> Vec<Scc> {
        serde_json::from_str(include_str!("recorded.json")).unwrap()
    }

    fn agent(context: &Value) -> PodSpec {
        serde_json::from_value(json!({
            "hostNetwork": true, "hostPID": true, "hostIPC": true,
            "volumes": [{ "name": "host-root", "hostPath": { "path": "/" } }],
            "containers": [{ "name": "c", "securityContext": context }],
        }))
        .unwrap()
    }

    fn privileged() -> PodSpec {
        agent(&json!({ "privileged": true }))
    }

    fn admitted<'a>(sccs: &'a [Scc], usable: &[&str], pod: &PodSpec) -> Option<&'a str> {
        let may = sccs.iter().filter(|scc| usable.contains(&&*scc.metadata.name));
        admitting(may, pod).map(|scc| scc.metadata.name.as_str())
    }

    /// What OpenShift's own admission was seen to decide.
    #[test]
    fn it_decides_as_openshift_was_recorded_to() {
        let mut sccs = defaults();
        let operator: PodSpec = serde_json::from_value(json!({ "containers": [{ "name": "c", "securityContext": {
            "allowPrivilegeEscalation": false, "capabilities": { "drop": ["ALL"] } } }] }))
        .unwrap();
        assert_eq!(admitted(&sccs, &["restricted-v2"], &operator), Some("restricted-v2"));
        assert_eq!(admitted(&sccs, &["restricted-v2"], &privileged()), None);
        let restricted = sccs.iter().find(|scc| scc.metadata.name == "restricted-v2").unwrap();
        let against = restricted.against(&privileged()).join("; ");
        for words in
            ["the host's network", "the host's processes", "the host's IPC", "hostPath", "privileged containers"]
        {
            assert!(against.contains(words), "{against}");
        }
        let granted = ["restricted-v2", "privileged"];
        assert_eq!(admitted(&sccs, &granted, &privileged()), Some("privileged"));
        let capable = json!({ "capabilities": { "add": ["SYS_ADMIN", "CHOWN"], "drop": ["ALL"] } });
        let unprivileged = agent(&capable);
        assert!(restricted.against(&unprivileged).join("; ").contains("the capabilities SYS_ADMIN, CHOWN"));
        assert_eq!(admitted(&sccs, &granted, &unprivileged), Some("privileged"));
        // One of its own is preferred, and so is one of higher priority.
        let own: Scc = serde_yaml::from_str(include_str!("../../api/oneagent/scc-unprivileged.yaml")).unwrap();
        sccs.push(own);
        let with_own = ["restricted-v2", "privileged", "dynatrace-oneagent-unprivileged"];
        assert_eq!(admitted(&sccs, &with_own, &unprivileged), Some("dynatrace-oneagent-unprivileged"));
        assert_eq!(admitted(&sccs, &with_own, &privileged()), Some("privileged"));
        let mut site = sccs.iter().find(|scc| scc.metadata.name == "privileged").unwrap().clone();
        (site.metadata.name, site.priority) = ("site-agents".into(), Some(20));
        sccs.push(site);
        assert_eq!(admitted(&sccs, &["privileged", "site-agents"], &privileged()), Some("site-agents"));
    }

    #[test]
    fn accounts_are_named_by_user_or_by_group() {
        let scc = |users: Value, groups: Value| -> Scc {
            serde_json::from_value(json!({ "users": users, "groups": groups, "volumes": null })).unwrap()
        };
        assert!(scc(json!(["system:serviceaccount:n:a"]), json!([])).names("n", "a"));
        assert!(scc(json!([]), json!(["system:serviceaccounts:n"])).names("n", "a"));
        assert!(scc(json!([]), json!(["system:authenticated"])).names("n", "a"));
        assert!(!scc(json!(["system:serviceaccount:n:b"]), json!(["system:masters"])).names("n", "a"));
    }
}
