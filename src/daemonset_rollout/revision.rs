//! Revisions of a DaemonSet: what a Pod was made from, and which one its template is now.
//!
//! Pure. No field of a DaemonSet says which revision is current, and two watches have no order: so its revisions are
//! listed once its controller has seen its template, and the newest must be that template. A wrong answer would delete
//! Pods that are as desired. Must not list them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::{ControllerRevision, DaemonSet};
use k8s_openapi::api::core::v1::PodTemplateSpec;
use kube::ResourceExt;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::fleet::replicas::REVISION_LABEL;
use crate::rollout;

/// What a Pod was made from: its controller-revision-hash.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Revision(pub String);

impl rollout::Revision for Revision {}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "revision {}", self.0)
    }
}

/// A DaemonSet's Pod.
pub type Pod = rollout::Pod<Revision>;

/// The revisions of a DaemonSet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Revisions {
    /// That of its template.
    pub current: Revision,
    /// Those that differ from it in nothing but what is ignored, itself among them.
    pub alike: BTreeSet<String>,
    /// Their numbers, which `kubectl rollout undo` takes.
    pub numbers: BTreeMap<String, i64>,
}

/// One of them.
#[derive(Debug, Clone, PartialEq)]
pub struct Own {
    pub hash: String,
    pub number: i64,
    pub template: PodTemplateSpec,
    /// The patch that makes a DaemonSet have it.
    pub data: Value,
}

/// A revision that is not written yet has this in the place of its hash.
pub const NEW: &str = "(new)";

/// What a list of them said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// UID and generation of the DaemonSet, and what was ignored.
    pub of: (String, i64, Vec<String>),
    pub revisions: Revisions,
    /// Revisions of Pods that it lacked.
    pub lacked: BTreeSet<String>,
}

/// The revisions of Pods that these do not have: its controller may have given the same template another name since.
#[must_use]
pub fn lacking(revisions: &Revisions, pods: &[Arc<Pod>]) -> BTreeSet<String> {
    let hashes = pods.iter().filter_map(|pod| pod.revision.as_ref()).map(|revision| &revision.0);
    hashes.filter(|hash| !revisions.numbers.contains_key(*hash)).cloned().collect()
}

/// Whether a DaemonSet's controller has seen its template: then the revision of it exists.
#[must_use]
pub fn is_seen(set: &DaemonSet) -> bool {
    let observed = set.status.as_ref().and_then(|status| status.observed_generation);
    set.metadata.generation.is_some() && observed == set.metadata.generation
}

/// Which of these revisions is the template's; `None`: none of them yet.
#[must_use]
pub fn revisions(set: &DaemonSet, all: &[ControllerRevision], ignore: &[String]) -> Option<Revisions> {
    let own = own(set, all);
    let newest = own.iter().max_by_key(|one| one.number)?;
    if newest.template != set.spec.as_ref()?.template {
        return None;
    }
    // As they are stored: a newer API server's fields, which this program does not know, differ, too.
    let wanted = bare(&newest.data, ignore);
    let alike = |one: &Own| bare(&one.data, ignore) == wanted;
    Some(Revisions::of(&newest.hash, alike, &own))
}

/// What they will be once the controller of a DaemonSet has seen this template.
#[must_use]
pub fn foreseen(set: &DaemonSet, all: &[ControllerRevision], ignore: &[String]) -> Revisions {
    let own = own(set, all);
    let template = set.spec.clone().unwrap_or_default().template;
    let same = own.iter().find(|one| one.template == template);
    let (wanted, stored) = (without(&template, ignore), same.map(|one| bare(&one.data, ignore)));
    let is_alike = |one: &Own| match &stored {
        Some(stored) => bare(&one.data, ignore) == *stored,
        None => without(&one.template, ignore) == wanted,
    };
    Revisions::of(same.map_or(NEW, |one| &one.hash), is_alike, &own)
}

/// The revisions of a DaemonSet, as far as they read.
#[must_use]
pub fn own(set: &DaemonSet, all: &[ControllerRevision]) -> Vec<Own> {
    let is_of_it = |one: &&ControllerRevision| {
        let mut owners = one.owner_references().iter().filter(|owner| owner.controller == Some(true));
        owners.any(|owner| Some(&owner.uid) == set.metadata.uid.as_ref())
    };
    let read = |one: &ControllerRevision| {
        let hash = one.labels().get(REVISION_LABEL)?.clone();
        let data = one.data.as_ref()?.0.clone();
        Some(Own { hash, number: one.revision, template: template(&data)?, data })
    };
    all.iter().filter(is_of_it).filter_map(read).collect()
}

impl Revisions {
    fn of(hash: &str, is_alike: impl Fn(&Own) -> bool, own: &[Own]) -> Self {
        let alike = own.iter().filter(|one| is_alike(one)).map(|one| one.hash.clone());
        Self {
            current: Revision(hash.to_owned()),
            alike: alike.chain([hash.to_owned()]).collect(),
            numbers: own.iter().map(|one| (one.hash.clone(), one.number)).collect(),
        }
    }
}

/// The template that a revision holds.
fn template(data: &Value) -> Option<PodTemplateSpec> {
    serde_json::from_value(data.get("spec")?.get("template")?.clone()).ok()
}

/// The template of a revision's data without the labels and annotations that are ignored.
fn bare(data: &Value, ignore: &[String]) -> Value {
    let mut template = data["spec"]["template"].clone();
    if let Some(metadata) = template.get_mut("metadata").and_then(Value::as_object_mut) {
        for of in ["labels", "annotations"] {
            if let Some(all) = metadata.get_mut(of).and_then(Value::as_object_mut) {
                all.retain(|key, _| !ignore.contains(key));
            }
        }
    }
    prune(&mut template);
    template
}

/// Removes what is null or empty: releases of Kubernetes differ in whether they write it.
fn prune(value: &mut Value) {
    let is_empty = |value: &Value| match value {
        Value::Null => true,
        Value::Object(fields) => fields.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => false,
    };
    match value {
        Value::Object(fields) => {
            fields.values_mut().for_each(prune);
            fields.retain(|_, field| !is_empty(field));
        }
        Value::Array(items) => items.iter_mut().for_each(prune),
        _ => {}
    }
}

/// A template without the labels and annotations that are ignored.
fn without(template: &PodTemplateSpec, ignore: &[String]) -> PodTemplateSpec {
    let mut template = template.clone();
    let metadata = template.metadata.get_or_insert_default();
    for map in [&mut metadata.labels, &mut metadata.annotations] {
        if let Some(all) = map {
            all.retain(|key, _| !ignore.contains(key));
        }
        *map = map.take().filter(|all| !all.is_empty());
    }
    template
}

/// Those of the ignored keys that a template lacks.
#[must_use]
pub fn unknown<'k>(set: &DaemonSet, ignore: &'k [String]) -> Vec<&'k str> {
    let metadata = set.spec.as_ref().and_then(|spec| spec.template.metadata.as_ref());
    let has = |key: &String| {
        let maps = metadata.into_iter().flat_map(|metadata| [&metadata.labels, &metadata.annotations]);
        maps.flatten().any(|all| all.contains_key(key))
    };
    ignore.iter().filter(|key| !has(key)).map(String::as_str).collect()
}
