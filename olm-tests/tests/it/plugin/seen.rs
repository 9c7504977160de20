//! What is seen: `status`, `history`, `plan` and the archive for others, with rights to read alone, in the words of the
//! status.

use std::process::Command;

use kube::ResourceExt;
use olm_tests::kubelet::Fault;
use olm_tests::lab::{Lab, SOON, V1, V2};
use olm_tests::nodes::Shape;
use olm_tests::operator::beside;
use serde_json::{Value, json};

use super::{Came, Person};

#[test]
fn a_rollout_is_seen_zone_by_zone_and_what_is_wrong_with_the_command_that_helps() {
    olm_tests::run(async {
        let mut lab = Lab::new("plugin-seen", 0).await;
        for zone in ["a", "b"] {
            lab.add_nodes(3, &Shape::default().zone(zone)).await;
        }
        let person = Person::who_observes(&lab).await;
        let Came { code, noted, .. } = person.types(&["status"]);
        assert!(code == Some(2) && noted.contains("there is no OneAgent or DaemonSetRollout in namespace"), "{noted}");
        lab.oneagent(&json!({ "rollout": { "maxUnavailable": 1 } }));
        lab.all_at("agent", V1, 6, SOON).await;
        lab.condition("agent", "Ready", "True", "AllUpdated").await;
        let said = person.says(0, &["status"]);
        let lines: Vec<&str> = said.lines().collect();
        assert!(lines[0].starts_with("agent  1.300.10  complete 6/6"), "{said}");
        assert_eq!(&lines[1..3], [" a ■■■ 3/3", " b ■■■ 3/3"], "{said}");
        // The same fleet in memory: its nodes, one at a time.
        let live: Value = serde_json::from_str(&person.says(0, &["simulate", "--live", "-o", "json"])).unwrap();
        let batches = live["oneAgents"][0]["batches"].as_array().unwrap();
        let nodes = batches.iter().flat_map(|batch| batch["nodes"].as_array().unwrap());
        let mut nodes: Vec<&str> = nodes.map(|node| node.as_str().unwrap()).collect();
        nodes.sort_unstable();
        assert_eq!((batches.len(), nodes), (6, lab.nodes.iter().map(String::as_str).collect()), "{live:#}");
        lab.behave(|b| {
            b.versions.insert(V2.to_owned(), Fault::CrashLoop);
        });
        lab.cluster.vendor.publish(&lab.name, V2);
        lab.condition("agent", "Degraded", "True", "RolloutFailed").await;
        // The last good version is desired again a moment later.
        lab.shows("it stays at the good one", SOON, |status| status.desired_version.as_deref() == Some(V1)).await;
        let message = lab.condition("agent", "Degraded", "True", "RolloutFailed").await;
        let said = person.says(1, &["status", "agent"]);
        assert!(said.starts_with("agent  1.301.20 failed  1.300.10 5/6"), "{said}");
        assert_eq!(said.matches('✖').count(), 2, "a cell, and a line: {said}");
        assert_eq!(said.matches(['■', '□']).count(), 5, "{said}");
        let pods = lab.pods("agent").await;
        let broken = pods.values().find(|pod| !olm_tests::lab::is_ready(pod)).unwrap();
        let logs = format!("kubectl -n plugin-seen logs {} --previous", broken.name_any());
        assert!(said.contains(&logs) && said.contains("CrashLoopBackOff"), "{said}");
        assert!(said.contains(&message), "in the words of the status: {said}");
        for sentence in said.lines().filter(|line| line.len() > 30) {
            assert_eq!(said.matches(sentence).count(), 1, "{sentence}");
        }
        let data: Value = serde_json::from_str(&person.says(1, &["status", "agent", "-o", "json"])).unwrap();
        assert_eq!((&data["state"], &data["reason"]), (&json!("Failed"), &json!("RolloutFailed")), "{data:#}");
        assert_eq!(data["zones"].as_array().unwrap().len(), 2, "{data:#}");
        let yaml: Value = serde_yaml::from_str(&person.says(1, &["status", "agent", "-o", "yaml"])).unwrap();
        assert_eq!(yaml["zones"], data["zones"]);
        let plain = Command::new(beside("kubectl-oneagent"))
            .args(["--color", "always", "status", "-n", &lab.name, "agent"])
            .env("KUBECONFIG", &person.kubeconfig)
            .env_remove("LANG")
            .env_remove("LC_ALL")
            .output()
            .unwrap();
        let plain = String::from_utf8(plain.stdout).unwrap();
        assert!(plain.contains("\u{1b}[31mF") && !plain.contains('✖'), "in colour, in ASCII: {plain}");
        // The reader of its errors may have gone.
        let closed = format!("{} status nobody -n x 2>&1 >/dev/null | true", beside("kubectl-oneagent").display());
        let closed = format!("set -o pipefail; {closed}; exit ${{PIPESTATUS[0]}}");
        let gone = Command::new("bash").args(["-c", &closed]).env("KUBECONFIG", &person.kubeconfig).status().unwrap();
        assert_eq!(gone.code(), Some(2));
        let history = person.says(0, &["history"]);
        assert!(history.contains("Failed") && history.contains("WHAT BECAME OF IT"), "{history}");
        let explained = person.says(1, &["explain", "agent"]);
        assert!(explained.contains(&message), "{explained}");
        let node = broken.spec.as_ref().unwrap().node_name.clone().unwrap();
        assert!(person.says(1, &["explain", "node", &node]).contains("CrashLoopBackOff"));
        let version = person.types(&["version"]).said;
        assert!(version.starts_with(&format!("kubectl-oneagent {}", env!("CARGO_PKG_VERSION"))), "{version}");
        assert_eq!(person.wrote(), []);
        lab.end().await;
    });
}

#[test]
fn a_plan_has_a_bar_for_each_zone_and_can_be_drawn() {
    olm_tests::run(async {
        let mut lab = Lab::new("plugin-planned", 0).await;
        for zone in ["a", "b"] {
            lab.add_nodes(2, &Shape::default().zone(zone)).await;
        }
        lab.oneagent(&json!({}));
        lab.all_at("agent", V1, 4, SOON).await;
        lab.condition("agent", "Ready", "True", "AllUpdated").await;
        let person = Person::who_observes(&lab).await;
        assert!(person.says(0, &["plan"]).contains("no agent is replaced"));
        let edited = lab.cluster.path("plugin-planned.yaml");
        let mut agent = serde_json::to_value(lab.agents().get("agent").await.unwrap()).unwrap();
        agent["spec"]["args"] = json!(["--more=1"]);
        std::fs::write(&edited, agent.to_string()).unwrap();
        let file = edited.to_str().unwrap();
        let said = person.says(1, &["plan", "-f", file]);
        assert!(said.contains("4 agents are replaced, in 4 batches"), "{said}");
        assert!(said.contains("  a ████████████████████████ 2\n  b ████████████████████████ 2\n"), "{said}");
        assert!(said.contains("  begins ") && said.contains(" UTC (") && said.contains(", done "), "{said}");
        let drawn = person.says(1, &["plan", "-f", file, "-o", "svg"]);
        assert!(drawn.starts_with("<svg") && drawn.matches("<rect").count() == 5, "{drawn}");
        let Came { code, noted, .. } = person.types(&["status", "-o", "svg"]);
        assert!(code == Some(2) && noted.contains("only plan can be drawn"), "{noted}");
        lab.end().await;
    });
}

#[test]
fn an_archive_for_others_holds_no_secret_of_forty() {
    olm_tests::run(async {
        let lab = Lab::new("plugin-bundle", 2).await;
        let secret = |number: usize| format!("planted-secret-{number}-zq");
        let env: Vec<Value> = (0..10).map(|n| json!({ "name": format!("E{n}"), "value": secret(n) })).collect();
        let args: Vec<String> = (10..20).map(|n| format!("--key{n}={}", secret(n))).collect();
        let texts = |from: usize| -> Value {
            (from..from + 9)
                .map(|n| (format!("team.example/k{n}"), json!(secret(n))))
                .collect::<serde_json::Map<_, _>>()
                .into()
        };
        lab.oneagent(&json!({ "env": env, "args": args, "annotations": texts(20), "labels": texts(30),
            "proxy": { "value": format!("http://user:{}@proxy.example:3128", secret(39)) } }));
        let note = json!({ "metadata": { "annotations": { "kubectl.kubernetes.io/last-applied-configuration":
            json!({ "spec": { "env": [{ "name": "OLD", "value": secret(29) }] } }).to_string() } } });
        lab.agents().patch("agent", &kube::api::PatchParams::default(), &kube::api::Patch::Merge(note)).await.unwrap();
        // An Event quotes some of them.
        let metadata = json!({ "name": "quoted", "namespace": lab.name });
        let event = json!({ "apiVersion": "v1", "kind": "Event", "metadata": metadata,
            "involvedObject": { "kind": "OneAgent", "name": "agent", "namespace": lab.name }, "type": "Warning",
            "reason": "Quoted", "message": format!("env {} and {}", secret(1), secret(11)) });
        lab.cluster.apply(&event.to_string());
        let person = Person::who_observes(&lab).await;
        let listed = person.says(0, &["support-bundle", "--dry-run"]);
        assert!(listed.contains("objects/oneagent/plugin-bundle/agent.json"), "{listed}");
        let file = lab.cluster.path("plugin-bundle.tar.gz");
        let path = file.to_str().unwrap();
        for more in [&[][..], &["--anonymize"]] {
            let said = person.says(0, &[&["support-bundle", "-f", path], more].concat());
            assert!(said.contains("read it before you send it"), "{said}");
            let held = Command::new("tar").args(["-xzOf", path]).output().unwrap();
            let held = String::from_utf8(held.stdout).unwrap();
            assert!(held.contains("Quoted") && held.contains("[redacted]"), "{held}");
            assert!(said.contains("objects/oneagent/"), "no name of ours is taken for a secret: {said}");
            for number in 0..40 {
                let plain = secret(number);
                assert!(!held.contains(&plain) && !said.contains(&plain), "{number}");
            }
            let names = [lab.name.as_str(), &lab.nodes[0]];
            let is_named = more.is_empty();
            assert!(names.iter().all(|name| held.contains(name) == is_named), "{held}");
            assert!(!names.iter().any(|name| !is_named && said.contains(name) && !path.contains(name)), "{said}");
        }
        assert_eq!(person.wrote(), []);
        lab.end().await;
    });
}
