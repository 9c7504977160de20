//! Changes: of the spec, of nodes, and of objects by others.

use k8s_openapi::api::apps::v1::{DaemonSet, StatefulSet};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, Patch, PatchParams};
use olm_tests::eyes::Eyes;
use olm_tests::kubelet::Fault;
use olm_tests::lab::{LONG, Lab, SOON};
use olm_tests::nodes::Shape;
use olm_tests::{eventually, run};
use serde_json::{Value, json};

use super::{Uids, claims, others, servers, standing, uids, with};

#[test]
fn a_change_is_put_back_and_what_leaves_the_spec_is_deleted() {
    run(async {
        let lab = standing("stack-drift", 1, 1).await;
        let client = lab.cluster.client.clone();
        let sets: Api<StatefulSet> = Api::namespaced(client.clone(), &lab.name);
        let of_nodes: Api<DaemonSet> = Api::namespaced(client, &lab.name);
        let (config, vrouter) = ("config1-config-statefulset", "vrouterworkernodes-vrouter-daemonset");
        let params = PatchParams::default();
        sets.patch(config, &params, &Patch::Merge(json!({ "spec": { "replicas": 0 } }))).await.expect("a patch");
        let unlabelled = json!({ "metadata": { "labels": { "contrail_manager": null } } });
        of_nodes.patch(vrouter, &params, &Patch::Merge(unlabelled)).await.expect("a patch");
        lab.cluster.kubectl(&["-n", &lab.name, "delete", "service", "webui1-webui"]);
        lab.cluster.kubectl(&["-n", &lab.name, "delete", "statefulset", "control1-control-statefulset"]);
        eventually("all is as it was", SOON, || async {
            let replicas = sets.get(config).await.ok().and_then(|set| set.spec?.replicas);
            let label = of_nodes.get(vrouter).await.ok().and_then(|set| set.labels().get("contrail_manager").cloned());
            let control = sets.get("control1-control-statefulset").await.is_ok();
            let service = lab.cluster.try_kubectl(&["-n", &lab.name, "get", "service", "webui1-webui"], None).is_ok();
            let is_back = replicas == Some(1) && label.as_deref() == Some("vrouter") && control && service;
            if is_back { Ok(()) } else { Err(format!("{replicas:?} {label:?} {control} {service}")) }
        })
        .await;
        lab.stack_says("Ready", "AllServing").await;
        // A component that leaves the spec is deleted, and comes again.
        lab.edit_stack(json!({ "services": { "webui": null } })).await;
        eventually("the web UI is gone", SOON, || async {
            let pods = lab.stack_pods().await;
            let is_there = pods.iter().any(|pod| pod.name_any().starts_with("webui1"));
            if is_there { Err("still there".to_owned()) } else { Ok(()) }
        })
        .await;
        lab.edit_stack(json!({ "services": { "webui": lab.stack()["spec"]["services"]["webui"] } })).await;
        lab.component_is("webui1", "Serving").await;
        lab.end().await;
    });
}

#[test]
fn a_mistake_in_one_entry_is_named_with_its_path_and_deletes_nothing() {
    run(async {
        let lab = standing("stack-typo", 1, 0).await;
        let before = uids(&lab).await;
        let services = lab.stack()["spec"]["services"].clone();
        let without = |key: &str, change: &dyn Fn(&mut Value)| {
            let mut entry = services[key].clone();
            change(&mut entry);
            json!({ "services": { key: entry } })
        };
        let cases: [(Value, &str); 4] = [
            (
                without("config", &|entry| {
                    let all = entry["spec"]["serviceConfiguration"]["containers"].as_array_mut().expect("containers");
                    all.retain(|one| one["name"] != "redis");
                }),
                "spec.services.config.spec.serviceConfiguration.containers: container redis is missing",
            ),
            (
                without("webui", &|entry| {
                    entry["spec"]["serviceConfiguration"]["cassandraInstance"] = "casandra1".into();
                }),
                "there is no cassandra casandra1; the nearest name is cassandra1",
            ),
            (json!({ "services": { "zookeper": {} } }), "the nearest name is zookeepers"),
            (json!({ "services": { "controls": {} } }), "services.controls"),
        ];
        for (edit, said) in cases {
            let edited =
                lab.stacks().patch("cluster1", &PatchParams::default(), &Patch::Merge(json!({ "spec": edit }))).await;
            match edited {
                // The API server knows the form of what is known.
                Err(kube::Error::Api(status)) => assert!(status.message.contains(said), "{}", status.message),
                Err(error) => panic!("{error}"),
                Ok(_) => {
                    let status = lab.stack_says("Degraded", "InvalidComponent").await;
                    let degraded = status.conditions.iter().find(|one| one.type_ == "Degraded").expect("Degraded");
                    assert!(degraded.message.contains(said), "{}", degraded.message);
                    lab.edit_stack(json!({ "services": { "zookeper": null } })).await;
                    lab.edit_stack(json!({ "services": services })).await;
                    lab.stack_says("Ready", "AllServing").await;
                }
            }
        }
        assert_eq!(uids(&lab).await, before);
        // What is known and not carried out is said once.
        lab.edit_stack(json!({ "services": { "contrailmonitor": { "metadata": { "name": "m" } } } })).await;
        lab.stack_says("NotCarriedOut", "Ignored").await;
        lab.stack_says("Ready", "AllServing").await;
        lab.end().await;
    });
}

#[test]
fn nodes_that_join_get_what_runs_on_every_node_and_servers_and_stores_grow() {
    run(async {
        let mut lab = standing("stack-join", 1, 1).await;
        assert_eq!(servers(&lab, "config1").await, 1);
        let is_store =
            |pod: &Pod| ["cassandra1", "zookeeper1", "rabbitmq1"].iter().any(|one| pod.name_any().starts_with(one));
        let before: Vec<_> = lab.stack_pods().await.iter().filter(|pod| is_store(pod)).map(ResourceExt::uid).collect();
        let name = lab.name.clone();
        lab.add_nodes(1, &Shape::default().label("node-role.kubernetes.io/worker", &name)).await;
        lab.add_masters(2).await;
        eventually("three of each", SOON, || async {
            let mut found = Vec::new();
            for begin in ["config1", "webui1", "vroutermasternodes", "vrouterworkernodes", "zookeeper1"] {
                found.push(servers(&lab, begin).await);
            }
            if found == [3, 3, 3, 2, 3] { Ok(()) } else { Err(format!("{found:?}")) }
        })
        .await;
        // Those that connect to them learn the new ones, in turn.
        lab.component_is("config1", "Serving").await;
        let now: Vec<_> = lab.stack_pods().await.iter().map(ResourceExt::uid).collect();
        assert!(before.iter().all(|uid| now.contains(uid)), "a store's servers stay");
        // Cordoned or without its label, a node keeps its servers.
        let node = lab.nodes[0].clone();
        lab.cluster.kubectl(&["cordon", &node]);
        lab.edit_stack(
            json!({ "commonConfiguration": { "tolerations": [{ "operator": "Exists", "effect": "NoSchedule" }] } }),
        )
        .await;
        lab.component_is("config1", "Serving").await;
        assert_eq!(servers(&lab, "config1").await, 3);
        lab.end().await;
    });
}

#[test]
fn without_a_node_that_matches_the_label_is_named_and_another_ones_object_stays_as_it_is() {
    run(async {
        let mut lab = Lab::of_stacks("stack-none", 0, 0).await;
        // Another owner's, which has the name that a component of ours would have.
        let foreign = json!({ "apiVersion": "apps/v1", "kind": "StatefulSet",
        "metadata": { "name": "rabbitmq1-rabbitmq-statefulset", "namespace": lab.name },
        "spec": { "replicas": 0, "selector": { "matchLabels": { "a": "b" } }, "template": {
            "metadata": { "labels": { "a": "b" } },
            "spec": { "containers": [{ "name": "c", "image": "i" }] } } }
        });
        lab.cluster.apply(&foreign.to_string());
        lab.cluster.apply(&lab.stack().to_string());
        let said = lab.component_is("cassandra1", "Unplaced").await;
        assert!(said.contains("no node has label node-role.kubernetes.io/master="), "{said}");
        lab.stack_says("Degraded", "NoNodes").await;
        lab.add_masters(1).await;
        lab.component_is("cassandra1", "Serving").await;
        let said = lab.component_is("rabbitmq1", "Refused").await;
        assert!(said.contains("StatefulSet rabbitmq1-rabbitmq-statefulset was there before"), "{said}");
        lab.component_is("config1", "Waiting").await;
        let sets: Api<StatefulSet> = Api::namespaced(lab.cluster.client.clone(), &lab.name);
        let theirs = sets.get("rabbitmq1-rabbitmq-statefulset").await.expect("theirs");
        assert!(theirs.owner_references().is_empty() && theirs.labels().is_empty());
        sets.delete("rabbitmq1-rabbitmq-statefulset", &DeleteParams::default()).await.expect("deleted");
        lab.stack_says("Ready", "AllServing").await;
        lab.end().await;
    });
}

#[test]
fn a_changed_image_reaches_one_server_at_a_time_and_a_bad_one_the_first_alone() {
    run(async {
        let lab = standing("stack-image", 3, 1).await;
        let before = uids(&lab).await;
        let with = |image: &str| with(&lab, "webui", "redis", &json!({ "image": image }));
        // A bad one: its first server does not start, and nothing further is replaced.
        lab.behave(|behaviour| {
            behaviour.pods.insert("webui1".to_owned(), Fault::ImagePull);
        });
        lab.edit_stack(with("redis:bad")).await;
        let said = lab.component_is("webui1", "Updating").await;
        assert!(said.contains("an earlier template"), "{said}");
        let status = lab.stack_says("Degraded", "PodsFailing").await;
        let degraded = status.conditions.iter().find(|one| one.type_ == "Degraded").expect("Degraded");
        assert!(degraded.message.contains("webui1-webui-statefulset-2: ImagePullBackOff"), "{}", degraded.message);
        let changed = async |before: &Uids| others(before, &uids(&lab).await);
        tokio::time::sleep(std::time::Duration::from_secs(25)).await;
        assert_eq!(changed(&before).await, ["webui1-webui-statefulset-2"]);
        // Taken back, it undoes itself, and the other two never notice.
        lab.behave(|behaviour| {
            behaviour.pods.remove("webui1");
        });
        lab.edit_stack(with("redis:4.0.2")).await;
        lab.stack_says("Ready", "AllServing").await;
        assert_eq!(changed(&before).await, ["webui1-webui-statefulset-2"]);
        // A good one reaches all three, and no other component.
        let eyes = Eyes::on_replicas(&lab, "contrail_manager=webui", 3).await;
        let before = uids(&lab).await;
        lab.edit_stack(with("redis:7")).await;
        lab.stack_says("Ready", "AllServing").await;
        assert_eq!(eyes.seen().await.counts(), (1, 3), "one at a time, each once");
        assert_eq!(changed(&before).await.len(), 3);
        lab.end().await;
    });
}

#[test]
fn rights_are_just_those_that_are_used_and_at_rest_or_after_a_restart_nothing_is_written() {
    run(async {
        let mut lab = standing("stack-rights", 1, 1).await;
        let before = lab.rests().await;
        let applied = before.iter().filter(|write| write.starts_with("patch ") && !write.contains("/status")).count();
        // Ten workloads with files, two Services, three PodDisruptionBudgets, and the files of seven that are secret.
        assert_eq!(applied, 32, "{before:?}");
        lab.operators.clear();
        lab.stacks()
            .patch_status("cluster1", &PatchParams::default(), &Patch::Merge(json!({ "status": null })))
            .await
            .expect("a wipe");
        lab.start_operator(&[]).await;
        lab.stack_says("Ready", "AllServing").await;
        let again = lab.writes().split_off(before.len());
        assert!(again.iter().all(|write| write == "patch managers/status" || write == "create events"), "{again:?}");
        let mut prov = lab.stack()["spec"]["services"]["provisionManager"].clone();
        prov["spec"]["serviceConfiguration"]["containers"][1]["command"] = json!(["other"]);
        lab.edit_stack(json!({ "services": { "provisionManager": prov } })).await;
        lab.stack_says("Ready", "AllServing").await;
        lab.edit_stack(
            json!({ "services": { "webui": null, "rabbitmq": null, "zookeepers": null, "vrouters": null } }),
        )
        .await;
        eventually("these are gone", SOON, || async {
            let names: Vec<String> = lab.stack_pods().await.iter().map(ResourceExt::name_any).collect();
            let is_there = names.iter().any(|name| name.contains("webui") || name.contains("vrouter"));
            if is_there { Err(format!("{names:?}")) } else { Ok(()) }
        })
        .await;
        lab.start_operator(&[]).await;
        eventually("the second one stands by", SOON, || async {
            if lab.operators[1].printed().contains("standing by") { Ok(()) } else { Err("not yet".to_owned()) }
        })
        .await;
        lab.touch_lease().await;
        assert_eq!(lab.unused_rights(), []);
        lab.end().await;
    });
}

#[test]
fn an_operator_that_is_killed_again_and_again_starts_the_stack_all_the_same() {
    run(async {
        let mut lab = Lab::of_stacks("stack-killed", 3, 1).await;
        lab.cluster.apply(&lab.stack().to_string());
        let mut known = 0;
        for _ in 0..6 {
            eventually("something more is there", SOON, || async {
                let now = lab.stack_pods().await.len();
                if now > known || now >= 26 { Ok(()) } else { Err(now.to_string()) }
            })
            .await;
            known = lab.stack_pods().await.len();
            lab.operators.clear();
            lab.start_operator(&[]).await;
        }
        lab.stack_says("Ready", "AllServing").await;
        // Seven components with three servers each, one with one, and four vRouters.
        lab.has_pods(26).await;
        let restarted: Vec<String> = lab.writes().into_iter().filter(|write| write.starts_with("delete")).collect();
        assert_eq!(restarted, [] as [String; 0]);
        lab.end().await;
    });
}

#[test]
fn a_manager_that_is_made_again_takes_up_the_claims_of_the_one_before() {
    run(async {
        let lab = standing("stack-again", 1, 0).await;
        let before = claims(&lab).await;
        assert_eq!(before.len(), 3);
        let pods: Vec<_> = lab.stack_pods().await.iter().map(ResourceExt::uid).collect();
        lab.cluster.kubectl(&["-n", &lab.name, "delete", "manager", "cluster1"]);
        lab.cluster.apply(&lab.stack().to_string());
        eventually("all Pods are others", LONG, || async {
            let now: Vec<_> = lab.stack_pods().await.iter().map(ResourceExt::uid).collect();
            if now.len() == pods.len() && now.iter().all(|uid| !pods.contains(uid)) {
                Ok(())
            } else {
                Err(format!("{now:?}"))
            }
        })
        .await;
        let status = lab.stack_says("Ready", "AllServing").await;
        assert!(status.conditions.iter().all(|one| one.reason != "NameTaken"));
        assert_eq!(claims(&lab).await, before);
        // Whose objects lose their owner, as with --cascade=orphan, they are taken up as they are.
        let pods: Vec<_> = lab.stack_pods().await.iter().map(ResourceExt::uid).collect();
        lab.cluster.kubectl(&["-n", &lab.name, "delete", "manager", "cluster1", "--cascade=orphan"]);
        lab.cluster.apply(&lab.stack().to_string());
        lab.stack_says("Ready", "AllServing").await;
        assert_eq!(lab.stack_pods().await.iter().map(ResourceExt::uid).collect::<Vec<_>>(), pods);
        lab.end().await;
    });
}

#[test]
fn a_store_whose_node_is_gone_says_so_and_keeps_all_that_it_has() {
    run(async {
        let mut lab = standing("stack-gone", 3, 0).await;
        let node = lab.nodes[1].clone();
        lab.cluster.kubectl(&["delete", "node", &node]);
        let said = lab.component_is("zookeeper1", "Unplaced").await;
        assert!(said.contains(&format!("node {node}, where a server is, is gone")), "{said}");
        lab.stack_says("Degraded", "NoNodes").await;
        // Another master: what keeps nothing follows, what keeps something stays.
        lab.add_masters(1).await;
        eventually("there are three again", LONG, || async {
            let status = lab.stack_status().await;
            let ready = status.components.iter().find(|one| one.name == "webui1").map(|one| one.ready.clone());
            if ready.as_deref() == Some("3/3") { Ok(()) } else { Err(format!("{status:#?}")) }
        })
        .await;
        let sets: Api<StatefulSet> = Api::namespaced(lab.cluster.client.clone(), &lab.name);
        let replicas = sets
            .get("zookeeper1-zookeeper-statefulset")
            .await
            .expect("a StatefulSet")
            .spec
            .and_then(|spec| spec.replicas);
        assert_eq!(replicas, Some(3));
        lab.end().await;
    });
}

#[test]
fn what_runs_on_every_node_is_replaced_within_its_budget_and_not_while_that_is_held() {
    run(async {
        let lab = standing("stack-budget", 1, 4).await;
        let eyes = Eyes::on_replicas(&lab, "vrouter=vrouterworkernodes", 4).await;
        let mut vrouters = lab.stack()["spec"]["services"]["vrouters"].clone();
        for container in vrouters[1]["spec"]["serviceConfiguration"]["containers"].as_array_mut().expect("containers") {
            container["image"] = "other:1".into();
        }
        let blackout = json!([{ "from": "2000-01-01T00:00:00Z", "to": "2100-01-01T00:00:00Z", "reason": "a freeze" }]);
        lab.edit_stack(json!({ "services": { "vrouters": vrouters }, "rollout": { "blackouts": blackout } })).await;
        let said = lab.component_is("vrouterworkernodes", "Held").await;
        assert!(said.contains("in a blackout (a freeze) until 2100-01-01T00:00:00Z"), "{said}");
        lab.stack_says("Ready", "Held").await;
        lab.edit_stack(json!({ "rollout": { "blackouts": null, "paused": true } })).await;
        let said = lab.component_is("vrouterworkernodes", "Held").await;
        assert!(said.contains("rollout.paused is true"), "{said}");
        assert_eq!(eyes.seen().await.counts(), (0, 0));
        lab.edit_stack(json!({ "rollout": { "paused": null, "maxUnavailable": "50%" } })).await;
        lab.stack_says("Ready", "AllServing").await;
        let (most, replaced) = eyes.seen().await.counts();
        assert!(most <= 2 && replaced == 4, "{most} of {replaced}");
        lab.end().await;
    });
}
