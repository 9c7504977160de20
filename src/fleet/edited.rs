//! Edited: Pods that were made from a DaemonSet which another client had edited, before we could put it back.
//!
//! Such a Pod carries our hash and yet is not what the spec asks for. The DaemonSet controller writes the template's
//! generation on each Pod, so those of the edit are known without a clock; the generation is kept on the DaemonSet
//! until no Pod has it. Of several edits in our absence the last one is seen. Pure; must not decide when a Pod is
//! replaced.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
use kube::ResourceExt;
use serde_json::Value;

use crate::k8s::drift::is_current;
use crate::k8s::facts::TEMPLATE_GENERATION;
use crate::rollout::Pod;

/// What of a template says where its Pods run.
const PLACEMENT: [&str; 3] = ["affinity", "nodeSelector", "tolerations"];

/// Generations of the template that were not ours.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Edited {
    /// All of which Pods run, and the one that is there now.
    pub generations: BTreeSet<u32>,
    /// The one that is there now. Its Pods are not judged before it is put back: what remains after our write was no
    /// edit.
    now: Option<u32>,
    /// Who made the one that is there now, when it was not seen before.
    pub by: Option<String>,
}

impl Edited {
    /// Whether there may be anything to know: this is asked at every look, and costs little.
    #[must_use]
    pub fn may_be(manager: &str, live: &DaemonSet, noted: &BTreeSet<u32>) -> bool {
        !noted.is_empty() || live.managed_fields().iter().any(|entry| editor(manager, entry).is_some())
    }

    /// What is known of a live DaemonSet of ours. `noted` is what its record says, `rendered` the one that we made of
    /// it; `None`: what differs from it a webhook made.
    pub fn read<R>(
        manager: &str,
        live: &DaemonSet,
        noted: &BTreeSet<u32>,
        rendered: Option<&Value>,
        pods: &[Arc<Pod<R>>],
    ) -> Result<Self, serde_json::Error> {
        let mut generations = noted.clone();
        generations.retain(|generation| pods.iter().any(|pod| pod.template_generation == Some(*generation)));
        let now = generation(live);
        let editor = live.managed_fields().iter().find_map(|entry| editor(manager, entry));
        let by = match (editor, now, rendered) {
            (Some(by), Some(now), Some(rendered)) if !is_ours(manager, live, rendered)? => {
                generations.insert(now).then(|| by.to_owned())
            }
            (editor, now, rendered) => {
                now.map(|now| generations.remove(&now));
                // Its Pods differ from ours by a mark only: none is replaced for that.
                editor.zip(rendered).filter(|(_, rendered)| is_marked(live, rendered)).map(|(by, _)| by.to_owned())
            }
        };
        Ok(Self { generations, now, by })
    }

    /// The Pods, with those of an edit as what they are: made from something else. `not_ours`: such a revision, of
    /// that which the Pod says.
    #[must_use]
    pub fn mark<'a, R: Clone>(&self, pods: &'a [Arc<Pod<R>>], not_ours: impl Fn(&R) -> R) -> Cow<'a, [Arc<Pod<R>>]> {
        if self.generations.is_empty() {
            return Cow::Borrowed(pods);
        }
        let mark = |pod: &Arc<Pod<R>>| match (&pod.revision, pod.template_generation) {
            (Some(revision), Some(generation))
                if Some(generation) != self.now && self.generations.contains(&generation) =>
            {
                Arc::new(Pod { revision: Some(not_ours(revision)), ..(**pod).clone() })
            }
            _ => pod.clone(),
        };
        Cow::Owned(pods.iter().map(mark).collect())
    }
}

/// The template's generation.
#[must_use]
pub fn generation(daemonset: &DaemonSet) -> Option<u32> {
    daemonset.annotations().get(TEMPLATE_GENERATION)?.parse().ok()
}

/// Another manager that wrote the template.
fn editor<'e>(ours: &str, entry: &'e ManagedFieldsEntry) -> Option<&'e str> {
    let manager = entry.manager.as_deref().filter(|manager| *manager != ours)?;
    let template = &entry.fields_v1.as_ref()?.0["f:spec"]["f:template"];
    (entry.subresource.is_none() && !template.is_null()).then_some(manager)
}

/// Whether a template has annotations that ours has not, such as that of `kubectl rollout restart`.
fn is_marked(live: &DaemonSet, rendered: &Value) -> bool {
    let metadata = live.spec.as_ref().and_then(|spec| spec.template.metadata.as_ref());
    let theirs = metadata.and_then(|metadata| metadata.annotations.as_ref());
    let ours = &rendered["spec"]["template"]["metadata"]["annotations"];
    theirs.into_iter().flatten().any(|(key, _)| ours[key].is_null())
}

/// Whether a template is ours, its placement aside: the earlier one differs where the spec or the operator was changed
/// since, and a Pod is the same wherever it is.
fn is_ours(manager: &str, live: &DaemonSet, rendered: &Value) -> Result<bool, serde_json::Error> {
    let template = live.spec.as_ref().map(|spec| serde_json::to_value(&spec.template)).transpose()?.unwrap_or_default();
    let mut rendered = rendered["spec"]["template"].clone();
    if let Some(spec) = rendered.get_mut("spec").and_then(Value::as_object_mut) {
        for field in PLACEMENT {
            spec.remove(field);
        }
    }
    Ok(is_current(manager, &rendered, &template, &[]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const MANAGER: &str = "us";
    const NOT_OURS: &str = "edited";

    fn live(image: &str, manager: &str) -> DaemonSet {
        let annotations = json!({ TEMPLATE_GENERATION: "7" });
        let entry = |manager: &str, fields: Value| {
            json!({ "manager": manager, "operation": "Update",
            "fieldsType": "FieldsV1", "fieldsV1": fields })
        };
        serde_json::from_value(json!({
            "metadata": { "name": "agent", "annotations": annotations, "managedFields": [
                entry("labeller", json!({ "f:metadata": { "f:labels": {} } })),
                entry(manager, json!({ "f:spec": { "f:template": { "f:spec": {} } } })),
            ] },
            "spec": { "selector": {}, "template": { "spec": { "containers": [{ "name": "c", "image": image }] } } },
        }))
        .unwrap()
    }

    fn rendered() -> Value {
        json!({ "spec": { "template": { "spec": { "containers": [{ "name": "c", "image": "ours" }] } } } })
    }

    fn not_ours(_: &String) -> String {
        NOT_OURS.to_owned()
    }

    fn pod(generation: u32) -> Arc<Pod<String>> {
        Arc::new(Pod { revision: Some("h".to_owned()), template_generation: Some(generation), ..Pod::named("p", "n") })
    }

    #[test]
    fn pods_of_an_edit_are_outdated_until_none_is_left() {
        let found = Edited::read(
            MANAGER,
            &live("theirs", "kubectl-edit"),
            &[3, 4].into(),
            Some(&rendered()),
            &[pod(3), pod(6), pod(7)],
        )
        .unwrap();
        assert_eq!((&found.generations, found.by.as_deref()), (&[3, 7].into(), Some("kubectl-edit")));
        let hashes: Vec<String> =
            found.mark(&[pod(3), pod(6), pod(7)], not_ours).iter().map(|pod| pod.revision.clone().unwrap()).collect();
        assert_eq!(hashes, [NOT_OURS, "h", "h"], "the present one is put back first");
        // Put back, the template has another generation.
        let mut after = live("ours", MANAGER);
        after.annotations_mut().insert(TEMPLATE_GENERATION.to_owned(), "8".into());
        let later = Edited::read(MANAGER, &after, &[3, 7].into(), Some(&rendered()), &[pod(7), pod(8)]).unwrap();
        let hashes: Vec<String> =
            later.mark(&[pod(7), pod(8)], not_ours).iter().map(|pod| pod.revision.clone().unwrap()).collect();
        assert_eq!(
            (later.generations, later.by, hashes),
            ([7].into(), None, vec![NOT_OURS.to_owned(), "h".to_owned()])
        );
        assert!(
            Edited::read(MANAGER, &after, &[3, 7].into(), Some(&rendered()), &[pod(8)]).unwrap().generations.is_empty()
        );
    }

    #[test]
    fn who_writes_what_is_ours_already_edits_nothing() {
        for (image, manager, noted) in [("ours", "argocd", [].into()), ("theirs", MANAGER, [7].into())] {
            let found = Edited::read(MANAGER, &live(image, manager), &noted, Some(&rendered()), &[pod(7)]).unwrap();
            assert_eq!((found.generations, found.by), ([].into(), None), "{manager}");
        }
    }

    #[test]
    fn a_restart_by_hand_is_said_and_costs_no_pod() {
        let mut live = live("ours", "kubectl-rollout");
        let template = &mut live.spec.as_mut().unwrap().template;
        let mark = ("kubectl.kubernetes.io/restartedAt".to_owned(), "2026-01-01T00:00:00Z".to_owned());
        template.metadata.get_or_insert_default().annotations = Some([mark].into());
        let found = Edited::read(MANAGER, &live, &[3].into(), Some(&rendered()), &[pod(3), pod(7)]).unwrap();
        assert_eq!((found.generations, found.by.as_deref()), ([3].into(), Some("kubectl-rollout")));
    }

    #[test]
    fn a_placement_that_left_the_spec_is_no_edit() {
        let mut rendered = rendered();
        rendered["spec"]["template"]["spec"]["nodeSelector"] = json!({ "disk": "ssd" });
        let found = Edited::read(MANAGER, &live("ours", "tool"), &BTreeSet::new(), Some(&rendered), &[pod(7)]).unwrap();
        assert_eq!((found.generations, found.by), ([].into(), None));
    }

    #[test]
    fn what_stays_after_we_wrote_is_a_webhooks() {
        let found = Edited::read(MANAGER, &live("theirs", "tool"), &[3, 7].into(), None, &[pod(3), pod(7)]).unwrap();
        assert_eq!((found.generations, found.by), ([3].into(), None));
    }
}
