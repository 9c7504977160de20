//! Two installations of the package watch one namespace, each with a Lease of its own: one of them operates an object,
//! the other leaves it alone and says so, until the first has ended.

use olm_tests::cluster::Cluster;
use olm_tests::eventually;
use olm_tests::lab::{LONG, Lab, SHORT_LEASE, SOON, V1, V2};
use oneagent_operator::api::config_watcher::package::PACKAGE as WATCHER;
use serde_json::json;

/// With another image than the other installation: each would find the other's DaemonSet wrong.
const OTHER_IMAGE: (&str, &str) = ("RELATED_IMAGE_DYNATRACE_ONEAGENT", "r.example/another:1");

/// Gives the second's operator the rights of the first's, where those are.
fn share(first: &Lab<'_>, second: &Lab<'_>) {
    let name = first.package.name;
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
        "metadata": { "name": "second", "namespace": first.name },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name },
        "subjects": [{ "kind": "ServiceAccount", "name": name, "namespace": second.name }],
    });
    first.cluster.apply(&binding.to_string());
}

/// Writes of an installation in a namespace, beside Events and its Lease.
fn writes(installation: &Lab<'_>, there: &str) -> usize {
    let is_own = |resource: &str| ["events", "leases"].contains(&resource);
    let requests = installation.requests();
    requests.iter().filter(|r| r.writes() && r.namespace == there && !is_own(&r.resource)).count()
}

async fn is_operated_by(lab: &Lab<'_>, namespace: &str) {
    lab.shows(&format!("the installation in {namespace} operates it"), SOON, |status| {
        status.operator_namespace.as_deref() == Some(namespace)
    })
    .await;
}

async fn is_left_alone(lab: &Lab<'_>, name: &str) -> String {
    let said = || async {
        let events = lab.events(name).await;
        events.iter().find(|event| event.contains("OperatedElsewhere")).cloned().ok_or_else(|| format!("{events:#?}"))
    };
    eventually("the other installation says that it leaves the object alone", SOON, said).await
}

#[test]
fn the_second_installation_leaves_objects_alone_until_the_first_has_ended_or_does_not_watch_them() {
    olm_tests::run(async {
        let cluster = Cluster::shared().await;
        let mut first = Lab::without_operator(cluster, "rivals-one", 3).await;
        first.start_operator(&SHORT_LEASE).await;
        let mut second = Lab::without_operator(cluster, "rivals-two", 0).await;
        share(&first, &second);
        first.oneagent(&json!({}));
        first.all_at("agent", V1, 3, SOON).await;
        is_operated_by(&first, "rivals-one").await;

        let scope = ("WATCH_NAMESPACE", "rivals-one,rivals-two");
        second.start_operator(&[scope, OTHER_IMAGE, SHORT_LEASE[0], SHORT_LEASE[1]]).await;
        let said = is_left_alone(&first, "agent").await;
        assert!(said.contains("namespace rivals-one operates") && said.contains("Lease rivals-one/"), "{said}");
        cluster.vendor.publish(&first.name, V2);
        first.all_at("agent", V2, 3, LONG).await;
        assert_eq!(writes(&second, "rivals-one"), 0, "it wrote nothing");

        // Killed: its Lease stays held, and no one renews it.
        first.operators.clear();
        is_operated_by(&first, "rivals-two").await;
        let is_theirs = |object: &k8s_openapi::api::apps::v1::DaemonSet| {
            let template = object.spec.as_ref().and_then(|spec| spec.template.spec.as_ref());
            template.is_some_and(|spec| spec.containers[0].image.as_deref() == Some(OTHER_IMAGE.1))
        };
        first.daemonset_is("agent", "the second's image", is_theirs).await;

        // And the first comes back: now it is the one that leaves it alone.
        let before = writes(&first, "rivals-one");
        first.start_operator(&SHORT_LEASE).await;
        eventually("the first leaves it alone", SOON, || async {
            let printed = first.operators[0].printed();
            if printed.contains("left alone") { Ok(()) } else { Err(printed) }
        })
        .await;
        assert_eq!(writes(&first, "rivals-one"), before, "it wrote nothing");

        // The second does not watch that namespace any more: nothing else ends.
        second.operators.clear();
        second.start_operator(&[("WATCH_NAMESPACE", "rivals-two"), OTHER_IMAGE, SHORT_LEASE[0], SHORT_LEASE[1]]).await;
        is_operated_by(&first, "rivals-one").await;
        first.daemonset_is("agent", "the first's image again", |object| !is_theirs(object)).await;
        second.end().await;
        first.end().await;
    });
}

#[test]
fn of_two_installations_that_begin_at_once_one_operates_each_object() {
    olm_tests::run(async {
        let cluster = Cluster::shared().await;
        let mut first = Lab::without_operator(cluster, "rivals-a", 3).await;
        let mut second = Lab::without_operator(cluster, "rivals-b", 0).await;
        share(&first, &second);
        tokio::join!(
            first.start_operator(&SHORT_LEASE),
            second.start_operator(&[("WATCH_NAMESPACE", "rivals-a"), OTHER_IMAGE, SHORT_LEASE[0], SHORT_LEASE[1]])
        );
        first.oneagent(&json!({}));
        first.all_at("agent", V1, 3, SOON).await;
        is_left_alone(&first, "agent").await;
        // What the other one wrote before it knew is put back in this look.
        first.is_looked_at().await;
        let generation =
            || async { first.daemonset("agent").await.and_then(|daemonset| daemonset.metadata.generation) };
        let operated = || async { first.status("agent").await.operator_namespace };
        let before = (generation().await, operated().await);
        cluster.vendor.publish(&first.name, V2);
        first.all_at("agent", V2, 3, LONG).await;
        assert_eq!(operated().await, before.1, "nobody took it from the other");
        let changed = generation().await.zip(before.0).map(|(now, before)| now - before);
        assert_eq!(changed, Some(1), "the DaemonSet changed once, for the new version");
        second.end().await;
        first.end().await;
    });
}

#[test]
fn of_two_installations_of_configwatcher_one_operates_each_object_too() {
    olm_tests::run(async {
        let cluster = Cluster::shared().await;
        let mut first = Lab::bare(cluster, &WATCHER, "rivals-cw", 2).await;
        first.start_operator(&SHORT_LEASE).await;
        let mut second = Lab::bare(cluster, &WATCHER, "rivals-cx", 0).await;
        share(&first, &second);
        first.message("one");
        first.workload("Deployment", "webapp", &json!({}));
        first.watcher(&json!({}));
        first.all_updated("one").await;
        second.start_operator(&[("WATCH_NAMESPACE", "rivals-cw"), SHORT_LEASE[0], SHORT_LEASE[1]]).await;
        is_left_alone(&first, "watcher").await;
        first.message("two");
        first.all_updated("two").await;
        assert_eq!(writes(&second, "rivals-cw"), 0, "it wrote nothing");

        first.operators.clear();
        first
            .watcher_shows("watcher", "the second operates it", |status| {
                status.operator_namespace.as_deref() == Some("rivals-cx")
            })
            .await;
        first.message("three");
        first.all_updated("three").await;
        second.end().await;
        first.end().await;
    });
}
