//! What a stack costs: until it is complete, beside a client that knows no order; on many nodes; and while a store
//! grows.
//!
//! Prints what was measured; must not judge it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, ListParams};
use olm_tests::jvm::ask_zookeeper;
use olm_tests::lab::Lab;
use olm_tests::nodes::Shape;
use olm_tests::zookeeper::{answers, members};
use serde_json::Value;

use super::row;

const LOOK: Duration = Duration::from_millis(50);
const REST: Duration = Duration::from_secs(60);

/// Objects of a stack, as `kubectl` names their kinds.
const KINDS: &str = "configmaps,secrets,services,poddisruptionbudgets,statefulsets,daemonsets";

/// Waits until so many Pods are Ready, and returns how long that took.
async fn ready(lab: &Lab<'_>, count: usize, began: Instant) -> Duration {
    let pods: Api<Pod> = Api::namespaced(lab.cluster.client.clone(), &lab.name);
    let is_ready = |pod: &&Pod| {
        let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
        conditions.into_iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
    };
    loop {
        let all = pods.list(&ListParams::default()).await.expect("Pods").items;
        if all.iter().filter(is_ready).count() == count {
            return began.elapsed();
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// On three masters and three workers, with Pods of a fake kubelet.
pub(super) async fn first() {
    let mut lab = Lab::of_stacks("bench-stack", 3, 3).await;
    let (before, cpu, began) = (lab.requests().len(), lab.operators[0].cpu(), Instant::now());
    lab.cluster.apply(&lab.stack().to_string());
    let took = ready(&lab, 28, began).await;
    lab.stack_says("Ready", "AllServing").await;
    let cpu = lab.operators[0].cpu().saturating_sub(cpu);
    let requests = lab.requests().split_off(before);
    let of_objects =
        |r: &&olm_tests::audit::Request| r.writes() && !["leases", "events", "managers/status"].contains(&&*r.resource);
    let writes = requests.iter().filter(of_objects).count();
    let get = ["-n", &lab.name, "get", KINDS, "-l", "contrail_manager", "-o", "json"];
    let all: Value = serde_json::from_str(&lab.cluster.kubectl(&get)).expect("objects");
    let mut objects = all["items"].as_array().cloned().expect("objects");
    row("object → 28 Pods Ready on 3 + 3 nodes, fake kubelet", &format!("{:.1} s", took.as_secs_f64()));
    row(
        "… CPU time of the operator / writes of objects of the stack / per object",
        &format!("{:.0} ms / {writes} / {:.2}", cpu.as_secs_f64() * 1000.0, writes as f64 / objects.len() as f64),
    );
    row(
        "… RSS / RssAnon of the operator",
        &format!("{:.1} / {:.1} MiB", lab.operators[0].memory("VmRSS"), lab.operators[0].memory("RssAnon")),
    );
    // The same objects by a client that knows no order.
    lab.operators.clear();
    lab.cluster.kubectl(&["-n", &lab.name, "delete", KINDS, "-l", "contrail_manager"]);
    ready(&lab, 0, began).await;
    for object in &mut objects {
        let metadata = object["metadata"].clone();
        object["metadata"] = serde_json::json!({ "name": metadata["name"], "namespace": metadata["namespace"],
            "labels": metadata["labels"] });
    }
    let began = Instant::now();
    let all: Vec<String> = objects.iter().map(Value::to_string).collect();
    lab.cluster.apply(&all.join("\n---\n"));
    let took = ready(&lab, 28, began).await;
    row("… all of it applied at once by a client that knows no order", &format!("{:.1} s", took.as_secs_f64()));
}

/// Three masters and so many workers.
pub(super) async fn workers(count: usize) {
    let mut lab = Lab::of_stacks("bench-vrouters", 3, count).await;
    let began = Instant::now();
    lab.cluster.apply(&lab.stack().to_string());
    let took = ready(&lab, 25 + count, began).await;
    row(&format!("object → all Pods Ready on 3 + {count} nodes"), &format!("{:.1} s", took.as_secs_f64()));
    lab.stack_says("Ready", "AllServing").await;
    let (cpu, began) = (lab.operators[0].cpu(), Instant::now());
    let name = lab.name.clone();
    lab.add_nodes(1, &Shape::default().label("node-role.kubernetes.io/worker", &name)).await;
    let took = ready(&lab, 26 + count, began).await;
    lab.stack_says("Ready", "AllServing").await;
    let spent = |cpu: Duration| lab.operators[0].cpu().saturating_sub(cpu).as_secs_f64() * 1000.0;
    row(
        &format!("one node joins {count} others: until its Pod is Ready / CPU time of the operator"),
        &format!("{:.1} s / {:.0} ms", took.as_secs_f64(), spent(cpu)),
    );
    let (cpu, before) = (lab.operators[0].cpu(), lab.requests().len());
    tokio::time::sleep(REST).await;
    let writes = lab.requests().split_off(before).iter().filter(|r| r.writes() && r.resource != "leases").count();
    row("… at rest, in a minute: CPU time / writes without the Lease's", &format!("{:.0} ms / {writes}", spent(cpu)));
    row(
        "… RSS / RssAnon of the operator",
        &format!("{:.1} / {:.1} MiB", lab.operators[0].memory("VmRSS"), lab.operators[0].memory("RssAnon")),
    );
}

/// A real ZooKeeper from one server to three, and a client that asks it all the while.
pub(super) async fn growth() {
    let mut lab = Lab::of_real_stacks("bench-growth", 1).await;
    lab.cluster.apply(&lab.real_stack().to_string());
    lab.stack_says("Ready", "AllServing").await;
    let first = lab.addresses().await.remove(0);
    answers(&first, &["create", "/key", "a value"]).await;
    let is_over = Arc::new(AtomicBool::new(false));
    let (asked, failed) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let client = tokio::task::spawn_blocking({
        let (is_over, asked, failed, server) =
            (is_over.clone(), asked.clone(), failed.clone(), format!("{first}:2181"));
        move || {
            while !is_over.load(Ordering::Relaxed) {
                asked.fetch_add(1, Ordering::Relaxed);
                if ask_zookeeper(&server, &["get", "/key"]).as_deref() != Ok("a value") {
                    failed.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
    });
    let began = Instant::now();
    lab.add_real_masters(2).await;
    while members(&first).await.len() < 3 {
        tokio::time::sleep(LOOK).await;
    }
    ready(&lab, 3, began).await;
    let took = began.elapsed();
    is_over.store(true, Ordering::Relaxed);
    client.await.expect("a client");
    row(
        "ZooKeeper 3.9.5 from one server to three: time / requests meanwhile / of these, failed",
        &format!(
            "{:.1} s / {} / {}",
            took.as_secs_f64(),
            asked.load(Ordering::Relaxed),
            failed.load(Ordering::Relaxed)
        ),
    );
    lab.end().await;
}
