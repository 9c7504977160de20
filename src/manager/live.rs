//! Workloads as the API server has them, as far as a plan needs them.
//!
//! Pure. Must not judge whether they serve.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::{DaemonSet, StatefulSet};
use k8s_openapi::api::core::v1::PodTemplateSpec;
use kube::ResourceExt;

use super::objects::{recorded, sealed};
use crate::api::manager::package::PACKAGE;
use crate::k8s::drift::APPLIED_ANNOTATION;
use crate::k8s::facts::{ADDRESSES, TEMPLATE, TEMPLATE_GENERATION, TRUSTS};
use crate::k8s::ownership::owns_annotation;

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
    /// Whether these are the nodes that we wrote last. Others may be another client's.
    pub is_recorded: bool,
    /// Their addresses when it was written, by node: one that is gone cannot be asked.
    pub addresses: BTreeMap<String, String>,
}

/// Of a StatefulSet; `uid`: the Manager's.
#[must_use]
pub fn stateful_set(set: &StatefulSet, uid: &str) -> Live {
    let (spec, status) = (set.spec.as_ref(), set.status.as_ref());
    let affinity = spec.and_then(|spec| spec.template.spec.as_ref()?.affinity.as_ref());
    let affinity = || affinity.and_then(|affinity| serde_json::to_value(affinity).ok());
    let record = record(set);
    Live {
        is_observed: status.and_then(|status| status.observed_generation) == set.metadata.generation,
        desired: count(spec.and_then(|spec| spec.replicas)),
        is_recorded: record.is_some(),
        nodes: match &record {
            Some(record) => record.iter().map(|(node, _)| node.clone()).collect(),
            None => affinity().map(|all| recorded(&all)).unwrap_or_default(),
        },
        addresses: record.into_iter().flatten().collect(),
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

/// The nodes and addresses that we wrote last; `None`: another client may have changed them. The hash shows a change
/// whose field was taken over, and which the apply after that did not undo.
fn record(set: &StatefulSet) -> Option<Vec<(String, String)>> {
    let all = set.annotations();
    let (record, applied) = (all.get(ADDRESSES)?, all.get(APPLIED_ANNOTATION)?);
    let is_ours = owns_annotation(PACKAGE.name, set.managed_fields(), ADDRESSES) && applied.ends_with(&sealed(record));
    let pairs = record.split(',').filter_map(|one| one.split_once('='));
    is_ours.then(|| pairs.map(|(node, address)| (node.to_owned(), address.to_owned())).collect())
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
