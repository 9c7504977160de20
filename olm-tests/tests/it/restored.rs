//! The cluster's database is restored to an older state under a running operator: resource versions, Pods, statuses and
//! specs are the earlier ones, and watches that go on would wait for a time that was.

use olm_tests::cluster::Cluster;
use olm_tests::eventually;
use olm_tests::eyes::Eyes;
use olm_tests::lab::{LONG, Lab, SOON, V1, V2};
use oneagent_operator::api::config_watcher::package::PACKAGE;
use serde_json::json;

#[test]
fn after_a_restore_of_etcd_a_running_operator_continues_within_the_budget() {
    olm_tests::run(async {
        let cluster = Cluster::start(Vec::new()).await;
        let mut agents = Lab::on(&cluster, "restored", 4).await;
        let mut web = Lab::bare(&cluster, &PACKAGE, "restored-web", 2).await;
        web.start_operator(&[]).await;
        agents.oneagent(&json!({ "rollout": { "maxUnavailable": 1 } }));
        web.message("one");
        web.workload("Deployment", "webapp", &json!({}));
        web.watcher(&json!({}));
        agents.all_at("agent", V1, 4, SOON).await;
        web.all_updated("one").await;
        cluster.plane.lock().await.save_etcd();

        // Much happens since: revisions are far ahead of those of the copy.
        cluster.vendor.publish(&agents.name, V2);
        agents.all_at("agent", V2, 4, LONG).await;
        agents.edit("agent", json!({ "env": [{ "name": "LATER", "value": "yes" }] })).await;
        agents
            .shows("the edit is rolled out", LONG, |status| {
                status.rollout.as_ref().is_some_and(|rollout| rollout.state == "Complete")
            })
            .await;
        web.message("two");
        web.all_updated("two").await;

        let began = chrono::Utc::now();
        cluster.plane.lock().await.restore_etcd().await;
        for lab in [&mut agents, &mut web] {
            // What its watches wait for is the future of another past: it ends, and its kubelet starts it again.
            let words = "was restored to an older state";
            eventually("the operator ends", SOON, || async {
                let printed = lab.operators[0].printed();
                if printed.contains(words) { Ok(()) } else { Err(printed) }
            })
            .await;
            lab.operators.clear();
            lab.unjudged = Some((began, chrono::Utc::now()));
            lab.start_operator(&[]).await;
        }
        let eyes = Eyes::on(&agents, "agent", 4).await;
        // The agents on the hosts are newer than their Pods say, which the environment knows: they are left alone.
        agents
            .shows("all are at the newest version", LONG, |status| {
                status.desired_version.as_deref() == Some(V2)
                    && status.nodes.as_ref().is_some_and(|nodes| nodes.updated == 4)
            })
            .await;
        let status = agents.status("agent").await;
        assert!(status.rejected_versions.is_empty() && eyes.seen().await.deletions.is_empty(), "{status:#?}");

        // What is edited from now on is carried out within the budget, and the lost edit is not.
        agents.edit("agent", json!({ "env": [{ "name": "SINCE", "value": "yes" }] })).await;
        eventually("all agents have the new template", LONG, || async {
            let pods = json!(agents.pods("agent").await).to_string();
            let (new, lost) = (pods.matches("SINCE").count(), pods.matches("LATER").count());
            if (new, lost) == (4, 0) {
                Ok(())
            } else {
                Err(format!("{new} {lost} {:#?}", agents.status("agent").await))
            }
        })
        .await;
        agents.all_at("agent", V2, 4, SOON).await;
        assert_eq!(eyes.seen().await.counts(), (1, 4), "within the budget, and each once");
        web.message("three");
        web.all_updated("three").await;
        agents.end().await;
        web.end().await;
    });
}
