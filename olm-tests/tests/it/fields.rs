//! Fields that no other story needs: each shows its effect in what the API server stores.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use olm_tests::eventually;
use olm_tests::lab::{Lab, SOON, V1, V2};
use olm_tests::nodes::Shape;
use serde_json::json;

/// A variable of a Pod's container.
fn variable(pod: &Pod, name: &str) -> Option<String> {
    let env = pod.spec.as_ref()?.containers[0].env.as_ref()?;
    env.iter().find(|e| e.name == name)?.value.clone()
}

#[test]
fn an_agent_version_is_the_newest_that_begins_so_and_moves_with_the_field() {
    olm_tests::run(async {
        let lab = Lab::new("fields-version", 2).await;
        lab.cluster.vendor.publish(&lab.name, V2);
        lab.oneagent(&json!({ "agentVersion": "1.300.10" }));
        lab.all_at("agent", V1, 2, SOON).await;
        assert_eq!(lab.status("agent").await.version_source.as_deref(), Some("AgentVersion"));
        lab.edit("agent", json!({ "agentVersion": V2 })).await;
        lab.all_at("agent", V2, 2, SOON).await;
        // The original ignored the field here, so it never moves an agent backwards.
        let before = lab.uids("agent").await;
        lab.edit("agent", json!({ "agentVersion": "1.300.10" })).await;
        lab.is_observed("agent").await;
        assert_eq!(lab.uids("agent").await, before);
        lab.end().await;
    });
}

#[test]
fn an_installer_address_of_the_users_is_theirs_to_version() {
    olm_tests::run(async {
        let mut lab = Lab::new("fields-url", 1).await;
        lab.add_nodes(1, &Shape { arch: "arm64".into(), ..Shape::default() }).await;
        let url = format!(
            "{}/v1/deployment/installer/agent/unix/default/version/{V1}?Api-Token=$(ONEAGENT_INSTALLER_TOKEN)",
            lab.cluster.vendor.url(&lab.name)
        );
        lab.oneagent(&json!({ "env": [{ "name": "ONEAGENT_INSTALLER_SCRIPT_URL", "value": url }] }));
        // It is unknown which architectures it is for: no node is kept out.
        lab.all_pods_ready("agent", 2).await;
        lab.condition("agent", "Ready", "True", "AllUpdated").await;
        assert_eq!(lab.status("agent").await.version_source.as_deref(), Some("UserURL"));
        let before = lab.uids("agent").await;
        lab.cluster.vendor.publish(&lab.name, V2);
        lab.is_polled().await;
        lab.edit("agent", json!({ "rollout": { "paused": false } })).await;
        lab.is_observed("agent").await;
        assert_eq!(lab.uids("agent").await, before, "a new version is none of our business here");
        assert!(
            lab.pods("agent")
                .await
                .values()
                .all(|pod| variable(pod, "ONEAGENT_INSTALLER_SCRIPT_URL").as_ref() == Some(&url))
        );
        lab.end().await;
    });
}

#[test]
fn an_architecture_that_the_node_selector_names_gets_its_own_installer() {
    olm_tests::run(async {
        let mut lab = Lab::new("fields-arm", 1).await;
        let arm = lab.add_nodes(2, &Shape { arch: "arm64".into(), ..Shape::default() }).await;
        lab.oneagent(&json!({}));
        lab.all_at("agent", V1, 1, SOON).await;
        assert_eq!(lab.status("agent").await.nodes.map(|nodes| nodes.arch), Some(2), "the others are counted");
        lab.oneagent_named("arm", &json!({ "nodeSelector": { "lab": lab.name, "kubernetes.io/arch": "arm64" } }));
        lab.all_at("arm", V1, 2, SOON).await;
        lab.pods_are("arm", &arm).await;
        assert!(
            lab.pods("arm")
                .await
                .values()
                .all(|pod| variable(pod, "ONEAGENT_INSTALLER_SCRIPT_URL").unwrap().contains("&arch=arm&"))
        );
        lab.end().await;
    });
}

#[test]
fn node_affinity_selects_as_the_daemonset_controller_does() {
    olm_tests::run(async {
        let mut lab = Lab::new("fields-affinity", 0).await;
        let cpus = |cpus: &str| Shape::default().label("cpus", cpus);
        let small = lab.add_nodes(1, &cpus("4")).await;
        let large = lab.add_nodes(2, &cpus("16")).await;
        let other = lab.add_nodes(1, &Shape { arch: "arm64".into(), ..cpus("16") }).await;
        let preferred =
            json!([{ "weight": 1, "preference": { "matchExpressions": [{ "key": "cpus", "operator": "Exists" }] } }]);
        let affinity = |terms: serde_json::Value| {
            json!({ "affinity": {
            "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": terms }, "preferredDuringSchedulingIgnoredDuringExecution": preferred } } })
        };
        lab.oneagent(&affinity(
            json!([{ "matchExpressions": [{ "key": "cpus", "operator": "Gt", "values": ["8"] }] }]),
        ));
        lab.pods_are("agent", &large).await;
        lab.all_at("agent", V1, 2, SOON).await;
        let nodes = lab.status("agent").await.nodes.unwrap();
        assert_eq!((nodes.selected, nodes.arch), (2, 1), "what we count is what the controller runs: {other:?}");
        let before = lab.uids("agent").await;
        // A second term is an alternative; placement restarts no agent.
        let by_name = json!({ "matchFields": [{ "key": "metadata.name", "operator": "In", "values": [small[0]] }] });
        lab.edit(
            "agent",
            affinity(json!([{ "matchExpressions": [{ "key": "cpus", "operator": "In", "values": ["16"] }] }, by_name])),
        )
        .await;
        lab.pods_are("agent", &[&small[..], &large].concat()).await;
        lab.all_at("agent", V1, 3, SOON).await;
        let now = lab.uids("agent").await;
        assert!(large.iter().all(|node| before[node] == now[node]));
        let stored = lab
            .daemonset("agent")
            .await
            .unwrap()
            .spec
            .unwrap()
            .template
            .spec
            .unwrap()
            .affinity
            .unwrap()
            .node_affinity
            .unwrap();
        assert_eq!(stored.preferred_during_scheduling_ignored_during_execution.unwrap().len(), 1);
        lab.end().await;
    });
}

#[test]
fn a_proxy_that_the_spec_holds_is_the_agents_and_a_wait_counts_from_ready() {
    olm_tests::run(async {
        let lab = Lab::new("fields-proxy", 2).await;
        lab.oneagent(&json!({ "proxy": { "value": "http://127.0.0.1:1", "noProxy": "127.0.0.1" },
                "rollout": { "minReadySeconds": 4, "maxUnavailable": 1 } }));
        lab.all_at("agent", V1, 2, SOON).await;
        assert!(
            lab.pods("agent")
                .await
                .values()
                .all(|pod| variable(pod, "https_proxy").as_deref() == Some("http://127.0.0.1:1"))
        );
        lab.cluster.vendor.publish(&lab.name, V2);
        let at = async |version: &str| {
            lab.pods("agent")
                .await
                .values()
                .filter(|pod| {
                    olm_tests::lab::version_of(pod).as_deref() == Some(version) && olm_tests::lab::is_ready(pod)
                })
                .count()
        };
        eventually("the first agent is Ready", SOON, || async {
            if at(V2).await == 1 { Ok(()) } else { Err("not yet".to_owned()) }
        })
        .await;
        let began = std::time::Instant::now();
        lab.all_at("agent", V2, 2, SOON).await;
        assert!(
            began.elapsed() > Duration::from_secs(4),
            "the second was replaced before the first had stayed Ready: {:?}",
            began.elapsed()
        );
        lab.end().await;
    });
}
