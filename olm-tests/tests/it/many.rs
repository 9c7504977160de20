//! Much at once, and little in time: many OneAgents and a watch that is cut, lists without an answer, a host list
//! without an end.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use kube::api::Api;
use olm_tests::cluster::Cluster;
use olm_tests::eventually;
use olm_tests::lab::{LONG, Lab, SOON, V1, V2};
use serde_json::json;

async fn daemonset_has(lab: &Lab<'_>, name: &str, text: &str) {
    eventually(&format!("DaemonSet {name} has {text:?}"), LONG, || async {
        let found = lab
            .daemonset(name)
            .await
            .and_then(|daemonset| serde_json::to_string(&daemonset.spec).ok())
            .unwrap_or_default();
        if found.contains(text) { Ok(()) } else { Err(found) }
    })
    .await;
}

#[test]
fn of_thirty_oneagents_that_change_while_their_watch_is_cut_all_are_seen_and_who_went_is_forgotten() {
    olm_tests::run(async {
        let cluster = Cluster::start(Vec::new()).await;
        let mut lab = Lab::without_operator(&cluster, "many-cut", 0).await;
        cluster.vendor.add("many-gone", V1);
        let tokens = cluster.vendor.with(&lab.name, |e| e.tokens.clone());
        cluster.vendor.with("many-gone", |e| e.tokens = tokens);
        // The defaults: who cannot renew for a while keeps the lease.
        lab.start_operator(&[
            ("LEASE_DURATION", "137s"),
            ("LEASE_RENEW_DEADLINE", "107s"),
            ("LEASE_RETRY_PERIOD", "26s"),
        ])
        .await;
        for number in 0..29 {
            lab.oneagent_named(&format!("agent-{number}"), &json!({}));
        }
        lab.oneagent_named("agent-gone", &json!({ "apiUrl": cluster.vendor.url("many-gone") }));
        for name in ["agent-0", "agent-28", "agent-gone"] {
            daemonset_has(&lab, name, "dynatrace-oneagent").await;
        }
        let metrics = async || lab.operators[0].get("/metrics").await.map(|(_, text)| text).unwrap_or_default();
        eventually("it is counted", SOON, || async {
            if metrics().await.contains("agent-gone") { Ok(()) } else { Err(metrics().await) }
        })
        .await;

        // Nothing is heard of what happens now; and an API server that restarts remembers no events: the watch
        // begins with 410.
        lab.operators[0].process.signal("STOP");
        lab.edit("agent-7", json!({ "args": ["--set-host-group=edited"] })).await;
        lab.oneagent_named("agent-new", &json!({}));
        cluster.kubectl(&["-n", &lab.name, "delete", "oneagent", "agent-gone"]);
        let killed = chrono::Utc::now();
        cluster.plane.lock().await.kill_apiserver();
        cluster.plane.lock().await.start_apiserver().await;
        lab.unjudged = Some((killed, chrono::Utc::now()));
        lab.operators[0].process.signal("CONT");

        daemonset_has(&lab, "agent-7", "--set-host-group=edited").await;
        daemonset_has(&lab, "agent-new", "dynatrace-oneagent").await;
        let metrics = async || lab.operators[0].get("/metrics").await.map(|(_, text)| text).unwrap_or_default();
        eventually("it is forgotten", SOON, || async {
            if metrics().await.contains("agent-gone") { Err(metrics().await) } else { Ok(()) }
        })
        .await;
        let asked = |environment: &str| cluster.vendor.with(environment, |e| e.calls.values().sum::<u32>());
        let before = asked("many-gone");
        let others = asked(&lab.name);
        eventually("the other environment is asked", SOON, || async {
            if asked(&lab.name) > others + 5 { Ok(()) } else { Err("not yet".to_owned()) }
        })
        .await;
        assert_eq!(asked("many-gone"), before, "nobody needs that environment any more");
        assert_eq!(lab.operators[0].process.died(), None, "it is the same process");
        lab.end().await;
    });
}

#[test]
fn a_start_whose_lists_are_unanswered_keeps_its_lease_and_hears_sigterm() {
    olm_tests::run(async {
        let cluster = Cluster::start(Vec::new()).await;
        let mut lab = Lab::without_operator(&cluster, "many-slow", 2).await;
        // Lists of nodes wait in a queue without a server.
        let level = json!({
            "apiVersion": "flowcontrol.apiserver.k8s.io/v1", "kind": "PriorityLevelConfiguration",
            "metadata": { "name": "nobody" },
            "spec": { "type": "Limited", "limited": { "nominalConcurrencyShares": 0, "lendablePercent": 0,
            "borrowingLimitPercent": 0,
                "limitResponse": { "type": "Queue",
                "queuing": { "queues": 1, "handSize": 1, "queueLengthLimit": 50 } } } },
        });
        let schema = json!({
            "apiVersion": "flowcontrol.apiserver.k8s.io/v1", "kind": "FlowSchema", "metadata": { "name": "nobody" },
            "spec": { "priorityLevelConfiguration": { "name": "nobody" }, "matchingPrecedence": 2, "rules": [{
                "subjects": [{ "kind": "ServiceAccount",
                "serviceAccount": { "namespace": lab.name, "name": "oneagent-operator" } }],
                "resourceRules": [{ "verbs": ["list", "watch"], "apiGroups": [""], "resources": ["nodes"],
                "clusterScope": true, "namespaces": ["*"] }],
            }] },
        });
        cluster.apply(&format!("{level}\n---\n{schema}"));
        // It is enforced a moment later.
        tokio::time::sleep(Duration::from_secs(2)).await;
        lab.oneagent(&json!({}));
        lab.start_operator(&[]).await;
        let lease: Api<Lease> = Api::namespaced(cluster.client.clone(), &lab.name);
        let renewed =
            async || lease.get_opt("oneagent-operator").await.unwrap().and_then(|lease| lease.spec?.renew_time);
        let mut seen = std::collections::BTreeSet::new();
        for _ in 0..3 {
            let new = eventually("the lease is renewed", SOON, || async {
                let at = renewed().await.map(|at| at.0.to_string()).ok_or("nobody leads")?;
                if seen.contains(&at) { Err(at) } else { Ok(at) }
            })
            .await;
            seen.insert(new);
        }
        let (code, why) = lab.operators[0].get("/readyz").await.unwrap();
        assert_eq!(code, 503, "{why}");
        assert!(lab.daemonset("agent").await.is_none(), "nothing is done before the nodes are known");
        lab.operators[0].process.signal("TERM");
        let first = std::cell::RefCell::new(lab.operators.remove(0));
        eventually("it ends", SOON, || async {
            first.borrow_mut().process.ended().map(drop).ok_or_else(|| "it runs".to_owned())
        })
        .await;
        assert!(first.borrow_mut().process.ended().is_some_and(|how| how.contains("exit status: 0")));

        lab.start_operator(&[]).await;
        cluster.kubectl(&["delete", "flowschema,prioritylevelconfiguration", "nobody"]);
        lab.all_at("agent", V1, 2, LONG).await;
        lab.end().await;
    });
}

#[test]
fn a_host_list_without_an_end_costs_bounded_memory_and_one_condition_and_no_agent() {
    olm_tests::run(async {
        let cluster = Cluster::start(Vec::new()).await;
        let mut lab = Lab::without_operator(&cluster, "many-hosts", 2).await;
        // A page of a debug build on a busy machine may take longer than the tests' two seconds.
        lab.start_operator(&[("VENDOR_TIMEOUT", "60s")]).await;
        lab.oneagent(&json!({}));
        lab.all_at("agent", V1, 2, SOON).await;
        let before = lab.uids("agent").await;
        lab.cluster.vendor.with(&lab.name, |e| e.invented_hosts = 10_000_000);
        lab.cluster.vendor.publish(&lab.name, V2);
        // 300,000 hosts are read before that is too many.
        let said = eventually("it is said", 4 * LONG, || async {
            let conditions = lab.status("agent").await.conditions;
            let said =
                conditions.iter().find(|c| c.type_ == "Degraded" && c.message.contains("the host list cannot be read"));
            said.map(|c| c.message.clone()).ok_or_else(|| format!("{conditions:#?}"))
        })
        .await;
        assert!(said.contains("more than"), "{said}");
        let most = lab.operators[0].memory("VmHWM");
        assert!(most < 160.0, "{most} MiB for a list of which nothing is kept");
        assert_eq!(lab.uids("agent").await, before, "nobody knows which agents updated themselves");
        lab.cluster.vendor.with(&lab.name, |e| e.invented_hosts = 0);
        lab.all_at("agent", V2, 2, SOON).await;
        lab.condition("agent", "Degraded", "False", "AsExpected").await;
        lab.end().await;
    });
}
