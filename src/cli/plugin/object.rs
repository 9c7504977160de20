//! An object of any kind that replaces Pods, as far as all of them are alike.
//!
//! Reads only. Must not judge: what a status says is repeated.

use chrono::{DateTime, Utc};
use kube::api::{Api, DynamicObject, ListParams};
use kube::{Client, ResourceExt};
use serde::Deserialize;
use serde_json::Value;

use super::super::read::{Reader, unknown_form};
use super::managed::{Managed, SEEN};
use super::paint::note;
use super::{ACT, Cx, UNDER_WAY, WELL};
use crate::api::condition::Condition;
use crate::api::nearest::nearest;
use crate::api::rollout::{FailureStatus, NodeCounts, RolloutStatus};
use crate::fleet::finding::{Finding, Kind, Status, Told};
use crate::fleet::policy::soak;
use crate::fleet::time;
use crate::kernel::Reached;

/// One object.
#[derive(Debug, Clone)]
pub(super) struct Object {
    pub(super) kind: Managed,
    pub(super) whole: DynamicObject,
    /// `None`: no operator has written a status yet.
    pub(super) status: Option<Head>,
    /// Why the status that is there cannot be read.
    unread: Option<String>,
}

/// What all their statuses have.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Head {
    pub(super) observed_generation: Option<i64>,
    pub(super) conditions: Vec<Condition>,
    pub(super) nodes: Option<NodeCounts>,
    pub(super) rollout: Option<RolloutStatus>,
    pub(super) desired_version: Option<String>,
    pub(super) last_good_version: Option<String>,
    pub(super) rejected_versions: Vec<String>,
    daemon_set: Set,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Set {
    revision: Option<String>,
}

impl Object {
    pub(super) fn of(kind: Managed, whole: DynamicObject) -> Self {
        let mut status = whole.data["status"].clone();
        // A ConfigWatcher's failure is a sentence.
        if let Some(message) = status["rollout"]["failure"].as_str().map(str::to_owned) {
            let failure = FailureStatus { message, ..FailureStatus::default() };
            status["rollout"]["failure"] = serde_json::to_value(failure).unwrap_or_default();
        }
        let status = Option::<Head>::deserialize(status).map_err(|error| error.to_string());
        let unread = status.as_ref().err().cloned();
        Self { kind, whole, status: status.ok().flatten(), unread }
    }

    pub(super) fn name(&self) -> String {
        self.whole.name_any()
    }

    pub(super) fn namespace(&self) -> String {
        self.whole.namespace().unwrap_or_default()
    }

    /// Kind, namespace and name, as a sentence has them.
    pub(super) fn who(&self) -> String {
        format!("{} {}/{}", self.kind.name(), self.namespace(), self.name())
    }

    pub(super) fn spec(&self) -> &Value {
        &self.whole.data["spec"]
    }

    pub(super) fn rollout(&self) -> RolloutStatus {
        self.status.as_ref().and_then(|status| status.rollout.clone()).unwrap_or_default()
    }

    /// What its Pods are to become.
    pub(super) fn to(&self) -> Option<&str> {
        let status = self.status.as_ref()?;
        status.desired_version.as_deref().or(status.daemon_set.revision.as_deref())
    }

    pub(super) fn condition(&self, type_: &str) -> Option<&Condition> {
        self.status.as_ref()?.conditions.iter().find(|condition| condition.type_ == type_)
    }

    /// What a person must fix, if anything.
    pub(super) fn degraded(&self) -> Option<&Condition> {
        self.condition("Degraded").filter(|condition| condition.status == "True")
    }

    /// Whether its last edit was looked at.
    pub(super) fn is_observed(&self) -> bool {
        let observed = self.status.as_ref().and_then(|status| status.observed_generation);
        self.status.is_some() && observed == self.whole.metadata.generation
    }

    fn told(&self) -> Told<'_> {
        Told {
            metadata: &self.whole.metadata,
            resource: self.kind.typed(),
            operator: self.kind.operator(),
            pods: self.kind.pods(),
            to: (self.kind.revision(), self.to()),
            promoted: self.whole.data.pointer("/spec/rollout/promote").and_then(serde_json::Value::as_str),
            status: self.status.as_ref().map(|status| Status {
                observed: status.observed_generation,
                conditions: &status.conditions,
                rollout: status.rollout.as_ref(),
                nodes: status.nodes.as_ref(),
            }),
        }
    }

    /// The commands by which a person says what follows the canaries, while that is awaited.
    pub(super) fn promotion(&self) -> Option<[String; 2]> {
        self.told().promotion()
    }

    /// How it is, in a line.
    pub(super) fn conclusion(&self) -> Finding {
        let conclusion = self.told().conclusion();
        if let Some(why) = &self.unread {
            return Finding { what: unknown_form(why), remedy: None, ..conclusion };
        }
        let ready = self.condition("Ready").filter(|_| self.is_observed());
        match (self.kind, self.degraded().or(ready)) {
            (Managed::Configwatcher, Some(said)) => {
                Finding { what: format!("{}: {}", self.state(), said.message), ..conclusion }
            }
            _ => conclusion,
        }
    }

    /// The state of its rollout, in a word.
    pub(super) fn state(&self) -> String {
        let state = self.rollout().state;
        if state.is_empty() { "Unknown".to_owned() } else { state }
    }

    /// Whether nothing is left to wait for, where the rollout is over. Pods of a node that is cordoned, NotReady or
    /// left out wait for their node, as long as that may take. What a Pod is must be known, and reached.
    pub(super) fn is_settled(&self) -> bool {
        let is_under_way = self.condition("Progressing").is_some_and(|progressing| progressing.status == "True");
        let ready = self.condition("Ready").filter(|_| !is_under_way);
        let counts = self.status.as_ref().and_then(|status| status.nodes.as_ref());
        let is_known = counts.is_none_or(|counts| counts.held_back == 0 && counts.version_unknown == 0);
        ready.is_some_and(|ready| ready.status == "True" || (ready.reason == "Outdated" && is_known))
    }

    /// The exit code that says how it is.
    pub(super) fn code(&self) -> u8 {
        let is_over = self.is_observed() && matches!(self.state().as_str(), "Complete" | "RolledBack");
        match self.conclusion().kind {
            Kind::Act => ACT,
            _ if is_over && self.is_settled() => WELL,
            _ => UNDER_WAY,
        }
    }

    /// Seconds within which a new Pod must be Ready.
    pub(super) fn wait_ready_seconds(&self) -> u64 {
        let spec = self.spec();
        let of_rollout = spec["rollout"]["waitReadySeconds"].as_u64();
        of_rollout.or(spec["waitReadySeconds"].as_u64()).filter(|seconds| *seconds > 0).unwrap_or(300)
    }

    /// Whether the canaries of what is desired have soaked; `None`: there are none.
    pub(super) fn canaries(&self) -> Option<bool> {
        if self.spec()["rollout"]["canary"].is_null() {
            return None;
        }
        let memory = self.rollout().memory.unwrap_or_default();
        Some(self.engine(&memory)["proof"]["passed"] == true || self.state() == "Complete")
    }

    /// When the canaries will have soaked, if all of them are available.
    pub(super) fn soaks_until(&self) -> Option<DateTime<Utc>> {
        let soak = soak(self.spec()["rollout"]["canary"]["soak"].as_str())?;
        let memory = self.rollout().memory.unwrap_or_default();
        Some(time(self.engine(&memory)["proof"]["since"].as_str()?)? + soak)
    }

    /// What the engine remembers.
    fn engine<'m>(&self, memory: &'m Value) -> &'m Value {
        if self.kind == Managed::Oneagent { &memory["rollout"] } else { &memory["engine"] }
    }
}

/// The exit code that says how several are: that of the one which most needs a person.
pub(super) fn code(objects: &[Object]) -> u8 {
    let order = |code: &u8| [WELL, UNDER_WAY, ACT].iter().position(|known| known == code);
    objects.iter().map(Object::code).max_by_key(order).unwrap_or(WELL)
}

/// The API of a kind.
pub(super) fn api(client: &Client, kind: Managed, namespace: Option<&str>) -> Api<DynamicObject> {
    let resource = kind.resource();
    match namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    }
}

/// The objects that are asked about: of one kind, or of those that readers look for and that are there; by namespace
/// and name.
pub(super) async fn objects(cx: &Cx, reached: &Reached, name: Option<&str>) -> Result<Vec<Object>, String> {
    let kinds = cx.flags.kind.map_or(SEEN.to_vec(), |kind| vec![kind]);
    let namespace = cx.namespace(reached);
    let (mut found, mut unread) = (Vec::new(), Vec::new());
    for kind in &kinds {
        match list(reached, *kind, namespace.as_deref()).await {
            Ok(objects) => found.extend(objects),
            Err(why) => unread.push(why),
        }
    }
    if unread.len() == kinds.len() {
        return Err(unread.swap_remove(0).said());
    }
    // A kind that is not installed has no objects; of one that may not be listed there may be some.
    let unlisted: Vec<String> = unread.into_iter().filter_map(Unread::unlisted).collect::<Result<_, _>>()?;
    if name.is_none() {
        unlisted.iter().map(|why| format!("note: {why}")).for_each(|why| note(&why));
    }
    let place = namespace.map_or("any namespace".to_owned(), |namespace| format!("namespace {namespace}"));
    let wanted: Vec<&str> = kinds.iter().map(|kind| kind.name()).collect();
    let Some(name) = name else {
        let none = || format!("there is no {} in {place}; -A looks into all namespaces", wanted.join(" or "));
        return if found.is_empty() { Err(none()) } else { Ok(found) };
    };
    let names: Vec<String> = found.iter().map(Object::name).collect();
    found.retain(|object| object.name() == name);
    if found.is_empty() {
        let (wanted, near) = (wanted.join(" or "), nearest(name, &names));
        return Err(match unlisted.as_slice() {
            [] => format!("there is no {wanted} {name} in {place}{near}"),
            unlisted => format!("no {wanted} {name} was found in {place}{near}; {}", unlisted.join("; ")),
        });
    }
    Ok(found)
}

/// The one object of this name that is meant; of several kinds the first.
pub(super) async fn object(cx: &Cx, reached: &Reached, name: &str) -> Result<Object, String> {
    if cx.flags.all_namespaces {
        return Err("name one namespace with -n: this verb is about one object".to_owned());
    }
    Ok(objects(cx, reached, Some(name)).await?.swap_remove(0))
}

/// Why the objects of a kind are not known.
enum Unread {
    /// The cluster does not have the kind.
    Absent(String),
    /// They may not be listed.
    Forbidden(String),
    /// The API server did not answer, or not as it should.
    Unanswered(String),
}

impl Unread {
    fn said(self) -> String {
        let (Self::Absent(why) | Self::Forbidden(why) | Self::Unanswered(why)) = self;
        why
    }

    /// What is to be said beside what was found; an outage is no answer.
    fn unlisted(self) -> Option<Result<String, String>> {
        match self {
            Self::Absent(_) => None,
            Self::Forbidden(why) => Some(Ok(why)),
            Self::Unanswered(why) => Some(Err(why)),
        }
    }
}

async fn list(reached: &Reached, kind: Managed, namespace: Option<&str>) -> Result<Vec<Object>, Unread> {
    let params = ListParams::default();
    let found = api(&reached.client, kind, namespace).list(&params).await;
    let plural = kind.resource().plural;
    let found = found.map_err(|error| {
        let why = Reader::of(reached, kind.operator()).unanswered(&format!("list {plural}"), &error);
        match &error {
            kube::Error::Api(status) if status.code == 404 => {
                Unread::Absent(format!("the cluster does not serve {plural}: its operator is not installed"))
            }
            kube::Error::Api(status) if matches!(status.code, 401 | 403) => Unread::Forbidden(why),
            _ => Unread::Unanswered(why),
        }
    })?;
    Ok(found.items.into_iter().map(|whole| Object::of(kind, whole)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn object(status: &Value) -> Object {
        let whole = json!({ "apiVersion": "dynatrace.com/v1alpha1", "kind": "OneAgent",
            "metadata": { "name": "a", "namespace": "n", "generation": 1 }, "spec": {}, "status": status });
        Object::of(Managed::Oneagent, serde_json::from_value(whole).unwrap())
    }

    #[test]
    fn a_status_of_another_release_is_read_as_far_as_it_goes() {
        // As 0.2.0 wrote it.
        let older = object(&json!({ "observedGeneration": 1, "version": "1.300.10.20250101-100000",
            "conditions": [{ "type": "Ready", "status": "True", "reason": "AllUpdated" }],
            "rollout": { "state": "Complete" } }));
        assert_eq!((older.code(), older.canaries()), (WELL, None));
        assert!(older.conclusion().what.starts_with("Complete: "), "{:?}", older.conclusion());
        let newer = object(&json!({ "observedGeneration": 1, "fresh": [1],
            "conditions": [{ "type": "Verified", "status": "True", "reason": "New", "more": {} }],
            "rollout": { "state": "Verifying" } }));
        assert_eq!((newer.code(), newer.state().as_str()), (UNDER_WAY, "Verifying"));
        let unknown = object(&json!({ "observedGeneration": 1, "conditions": {} }));
        let said = unknown.conclusion();
        assert!(said.kind == Kind::Act && said.what.contains("use the program of the operator's release"), "{said:?}");
        assert!(object(&Value::Null).conclusion().what.starts_with("no operator has looked at it yet"));
    }

    #[test]
    fn of_several_the_one_that_most_needs_a_person_decides_the_code() {
        let of = |state: &str, more: Value| {
            let ready = json!({ "type": "Ready", "status": "True", "reason": "AllUpdated" });
            let conditions = [ready].into_iter().chain(more.as_array().cloned().unwrap_or_default());
            let conditions: Vec<Value> = conditions.collect();
            object(&json!({ "observedGeneration": 1, "conditions": conditions, "rollout": { "state": state } }))
        };
        let degraded = json!([{ "type": "Degraded", "status": "True", "reason": "RolloutFailed" }]);
        let [well, goes, failed] = [of("Complete", json!([])), of("Rolling", json!([])), of("Failed", degraded)];
        assert_eq!(code(std::slice::from_ref(&well)), WELL);
        assert_eq!(code(&[goes.clone(), well.clone()]), UNDER_WAY);
        assert_eq!(code(&[well, failed, goes]), ACT);
    }
}
