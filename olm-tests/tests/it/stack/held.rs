//! The order with each component held back in turn: only those that need it wait, and Ready is never early.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use futures::StreamExt;
use k8s_openapi::api::apps::v1::{DaemonSet, StatefulSet};
use kube::ResourceExt;
use kube::api::{Api, ListParams};
use kube::runtime::watcher::Event;
use olm_tests::eyes::revision;
use olm_tests::lab::{LONG, Lab, SOON, is_ready};
use olm_tests::watched::events;
use olm_tests::{eventually, run};
use oneagent_operator::api::manager::Manager;

use super::{looks_again, others, standing, uids};

/// What each component of the sample needs, as docs/manager.md has it; in the order of the table.
const NEEDS: [(&str, &[&str]); 10] = [
    ("cassandra1", &[]),
    ("zookeeper1", &[]),
    ("rabbitmq1", &[]),
    ("config1", &["cassandra1", "zookeeper1", "rabbitmq1"]),
    ("control1", &["cassandra1", "rabbitmq1", "config1"]),
    ("kubemanager1", &["cassandra1", "zookeeper1", "rabbitmq1", "config1"]),
    ("webui1", &["config1"]),
    ("provmanager1", &["config1"]),
    ("vroutermasternodes", &["config1", "control1"]),
    ("vrouterworkernodes", &["config1", "control1"]),
];

/// Those that need a component, directly or not.
fn waiting_for(held: &str) -> BTreeSet<&'static str> {
    let mut waiting = BTreeSet::new();
    for (name, needs) in NEEDS {
        if needs.iter().any(|need| *need == held || waiting.contains(need)) {
            waiting.insert(name);
        }
    }
    waiting
}

/// A status that was written.
#[derive(Debug, Clone)]
struct Said {
    uid: Option<String>,
    revision: u64,
    is_ready: bool,
    progress: String,
}

impl Said {
    fn of(manager: &Manager) -> Self {
        let status = manager.status.clone().unwrap_or_default();
        let is_ready = status.conditions.iter().any(|one| one.type_ == "Ready" && one.status == "True");
        let progress = status.summary.map(|summary| summary.progress).unwrap_or_default();
        Self { uid: manager.uid(), revision: revision(manager.resource_version().as_ref()), is_ready, progress }
    }
}

/// Every status of a lab's Managers, in order: a watch leaves out none.
struct History(Arc<Mutex<Vec<Said>>>);

impl History {
    /// Of all that is written from now on.
    async fn of(lab: &Lab<'_>) -> Self {
        let (said, is_open) = (Arc::<Mutex<Vec<Said>>>::default(), Arc::new(AtomicBool::new(false)));
        let (writes, opens, managers) = (said.clone(), is_open.clone(), lab.stacks());
        tokio::spawn(async move {
            let mut events = events(managers).boxed();
            while let Some(event) = events.next().await {
                match event {
                    Ok(Event::Apply(manager) | Event::InitApply(manager)) => {
                        writes.lock().expect("statuses").push(Said::of(&manager));
                    }
                    Ok(Event::InitDone) => opens.store(true, Ordering::Relaxed),
                    Ok(Event::Init | Event::Delete(_)) | Err(_) => {}
                }
            }
        });
        eventually("the test's watch is open", SOON, || async {
            if is_open.load(Ordering::Relaxed) { Ok(()) } else { Err("not yet".to_owned()) }
        })
        .await;
        Self(said)
    }

    /// All statuses of the present Manager. The watch catches up first.
    async fn so_far(&self, lab: &Lab<'_>) -> Vec<Said> {
        let now = Said::of(&lab.stacks().get("cluster1").await.expect("a Manager"));
        let mut all = eventually("the test's watch has caught up", SOON, || async {
            let all = self.0.lock().expect("statuses").clone();
            if all.last().is_some_and(|last| last.revision >= now.revision) { Ok(all) } else { Err("no".to_owned()) }
        })
        .await;
        all.retain(|one| one.uid == now.uid);
        all
    }
}

/// Components that have a StatefulSet or DaemonSet.
async fn existing(lab: &Lab<'_>) -> BTreeSet<String> {
    let (client, all) = (|| lab.cluster.client.clone(), ListParams::default());
    let sets = Api::<StatefulSet>::namespaced(client(), &lab.name).list(&all).await.expect("StatefulSets").items;
    let of_nodes = Api::<DaemonSet>::namespaced(client(), &lab.name).list(&all).await.expect("DaemonSets").items;
    let names = sets.iter().map(ResourceExt::name_any).chain(of_nodes.iter().map(ResourceExt::name_any));
    names.filter_map(|name| Some(name.split_once('-')?.0.to_owned())).collect()
}

/// Starts the stack with a component held back, and releases it; then removes all. Again for each of them.
async fn each_is_held(name: &str, all: &[&str]) {
    let lab = Lab::of_stacks(name, 1, 1).await;
    let history = History::of(&lab).await;
    for held in all {
        lab.hold(held);
        lab.cluster.apply(&lab.stack().to_string());
        let waiting = waiting_for(held);
        let state = |name: &str| match name {
            name if name == *held => "Starting",
            name if waiting.contains(name) => "Waiting",
            _ => "Serving",
        };
        let expected: BTreeMap<String, String> =
            NEEDS.iter().map(|(name, _)| ((*name).to_owned(), state(name).to_owned())).collect();
        eventually(&format!("all is there that needs no {held}"), LONG, || async {
            let found = lab.stack_status().await.components.into_iter().map(|one| (one.name, one.state));
            let found: BTreeMap<String, String> = found.collect();
            if found == expected { Ok(()) } else { Err(format!("{found:#?}")) }
        })
        .await;
        let exist = NEEDS.iter().map(|(name, _)| *name).filter(|name| !waiting.contains(name));
        assert_eq!(existing(&lab).await, exist.map(str::to_owned).collect(), "while {held} is held back");
        let early = history.so_far(&lab).await.into_iter().find(|one| one.is_ready);
        assert!(early.is_none(), "while {held} is held back: {early:?}");
        lab.release(held);
        lab.stack_says("Ready", "AllServing").await;
        let first = history.so_far(&lab).await.into_iter().find(|one| one.is_ready).expect("it was Ready");
        assert_eq!(first.progress, "10/10", "after {held}");
        // A Pod is written last when it becomes Ready: all were, before the first status that says so.
        for pod in lab.stack_pods().await {
            let became = revision(pod.resource_version().as_ref());
            assert!(is_ready(&pod) && became < first.revision, "{} {became} {first:?}", pod.name_any());
        }
        lab.cluster.kubectl(&["-n", &lab.name, "delete", "manager", "cluster1"]);
        lab.has_pods(0).await;
    }
    lab.end().await;
}

#[test]
fn each_that_others_need_holds_back_those_and_no_more() {
    run(each_is_held("stack-held-first", &["cassandra1", "zookeeper1", "rabbitmq1", "config1", "control1"]));
}

#[test]
fn each_that_no_other_needs_holds_back_ready_alone() {
    let last = ["kubemanager1", "webui1", "provmanager1", "vroutermasternodes", "vrouterworkernodes"];
    run(each_is_held("stack-held-last", &last));
}

#[test]
fn each_lost_dependency_is_named_with_its_dependants_that_stay() {
    run(async {
        let lab = standing("stack-lost-each", 1, 1).await;
        let before = uids(&lab).await;
        for (lost, _) in NEEDS {
            let dependants: Vec<&str> =
                NEEDS.iter().filter(|(_, needs)| needs.contains(&lost)).map(|(name, _)| *name).collect();
            if dependants.is_empty() {
                continue;
            }
            let pods = lab.stack_pods().await;
            let pod = pods.iter().find(|pod| pod.name_any().starts_with(lost)).expect("a Pod");
            lab.cluster.kubelet.say_ready(pod, false).await;
            let said = format!("{lost} does not serve (0/1), and {} need it", dependants.join(", "));
            lab.degraded_says("ComponentsUnavailable", &said).await;
            // Whatever it wants to do about that, it has done it now.
            looks_again(&lab).await;
            lab.degraded_says("ComponentsUnavailable", &said).await;
            assert_eq!(existing(&lab).await.len(), NEEDS.len(), "without {lost}");
            lab.cluster.kubelet.say_ready(pod, true).await;
            lab.stack_says("Ready", "AllServing").await;
        }
        let now = uids(&lab).await;
        assert_eq!((others(&before, &now), now.len()), (Vec::new(), before.len()));
        lab.end().await;
    });
}
