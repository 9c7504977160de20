//! What ConfigWatchers cost: an edit of a real ConfigMap, and looks in a large cluster.
//!
//! Prints what was measured; must not judge it.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};
use olm_tests::eyes::Eyes;
use olm_tests::lab::Lab;
use oneagent_operator::api::config_watcher::package::PACKAGE;
use oneagent_operator::config_watcher::change::{Pending, Tracked};
use oneagent_operator::config_watcher::fleet::Fleet;
use oneagent_operator::config_watcher::places::{Survey, SurveyInput};
use oneagent_operator::config_watcher::resolve::resolve;
use oneagent_operator::config_watcher::revision::Config;
use oneagent_operator::k8s::watch::{Change, Id, list};
use oneagent_operator::k8s::workload::ReplicaSetFacts;
use oneagent_operator::rollout::ledger::Ledger;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::{READY_AFTER, row};

fn read<K: DeserializeOwned>(value: Value) -> K {
    serde_json::from_value(value).expect("an object")
}

fn ms(began: Instant) -> f64 {
    began.elapsed().as_secs_f64() * 1000.0
}

/// One namespace with so many Pods, four of each Deployment, and 500 watchers: one event, and one look at all Pods.
pub(super) fn looks(pods: usize) {
    let fleet = Fleet::default();
    let key = |name: &str| ("n".to_owned(), name.to_owned());
    let watcher = |name: &str, labels: Value| {
        resolve(&read(json!({ "apiVersion": "k8spatterns.io/v1", "kind": "ConfigWatcher",
            "metadata": { "name": name, "namespace": "n" }, "spec": { "configMap": name, "podSelector": labels } })))
        .expect("a spec")
    };
    for number in 0..499 {
        let name = format!("watcher-{number}");
        fleet.watches(&key(&name), Some(watcher(&name, json!({ "app": format!("app-{number}") }))));
    }
    let all = watcher("all", json!({ "tier": "web" }));
    fleet.watches(&key("all"), Some(all.clone()));
    let pod = |number: usize, version: usize| {
        let app = number / 4;
        read(
            json!({ "metadata": { "name": format!("app-{app}-{number}"), "namespace": "n", "uid": format!("p{number}"),
            "resourceVersion": version.to_string(), "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": { "app": format!("app-{app}"), "tier": "web" },
            "ownerReferences": [{ "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": format!("r{app}"),
                "controller": true }] },
            "spec": { "nodeName": "node" },
            "status": { "phase": if version == 1 { "Pending" } else { "Running" }, "conditions": [{ "type": "Ready",
                "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z" }] } }),
        )
    };
    for number in 0..pods {
        fleet.pod(&Change::Applied(pod(number, 2)));
    }
    let set = |app: usize, replicas: usize| {
        let above = json!([{ "apiVersion": "apps/v1", "kind": "Deployment", "name": "d", "uid": format!("d{app}"),
            "controller": true }]);
        let metadata = json!({ "name": format!("r-{app}"), "namespace": "n", "uid": format!("r{app}"),
            "generation": 1, "ownerReferences": above });
        let labels = json!({ "app": format!("app-{app}"), "tier": "web" });
        read::<ReplicaSetFacts>(json!({ "metadata": metadata,
            "spec": { "replicas": replicas, "template": { "metadata": { "labels": labels } } },
            "status": { "observedGeneration": 1 } }))
    };
    let sets: Vec<_> = (0..pods / 4).map(|app| set(app, 4)).collect();
    let began = Instant::now();
    list(Id::Uid, sets).for_each(|change| drop(fleet.owner("ReplicaSet", &change)));
    row(&format!("a list of {} ReplicaSets there", pods / 4), &format!("{:.1} ms", ms(began)));
    let events: Vec<_> = (0..100).map(|app| Change::Applied(set(app, 3))).collect();
    let began = Instant::now();
    let told: usize = events.iter().map(|event| fleet.owner("ReplicaSet", event).len()).sum();
    row(
        &format!("an event of one of {} ReplicaSets, which wakes {} of 500 watchers", pods / 4, told / events.len()),
        &format!("{:.2} ms", ms(began) / events.len() as f64),
    );
    let events: Vec<_> = (0..1000).map(|number| Change::Applied(pod(number, 3))).collect();
    let began = Instant::now();
    for event in &events {
        std::hint::black_box(fleet.pod(event));
    }
    row(
        &format!("an event of one of {pods} Pods in a namespace with 500 watchers (this program's own build)"),
        &format!("{:.1} µs", began.elapsed().as_secs_f64() * 1e6 / events.len() as f64),
    );
    let config = |hash: &str, at: i64| Config {
        hash: hash.to_owned(),
        changed_at: DateTime::from_timestamp(at, 0).expect("a time"),
    };
    let later = Utc::now().timestamp();
    let pending = Pending { config: config("b", later), left_at: Utc::now() };
    let tracked = Tracked { pending: Some(pending), ..Tracked::baseline("all", config("a", 0)) };
    let (ledger, blocked, peaks) = (Ledger::default(), HashMap::new(), HashMap::new());
    let input = SurveyInput {
        resolved: &all,
        tracked: Some(&tracked),
        ledger: &ledger,
        blocked: &blocked,
        peaks: &peaks,
        own: ("operators", "configwatcher-operator"),
        now: Utc::now(),
    };
    let look = |input: &SurveyInput<'_>| {
        let one = |_| {
            let began = Instant::now();
            std::hint::black_box(Survey::of(&fleet.read(), input).places().len());
            began.elapsed()
        };
        (0..5).map(one).min().unwrap_or_default()
    };
    let best = look(&input);
    row(
        &format!("the places of a watcher of all {pods} Pods, of {} Deployments", pods / 4),
        &format!("{:.2} ms", best.as_secs_f64() * 1000.0),
    );
    let few = watcher("few", json!({ "app": "app-7" }));
    let best = look(&SurveyInput { resolved: &few, ..input });
    row("… of a watcher of four of them", &format!("{:.2} ms", best.as_secs_f64() * 1000.0));
}

/// One edit reaches a Deployment of so many Pods, a tenth at a time.
pub(super) async fn edit(size: usize) {
    let lab = Lab::of(&PACKAGE, &format!("bench-watcher-{size}"), 10).await;
    lab.behave(|b| b.ready_after = READY_AFTER);
    lab.message("one");
    lab.workload("Deployment", "webapp", &json!({ "replicas": size }));
    lab.watcher(&json!({ "rollout": { "maxUnavailable": "10%" } }));
    let within = Duration::from_secs(600);
    lab.all_say("webapp", "one", size, within).await;
    lab.watcher_is("watcher", "Ready", "True", "AllUpdated").await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let eyes = Eyes::on_replicas(&lab, "app=webapp", size).await;
    let (before, cpu) = (lab.requests().len(), lab.operators[0].cpu());
    let began = Instant::now();
    lab.message("two");
    lab.all_say("webapp", "two", size, within).await;
    lab.watcher_is("watcher", "Ready", "True", "AllUpdated").await;
    let cpu = lab.operators[0].cpu().saturating_sub(cpu);
    let requests = lab.requests().split_off(before);
    let writes = requests.iter().filter(|r| r.writes() && r.resource != "leases").count();
    row(
        &format!("an edit reaches {size} Pods of a Deployment, 10 % at a time, Ready after 1 s, 3 s of debounce"),
        &format!("{:.1} s", began.elapsed().as_secs_f64()),
    );
    row("… most Pods unavailable at once", &format!("{}", eyes.seen().await.most_unready));
    row("… CPU time of the operator", &format!("{:.2} s", cpu.as_secs_f64()));
    row("… API writes per replaced Pod, lease apart", &format!("{:.3}", writes as f64 / size as f64));
    lab.end().await;
}
