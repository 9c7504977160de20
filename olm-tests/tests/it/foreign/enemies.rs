//! Outside events in the middle of a rollout: history that is lost, objects that change hands, nodes that go and come
//! back. No Pod that is as it should be is deleted, none twice, and the budget holds.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, DeleteParams, ObjectMeta, PostParams};
use olm_tests::eventually;
use olm_tests::eyes::Eyes;
use olm_tests::lab::daemonset_rollout::AGENTS;
use olm_tests::lab::{LONG, Lab, SOON};
use olm_tests::nodes;
use serde_json::{Value, json};

/// Waits until so many Pods say something.
pub(super) async fn reached(lab: &Lab<'_>, message: &str, count: usize) {
    eventually(&format!("{count} of {} say {message}", lab.name), LONG, || async {
        let said = lab.said();
        let good = said.values().filter(|one| *one == message).count();
        if good >= count { Ok(()) } else { Err(format!("{said:?}")) }
    })
    .await;
}

/// No node had more than two Pods since the watch began: the one before, and the one of the new revision.
fn once(eyes: &BTreeMap<String, std::collections::BTreeSet<String>>) {
    assert!(eyes.values().all(|pods| pods.len() <= 2), "{eyes:#?}");
}

#[test]
fn revisions_that_are_lost_or_made_again_cost_no_pod_that_is_up_to_date() {
    olm_tests::run(async {
        let mut lab = Lab::of_daemonset("ds-history", 6, &json!({ "maxUnavailable": 1 })).await;
        let mut daemonset = lab.daemonset_saying("two");
        daemonset["spec"]["revisionHistoryLimit"] = json!(0);
        let old = lab.revision().await;
        let eyes = Eyes::on_replicas(&lab, AGENTS, 6).await;
        lab.behave(|behaviour| behaviour.ready_after = Duration::from_secs(1));
        lab.deploy(&daemonset);
        reached(&lab, "two", 1).await;
        // The earlier revision is lost, and the current one, which its controller writes again.
        let names = lab.cluster.kubectl(&["-n", "ds-history", "get", "controllerrevisions", "-o", "name"]);
        for name in names.lines() {
            lab.cluster.kubectl(&["-n", "ds-history", "delete", name]);
        }
        reached(&lab, "two", 2).await;
        lab.operators.clear();
        lab.start_operator(&[]).await;
        reached(&lab, "two", 4).await;
        let now = lab.revision().await;
        assert_ne!(now, old);
        for name in lab.cluster.kubectl(&["-n", "ds-history", "get", "controllerrevisions", "-o", "name"]).lines() {
            lab.cluster.kubectl(&["-n", "ds-history", "delete", name]);
        }
        lab.agents_say("two", 6).await;
        lab.rollout_is("Ready", "True", "AllUpdated").await;
        let seen = eyes.seen().await;
        assert_eq!(seen.counts(), (1, 6), "one at a time, each once");
        once(&seen.pods);
        // A template of long ago, whose revision no longer exists, is simply a new one.
        lab.deploy(&lab.daemonset_saying("one"));
        lab.agents_say("one", 6).await;
        assert_eq!(eyes.seen().await.counts(), (1, 12));
        // Another template has the name that the next revision would get: its controller takes another one.
        let revisions: Api<ControllerRevision> = Api::namespaced(lab.cluster.client.clone(), &lab.name);
        let mut other = revisions.get(&format!("agent-{now}")).await.expect("the revision of a while ago");
        revisions.delete(&format!("agent-{now}"), &DeleteParams::default()).await.expect("deleted");
        other.metadata = ObjectMeta { resource_version: None, uid: None, ..other.metadata };
        let data = serde_json::to_string(&other.data).expect("JSON").replace("\"two\"", "\"zero\"");
        other.data = serde_json::from_str(&data).expect("JSON");
        revisions.create(&PostParams::default(), &other).await.expect("a ControllerRevision");
        lab.deploy(&lab.daemonset_saying("two"));
        lab.agents_say("two", 6).await;
        lab.rollout_is("Ready", "True", "AllUpdated").await;
        assert_ne!(lab.revision().await, now, "the hash collided");
        assert_eq!(eyes.seen().await.counts(), (1, 18));
        lab.end().await;
    });
}

#[test]
fn a_rollout_that_names_another_daemonset_or_loses_its_elder_continues() {
    olm_tests::run(async {
        let lab = Lab::of_daemonset("ds-hands", 6, &json!({ "maxUnavailable": 1 })).await;
        lab.deploy(&lab.daemonset_named("other", "one"));
        let eyes = Eyes::on_replicas(&lab, AGENTS, 6).await;
        lab.behave(|behaviour| behaviour.ready_after = Duration::from_secs(1));
        lab.deploy(&lab.daemonset_saying("two"));
        reached(&lab, "two", 1).await;
        lab.edit_rollout(json!({ "daemonSet": "other" })).await;
        eventually("the other one is looked at", SOON, || async {
            let status = lab.rollout_status().await;
            let is_it = status.observed_generation == Some(2) && status.nodes.is_some_and(|nodes| nodes.updated == 6);
            if is_it { Ok(()) } else { Err("not yet".to_owned()) }
        })
        .await;
        let before = eyes.seen().await.deletions.len();
        tokio::time::sleep(Duration::from_secs(3)).await;
        assert_eq!(eyes.seen().await.deletions.len(), before, "nobody asks for these any more");
        lab.edit_rollout(json!({ "daemonSet": "agent" })).await;
        reached(&lab, "two", before + 1).await;
        // A younger one takes over where the older is deleted.
        lab.rollout_named("younger", &json!({ "rollout": { "maxUnavailable": 1 } }));
        lab.cluster.kubectl(&["-n", "ds-hands", "delete", "dsr", "agent"]);
        reached(&lab, "two", 6).await;
        let seen = eyes.seen().await;
        assert_eq!(seen.counts(), (1, 6), "one at a time, each once");
        let others = lab.labelled("app=other").await;
        assert!(others.len() == 6 && others.values().all(|pod| pod.metadata.deletion_timestamp.is_none()));
        lab.cluster.kubectl(&["-n", "ds-hands", "delete", "dsr", "younger"]);
        lab.end().await;
    });
}

#[test]
fn canaries_that_are_driven_off_and_nodes_that_register_again_keep_to_the_budget() {
    olm_tests::run(async {
        let policy = json!({ "maxUnavailable": 1, "canary": { "nodes": 1, "soak": "4s" } });
        let lab = Lab::of_daemonset("ds-nodes", 6, &policy).await;
        let eyes = Eyes::on_replicas(&lab, AGENTS, 6).await;
        lab.deploy(&lab.daemonset_saying("two"));
        reached(&lab, "two", 1).await;
        let canary = lab.said().into_iter().find(|(_, said)| said == "two").unwrap().0;
        // Driven off in the middle of its soak, and let in again.
        let taints = |taints: Value| json!({ "spec": { "taints": taints } });
        let taint = json!([{ "key": "out", "effect": "NoExecute" }]);
        nodes::patch(&lab.cluster.client, &canary, &taints(taint)).await;
        eventually("the canary is gone", SOON, || async {
            if lab.said().contains_key(&canary) { Err("it is there".to_owned()) } else { Ok(()) }
        })
        .await;
        nodes::patch(&lab.cluster.client, &canary, &taints(Value::Null)).await;
        reached(&lab, "two", 2).await;
        // A node of the old one is deleted, and registers again under its name.
        let old = lab.said().into_iter().find(|(_, said)| said == "one").unwrap().0;
        let api: Api<Node> = Api::all(lab.cluster.client.clone());
        let mut node = serde_json::to_value(api.get(&old).await.unwrap()).unwrap();
        nodes::delete(&lab.cluster.client, std::slice::from_ref(&old)).await;
        eventually("its Pod is gone", SOON, || async {
            if lab.said().contains_key(&old) { Err("it is there".to_owned()) } else { Ok(()) }
        })
        .await;
        let labels = node["metadata"]["labels"].take();
        nodes::create(
            &lab.cluster.client,
            vec![{
                let mut again = nodes::node(&old, &nodes::Shape::default());
                again["metadata"]["labels"] = labels;
                again
            }],
        )
        .await;
        lab.agents_say("two", 6).await;
        lab.rollout_is("Ready", "True", "AllUpdated").await;
        let seen = eyes.seen().await;
        // The canary was deleted twice: by us, and by the taint.
        once(&seen.pods.into_iter().filter(|(node, _)| *node != canary && *node != old).collect());
        assert!(seen.deletions.len() <= 8 && seen.most_unready <= 2, "{:?}", (seen.deletions.len(), seen.most_unready));
        let rollout = lab.rollout_status().await.rollout.unwrap();
        assert_eq!((rollout.failure, &*rollout.state), (None, "Complete"));
        lab.end().await;
    });
}
