//! Objects that a user made immutable: which ones are created again, and which ones a user is asked to replace.
//!
//! Each plan is carried out against an API server that gives a test's answers. Must not repeat what a plan is.

use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, TimeDelta};
use k8s_openapi::ByteString;
use serde_json::{Value, json};

use super::certificates::{AUTHORITY, BUNDLE, OWN, standing};
use super::{World, value};
use crate::api::manager::ManagerStatus;
use crate::api::manager::condition::Reason;
use crate::k8s::watch::Change;
use crate::kernel::ApiContact;
use crate::kernel::kind::{Acted, Process, Shared};
use crate::kernel::scripted::{Answer, Asked, client};
use crate::kernel::state::ObjectState;
use crate::manager::act::{Done, act};
use crate::manager::context::{Cx, Managers};
use crate::manager::observe::Seen;
use crate::manager::status::{StatusFacts, status};
use crate::stack::table::Table;

/// What came of a plan.
struct Came {
    acted: Acted,
    done: Done,
    /// Writes of that object, and the content of each.
    asked: Vec<(String, Value)>,
    status: ManagerStatus,
}

/// Carries out what is planned, where the API server refuses changes of one object.
#[allow(clippy::default_trait_access, reason = "the clock is of a room that this one may not name")]
async fn acts(world: &mut World, (kind, frozen): (&'static str, &'static str)) -> Came {
    let refuses = move |asked: &Asked| asked.method == "PATCH" && asked.path.contains(&format!("/{kind}/{frozen}?"));
    let (client, asked) = client(move |asked| match &*asked.method {
        "GET" => Answer::Object(json!({ "items": [], "metadata": {} })),
        "DELETE" => Answer::Object(json!({ "kind": "Status", "status": "Success" })),
        _ if refuses(asked) => Answer::Refusal(422, "Invalid"),
        _ => Answer::Object(asked.body.clone()),
    });
    let plan = world.plan();
    let seen = Seen { resolved: world.resolved(), stopped: false, templates: world.templates.clone() };
    let contact = Arc::new(ApiContact::new(Default::default(), Duration::from_secs(1)));
    let process =
        Process { client, clock: Default::default(), namespace: "operator".to_owned(), pod: "pod".to_owned(), contact };
    let shared = Shared::new::<Managers>(process, tokio::sync::mpsc::unbounded_channel().0);
    let managers = Managers { fleet: std::mem::take(&mut world.fleet) };
    let (key, state) = (("contrail".to_owned(), "cluster1".to_owned()), ObjectState::new("manager"));
    let cx = Cx { kind: &managers, shared: &shared, object: &world.manager, key: &key, state: &state };
    let mut done = Done::default();
    let acted = act(&cx, &seen, &plan, &mut done).await;
    let facts = StatusFacts { object: &world.manager, seen: &seen, plan: &plan, done: &done, complaint: None };
    let status = status(Table::own(), &facts, &ManagerStatus::default(), DateTime::UNIX_EPOCH).0;
    world.fleet = managers.fleet;
    let asked = asked.lock().unwrap().clone();
    let is_of = |one: &Asked| {
        let is_named = one.path.contains(&format!("/{frozen}?")) || one.body["metadata"]["name"] == frozen;
        is_named && one.path.contains(&format!("/{kind}")) && one.method != "GET"
    };
    let asked = asked.into_iter().filter(is_of);
    Came { acted, done, asked: asked.map(|one| (one.method, one.body)).collect(), status }
}

fn methods(came: &Came) -> Vec<&str> {
    came.asked.iter().map(|(method, _)| &**method).collect()
}

/// A stack of ZooKeeper alone, with one server, which serves.
fn zookeeper() -> World {
    let mut world = World::new(1);
    world.manager.spec.services.0.retain(|key, _| key == "zookeepers");
    world.stand_up(&["zookeeper1"]);
    world
}

#[tokio::test]
async fn files_that_take_no_change_are_deleted_to_be_created_again() {
    let mut world = zookeeper();
    let objects = world.plan().parts.remove(0).objects;
    let mut map = objects.into_iter().find(|object| object["kind"] == "ConfigMap").unwrap();
    map["data"] = json!({ "zoo.10.0.0.3": "another" });
    map["metadata"]["uid"] = "its UID".into();
    for (immutable, owner, is_deleted) in [(true, "manager", true), (false, "manager", false), (true, "another", false)]
    {
        map["immutable"] = immutable.into();
        map["metadata"]["ownerReferences"][0]["uid"] = owner.into();
        world.fleet.with(|all| drop(all.config_maps.take(Change::Applied(value(map.clone())))));
        let came = acts(&mut world, ("configmaps", "zookeeper1-zookeeper-configmap")).await;
        let wanted = if is_deleted { vec!["PATCH", "DELETE"] } else { vec!["PATCH"] };
        assert_eq!(methods(&came), wanted, "{immutable} {owner}");
        assert_eq!((came.acted.error.is_none(), came.done.refused.is_empty()), (is_deleted, is_deleted));
        if is_deleted {
            assert_eq!(came.asked[1].1["preconditions"], json!({ "uid": "its UID" }));
            assert_eq!(came.done.written.len(), 1, "no Pod is replaced before it is there again");
        }
    }
}

#[tokio::test]
async fn certificates_are_issued_into_another_secret_with_all_that_stays() {
    let mut world = standing();
    world.now = world.plan().next.unwrap();
    world.certify();
    world.now += TimeDelta::days(250);
    world.change(OWN, |secret| {
        secret.immutable = Some(true);
        secret.data.as_mut().unwrap().insert("theirs".to_owned(), ByteString(b"text".to_vec()));
    });
    let before = world.secret(OWN).unwrap().data.unwrap();
    let came = acts(&mut world, ("secrets", OWN)).await;
    assert_eq!(methods(&came), ["DELETE", "POST"], "{:?}", came.acted.error);
    assert_eq!(came.asked[0].1["preconditions"], json!({ "uid": OWN }));
    let (after, data) = (&came.asked[1].1, came.asked[1].1["data"].as_object().unwrap());
    assert_eq!((&after["immutable"], data["theirs"].clone()), (&Value::Null, json!(before["theirs"])));
    assert!(before.keys().all(|key| data[key].is_string()), "{:?}", data.keys());
    assert_eq!(data.len(), before.len() + 1, "another mark");
}

#[tokio::test]
async fn the_bundle_of_authorities_comes_back_as_it_was() {
    let mut world = standing();
    let key = ("contrail".to_owned(), BUNDLE.to_owned());
    let whole = world.fleet.read().config_maps.0[&key].data.clone().unwrap();
    world.fleet.with(|all| {
        let map = all.config_maps.0.get_mut(&key).unwrap();
        map.immutable = Some(true);
        assert!(map.data.as_mut().unwrap().insert("ca-bundle.crt".to_owned(), "another".to_owned()).is_some());
        map.data.as_mut().unwrap().insert("more".to_owned(), "another".to_owned());
    });
    let came = acts(&mut world, ("configmaps", BUNDLE)).await;
    assert_eq!(methods(&came), ["DELETE", "POST"], "{:?}", came.acted.error);
    assert_eq!(
        (&came.asked[0].1["preconditions"], &came.asked[1].1["data"]),
        (&json!({ "uid": BUNDLE }), &json!(whole))
    );
}

#[tokio::test]
async fn what_identifies_a_store_is_never_deleted_and_a_user_is_asked_to_replace_it() {
    let mut world = zookeeper();
    world.node("m01", &json!({}));
    world.node("m002", &json!({}));
    assert_eq!(world.plan().enrolments.len(), 1);
    let name = "zookeeper1-zookeeper-identity";
    world.change(name, |secret| secret.immutable = Some(true));
    let came = acts(&mut world, ("secrets", name)).await;
    assert_eq!((methods(&came), came.acted.error.is_none()), (Vec::new(), true), "no other component waits for that");
    let why = format!("Secret {name} is immutable: save it, delete it, create it again without `immutable`");
    let refused: Vec<_> = came.done.refused.into_values().collect();
    assert_eq!(refused, [(Reason::WriteRefused, why.clone())]);
    let degraded = came.status.conditions.into_iter().find(|one| one.type_ == "Degraded").unwrap();
    assert_eq!((&*degraded.reason, degraded.message), ("WriteRefused", format!("zookeeper1: {why}")));
}

#[tokio::test]
async fn an_authority_that_takes_no_change_is_never_deleted_and_a_user_is_asked_to_replace_it() {
    let mut world = standing();
    world.change(AUTHORITY, |secret| secret.immutable = Some(true));
    assert_eq!(world.says("Degraded").0, "AsExpected", "nothing is due");
    world.manager.spec.certificates = Some(value(json!({ "authorityLifetime": "9000h" })));
    let came = acts(&mut world, ("secrets", AUTHORITY)).await;
    assert_eq!((methods(&came), came.acted.error.is_none()), (Vec::new(), true), "no Pod waits for that");
    let (reason, message) = world.says("Degraded");
    assert_eq!(reason, "AuthorityUnusable", "{message}");
    assert!(message.starts_with("Secret contrail-ca-certificate is immutable: save it"), "{message}");
}
