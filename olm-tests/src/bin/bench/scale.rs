//! What large clusters cost: CPU, memory, and how long others wait.
//!
//! Prints what was measured; must not judge it.

use std::time::{Duration, Instant};

use kube::api::{Api, DeleteParams};
use olm_tests::cluster::Cluster;
use olm_tests::lab::{Lab, V1, V2};
use olm_tests::nodes::Shape;
use serde_json::json;

use super::{DEFAULTS, READY_AFTER, REST, has_reconciled, median, row};

/// What installing and a rollout cost the operator in CPU time as the fleet grows.
pub(super) async fn large(size: usize, zones: &[&str]) {
    let mut lab =
        Lab::new(&format!("bench-large-{size}-{}", zones.len()), if zones.is_empty() { size } else { 0 }).await;
    for zone in zones {
        lab.add_nodes(size / zones.len(), &Shape::default().zone(zone)).await;
    }
    let size = lab.nodes.len();
    let careful = json!({ "rollout": { "maxUnavailablePerZone": "10%", "canary": { "nodes": 3, "soak": "1s" } } });
    let (spec, how) =
        if zones.is_empty() { (json!({}), "") } else { (careful, " in three zones, at most 10 % of each, 3 canaries") };
    lab.behave(|b| b.ready_after = READY_AFTER);
    let within = Duration::from_secs(1200);
    let cpu = || lab.operators[0].cpu();
    let before = cpu();
    lab.oneagent(&spec);
    lab.all_at("agent", V1, size, within).await;
    let installed = cpu();
    lab.cluster.vendor.publish(&lab.name, V2);
    let began = Instant::now();
    lab.all_at("agent", V2, size, within).await;
    let per_node = |time: Duration| time.as_secs_f64() * 1000.0 / size as f64;
    let (install, rollout) = (installed.saturating_sub(before), cpu().saturating_sub(installed));
    row(
        &format!("CPU time of the operator for installing {size} agents{how}"),
        &format!("{:.2} s, {:.2} ms a node", install.as_secs_f64(), per_node(install)),
    );
    let took = began.elapsed().as_secs_f64();
    row(
        &format!("… for a rollout of {size} nodes, which took {took:.0} s"),
        &format!("{:.2} s, {:.2} ms a node", rollout.as_secs_f64(), per_node(rollout)),
    );
    lab.end().await;
}

/// All nodes of one OneAgent go NotReady and come back, over and over: how long does another OneAgent wait for an edit?
pub(super) async fn flap(size: usize) {
    let lab = Lab::new("bench-flap", size).await;
    lab.oneagent(&json!({}));
    lab.all_at("agent", V1, size, Duration::from_secs(300)).await;
    lab.oneagent_named("other", &json!({ "nodeSelector": { "lab": "nobody" } }));
    let edited = async |turn: usize| {
        let began = Instant::now();
        lab.edit("other", json!({ "labels": { "turn": turn.to_string() } })).await;
        while lab.daemonset("other").await.and_then(|d| d.metadata.labels?.get("turn").cloned())
            != Some(turn.to_string())
        {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        began.elapsed().as_secs_f64() * 1000.0
    };
    let mut quiet = Vec::new();
    for turn in 0..10 {
        quiet.push(edited(turn).await);
        tokio::time::sleep(REST).await;
    }
    let (client, names) = (lab.cluster.client.clone(), lab.nodes.clone());
    let mut storm = tokio::task::JoinSet::new();
    for some in names.chunks(names.len().div_ceil(16)) {
        let (client, some) = (client.clone(), some.to_vec());
        storm.spawn(async move {
            for ready in [false, true].into_iter().cycle() {
                for name in &some {
                    olm_tests::nodes::set_ready(&client, name, ready).await;
                }
            }
        });
    }
    let cpu = lab.operators[0].cpu();
    let (began, mut loud) = (Instant::now(), Vec::new());
    for turn in 10..20 {
        loud.push(edited(turn).await);
        tokio::time::sleep(REST).await;
    }
    let share = lab.operators[0].cpu().saturating_sub(cpu).as_secs_f64() / began.elapsed().as_secs_f64();
    storm.abort_all();
    row(
        &format!("edit → DaemonSet of another OneAgent, median, at rest / while {size} nodes flap"),
        &format!("{:.0} / {:.0} ms", median(quiet), median(loud)),
    );
    row("… share of a core that the operator takes meanwhile", &format!("{:.0} %", share * 100.0));
    lab.end().await;
}

/// Fifty OneAgents that share a fleet: what they cost together, and whether one's rollout costs the others.
pub(super) async fn fifty(each: usize) {
    let mut lab = Lab::new("bench-fifty", 0).await;
    lab.behave(|b| b.ready_after = READY_AFTER);
    let within = Duration::from_secs(1200);
    let names: Vec<String> = (0..50).map(|number| format!("agent-{number:02}")).collect();
    for name in &names {
        lab.add_nodes(each, &Shape::default().label("team", name)).await;
    }
    let before = lab.operators[0].cpu();
    for name in &names {
        lab.oneagent_named(name, &json!({ "nodeSelector": { "lab": lab.name, "team": name } }));
    }
    for name in &names {
        lab.all_at(name, V1, each, within).await;
    }
    let installed = lab.operators[0].cpu();
    let nodes = each * names.len();
    let of = |time: Duration| {
        format!("{:.2} s, {:.2} ms a node", time.as_secs_f64(), time.as_secs_f64() * 1000.0 / nodes as f64)
    };
    row(
        &format!("CPU time of the operator for installing 50 OneAgents on {nodes} nodes"),
        &of(installed.saturating_sub(before)),
    );
    lab.cluster.vendor.publish(&lab.name, V2);
    for name in &names {
        lab.all_at(name, V2, each, within).await;
    }
    row("… for a rollout of all of them", &of(lab.operators[0].cpu().saturating_sub(installed)));
    row(
        "… RSS / RssAnon",
        &format!("{:.1} / {:.1} MiB", lab.operators[0].memory("VmRSS"), lab.operators[0].memory("RssAnon")),
    );
    lab.end().await;
}

pub(super) async fn memory(size: usize) {
    let cluster = Cluster::start(Vec::new()).await;
    let mut lab = Lab::without_operator(&cluster, "bench-memory", 0).await;
    lab.add_nodes(size, &Shape { images: 50, ..Shape::default() }).await;
    lab.start_operator(DEFAULTS).await;
    lab.oneagent(&json!({}));
    lab.all_at("agent", V1, size, Duration::from_secs(600)).await;
    // Restarted with everything there: the time to the first reconcile, as its metrics tell.
    let lease = Api::<k8s_openapi::api::coordination::v1::Lease>::namespaced(cluster.client.clone(), &lab.name);
    let mut times = Vec::new();
    for _ in 0..5 {
        lab.operators.clear();
        let _ = lease.delete("oneagent-operator", &DeleteParams::default()).await;
        tokio::time::sleep(REST).await;
        let began = Instant::now();
        lab.start_operator(DEFAULTS).await;
        while !has_reconciled(&lab).await {
            assert!(began.elapsed() < Duration::from_secs(60), "no reconcile");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        times.push(began.elapsed().as_secs_f64());
    }
    row(&format!("start → first reconcile at {size} real-size nodes, median of 5"), &format!("{:.2} s", median(times)));
    // The note of the nodes is written, token states have come to rest.
    tokio::time::sleep(Duration::from_secs(15)).await;
    let operator = &lab.operators[0];
    row(
        &format!("RSS / RssAnon at {size} real-size nodes"),
        &format!("{:.1} / {:.1} MiB", operator.memory("VmRSS"), operator.memory("RssAnon")),
    );
    let (before, calls) = (operator.cpu(), lab.requests().len());
    tokio::time::sleep(Duration::from_secs(60)).await;
    row(
        &format!("idle CPU per minute at {size} nodes"),
        &format!("{} ms", operator.cpu().saturating_sub(before).as_millis()),
    );
    let idle = lab.requests().len() - calls;
    row(
        &format!("idle API calls per minute at {size} nodes, leases and re-opened watches included"),
        &idle.to_string(),
    );
    lab.end().await;
}
