//! Act: writes what a plan lets be written, component by component, and removes what is not wanted any more.
//!
//! Writes only through `kernel`. What one component is refused keeps no other waiting. Must not decide anything.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::time::Duration;

use k8s_openapi::api::apps::v1::{DaemonSet, StatefulSet};
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret, Service};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::{Metadata, NamespaceResourceScope};
use kube::api::{Api, ObjectMeta};
use kube::{Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::context::Cx;
use super::enrol::enrol;
use super::fleet::{Inner, Objects};
use super::issue::{authority, issue};
use super::observe::Seen;
use super::part::{Of, Plan, Replacement, Surplus};
use super::store::thaw;
use crate::api::manager::condition::Reason;
use crate::kernel::kind::Acted;
use crate::kernel::set::{find, remove};
use crate::kernel::{self};

/// What was refused is tried again.
const AGAIN: Duration = Duration::from_secs(30);
/// What is due by the clock is done a moment later.
const CLOCK_MARGIN: Duration = Duration::from_millis(20);

/// What came of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Done {
    /// Components of which something was written just now.
    pub written: BTreeSet<Of>,
    /// Components that were refused something, and why.
    pub refused: BTreeMap<Of, (Reason, String)>,
    /// What hinders the certificate authority.
    pub authority: Option<String>,
    /// The time of this reconcile was over before all was written.
    pub is_unfinished: bool,
}

impl Done {
    /// Notes what a component was refused, as far as that is to be reported.
    fn refuse(&mut self, cx: &Cx<'_>, of: &Of, failed: &kernel::Error) {
        if let Some(why) = cx.state.complaint(failed) {
            let why = format!("{failed}: {why}");
            self.refused.entry(of.clone()).or_insert((Reason::WriteRefused, why));
        }
    }
}

/// Carries a plan out.
pub async fn act(cx: &Cx<'_>, seen: &Seen, plan: &Plan, done: &mut Done) -> Acted {
    let mut error = None;
    // What one component is refused keeps no Pod of another from being replaced.
    let mut is_uncertain = false;
    let is_its = |of: &Of| plan.replacement.as_ref().is_some_and(|replacement| replacement.of == *of);
    if !seen.stopped {
        if let Some(needs) = &plan.authority {
            match authority(cx, seen, needs).await {
                Ok(why) => done.authority = why,
                Err(failed) => {
                    is_uncertain = true;
                    error = Some(failed);
                }
            }
        }
        for part in &plan.parts {
            let of = (part.row, part.name.clone());
            for object in &part.objects {
                if !cx.state.has_time() {
                    done.is_unfinished = true;
                    break;
                }
                match write(cx, seen, object).await {
                    Ok(Written::Now) => drop(done.written.insert(of.clone())),
                    Ok(Written::Before) => {}
                    Ok(Written::Foreign(whose)) => {
                        let (kind, name) = (text(&object["kind"]), text(&object["metadata"]["name"]));
                        let why = format!("{kind} {name} {whose}; rename the component, or remove the other");
                        done.refused.entry(of.clone()).or_insert((Reason::NameTaken, why));
                    }
                    Err(failed) => {
                        is_uncertain |= failed.objection().is_none() || is_its(&of);
                        done.refuse(cx, &of, &failed);
                        error = error.or(Some(failed));
                    }
                }
            }
        }
        let mut note = |of: &Of, came: Result<Option<(Reason, String)>, kernel::Error>| match came {
            Ok(None) => drop(done.written.insert(of.clone())),
            Ok(Some(why)) => drop(done.refused.entry(of.clone()).or_insert(why)),
            Err(failed) => {
                is_uncertain |= failed.objection().is_none() || is_its(of);
                done.refuse(cx, of, &failed);
                error.get_or_insert(failed);
            }
        };
        for (of, one) in &plan.enrolments {
            note(of, enrol(cx, seen, one).await);
        }
        for (of, one) in &plan.issues {
            let came = issue(cx, seen, one).await;
            note(of, came.map(|why| why.map(|why| (Reason::NameTaken, why))));
        }
        for surplus in &plan.surplus {
            let failed = delete(cx, seen, surplus).await.err();
            is_uncertain |= failed.is_some();
            error = failed.or(error);
        }
    }
    let may_replace = !seen.stopped && !is_uncertain && !done.is_unfinished && done.written.is_empty();
    if let Some(replacement) = plan.replacement.as_ref().filter(|_| may_replace) {
        error = replace(cx, seen, replacement).await.err().or(error);
    }
    let wanted: BTreeSet<String> = plan.parts.iter().flat_map(|part| &part.objects).map(id).collect();
    cx.state.own.keep(|of| wanted.contains(of));
    let waits = [
        done.is_unfinished.then_some(CLOCK_MARGIN),
        (!done.refused.is_empty() || done.authority.is_some()).then_some(AGAIN),
        plan.next.map(|at| (at - cx.clock.now()).to_std().unwrap_or_default() + CLOCK_MARGIN),
    ];
    Acted { error, next: waits.into_iter().flatten().min(), busy_until: None }
}

/// What came of writing an object.
enum Written {
    Now,
    /// It existed as desired.
    Before,
    /// It is another owner's: in words.
    Foreign(&'static str),
}

async fn write(cx: &Cx<'_>, seen: &Seen, object: &Value) -> Result<Written, kernel::Error> {
    match object["kind"].as_str() {
        Some("StatefulSet") => one::<StatefulSet>(cx, seen, object, |all| &mut all.stateful_sets).await,
        Some("DaemonSet") => one::<DaemonSet>(cx, seen, object, |all| &mut all.daemon_sets).await,
        Some("ConfigMap") => one::<ConfigMap>(cx, seen, object, |all| &mut all.config_maps).await,
        Some("Secret") => one::<Secret>(cx, seen, object, |all| &mut all.secrets).await,
        Some("Service") => one::<Service>(cx, seen, object, |all| &mut all.services).await,
        _ => one::<PodDisruptionBudget>(cx, seen, object, |all| &mut all.budgets).await,
    }
}

/// Writes one object, unless it is as desired.
async fn one<K>(
    cx: &Cx<'_>,
    seen: &Seen,
    object: &Value,
    of: fn(&mut Inner) -> &mut Objects<K>,
) -> Result<Written, kernel::Error>
where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>
        + Metadata<Ty = ObjectMeta>
        + Serialize
        + DeserializeOwned
        + Clone
        + Debug,
{
    let (namespace, name) = (&*seen.resolved.namespace, text(&object["metadata"]["name"]));
    let api: Api<K> = Api::namespaced(cx.client.clone(), namespace);
    let mut live = cx.kind.fleet.with(|all| of(all).get(namespace, &name).cloned());
    let is_ours = |live: &K| live.owner_references().iter().any(|owner| owner.uid == seen.resolved.uid);
    if live.is_none() {
        // One without our labels is in no watch of ours: it may be anyone's.
        live = find(&api, &text(&object["kind"]), &name).await?;
        if live.as_ref().is_some_and(|live| !is_ours(live)) {
            return Ok(Written::Foreign("was there before, and has no owner reference to this Manager"));
        }
    }
    if live.as_ref().is_some_and(|live| live.meta().deletion_timestamp.is_some()) {
        // It is created again once it is gone; the watch says so.
        return Ok(Written::Before);
    }
    let belief = cx.state.own.belief(&id(object));
    let stored = match belief.apply(cx.manager, &api, object, live.as_ref()).await {
        Err(failed) if failed.has_code(&[422]) => {
            let frozen = live.as_ref().filter(|live| is_ours(live) && is_immutable(*live));
            let Some(uid) = frozen.and_then(ResourceExt::uid) else { return Err(failed) };
            // All of it is drawn from the spec: it is created again once the watch shows that it is gone.
            return thaw::<K>(cx, (namespace, &name), &uid).await.map(|()| Written::Now);
        }
        stored => stored?,
    };
    let Some(stored) = stored else { return Ok(Written::Before) };
    cx.kind.fleet.with(|all| of(all).keep(stored));
    Ok(Written::Now)
}

/// Whether a ConfigMap or Secret takes no other entries.
fn is_immutable(object: &impl Serialize) -> bool {
    serde_json::to_value(object).is_ok_and(|object| object["immutable"] == true)
}

/// Deletes a Pod, for its controller to make one of the present template.
async fn replace(cx: &Cx<'_>, seen: &Seen, replacement: &Replacement) -> Result<(), kernel::Error> {
    let Replacement { of, pod, uid } = replacement;
    let (namespace, name) = (&*seen.resolved.namespace, &*seen.resolved.name);
    // A stop in the middle is heard.
    if cx.is_stopped(cx.key).await? {
        return Ok(());
    }
    let api: Api<Pod> = Api::namespaced(cx.client.clone(), namespace);
    cx.state.own.deleted.lock().insert(uid.clone());
    let deleted = remove(&api, "Pod", pod, Some(uid.clone())).await;
    match &deleted {
        Ok(true) => {
            let component = &*of.1;
            tracing::info!(namespace, name, component, pod, "Pod removed: its successor gets the present template");
            cx.metrics.replaced();
        }
        // It has gone before, or the API server has said that it stays.
        Ok(false) => drop(cx.state.own.deleted.lock().remove(uid)),
        Err(failed) if failed.objection().is_some() => drop(cx.state.own.deleted.lock().remove(uid)),
        // Without an answer it may be gone: it counts until the watch says otherwise.
        Err(_) => {}
    }
    deleted.map(drop)
}

async fn delete(cx: &Cx<'_>, seen: &Seen, surplus: &Surplus) -> Result<(), kernel::Error> {
    let (client, namespace) = (cx.client.clone(), &*seen.resolved.namespace);
    let name = &*surplus.name;
    let uid = Some(surplus.uid.clone());
    tracing::info!(namespace, kind = surplus.kind, name, "not in the spec any more; it is deleted");
    let deleted = match surplus.kind {
        "StatefulSet" => remove(&Api::<StatefulSet>::namespaced(client, namespace), surplus.kind, name, uid).await,
        "DaemonSet" => remove(&Api::<DaemonSet>::namespaced(client, namespace), surplus.kind, name, uid).await,
        "ConfigMap" => remove(&Api::<ConfigMap>::namespaced(client, namespace), surplus.kind, name, uid).await,
        "Secret" => remove(&Api::<Secret>::namespaced(client, namespace), surplus.kind, name, uid).await,
        "Service" => remove(&Api::<Service>::namespaced(client, namespace), surplus.kind, name, uid).await,
        _ => remove(&Api::<PodDisruptionBudget>::namespaced(client, namespace), surplus.kind, name, uid).await,
    };
    deleted.map(drop)
}

/// How an object is told among those of a Manager.
fn id(object: &Value) -> String {
    format!("{}/{}", text(&object["kind"]), text(&object["metadata"]["name"]))
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
