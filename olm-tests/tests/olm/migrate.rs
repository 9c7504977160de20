//! OLM installs over the CRD of the original operator, with the objects that its versions stored.

use std::time::Duration;

use olm_tests::eventually;
use olm_tests::lab::{Lab, V2, is_ready};
use olm_tests::nodes::Shape;
use olm_tests::olm::{NEXT, Olm, PACKAGE, Wish};
use olm_tests::original::{CSV, ORIGINAL, crd, csv, original};
use serde_json::{Value, json};

const PATIENCE: Duration = Duration::from_secs(180);

/// Objects with what v0.1, v0.6 and v0.10 left in spec and status: name, spec, status.
fn stored(url: &str) -> Vec<(&'static str, Value, Value)> {
    let select = |age: &str| json!({ "beta.kubernetes.io/os": "linux", "age": age });
    let token = json!({ "secretKeyRef": { "name": "tokens", "key": "paasToken" } });
    let first = json!({
        "apiUrl": url, "tokens": "tokens", "skipCertCheck": true, "enableIstio": false, "waitReadySeconds": 300,
        "image": "docker.io/dynatrace/oneagent:latest", "nodeSelector": select("v01"),
        "args": ["APP_LOG_CONTENT_ACCESS=1"],
        "env": [
            { "name": "ONEAGENT_INSTALLER_TOKEN", "valueFrom": token },
            { "name": "ONEAGENT_INSTALLER_SCRIPT_URL",
                "value": format!("{url}/v1/deployment/installer/agent/unix/default/latest\
                    ?Api-Token=$(ONEAGENT_INSTALLER_TOKEN)&arch=x86&flavor=default") },
            { "name": "ONEAGENT_INSTALLER_SKIP_CERT_CHECK", "value": "true" },
        ],
    });
    let items = json!({ "node-0": { "podName": "oneagent-abcde", "version": "1.156.0.20181127-131234" } });
    let second = json!({
        "apiUrl": url, "tokens": "tokens", "skipCertCheck": true, "image": "", "nodeSelector": select("v06"),
        "env": [], "args": [],
        "waitReadySeconds": 300, "dnsPolicy": "ClusterFirst", "labels": {},
    });
    let condition =
        |type_: &str| json!({ "type": type_, "status": "True", "reason": "TokenReady", "message": "Ready" });
    let instances = json!({ "node-0": { "podName": "oneagent-abcde", "version": "1.190.0.20200401-100000",
        "ipAddress": "10.0.0.1" } });
    let third = json!({ "apiUrl": url, "tokens": "", "skipCertCheck": true, "nodeSelector": select("v10"),
        "useImmutableImage": false, "useUnprivilegedMode": true });
    let dated = |type_: &str| {
        let mut condition = condition(type_);
        condition["lastTransitionTime"] = "2021-09-01T10:00:00Z".into();
        condition
    };
    vec![
        (
            "v01",
            first,
            json!({ "version": "1.156.0.20181127-131234", "items": items, "updatedTimestamp": "2018-11-27T13:12:34Z" }),
        ),
        (
            "v06",
            second,
            json!({ "version": "1.190.0.20200401-100000", "phase": "Running", "instances": instances,
                "conditions": [condition("APIToken"), condition("PaaSToken")],
                "updatedTimestamp": "2020-04-01T10:00:00Z", "lastAPITokenProbeTimestamp": "2020-04-01T10:00:00Z" }),
        ),
        (
            "v10",
            third,
            json!({ "version": "1.230.10.20210901-100000", "phase": "Error", "tokens": "v10", "environmentID": "abc",
                "useImmutableImage": false, "imageHash": "00ff", "imageVersion": "1.2", "instances": instances,
                "conditions": [dated("APIToken"), dated("PaaSToken")],
                "lastUpdateProbeTimestamp": "2021-09-01T10:00:00Z",
                "lastImageVersionProbeTimestamp": "2021-09-01T10:00:00Z" }),
        ),
    ]
}

#[test]
fn olm_installs_over_the_crd_of_the_original_and_its_objects_have_agents() {
    olm_tests::run(async {
        let olm = Olm::start().await;
        olm.publish(&[olm.release(NEXT)]).await;
        olm.namespace("dynatrace");
        olm.cluster.apply(&crd().to_string());
        olm.cluster.kubectl(&["wait", "--for=condition=Established", "--timeout=240s", "crd/oneagents.dynatrace.com"]);
        let mut lab = Lab::in_namespace(&olm.cluster, "dynatrace", 0).await;
        let url = olm.cluster.vendor.url("dynatrace");
        // Only v0.10 has an empty name of a Secret: it is then the object's own.
        olm.cluster.kubectl(&[
            "-n",
            "dynatrace",
            "create",
            "secret",
            "generic",
            "v10",
            &format!("--from-literal=apiToken={}", olm_tests::vendor::api_token("dynatrace")),
            &format!("--from-literal=paasToken={}", olm_tests::vendor::paas_token("dynatrace")),
        ]);
        for (name, spec, status) in stored(&url) {
            lab.add_nodes(2, &Shape::default().label("age", name)).await;
            let object = json!({ "apiVersion": "dynatrace.com/v1alpha1", "kind": "OneAgent",
                "metadata": { "name": name, "namespace": "dynatrace" }, "spec": spec });
            olm.cluster.try_kubectl(&["create", "-f", "-"], Some(&object.to_string())).unwrap();
            let patch = json!({ "status": status }).to_string();
            olm.cluster.kubectl(&[
                "-n",
                "dynatrace",
                "patch",
                "oneagent",
                name,
                "--subresource=status",
                "--type=merge",
                "-p",
                &patch,
            ]);
        }
        olm.subscribe(&Wish::own("dynatrace", &["dynatrace"]));
        olm.installed("dynatrace", NEXT).await;
        for (name, spec, _) in stored(&url) {
            eventually(&format!("{name} has agents"), PATIENCE, || async {
                let ready = lab.pods(name).await.values().filter(|p| is_ready(p)).count();
                let object = olm.get("OneAgent", "dynatrace", name).await.unwrap_or_default();
                let settled = object["status"]["conditions"]
                    .as_array()
                    .into_iter()
                    .flatten()
                    .any(|c| c["type"] == "Ready" && c["status"] == "True");
                if ready == 2 && settled { Ok(()) } else { Err(format!("{ready}; {}", object["status"])) }
            })
            .await;
            let object = olm.get("OneAgent", "dynatrace", name).await.unwrap();
            assert_eq!(object["spec"], spec, "{name}: the spec was changed");
            assert!(
                object["status"].get("items").is_none() && object["status"].get("imageHash").is_none(),
                "{name}: {}",
                object["status"]
            );
        }
        olm.judge("dynatrace");
    });
}

/// Step by step as the README says, with the original's package installed by OLM beforehand.
#[test]
fn the_originals_subscription_and_csv_go_and_its_agents_are_taken_over_without_a_restart() {
    olm_tests::run(async {
        let olm = Olm::start().await;
        let package = "oneagent";
        let manifests =
            [("csv.yaml", csv()), ("crd.yaml", crd())].map(|(name, object)| (format!("manifests/{name}"), object));
        olm.publish_with(&[olm.release(NEXT)], &[olm.foreign(package, "alpha", CSV, &manifests)]).await;
        olm.namespace("dynatrace");
        for mut object in Olm::recipe(&Wish::own("dynatrace", &["dynatrace"])) {
            if object["kind"] == "Subscription" {
                object["metadata"]["name"] = package.into();
                (object["spec"]["name"], object["spec"]["channel"]) = (package.into(), "alpha".into());
            }
            olm.cluster.apply(&object.to_string());
        }
        let phase = async || {
            olm.get("ClusterServiceVersion", "dynatrace", CSV).await.unwrap_or_default()["status"]["phase"].clone()
        };
        eventually("the original is installed", PATIENCE, || async {
            let now = phase().await;
            if now == "Succeeded" && olm.settled("dynatrace").await { Ok(()) } else { Err(now.to_string()) }
        })
        .await;
        let lab = Lab::in_namespace(&olm.cluster, "dynatrace", 4).await;
        original(&lab, 4).await;
        let before = lab.uids("agent").await;

        olm.delete("Subscription", "dynatrace", package).await;
        olm.delete("ClusterServiceVersion", "dynatrace", CSV).await;
        let accounts = [ORIGINAL, "dynatrace-oneagent", "dynatrace-oneagent-unprivileged"];
        let there = async |kind: &str, name: &str| olm.get(kind, "dynatrace", name).await.is_some();
        eventually("its Deployment and ServiceAccounts are gone", PATIENCE, || async {
            for account in accounts {
                if there("ServiceAccount", account).await {
                    return Err(account.to_owned());
                }
            }
            if there("Deployment", ORIGINAL).await { Err("the Deployment".to_owned()) } else { Ok(()) }
        })
        .await;
        assert!(there("OneAgent", "agent").await && there("DaemonSet", "agent").await);
        assert_eq!(lab.uids("agent").await, before, "an agent went with the original");

        let [_, subscription] = Olm::recipe(&Wish::own("dynatrace", &["dynatrace"])).try_into().unwrap();
        olm.cluster.apply(&subscription.to_string());
        olm.installed("dynatrace", NEXT).await;
        for account in [PACKAGE, accounts[1], accounts[2]] {
            assert!(there("ServiceAccount", account).await, "{account}");
        }
        lab.condition_within(PATIENCE, "agent", "Ready", "True", "AllUpdated").await;
        tokio::time::sleep(Duration::from_secs(3)).await;
        assert_eq!(lab.uids("agent").await, before, "an agent was restarted by the move");
        olm.cluster.vendor.publish("dynatrace", V2);
        lab.all_at("agent", V2, 4, PATIENCE).await;
        olm.judge("dynatrace");
    });
}
