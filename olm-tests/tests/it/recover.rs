//! Operators and API servers die; rollouts go on, and nothing is done twice.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use kube::ResourceExt;
use kube::api::Api;
use olm_tests::cluster::Cluster;
use olm_tests::eventually;
use olm_tests::eyes::Eyes;
use olm_tests::lab::{LONG, Lab, SHORT_LEASE, SOON, V1, V2, V3, is_ready};
use serde_json::json;

async fn holder(lab: &Lab<'_>) -> Option<String> {
    let api: Api<Lease> = Api::namespaced(lab.cluster.client.clone(), &lab.name);
    api.get_opt("oneagent-operator").await.unwrap()?.spec?.holder_identity.filter(|h| !h.is_empty())
}

#[test]
fn a_rollout_survives_kill_nine_and_a_change_of_leader_within_its_budget() {
    olm_tests::run(async {
        let mut lab = Lab::without_operator(Cluster::shared().await, "recover-kill", 30).await;
        lab.start_operator(&SHORT_LEASE).await;
        lab.behave(|b| b.ready_after = Duration::from_millis(700));
        lab.oneagent(&json!({ "rollout": { "maxUnavailable": 3 } }));
        lab.all_at("agent", V1, 30, SOON).await;
        let eyes = Eyes::on(&lab, "agent", 30).await;
        lab.cluster.vendor.publish(&lab.name, V2);
        lab.reached("agent", V2, 6).await;
        // Killed in the middle; the one that starts next continues where that one was.
        lab.operators[0].process.kill();
        lab.start_operator(&SHORT_LEASE).await;
        lab.reached("agent", V2, 15).await;
        // And with a second one standing by: the leader dies, the other takes over.
        lab.start_operator(&SHORT_LEASE).await;
        eventually("the standby is ready", SOON, || async {
            let answer = lab.operators[2].get("/readyz").await;
            if answer.as_ref().is_some_and(|(code, _)| *code == 200) { Ok(()) } else { Err(format!("{answer:?}")) }
        })
        .await;
        let leader = holder(&lab).await.unwrap();
        assert!(leader.contains("operator-0"), "{leader}");
        let (_, standby) = lab.operators[2].get("/metrics").await.unwrap();
        assert!(standby.contains("oneagent_leader 0"), "{standby}");
        lab.operators[1].process.kill();
        lab.all_at("agent", V2, 30, LONG).await;
        assert!(holder(&lab).await.unwrap().contains("operator-1"));
        {
            let seen = eyes.seen().await;
            assert!(seen.most_unready <= 3, "{} nodes at once were without an agent", seen.most_unready);
            assert!(seen.without(2).is_empty(), "not replaced exactly once: {:?}", seen.without(2));
        }
        lab.end().await;
    });
}

#[test]
fn a_leader_that_is_told_to_end_gives_the_lease_back_at_once() {
    olm_tests::run(async {
        let mut lab = Lab::without_operator(Cluster::shared().await, "recover-term", 1).await;
        // The defaults: no test could wait for such a lease to expire.
        let long = [("LEASE_DURATION", "137s"), ("LEASE_RENEW_DEADLINE", "107s"), ("LEASE_RETRY_PERIOD", "26s")];
        lab.start_operator(&long).await;
        lab.oneagent(&json!({}));
        lab.all_at("agent", V1, 1, SOON).await;
        lab.start_operator(&long).await;
        eventually("the second is ready", SOON, || async {
            if lab.operators[1].get("/readyz").await.is_some_and(|(code, _)| code == 200) {
                Ok(())
            } else {
                Err("not ready".into())
            }
        })
        .await;
        lab.operators[0].process.signal("TERM");
        eventually("the other leads", Duration::from_secs(5), || async {
            match holder(&lab).await {
                Some(holder) if holder.contains("operator-1") => Ok(()),
                other => Err(format!("{other:?}")),
            }
        })
        .await;
        assert!(lab.operators[0].process.ended().is_some_and(|how| how.contains("exit status: 0")));
        lab.cluster.vendor.publish(&lab.name, V2);
        lab.all_at("agent", V2, 1, SOON).await;
        lab.end().await;
    });
}

#[test]
fn a_leader_that_loses_its_lease_ends_itself() {
    olm_tests::run(async {
        let mut lab = Lab::new("recover-lost", 1).await;
        eventually("somebody leads", SOON, || async { holder(&lab).await.map(drop).ok_or_else(|| "nobody".into()) })
            .await;
        let thief = json!({ "spec": { "holderIdentity": "thief", "leaseDurationSeconds": 3600 } });
        lab.cluster.kubectl(&[
            "-n",
            &lab.name,
            "patch",
            "lease",
            "oneagent-operator",
            "--type=merge",
            "-p",
            &thief.to_string(),
        ]);
        let operator = std::cell::RefCell::new(lab.operators.remove(0));
        eventually("it ends", SOON, || async {
            match operator.borrow_mut().process.ended() {
                Some(how) if how.contains("exit status: 1") => Ok(()),
                other => Err(format!("{other:?}")),
            }
        })
        .await;
        assert!(operator.borrow().printed().contains("the lease was lost"));
        drop(operator);
        lab.end().await;
    });
}

#[test]
fn a_lease_that_a_user_deletes_stays_with_its_holder() {
    olm_tests::run(async {
        let mut lab = Lab::without_operator(Cluster::shared().await, "recover-deleted", 1).await;
        let timing = [("LEASE_DURATION", "60s"), ("LEASE_RENEW_DEADLINE", "40s"), ("LEASE_RETRY_PERIOD", "3s")];
        lab.start_operator(&timing).await;
        eventually("somebody leads", SOON, || async { holder(&lab).await.map(drop).ok_or_else(|| "nobody".into()) })
            .await;
        lab.start_operator(&timing).await;
        eventually("the second is ready", SOON, || async {
            let answer = lab.operators[1].get("/readyz").await;
            answer.filter(|(code, _)| *code == 200).map(drop).ok_or_else(|| "not ready".into())
        })
        .await;
        for _ in 0..2 {
            lab.cluster.kubectl(&["-n", &lab.name, "delete", "lease", "oneagent-operator"]);
            eventually("it is there again", SOON, || async {
                match holder(&lab).await {
                    Some(holder) if holder.contains("operator-0") => Ok(()),
                    other => Err(format!("{other:?}")),
                }
            })
            .await;
        }
        assert!(!lab.operators[1].printed().contains("leading"), "{}", lab.operators[1].printed());
        lab.end().await;
    });
}

#[test]
fn an_api_server_that_restarts_under_a_rollout_is_survived() {
    olm_tests::run(async {
        let cluster = Cluster::start(Vec::new()).await;
        let lab = Lab::on(&cluster, "recover-api", 10).await;
        lab.oneagent(&json!({ "rollout": { "maxUnavailable": 1 } }));
        lab.all_at("agent", V1, 10, SOON).await;
        lab.cluster.vendor.publish(&lab.name, V2);
        lab.reached("agent", V2, 3).await;
        let killed = chrono::Utc::now();
        cluster.plane.lock().await.kill_apiserver();
        tokio::time::sleep(Duration::from_secs(1)).await;
        cluster.plane.lock().await.start_apiserver().await;
        let ready = chrono::Utc::now();
        // The lease of this test is short: whichever operator is left continues.
        let mut lab = lab;
        // An API server that is not ready yet knows no roles and forbids everything: that is not the operator's fault.
        lab.unjudged = Some((killed, ready));
        if lab.operators[0].process.ended().is_some() {
            lab.start_operator(&[]).await;
        }
        lab.all_at("agent", V2, 10, SOON).await;
        lab.cluster.vendor.publish(&lab.name, V3);
        lab.all_at("agent", V3, 10, SOON).await;
        lab.end().await;
    });
}

#[test]
fn an_operator_that_starts_before_its_crd_waits_and_says_so() {
    olm_tests::run(async {
        let cluster = Cluster::bare(Vec::new()).await;
        let lab = Lab::on(&cluster, "recover-crd", 1).await;
        eventually("it says that it waits", SOON, || async {
            match lab.operators[0].get("/readyz").await {
                Some((503, why)) if why.contains("does not serve OneAgents") => Ok(()),
                other => Err(format!("{other:?}")),
            }
        })
        .await;
        cluster.kubectl(&[
            "apply",
            "--server-side",
            "-f",
            &olm_tests::cluster::repository("config/oneagent-operator/crd").display().to_string(),
        ]);
        cluster.kubectl(&["wait", "--for=condition=Established", "--timeout=240s", "crd/oneagents.dynatrace.com"]);
        lab.oneagent(&json!({}));
        lab.all_at("agent", V1, 1, SOON).await;
        lab.end().await;
    });
}

#[test]
fn evicted_pods_and_lost_nodes_are_no_fault_of_a_version() {
    olm_tests::run(async {
        let mut lab = Lab::new("recover-evict", 3).await;
        lab.oneagent(&json!({}));
        lab.all_at("agent", V1, 3, SOON).await;
        let pods = lab.pods("agent").await;
        let victim = &pods[&lab.nodes[0]];
        lab.cluster.kubelet.evict(victim).await;
        eventually("another Pod takes its place", SOON, || async {
            match lab.pods("agent").await.get(&lab.nodes[0]) {
                Some(pod) if pod.uid() != victim.uid() && is_ready(pod) => Ok(()),
                other => Err(format!("{:?}", other.map(ResourceExt::name_any))),
            }
        })
        .await;
        // A node that is gone is gone from every count.
        olm_tests::nodes::delete(&lab.cluster.client, &lab.nodes.split_off(2)).await;
        // Its Pod stays for a while, until the garbage collector comes: it holds up nothing.
        let two_at = async |version: &str| {
            eventually(&format!("the two nodes that are left run {version}"), SOON, || async {
                let status = lab.status("agent").await;
                let nodes = status.nodes.unwrap_or_default();
                let ready = status.conditions.iter().any(|c| c.type_ == "Ready" && c.status == "True");
                let there = ready && nodes.progress == "2/2" && status.desired_version.as_deref() == Some(version);
                if there { Ok(()) } else { Err(format!("{nodes:?}")) }
            })
            .await;
        };
        two_at(V1).await;
        assert!(lab.status("agent").await.rejected_versions.is_empty());
        lab.cluster.vendor.publish(&lab.name, V2);
        two_at(V2).await;
        lab.reached("agent", V2, 2).await;
        lab.end().await;
    });
}
