//! Traffic to the environment through a mesh: on Istio's real CRDs, which come, go and change their version.

use std::collections::BTreeSet;

use olm_tests::cluster::{Cluster, documents};
use olm_tests::eventually;
use olm_tests::lab::{Lab, SOON, V1, V2};
use olm_tests::tools::tool;
use serde_json::{Value, json};

const NAMES: [&str; 2] = ["serviceentries.networking.istio.io", "virtualservices.networking.istio.io"];

/// Istio's two CRDs, changed.
pub(crate) fn istio(cluster: &Cluster, change: impl Fn(&mut Value)) {
    let all = documents(&std::fs::read_to_string(tool("istio.yaml")).unwrap());
    let wanted = all.into_iter().filter(|crd| NAMES.contains(&crd["metadata"]["name"].as_str().unwrap_or_default()));
    for mut crd in wanted {
        change(&mut crd);
        cluster.apply(&crd.to_string());
    }
    for name in NAMES {
        cluster.kubectl(&["wait", "--for=condition=Established", "--timeout=240s", &format!("crd/{name}")]);
    }
}

/// Kind and host or address of what is there.
fn there(lab: &Lab<'_>) -> BTreeSet<String> {
    let text = lab
        .cluster
        .try_kubectl(&["-n", &lab.name, "get", "serviceentries,virtualservices", "-o", "json"], None)
        .unwrap_or_default();
    let list: Value = serde_json::from_str(&text).unwrap_or_default();
    let of = |object: &Value| {
        let spec = &object["spec"];
        let what = spec["addresses"][0].as_str().or(spec["hosts"][0].as_str()).unwrap_or_default().to_owned();
        format!(
            "{} {what} {}",
            object["kind"].as_str().unwrap_or_default(),
            object["metadata"]["labels"]["dynatrace-istio-role"].as_str().unwrap_or("-")
        )
    };
    list["items"].as_array().into_iter().flatten().map(of).collect()
}

async fn eventually_there(lab: &Lab<'_>, wanted: &[&str]) {
    let wanted: BTreeSet<String> = wanted.iter().map(|w| (*w).to_owned()).collect();
    eventually("Istio's objects are as they should be", SOON, || async {
        let now = there(lab);
        if now == wanted { Ok(()) } else { Err(format!("{now:?}")) }
    })
    .await;
}

#[test]
fn what_istio_lets_pass_follows_the_environment_the_spec_and_the_mesh() {
    olm_tests::run(async {
        let cluster = Cluster::start(Vec::new()).await;
        let lab = Lab::on(&cluster, "istio", 2).await;
        let endpoints = |all: &[&str]| {
            cluster.vendor.with(&lab.name, |e| e.endpoints = all.iter().map(|a| (*a).to_owned()).collect());
        };
        endpoints(&["https://127.0.0.1:9999/communication", "https://agents.example/communication", "mailto:nobody"]);
        lab.oneagent(&json!({ "enableIstio": true }));
        lab.all_at("agent", V1, 2, SOON).await;
        lab.condition("agent", "Degraded", "False", "AsExpected").await;

        istio(&cluster, |_| {});
        let (api, comm) = ("ServiceEntry 127.0.0.1/32 api-url", "ServiceEntry 127.0.0.1/32 communication-endpoint");
        let named = [
            "ServiceEntry agents.example communication-endpoint",
            "VirtualService agents.example communication-endpoint",
        ];
        eventually_there(&lab, &[api, comm, named[0], named[1]]).await;
        let said = lab.condition("agent", "Degraded", "True", "IstioUnusable").await;
        assert!(said.contains("mailto:nobody") && said.contains("1 of the addresses"), "{said}");
        let service =
            cluster.kubectl(&["-n", &lab.name, "get", "virtualservices", "-o", "jsonpath={.items[0].spec.tls[0]}"]);
        let service: Value = serde_json::from_str(&service).unwrap();
        assert_eq!(service["match"], json!([{ "port": 443, "sniHosts": ["agents.example"] }]));

        // A deleted object comes back; what the environment no longer names is removed, and so does what the original
        // left.
        cluster.kubectl(&["-n", &lab.name, "delete", "virtualservices", "--all"]);
        eventually_there(&lab, &[api, comm, named[0], named[1]]).await;
        let left = json!({
            "apiVersion": "networking.istio.io/v1alpha3", "kind": "ServiceEntry",
            "metadata": { "name": "0a1b2c", "namespace": lab.name,
            "labels": { "dynatrace": "oneagent", "oneagent": "agent", "dynatrace-istio-role": "api-url" } },
            "spec": { "hosts": ["old.example"], "ports": [{ "name": "https-443", "number": 443, "protocol": "HTTPS" }],
            "resolution": "DNS" },
        });
        let others = json!({
            "apiVersion": "networking.istio.io/v1", "kind": "ServiceEntry",
            "metadata": { "name": "others", "namespace": lab.name },
            "spec": { "hosts": ["others.example"],
            "ports": [{ "name": "https-443", "number": 443, "protocol": "HTTPS" }], "resolution": "DNS" },
        });
        cluster.apply(&format!("{left}\n---\n{others}"));
        endpoints(&["https://127.0.0.1:9999/communication"]);
        let others = "ServiceEntry others.example -";
        eventually_there(&lab, &[api, comm, others]).await;
        lab.condition("agent", "Degraded", "False", "AsExpected").await;

        // Agents of a network zone talk to other addresses.
        cluster.vendor.with(&lab.name, |e| {
            drop(e.zone_endpoints.insert("zone-1".into(), vec!["https://zone.example/communication".into()]));
        });
        lab.edit("agent", json!({ "networkZone": "Zone-1" })).await;
        let zone =
            ["ServiceEntry zone.example communication-endpoint", "VirtualService zone.example communication-endpoint"];
        eventually_there(&lab, &[api, zone[0], zone[1], others]).await;
        lab.edit("agent", json!({ "networkZone": null })).await;
        eventually_there(&lab, &[api, comm, others]).await;

        // The mesh is removed, and comes back in an unknown version: agents are updated all the same.
        for name in NAMES {
            cluster.kubectl(&["delete", "crd", name]);
        }
        cluster.vendor.publish(&lab.name, V2);
        lab.all_at("agent", V2, 2, SOON).await;
        let before = lab.uids("agent").await;
        istio(&cluster, |crd| {
            let versions = crd["spec"]["versions"].as_array_mut().unwrap();
            versions.retain(|version| version["storage"] == true);
            versions[0]["name"] = "v9".into();
        });
        let said = lab.condition("agent", "Degraded", "True", "IstioUnusable").await;
        assert!(said.contains("in v9") && said.contains("upgrade the operator"), "{said}");
        for name in NAMES {
            cluster.kubectl(&["delete", "crd", name]);
        }
        istio(&cluster, |_| {});
        eventually_there(&lab, &[api, comm]).await;
        lab.condition("agent", "Degraded", "False", "AsExpected").await;
        lab.edit("agent", json!({ "enableIstio": false })).await;
        eventually_there(&lab, &[]).await;
        lab.is_looked_at().await;
        assert_eq!(lab.uids("agent").await, before, "Istio is no reason to touch an agent");
        lab.end().await;
    });
}
