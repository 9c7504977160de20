//! What the original operator left is taken over, without one agent restarting.

use std::time::Duration;

use kube::ResourceExt;
use kube::api::{Api, DynamicObject};
use kube::core::{ApiResource, GroupVersionKind};
use olm_tests::cluster::Cluster;
use olm_tests::eventually;
use olm_tests::lab::{Lab, SOON, V1, V2};
use olm_tests::original::{ORIGINAL, original, original_as};
use serde_json::{Value, json};

#[test]
fn a_daemonset_of_the_original_becomes_exactly_ours_and_no_agent_restarts_until_there_is_a_newer_version() {
    olm_tests::run(async {
        let mut lab = Lab::without_operator(Cluster::shared().await, "adopt", 12).await;
        original(&lab, 12).await;
        let before = lab.uids("agent").await;
        lab.start_operator(&[]).await;
        lab.condition("agent", "Ready", "True", "AllUpdated").await;
        lab.is_looked_at().await;
        assert_eq!(lab.uids("agent").await, before, "an agent was restarted by the adoption");

        let daemonset = lab.daemonset("agent").await.unwrap();
        let spec = daemonset.spec.clone().unwrap();
        assert_eq!(spec.update_strategy.unwrap().type_.as_deref(), Some("OnDelete"));
        assert!(!daemonset.labels().contains_key("by-hand"), "{:?}", daemonset.labels());
        assert!(
            !daemonset.annotations().keys().any(|k| k == "note" || k.starts_with("internal.")),
            "{:?}",
            daemonset.annotations().keys()
        );
        let template = spec.template;
        assert!(!template.metadata.unwrap().labels.unwrap().contains_key("by-hand"));
        let container = template.spec.unwrap().containers.remove(0);
        assert!(!container.env.unwrap().iter().any(|e| e.name == "BY_HAND"));
        assert_eq!(container.resources.unwrap().limits, None);
        assert_eq!(container.args, None, "the operator's version is not in the template");
        assert_eq!(daemonset.owner_references()[0].block_owner_deletion, None);
        let managers: Vec<String> = daemonset
            .managed_fields()
            .iter()
            .filter(|f| f.subresource.is_none())
            .filter_map(|f| f.manager.clone())
            .collect();
        assert_eq!(managers, ["oneagent-operator"]);

        let gvk = ApiResource::from_gvk(&GroupVersionKind::gvk("dynatrace.com", "v1alpha1", "OneAgent"));
        let raw: DynamicObject =
            Api::namespaced_with(lab.cluster.client.clone(), &lab.name, &gvk).get("agent").await.unwrap();
        let status: &Value = &raw.data["status"];
        assert!(status["instances"].get("gone-node").is_none(), "{status:#}");
        assert!(status.get("imageHash").is_none() && status.get("lastAPITokenProbeTimestamp").is_none(), "{status:#}");
        assert_eq!(status["instances"].as_object().unwrap().len(), 12);

        // An operator that restarts finds nothing to do.
        lab.operators.clear();
        let writes =
            |lab: &Lab<'_>| lab.requests().into_iter().filter(|r| r.writes() && r.resource != "leases").count();
        let written = writes(&lab);
        lab.start_operator(&[]).await;
        tokio::time::sleep(Duration::from_secs(4)).await;
        assert_eq!(writes(&lab), written, "{:?}", lab.requests().iter().rev().take(5).collect::<Vec<_>>());

        // A newer version reaches every Pod, the original's too.
        lab.cluster.vendor.publish(&lab.name, V2);
        lab.all_at("agent", V2, 12, SOON).await;
        let after = lab.uids("agent").await;
        assert!(before.iter().all(|(node, uid)| after[node] != *uid));
        lab.end().await;
    });
}

/// As `image` of what was captured of the original: a tag that is no version of ours, and the original's pull secret.
#[test]
fn an_image_of_the_original_is_adopted_at_its_tag_and_follows_the_field() {
    olm_tests::run(async {
        let mut lab = Lab::without_operator(Cluster::shared().await, "adopt-image", 4).await;
        let registry =
            lab.cluster.vendor.url(&lab.name).trim_start_matches("http://").trim_end_matches("/api").to_owned();
        lab.cluster.kubectl(
            &[
                &["-n", &lab.name, "create", "secret", "docker-registry", "agent-pull-secret"][..],
                &["--docker-server=old.example", "--docker-username=u", "--docker-password=p"],
            ]
            .concat(),
        );
        let image = |tag: &str| format!("{registry}/linux/oneagent:{tag}");
        let spec = json!({ "useImmutableImage": true, "agentVersion": "1.219.0" });
        original_as(&lab, 4, &spec, |daemonset, status| {
            let pod = &mut daemonset["spec"]["template"]["spec"];
            pod["imagePullSecrets"] = json!([{ "name": "agent-pull-secret" }]);
            let container = &mut pod["containers"][0];
            container["image"] = image("1.219.0").into();
            container["env"]
                .as_array_mut()
                .unwrap()
                .retain(|env| !env["name"].as_str().unwrap().starts_with("ONEAGENT_"));
            status["version"] = "1.219.0".into();
            status["useImmutableImage"] = true.into();
        })
        .await;
        let before = lab.uids("agent").await;
        lab.start_operator(&[]).await;
        lab.condition("agent", "Ready", "True", "AllUpdated").await;
        lab.is_looked_at().await;
        assert_eq!(lab.uids("agent").await, before, "an agent was restarted by the adoption");
        let spec = lab.daemonset("agent").await.unwrap().spec.unwrap();
        assert_eq!(spec.update_strategy.unwrap().type_.as_deref(), Some("OnDelete"));
        let container = spec.template.spec.unwrap().containers.remove(0);
        assert_eq!(container.image, Some(image("1.219.0")));
        assert!(!container.env.unwrap().iter().any(|e| e.name == "BY_HAND"));
        let status = lab.status("agent").await;
        assert_eq!((status.version.as_deref(), status.version_source.as_deref()), (Some("1.219.0"), Some("Image")));
        // The field is the tag, whatever the environment offers; what can be none is refused and touches nothing.
        lab.edit("agent", json!({ "agentVersion": "1.219.0:x" })).await;
        lab.says("agent", "Degraded", "spec.agentVersion").await;
        assert_eq!(lab.uids("agent").await, before);
        lab.edit("agent", json!({ "agentVersion": "1.221.7" })).await;
        eventually("every agent has the new tag", SOON, || async {
            let pods = lab.pods("agent").await;
            let there = pods
                .values()
                .filter(|p| p.spec.as_ref().unwrap().containers[0].image == Some(image("1.221.7")))
                .count();
            if there == 4 { Ok(()) } else { Err(there.to_string()) }
        })
        .await;
        lab.condition("agent", "Ready", "True", "AllUpdated").await;
        lab.end().await;
    });
}

/// As `second` of what was captured: all that a spec of the original's could ask for in installer mode.
#[test]
fn a_rich_oneagent_of_the_original_is_adopted_without_a_restart() {
    olm_tests::run(async {
        let mut lab = Lab::without_operator(Cluster::shared().await, "adopt-rich", 3).await;
        lab.cluster.kubectl(&[
            "-n",
            &lab.name,
            "create",
            "configmap",
            "myca",
            &format!("--from-literal=certs={}", lab.cluster.vendor_ca),
        ]);
        let spec = json!({
            "args": ["--set-host-group=prod"], "env": [{ "name": "ONEAGENT_ENABLE_VOLUME_STORAGE", "value": "true" }],
            "networkZone": "eu-1",
            "resources": { "limits": { "cpu": "300m", "memory": "1.5Gi" } }, "trustedCAs": "myca",
            "useUnprivilegedMode": true,
            "tolerations": [{ "effect": "NoSchedule", "key": "node-role.kubernetes.io/control-plane",
            "operator": "Exists" }],
        });
        original_as(&lab, 3, &spec, |daemonset, _| {
            let pod = &mut daemonset["spec"]["template"]["spec"];
            pod["serviceAccountName"] = "dynatrace-oneagent-unprivileged".into();
            pod["tolerations"] = spec["tolerations"].clone();
            pod["volumes"].as_array_mut().unwrap().push(json!({ "name": "certs", "configMap": { "name": "myca",
                    "items": [{ "key": "certs", "path": "certs.pem" }] } }));
            let container = &mut pod["containers"][0];
            container["args"] = json!([
                "--set-host-group=prod",
                "--set-network-zone=eu-1",
                "--set-host-property=OperatorVersion=v0.10.2"
            ]);
            container["env"].as_array_mut().unwrap().push(spec["env"][0].clone());
            container["resources"] = json!({ "limits": { "cpu": "300m", "memory": "1536Mi" },
                "requests": { "cpu": "100m" } });
            container["securityContext"] = json!({ "capabilities": { "add": ["SYS_ADMIN", "SYS_PTRACE"],
                "drop": ["ALL"] } });
            container["volumeMounts"].as_array_mut().unwrap().push(json!({ "name": "certs",
                "mountPath": "/mnt/dynatrace/certs" }));
        })
        .await;
        // The fake kubelet learns of a zone by the installer's address; these agents were told of it by their
        // arguments.
        lab.cluster.vendor.with(&lab.name, |e| {
            e.hosts = std::mem::take(&mut e.hosts).into_iter().map(|(ip, v)| (format!("{ip}@eu-1"), v)).collect();
        });
        let before = lab.uids("agent").await;
        lab.start_operator(&[]).await;
        lab.condition("agent", "Ready", "True", "AllUpdated").await;
        lab.is_looked_at().await;
        assert_eq!(lab.uids("agent").await, before, "an agent was restarted by the adoption");
        let container = lab.daemonset("agent").await.unwrap().spec.unwrap().template.spec.unwrap().containers.remove(0);
        assert_eq!(container.args.unwrap(), ["--set-host-group=prod", "--set-network-zone=eu-1"]);
        lab.cluster.vendor.publish(&lab.name, V2);
        lab.all_at("agent", V2, 3, SOON).await;
        lab.end().await;
    });
}

#[test]
fn agents_whose_version_is_not_reported_are_left_alone_and_named() {
    olm_tests::run(async {
        let mut lab = Lab::without_operator(Cluster::shared().await, "adopt-unknown", 2).await;
        original(&lab, 2).await;
        let before = lab.uids("agent").await;
        lab.cluster.vendor.with(&lab.name, |e| e.hosts.clear());
        lab.start_operator(&[]).await;
        lab.cluster.vendor.publish(&lab.name, V2);
        let message = lab.condition("agent", "Ready", "False", "Outdated").await;
        assert!(message.contains("not known") && message.contains(&lab.nodes[0]), "{message}");
        assert_eq!(lab.uids("agent").await, before);
        // The next edit of the template reaches them.
        lab.edit("agent", json!({ "args": ["--set-host-group=x"] })).await;
        lab.all_at("agent", V2, 2, SOON).await;
        lab.end().await;
    });
}

#[test]
fn a_daemonset_of_another_owner_is_left_alone() {
    olm_tests::run(async {
        let lab = Lab::new("adopt-foreign", 1).await;
        let foreign = json!({
            "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": { "name": "agent", "namespace": lab.name },
            "spec": { "selector": { "matchLabels": { "app": "mine" } },
            "template": { "metadata": { "labels": { "app": "mine" } },
            "spec": { "nodeSelector": { "none": "such" }, "containers": [{ "name": "c", "image": "i" }] } } },
        });
        lab.cluster.apply(&foreign.to_string());
        let before = lab.daemonset("agent").await.unwrap();
        lab.oneagent(&json!({}));
        let message = lab.condition("agent", "Degraded", "True", "NameTaken").await;
        assert!(message.contains("left alone") && message.contains("rename"), "{message}");
        assert_eq!(lab.status("agent").await.phase.as_deref(), Some("Error"));
        let after = lab.daemonset("agent").await.unwrap();
        assert_eq!(
            (before.spec, before.metadata.labels, before.metadata.annotations),
            (after.spec, after.metadata.labels, after.metadata.annotations)
        );
        assert!(
            after.metadata.managed_fields.unwrap().iter().all(|f| f.manager.as_deref() != Some("oneagent-operator"))
        );
        lab.cluster.kubectl(&["-n", &lab.name, "delete", "daemonset", "agent"]);
        lab.edit("agent", json!({ "args": ["--go"] })).await;
        lab.all_at("agent", V1, 1, SOON).await;
        lab.end().await;
    });
}

#[test]
fn while_the_original_operator_runs_nothing_is_touched() {
    olm_tests::run(async {
        let mut lab = Lab::without_operator(Cluster::shared().await, "adopt-both", 1).await;
        let deployment = json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": ORIGINAL, "namespace": lab.name },
            "spec": { "selector": { "matchLabels": { "name": ORIGINAL } },
            "template": { "metadata": { "labels": { "name": ORIGINAL } },
            "spec": { "nodeSelector": { "none": "such" }, "containers": [{ "name": "c", "image": "i" }] } } },
        });
        lab.cluster.apply(&deployment.to_string());
        lab.start_operator(&[]).await;
        lab.oneagent(&json!({}));
        let message = lab.condition("agent", "Degraded", "True", "OtherOperatorRunning").await;
        assert!(message.contains("kubectl"), "{message}");
        assert!(lab.daemonset("agent").await.is_none());
        lab.cluster.kubectl(&["-n", &lab.name, "delete", "deployment", ORIGINAL]);
        lab.all_at("agent", V1, 1, SOON).await;
        lab.end().await;
    });
}
