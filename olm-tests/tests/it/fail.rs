//! What breaks is said, hurts no other OneAgent, and is over once fixed.

use std::time::Duration;

use k8s_openapi::api::apps::v1::DaemonSet;
use kube::api::Api;
use olm_tests::eventually;
use olm_tests::lab::{Lab, SOON, V1, V2, V3};
use olm_tests::vendor::{Mood, api_token, paas_token};
use serde_json::json;

#[test]
fn a_vendor_that_is_down_lying_or_slow_changes_nothing_but_one_condition() {
    olm_tests::run(async {
        let lab = Lab::new("fail-vendor", 2).await;
        lab.oneagent(&json!({}));
        lab.all_at("agent", V1, 2, SOON).await;
        let before = lab.uids("agent").await;
        for (mood, type_, status, reason, words) in [
            (Mood::Unauthorized, "PaaSToken", "False", "TokenUnauthorized", "refuses the token"),
            (Mood::Forbidden, "PaaSToken", "False", "TokenScopeMissing", "InstallerDownload"),
            (Mood::Throttled(1), "Degraded", "True", "EnvironmentUnreachable", "come back later (429)"),
            (Mood::Broken, "Degraded", "True", "EnvironmentUnreachable", "500: Internal error"),
            (Mood::Html, "Degraded", "True", "EnvironmentUnreachable", "it is HTML"),
            (Mood::Empty, "Degraded", "True", "EnvironmentUnreachable", "it is empty"),
            (Mood::Truncated, "Degraded", "True", "EnvironmentUnreachable", "ends in the middle"),
            (Mood::Huge, "Degraded", "True", "EnvironmentUnreachable", "larger than"),
            (Mood::Redirect, "Degraded", "True", "EnvironmentUnreachable", "redirects to another host (login.example)"),
            (Mood::Slow(Duration::from_secs(5)), "Degraded", "True", "EnvironmentUnreachable", "no answer within 2 s"),
            (Mood::Hanging, "Degraded", "True", "EnvironmentUnreachable", "no answer within 2 s"),
        ] {
            lab.cluster.vendor.with(&lab.name, |e| e.mood = mood);
            eventually(&format!("{mood:?} is said"), SOON, || async {
                let now = lab.status("agent").await;
                let said = now
                    .conditions
                    .iter()
                    .any(|c| c.type_ == type_ && c.status == status && c.reason == reason && c.message.contains(words));
                if said { Ok(()) } else { Err(format!("{:#?}", now.conditions)) }
            })
            .await;
            let now = lab.status("agent").await;
            let ready = now.conditions.iter().find(|c| c.type_ == "Ready").unwrap();
            assert_eq!(ready.status, "True", "{mood:?}: agents run on");
            lab.cluster.vendor.with(&lab.name, |e| e.mood = Mood::Well);
            lab.condition("agent", "Degraded", "False", "AsExpected").await;
            lab.condition("agent", "PaaSToken", "True", "TokenReady").await;
        }
        // An older version than before is not believed.
        lab.cluster.vendor.with(&lab.name, |e| e.latest = "1.100.0.20200101-000000".into());
        let message = lab.condition("agent", "Degraded", "True", "EnvironmentUnreachable").await;
        assert!(message.contains("older than what it named before"), "{message}");
        lab.cluster.vendor.with(&lab.name, |e| e.latest = "new!".into());
        lab.says("agent", "Degraded", "not an agent version").await;
        assert_eq!(lab.uids("agent").await, before, "an agent was touched");
        lab.cluster.vendor.with(&lab.name, |e| e.latest = V1.into());
        lab.condition("agent", "Degraded", "False", "AsExpected").await;
        lab.end().await;
    });
}

#[test]
fn one_environment_that_hangs_costs_the_others_nothing() {
    olm_tests::run(async {
        let mut lab = Lab::without_operator(olm_tests::cluster::Cluster::shared().await, "fail-hang", 2).await;
        // Longer than this test waits for anything: an await of an environment never gets there.
        lab.start_operator(&[("VENDOR_TIMEOUT", "300s")]).await;
        let (one, two) = (lab.nodes[0].clone(), lab.nodes[1].clone());
        let hanging = "fail-hang-other";
        lab.cluster.vendor.add(hanging, V1);
        lab.cluster.vendor.with(hanging, |e| e.mood = Mood::Hanging);
        lab.oneagent_named(
            "stuck",
            &json!({ "apiUrl": lab.cluster.vendor.url(hanging), "nodeSelector": { "kubernetes.io/hostname": one } }),
        );
        lab.condition("stuck", "Ready", "False", "WaitingForVersion").await;
        lab.oneagent_named("well", &json!({ "nodeSelector": { "kubernetes.io/hostname": two } }));
        lab.all_at("well", V1, 1, SOON).await;
        // A spec change is applied at once, whatever hangs elsewhere, and with its own environment hanging too.
        lab.cluster.vendor.with(&lab.name, |e| e.mood = Mood::Hanging);
        lab.edit("well", json!({ "tolerations": [{ "key": "x", "operator": "Exists" }] })).await;
        let tolerations = |d: &DaemonSet| d.spec.as_ref()?.template.spec.as_ref()?.tolerations.as_ref().map(Vec::len);
        lab.daemonset_is("well", "the toleration is applied", |d| tolerations(d) == Some(1)).await;
        lab.end().await;
    });
}

#[test]
fn a_running_version_that_is_withdrawn_is_said() {
    olm_tests::run(async {
        let lab = Lab::new("fail-withdrawn", 1).await;
        lab.oneagent(&json!({ "disableAgentUpdate": true }));
        lab.all_at("agent", V1, 1, SOON).await;
        lab.cluster.vendor.with(&lab.name, |e| {
            e.offered = vec![V2.into()];
            e.latest = V2.into();
        });
        let message = lab.condition("agent", "Degraded", "True", "VersionWithdrawn").await;
        assert!(message.contains(V1) && message.contains(V2), "{message}");
        lab.edit("agent", json!({ "disableAgentUpdate": false })).await;
        lab.all_at("agent", V2, 1, SOON).await;
        lab.condition("agent", "Degraded", "False", "AsExpected").await;
        lab.end().await;
    });
}

#[test]
fn what_is_wrong_with_tokens_is_said_and_mending_them_works_at_once() {
    olm_tests::run(async {
        let lab = Lab::new("fail-tokens", 1).await;
        let (api, paas) = (api_token(&lab.name), paas_token(&lab.name));
        lab.cluster.kubectl(&["-n", &lab.name, "delete", "secret", "tokens"]);
        lab.oneagent(&json!({}));
        let message = lab.condition("agent", "PaaSToken", "False", "TokenSecretNotFound").await;
        let creates = "kubectl -n fail-tokens create secret generic tokens --from-literal=apiToken=TOKEN \
            --from-literal=paasToken=TOKEN";
        assert!(message.contains("fail-tokens/tokens") && message.ends_with(creates), "{message}");
        lab.condition("agent", "Degraded", "True", "TokenSecretNotFound").await;
        let waits = lab.status("agent").await.rollout.unwrap().waiting_on;
        assert!(waits[0].contains("Secret fail-tokens/tokens does not exist"), "{waits:?}");
        assert!(lab.daemonset("agent").await.is_none());
        let secret = |data: serde_json::Value| {
            lab.cluster.apply(
                &json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "tokens", "namespace": lab.name },
                    "stringData": data })
                .to_string(),
            );
        };
        secret(json!({ "apiToken": api }));
        let message = lab.condition("agent", "PaaSToken", "False", "TokenMissing").await;
        assert!(message.contains("no key paasToken"), "{message}");
        // A token that is good for something else.
        lab.secret(&api, &api);
        lab.condition("agent", "PaaSToken", "False", "TokenScopeMissing").await;
        lab.secret(&api, "dt0c01.WRONG.SECRETPAASwrong");
        lab.condition("agent", "PaaSToken", "False", "TokenUnauthorized").await;
        // Blanks and line feeds: `echo token | base64` does that.
        lab.secret(&format!("{api}\n"), &format!(" {paas}"));
        lab.says("agent", "PaaSToken", "blanks or a line feed").await;
        lab.condition("agent", "APIToken", "False", "TokenUnauthorized").await;
        lab.all_pods_ready("agent", 1).await;
        lab.secret(&api, &paas);
        lab.condition("agent", "PaaSToken", "True", "TokenReady").await;
        lab.condition("agent", "APIToken", "True", "TokenReady").await;
        lab.all_at("agent", V1, 1, SOON).await;

        // Agents would send it as it is, so none is replaced, and no version is blamed.
        let before = lab.uids("agent").await;
        lab.secret(&api, &format!("{paas}\n"));
        lab.says("agent", "PaaSToken", "blanks or a line feed").await;
        lab.cluster.vendor.publish(&lab.name, V2);
        lab.says("agent", "Progressing", "the Secret with the tokens is not as Pods need it").await;
        assert_eq!(lab.uids("agent").await, before);
        lab.secret(&api, &paas);
        lab.all_at("agent", V2, 1, SOON).await;

        // Rotation: the old one is revoked, the new one works at once, and no agent restarts.
        let before = lab.uids("agent").await;
        let new = "dt0c01.NEW.SECRETPAASnew";
        lab.cluster.vendor.with(&lab.name, |e| {
            let scopes = e.tokens.remove(&paas).unwrap();
            e.tokens.insert(new.into(), scopes);
        });
        lab.condition("agent", "PaaSToken", "False", "TokenUnauthorized").await;
        lab.secret(&api, new);
        lab.condition_within(Duration::from_secs(3), "agent", "PaaSToken", "True", "TokenReady").await;
        assert_eq!(lab.uids("agent").await, before);
        lab.end().await;
    });
}

#[test]
fn an_invalid_spec_is_named_field_by_field_and_stops_no_other() {
    olm_tests::run(async {
        let lab = Lab::new("fail-spec", 2).await;
        let (one, two) = (lab.nodes[0].clone(), lab.nodes[1].clone());
        lab.oneagent_named("well", &json!({ "nodeSelector": { "kubernetes.io/hostname": one } }));
        lab.all_at("well", V1, 1, SOON).await;
        let only_two = json!({ "kubernetes.io/hostname": two });
        for (field, wrong) in [
            ("spec.apiUrl", json!({ "apiUrl": "https://e.example" })),
            ("spec.resources.limits.memory", json!({ "resources": { "limits": { "memory": "1.5Gx" } } })),
            ("spec.tolerations[0].operator", json!({ "tolerations": [{ "key": "a", "operator": "Exist" }] })),
            ("spec.dnsPolicy", json!({ "dnsPolicy": "Cluster" })),
            // What only the API server knows.
            ("priorityClassName", json!({ "priorityClassName": "Not A Name" })),
            ("spec.networkZone", json!({ "networkZone": "a&b" })),
            (
                "nodeSelectorTerms[0]",
                json!({ "affinity": { "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [{}] } } } }),
            ),
        ] {
            let mut spec = wrong.clone();
            spec["nodeSelector"] = only_two.clone();
            lab.oneagent_named("wrong", &spec);
            eventually(&format!("{field} is named"), SOON, || async {
                let now = lab.status("wrong").await;
                let said = now
                    .conditions
                    .iter()
                    .any(|c| c.type_ == "Degraded" && c.status == "True" && c.message.contains(field));
                if said { Ok(()) } else { Err(format!("{:#?}", now.conditions)) }
            })
            .await;
            assert!(lab.daemonset("wrong").await.is_none(), "{field}");
            lab.cluster.kubectl(&["-n", &lab.name, "delete", "oneagent", "wrong"]);
        }
        // The API server itself refuses what a new field must not be, and a typo.
        for (words, wrong) in [
            ("maxUnavailable must be", json!({ "rollout": { "maxUnavailable": "0%" } })),
            ("version must be", json!({ "update": { "version": "1.2.3" } })),
            ("nodeSelektor", json!({ "nodeSelektor": {} })),
        ] {
            let mut spec = json!({ "apiUrl": lab.cluster.vendor.url(&lab.name) });
            for (key, value) in wrong.as_object().unwrap() {
                spec[key] = value.clone();
            }
            let object = json!({ "apiVersion": "dynatrace.com/v1alpha1", "kind": "OneAgent",
                "metadata": { "name": "wrong", "namespace": lab.name }, "spec": spec });
            let refused = lab
                .cluster
                .try_kubectl(&["apply", "--server-side", "--validate=strict", "-f", "-"], Some(&object.to_string()))
                .unwrap_err();
            assert!(refused.contains(words), "{refused}");
        }
        // What does nothing is said, and does no harm: in installer mode the original ignored this field, too.
        lab.edit("well", json!({ "agentVersion": "newest" })).await;
        lab.says("well", "Degraded", "spec.agentVersion is \"newest\", which is no version, and is ignored").await;
        lab.edit("well", json!({ "agentVersion": null })).await;
        lab.edit("well", json!({ "update": { "allowDowngrade": true } })).await;
        lab.says("well", "Degraded", "spec.update.allowDowngrade does nothing").await;
        // Running agents survive a spec that becomes invalid, and its fixing.
        let before = lab.uids("well").await;
        lab.edit("well", json!({ "apiUrl": "nonsense" })).await;
        lab.condition("well", "Degraded", "True", "InvalidSpec").await;
        lab.edit("well", json!({ "apiUrl": lab.cluster.vendor.url(&lab.name) })).await;
        lab.condition("well", "Degraded", "False", "AsExpected").await;
        assert_eq!(lab.uids("well").await, before);
        lab.cluster.vendor.publish(&lab.name, V3);
        lab.all_at("well", V3, 1, SOON).await;
        lab.end().await;
    });
}

#[test]
fn missing_certificates_and_proxies_are_named_and_certificates_are_used() {
    olm_tests::run(async {
        let lab = Lab::new("fail-ca", 1).await;
        let put = |kind: &str, name: &str, key: &str, value: &str| {
            lab.cluster.apply(
                &json!({ "apiVersion": "v1", "kind": kind,
                "metadata": { "name": name, "namespace": lab.name },
                if kind == "Secret" { "stringData" } else { "data" }: { key: value } })
                .to_string(),
            );
        };
        lab.oneagent(&json!({ "apiUrl": lab.cluster.vendor.tls_url(&lab.name), "trustedCAs": "ca",
            "proxy": { "valueFrom": "proxy" } }));
        let message = lab.condition("agent", "Degraded", "True", "TrustedCAsMissing").await;
        assert!(message.contains("ConfigMap fail-ca/ca does not exist; create it with key certs"), "{message}");
        put("ConfigMap", "ca", "wrong", "x");
        eventually("the missing key is named", SOON, || async {
            let now = lab.status("agent").await;
            if now.conditions.iter().any(|c| c.message.contains("has no key certs")) {
                Ok(())
            } else {
                Err(format!("{:#?}", now.conditions))
            }
        })
        .await;
        put("ConfigMap", "ca", "certs", "no certificate");
        let message = lab.condition("agent", "Degraded", "True", "ProxyInvalid").await;
        assert!(message.contains("Secret fail-ca/proxy does not exist"), "{message}");
        lab.edit("agent", json!({ "proxy": null })).await;
        let message = lab.condition("agent", "Degraded", "True", "EnvironmentUnreachable").await;
        assert!(message.contains("no PEM certificate"), "{message}");
        // A CA that did not sign the environment's certificate.
        put("ConfigMap", "ca", "certs", &olm_tests::pki::Ca::new("another").pem());
        lab.says("agent", "Degraded", "certificate").await;
        put("ConfigMap", "ca", "certs", &lab.cluster.vendor_ca);
        lab.all_at("agent", V1, 1, SOON).await;
        // The right CA and the wrong name.
        let wrong_name = lab.cluster.vendor.tls_url(&lab.name).replace("localhost", "127.0.0.1");
        lab.edit("agent", json!({ "apiUrl": wrong_name })).await;
        lab.says("agent", "Degraded", "certificate").await;
        lab.edit("agent", json!({ "skipCertCheck": true })).await;
        lab.condition("agent", "Degraded", "False", "AsExpected").await;
        lab.end().await;
    });
}

#[test]
fn a_hundred_thousand_reported_hosts_do_no_harm() {
    olm_tests::run(async {
        let mut lab = Lab::without_operator(olm_tests::cluster::Cluster::shared().await, "fail-hosts", 1).await;
        lab.cluster.vendor.with(&lab.name, |e| e.invented_hosts = 100_000);
        lab.start_operator(&[("VENDOR_TIMEOUT", "20s")]).await;
        lab.oneagent(&json!({}));
        lab.all_at("agent", V1, 1, SOON).await;
        let other = json!({ "nodeSelector": { "lab": "nobody" } });
        lab.oneagent_named("other", &other);
        lab.condition("other", "Ready", "False", "NoNodesSelected").await;
        let before = lab.operators[0].memory("VmRSS");
        lab.cluster.vendor.publish(&lab.name, V2);
        let pages = || {
            lab.cluster
                .vendor
                .with(&lab.name, |e| e.calls.get("/v1/entity/infrastructure/hosts").copied().unwrap_or_default())
        };
        eventually("hosts are read", SOON, || async { if pages() > 2 { Ok(()) } else { Err(pages().to_string()) } })
            .await;
        // One of the same environment does not wait for them, however long they take.
        lab.cluster.vendor.with(&lab.name, |e| e.mood = Mood::Slow(Duration::from_millis(200)));
        lab.edit("other", json!({ "labels": { "edited": "yes" } })).await;
        eventually("the other is applied", SOON, || async {
            let api: Api<DaemonSet> = Api::namespaced(lab.cluster.client.clone(), &lab.name);
            let applied = api
                .get("other")
                .await
                .unwrap()
                .spec
                .unwrap()
                .template
                .metadata
                .unwrap()
                .labels
                .unwrap()
                .contains_key("edited");
            if applied { Ok(()) } else { Err("not yet".to_owned()) }
        })
        .await;
        assert!(pages() < 50, "the other waited until the hosts were read");
        lab.cluster.vendor.with(&lab.name, |e| e.mood = Mood::Well);
        lab.all_at("agent", V2, 1, SOON).await;
        let raised = lab.operators[0].memory("VmHWM") - before;
        assert!(raised < 20.0, "{raised} MiB more");
        let pages = lab.cluster.vendor.with(&lab.name, |e| e.calls["/v1/entity/infrastructure/hosts"]);
        assert!(pages >= 50, "{pages} pages of 2,000");
        lab.end().await;
    });
}
