//! `plan` of DaemonSetRollouts: what an edit of one, or of its DaemonSet, would do.
//!
//! Writes nothing: a DaemonSet of a file is sent as a dry run, so that the template is what the API server makes of it.
//! Must not judge anything itself: that is the operator's own code.

use chrono::{DateTime, Utc};
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::PodTemplateSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
use kube::ResourceExt;
use kube::api::Api;
use serde_json::Value;

use super::super::asked::Subject;
use super::super::read::{self, Edited, Reader, of_kind};
use super::read::lists;
use crate::api::daemonset_rollout::DaemonSetRollout;
use crate::api::nearest::nearest;
use crate::daemonset_rollout::listed::{Listed, Lists};
use crate::daemonset_rollout::preview::preview;
use crate::fleet::preview::Preview;
use crate::kernel::dry_run;

/// What `kubectl rollout restart` adds; no file has it, and it stays.
const RESTARTED: &str = "kubectl.kubernetes.io/restartedAt";

/// What would become of the Pods of the DaemonSetRollouts that are asked about.
pub(in crate::cli) async fn plan(
    reader: Reader<'_>,
    args: &Subject,
    edited: Option<Edited>,
    now: DateTime<Utc>,
) -> Result<Vec<Preview>, String> {
    let (edited, others) = edited.map(of_kind::<DaemonSetRollout>).transpose()?.unwrap_or_default();
    let sets: Vec<Value> = others.into_iter().filter(|object| object["kind"] == "DaemonSet").collect();
    let live = reader.within::<DaemonSetRollout>(args.namespace.as_deref(), "daemonsetrollouts", "").await?;
    let (all, wanted) = wanted(args, edited, &sets, live)?;
    let mut lists = Lists { nodes: reader.all("nodes").await?, ..lists(reader, all).await? };
    let mut befores: Vec<Option<PodTemplateSpec>> = Vec::new();
    for object in &wanted {
        let of_file = sets.iter().find(|set| names(object, set));
        befores.push(match of_file {
            Some(written) => Some(edit(reader, &mut lists.sets, object, written).await?),
            None => None,
        });
    }
    let listed = Listed::of(lists);
    let mut previews = Vec::new();
    for (object, before) in wanted.iter().zip(&befores) {
        let name = format!("DaemonSetRollout {}/{}", object.namespace().unwrap_or_default(), object.name_any());
        let said = preview(&listed, object, before.as_ref(), now);
        previews.push(said.map_err(|why| format!("{name}: {why}"))?);
    }
    Ok(previews)
}

/// Whether an object names a DaemonSet of a file, which need not say its namespace.
fn names(object: &DaemonSetRollout, set: &Value) -> bool {
    let namespace = set["metadata"]["namespace"].as_str();
    set["metadata"]["name"] == *object.spec.daemon_set
        && namespace.is_none_or(|namespace| object.namespace().as_deref() == Some(namespace))
}

/// All objects with the edits of the file, and those of them that are asked about.
fn wanted(
    args: &Subject,
    edited: Vec<DaemonSetRollout>,
    sets: &[Value],
    mut all: Vec<DaemonSetRollout>,
) -> Result<(Vec<DaemonSetRollout>, Vec<DaemonSetRollout>), String> {
    let is_named = |object: &DaemonSetRollout| args.name.as_ref().is_none_or(|name| object.name_any() == *name);
    let is_of_file = !edited.is_empty();
    let mut wanted = Vec::new();
    for object in edited {
        let Some(namespace) = object.namespace().or_else(|| args.namespace.clone()) else {
            let name = object.name_any();
            return Err(format!("DaemonSetRollout {name} of the file has no namespace; name it with -n"));
        };
        wanted.push(read::edited(&mut all, object, namespace));
    }
    if !is_of_file {
        let is_of_set = |object: &&DaemonSetRollout| args.file.is_none() || sets.iter().any(|set| names(object, set));
        wanted = all.iter().filter(is_of_set).cloned().collect();
    }
    wanted.retain(is_named);
    if !wanted.is_empty() {
        return Ok((all, wanted));
    }
    let names: Vec<String> = all.iter().map(ResourceExt::name_any).collect();
    let place = args.namespace.as_ref().map_or("any namespace".to_owned(), |name| format!("namespace {name}"));
    Err(match (&args.name, &args.file) {
        (Some(name), _) if !names.contains(name) => {
            format!("there is no DaemonSetRollout {name} in {place}{}", nearest(name, &names))
        }
        (_, Some(file)) => {
            format!("{} holds neither a DaemonSetRollout nor a DaemonSet that one names in {place}", file.display())
        }
        _ => format!("there is no DaemonSetRollout in {place}"),
    })
}

/// Puts a DaemonSet into the lists as the API server would make it of what is written; returns its present template.
async fn edit(
    reader: Reader<'_>,
    sets: &mut [DaemonSet],
    object: &DaemonSetRollout,
    written: &Value,
) -> Result<PodTemplateSpec, String> {
    let (namespace, name) = (object.namespace().unwrap_or_default(), object.spec.daemon_set.clone());
    let is_it = |set: &&mut DaemonSet| set.name_any() == name && set.namespace().as_deref() == Some(&namespace);
    let Some(live) = sets.iter_mut().find(is_it) else {
        return Err(format!("DaemonSet {namespace}/{name} does not exist yet: no Pod of it is there to be replaced"));
    };
    let api: Api<DaemonSet> = Api::namespaced(reader.client.clone(), &namespace);
    let mut wanted = written.clone();
    wanted["metadata"]["namespace"] = namespace.clone().into();
    // What `kubectl get -o yaml` prints beside what people write.
    for key in ["managedFields", "resourceVersion", "uid", "generation", "creationTimestamp"] {
        wanted["metadata"].as_object_mut().map(|metadata| metadata.remove(key));
    }
    wanted.as_object_mut().map(|object| object.remove("status"));
    let applier = applier(live);
    if let (None, Some(at)) = (applier, template(live).metadata.and_then(|of| of.annotations?.remove(RESTARTED))) {
        let annotations = &mut wanted["spec"]["template"]["metadata"]["annotations"];
        if annotations[RESTARTED].is_null() {
            annotations[RESTARTED] = at.into();
        }
    }
    let made = match dry_run(&api, live, &wanted, applier).await {
        Ok(made) => made,
        Err(error) => {
            let request = format!("make a dry run of DaemonSet {namespace}/{name}");
            return Err(reader.unanswered(&request, &error));
        }
    };
    let before = template(live);
    *live = made;
    Ok(before)
}

fn template(set: &DaemonSet) -> PodTemplateSpec {
    set.spec.clone().unwrap_or_default().template
}

/// The field manager that owns the containers by server-side apply, if one does.
fn applier(set: &DaemonSet) -> Option<&str> {
    let owns = |entry: &&ManagedFieldsEntry| {
        let spec = |fields: &Value| !fields["f:spec"]["f:template"]["f:spec"]["f:containers"].is_null();
        entry.operation.as_deref() == Some("Apply") && entry.fields_v1.as_ref().is_some_and(|fields| spec(&fields.0))
    };
    set.managed_fields().iter().find(owns)?.manager.as_deref()
}
