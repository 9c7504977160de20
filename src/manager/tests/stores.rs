//! Stores: what identifies them, how they grow, and how a server is replaced whose node is gone.
//!
//! Pure. Must not repeat the rules of `stack::members`.

use serde_json::json;

use super::{World, value};
use crate::k8s::watch::Change;
use crate::manager::part::State;

/// What identifies a store that is to be written, as a line.
fn enrols(world: &World, store: &str) -> Option<String> {
    let (_, enrol) = world.plan().enrolments.into_iter().find(|(_, one)| one.name.starts_with(store))?;
    Some(enrol.members.to_string().trim_end().replace('\n', ", "))
}

#[test]
fn a_store_grows_by_one_server_once_all_serve_and_its_dependants_learn_of_it() {
    let mut world = World::new(1);
    world.stand_up(&["cassandra1", "zookeeper1", "rabbitmq1"]);
    assert_eq!(world.state("zookeeper1"), State::Serving);
    world.node("m01", &json!({}));
    assert_eq!(world.state("zookeeper1"), State::Serving, "two are no better than one");
    world.node("m002", &json!({}));
    world.serve("zookeeper1", false);
    assert_eq!((world.enrol(), world.says("Progressing").0), (2, "StandingUp".to_owned()), "the other stores");
    let State::Growing(why) = world.state("zookeeper1") else { panic!("{:?}", world.state("zookeeper1")) };
    assert_eq!(why, "it has 1 of 3 servers; the next one joins once these serve");
    world.serve("zookeeper1", true);
    assert_eq!(enrols(&world, "zookeeper1").as_deref(), Some("1 m0, 2 m002"));
    world.enrol();
    assert_eq!(enrols(&world, "zookeeper1"), None, "not before that one serves");
    world.write();
    assert_eq!(world.plan().replacement, None, "the first one need not start again for that");
    world.stand_up(&["cassandra1", "zookeeper1", "rabbitmq1"]);
    assert_eq!(world.state("zookeeper1"), State::Serving);
    assert_eq!(world.says("Degraded").0, "AsExpected");
}

#[test]
fn a_server_of_a_lost_node_is_replaced_once_its_pod_is_gone_and_no_other_is_missing() {
    let mut world = World::of(&["a", "bb", "ccc"]);
    world.stand_up(&["zookeeper1"]);
    world.remove_node("bb");
    assert_eq!(enrols(&world, "zookeeper1"), None, "there is no node for it");
    let State::Unplaced(why) = world.state("zookeeper1") else { panic!("{:?}", world.state("zookeeper1")) };
    assert!(why.starts_with("node bb, where a server is, is gone"), "{why}");
    world.node("dddd", &json!({}));
    assert_eq!(enrols(&world, "zookeeper1"), None, "its Pod is still there");
    world.remove_pod("zookeeper1-zookeeper-statefulset-1");
    assert_eq!(enrols(&world, "zookeeper1").as_deref(), Some("1 a, 4 dddd, 3 ccc"));
    world.remove_pod("zookeeper1-zookeeper-statefulset-2");
    assert_eq!(enrols(&world, "zookeeper1"), None, "another one is away");
}

#[test]
fn a_vrouter_on_a_node_that_joins_gets_the_last_address_of_a_lost_node() {
    let mut world = World::of(&["a", "bb", "ccc"]);
    world.stand_up(&["cassandra1", "zookeeper1", "rabbitmq1"]);
    for component in ["config1", "control1"] {
        world.write();
        world.serve(component, true);
    }
    world.write();
    world.remove_node("bb");
    world.node("dddd", &json!({ "unschedulable": true }));
    world.certify();
    assert!(matches!(world.state("control1"), State::Unplaced(_)), "{:?}", world.state("control1"));
    let vrouters = world.plan().parts.into_iter().find(|part| part.name == "vroutermasternodes").unwrap();
    assert_eq!(vrouters.state, State::Serving, "of a DaemonSet nothing runs here");
    let map = vrouters.objects.iter().find(|one| one["kind"] == "ConfigMap").expect("files");
    let own = map["data"]["vrouter.10.0.0.5"].as_str().expect("the file of the node that joined");
    assert!(own.contains("servers = 10.0.0.2:5269 10.0.0.3:5269 10.0.0.4:5269"), "{own}");
}

#[test]
fn an_unbound_pod_that_names_previous_nodes_is_replaced_and_no_other() {
    let mut world = World::new(1);
    world.stand_up(&["zookeeper1"]);
    let pod = |revision: &str, node: Option<&str>| {
        let labels = json!({ "contrail_manager": "zookeeper", "zookeeper": "zookeeper1",
            "controller-revision-hash": revision });
        value(json!({ "metadata": { "name": "zookeeper1-zookeeper-statefulset-0", "namespace": "contrail",
            "uid": "pending", "labels": labels }, "spec": { "nodeName": node }, "status": { "phase": "Pending" } }))
    };
    for (revision, node, is_replaced) in
        [("newest", None, false), ("before", Some("m0"), false), ("before", None, true)]
    {
        world.fleet.pod(&Change::Applied(pod(revision, node)));
        let stranded = world.plan().replacement.is_some_and(|one| one.uid == "pending");
        // One that is bound and made from an unknown template is of an earlier one, and starts: that is another rule.
        assert_eq!(stranded && node.is_none(), is_replaced, "{revision} {node:?}");
    }
}

#[test]
fn a_component_without_its_password_stays_as_it_is_and_the_others_continue() {
    let mut world = World::new(3);
    let stores = ["cassandra1", "zookeeper1", "rabbitmq1"];
    world.stand_up(&stores);
    for component in ["config1", "control1", "kubemanager1"] {
        world.write();
        world.serve(component, true);
    }
    assert_eq!(world.state("kubemanager1"), State::Serving);
    let objects = |world: &World, component: &str| {
        let part = world.plan().parts.into_iter().find(|part| part.name == component).unwrap();
        part.objects.len()
    };
    for (secret, waits) in [("zookeeper1-zookeeper-identity", false), ("rabbitmq1-rabbitmq-identity", true)] {
        let before = world.fleet.read().secrets.0.clone();
        world.fleet.with(|all| all.secrets.0.retain(|(_, name), _| name != secret));
        // No file of its own names ZooKeeper's password.
        let state = if waits { State::Waiting(format!("Secret {secret}")) } else { State::Serving };
        assert_eq!((world.state("kubemanager1"), objects(&world, "kubemanager1") == 0), (state, waits));
        assert_eq!((world.plan().surplus, world.plan().replacement), (Vec::new(), None));
        world.fleet.with(|all| all.secrets.0 = before);
        assert_eq!(world.state("kubemanager1"), State::Serving);
    }
}

#[test]
fn what_identifies_a_store_is_never_made_up_twice() {
    let mut world = World::new(3);
    world.stand_up(&["zookeeper1"]);
    world.fleet.with(|all| all.secrets.0.retain(|(_, name), _| name != "zookeeper1-zookeeper-identity"));
    let State::Invalid(why) = world.state("zookeeper1") else { panic!("{:?}", world.state("zookeeper1")) };
    assert!(why.contains("Secret zookeeper1-zookeeper-identity is gone") && why.contains("restore it"), "{why}");
    // A line less would be a server less.
    let mut fewer = World::new(3);
    fewer.stand_up(&["zookeeper1"]);
    fewer.fleet.with(|all| {
        let key = ("contrail".to_owned(), "zookeeper1-zookeeper-identity".to_owned());
        let data = all.secrets.0.get_mut(&key).unwrap().data.as_mut().unwrap();
        data.get_mut("servers").unwrap().0 = b"1 m0\n2 m1\n".to_vec();
    });
    let State::Invalid(why) = fewer.state("zookeeper1") else { panic!("{:?}", fewer.state("zookeeper1")) };
    assert!(why.contains("names 2 servers, and there are 3: a store never shrinks"), "{why}");
    let plan = world.plan();
    assert_eq!((plan.surplus, enrols(&world, "zookeeper1")), (Vec::new(), None));
    // The same Manager again: it takes up what was there.
    let mut again = World::new(3);
    again.enrol();
    let before = again.fleet.read().secrets.0.len();
    again.manager.metadata.uid = Some("another".to_owned());
    assert_eq!((again.enrol(), before), (0, 3));
}
