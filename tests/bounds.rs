//! Bounds that hold on every machine, counted by the allocator: what a lying environment can make us keep, and how the
//! work of a plan grows with the fleet.
//!
//! Must hold this one test alone: another would be counted with it. Must not compare times.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use axum::response::IntoResponse;
use chrono::{DateTime, TimeDelta};
use oneagent_operator::dynatrace::{Client, Error, Transport};
use oneagent_operator::k8s::node::Node;
use oneagent_operator::k8s::placement::Placement;
use oneagent_operator::oneagent::memory::Memory;
use oneagent_operator::oneagent::places::{Inventory, decide, places};
use oneagent_operator::oneagent::revision::{Desired, Pod, Reported, Revision};
use oneagent_operator::rollout::{Policy, Share, Source};

#[global_allocator]
static HEAP: cap::Cap<std::alloc::System> = cap::Cap::new(std::alloc::System, usize::MAX);

const MIB: usize = 1 << 20;

/// An environment with pages of hosts that never end: 2,000 on each, all different.
async fn endless() -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}/api", listener.local_addr().unwrap());
    let page = |uri: axum::http::Uri| async move {
        let from: usize =
            uri.query().and_then(|q| q.strip_prefix("nextPageKey=")).and_then(|key| key.parse().ok()).unwrap_or(0);
        let version = r#"{"major":1,"minor":2,"revision":3,"timestamp":"20250101-000000"}"#;
        let host = |i: usize| {
            let [_, b, c, d] = u32::try_from(i).unwrap().to_be_bytes();
            format!(r#"{{"entityId":"HOST-{i}","ipAddresses":["10.{b}.{c}.{d}"],"agentVersion":{version}}}"#)
        };
        let hosts: Vec<String> = (from..from + 2000).map(host).collect();
        ([("Next-Page-Key", (from + 2000).to_string())], format!("[{}]", hosts.join(","))).into_response()
    };
    tokio::spawn(axum::serve(listener, axum::Router::new().fallback(page)).into_future());
    base
}

/// Bytes that one plan of so many nodes allocates, most of which it frees again.
fn bytes_of_a_plan(size: usize) -> usize {
    let revision =
        |minor: u32| Revision { version: format!("1.{minor}.0.20250101-000000").parse().ok(), hash: "h".into() };
    let nodes: Vec<Arc<Node>> = (0..size).map(|i| Arc::new(Node::named(&format!("node-{i:06}")))).collect();
    let now = DateTime::UNIX_EPOCH;
    let pod = |node: &Arc<Node>| Pod {
        revision: Some(revision(1)),
        created: now,
        ready_since: Some(now),
        ..Pod::named(&node.name, &node.name)
    };
    let pods: Vec<Arc<Pod>> = nodes.iter().map(|node| Arc::new(pod(node))).collect();
    let (template, memory, deleted, none) = (revision(2), Memory::default(), HashSet::new(), HashMap::new());
    let inventory = Inventory {
        nodes: &nodes,
        pods: &pods,
        placement: &Placement::default(),
        template: Some(&template),
        settled: true,
        deleted: &deleted,
        lost: &none,
        freed: &deleted,
        aside: &HashMap::new(),
        losses: &HashMap::new(),
        missing: &none,
        deciding_since: DateTime::UNIX_EPOCH,
        in_contact_since: chrono::DateTime::UNIX_EPOCH,
        reported: Reported::Silent,
        source: Source::NotNeeded,
        refused: None,
        namespace_selector: &BTreeMap::new(),
        canary: &BTreeMap::new(),
        memory: &memory,
    };
    let policy = Policy::plain(Share::Percent(10), TimeDelta::seconds(300));
    let desired = Desired { revision: revision(2), strict: false, keeps_versions: false };
    let before = HEAP.total_allocated();
    let decision = decide(&policy, Some(&desired), &inventory, &places(Some(&desired), &inventory), now);
    assert_eq!(decision.plan.steps.len(), size / 10);
    HEAP.total_allocated() - before
}

#[test]
fn a_list_of_hosts_without_an_end_takes_bounded_memory_and_a_plan_grows_with_the_fleet() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let transport = Transport { timeout: std::time::Duration::from_secs(60), ..Transport::default() };
        let client = Client::new(&endless().await, &transport).unwrap();
        let before = HEAP.allocated();
        let outcome = client.hosts(&"token".to_owned().into(), &["default".to_owned()].into()).await;
        assert!(matches!(outcome, Err(Error::TooMany(_))), "{outcome:?}");
        let most = HEAP.max_allocated() - before;
        println!("{} MiB at most while the list was read", most / MIB);
        assert!(most < 64 * MIB, "{most} bytes");
    });
    let (small, large) = (bytes_of_a_plan(1_000), bytes_of_a_plan(10_000));
    println!("{small} bytes for a plan of 1,000 nodes, {large} for 10,000");
    assert!(large < small * 12, "ten times the nodes: {small} and {large} bytes");
}
