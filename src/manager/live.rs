//! Workloads as the API server has them, as far as a plan needs them.
//!
//! Pure. Must not judge whether they serve.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::{DaemonSet, StatefulSet};
use k8s_openapi::api::core::v1::PodTemplateSpec;
use kube::ResourceExt;

use super::objects::recorded;
use crate::k8s::drift::APPLIED_ANNOTATION;
use crate::k8s::facts::{ADDRESSES, TEMPLATE, TEMPLATE_GENERATION, TRUSTS};

/// A workload as the API server has it.
#[derive(Debug, Default)]
pub struct Live {
    /// Whose it is, if it is not ours: kind and name.
    pub foreign: Option<(String, String)>,
    pub applied: String,
    /// Hash of the template that new Pods are made from.
    pub template: String,
    /// By which entry new Pods see the newest authority that they trust.
    pub trusts: String,
    /// Whether its controller has seen it as it is.
    pub is_observed: bool,
    /// How many Pods its controller wants.
    pub desired: usize,
    pub nodes: Vec<String>,
    /// Their addresses when it was written, by node: one that is gone cannot be asked.
    pub addresses: BTreeMap<String, String>,
}

/// Of a StatefulSet; `uid`: the Manager's.
#[must_use]
pub fn stateful_set(set: &StatefulSet, uid: &str) -> Live {
    let (spec, status) = (set.spec.as_ref(), set.status.as_ref());
    let affinity = spec.and_then(|spec| spec.template.spec.as_ref()?.affinity.as_ref());
    Live {
        is_observed: status.and_then(|status| status.observed_generation) == set.metadata.generation,
        desired: count(spec.and_then(|spec| spec.replicas)),
        nodes: affinity
            .and_then(|affinity| serde_json::to_value(affinity).ok())
            .map(|all| recorded(&all))
            .unwrap_or_default(),
        addresses: set.annotations().get(ADDRESSES).map(|all| addresses(all)).unwrap_or_default(),
        template: spec
            .and_then(|spec| spec.template.metadata.as_ref()?.annotations.as_ref()?.get(TEMPLATE).cloned())
            .unwrap_or_default(),
        trusts: trusts(spec.map(|spec| &spec.template)),
        ..live(set, uid)
    }
}

fn trusts(template: Option<&PodTemplateSpec>) -> String {
    let annotations = template.and_then(|template| template.metadata.as_ref()?.annotations.as_ref());
    annotations.and_then(|all| all.get(TRUSTS)).cloned().unwrap_or_default()
}

fn addresses(all: &str) -> BTreeMap<String, String> {
    let pairs = all.split(',').filter_map(|one| one.split_once('='));
    pairs.map(|(node, address)| (node.to_owned(), address.to_owned())).collect()
}

/// The revision of which a StatefulSet's new Pods are, once its controller has seen it as it is.
#[must_use]
pub fn newest_revision(set: &StatefulSet) -> Option<&str> {
    let status = set.status.as_ref().filter(|status| status.observed_generation == set.metadata.generation)?;
    status.update_revision.as_deref()
}

/// The generation of a DaemonSet's template, once its controller has seen it as it is.
#[must_use]
pub fn newest_generation(set: &DaemonSet) -> Option<&str> {
    let seen = set.status.as_ref().and_then(|status| status.observed_generation);
    let annotations = set.metadata.annotations.as_ref().filter(|_| seen == set.metadata.generation)?;
    annotations.get(TEMPLATE_GENERATION).map(String::as_str)
}

/// Of a DaemonSet.
#[must_use]
pub fn daemon_set(set: &DaemonSet, uid: &str) -> Live {
    let status = set.status.as_ref();
    Live {
        is_observed: status.and_then(|status| status.observed_generation) == set.metadata.generation,
        desired: count(status.map(|status| status.desired_number_scheduled)),
        trusts: trusts(set.spec.as_ref().map(|spec| &spec.template)),
        ..live(set, uid)
    }
}

fn count(number: Option<i32>) -> usize {
    number.and_then(|number| usize::try_from(number).ok()).unwrap_or_default()
}

/// Whose an object is, if that is another one's than this UID's: kind and name.
#[must_use]
pub fn controller(object: &impl ResourceExt, uid: &str) -> Option<(String, String)> {
    let owner = object.owner_references().iter().find(|owner| owner.controller == Some(true));
    owner.filter(|owner| owner.uid != uid).map(|owner| (owner.kind.clone(), owner.name.clone()))
}

fn live(object: &impl ResourceExt, uid: &str) -> Live {
    Live {
        foreign: controller(object, uid),
        applied: object.annotations().get(APPLIED_ANNOTATION).cloned().unwrap_or_default(),
        ..Live::default()
    }
}
