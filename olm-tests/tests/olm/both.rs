//! Packages of one catalog in one namespace: each with its own rights, installed, upgraded and removed apart.

use std::time::Duration;

use kube::ResourceExt;
use olm_tests::eventually;
use olm_tests::eyes::Eyes;
use olm_tests::lab::daemonset_rollout::AGENTS;
use olm_tests::lab::jmx_exporter::PORT;
use olm_tests::lab::{Lab, V1};
use olm_tests::olm::{NEXT, Olm, PACKAGE, Wish};
use oneagent_operator::api::config_watcher::package::PACKAGE as WATCHER;
use oneagent_operator::api::daemonset_rollout::package::PACKAGE as ROLLOUT;
use oneagent_operator::api::jmx_exporter::package::PACKAGE as EXPORTER;
use oneagent_operator::api::manager::package::PACKAGE as MANAGER;
use oneagent_operator::api::oneagent::package::PACKAGE as ROW;
use oneagent_operator::api::package::Package;
use serde_json::json;

const PATIENCE: Duration = Duration::from_secs(180);

/// Whether a ServiceAccount may do something in its namespace.
fn may(olm: &Olm, (namespace, account): (&str, &str), verb: &str, what: &str) -> bool {
    let user = format!("--as=system:serviceaccount:{namespace}:{account}");
    let (what, sub) = what.split_once('/').unwrap_or((what, ""));
    let sub = format!("--subresource={sub}");
    olm.cluster.try_kubectl(&["-n", namespace, "auth", "can-i", verb, what, &sub, &user], None).is_ok()
}

/// Removes a package as its administrator does, and waits until its operator is gone.
async fn removed(olm: &Olm, namespace: &str, package: &Package, version: &str) {
    olm.delete("Subscription", namespace, package.name).await;
    olm.delete("ClusterServiceVersion", namespace, &format!("{}.v{version}", package.name)).await;
    eventually("its Deployment is gone", PATIENCE, || async {
        match olm.get("Deployment", namespace, package.name).await {
            None => Ok(()),
            Some(_) => Err("not yet".to_owned()),
        }
    })
    .await;
}

#[test]
fn two_packages_share_only_a_catalog_and_a_namespace() {
    olm_tests::run(async {
        let olm = Olm::start().await;
        let (agents, watchers) = ([olm.release(NEXT)], [olm.release_of(&WATCHER, NEXT)]);
        olm.publish_all(&[(&ROW, &agents), (&WATCHER, &watchers)], &[]).await;
        olm.namespace("dynatrace");
        olm.subscribe(&Wish { package: &WATCHER, ..Wish::own("dynatrace", &["dynatrace"]) });
        olm.installed_of(&WATCHER, "dynatrace", NEXT).await;
        assert!(olm.get("CustomResourceDefinition", "", "oneagents.dynatrace.com").await.is_none());
        olm.subscribe(&Wish::own("dynatrace", &["dynatrace"]));
        olm.installed("dynatrace", NEXT).await;

        let may = |account: &str, verb: &str, what: &str| may(&olm, ("dynatrace", account), verb, what);
        let asked = [("delete", "pods"), ("list", "secrets"), ("patch", "daemonsets"), ("create", "pods/eviction")];
        assert_eq!(asked.map(|(verb, what)| may(WATCHER.name, verb, what)), [false, false, false, true]);
        assert_eq!(asked.map(|(verb, what)| may(PACKAGE, verb, what)), [true, true, true, false]);

        let lab = Lab::in_namespace(&olm.cluster, "dynatrace", 3).await;
        lab.oneagent(&json!({}));
        lab.all_at("agent", V1, 3, PATIENCE).await;
        lab.message("one");
        lab.workload("Deployment", "webapp", &json!({}));
        lab.watcher(&json!({}));
        lab.all_say("webapp", "one", 4, PATIENCE).await;
        lab.watcher_is("watcher", "Ready", "True", "AllUpdated").await;
        let uids = lab.uids("agent").await;
        lab.message("two");
        lab.all_say("webapp", "two", 4, PATIENCE).await;
        lab.watcher_is("watcher", "Ready", "True", "AllUpdated").await;

        // One is upgraded; the other's Pod does not even notice, nor do those that either looks after.
        let pods = || {
            let kind = format!("app.kubernetes.io/name={PACKAGE}");
            olm.cluster.kubectl(&["-n", "dynatrace", "get", "pods", "-l", &kind, "-o", "name"])
        };
        let (before, said) = (pods(), lab.uids_of("webapp").await);
        let newer = ["0.9.9", "1.0.0"].map(|version| olm.release_of(&WATCHER, version));
        let newer = [&watchers[..], &newer].concat();
        olm.publish_all(&[(&ROW, &agents), (&WATCHER, &newer)], &[]).await;
        olm.installed_of(&WATCHER, "dynatrace", "0.9.9").await;
        assert_eq!(pods(), before);
        lab.message("three");
        lab.all_say("webapp", "three", 4, PATIENCE).await;
        assert!(lab.uids_of("webapp").await.is_disjoint(&said));
        assert_eq!(lab.uids("agent").await, uids);

        // The next major version is in channels of its own, and comes when a user chooses one of them.
        let patch = json!({ "spec": { "channel": "stable-v1" } }).to_string();
        olm.cluster.kubectl(&[
            "-n",
            "dynatrace",
            "patch",
            "subscriptions.operators.coreos.com",
            WATCHER.name,
            "--type=merge",
            "-p",
            &patch,
        ]);
        olm.installed_of(&WATCHER, "dynatrace", "1.0.0").await;

        // And removed; its rights go before it does.
        olm.judge_of(&WATCHER, "dynatrace");
        removed(&olm, "dynatrace", &WATCHER, "1.0.0").await;
        olm.installed("dynatrace", NEXT).await;
        assert_eq!(pods(), before);
        assert_eq!(lab.uids("agent").await, uids);
        olm.judge("dynatrace");
    });
}

#[test]
fn the_jmx_exporter_is_installed_upgraded_and_removed_and_no_jvm_notices() {
    olm_tests::run(async {
        let olm = Olm::start().await;
        let (watchers, exporters) = ([olm.release_of(&WATCHER, NEXT)], [olm.release_of(&EXPORTER, NEXT)]);
        olm.publish_all(&[(&WATCHER, &watchers), (&EXPORTER, &exporters)], &[]).await;
        olm.namespace("apps");
        for package in [&WATCHER, &EXPORTER] {
            olm.subscribe(&Wish { package, ..Wish::own("apps", &["apps"]) });
            olm.installed_of(package, "apps", NEXT).await;
        }
        let asked = [("delete", "pods"), ("patch", "pods"), ("patch", "pods/ephemeralcontainers"), ("list", "secrets")];
        let may = |account: &str| asked.map(|(verb, what)| may(&olm, ("apps", account), verb, what));
        assert_eq!(may(EXPORTER.name), [false, true, true, false]);
        assert_eq!(may(WATCHER.name), [false; 4]);

        let lab = Lab::in_namespace(&olm.cluster, "apps", 1).await;
        lab.configuration("rules: []");
        lab.plain_jvm("first");
        lab.runs("first").await;
        lab.exporter(&json!({}));
        lab.exporting(&["first"]).await;
        let newer = [&exporters[..], &[olm.release_of(&EXPORTER, "0.9.9")]].concat();
        olm.publish_all(&[(&WATCHER, &watchers), (&EXPORTER, &newer)], &[]).await;
        olm.installed_of(&EXPORTER, "apps", "0.9.9").await;
        lab.configuration("rules: [{pattern: 'java.lang<type=Runtime>.*Uptime', name: up}]");
        eventually("the new one brings another configuration", PATIENCE, || async {
            let text = lab.metrics("first", PORT).await.unwrap_or_default();
            if text.contains("\nup ") { Ok(()) } else { Err(format!("{:#?}", lab.exporter_status("exporter").await)) }
        })
        .await;
        // Each joined with the image of the operator that asked for it.
        let deployment = olm.get("Deployment", "apps", EXPORTER.name).await.expect("a Deployment");
        let image = &deployment["spec"]["template"]["spec"]["containers"][0]["image"];
        let joined = lab.pod("first").await.spec.and_then(|spec| spec.ephemeral_containers).unwrap_or_default();
        assert_eq!(joined.len(), 2);
        assert!(joined.iter().any(|one| one.image.as_deref() == image.as_str()), "{joined:#?}");
        assert_eq!((lab.has_loaded_once("first").await, lab.restarts("first").await), (true, 0));

        olm.judge_of(&EXPORTER, "apps");
        removed(&olm, "apps", &EXPORTER, "0.9.9").await;
        lab.metrics("first", PORT).await.unwrap();
        olm.installed_of(&WATCHER, "apps", NEXT).await;
        assert_eq!(may(EXPORTER.name), [false; 4]);
    });
}

#[test]
fn a_stack_stays_while_its_operator_is_upgraded_and_removed() {
    olm_tests::run(async {
        let olm = Olm::start().await;
        let (watchers, managers) = ([olm.release_of(&WATCHER, NEXT)], [olm.release_of(&MANAGER, NEXT)]);
        olm.publish_all(&[(&WATCHER, &watchers), (&MANAGER, &managers)], &[]).await;
        olm.namespace("contrail");
        for package in [&WATCHER, &MANAGER] {
            olm.subscribe(&Wish { package, ..Wish::own("contrail", &["contrail"]) });
            olm.installed_of(package, "contrail", NEXT).await;
        }
        let asked = [("delete", "pods"), ("patch", "statefulsets"), ("list", "secrets"), ("create", "pods/exec")];
        let may = |account: &str| asked.map(|(verb, what)| may(&olm, ("contrail", account), verb, what));
        assert_eq!(may(MANAGER.name), [true, true, true, false]);
        assert_eq!(may(WATCHER.name), [false; 4]);

        let mut lab = Lab::in_namespace(&olm.cluster, "contrail", 0).await;
        lab.add_masters(1).await;
        olm.cluster.apply(&lab.stack().to_string());
        lab.stack_says("Ready", "AllServing").await;
        let uids = async |lab: &Lab<'_>| lab.stack_pods().await.iter().map(ResourceExt::uid).collect::<Vec<_>>();
        let before = uids(&lab).await;
        assert_eq!(before.len(), 9, "one of each, and a vRouter");
        let newer = [&managers[..], &[olm.release_of(&MANAGER, "0.9.9")]].concat();
        olm.publish_all(&[(&WATCHER, &watchers), (&MANAGER, &newer)], &[]).await;
        olm.installed_of(&MANAGER, "contrail", "0.9.9").await;
        lab.cluster.kubectl(&["-n", "contrail", "delete", "configmap", "config1-config-configmap"]);
        eventually("the new one puts back what is deleted", PATIENCE, || async {
            let get = ["-n", "contrail", "get", "configmap", "config1-config-configmap"];
            olm.cluster.try_kubectl(&get, None).map(drop)
        })
        .await;
        assert_eq!(uids(&lab).await, before, "nobody starts again");
        olm.judge_of(&MANAGER, "contrail");
        removed(&olm, "contrail", &MANAGER, "0.9.9").await;
        olm.installed_of(&WATCHER, "contrail", NEXT).await;
        assert_eq!(uids(&lab).await, before, "the stack goes on without it");
    });
}

#[test]
fn an_upgrade_while_a_canary_soaks_forgets_nothing_and_a_removal_leaves_the_pods() {
    olm_tests::run(async {
        let olm = Olm::start().await;
        let (watchers, rollouts) = ([olm.release_of(&WATCHER, NEXT)], [olm.release_of(&ROLLOUT, NEXT)]);
        olm.publish_all(&[(&WATCHER, &watchers), (&ROLLOUT, &rollouts)], &[]).await;
        let namespace = "agents";
        olm.namespace(namespace);
        for package in [&WATCHER, &ROLLOUT] {
            olm.subscribe(&Wish { package, ..Wish::own(namespace, &[namespace]) });
            olm.installed_of(package, namespace, NEXT).await;
        }
        let asked = [("delete", "pods"), ("list", "controllerrevisions"), ("patch", "daemonsets"), ("list", "secrets")];
        let may = |account: &str| asked.map(|(verb, what)| may(&olm, (namespace, account), verb, what));
        assert_eq!(may(ROLLOUT.name), [true, true, false, false]);
        assert_eq!(may(WATCHER.name), [false; 4]);

        let lab = Lab::in_namespace(&olm.cluster, namespace, 3).await;
        lab.deploy(&lab.daemonset_saying("one"));
        lab.agents_say("one", 3).await;
        let canary = json!({ "nodes": 1, "soak": "1h" });
        lab.rollout(&json!({ "rollout": { "canary": canary } }));
        lab.rollout_is("Ready", "True", "AllUpdated").await;
        let eyes = Eyes::on_replicas(&lab, AGENTS, 3).await;
        lab.deploy(&lab.daemonset_saying("two"));
        let soaks = lab.rollout_says("Progressing", "1 node must stay available until").await;
        let newer = [&rollouts[..], &[olm.release_of(&ROLLOUT, "0.9.9")]].concat();
        olm.publish_all(&[(&WATCHER, &watchers), (&ROLLOUT, &newer)], &[]).await;
        olm.installed_of(&ROLLOUT, namespace, "0.9.9").await;
        // That the new release has looked shows an edit that means nothing else.
        lab.edit_rollout(json!({ "rollout": { "maxFailures": 2 } })).await;
        lab.rollout_is_observed().await;
        assert_eq!(lab.rollout_says("Progressing", "1 node must stay available until").await, soaks, "it soaks on");
        let revision = lab.revision().await;
        lab.edit_rollout(json!({ "rollout": { "promote": revision } })).await;
        lab.agents_say("two", 3).await;
        lab.rollout_is("Ready", "True", "AllUpdated").await;
        assert_eq!(eyes.seen().await.deletions.len(), 3, "each once");
        olm.judge_of(&ROLLOUT, namespace);
        removed(&olm, namespace, &ROLLOUT, "0.9.9").await;
        olm.installed_of(&WATCHER, namespace, NEXT).await;
        assert_eq!(eyes.seen().await.deletions.len(), 3);
    });
}
