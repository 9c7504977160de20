//! Removal, in whatever order people do it: nothing is wedged, and agents go or stay as the README says.

use std::time::Duration;

use olm_tests::control_plane::CONTROLLER_MANAGER;
use olm_tests::eventually;
use olm_tests::lab::{Lab, V1};
use olm_tests::olm::{NEXT, Olm, PACKAGE, Wish};
use serde_json::json;

const PATIENCE: Duration = Duration::from_secs(180);

fn csv() -> String {
    format!("{PACKAGE}.v{NEXT}")
}

/// Waits until an object is gone.
async fn gone(olm: &Olm, kind: &str, namespace: &str, name: &str) {
    eventually(&format!("{kind} {namespace}/{name} is gone"), PATIENCE, || async {
        match olm.get(kind, namespace, name).await {
            None => Ok(()),
            Some(object) => Err(object["metadata"].to_string()),
        }
    })
    .await;
}

/// An installation with three agents.
async fn installed<'a>(olm: &'a Olm, namespace: &'a str) -> Lab<'a> {
    olm.namespace(namespace);
    olm.subscribe(&Wish::own(namespace, &[namespace]));
    olm.installed(namespace, NEXT).await;
    // It hears at once of OneAgents that go.
    olm.cluster.plane.lock().await.start_controller(CONTROLLER_MANAGER);
    let lab = Lab::in_namespace(&olm.cluster, namespace, 3).await;
    lab.oneagent(&json!({}));
    lab.all_at("agent", V1, 3, PATIENCE).await;
    lab
}

/// Nothing is left: no namespace, and no right of it but what OLM itself made and lost sight of, which was seen in
/// about one removal of fifteen; that is removed by the command that the README names.
async fn clean(olm: &Olm, namespace: &str) {
    gone(olm, "Namespace", "", namespace).await;
    for left in olm
        .list("ClusterRoleBinding", "")
        .await
        .iter()
        .filter(|binding| binding["subjects"][0]["namespace"] == namespace)
    {
        let name = left["metadata"]["name"].as_str().unwrap();
        assert_eq!(left["metadata"]["labels"]["olm.owner.kind"], "ClusterServiceVersion", "{left}");
        assert!(name.contains("oneagent-operator"), "the README's command finds {name}");
        println!("OLM left ClusterRoleBinding {name} behind");
        olm.delete("ClusterRoleBinding", "", name).await;
        gone(olm, "ClusterRoleBinding", "", name).await;
    }
}

/// As documented: agents outlive operator and ServiceAccounts; new ones start once it is installed again.
#[test]
fn subscription_and_csv_first_agents_stay_and_a_new_installation_takes_them_back() {
    olm_tests::run(async {
        let olm = Olm::start().await;
        olm.publish(&[olm.release(NEXT)]).await;
        let lab = installed(&olm, "dynatrace").await;
        let before = lab.uids("agent").await;
        olm.delete("Subscription", "dynatrace", PACKAGE).await;
        olm.delete("ClusterServiceVersion", "dynatrace", &csv()).await;
        gone(&olm, "Deployment", "dynatrace", PACKAGE).await;
        gone(&olm, "ServiceAccount", "dynatrace", "dynatrace-oneagent").await;
        tokio::time::sleep(Duration::from_secs(2)).await;
        assert_eq!(lab.uids("agent").await, before, "agents went with the operator");
        // A node loses its agent: no new one can start.
        let (_, lost) = lab.pods("agent").await.into_iter().next().unwrap();
        olm.delete("Pod", "dynatrace", lost.metadata.name.as_deref().unwrap()).await;
        eventually("the DaemonSet controller has tried", PATIENCE, || async {
            let events = olm.list("Event", "dynatrace").await;
            let tried = events
                .iter()
                .any(|event| event["reason"] == "FailedCreate" && event["involvedObject"]["name"] == "agent");
            if tried { Ok(()) } else { Err(format!("{} events", events.len())) }
        })
        .await;
        assert_eq!(lab.pods("agent").await.len(), 2);
        // Installed again, the ServiceAccounts are back, and so is the agent; the others never noticed.
        olm.subscribe(&Wish::own("dynatrace", &["dynatrace"]));
        olm.installed("dynatrace", NEXT).await;
        lab.all_at("agent", V1, 3, 2 * PATIENCE).await;
        let after = lab.uids("agent").await;
        assert_eq!(before.iter().filter(|(node, uid)| after.get(*node) == Some(*uid)).count(), 2);
        // The order that the uninstall message names: OneAgents first, and their agents go.
        olm.delete("OneAgent", "dynatrace", "agent").await;
        lab.pods_are("agent", &[]).await;
        olm.delete("Subscription", "dynatrace", PACKAGE).await;
        olm.delete("ClusterServiceVersion", "dynatrace", &csv()).await;
        olm.delete("CustomResourceDefinition", "", "oneagents.dynatrace.com").await;
        gone(&olm, "CustomResourceDefinition", "", "oneagents.dynatrace.com").await;
        olm.delete("Namespace", "", "dynatrace").await;
        clean(&olm, "dynatrace").await;
    });
}

#[test]
fn crd_first_csv_first_or_namespace_first_nothing_is_wedged() {
    olm_tests::run(async {
        let olm = Olm::start().await;
        olm.publish(&[olm.release(NEXT)]).await;
        // The CSV alone: its Subscription does not bring it back.
        let lab = installed(&olm, "csv-first").await;
        let before = lab.uids("agent").await;
        olm.delete("ClusterServiceVersion", "csv-first", &csv()).await;
        gone(&olm, "Deployment", "csv-first", PACKAGE).await;
        assert_eq!(lab.uids("agent").await, before);
        olm.delete("Subscription", "csv-first", PACKAGE).await;
        olm.delete("Namespace", "", "csv-first").await;
        gone(&olm, "Namespace", "", "csv-first").await;

        // The namespace alone.
        let _lab = installed(&olm, "namespace-first").await;
        olm.delete("Namespace", "", "namespace-first").await;
        gone(&olm, "Namespace", "", "namespace-first").await;

        // The CRD: OneAgents and agents go with it, the rest can be removed as usual.
        let lab = installed(&olm, "crd-first").await;
        olm.delete("CustomResourceDefinition", "", "oneagents.dynatrace.com").await;
        gone(&olm, "CustomResourceDefinition", "", "oneagents.dynatrace.com").await;
        lab.pods_are("agent", &[]).await;
        olm.delete("Subscription", "crd-first", PACKAGE).await;
        olm.delete("ClusterServiceVersion", "crd-first", &csv()).await;
        olm.delete("Namespace", "", "crd-first").await;
        gone(&olm, "Namespace", "", "crd-first").await;

        // And it can be installed again.
        let _lab = installed(&olm, "again").await;
    });
}
