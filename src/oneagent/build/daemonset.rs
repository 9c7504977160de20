//! The DaemonSet: a base template at a version, with placement, owner and the records that outlive us.
//!
//! Pure. Update strategy OnDelete: the rollout engine decides which Pod is deleted when. Must not decide which
//! template.

use k8s_openapi::api::apps::v1::{DaemonSet, DaemonSetSpec, DaemonSetUpdateStrategy};
use k8s_openapi::api::core::v1::{
    Affinity, NodeAffinity, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, PodTemplateSpec,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::api::ObjectMeta;
use serde_json::Value;

use super::record::{Base, RECORD_ANNOTATION};
use super::template::{self, TOKEN, labels, selector, short_hash};
use crate::api::name::Version;
use crate::k8s::drift::APPLIED_ANNOTATION;
use crate::k8s::facts::{HASH_ANNOTATION, VERSION_ANNOTATION};
use crate::k8s::placement::{Must, Of, Requirement};
use crate::oneagent::resolve::Resolved;
use crate::oneagent::resolve::hosts::{IMAGE_ARCHITECTURES, INSTALLER_ARCHITECTURES, VIRTUAL_NODES};

/// The DaemonSet as it is applied. `record` is what is written of its record, `image` is the release's.
pub fn daemonset(
    resolved: &Resolved,
    base: &Base,
    version: Option<Version>,
    record: String,
    image: &str,
) -> Result<Value, serde_json::Error> {
    let object = DaemonSet {
        metadata: ObjectMeta {
            name: Some(resolved.name.clone()),
            namespace: Some(resolved.namespace.clone()),
            labels: Some(labels(&resolved.name, &resolved.pod)),
            annotations: Some([(RECORD_ANNOTATION.to_owned(), record)].into()),
            owner_references: Some(vec![resolved.owner.clone()]),
            ..ObjectMeta::default()
        },
        spec: Some(DaemonSetSpec {
            selector: LabelSelector { match_labels: Some(selector(&resolved.name)), ..LabelSelector::default() },
            template: render(resolved, base, version, image),
            update_strategy: Some(DaemonSetUpdateStrategy { type_: Some("OnDelete".into()), rolling_update: None }),
            ..DaemonSetSpec::default()
        }),
        status: None,
    };
    let mut value = serde_json::to_value(&object)?;
    let hash = short_hash(&serde_json::to_vec(&value)?);
    value["metadata"]["annotations"][APPLIED_ANNOTATION] = Value::String(hash);
    Ok(value)
}

fn render(resolved: &Resolved, base: &Base, version: Option<Version>, image: &str) -> PodTemplateSpec {
    let mut template = template::with_image(&base.template, image);
    let text = version.map(|v| v.to_string()).unwrap_or_default();
    let annotations = template.metadata.get_or_insert_default().annotations.get_or_insert_default();
    annotations.insert(HASH_ANNOTATION.to_owned(), base.hash.clone());
    if version.is_some() {
        annotations.insert(VERSION_ANNOTATION.to_owned(), text.clone());
    }
    let Some(spec) = &mut template.spec else { return template };
    for container in &mut spec.containers {
        template::at_version(container, &text, &version.map(|v| v.short()).unwrap_or_default());
    }
    let pod = &resolved.pod;
    spec.node_selector = (!pod.node_selector.is_empty()).then(|| pod.node_selector.clone());
    spec.tolerations = (!pod.tolerations.is_empty()).then(|| pod.tolerations.clone());
    spec.affinity = Some(affinity(
        &architectures(resolved, &base.template),
        &pod.node_affinity,
        resolved.placement.outside.as_deref(),
    ));
    base.from_cluster.put_on(&mut template);
    template
}

/// The architectures that a template's agent is for: an image says itself, the installer's address names one. Of the
/// template and not of the spec, which may be ahead of it.
#[must_use]
pub fn architectures(resolved: &Resolved, template: &PodTemplateSpec) -> Vec<String> {
    if resolved.placement.architectures.is_empty() {
        return Vec::new();
    }
    let env =
        template.spec.iter().flat_map(|spec| &spec.containers).flat_map(|container| container.env.iter().flatten());
    let installs = env.into_iter().any(|variable| variable.name == TOKEN);
    let names = if installs { INSTALLER_ARCHITECTURES } else { IMAGE_ARCHITECTURES };
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// A requirement as the API server reads it, and whether it is about the node's name.
fn written(requirement: &Requirement) -> (NodeSelectorRequirement, bool) {
    let (key, is_name) = match &requirement.of {
        Of::Label(key) => (key.clone(), false),
        Of::Name => ("metadata.name".to_owned(), true),
    };
    let (operator, values) = match &requirement.must {
        Must::In(values) => ("In", Some(values.clone())),
        Must::NotIn(values) => ("NotIn", Some(values.clone())),
        Must::Exist => ("Exists", None),
        Must::NotExist => ("DoesNotExist", None),
        Must::Exceed(bound) => ("Gt", Some(vec![bound.to_string()])),
        Must::FallBelow(bound) => ("Lt", Some(vec![bound.to_string()])),
    };
    (NodeSelectorRequirement { key, operator: operator.into(), values }, is_name)
}

/// Each of the terms, with each of the alternatives.
fn with_alternatives(terms: &[NodeSelectorTerm], alternatives: &[Vec<Requirement>]) -> Vec<NodeSelectorTerm> {
    let with = |term: &NodeSelectorTerm, alternative: &Vec<Requirement>| {
        let mut term = term.clone();
        for (requirement, is_name) in alternative.iter().map(written) {
            let list = if is_name { &mut term.match_fields } else { &mut term.match_expressions };
            list.get_or_insert_default().push(requirement);
        }
        term
    };
    terms.iter().flat_map(|term| alternatives.iter().map(move |alternative| with(term, alternative))).collect()
}

/// What we require of every node, in each of the user's terms, and that older OneAgents do not have it.
fn affinity(architectures: &[String], theirs: &NodeAffinity, outside: Option<&[Vec<Requirement>]>) -> Affinity {
    let requirement = |key: &str, operator: &str, values: &[&str]| NodeSelectorRequirement {
        key: key.into(),
        operator: operator.into(),
        values: Some(values.iter().map(|v| (*v).to_owned()).collect()),
    };
    let mut expressions = vec![requirement("kubernetes.io/os", "In", &["linux"])];
    if !architectures.is_empty() {
        let names: Vec<&str> = architectures.iter().map(String::as_str).collect();
        expressions.push(requirement("kubernetes.io/arch", "In", &names));
    }
    expressions.extend(VIRTUAL_NODES.iter().map(|(key, value)| requirement(key, "NotIn", &[value])));
    let required = theirs.required_during_scheduling_ignored_during_execution.clone();
    let mut terms = required.map_or_else(|| vec![NodeSelectorTerm::default()], |required| required.node_selector_terms);
    for term in &mut terms {
        term.match_expressions.get_or_insert_default().extend(expressions.clone());
    }
    if let Some(alternatives) = outside {
        terms = with_alternatives(&terms, alternatives);
    }
    if terms.is_empty() {
        // Older OneAgents have every node: one that does not exist is all that is left.
        let nobody = NodeSelectorRequirement {
            key: "metadata.name".into(),
            operator: "In".into(),
            values: Some(vec!["none.invalid".into()]),
        };
        terms.push(NodeSelectorTerm { match_fields: Some(vec![nobody]), match_expressions: None });
    }
    Affinity {
        node_affinity: Some(NodeAffinity {
            required_during_scheduling_ignored_during_execution: Some(NodeSelector { node_selector_terms: terms }),
            preferred_during_scheduling_ignored_during_execution: theirs
                .preferred_during_scheduling_ignored_during_execution
                .clone(),
        }),
        ..Affinity::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::oneagent::OneAgent;
    use crate::oneagent::build::record::Record;
    use crate::oneagent::build::template::{Surroundings, base, hash};
    use crate::oneagent::from_cluster::FromCluster;
    use crate::oneagent::resolve::resolve;

    fn rendered(spec: serde_json::Value) -> Value {
        let mut agent = OneAgent::new("agent", serde_json::from_value(spec).unwrap());
        agent.metadata.namespace = Some("dynatrace".into());
        agent.metadata.uid = Some("uid".into());
        let resolved = resolve(&agent).unwrap();
        let around = Surroundings {
            cluster_id: "cluster".into(),
            proxy: resolved.proxy.is_some().then(|| "7".to_owned()),
            trusted: resolved.trusted_cas.is_some().then(|| "8".to_owned()),
        };
        let template = base(&resolved, &around);
        let base = Base { hash: hash(&template).unwrap(), template, from_cluster: FromCluster::default() };
        let record = Record { templates: vec![base.clone()], ..Record::default() }.text().unwrap().0;
        daemonset(
            &resolved,
            &base,
            "1.301.72.20250601-101010".parse().ok(),
            record,
            "docker.io/dynatrace/oneagent:latest",
        )
        .unwrap()
    }

    /// What changes here restarts every agent of every user at the next upgrade of the operator: change it knowingly.
    #[test]
    fn the_smallest_oneagent_gives_this_daemonset() {
        insta::assert_yaml_snapshot!(rendered(serde_json::json!({ "apiUrl": "https://e.example/api" })));
    }

    /// As above, with every field that reaches the Pods.
    #[test]
    fn a_rich_oneagent_gives_this_daemonset() {
        insta::assert_yaml_snapshot!(rendered(serde_json::json!({
            "apiUrl": "https://e.example/api/", "tokens": "secret", "skipCertCheck": true,
            "proxy": { "valueFrom": "proxy" }, "trustedCAs": "ca",
            "nodeSelector": { "kubernetes.io/arch": "arm64" }, "tolerations": [{ "operator": "Exists" }],
            "image": "registry.example/agent:7",
            "resources": { "limits": { "memory": "1.5Gi" } }, "webhookInjection": true, "args": ["--set-host-group=x"],
            "env": [{ "name": "ONEAGENT_INSTALLER_SKIP_CERT_CHECK", "value": "false" }, { "name": "X", "value": "y" }],
            "priorityClassName": "high", "dnsPolicy": "Default", "serviceAccountName": "mine",
            "labels": { "team": "ops" }, "useUnprivilegedMode": true,
        })));
    }

    /// An SCC that allows less would refuse the Pods, and one that allows more is not what its comment says.
    #[test]
    fn the_scc_of_unprivileged_agents_allows_what_they_ask_for_and_nothing_more() {
        let scc: Value = serde_yaml::from_str(crate::api::oneagent::package::PACKAGE.extras[0].yaml).unwrap();
        let daemonset = rendered(serde_json::json!({ "apiUrl": "https://e.example/api", "useUnprivilegedMode": true,
            "useImmutableImage": true, "trustedCAs": "ca" }));
        let pod = &daemonset["spec"]["template"]["spec"];
        assert_eq!(scc["allowedCapabilities"], pod["containers"][0]["securityContext"]["capabilities"]["add"]);
        assert!(
            pod["containers"][0]["securityContext"]["privileged"].is_null() && scc["allowPrivilegedContainer"] == false
        );
        for (pods, sccs) in
            [("hostIPC", "allowHostIPC"), ("hostNetwork", "allowHostNetwork"), ("hostPID", "allowHostPID")]
        {
            assert_eq!((&pod[pods], &scc[sccs]), (&Value::Bool(true), &Value::Bool(true)));
        }
        let account = pod["serviceAccountName"].as_str().unwrap();
        assert!(scc["users"][0].as_str().unwrap().ends_with(&format!(":{account}")));
        for volume in pod["volumes"].as_array().unwrap() {
            let kind = volume.as_object().unwrap().keys().find(|key| *key != "name").unwrap();
            assert!(scc["volumes"].as_array().unwrap().contains(&Value::from(kind.as_str())), "{kind}");
        }
        for field in ["priority", "defaultAddCapabilities", "requiredDropCapabilities"] {
            assert!(scc.as_object().unwrap().contains_key(field) && scc[field].is_null(), "{field} must be said");
        }
    }

    #[test]
    fn placement_is_not_in_the_hash_and_the_rest_is() {
        let hash_of = |spec: serde_json::Value| {
            rendered(spec)["spec"]["template"]["metadata"]["annotations"][HASH_ANNOTATION].clone()
        };
        let plain = hash_of(serde_json::json!({ "apiUrl": "https://e.example/api" }));
        let placed = serde_json::json!({ "apiUrl": "https://e.example/api", "nodeSelector": { "a": "b" },
            "tolerations": [{ "operator": "Exists" }], "rollout": { "maxUnavailable": 3 }, "waitReadySeconds": 100 });
        assert_eq!(hash_of(placed), plain);
        for change in [
            serde_json::json!({ "args": ["x"] }),
            serde_json::json!({ "image": "i" }),
            serde_json::json!({ "labels": { "a": "b" } }),
            serde_json::json!({ "tokens": "t" }),
        ] {
            let mut spec = change.clone();
            spec["apiUrl"] = "https://e.example/api".into();
            assert_ne!(hash_of(spec), plain, "{change}");
        }
    }

    fn base_of(spec: serde_json::Value, around: &Surroundings) -> PodTemplateSpec {
        let mut spec = spec;
        spec["apiUrl"] = "https://e.example/api".into();
        base(&resolve(&OneAgent::new("agent", serde_json::from_value(spec).unwrap())).unwrap(), around)
    }

    #[test]
    fn what_the_operator_chooses_itself_is_no_difference_and_what_the_user_asks_for_is() {
        let marked = |proxy: &str| Surroundings { proxy: Some(proxy.into()), ..Surroundings::default() };
        let with_proxy = || serde_json::json!({ "proxy": { "valueFrom": "p" } });
        let now = base_of(with_proxy(), &marked("hash"));
        let mut before = template::with_image(&now, "registry.example/ours:1");
        let annotations = before.metadata.as_mut().unwrap().annotations.as_mut().unwrap();
        annotations.clear();
        annotations.insert("oneagent.dynatrace.com/proxy-version".into(), "4711".into());
        assert!(template::asks_for_the_same(&before, &now, "registry.example/ours:1"), "0.2.0 noted it so");
        assert!(
            !template::asks_for_the_same(&before, &now, "registry.example/ours:2"),
            "an image that is nobody's default is the user's"
        );
        assert!(!template::asks_for_the_same(&now, &base_of(with_proxy(), &marked("other")), "i"), "another proxy");
        assert!(!template::asks_for_the_same(&now, &base_of(serde_json::json!({}), &Surroundings::default()), "i"));
        assert_eq!(
            hash(&now).unwrap(),
            hash(&template::with_image(&now, "docker.io/dynatrace/oneagent:latest")).unwrap(),
            "the first releases' hash"
        );
    }

    #[test]
    fn only_what_is_ours_gets_the_version() {
        let env = |spec: serde_json::Value| {
            let rendered = rendered(spec);
            let env = rendered["spec"]["template"]["spec"]["containers"][0]["env"].as_array().unwrap().clone();
            move |name: &str| {
                env.iter().find(|variable| variable["name"] == name).unwrap()["value"].as_str().unwrap().to_owned()
            }
        };
        let theirs = serde_json::json!({ "apiUrl": "https://e.example/api",
            "env": [{ "name": "X", "value": "{agent-version}" }] });
        let value = env(theirs);
        assert_eq!(value("X"), "{agent-version}");
        assert!(value("ONEAGENT_INSTALLER_SCRIPT_URL").contains("/version/1.301.72.20250601-101010?"));
        let own = "https://mirror.example/{agent-version}";
        let address = serde_json::json!({ "apiUrl": "https://e.example/api",
            "env": [{ "name": "ONEAGENT_INSTALLER_SCRIPT_URL", "value": own }] });
        assert_eq!(env(address)("ONEAGENT_INSTALLER_SCRIPT_URL"), own);
    }
}
