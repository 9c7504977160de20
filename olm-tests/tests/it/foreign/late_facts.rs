//! Facts that come late, or cannot be had, while all others are new: watches of several resources keep no order among
//! each other. What is not known costs no Pod that is as it should be, and nothing waits for the resync.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::{Api, DeleteParams};
use olm_tests::gate::Way;
use olm_tests::lab::Lab;
use oneagent_operator::api::daemonset_rollout::package::PACKAGE;
use serde_json::{Value, json};

use super::hostile::{deleted, deploy, pods};

/// A corner with an operator that sees the API server through a gate.
async fn gated(name: &str, nodes: usize, policy: &Value) -> (Lab<'static>, olm_tests::gate::Gate) {
    let mut lab = Lab::bare(olm_tests::cluster::Cluster::shared().await, &PACKAGE, name, nodes).await;
    let gate = lab.start_operator_behind_a_gate().await;
    lab.with_daemonset(nodes, policy).await;
    (lab, gate)
}

/// UIDs of Pods that say this, by name of their node.
async fn saying(lab: &Lab<'_>, message: &str) -> BTreeMap<String, String> {
    let is_it = |pod: &Pod| lab.cluster.kubelet.environment(pod).is_some_and(|all| all["MESSAGE"] == message);
    let node = |pod: Pod| Some((pod.spec.as_ref()?.node_name.clone()?, pod.uid()?));
    pods(lab).await.into_iter().filter(is_it).filter_map(node).collect()
}

#[test]
fn what_is_seen_late_costs_no_pod_that_has_the_template() {
    olm_tests::run(async {
        let (lab, gate) = gated("ds-late-facts", 6, &json!({ "maxUnavailable": "100%" })).await;
        let api: Api<Pod> = Api::namespaced(lab.cluster.client.clone(), &lab.name);
        for held in ["pods", "daemonsets", "controllerrevisions", "nodes"] {
            let before = deleted(&lab);
            gate.put(held, Way::Held);
            let message = format!("late-{held}");
            deploy(&lab, &message).await;
            // Others delete half of the Pods: these have the template before the operator has seen all of it.
            for pod in pods(&lab).await.iter().take(3) {
                let _ = api.delete(&pod.name_any(), &DeleteParams::default()).await;
            }
            lab.agents_say(&message, 3).await;
            let new = saying(&lab, &message).await;
            // Longer than the template must have stood still: the operator has its chance to err.
            tokio::time::sleep(Duration::from_secs(5)).await;
            gate.put(held, Way::Open);
            lab.agents_say(&message, 6).await;
            lab.rollout_is("Ready", "True", "AllUpdated").await;
            let now = saying(&lab, &message).await;
            let kept = new.iter().filter(|(node, uid)| now.get(*node) == Some(uid)).count();
            assert_eq!(kept, new.len(), "{held}: a Pod that had the template was replaced: {new:?}, then {now:?}");
            assert!(deleted(&lab) <= before + 6, "{held}: {} deletions", deleted(&lab) - before);
        }
        lab.end().await;
    });
}

#[test]
fn revisions_that_cannot_be_listed_hold_and_are_asked_for_again() {
    olm_tests::run(async {
        let (lab, gate) = gated("ds-unlisted", 4, &json!({ "maxUnavailable": 1 })).await;
        gate.put("controllerrevisions", Way::Refused);
        deploy(&lab, "two").await;
        let message = lab.rollout_says("Degraded", "ControllerRevisions").await;
        assert!(message.contains(&lab.name), "{message}");
        assert_eq!(deleted(&lab), 0, "what is outdated is unknown");
        gate.put("controllerrevisions", Way::Open);
        lab.agents_say("two", 4).await;
        lab.rollout_is("Ready", "True", "AllUpdated").await;
        assert_eq!(deleted(&lab), 4, "each once");
        lab.end().await;
    });
}
