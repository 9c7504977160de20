//! DaemonSetRollout beside a bare client and beside Kubernetes' own RollingUpdate, with the same budget; and how many
//! nodes a bad version reaches with each.
//!
//! Must not judge a figure.

use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Pod;
use olm_tests::eyes::Eyes;
use olm_tests::kubelet::Fault;
use olm_tests::lab::daemonset_rollout::AGENTS;
use olm_tests::lab::{Lab, is_ready};
use serde_json::{Value, json};

use super::{READY_AFTER, at, bare_rollout, gaps, per, row, span};

/// Seconds for which a template must have stayed the same.
const DEBOUNCE: u64 = 3;
/// A rollout in which nothing happens for so long has ended.
const QUIET: Duration = Duration::from_secs(8);
/// For so long half of the fleet is not Ready.
const BLIP: Duration = Duration::from_secs(30);
/// Nodes that a bad version may reach.
const FLEET: usize = 50;

/// DaemonSet `agent` with RollingUpdate at 10 %.
fn rolling(lab: &Lab<'_>, message: &str) -> Value {
    let mut set = lab.daemonset_saying(message);
    set["spec"]["updateStrategy"] = json!({ "type": "RollingUpdate", "rollingUpdate": { "maxUnavailable": "10%" } });
    set
}

/// A good version for every node.
pub async fn rollout(size: usize) {
    let lab = Lab::of_daemonset(&format!("bench-ds-{size}"), size, &json!({})).await;
    lab.behave(|behaviour| behaviour.ready_after = READY_AFTER);
    // The first note of the nodes is written.
    tokio::time::sleep(Duration::from_secs(12)).await;
    let eyes = Eyes::on_replicas(&lab, AGENTS, size).await;
    let (before, cpu) = (lab.requests().len(), lab.operators[0].cpu());
    let began = Instant::now();
    lab.deploy(&lab.daemonset_saying("two"));
    lab.rollout_is("Progressing", "True", "RollingOut").await;
    lab.agents_say("two", size).await;
    lab.rollout_is("Ready", "True", "AllUpdated").await;
    let cpu = lab.operators[0].cpu().saturating_sub(cpu).as_secs_f64();
    let (first, took, waits) = {
        let seen = eyes.seen().await;
        (seen.deletions.first().copied(), span(&seen), gaps(&seen, size / 10))
    };
    tokio::time::sleep(Duration::from_secs(2)).await;
    let requests = lab.requests().split_off(before);
    let of = |writes: bool| per(&requests, writes, size);
    row(&format!("DaemonSetRollout, {size} nodes at 10 %: first deletion → last Ready"), &format!("{took:.1} s"));
    let late = first.map_or(f64::NAN, |first| (first - began).as_secs_f64() - DEBOUNCE as f64);
    row("… template written → first deletion, without the 3 s of debounce", &format!("{late:.2} s"));
    row("… CPU time of the operator", &format!("{cpu:.2} s"));
    row("… API writes / reads per replaced Pod, Lease apart", &format!("{:.3} / {:.3}", of(true), of(false)));
    drop(eyes);
    lab.cluster.kubectl(&["-n", &lab.name, "delete", "dsr", "agent"]);
    // A bare client at the same budget.
    lab.deploy(&lab.daemonset_saying("three"));
    let (bare, bare_waits) = bare_rollout(&lab, AGENTS, size / 10).await;
    row("… a bare client that deletes the next Pod for each that is Ready", &format!("{bare:.1} s"));
    for (who, gaps) in [("", &waits), (", the bare client", &bare_waits)] {
        let figure = format!("{:.0} / {:.0} ms", at(gaps, 0.5), at(gaps, 0.99));
        row(&format!("… replacement Ready → next deletion, p50 / p99{who}"), &figure);
    }
    let eyes = Eyes::on_replicas(&lab, AGENTS, size).await;
    lab.deploy(&rolling(&lab, "four"));
    reached(&lab, "four", size).await;
    row("… RollingUpdate at 10 %", &format!("{:.1} s", span(&eyes.seen().await)));
    lab.end().await;
}

/// Waits until so many Ready Pods say something.
async fn reached(lab: &Lab<'_>, message: &str, count: usize) {
    while lab.said().values().filter(|said| *said == message).count() < count {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// What a bad version does.
#[derive(Debug, Clone, Copy)]
enum Harm {
    /// It crashes.
    Crash,
    /// It crashes while half of the fleet is not Ready for a time.
    Blip,
    /// Its node dies.
    NodeDies,
    /// It crashes five seconds after it was Ready.
    LateCrash,
}

/// On how many nodes a bad version was.
pub async fn damage() {
    for harm in [Harm::Crash, Harm::Blip, Harm::NodeDies, Harm::LateCrash] {
        let careful = reach(harm, true).await;
        let builtin = reach(harm, false).await;
        row(
            &format!("a bad version, {harm:?}: nodes of {FLEET} with DaemonSetRollout, canary and soak of 10 s"),
            &careful.to_string(),
        );
        row("… with RollingUpdate at the same 10 %", &builtin.to_string());
    }
}

async fn reach(harm: Harm, is_careful: bool) -> usize {
    let way = if is_careful { "careful" } else { "builtin" };
    let name = format!("bench-{way}-{harm:?}").to_lowercase();
    let policy = json!({ "canary": { "nodes": 1, "soak": "10s" }, "waitReadySeconds": 30 });
    let lab = Lab::of_daemonset(&name, FLEET, &policy).await;
    lab.fails(
        "bad",
        match harm {
            Harm::Crash | Harm::Blip => Fault::CrashLoop,
            Harm::NodeDies => Fault::KillsNodeAfter(Duration::from_secs(2)),
            Harm::LateCrash => Fault::CrashesAfter(Duration::from_secs(5)),
        },
    );
    if !is_careful {
        lab.cluster.kubectl(&["-n", &name, "delete", "dsr", "agent"]);
        lab.deploy(&rolling(&lab, "one"));
    }
    let bad = || {
        let says = |pod: &std::sync::Arc<Pod>| {
            let said = lab.cluster.kubelet.environment(pod);
            said.is_some_and(|said| said.get("MESSAGE").is_some_and(|message| message == "bad"))
        };
        let pods = lab.cluster.kubelet.pods(&name).into_iter();
        let nodes = pods.filter(says).filter_map(|pod| pod.spec.as_ref()?.node_name.clone());
        nodes.collect::<std::collections::BTreeSet<String>>()
    };
    lab.deploy(&if is_careful { lab.daemonset_saying("bad") } else { rolling(&lab, "bad") });
    let mut seen = std::collections::BTreeSet::new();
    let (mut last, mut has_blipped) = (Instant::now(), false);
    // Until nothing happens for longer than what it waits for itself.
    let quiet = if is_careful { QUIET + Duration::from_secs(12) } else { QUIET };
    while last.elapsed() < quiet || seen.is_empty() {
        let now = bad();
        if !now.is_subset(&seen) {
            seen.extend(now);
            last = Instant::now();
        }
        if matches!(harm, Harm::Blip) && !has_blipped && !seen.is_empty() {
            has_blipped = true;
            let pods: Vec<Pod> = lab.labelled(AGENTS).await.into_values().filter(is_ready).collect();
            for (ready, lasts) in [(false, BLIP), (true, Duration::ZERO)] {
                for pod in pods.iter().take(FLEET / 2) {
                    lab.cluster.kubelet.say_ready(pod, ready).await;
                }
                tokio::time::sleep(lasts).await;
            }
            last = Instant::now();
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let count = seen.len();
    drop(seen);
    lab.end().await;
    count
}
