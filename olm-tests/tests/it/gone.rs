//! Nodes that go: the environment is told, once, of those and of no others.

use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt;
use kube::api::{Api, Patch, PatchParams};
use olm_tests::eventually;
use olm_tests::lab::{Lab, SOON, V1, is_ready};
use olm_tests::nodes;
use olm_tests::vendor::{Mood, api_token, entity};
use serde_json::{Value, json};

async fn notes(lab: &Lab<'_>, names: &[String]) {
    eventually("the note has the nodes", SOON, || async {
        let noted = lab.noted("agent").await;
        if noted == names { Ok(()) } else { Err(format!("{noted:?}")) }
    })
    .await;
}

async fn entity_of(lab: &Lab<'_>, node: &str) -> String {
    entity(&lab.ip(node).await)
}

/// Waits for so many events in all; returns the last.
async fn told(lab: &Lab<'_>, count: usize) -> (String, Value) {
    eventually(&format!("{count} events"), SOON, || async {
        let events = lab.cluster.vendor.with(&lab.name, |e| e.events.clone());
        if events.len() >= count { Ok(()) } else { Err(format!("{events:?}")) }
    })
    .await;
    let events = lab.cluster.vendor.with(&lab.name, |e| e.events.clone());
    assert_eq!(events.len(), count, "{events:?}");
    events.last().unwrap().clone()
}

#[test]
fn the_environment_is_told_once_of_a_node_that_is_gone_and_of_no_other() {
    olm_tests::run(async {
        let mut lab = Lab::new("gone-one", 5).await;
        lab.oneagent(&json!({}));
        lab.all_at("agent", V1, 5, SOON).await;
        notes(&lab, &lab.nodes.clone()).await;
        let ids = [
            entity_of(&lab, &lab.nodes[0]).await,
            entity_of(&lab, &lab.nodes[1]).await,
            entity_of(&lab, &lab.nodes[2]).await,
        ];

        // No longer selected, and yet there: nothing to tell.
        nodes::patch(&lab.cluster.client, &lab.nodes[4], &json!({ "metadata": { "labels": { "lab": "none" } } })).await;
        notes(&lab, &lab.nodes[..4]).await;

        // By the older API, for the token has the original's scope only; backdated, for the host fell silent before.
        nodes::delete(&lab.cluster.client, &lab.nodes[..1]).await;
        let (path, event) = told(&lab, 1).await;
        assert_eq!((path.as_str(), &event["attachRules"]["entityIds"]), ("/v1/events", &json!([ids[0]])));
        let ago = chrono::Utc::now().timestamp_millis() - event["start"].as_i64().unwrap();
        assert!((600_000..640_000).contains(&ago), "{ago} ms ago");
        notes(&lab, &lab.nodes[1..4]).await;
        let said = lab.events("agent").await.into_iter().find(|e| e.contains("NodesGone")).unwrap();
        assert!(said.starts_with("Normal") && said.contains(&lab.nodes[0]), "{said}");

        // While the environment is broken and the operator away, and then by the newer API.
        lab.cluster.vendor.with(&lab.name, |e| {
            e.mood = Mood::Broken;
            e.tokens.get_mut(&api_token("gone-one")).unwrap().push("events.ingest".into());
        });
        lab.operators.clear();
        nodes::delete(&lab.cluster.client, &lab.nodes[1..2]).await;
        lab.start_operator(&[]).await;
        tokio::time::sleep(Duration::from_secs(13)).await;
        lab.cluster.vendor.with(&lab.name, |e| {
            assert!(e.events.len() == 1 && e.calls["/v1/entity/infrastructure/hosts"] > 0);
            e.mood = Mood::Well;
        });
        let (path, event) = told(&lab, 2).await;
        assert_eq!(
            (path.as_str(), &event["entitySelector"]),
            ("/v2/events/ingest", &json!(format!("entityId(\"{}\")", ids[1])))
        );

        // A node whose host cannot be told from another: nothing is kept back that may be an alert.
        let ip = lab.ip(&lab.nodes[2]).await;
        lab.cluster.vendor.with(&lab.name, |e| drop(e.hosts.insert(format!("{ip}@DEFAULT"), V1.into())));
        nodes::delete(&lab.cluster.client, &lab.nodes[2..3]).await;
        eventually("it is said that nothing was told", SOON, || async {
            let events = lab.events("agent").await;
            if events.iter().any(|e| e.starts_with("Warning NodesGone") && e.contains("more than one host")) {
                Ok(())
            } else {
                Err(format!("{events:?}"))
            }
        })
        .await;
        notes(&lab, &lab.nodes[3..4]).await;
        told(&lab, 2).await;
        lab.end().await;
    });
}

#[test]
fn a_scale_in_of_fifty_is_one_event_and_an_unwritable_note_stops_nothing() {
    olm_tests::run(async {
        let lab = Lab::new("gone-fifty", 52).await;
        lab.oneagent(&json!({}));
        lab.all_at("agent", V1, 52, SOON).await;
        notes(&lab, &lab.nodes.clone()).await;
        let writes = || lab.requests().into_iter().filter(|r| r.writes() && r.resource == "configmaps").count();
        let before = writes();
        assert!(before <= 3, "{before} writes for 52 nodes");
        nodes::delete(&lab.cluster.client, &lab.nodes[..50]).await;
        let (_, event) = told(&lab, 1).await;
        assert_eq!(event["attachRules"]["entityIds"].as_array().unwrap().len(), 50);
        notes(&lab, &lab.nodes[50..]).await;
        assert!(writes() - before <= 3, "{} writes for 50 nodes", writes() - before);
        // Frozen by its admin: the agents do not care.
        let api: Api<ConfigMap> = Api::namespaced(lab.cluster.client.clone(), &lab.name);
        api.patch("agent-known-nodes", &PatchParams::default(), &Patch::Merge(json!({ "immutable": true })))
            .await
            .unwrap();
        lab.edit("agent", json!({ "labels": { "a": "b" } })).await;
        nodes::delete(&lab.cluster.client, &lab.nodes[50..51]).await;
        told(&lab, 2).await;
        let last = lab.nodes[51].clone();
        eventually("the edit reaches the agent that is left", SOON, || async {
            let pods = lab.pods("agent").await;
            let has = pods
                .get(&last)
                .is_some_and(|pod| is_ready(pod) && pod.labels().get("a").map(String::as_str) == Some("b"));
            if has { Ok(()) } else { Err("not yet".to_owned()) }
        })
        .await;
        lab.condition("agent", "Ready", "True", "AllUpdated").await;
        lab.condition("agent", "Degraded", "False", "AsExpected").await;
        lab.end().await;
    });
}
