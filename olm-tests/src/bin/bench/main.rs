//! `make bench`: measures the operator on a real control plane and prints a table. No verdict: figures depend on the
//! machine, and their readers have the goals beside them.
//!
//! The operator's binary is taken from `OPERATOR_BINARY` or from beside this program: measure a release build.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a bench that cannot go on stops")]

mod daemonsets;
mod jvms;
mod plugin;
mod scale;
mod stacks;
mod watchers;

use std::sync::Arc;
use std::time::{Duration, Instant};

use chrono::{TimeDelta, Utc};
use k8s_openapi::api::apps::v1::DaemonSet;
use kube::api::{Api, DeleteParams, Patch, PatchParams};
use olm_tests::audit::Request;
use olm_tests::eyes::{Eyes, Seen};
use olm_tests::lab::{Lab, V1, V2};
use olm_tests::operator::binary;
use oneagent_operator::k8s::node::Node;
use oneagent_operator::k8s::placement::Placement;
use oneagent_operator::oneagent::memory::Memory;
use oneagent_operator::oneagent::places::{Inventory, decide, places};
use oneagent_operator::oneagent::revision::{Desired, Pod, Reported, Revision};
use oneagent_operator::rollout::{Policy, Share, Source};
use serde_json::json;

/// From bound to Ready in the rollouts that are measured.
const READY_AFTER: Duration = Duration::from_secs(1);

/// The periods that the operator has where nothing is said, for figures at rest.
const DEFAULTS: &[(&str, &str)] = &[
    ("POLL_INTERVAL", "15m"),
    ("SLOW_POLL_INTERVAL", "60m"),
    ("LEASE_DURATION", "137s"),
    ("LEASE_RENEW_DEADLINE", "107s"),
    ("LEASE_RETRY_PERIOD", "26s"),
];

/// What can be asked for alone: `make bench ONLY="latency plan"`.
const SECTIONS: [&str; 16] = [
    "plan",
    "latency",
    "rollout",
    "watchers",
    "jvms",
    "manyjvms",
    "stacks",
    "daemonsets",
    "damage",
    "large",
    "zones",
    "flap",
    "fifty",
    "memory",
    "plugin",
    "page",
];
/// Between two rounds of a latency: what the last one set off has come to rest.
const REST: Duration = Duration::from_millis(300);

/// Prints a row as soon as it is measured.
fn row(name: &str, figure: &str) {
    println!("{name:<90}  {figure}");
}

fn main() {
    let only: Vec<String> = std::env::args().skip(1).collect();
    if let Some(other) = only.iter().find(|name| !SECTIONS.contains(&name.as_str())) {
        eprintln!("there is no section {other:?}; name some of {}, or none for all", SECTIONS.join(", "));
        std::process::exit(2);
    }
    let wanted = |name: &str| only.is_empty() || only.iter().any(|o| o == name);
    row(
        "binary",
        &format!("{:.1} MiB", std::fs::metadata(binary()).expect("a binary").len() as f64 / f64::from(1 << 20)),
    );
    for size in [10_000, 100_000].into_iter().filter(|_| wanted("plan")) {
        row(
            &format!("rollout::plan for {size} nodes (this program's own build)"),
            &format!("{:.2} ms", plan_time(size).as_secs_f64() * 1000.0),
        );
    }
    if wanted("watchers") {
        watchers::looks(10_000);
    }
    if wanted("plugin") {
        plugin::alone();
    }
    olm_tests::run(async {
        if wanted("page") {
            plugin::page(5000).await;
        }
        if wanted("plugin") {
            plugin::status(5000).await;
            plugin::view(1000).await;
        }
        if wanted("watchers") {
            watchers::edit(200).await;
        }
        if wanted("jvms") {
            jvms::exporters();
            jvms::first_answers(20).await;
        }
        if wanted("manyjvms") {
            jvms::many(2000).await;
        }
        if wanted("stacks") {
            stacks::first().await;
            stacks::workers(500).await;
            stacks::growth().await;
        }
        for size in [200, 1000].into_iter().filter(|_| wanted("daemonsets")) {
            daemonsets::rollout(size).await;
        }
        if wanted("damage") {
            daemonsets::damage().await;
        }
        if wanted("latency") {
            latency().await;
        }
        for size in [200, 1000].into_iter().filter(|_| wanted("rollout")) {
            rollout_of(size).await;
        }
        for size in [1000, 3000, 5000].into_iter().filter(|_| wanted("large")) {
            scale::large(size, &[]).await;
        }
        for size in [1000, 5000].into_iter().filter(|_| wanted("zones")) {
            scale::large(size, &["a", "b", "c"]).await;
        }
        if wanted("flap") {
            scale::flap(1000).await;
        }
        if wanted("fifty") {
            scale::fifty(100).await;
        }
        for size in [100, 1000, 3000].into_iter().filter(|_| wanted("memory")) {
            scale::memory(size).await;
        }
    });
}

/// The best of five: what the code costs, not what else the machine does.
fn plan_time(size: usize) -> Duration {
    let revision =
        |minor: u32| Revision { version: format!("1.{minor}.0.20250101-000000").parse().ok(), hash: "h".into() };
    let nodes: Vec<Arc<Node>> = (0..size).map(|i| Arc::new(Node::named(&format!("node-{i}")))).collect();
    let pods: Vec<Arc<Pod>> = nodes
        .iter()
        .map(|node| {
            Arc::new(Pod {
                revision: Some(revision(1)),
                created: Utc::now(),
                ready_since: Some(Utc::now()),
                ..Pod::named(&node.name, &node.name)
            })
        })
        .collect();
    let (template, memory) = (revision(2), Memory::default());
    let (deleted, none) = (std::collections::HashSet::new(), std::collections::HashMap::new());
    let inventory = Inventory {
        nodes: &nodes,
        pods: &pods,
        placement: &Placement::default(),
        template: Some(&template),
        settled: true,
        deleted: &deleted,
        lost: &none,
        aside: &std::collections::HashMap::new(),
        losses: &std::collections::HashMap::new(),
        freed: &deleted,
        missing: &none,
        deciding_since: Utc::now(),
        in_contact_since: chrono::DateTime::UNIX_EPOCH,
        reported: Reported::Silent,
        source: Source::NotNeeded,
        refused: None,
        namespace_selector: &std::collections::BTreeMap::new(),
        canary: &std::collections::BTreeMap::new(),
        memory: &memory,
    };
    let policy = Policy::plain(Share::Percent(10), TimeDelta::seconds(300));
    let desired = Desired { revision: revision(2), strict: false, keeps_versions: false };
    let now = Utc::now();
    let run = |_| {
        let began = Instant::now();
        std::hint::black_box(decide(&policy, Some(&desired), &inventory, &places(Some(&desired), &inventory), now));
        began.elapsed()
    };
    (0..5).map(run).min().unwrap()
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// From a OneAgent's creation to its DaemonSet's, beside a client that makes the same calls with nothing in between.
async fn latency() {
    let lab = Lab::new("bench-latency", 0).await;
    let daemonsets: Api<DaemonSet> = Api::namespaced(lab.cluster.client.clone(), &lab.name);
    while !lab.operators[0].get("/metrics").await.is_some_and(|(_, text)| text.contains("oneagent_leader 1")) {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    // A CRD that was just established refuses its first objects for a moment; that is not what is measured.
    let trial = json!({ "apiVersion": "dynatrace.com/v1alpha1", "kind": "OneAgent",
        "metadata": { "name": "trial", "namespace": lab.name }, "spec": { "apiUrl": "https://e.example/api" } });
    let dry = kube::api::PostParams { dry_run: true, ..kube::api::PostParams::default() };
    lab.agents().create(&dry, &serde_json::from_value(trial).unwrap()).await.unwrap();
    let mut times = Vec::new();
    for round in 0..20 {
        let name = format!("agent-{round}");
        let object = json!({ "apiVersion": "dynatrace.com/v1alpha1", "kind": "OneAgent",
            "metadata": { "name": name, "namespace": lab.name },
            "spec": { "apiUrl": lab.cluster.vendor.url(&lab.name), "tokens": "tokens",
            "nodeSelector": { "none": "such" } } });
        tokio::time::sleep(REST).await;
        let began = Instant::now();
        lab.agents().create(&kube::api::PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap();
        while daemonsets.get_opt(&name).await.unwrap().is_none() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        times.push(began.elapsed().as_secs_f64() * 1000.0);
    }
    let first = times.remove(0);
    row("OneAgent created → DaemonSet created, the first (vendor asked)", &format!("{first:.1} ms"));
    row("… median of 19 more", &format!("{:.1} ms", median(times)));
    // The same calls by a bare client: create the OneAgent, read the DaemonSet and the Deployment, apply, look.
    let template = daemonsets.get("agent-1").await.unwrap();
    let mut value = serde_json::to_value(&template).unwrap();
    value["metadata"] = json!({ "namespace": lab.name, "labels": value["metadata"]["labels"],
        "annotations": value["metadata"]["annotations"] });
    value.as_object_mut().unwrap().remove("status");
    let mut times = Vec::new();
    for round in 0..20 {
        let name = format!("bare-{round}");
        value["metadata"]["name"] = name.clone().into();
        let object = json!({ "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": { "name": name, "namespace": lab.name }, "data": {} });
        let maps: Api<k8s_openapi::api::core::v1::ConfigMap> = Api::namespaced(lab.cluster.client.clone(), &lab.name);
        let deployments: Api<k8s_openapi::api::apps::v1::Deployment> =
            Api::namespaced(lab.cluster.client.clone(), &lab.name);
        tokio::time::sleep(REST).await;
        let began = Instant::now();
        maps.create(&kube::api::PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap();
        let _ = daemonsets.get_opt(&name).await;
        let _ = deployments.get_opt("dynatrace-oneagent-operator").await;
        daemonsets.patch(&name, &PatchParams::apply("bare").force(), &Patch::Apply(&value)).await.unwrap();
        while daemonsets.get_opt(&name).await.unwrap().is_none() {}
        times.push(began.elapsed().as_secs_f64() * 1000.0);
        let _ = daemonsets.delete(&name, &DeleteParams::default()).await;
    }
    row("… a bare client doing the same calls, median of 20", &format!("{:.1} ms", median(times)));
    lab.end().await;
}

async fn rollout_of(size: usize) {
    let lab = Lab::new(&format!("bench-rollout-{size}"), size).await;
    lab.behave(|b| b.ready_after = READY_AFTER);
    lab.oneagent(&json!({}));
    lab.all_at("agent", V1, size, Duration::from_secs(300)).await;
    // The first note of the nodes is written.
    tokio::time::sleep(Duration::from_secs(12)).await;
    let eyes = Eyes::on(&lab, "agent", size).await;
    let before = lab.requests().len();
    let cpu = lab.operators[0].cpu();
    let began = Instant::now();
    lab.cluster.vendor.publish(&lab.name, V2);
    lab.all_at("agent", V2, size, Duration::from_secs(300)).await;
    let took = began.elapsed().as_secs_f64();
    let cpu = lab.operators[0].cpu().saturating_sub(cpu).as_secs_f64();
    let (span, gaps) = {
        let seen = eyes.seen().await;
        (span(&seen), gaps(&seen, size / 10))
    };
    tokio::time::sleep(Duration::from_secs(2)).await;
    let requests = lab.requests().split_off(before);
    let of = |writes: bool| per(&requests, writes, size);
    // Ten waves at 10 %; a replacement is gone, made, bound and Ready in about this long when nothing else happens.
    let replacement = READY_AFTER.as_secs_f64() + 0.05;
    row(
        &format!("rollout of {size} nodes at 10 %, from the vendor's publication to Ready in the status"),
        &format!("{took:.1} s"),
    );
    row("… from the first deletion to the last Ready", &format!("{span:.1} s"));
    row(
        "… ideal without an API server: ten times a replacement (50 ms to go, 1 s to Ready)",
        &format!("{:.1} s", replacement * 10.0),
    );
    let (bare, bare_gaps) = bare_rollout(&lab, "oneagent=agent", size / 10).await;
    row(
        "… ideal on this machine: a bare client that deletes the next Pod for each that is Ready",
        &format!("{bare:.1} s"),
    );
    for (who, gaps) in [("", &gaps), (", the bare client", &bare_gaps)] {
        row(
            &format!("… replacement Ready → next deletion, p50 / p99, as a watch of the bench's sees both{who}"),
            &format!("{:.0} / {:.0} ms", at(gaps, 0.5), at(gaps, 0.99)),
        );
    }
    row("… CPU time of the operator", &format!("{cpu:.2} s"));
    row("… API writes per recycled Pod, lease apart", &format!("{:.3}", of(true)));
    row("… API reads per recycled Pod", &format!("{:.3}", of(false)));
    lab.end().await;
}

/// Writes, or reads, for each Pod; watches and the Lease apart.
fn per(requests: &[Request], writes: bool, pods: usize) -> f64 {
    let counted = |r: &&Request| r.resource != "leases" && r.verb != "watch" && r.writes() == writes;
    requests.iter().filter(counted).count() as f64 / pods as f64
}

/// A bare client that does nothing but replace every Pod at the same budget: for each that becomes Ready it deletes the
/// next. What its rollout takes is the ideal on this machine. Seconds, and the gaps between Ready and next deletion.
async fn bare_rollout(lab: &Lab<'_>, labels: &str, budget: usize) -> (f64, Vec<f64>) {
    let pods: Api<k8s_openapi::api::core::v1::Pod> = Api::namespaced(lab.cluster.client.clone(), &lab.name);
    let names: Vec<String> = lab.labelled(labels).await.into_keys().collect();
    let mut eyes = Eyes::on_replicas(lab, labels, names.len()).await;
    let mut deletions = tokio::task::JoinSet::new();
    let (mut next, mut ready) = (names.iter(), 0);
    while ready < names.len() {
        while names.len() - next.len() < (ready + budget).min(names.len()) {
            let (pods, name) = (pods.clone(), next.next().expect("a Pod").clone());
            deletions.spawn(async move { drop(pods.delete(&name, &DeleteParams::default()).await) });
        }
        eyes.changed().await;
        ready = eyes.so_far().readies.len();
    }
    deletions.join_all().await;
    let seen = eyes.seen().await;
    (span(&seen), gaps(&seen, budget))
}

/// From the first deletion to the last Ready.
fn span(seen: &Seen) -> f64 {
    seen.deletions.first().zip(seen.readies.last()).map_or(f64::NAN, |(from, to)| (*to - *from).as_secs_f64())
}

/// A slot of the budget is free with each Ready, and taken by the next deletion: milliseconds in between, sorted.
fn gaps(seen: &Seen, budget: usize) -> Vec<f64> {
    let pairs = seen.deletions.iter().skip(budget).zip(&seen.readies);
    let mut gaps: Vec<f64> =
        pairs.map(|(next, free)| next.saturating_duration_since(*free).as_secs_f64() * 1000.0).collect();
    gaps.sort_by(f64::total_cmp);
    gaps
}

fn at(gaps: &[f64], share: f64) -> f64 {
    gaps.get((gaps.len().saturating_sub(1) as f64 * share) as usize).copied().unwrap_or(f64::NAN)
}

/// Whether the operator that was started last has reconciled.
async fn has_reconciled(lab: &Lab<'_>) -> bool {
    let operator = lab.operators.last().expect("an operator");
    let metrics = operator.get("/metrics").await.map(|(_, text)| text).unwrap_or_default();
    metrics.lines().any(|line| line.starts_with("oneagent_reconciles_total{") && !line.ends_with(" 0"))
}
