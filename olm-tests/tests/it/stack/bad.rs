//! Bad changes: of a command, a probe or a template. Each stops at the first Pod, and nothing else is touched.

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use olm_tests::eyes::Eyes;
use olm_tests::kubelet::Fault;
use olm_tests::lab::{LONG, Lab, is_ready};
use olm_tests::{eventually, run};
use serde_json::json;

use super::{Uids, looks_again, others, standing, uids, with};

/// A command that ends with an error, and one that no readiness probe finds.
const CRASHES: &str = "crashes";
const MUTE: &str = "mute";

/// Pods with these commands fail, and recover only if another template replaces them.
fn fails(lab: &Lab<'_>) {
    lab.behave(|behaviour| {
        behaviour.commands.insert(CRASHES.to_owned(), Fault::CrashLoop);
        behaviour.commands.insert(MUTE.to_owned(), Fault::NeverReady);
    });
}

/// Waits until a Pod runs a command, and is not Ready. Returns its name.
async fn tries(lab: &Lab<'_>, command: &str) -> String {
    let runs = |pod: &&Pod| {
        let mut words = pod.spec.iter().flat_map(|spec| &spec.containers).flat_map(|one| one.command.iter().flatten());
        let is_running = pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Running");
        words.any(|word| word == command) && is_running && !is_ready(pod)
    };
    eventually(&format!("a Pod runs {command}"), LONG, || async {
        lab.stack_pods().await.iter().find(runs).map(ResourceExt::name_any).ok_or_else(|| "none".to_owned())
    })
    .await
}

/// Pods of other components than this one that were not there before.
fn others_than(component: &str, before: &Uids, now: &Uids) -> Vec<String> {
    others(before, now).into_iter().filter(|name| !name.starts_with(component)).collect()
}

#[test]
fn a_bad_command_or_probe_stops_at_the_first_server() {
    run(async {
        let lab = standing("stack-command", 3, 0).await;
        fails(&lab);
        let (before, eyes) = (uids(&lab).await, Eyes::on_replicas(&lab, "contrail_manager=webui", 3).await);
        let command = |word: &str| with(&lab, "webui", "webuijob", &json!({ "command": [word] }));
        let last = "webui1-webui-statefulset-2";
        // One of which the kubelet says why it fails. It is taken back, and the other two never notice.
        lab.edit_stack(command(CRASHES)).await;
        lab.degraded_says("PodsFailing", &format!("webui1: Pod {last}: CrashLoopBackOff")).await;
        looks_again(&lab).await;
        assert_eq!(eyes.seen().await.counts(), (1, 1), "it stops there");
        lab.edit_stack(json!({ "services": { "webui": lab.stack()["spec"]["services"]["webui"] } })).await;
        lab.stack_says("Ready", "AllServing").await;
        assert_eq!(eyes.seen().await.counts(), (1, 2));
        assert_eq!(others(&before, &uids(&lab).await), [last]);
        // One that runs, and is never Ready: no kubelet says why. It is corrected, and reaches all.
        lab.edit_stack(command(MUTE)).await;
        assert_eq!(tries(&lab, MUTE).await, last);
        lab.component_says("webui1", &format!("once Pod {last} has been Ready")).await;
        looks_again(&lab).await;
        assert_eq!(eyes.seen().await.counts(), (1, 3), "it stops there");
        lab.edit_stack(command("good")).await;
        lab.stack_says("Ready", "AllServing").await;
        assert_eq!(eyes.seen().await.counts(), (1, 6), "the one that failed, and each of the others once");
        assert_eq!(others_than("webui1", &before, &uids(&lab).await), [] as [String; 0]);
        lab.end().await;
    });
}

#[test]
fn a_bad_change_of_a_store_costs_one_server_and_is_taken_back() {
    run(async {
        let lab = standing("stack-quorum", 3, 0).await;
        fails(&lab);
        let (before, eyes) = (uids(&lab).await, Eyes::on_replicas(&lab, "zookeeper=zookeeper1", 3).await);
        let last = "zookeeper1-zookeeper-statefulset-2";
        lab.edit_stack(with(&lab, "zookeepers", "zookeeper", &json!({ "command": [CRASHES] }))).await;
        lab.degraded_says("PodsFailing", &format!("zookeeper1: Pod {last}: CrashLoopBackOff")).await;
        looks_again(&lab).await;
        assert_eq!(eyes.seen().await.counts(), (1, 1), "it stops there");
        let status = lab.stack_status().await;
        let store = status.components.iter().find(|one| one.name == "zookeeper1").expect("the store");
        assert_eq!(store.ready, "2/3", "it has its quorum");
        lab.edit_stack(json!({ "services": { "zookeepers": lab.stack()["spec"]["services"]["zookeepers"] } })).await;
        lab.stack_says("Ready", "AllServing").await;
        assert_eq!(eyes.seen().await.counts(), (1, 2));
        assert_eq!(others(&before, &uids(&lab).await), [last]);
        lab.end().await;
    });
}

#[test]
fn a_bad_change_of_what_runs_everywhere_stops_at_one_node() {
    run(async {
        let lab = standing("stack-agent", 1, 4).await;
        fails(&lab);
        let (before, eyes) = (uids(&lab).await, Eyes::on_replicas(&lab, "vrouter=vrouterworkernodes", 4).await);
        let command = |word: &str| with(&lab, "vrouters", "vrouteragent", &json!({ "command": [word] }));
        // Two may be missing at once, and one tries it first.
        lab.edit_stack(json!({ "rollout": { "maxUnavailable": "50%" } })).await;
        lab.edit_stack(command(CRASHES)).await;
        lab.degraded_says("PodsFailing", "vrouterworkernodes: Pod vrouterworkernodes-vrouter-daemonset-").await;
        looks_again(&lab).await;
        assert_eq!(eyes.seen().await.counts(), (1, 1), "it stops there");
        // No other component waits for that.
        lab.edit_stack(with(&lab, "webui", "webuijob", &json!({ "command": ["other"] }))).await;
        lab.component_is("webui1", "Serving").await;
        assert_eq!(eyes.seen().await.counts(), (1, 1), "it stops there");
        // Corrected, it reaches all.
        lab.edit_stack(command("good")).await;
        lab.stack_says("Ready", "AllServing").await;
        let (most, replaced) = eyes.seen().await.counts();
        assert!(most <= 2 && replaced == 5, "{most} of {replaced}");
        // One that is never Ready, taken back: the other nodes never notice.
        let good = uids(&lab).await;
        lab.edit_stack(command(MUTE)).await;
        tries(&lab, MUTE).await;
        looks_again(&lab).await;
        assert_eq!(eyes.seen().await.counts().1, 6, "it stops there");
        eventually("three of four serve", LONG, || async {
            let status = lab.stack_status().await;
            let found = status.components.iter().find(|one| one.name == "vrouterworkernodes");
            if found.is_some_and(|one| one.state == "Updating" && one.ready == "3/4") {
                Ok(())
            } else {
                Err(format!("{found:?}"))
            }
        })
        .await;
        lab.edit_stack(command("good")).await;
        lab.stack_says("Ready", "AllServing").await;
        assert_eq!(eyes.seen().await.counts().1, 7);
        assert_eq!(others(&good, &uids(&lab).await).len(), 1);
        let touched = others_than("vrouterworkernodes", &before, &uids(&lab).await);
        assert_eq!(touched, ["webui1-webui-statefulset-0"]);
        lab.end().await;
    });
}

#[test]
fn a_bad_template_changes_nothing_and_a_good_one_its_component() {
    run(async {
        let lab = standing("stack-template", 1, 1).await;
        let before = uids(&lab).await;
        let templates = "webui1-webui-templates";
        lab.config(templates, &json!({ "redis": "port {{ fields.none }}" }));
        lab.component_says("webui1", "webui1: template redis: ").await;
        lab.degraded_says("InvalidComponent", "webui1: template redis: ").await;
        // The others proceed meanwhile.
        lab.edit_stack(with(&lab, "provisionManager", "provisioner", &json!({ "command": ["other"] }))).await;
        lab.component_is("provmanager1", "Serving").await;
        let provisioner = "provmanager1-provisionmanager-statefulset-0";
        assert_eq!(others(&before, &uids(&lab).await), [provisioner]);
        // Corrected, it replaces what reads it; taken back, so does the table's own.
        for corrected in [true, false] {
            let known = uids(&lab).await;
            if corrected {
                lab.config(templates, &json!({ "redis": "port 6381\n" }));
            } else {
                lab.cluster.kubectl(&["-n", &lab.name, "delete", "configmap", templates]);
            }
            eventually("the web UI has another file", LONG, || async {
                let now = others(&known, &uids(&lab).await);
                if now == ["webui1-webui-statefulset-0"] { Ok(()) } else { Err(format!("{now:?}")) }
            })
            .await;
            lab.stack_says("Ready", "AllServing").await;
        }
        assert_eq!(others(&before, &uids(&lab).await), [provisioner, "webui1-webui-statefulset-0"]);
        lab.end().await;
    });
}
