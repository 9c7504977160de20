//! `rollout.onFailure: Rollback` on a real API server, on hosts that take an older agent and on hosts that do not.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use olm_tests::eventually;
use olm_tests::kubelet::Fault;
use olm_tests::lab::{Lab, SOON, V1, V2, V3, is_ready, version_of};
use serde_json::{Value, json};

/// A lab whose rollout to V2 fails, and the previous UIDs.
async fn failing(
    name: &str,
    refuses: bool,
    fault: Fault,
    rollout: Value,
) -> (Lab<'static>, std::collections::BTreeMap<String, String>) {
    let lab = Lab::new(name, 6).await;
    lab.behave(|b| b.refuse_downgrade = refuses);
    lab.oneagent(&json!({ "waitReadySeconds": 5, "rollout": rollout }));
    lab.all_at("agent", V1, 6, SOON).await;
    lab.behave(|b| {
        b.versions.insert(V2.into(), fault);
    });
    let before = lab.uids("agent").await;
    lab.cluster.vendor.publish(&lab.name, V2);
    (lab, before)
}

#[test]
fn agents_of_a_crashing_version_roll_back_across_restarts_and_a_newer_one_is_taken() {
    olm_tests::run(async {
        let rollout = json!({ "maxUnavailable": 2, "onFailure": "Rollback" });
        let (mut lab, before) = failing("back", false, Fault::CrashLoop, rollout).await;
        lab.shows("it is rejected", SOON, |status| status.rejected_versions == [V2]).await;
        lab.operators[0].process.kill();
        lab.operators.clear();
        lab.start_operator(&[]).await;
        eventually("all are back", SOON, || async {
            let pods = lab.pods("agent").await;
            let is_back = |pod: &&Pod| version_of(pod).as_deref() == Some(V1) && is_ready(pod);
            let back = pods.values().filter(is_back).count();
            if back == 6 { Ok(()) } else { Err(back.to_string()) }
        })
        .await;
        let said = lab.condition("agent", "Degraded", "True", "RolledBack").await;
        assert!(said.contains("spec.rollout.retry"), "{said}");
        let said = lab.condition("agent", "Ready", "True", "RolledBack").await;
        assert_eq!(said, "6 of 6 nodes run the last good agent again");
        let rollout = lab.status("agent").await.rollout.unwrap();
        assert_eq!((rollout.state.as_str(), rollout.waiting_on.len()), ("RolledBack", 0), "{rollout:?}");
        let after = lab.uids("agent").await;
        let replaced = before.iter().filter(|(node, uid)| after.get(*node) != Some(*uid)).count();
        assert_eq!(replaced, 2, "who never had it was touched");
        let rejected = lab.status("agent").await.rejected_versions;
        assert_eq!(rejected, [V2]);
        lab.cluster.vendor.publish(&lab.name, V3);
        lab.all_at("agent", V3, 6, SOON).await;
        lab.condition("agent", "Degraded", "False", "AsExpected").await;
        lab.end().await;
    });
}

#[test]
fn an_operator_killed_after_the_first_deletion_of_a_rollback_continues_with_it() {
    olm_tests::run(async {
        let rollout = json!({ "maxUnavailable": 3, "onFailure": "Rollback" });
        let (mut lab, before) = failing("back-killed", false, Fault::CrashLoop, rollout).await;
        // Long enough to be killed in.
        lab.behave(|b| b.gone_after = Duration::from_secs(15));
        let api: kube::Api<Pod> = kube::Api::namespaced(lab.cluster.client.clone(), &lab.name);
        let is_going = async || {
            let all = api.list(&kube::api::ListParams::default().labels("oneagent=agent")).await.unwrap().items;
            let going =
                |pod: &&Pod| pod.metadata.deletion_timestamp.is_some() && version_of(pod).as_deref() == Some(V2);
            all.iter().filter(going).count()
        };
        eventually("one goes back", SOON, || async {
            let going = is_going().await;
            if going == 1 { Ok(()) } else { Err(going.to_string()) }
        })
        .await;
        lab.operators[0].process.kill();
        lab.operators.clear();
        lab.behave(|b| {
            b.gone_after = Duration::from_secs(3);
            b.versions.insert(V1.into(), Fault::Slow(Duration::from_secs(3)));
        });
        lab.start_operator(&[]).await;
        // While that one is on its way no other is replaced.
        eventually("it is created again", SOON, || async {
            let pods = lab.pods("agent").await;
            let made = |(node, pod): &(&String, &Pod)| {
                version_of(pod).as_deref() == Some(V1) && pod.uid().as_ref() != before.get(*node)
            };
            let (made, ready) =
                (pods.iter().filter(made).count(), pods.iter().filter(made).filter(|(_, p)| is_ready(p)).count());
            assert!(ready > 0 || made + is_going().await <= 1, "{made} are made, and none is Ready");
            if ready >= 1 { Ok(()) } else { Err(format!("{made} {ready}")) }
        })
        .await;
        lab.behave(|b| {
            b.versions.remove(V1);
            b.gone_after = Duration::from_millis(50);
        });
        eventually("all are back", SOON, || async {
            let pods = lab.pods("agent").await;
            let back = pods.values().filter(|p| version_of(p).as_deref() == Some(V1) && is_ready(p)).count();
            if back == 6 { Ok(()) } else { Err(back.to_string()) }
        })
        .await;
        let after = lab.uids("agent").await;
        assert!(before.iter().filter(|(node, uid)| after.get(*node) != Some(*uid)).count() <= 3);
        lab.end().await;
    });
}

#[test]
fn a_host_that_refuses_the_older_agent_ends_it_with_one_and_a_newer_version_mends_all() {
    olm_tests::run(async {
        let rollout = json!({ "maxUnavailable": 2, "onFailure": "Rollback" });
        let fault = Fault::CrashesAfter(Duration::from_millis(200));
        let (lab, before) = failing("no-way-back", true, fault, rollout).await;
        let said = lab.condition("agent", "Degraded", "True", "DowngradeRefused").await;
        assert!(said.contains("which it does not run on any more"), "{said}");
        assert!(said.contains("take a newer version"), "{said}");
        let pods = lab.pods("agent").await;
        let replaced = pods.iter().filter(|(node, pod)| pod.uid().as_ref() != before.get(*node));
        let (back, left): (Vec<_>, Vec<_>) = replaced.partition(|(_, pod)| version_of(pod).as_deref() == Some(V1));
        // A node whose next Pod was created after the verdict never had the new version: it takes the older one.
        let refusing: Vec<_> = back.iter().filter(|(_, pod)| !is_ready(pod)).collect();
        assert_eq!(refusing.len(), 1, "one was tried");
        assert!(!left.is_empty() && left.len() < 5, "the others were left: {}", left.len());
        lab.cluster.vendor.publish(&lab.name, V3);
        lab.all_at("agent", V3, 6, SOON).await;
        lab.condition("agent", "Degraded", "False", "AsExpected").await;
        lab.end().await;
    });
}

#[test]
fn an_edit_in_the_middle_of_a_way_back_reaches_everybody() {
    olm_tests::run(async {
        let rollout = json!({ "maxUnavailable": 2, "onFailure": "Rollback" });
        let (lab, _) = failing("back-edited", false, Fault::CrashLoop, rollout).await;
        lab.condition("agent", "Degraded", "True", "RolloutFailed").await;
        lab.edit("agent", json!({ "env": [{ "name": "SOMETHING", "value": "else" }] })).await;
        eventually("all are back, with the edit", SOON, || async {
            let pods = lab.pods("agent").await;
            let has_edit = |pod: &Pod| {
                let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
                containers.flat_map(|container| container.env.iter().flatten()).any(|entry| entry.name == "SOMETHING")
            };
            let is_back = |pod: &&Pod| version_of(pod).as_deref() == Some(V1) && is_ready(pod) && has_edit(pod);
            let back = pods.values().filter(is_back).count();
            if back == 6 { Ok(()) } else { Err(format!("{back} {:#?}", lab.status("agent").await.rollout)) }
        })
        .await;
        assert_eq!(lab.status("agent").await.rejected_versions, [V2]);
        lab.end().await;
    });
}
