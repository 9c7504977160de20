//! The DaemonSet: a base template at a version, with placement, owner and the records that outlive us.
//!
//! Update strategy OnDelete: the rollout engine decides which Pod goes when. Must not decide which template.

use std::collections::BTreeSet;

use k8s_openapi::api::apps::v1::{DaemonSet, DaemonSetSpec, DaemonSetUpdateStrategy};
use k8s_openapi::api::core::v1::{Affinity, NodeAffinity, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, PodTemplateSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, OwnerReference};
use kube::api::ObjectMeta;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::template::{self, SHORT, TOKEN, VERSION, labels, selector, short_hash};
use crate::api::name::Version;
use crate::k8s::drift::APPLIED_ANNOTATION;
use crate::k8s::facts::{HASH_ANNOTATION, VERSION_ANNOTATION};
use crate::k8s::placement::{Must, Of, Requirement};
use crate::oneagent::edited::{EDITED_ANNOTATION, Edited};
use crate::oneagent::resolve::Resolved;
use crate::oneagent::resolve::hosts::{IMAGE_ARCHITECTURES, INSTALLER_ARCHITECTURES, VIRTUAL_NODES};

/// Annotation of the DaemonSet: the base template it has now. While a rollout is held this is rendered, not the spec.
pub const TEMPLATE_ANNOTATION: &str = "oneagent.dynatrace.com/template";
/// Annotation of the DaemonSet: the base template of the last good revision, to go back to.
pub const GOOD_ANNOTATION: &str = "oneagent.dynatrace.com/last-good-template";

/// Annotation of the DaemonSet: the older OneAgents whose nodes it leaves to them.
const YIELDS_ANNOTATION: &str = "oneagent.dynatrace.com/yields-to";

/// The older OneAgents to whom a DaemonSet leaves their nodes.
#[must_use]
pub fn yielded(live: &DaemonSet) -> BTreeSet<String> {
    let names = live.metadata.annotations.as_ref().and_then(|annotations| annotations.get(YIELDS_ANNOTATION));
    names.into_iter().flat_map(|names| names.split(',')).map(str::to_owned).collect()
}

/// A base template with its hash.
#[derive(Debug, Clone, PartialEq)]
pub struct Base {
    /// The template.
    pub template: PodTemplateSpec,
    /// Its hash: that which Pods made from it carry.
    pub hash: String,
}

/// A base template as it is noted in an annotation. Pods may carry a hash that an earlier release made of it, so the hash is
/// noted beside it; the sum shows whether somebody changed the note.
#[derive(Debug, Serialize, Deserialize)]
struct Note {
    hash: String,
    sum: String,
    template: PodTemplateSpec,
}

fn sum(hash: &str, template: &PodTemplateSpec) -> Result<String, serde_json::Error> {
    Ok(short_hash(&serde_json::to_vec(&(hash, template))?))
}

impl Base {
    fn note(&self) -> Result<String, serde_json::Error> {
        let note = Note { hash: self.hash.clone(), sum: sum(&self.hash, &self.template)?, template: self.template.clone() };
        serde_json::to_string(&note)
    }

    /// Reads a note; `None` where it is none, or was changed by somebody. Releases up to 0.2.0 noted the template alone.
    #[must_use]
    pub fn noted(text: &str) -> Option<Self> {
        if let Ok(note) = serde_json::from_str::<Note>(text) {
            return (sum(&note.hash, &note.template).ok()? == note.sum).then_some(Self { template: note.template, hash: note.hash });
        }
        let template: PodTemplateSpec = serde_json::from_str(text).ok().filter(|template: &PodTemplateSpec| template.spec.is_some())?;
        Some(Self { hash: template::hash(&template).ok()?, template })
    }
}

/// The DaemonSet as it is applied. `edited` is what is known of edits, `image` is the release's.
pub fn daemonset(
    resolved: &Resolved,
    base: &Base,
    version: Option<Version>,
    good: Option<&Base>,
    edited: &Edited,
    image: &str,
) -> Result<Value, serde_json::Error> {
    let mut annotations = vec![(TEMPLATE_ANNOTATION.to_owned(), base.note()?)];
    annotations.extend(edited.note().map(|note| (EDITED_ANNOTATION.to_owned(), note)));
    if let Some(good) = good {
        annotations.push((GOOD_ANNOTATION.to_owned(), good.note()?));
    }
    let others: Vec<&str> = resolved.placement.yields_to.iter().map(|(name, _)| name.as_str()).collect();
    if !others.is_empty() {
        annotations.push((YIELDS_ANNOTATION.to_owned(), others.join(",")));
    }
    let object = DaemonSet {
        metadata: ObjectMeta {
            name: Some(resolved.name.clone()),
            namespace: Some(resolved.namespace.clone()),
            labels: Some(labels(&resolved.name, &resolved.pod)),
            annotations: Some(annotations.into_iter().collect()),
            owner_references: Some(vec![owner(resolved)]),
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

/// The OneAgent as the owner of what is made for it.
#[must_use]
pub fn owner(resolved: &Resolved) -> OwnerReference {
    OwnerReference {
        api_version: "dynatrace.com/v1alpha1".into(),
        kind: "OneAgent".into(),
        name: resolved.name.clone(),
        uid: resolved.uid.clone(),
        controller: Some(true),
        // Never blockOwnerDeletion: OpenShift forbids it without a right that we do not want.
        block_owner_deletion: None,
    }
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
    for image in spec.containers.iter_mut().filter_map(|c| c.image.as_mut()) {
        *image = image.replace(SHORT, &version.map(|v| v.short()).unwrap_or_default());
    }
    for variable in spec.containers.iter_mut().flat_map(|c| c.env.iter_mut().flatten()) {
        if let Some(value) = &mut variable.value
            && value.contains(VERSION)
        {
            *value = value.replace(VERSION, &text);
        }
    }
    let pod = &resolved.pod;
    spec.node_selector = (!pod.node_selector.is_empty()).then(|| pod.node_selector.clone());
    spec.tolerations = (!pod.tolerations.is_empty()).then(|| pod.tolerations.clone());
    spec.affinity = Some(affinity(&architectures(resolved, &base.template), &pod.node_affinity, &resolved.placement.yields_to));
    template
}

/// The architectures that a template's agent is for: an image says itself, the installer's address names one. Of the
/// template and not of the spec, which may be ahead of it.
#[must_use]
pub fn architectures(resolved: &Resolved, template: &PodTemplateSpec) -> Vec<String> {
    if resolved.placement.architectures.is_empty() {
        return Vec::new();
    }
    let env = template.spec.iter().flat_map(|spec| &spec.containers).flat_map(|container| container.env.iter().flatten());
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
fn affinity(architectures: &[String], theirs: &NodeAffinity, yields_to: &[(String, Vec<Vec<Requirement>>)]) -> Affinity {
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
    for (_, alternatives) in yields_to {
        terms = with_alternatives(&terms, alternatives);
    }
    if terms.is_empty() {
        // Older OneAgents have every node: one that does not exist is all that is left.
        let nobody = NodeSelectorRequirement { key: "metadata.name".into(), operator: "In".into(), values: Some(vec!["none.invalid".into()]) };
        terms.push(NodeSelectorTerm { match_fields: Some(vec![nobody]), match_expressions: None });
    }
    Affinity {
        node_affinity: Some(NodeAffinity {
            required_during_scheduling_ignored_during_execution: Some(NodeSelector { node_selector_terms: terms }),
            preferred_during_scheduling_ignored_during_execution: theirs.preferred_during_scheduling_ignored_during_execution.clone(),
        }),
        ..Affinity::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::oneagent::OneAgent;
    use crate::oneagent::build::template::{Surroundings, base, hash};
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
        let base = Base { hash: hash(&template).unwrap(), template };
        daemonset(&resolved, &base, "1.301.72.20250601-101010".parse().ok(), None, &Edited::default(), "docker.io/dynatrace/oneagent:latest").unwrap()
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
            "apiUrl": "https://e.example/api/", "tokens": "secret", "skipCertCheck": true, "proxy": { "valueFrom": "proxy" }, "trustedCAs": "ca",
            "nodeSelector": { "kubernetes.io/arch": "arm64" }, "tolerations": [{ "operator": "Exists" }], "image": "registry.example/agent:7",
            "resources": { "limits": { "memory": "1.5Gi" } }, "webhookInjection": true, "args": ["--set-host-group=x"],
            "env": [{ "name": "ONEAGENT_INSTALLER_SKIP_CERT_CHECK", "value": "false" }, { "name": "X", "value": "y" }],
            "priorityClassName": "high", "dnsPolicy": "Default", "serviceAccountName": "mine", "labels": { "team": "ops" }, "useUnprivilegedMode": true,
        })));
    }

    #[test]
    fn placement_is_not_in_the_hash_and_everything_else_is() {
        let hash_of = |spec: serde_json::Value| rendered(spec)["spec"]["template"]["metadata"]["annotations"][HASH_ANNOTATION].clone();
        let plain = hash_of(serde_json::json!({ "apiUrl": "https://e.example/api" }));
        let placed = serde_json::json!({ "apiUrl": "https://e.example/api", "nodeSelector": { "a": "b" }, "tolerations": [{ "operator": "Exists" }], "rollout": { "maxUnavailable": 3 }, "waitReadySeconds": 100 });
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
        assert!(!template::asks_for_the_same(&before, &now, "registry.example/ours:2"), "an image that is nobody's default is the user's");
        assert!(!template::asks_for_the_same(&now, &base_of(with_proxy(), &marked("other")), "i"), "another proxy");
        assert!(!template::asks_for_the_same(&now, &base_of(serde_json::json!({}), &Surroundings::default()), "i"));
        assert_eq!(
            hash(&now).unwrap(),
            hash(&template::with_image(&now, "docker.io/dynatrace/oneagent:latest")).unwrap(),
            "the first releases' hash"
        );
    }

    #[test]
    fn a_note_that_somebody_changed_is_none() {
        let template = base_of(serde_json::json!({}), &Surroundings::default());
        let base = Base { hash: "made by an earlier release".into(), template: template.clone() };
        let note = base.note().unwrap();
        assert_eq!(Base::noted(&note), Some(base));
        assert_eq!(Base::noted(&note.replace("earlier", "later")), None);
        assert_eq!(Base::noted(&note.replace("hostPID\":true", "hostPID\":false")), None);
        assert_eq!(Base::noted(&serde_json::to_string(&template).unwrap()).unwrap().hash, hash(&template).unwrap(), "as 0.2.0 wrote it");
        for nonsense in ["", "{}", "null", "{\"hash\":\"x\"}"] {
            assert_eq!(Base::noted(nonsense), None, "{nonsense}");
        }
    }
}
