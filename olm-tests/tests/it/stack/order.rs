//! The order: each component after those that it needs, and Ready never early.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::StatefulSet;
use kube::ResourceExt;
use kube::api::{Api, ListParams};
use olm_tests::lab::Lab;
use olm_tests::run;

use super::standing;

#[test]
fn the_sample_becomes_29_pods_in_order_and_says_so_of_each_component() {
    run(async {
        let lab = Lab::of_stacks("stack-list", 3, 3).await;
        lab.cluster
            .try_kubectl(&["-n", &lab.name, "apply", "--validate=strict", "-f", "-"], Some(&lab.stack().to_string()))
            .expect("the sample is accepted under strict validation");
        let status = lab.stack_says("Ready", "AllServing").await;
        let listed = lab.cluster.kubectl(&["-n", &lab.name, "get", "pods", "-l", "contrail_manager", "--no-headers"]);
        let mut found: BTreeMap<String, usize> = BTreeMap::new();
        for line in listed.lines() {
            let [name, ready] = line.split_whitespace().take(2).collect::<Vec<_>>()[..] else { panic!("{line}") };
            // The Pods of a DaemonSet have names of their own.
            let stem = if name.contains("daemonset") { name.rsplit_once('-').expect("a name").0 } else { name };
            *found.entry(format!("{stem} {ready}")).or_default() += 1;
        }
        let mut expected: BTreeMap<String, usize> = BTreeMap::new();
        for (stem, ready) in [
            ("cassandra1-cassandra", "1/1"),
            ("config1-config", "10/10"),
            ("control1-control", "4/4"),
            ("kubemanager1-kubemanager", "2/2"),
            ("rabbitmq1-rabbitmq", "1/1"),
            ("webui1-webui", "3/3"),
            ("zookeeper1-zookeeper", "1/1"),
        ] {
            for number in 0..3 {
                expected.insert(format!("{stem}-statefulset-{number} {ready}"), 1);
            }
        }
        expected.insert("provmanager1-provisionmanager-statefulset-0 1/1".to_owned(), 1);
        for stem in ["vroutermasternodes", "vrouterworkernodes"] {
            expected.insert(format!("{stem}-vrouter-daemonset 1/1"), 3);
        }
        assert_eq!(found, expected);
        assert_eq!(found.values().sum::<usize>() + 1, 29, "and the operator's own");
        assert_eq!(status.summary.as_ref().map(|summary| &*summary.progress), Some("10/10"));
        assert_eq!(status.services.0["config"], serde_json::json!({ "name": "config1", "active": true }));
        assert_eq!(status.services.0["vrouters"].as_array().map(Vec::len), Some(2));
        let versions: Vec<_> = status.components.iter().filter_map(|one| one.version.clone()).collect();
        assert_eq!(versions.len(), 10);
        // No component was created before all that it needs served.
        let sets: Api<StatefulSet> = Api::namespaced(lab.cluster.client.clone(), &lab.name);
        let sets = sets.list(&ListParams::default()).await.expect("StatefulSets").items;
        let created = |name: &str| {
            let set = sets.iter().find(|set| set.name_any().starts_with(name)).expect("a StatefulSet");
            set.metadata.creation_timestamp.clone().expect("a time").0
        };
        for (first, then) in [("cassandra1", "config1"), ("config1", "control1"), ("config1", "webui1")] {
            assert!(created(first) <= created(then), "{first} {then}");
        }
        lab.end().await;
    });
}

#[test]
fn a_component_that_is_held_back_holds_back_those_that_need_it_and_no_other() {
    run(async {
        let lab = Lab::of_stacks("stack-held", 1, 1).await;
        for held in ["rabbitmq1", "config1", "control1"] {
            lab.hold(held);
        }
        lab.cluster.apply(&lab.stack().to_string());
        lab.component_is("cassandra1", "Serving").await;
        lab.component_is("zookeeper1", "Serving").await;
        assert_eq!(lab.component_is("config1", "Waiting").await, "rabbitmq1");
        lab.has_pods(3).await;
        let status = lab.stack_says("Ready", "StandingUp").await;
        assert_eq!(status.summary.expect("counts").progress, "2/10");
        lab.release("rabbitmq1");
        lab.component_is("config1", "Starting").await;
        assert_eq!(lab.component_is("webui1", "Waiting").await, "config1");
        lab.has_pods(4).await;
        lab.release("config1");
        lab.component_is("webui1", "Serving").await;
        assert_eq!(lab.component_is("vrouterworkernodes", "Waiting").await, "control1");
        lab.release("control1");
        lab.stack_says("Ready", "AllServing").await;
        lab.has_pods(10).await;
        lab.end().await;
    });
}

#[test]
fn a_dependency_that_is_lost_later_deletes_nothing() {
    run(async {
        let lab = standing("stack-lost", 1, 0).await;
        let before: Vec<_> = lab.stack_pods().await.iter().map(ResourceExt::uid).collect();
        let pods = lab.stack_pods().await;
        let lost = pods.iter().find(|pod| pod.name_any().starts_with("cassandra1")).expect("a Pod");
        lab.cluster.kubelet.say_ready(lost, false).await;
        let status = lab.stack_says("Degraded", "ComponentsUnavailable").await;
        let degraded = status.conditions.iter().find(|one| one.type_ == "Degraded").expect("Degraded");
        assert!(degraded.message.contains("cassandra1 does not serve (0/1)"), "{}", degraded.message);
        assert!(degraded.message.contains("config1") && !degraded.message.contains("webui1"), "{}", degraded.message);
        lab.cluster.kubelet.say_ready(lost, true).await;
        lab.stack_says("Ready", "AllServing").await;
        assert_eq!(lab.stack_pods().await.iter().map(ResourceExt::uid).collect::<Vec<_>>(), before);
        lab.end().await;
    });
}

/// What needs what here, no file of the program knows.
const TABLE: &str = "
labels: { kind: rig }
nodeSelector: { node-role.kubernetes.io/master: stack-table }
storageClass: local-storage
serviceAccount: default
filesPath: /run/stack
waits: [sh, -c, \"...\"]
references: { storeInstance: store }
rows:
- kind: store
  key: stores
  many: true
  workload: StatefulSet
  containers: [store]
  store: { path: /data, size: 1Gi }
- kind: app
  key: app
  workload: StatefulSet
  needs: [store]
  init: [init]
  containers: [app]
  files: { app: \"stores={{ servers.store | join(',') }} level={{ fields.level }}\\n\" }
- { kind: agent, key: agents, many: true, workload: DaemonSet, needs: [app], containers: [agent] }
";

#[test]
fn another_table_is_another_stack_in_its_own_order() {
    run(async {
        let mut lab = Lab::of_stacks("stack-table", 3, 0).await;
        lab.operators.clear();
        let file = lab.cluster.path("stack-table.yaml");
        std::fs::write(&file, TABLE).expect("a file");
        lab.start_operator(&[("TABLE", &file.display().to_string())]).await;
        let entry = |name: &str, more: serde_json::Value| {
            let mut configuration = more;
            configuration["containers"] = serde_json::json!([{ "name": name, "image": "i" }]);
            serde_json::json!({ "metadata": { "name": format!("{name}1") },
                "spec": { "serviceConfiguration": configuration } })
        };
        let none = || serde_json::json!({});
        let mut agent = entry("agent", none());
        agent["spec"]["commonConfiguration"] =
            serde_json::json!({ "nodeSelector": { "node-role.kubernetes.io/master": "stack-table" } });
        let mut app = entry("app", serde_json::json!({ "storeInstance": "store1", "level": "debug" }));
        let init = serde_json::json!({ "name": "init", "image": "i" });
        app["spec"]["serviceConfiguration"]["containers"].as_array_mut().expect("containers").push(init);
        let mut stack = lab.stack();
        stack["spec"] = serde_json::json!({ "services": { "stores": [entry("store", none())],
            "app": app, "agents": [agent] } });
        lab.hold("store1");
        lab.cluster.apply(&stack.to_string());
        assert_eq!(lab.component_is("app1", "Waiting").await, "store1");
        lab.release("store1");
        let status = lab.stack_says("Ready", "AllServing").await;
        assert_eq!(status.services.0["stores"][0]["active"], true);
        assert_eq!(
            lab.cluster.kubectl(&["-n", &lab.name, "get", "pods", "-l", "rig", "--no-headers"]).lines().count(),
            9
        );
        let key = format!("app\\.{}", lab.ip(&lab.nodes[0]).await.replace('.', "\\."));
        let path = format!("jsonpath={{.data.{key}}}");
        let map = ["-n", &lab.name, "get", "configmap", "app1-app-configmap", "-o", &path];
        let file = lab.cluster.kubectl(&map);
        let mut addresses = Vec::new();
        for node in &lab.nodes {
            addresses.push(lab.ip(node).await);
        }
        assert_eq!(file.trim(), format!("stores={} level=debug", addresses.join(",")));
        lab.end().await;
    });
}
