//! What admission makes of agents: unprivileged ones under the SecurityContextConstraints made for them, which our
//! matcher applies to the Pods of a real API server; and a LimitRange, by the API server itself.

use std::collections::BTreeSet;

use kube::ResourceExt;
use olm_tests::cluster::{Cluster, repository};
use olm_tests::eventually;
use olm_tests::lab::{Lab, SOON, V1, V2};
use olm_tests::openshift::{REQUIRED_SCC, SCC, serve};
use olm_tests::webhook::Webhook;
use oneagent_operator::openshift::scc::{Scc, admitting};
use serde_json::{Value, json};

/// Under which of these a Pod is admitted, as OpenShift writes it on the Pod; all that its account may use are tried.
fn admit(sccs: &[Scc], namespace: &str, pod: &Value) -> Result<Vec<Value>, String> {
    let spec = serde_json::from_value(pod["spec"].clone()).unwrap();
    let account = pod["spec"]["serviceAccountName"].as_str().unwrap_or("default");
    let usable = || sccs.iter().filter(|scc| scc.names(namespace, account));
    let Some(taken) = admitting(usable(), &spec) else {
        let against: Vec<String> =
            usable().map(|scc| format!("{}: {}", scc.metadata.name, scc.against(&spec).join(", "))).collect();
        return Err(format!("unable to validate against any security context constraint: {against:?}"));
    };
    let mut annotations = pod["metadata"]["annotations"].as_object().cloned().unwrap_or_default();
    annotations.insert(SCC.to_owned(), taken.metadata.name.clone().into());
    Ok(vec![json!({ "op": "add", "path": "/metadata/annotations", "value": annotations })])
}

#[test]
fn unprivileged_agents_run_under_the_scc_that_is_made_for_them() {
    olm_tests::run(async {
        let cluster = Cluster::start(Vec::new()).await;
        serve(&cluster);
        let lab = Lab::on(&cluster, "tailored", 2).await;
        let recorded = std::fs::read_to_string(repository("src/openshift/scc/recorded.json")).unwrap();
        let mut sccs: Vec<Scc> = serde_json::from_str(&recorded).unwrap();
        // As the manifest says it, except for the namespace.
        let file = repository("config/oneagent-operator/scc-unprivileged.yaml");
        let own =
            std::fs::read_to_string(file).unwrap().replace("serviceaccount:dynatrace:", "serviceaccount:tailored:");
        cluster.apply(&own);
        sccs.push(serde_yaml::from_str(&own).unwrap());
        let namespace = lab.name.clone();
        let webhook = Webhook::of_pods(&cluster.client, &lab.name, move |pod| admit(&sccs, &namespace, pod)).await;
        lab.oneagent(&json!({ "useUnprivilegedMode": true, "useImmutableImage": true }));
        lab.all_at("agent", V1, 2, SOON).await;
        cluster.vendor.publish(&lab.name, V2);
        lab.all_at("agent", V2, 2, SOON).await;
        let pods = lab.pods("agent").await;
        let taken: BTreeSet<&str> = pods.values().filter_map(|pod| pod.annotations().get(SCC)).map(|s| &**s).collect();
        assert_eq!(taken, ["dynatrace-oneagent-unprivileged"].into());
        assert!(pods.values().all(|pod| !pod.annotations().contains_key(REQUIRED_SCC)), "none insists");
        let said = lab.condition("agent", "Degraded", "False", "AsExpected").await;
        assert!(!said.contains("SecurityContextConstraints"), "it is not foreign: {said}");
        // It is not broader than that: as privileged ones they are refused, and those that run stay.
        let before = lab.uids("agent").await;
        lab.edit("agent", json!({ "useUnprivilegedMode": false, "rollout": { "maxUnavailable": 1 } })).await;
        let said = lab.condition_within(SOON, "agent", "Degraded", "True", "PodsRefused").await;
        assert!(said.contains("add-scc-to-user privileged -z dynatrace-oneagent"), "{said}");
        let after = lab.uids("agent").await;
        assert!(before.iter().filter(|(node, uid)| after.get(*node) == Some(uid)).count() >= 1, "at most the budget");
        lab.edit("agent", json!({ "useUnprivilegedMode": true, "rollout": null })).await;
        lab.all_at("agent", V2, 2, SOON).await;
        webhook.end().await;
        lab.end().await;
    });
}

#[test]
fn a_limit_range_that_limits_agents_is_named() {
    olm_tests::run(async {
        let cluster = Cluster::shared().await;
        let lab = Lab::on(cluster, "limited", 2).await;
        let limits = |name: &str, limit: Value| {
            json!({ "apiVersion": "v1", "kind": "LimitRange", "metadata": { "name": name, "namespace": lab.name },
                "spec": { "limits": [limit] } })
            .to_string()
        };
        cluster.apply(&limits("requests", json!({ "type": "Container", "defaultRequest": { "cpu": "10m" } })));
        lab.oneagent(&json!({}));
        lab.all_at("agent", V1, 2, SOON).await;
        let said = lab.condition("agent", "Degraded", "False", "AsExpected").await;
        assert!(!said.contains("LimitRange"), "a request ends nobody: {said}");
        cluster.apply(&limits("limits", json!({ "type": "Container", "default": { "memory": "64Mi" } })));
        cluster.vendor.publish(&lab.name, V2);
        lab.all_at("agent", V2, 2, SOON).await;
        let said = lab.says("agent", "Degraded", "a LimitRange of namespace limited changed 2 agents").await;
        assert!(said.contains("memory limit"), "{said}");
        lab.condition("agent", "Degraded", "False", "AsExpected").await;
        // The remedy: limits of the agents' own.
        let resources = json!({ "limits": { "memory": "1Gi" }, "requests": { "memory": "512Mi" } });
        lab.edit("agent", json!({ "resources": resources })).await;
        eventually("nothing is said any more", SOON, || async {
            let said = lab.condition("agent", "Degraded", "False", "AsExpected").await;
            if said.contains("LimitRange") { Err(said) } else { Ok(()) }
        })
        .await;
        lab.end().await;
    });
}
