//! Outside events that hit it: restarts, reverts, a strategy that changes, a DaemonSet that is deleted, rights that are
//! taken away, a blip, Pods that are not its own.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams};
use olm_tests::eventually;
use olm_tests::eyes::Eyes;
use olm_tests::kubelet::Fault;
use olm_tests::lab::daemonset_rollout::AGENTS;
use olm_tests::lab::{LONG, Lab, SOON, is_ready};
use serde_json::{Value, json};

/// How many Pods the operator has deleted.
pub(super) fn deleted(lab: &Lab<'_>) -> usize {
    lab.writes().iter().filter(|write| write.starts_with("delete pods")).count()
}

/// Waits until it has deleted so many.
pub(super) async fn goes(lab: &Lab<'_>, count: usize) {
    eventually(&format!("{count} Pods went"), LONG, || async {
        if deleted(lab) >= count { Ok(()) } else { Err(format!("{} {:#?}", deleted(lab), lab.rollout_status().await)) }
    })
    .await;
}

/// Deploys a template that says this, and waits until the DaemonSet's controller has seen it.
pub(super) async fn deploy(lab: &Lab<'_>, message: &str) {
    lab.deploy(&lab.daemonset_saying(message));
    eventually("its controller has seen it", SOON, || async {
        let set = lab.deployed().await;
        let seen = set.status.and_then(|status| status.observed_generation);
        if seen == set.metadata.generation { Ok(()) } else { Err(format!("{seen:?}")) }
    })
    .await;
}

/// Pods of DaemonSet `agent`.
pub(super) async fn pods(lab: &Lab<'_>) -> Vec<Pod> {
    let api: Api<Pod> = Api::namespaced(lab.cluster.client.clone(), &lab.name);
    api.list(&ListParams::default().labels(AGENTS)).await.expect("Pods").items
}

#[test]
fn an_operator_that_is_killed_at_every_turn_and_a_wiped_status_replace_nothing_twice() {
    olm_tests::run(async {
        let mut lab = Lab::of_daemonset("ds-killed", 6, &json!({ "maxUnavailable": 1 })).await;
        let eyes = Eyes::on_replicas(&lab, AGENTS, 6).await;
        lab.deploy(&lab.daemonset_saying("two"));
        for count in [1, 3, 4] {
            goes(&lab, count).await;
            lab.operators.clear();
            if count == 3 {
                let wiped = Patch::Merge(json!({ "status": null }));
                lab.rollouts().patch_status("agent", &PatchParams::default(), &wiped).await.expect("a wiped status");
            }
            lab.start_operator(&[]).await;
        }
        lab.agents_say("two", 6).await;
        lab.rollout_is("Ready", "True", "AllUpdated").await;
        assert_eq!(eyes.seen().await.counts(), (1, 6), "one at a time, each once");
        lab.end().await;
    });
}

#[test]
fn a_template_that_is_put_back_while_canaries_soak_leaves_all_others_alone() {
    olm_tests::run(async {
        let policy = json!({ "maxUnavailable": 3, "canary": { "nodes": 1, "soak": "1h" } });
        let lab = Lab::of_daemonset("ds-back", 6, &policy).await;
        let (first, eyes) = (lab.revision().await, Eyes::on_replicas(&lab, AGENTS, 6).await);
        lab.deploy(&lab.daemonset_saying("two"));
        goes(&lab, 1).await;
        lab.agents_say("two", 1).await;
        lab.deploy(&lab.daemonset_saying("one"));
        lab.agents_say("one", 6).await;
        lab.rollout_is("Ready", "True", "AllUpdated").await;
        assert_eq!(lab.revision().await, first, "the same template is the same revision");
        assert_eq!(eyes.seen().await.deletions.len(), 2, "the canary went, and went back");
        // What is ignored replaces no Pod, whatever revision it makes.
        lab.edit_rollout(json!({ "ignore": ["helm.sh/chart"] })).await;
        for chart in ["agent-1", "agent-2"] {
            let mut daemonset = lab.daemonset_saying("one");
            daemonset["spec"]["template"]["metadata"]["labels"]["helm.sh/chart"] = chart.into();
            lab.deploy(&daemonset);
            lab.another_revision(&first).await;
            lab.rollout_is("Ready", "True", "AllUpdated").await;
        }
        assert_eq!(eyes.seen().await.deletions.len(), 2);
        lab.end().await;
    });
}

#[test]
fn a_changed_strategy_and_a_deleted_daemonset_end_all_deletions() {
    olm_tests::run(async {
        let lab = Lab::of_daemonset("ds-gone", 6, &json!({ "maxUnavailable": 1 })).await;
        lab.behave(|behaviour| behaviour.ready_after = Duration::from_secs(2));
        lab.deploy(&lab.daemonset_saying("two"));
        goes(&lab, 1).await;
        // Another tool puts it back: Kubernetes does the rest, and we delete nothing more.
        let mut daemonset = lab.daemonset_saying("two");
        let strategy = json!({ "type": "RollingUpdate", "rollingUpdate": { "maxUnavailable": 1 } });
        daemonset["spec"]["updateStrategy"] = strategy;
        lab.deploy(&daemonset);
        lab.rollout_is("Degraded", "True", "NotOnDelete").await;
        let before = deleted(&lab);
        lab.agents_say("two", 6).await;
        assert_eq!(deleted(&lab), before);
        // Deleted without its Pods: they have no owner, and no controller would create them again.
        lab.deploy(&lab.daemonset_saying("three"));
        goes(&lab, before + 1).await;
        let orphans = ["-n", "ds-gone", "delete", "daemonset", "agent", "--cascade=orphan", "--wait=false"];
        lab.cluster.kubectl(&orphans);
        let message = lab.rollout_is("Degraded", "True", "DaemonSetNotFound").await;
        assert!(message.contains("does not exist") || message.contains("is being deleted"), "{message}");
        let left = deleted(&lab);
        // Made again, it takes them up, and the rest continues.
        eventually("the DaemonSet is gone", SOON, || async {
            let found = lab.cluster.try_kubectl(&["-n", "ds-gone", "get", "daemonset", "agent"], None);
            if found.is_err() { Ok(()) } else { Err("it is there".to_owned()) }
        })
        .await;
        assert_eq!(deleted(&lab), left, "none goes that nobody would make again");
        lab.deploy(&lab.daemonset_saying("three"));
        lab.agents_say("three", 6).await;
        lab.rollout_is("Ready", "True", "AllUpdated").await;
        lab.end().await;
    });
}

#[test]
fn without_the_right_to_list_revisions_nothing_is_taken_for_outdated() {
    olm_tests::run(async {
        let mut lab = Lab::of_daemonset("ds-rights", 3, &json!({})).await;
        let all = lab.rights();
        let fewer: Vec<Value> = all
            .as_array()
            .unwrap()
            .iter()
            .filter(|rule| rule["resources"] != json!(["controllerrevisions"]))
            .cloned()
            .collect();
        assert_eq!(fewer.len() + 1, all.as_array().unwrap().len());
        let began = chrono::Utc::now();
        lab.set_rights(&json!(fewer));
        lab.deploy(&lab.daemonset_saying("two"));
        let message = lab.rollout_is("Degraded", "True", "RightsMissing").await;
        assert!(message.contains("grant the operator list of controllerrevisions.apps"), "{message}");
        lab.rollout_is("Ready", "False", "RightsMissing").await;
        assert_eq!(deleted(&lab), 0);
        lab.set_rights(&all);
        lab.agents_say("two", 3).await;
        lab.rollout_is("Ready", "True", "AllUpdated").await;
        lab.unjudged = Some((began, chrono::Utc::now()));
        lab.end().await;
    });
}

#[test]
fn half_of_a_fleet_that_is_unready_for_a_moment_does_not_get_a_bad_version() {
    olm_tests::run(async {
        let lab = Lab::of_daemonset("ds-blip", 8, &json!({ "maxUnavailable": 2, "waitReadySeconds": 30 })).await;
        lab.fails("two", Fault::NeverReady);
        lab.deploy(&lab.daemonset_saying("two"));
        goes(&lab, 2).await;
        let rest: Vec<Pod> = pods(&lab).await.into_iter().filter(is_ready).collect();
        for pod in rest.iter().take(4) {
            lab.cluster.kubelet.say_ready(pod, false).await;
        }
        lab.rollout_is("Ready", "False", "PodsUnavailable").await;
        for pod in rest.iter().take(4) {
            lab.cluster.kubelet.say_ready(pod, true).await;
        }
        eventually("six agents are Ready again", SOON, || async {
            let ready = pods(&lab).await.iter().filter(|pod| is_ready(pod)).count();
            if ready == 6 { Ok(()) } else { Err(ready.to_string()) }
        })
        .await;
        lab.rollout_is("Degraded", "True", "RolloutFailed").await;
        assert_eq!(deleted(&lab), 2, "no more than the budget");
        // Put back, the two that are broken go, and no other.
        lab.deploy(&lab.daemonset_saying("one"));
        lab.agents_say("one", 8).await;
        lab.rollout_is("Ready", "True", "AllUpdated").await;
        assert_eq!(deleted(&lab), 4);
        lab.end().await;
    });
}

#[test]
fn pods_that_are_not_its_own_stay_nodes_that_join_get_the_template_and_those_that_are_cordoned_wait() {
    olm_tests::run(async {
        let mut lab = Lab::of_daemonset("ds-others", 4, &json!({ "maxUnavailable": 4 })).await;
        // Another DaemonSet with the same labels on its Pods.
        let mut twin = lab.daemonset_saying("twin");
        twin["metadata"]["name"] = "twin".into();
        twin["spec"]["selector"]["matchLabels"] = json!({ "app": "agent", "twin": "yes" });
        twin["spec"]["template"]["metadata"]["labels"]["twin"] = "yes".into();
        lab.deploy(&twin);
        let others = async |lab: &Lab<'_>| {
            let of_agent = |pod: &Pod| pod.owner_references().iter().any(|owner| owner.name == "agent");
            let mut uids: Vec<String> =
                pods(lab).await.into_iter().filter(|pod| !of_agent(pod)).filter_map(|pod| pod.uid()).collect();
            uids.sort();
            uids
        };
        eventually("the others are there", SOON, || async {
            let count = others(&lab).await.len();
            if count == 4 { Ok(()) } else { Err(count.to_string()) }
        })
        .await;
        let before = others(&lab).await;
        let cordoned = lab.nodes[3].clone();
        lab.cluster.kubectl(&["cordon", &cordoned]);
        lab.deploy(&lab.daemonset_saying("two"));
        goes(&lab, 3).await;
        let joined = lab.add_nodes(2, &olm_tests::nodes::Shape::default()).await;
        let message = lab.rollout_is("Ready", "False", "Outdated").await;
        assert!(message.contains(&cordoned), "{message}");
        eventually("those that joined have it", SOON, || async {
            let said = lab.said();
            let is_new = |node: &String| said.get(node).is_some_and(|message| message == "two" || message == "twin");
            if joined.iter().all(is_new) { Ok(()) } else { Err(format!("{said:?}")) }
        })
        .await;
        lab.cluster.kubectl(&["uncordon", &cordoned]);
        lab.rollout_is("Ready", "True", "AllUpdated").await;
        assert_eq!(deleted(&lab), 4);
        let still = others(&lab).await;
        assert!(before.iter().all(|uid| still.contains(uid)), "another owner's Pod was deleted");
        lab.end().await;
    });
}

#[test]
fn at_rest_nothing_is_written_and_every_right_is_used() {
    olm_tests::run(async {
        let mut lab = Lab::of_daemonset("ds-rest", 3, &json!({})).await;
        lab.deploy(&lab.daemonset_saying("two"));
        lab.agents_say("two", 3).await;
        lab.rollout_is("Ready", "True", "AllUpdated").await;
        // One that its controller cannot make: why, Events say.
        lab.cluster.apply(
            &json!({ "apiVersion": "v1", "kind": "ResourceQuota",
            "metadata": { "name": "none", "namespace": lab.name }, "spec": { "hard": { "pods": "0" } } })
            .to_string(),
        );
        let pod = pods(&lab).await.remove(0).name_any();
        let api: Api<Pod> = Api::namespaced(lab.cluster.client.clone(), &lab.name);
        api.delete(&pod, &DeleteParams::default()).await.expect("a Pod");
        let message = lab.rollout_is("Degraded", "True", "PodsRefused").await;
        assert!(message.contains("exceeded quota"), "{message}");
        lab.cluster.kubectl(&["-n", &lab.name, "delete", "resourcequota", "none"]);
        // Its controller looks again when it pleases: a node that changes has it look at once.
        lab.cluster.kubectl(&["-n", &lab.name, "label", "daemonset", "agent", "looked=again"]);
        lab.rollout_is("Ready", "True", "AllUpdated").await;
        lab.touch_lease().await;
        lab.rests().await;
        // A standby watches the Lease.
        lab.start_operator(&[]).await;
        eventually("every right is used", SOON, || async {
            let unused = lab.unused_rights();
            if unused.is_empty() { Ok(()) } else { Err(format!("{unused:?}")) }
        })
        .await;
        lab.end().await;
    });
}

#[test]
fn an_operator_that_slept_while_the_template_changed_deletes_no_pod_that_has_it_already() {
    olm_tests::run(async {
        let lab = Lab::of_daemonset("ds-slept", 6, &json!({ "maxUnavailable": "100%" })).await;
        let api: Api<Pod> = Api::namespaced(lab.cluster.client.clone(), &lab.name);
        for message in ["two", "three", "four"] {
            lab.operators[0].process.signal("STOP");
            deploy(&lab, message).await;
            // Others delete most of the Pods: these have the template before the operator has seen it.
            for pod in pods(&lab).await.iter().take(5) {
                api.delete(&pod.name_any(), &DeleteParams::default()).await.expect("a Pod");
            }
            lab.agents_say(message, 5).await;
            let is_new = |pod: &Pod| lab.cluster.kubelet.environment(pod).is_some_and(|all| all["MESSAGE"] == message);
            let new: Vec<String> =
                pods(&lab).await.iter().filter(|pod| is_new(pod)).filter_map(ResourceExt::uid).collect();
            assert_eq!(new.len(), 5);
            lab.operators[0].process.signal("CONT");
            lab.agents_say(message, 6).await;
            lab.rollout_is("Ready", "True", "AllUpdated").await;
            let still: Vec<String> = pods(&lab).await.iter().filter_map(ResourceExt::uid).collect();
            assert!(new.iter().all(|uid| still.contains(uid)), "{message}: one that had it was replaced");
        }
        lab.end().await;
    });
}
