//! `update.source: ConfigMap`: versions that a ConfigMap lists, for sites whose operator cannot reach the environment.

use chrono::Utc;
use olm_tests::kubelet::Fault;
use olm_tests::lab::{Lab, SOON, V1, V2, V3};
use serde_json::json;

fn list(lab: &Lab<'_>, text: &str) {
    let map = json!({ "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": { "name": "versions", "namespace": lab.name }, "data": { "versions": text } });
    lab.cluster.apply(&map.to_string());
}

#[test]
fn versions_of_a_config_map_are_rolled_out_without_a_word_to_the_environment() {
    olm_tests::run(async {
        let lab = Lab::new("update-listed", 2).await;
        let list = |text: &str| list(&lab, text);
        for version in [V2, V3] {
            lab.cluster.vendor.publish(&lab.name, version);
        }
        lab.oneagent(&json!({ "update": { "source": "ConfigMap", "configMap": { "name": "versions" } } }));
        let said = lab.condition("agent", "Degraded", "True", "VersionListInvalid").await;
        assert!(said.contains("spec.update.configMap: ConfigMap update-listed/versions does not exist"), "{said}");
        list(&format!("# mirrored\n{V1}\n"));
        lab.all_at("agent", V1, 2, SOON).await;
        assert_eq!(lab.status("agent").await.version_source.as_deref(), Some("ConfigMap"));
        let before = lab.uids("agent").await;
        // What is invalid, is empty or gone touches no one, and a restart forgets nothing.
        for (text, why) in [("1.2", "\"1.2\""), ("\n", "is empty")] {
            list(text);
            let said = lab.says("agent", "Degraded", why).await;
            assert!(said.contains("agents keep their version"), "{said}");
        }
        lab.cluster.kubectl(&["-n", &lab.name, "delete", "configmap", "versions"]);
        lab.says("agent", "Degraded", "does not exist").await;
        assert_eq!(lab.uids("agent").await, before);
        list(&format!("{V1}\n{V2}\n"));
        lab.all_at("agent", V2, 2, SOON).await;
        // One that is taken out of the list is not gone back from; a pin is bound to the list.
        list(&format!("{V1}\n"));
        lab.edit("agent", json!({ "update": { "version": V3 } })).await;
        lab.condition("agent", "Degraded", "True", "VersionNotOffered").await;
        list(&format!("{V3}\n{V1}\n"));
        lab.all_at("agent", V3, 2, SOON).await;
        let calls = lab.cluster.vendor.with(&lab.name, |environment| environment.calls.clone());
        assert!(calls.is_empty(), "{calls:?}");
        let patch = json!({ "spec": { "update": { "configMap": null } } }).to_string();
        let args = ["-n", &lab.name, "patch", "oneagent", "agent", "--type=merge", "-p", &patch];
        let refused = lab.cluster.try_kubectl(&args, None).unwrap_err();
        assert!(refused.contains("source ConfigMap needs configMap.name"), "{refused}");
        // Back to the environment.
        lab.edit("agent", json!({ "update": null })).await;
        lab.condition("agent", "PaaSToken", "True", "TokenReady").await;
        lab.all_at("agent", V3, 2, SOON).await;
        assert_eq!(lab.status("agent").await.version_source.as_deref(), Some("Api"));
        lab.end().await;
    });
}

/// A version that was built today, and that `minimumAge` keeps from being taken.
fn young() -> String {
    format!("1.309.0.{}-000000", Utc::now().format("%Y%m%d"))
}

#[test]
fn a_list_moves_no_agent_backwards() {
    olm_tests::run(async {
        let lab = Lab::new("listed-older", 2).await;
        lab.oneagent(&json!({ "update": { "minimumAge": "240h" } }));
        lab.all_at("agent", V1, 2, SOON).await;
        // One agent updates itself to a version that is not taken yet; the other one is updated by us.
        let (itself, young) = (lab.nodes[0].clone(), young());
        let ip = lab.ip(&itself).await;
        lab.cluster.vendor.with(&lab.name, |e| drop(e.hosts.insert(ip, young.clone())));
        lab.cluster.vendor.publish(&lab.name, V2);
        lab.cluster.vendor.publish(&lab.name, &young);
        lab.shows("one is at what is taken, and the other one is newer", SOON, |status| {
            let version = |node: &String| status.instances.get(node).and_then(|instance| instance.version.clone());
            let is_done = status.rollout.as_ref().is_some_and(|rollout| rollout.state == "Complete");
            is_done && version(&itself).as_ref() == Some(&young) && version(&lab.nodes[1]).as_deref() == Some(V2)
        })
        .await;
        let before = lab.uids("agent").await;
        list(&lab, V2);
        let source = json!({ "source": "ConfigMap", "configMap": { "name": "versions" }, "minimumAge": null });
        lab.edit("agent", json!({ "update": source })).await;
        let said = lab.condition("agent", "Degraded", "True", "VersionListInvalid").await;
        assert!(said.contains(&format!("agents updated themselves to {young}")), "{said}");
        assert_eq!(lab.uids("agent").await, before, "an agent went back");
        list(&lab, &format!("{V2}\n{young}\n"));
        lab.all_at("agent", &young, 2, SOON).await;
        // What runs and is not in a list is not gone back from either.
        let before = lab.uids("agent").await;
        list(&lab, V3);
        lab.edit("agent", json!({ "rollout": { "maxUnavailable": 1 } })).await;
        lab.is_observed("agent").await;
        assert_eq!(lab.status("agent").await.desired_version, Some(young));
        assert_eq!(lab.uids("agent").await, before);
        lab.end().await;
    });
}

#[test]
fn a_version_of_a_list_that_fails_is_stopped_and_not_rejected() {
    olm_tests::run(async {
        let lab = Lab::new("listed-fails", 4).await;
        lab.cluster.vendor.publish(&lab.name, V2);
        list(&lab, V1);
        let source = json!({ "source": "ConfigMap", "configMap": { "name": "versions" } });
        let rollout = json!({ "maxUnavailable": 1, "onFailure": "Rollback" });
        lab.oneagent(&json!({ "waitReadySeconds": 5, "rollout": rollout, "update": source }));
        lab.all_at("agent", V1, 4, SOON).await;
        let before = lab.uids("agent").await;
        lab.behave(|b| {
            b.versions.insert(V2.into(), Fault::CrashLoop);
        });
        list(&lab, &format!("{V1}\n{V2}"));
        let said = lab.condition("agent", "Degraded", "True", "RolloutFailed").await;
        assert!(said.contains(V2) && said.contains("see whether these nodes reach it"), "{said}");
        assert!(lab.status("agent").await.rejected_versions.is_empty());
        let changed = |uids: &std::collections::BTreeMap<String, String>| {
            before.iter().filter(|(node, uid)| uids.get(*node) != Some(*uid)).count()
        };
        lab.shows("it is back", SOON, |status| status.nodes.as_ref().is_some_and(|nodes| nodes.running == 4)).await;
        assert_eq!(changed(&lab.uids("agent").await), 1);
        // An administrator restores access to the environment, and says so.
        lab.behave(|b| b.versions.clear());
        lab.edit("agent", json!({ "rollout": { "maxUnavailable": 1, "retry": V2 } })).await;
        lab.all_at("agent", V2, 4, SOON).await;
        lab.condition("agent", "Degraded", "False", "AsExpected").await;
        lab.end().await;
    });
}
