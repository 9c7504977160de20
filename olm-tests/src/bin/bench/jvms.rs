//! What PrometheusJmxExporters cost: how soon a JVM exports, what its helper and the exporter take, and what the
//! operator takes for many of them, whose helpers are played.
//!
//! Prints what was measured; must not judge it.

use std::time::{Duration, Instant};

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, ListParams, Patch, PatchParams};
use kube::runtime::WatchStreamExt as _;
use kube::{Client, ResourceExt as _};
use olm_tests::cluster::Cluster;
use olm_tests::jvm::{Beside, runtimes};
use olm_tests::lab::Lab;
use olm_tests::lab::jmx_exporter::PORT;
use olm_tests::process::{free_port, memory};
use oneagent_operator::api::jmx_exporter::PrometheusJmxExporterStatus;
use oneagent_operator::api::jmx_exporter::package::PACKAGE;
use serde_json::json;

use super::{at, row};

/// How often a JVM is asked whether it exports.
const PAUSE: Duration = Duration::from_millis(20);
const MIB: f64 = 1024.0;

/// JVMs that come one after the other: from Running to the first answer.
pub(super) async fn first_answers(count: usize) {
    let lab = Lab::of_jvms("bench-jvms").await;
    lab.exporter(&json!({ "rollout": { "canary": { "soak": "0s" } } }));
    let newest = format!("jvm:{}", runtimes().into_keys().next_back().expect("a JDK"));
    let (mut waits, mut loads, mut cpus, mut sizes, mut anons) = (vec![], vec![], vec![], vec![], vec![]);
    for number in 0..count {
        let name = format!("jvm-{number}");
        lab.jvm(&name, &newest, &json!({}), &json!({ "securityContext": { "runAsUser": 0 } }));
        lab.runs(&name).await;
        let (running, pod) = (Instant::now(), lab.pod(&name).await);
        let real = &lab.cluster.kubelet.real;
        let tmp = real.with(&pod, "app", |container| container.tmp()).expect("a container");
        let is_locked = || {
            let mut all = std::fs::read_dir(&tmp).expect("a folder").flatten();
            all.any(|entry| entry.file_name().to_string_lossy().starts_with(".jmx-exporter-"))
        };
        while !is_locked() {
            tokio::time::sleep(PAUSE).await;
        }
        let loading = Instant::now();
        while lab.metrics(&name, PORT).await.is_err() {
            tokio::time::sleep(PAUSE).await;
        }
        loads.push(loading.elapsed().as_secs_f64());
        waits.push(running.elapsed().as_secs_f64());
        // It watches for ten seconds, and then ends.
        let mut last = (f64::NAN, f64::NAN, f64::NAN);
        let helper = || real.with(&pod, "jmx-0-1", |container| container.innermost()).flatten();
        while let Some(usage) = helper().and_then(usage) {
            last = usage;
            tokio::time::sleep(PAUSE).await;
        }
        cpus.push(last.0);
        sizes.push(last.1);
        anons.push(last.2);
    }
    for all in [&mut waits, &mut loads, &mut cpus, &mut sizes, &mut anons] {
        all.sort_by(f64::total_cmp);
    }
    let both = |all: &[f64]| format!("{:.2} / {:.2}", at(all, 0.5), at(all, 0.99));
    row(
        &format!("a JVM of Pods that come one after the other, Running → first answer, p50 / p99 of {count}"),
        &format!("{} s", both(&waits)),
    );
    row("… a JVM must have lived for 8 s of it; its own part, from the load on", &format!("{} s", both(&loads)));
    row("… CPU time of its helper, p50 / p99", &format!("{} ms", both(&cpus)));
    row(
        "… the helper's pages, most at once / of its own, p50",
        &format!("{:.1} / {:.1} MiB", at(&sizes, 0.5), at(&anons, 0.5)),
    );
    lab.end().await;
}

/// Of a process that is there: milliseconds of CPU time so far, most resident memory, and memory of its own, in MiB.
fn usage(id: u32) -> Option<(f64, f64, f64)> {
    let (most, own) = (memory(id, "VmHWM")?, memory(id, "RssAnon")?);
    let tasks = std::fs::read_dir(format!("/proc/{id}/task")).ok()?.flatten();
    let spent = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("schedstat")).ok());
    let spent: f64 = spent.filter_map(|text| text.split_whitespace().next()?.parse::<f64>().ok()).sum();
    Some((spent / 1e6, most, own))
}

/// What the exporter takes of a JVM's memory, of each version that is found.
pub(super) fn exporters() {
    for (version, home) in runtimes() {
        let script = r#"
            rss() { awk '/^VmRSS/ { print $2 }' /proc/$jvm/status; }
            scrape() {
                exec 3<>/dev/tcp/127.0.0.1/$PORT
                printf 'GET /metrics HTTP/1.0\r\n\r\n' >&3; cat <&3 >/dev/null; exec 3>&-
            }
            sleep 6; rss
            echo '{"rules":[{"pattern":".*"}]}' >/tmp/all.json
            "${JAVA%java}jcmd" $jvm JVMTI.agent_load /tmp/exporter.jar "$PORT:/tmp/all.json" >/dev/null; rss
            scrape; rss; for i in 1 2 3 4 5 6 7 8 9; do scrape; done; rss"#;
        let jvm = Beside { home: &home, options: "", arguments: "", port: free_port(), within: "60s" };
        let sizes: Vec<String> = jvm
            .run(script)
            .iter()
            .map(|line| line.parse::<f64>().map_or_else(|_| line.clone(), |kib| format!("{:.0}", kib / MIB)))
            .collect();
        row(
            &format!("RSS of a Java {version} that waits: before, after the load, after one scrape of all, after ten"),
            &format!("{} MiB", sizes.join(" / ")),
        );
    }
}

/// Many Pods whose helpers are played: they all end well at once.
pub(super) async fn many(size: usize) {
    let mut lab = Lab::bare(Cluster::shared().await, &PACKAGE, "bench-many-jvms", 40).await;
    lab.start_exporter_operator().await;
    lab.configuration("rules: []");
    lab.message("one");
    lab.workload("Deployment", "webapp", &json!({ "replicas": size }));
    let pods: Api<Pod> = Api::namespaced(lab.cluster.client.clone(), &lab.name);
    let is_ready = |pod: &Pod| {
        let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
        conditions.into_iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
    };
    let ready = async || {
        let all = pods.list(&ListParams::default().labels("app=webapp")).await;
        all.map_or(0, |all| all.items.iter().filter(|pod| is_ready(pod)).count())
    };
    while ready().await < size {
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    let player = tokio::spawn(play(lab.cluster.client.clone(), lab.name.clone()));
    let says = async |reason: &str| {
        let is_said = |status: &PrometheusJmxExporterStatus| {
            status.conditions.iter().any(|condition| condition.type_ == "Ready" && condition.reason == reason)
        };
        while !is_said(&lab.exporter_status("exporter").await) {
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    };
    let measure = async |what: &str, act: &dyn Fn()| {
        let (before, cpu, began) = (lab.requests().len(), lab.operators[0].cpu(), Instant::now());
        act();
        says("Attaching").await;
        says("AllExporting").await;
        let (took, cpu) = (began.elapsed(), lab.operators[0].cpu().saturating_sub(cpu));
        tokio::time::sleep(Duration::from_secs(5)).await;
        let requests = lab.requests().split_off(before);
        let writes = requests.iter().filter(|r| r.writes() && r.resource != "leases").count();
        row(
            &format!(
                "{size} JVMs {what}, 10 % at once, helpers played: time / CPU time of the operator / writes per JVM"
            ),
            &format!("{:.1} s / {:.2} s / {:.3}", took.as_secs_f64(), cpu.as_secs_f64(), writes as f64 / size as f64),
        );
    };
    let object = json!({ "labelSelector": { "app": "webapp" },
        "rollout": { "maxConcurrent": "10%", "canary": { "soak": "0s" } } });
    measure("begin to export", &|| lab.exporter(&object)).await;
    measure("take another configuration", &|| lab.configuration("lowercaseOutputName: true")).await;
    let (before, cpu) = (lab.requests().len(), lab.operators[0].cpu());
    tokio::time::sleep(Duration::from_secs(60)).await;
    let requests = lab.requests().split_off(before);
    row(
        "… at rest, in a minute: CPU time / API calls without the Lease's / of these, writes",
        &format!(
            "{:.0} ms / {} / {}",
            lab.operators[0].cpu().saturating_sub(cpu).as_secs_f64() * 1000.0,
            requests.iter().filter(|r| r.resource != "leases" && r.verb != "watch").count(),
            requests.iter().filter(|r| r.resource != "leases" && r.writes()).count()
        ),
    );
    row(
        "… RSS / RssAnon of the operator",
        &format!("{:.1} / {:.1} MiB", lab.operators[0].memory("VmRSS"), lab.operators[0].memory("RssAnon")),
    );
    player.abort();
    lab.end().await;
}

/// Plays the helpers of all Pods of a namespace.
async fn play(client: Client, namespace: String) {
    let pods: Api<Pod> = Api::namespaced(client, &namespace);
    let events = kube::runtime::watcher(pods.clone(), kube::runtime::watcher::Config::default());
    let answers = events.default_backoff().applied_objects().filter_map(async |pod| {
        let pod = pod.ok()?;
        let joined = pod.spec.as_ref()?.ephemeral_containers.clone()?;
        let known = pod.status.as_ref().and_then(|status| status.ephemeral_container_statuses.clone());
        let known = known.unwrap_or_default();
        let new = joined.iter().filter(|one| !known.iter().any(|status| status.name == one.name));
        let now = chrono::Utc::now().format("%FT%TZ").to_string();
        let said = json!({ "result": "Exporting", "loadedAt": now }).to_string();
        let new: Vec<_> = new
            .map(|one| {
                json!({ "name": one.name, "image": one.image, "imageID": "", "ready": false, "restartCount": 0,
                    "state": { "terminated": { "exitCode": 0, "startedAt": now, "finishedAt": now,
                    "message": said } } })
            })
            .collect();
        // The list is replaced as a whole.
        let all: Vec<_> = known.iter().map(|status| json!(status)).chain(new.iter().cloned()).collect();
        let status = json!({ "status": { "ephemeralContainerStatuses": all } });
        (!new.is_empty()).then(|| (pod.name_any(), status))
    });
    let answered = answers.map(|(name, status)| {
        let pods = pods.clone();
        async move { drop(pods.patch_status(&name, &PatchParams::default(), &Patch::Strategic(status)).await) }
    });
    answered.buffer_unordered(32).collect::<()>().await;
}
