//! Four real processes, and clients who ask them all the time.

use olm_tests::clients::Clients;
use olm_tests::lab::{LONG, Lab, SOON};
use oneagent_operator::api::config_watcher::package::PACKAGE;
use serde_json::json;

use super::next_second;

#[test]
fn answers_change_one_by_one_and_no_request_is_lost() {
    olm_tests::run(async {
        let lab = Lab::of(&PACKAGE, "cw-web", 3).await;
        lab.message("Welcome");
        let patch = json!([{ "op": "replace", "path": "/spec/template/spec/containers/0/image",
            "value": "docker.io/k8spatterns/mini-http-server" }]);
        lab.workload("Deployment", "webapp", &json!({ "replicas": 0 }));
        lab.cluster.kubectl(&[
            "-n",
            &lab.name,
            "patch",
            "deployment",
            "webapp",
            "--type=json",
            "-p",
            &patch.to_string(),
        ]);
        lab.cluster.kubectl(&["-n", &lab.name, "scale", "deployment", "webapp", "--replicas=4"]);
        lab.watcher(&json!({}));
        lab.all_say("webapp", "Welcome", 4, SOON).await;
        lab.watcher_is("watcher", "Ready", "True", "AllUpdated").await;
        next_second().await;
        let clients = Clients::of(&lab.cluster.kubelet, &lab.name, "webapp");
        lab.message("Hello");
        let mut mixed = 0;
        olm_tests::eventually("all answer with the new value", LONG, || {
            let now = clients.answers().clone();
            let new = now.now.values().filter(|said| *said == "Hello").count();
            mixed = mixed.max(if new < now.now.len() { new } else { 0 });
            async move { if new == 4 && now.now.len() == 4 { Ok(()) } else { Err(format!("{now:?}")) } }
        })
        .await;
        lab.watcher_is("watcher", "Ready", "True", "AllUpdated").await;
        let answers = clients.answers().clone();
        assert_eq!(answers.lost, 0, "{answers:?}");
        assert!(mixed >= 1, "some answered with the new value while others did not");
        assert!(answers.said["Welcome"] > 0 && answers.said["Hello"] > 0, "{answers:?}");
        drop(clients);
        lab.end().await;
    });
}
