//! Where agents should run: node selector, affinity and tolerations as the engine reads them.
//!
//! Pure. What the API server would refuse is refused here, by its place in the spec. Must not look at a node.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Toleration;

use super::Refusal;
use super::hosts::VIRTUAL_NODES;
use crate::k8s::affinity::toleration;
use crate::k8s::placement::{Placement, Requirement};

pub(super) fn check_toleration(at: usize, toleration: &Toleration) -> Option<Refusal> {
    let field = format!("spec.tolerations[{at}]");
    let filled = |text: &Option<String>| text.as_deref().is_some_and(|t| !t.is_empty());
    match toleration.operator.as_deref().unwrap_or_default() {
        "" | "Equal" if !filled(&toleration.key) => {
            return Some(Refusal(format!(
                "{field} has no key; give one, or use operator Exists to tolerate every taint"
            )));
        }
        "Exists" if filled(&toleration.value) => {
            return Some(Refusal(format!("{field} has operator Exists and a value; remove one of them")));
        }
        "" | "Equal" | "Exists" => {}
        other => return Some(Refusal(format!("{field}.operator is {other:?}; use Exists or Equal"))),
    }
    match toleration.effect.as_deref().unwrap_or_default() {
        "" | "NoSchedule" | "PreferNoSchedule" | "NoExecute" => {}
        other => {
            return Some(Refusal(format!(
                "{field}.effect is {other:?}; use NoSchedule, PreferNoSchedule or NoExecute, or leave it out for all"
            )));
        }
    }
    (toleration.toleration_seconds.is_some() && toleration.effect.as_deref() != Some("NoExecute"))
        .then(|| Refusal(format!("{field}.tolerationSeconds works only with effect NoExecute; remove it")))
}

pub(super) fn placement(
    selector: &BTreeMap<String, String>,
    tolerations: &[Toleration],
    terms: Vec<Vec<Requirement>>,
    architectures: &[&str],
) -> Placement {
    Placement {
        // The template's affinity asks for Linux, too.
        selector: selector.clone().into_iter().chain([("kubernetes.io/os".to_owned(), "linux".to_owned())]).collect(),
        tolerations: tolerations.iter().map(toleration).collect(),
        architectures: architectures.iter().map(|name| (*name).to_owned()).collect(),
        terms,
        needs_network: false,
        yields_to: Vec::new(),
        outside: None,
        virtual_nodes: VIRTUAL_NODES.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect(),
    }
}
