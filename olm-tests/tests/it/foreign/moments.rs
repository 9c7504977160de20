//! What happens at the wrong moment: an owner appears while deletions are under way, an image cannot be pulled while
//! nodes join, nodes are about to leave.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use olm_tests::eventually;
use olm_tests::kubelet::Fault;
use olm_tests::lab::{LONG, Lab};
use olm_tests::nodes::{self, Shape};
use olm_tests::webhook::Webhook;
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use super::enemies::reached;
use crate::planned::deleted;

/// How many deletions the operator sends at once.
const AT_ONCE: usize = 32;

#[test]
fn an_owner_that_appears_while_deletions_are_under_way_ends_those_that_follow() {
    olm_tests::run(async {
        let all = AT_ONCE + 2;
        let lab = Lab::of_daemonset("ds-between", all, &json!({ "maxUnavailable": "100%" })).await;
        lab.rollout_named("marker", &json!({ "daemonSet": "marker" }));
        let (asked, gate) = (Arc::new(AtomicUsize::new(0)), Arc::new(Semaphore::new(0)));
        let (count, held) = (asked.clone(), gate.clone());
        let webhook = Webhook::of_deletions(&lab.cluster.client, &lab.name, move |user, _| {
            let (count, held) = (count.clone(), held.clone());
            async move {
                if user.starts_with("system:serviceaccount:ds-between:") {
                    count.fetch_add(1, Ordering::SeqCst);
                    let _open = held.acquire().await.map_err(|closed| closed.to_string())?;
                }
                Ok(())
            }
        })
        .await;
        lab.deploy(&lab.daemonset_saying("two"));
        eventually("the first deletions are under way", LONG, || async {
            let asked = asked.load(Ordering::SeqCst);
            if asked == AT_ONCE { Ok(()) } else { Err(format!("{asked} {:?}", lab.rollout_status().await)) }
        })
        .await;
        let config = json!({ "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": { "name": "owner", "namespace": lab.name } });
        lab.cluster.apply(&config.to_string());
        let uid = ["-n", &lab.name, "get", "configmap", "owner", "-o", "jsonpath={.metadata.uid}"];
        let uid = lab.cluster.kubectl(&uid);
        let mut owned = lab.daemonset_saying("two");
        owned["metadata"]["ownerReferences"] =
            json!([{ "apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": uid, "controller": true }]);
        lab.deploy(&owned);
        // One watch brings both: once the operator knows the second DaemonSet, it knows the first one's owner.
        let mut marker = lab.daemonset_named("marker", "marker");
        marker["spec"]["template"]["spec"]["nodeSelector"] = json!({ "no": "node" });
        lab.deploy(&marker);
        eventually("the other DaemonSet is known", LONG, || async {
            let status = lab.rollouts().get("marker").await.expect("an object").status.unwrap_or_default();
            if status.daemon_set.is_some() { Ok(()) } else { Err("it is not".to_owned()) }
        })
        .await;
        gate.add_permits(all);
        lab.rollout_is("Degraded", "True", "OwnerNotAccepted").await;
        lab.agents_say("two", AT_ONCE).await;
        assert_eq!(asked.load(Ordering::SeqCst), AT_ONCE, "one was deleted that its owner may want to keep");
        lab.edit_rollout(json!({ "acceptOwner": true })).await;
        lab.agents_say("two", all).await;
        lab.rollout_is("Ready", "True", "AllUpdated").await;
        assert_eq!(asked.load(Ordering::SeqCst), all);
        webhook.end().await;
        lab.end().await;
    });
}

#[test]
fn an_image_that_cannot_be_pulled_while_nodes_join_is_no_verdict() {
    olm_tests::run(async {
        let policy = json!({ "maxUnavailable": 2, "waitReadySeconds": 4 });
        let mut lab = Lab::of_daemonset("ds-registry", 6, &policy).await;
        lab.fails("two", Fault::ImagePull);
        lab.deploy(&lab.daemonset_saying("two"));
        let said = lab.rollout_is("Degraded", "True", "PodsRefused").await;
        assert!(said.contains("ImagePullBackOff"), "{said}");
        lab.add_nodes(10, &Shape::default()).await;
        eventually("none of those that joined can pull it", LONG, || async {
            let nodes = lab.rollout_status().await.nodes.unwrap_or_default();
            if nodes.image == 12 { Ok(()) } else { Err(format!("{nodes:?}")) }
        })
        .await;
        // Twice the deadline.
        tokio::time::sleep(Duration::from_secs(8)).await;
        let failure = lab.rollout_status().await.rollout.and_then(|rollout| rollout.failure);
        assert_eq!(failure, None, "the registry was held against the revision");
        assert_eq!(deleted(&lab).len(), 2, "no more than the budget");
        lab.behave(|behaviour| behaviour.versions.clear());
        lab.agents_say("two", 16).await;
        lab.rollout_is("Ready", "True", "AllUpdated").await;
        lab.rollout_is("Degraded", "False", "AsExpected").await;
        assert_eq!(deleted(&lab).len(), 6, "each once, and none that joined");
        lab.end().await;
    });
}

#[test]
fn nodes_that_are_about_to_leave_or_left_out_keep_their_pods() {
    olm_tests::run(async {
        let lab = Lab::of_daemonset("ds-leaving", 6, &json!({ "maxUnavailable": "100%" })).await;
        let taint = |key: &str| json!({ "spec": { "taints": [{ "key": key, "value": "1", "effect": "NoSchedule" }] } });
        let config = "machineconfiguration.openshift.io";
        let marks = [
            taint("ToBeDeletedByClusterAutoscaler"),
            taint("karpenter.sh/disrupted"),
            json!({ "metadata": { "annotations": { format!("{config}/state"): "Working",
                format!("{config}/currentConfig"): "a", format!("{config}/desiredConfig"): "b" } } }),
            json!({ "spec": { "unschedulable": true } }),
            json!({ "metadata": { "labels": { "oneagent-operator.github.io/skip-update": "true" } } }),
        ];
        let client = &lab.cluster.client;
        for (node, mark) in lab.nodes.iter().zip(&marks) {
            nodes::patch(client, node, mark).await;
        }
        let mut daemonset = lab.daemonset_saying("two");
        daemonset["spec"]["template"]["spec"]["tolerations"] = json!([{ "operator": "Exists" }]);
        lab.deploy(&daemonset);
        reached(&lab, "two", 1).await;
        let message = lab.rollout_is("Ready", "False", "Outdated").await;
        assert!(message.contains("1 of 6 nodes run the current revision"), "{message}");
        let said = lab.said();
        assert!(lab.nodes[..5].iter().all(|node| said[node] == "one"), "{said:?}");
        assert_eq!(deleted(&lab).len(), 1);
        for (node, mark) in lab.nodes.iter().zip(&marks) {
            nodes::patch(client, node, &taken_back(mark)).await;
        }
        lab.agents_say("two", 6).await;
        lab.rollout_is("Ready", "True", "AllUpdated").await;
        assert_eq!(deleted(&lab).len(), 6);
        lab.end().await;
    });
}

/// The merge patch that takes one back: all that it sets is `null`.
fn taken_back(patch: &Value) -> Value {
    match patch {
        Value::Object(fields) => fields.iter().map(|(key, value)| (key.clone(), taken_back(value))).collect(),
        _ => Value::Null,
    }
}
