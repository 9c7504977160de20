//! The whole sample on real stores: each program is Ready once all that its files name have let it in.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use olm_tests::eventually;
use olm_tests::lab::{LONG, Lab};
use olm_tests::run;
use serde_json::json;

/// Files that name no other peer.
const ALONE: &[&str] = &["cassandra", "cookie", "dnsmasq", "heap", "jmx", "myid", "named", "redis", "super", "zoo"];

/// What the containers of a Pod printed, by name.
fn logs(lab: &Lab<'_>, pod: &Pod) -> Vec<(String, String)> {
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    let log = |name: &str| lab.cluster.kubelet.real.with(pod, name, |container| container.log());
    containers.filter_map(|one| Some((one.name.clone(), log(&one.name)?))).collect()
}

/// The addresses that a text names.
fn named(text: &str) -> BTreeSet<&str> {
    let words = text.split(|one: char| !one.is_ascii_digit() && one != '.');
    words.map(|word| word.trim_matches('.')).filter(|word| word.starts_with("10.77.")).collect()
}

#[test]
fn every_program_is_let_in_by_all_that_its_files_name() {
    run(async {
        let lab = Lab::of_real_stacks("opensdn", 3).await;
        let mut stack = lab.real_opensdn();
        // Three of them take long, and a test of their own.
        stack["spec"]["services"]["cassandras"][0]["spec"]["commonConfiguration"] = json!({ "replicas": 1 });
        lab.cluster.apply(&stack.to_string());
        eventually("all serve", LONG * 2, || async {
            let status = lab.stack_status().await;
            let pods = lab.stack_pods().await.len();
            let summary = status.summary.clone().unwrap_or_default();
            if summary.progress == "10/10" && pods == 23 {
                Ok(())
            } else {
                Err(format!("{pods} Pods; {:#?}", status.components))
            }
        })
        .await;
        let servers = lab.addresses().await.into_iter().collect::<BTreeSet<_>>();
        for pod in lab.stack_pods().await {
            for (container, log) in logs(&lab, &pod) {
                let refused = log.lines().find(|line| line.starts_with("refused "));
                assert_eq!(refused, None, "{} {container}", pod.name_any());
            }
            for (file, text) in lab.files(&pod).await {
                let named = named(&text);
                let is_alone = ALONE.contains(&&*file) || pod.name_any().starts_with("cassandra1");
                let is_right = if is_alone {
                    let own = pod.status.as_ref().and_then(|status| status.pod_ip.clone());
                    named.iter().all(|address| Some(*address) == own.as_deref())
                } else {
                    named.iter().copied().eq(servers.iter().map(String::as_str))
                };
                assert!(is_right, "{file} of {} names {named:?}: {text}", pod.name_any());
            }
        }
        lab.end().await;
    });
}
