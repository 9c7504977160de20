//! The same verbs for the other kinds that replace Pods: DaemonSetRollout and ConfigWatcher.

use std::process::Command;

use olm_tests::eventually;
use olm_tests::kubelet::Fault;
use olm_tests::lab::{LONG, Lab, SOON};
use olm_tests::operator::beside;
use olm_tests::pty::Terminal;
use serde_json::{Value, json};

use super::{Came, Person};
use crate::explain::on_call_with;
use crate::watcher;

#[test]
fn a_daemonset_of_others_is_seen_and_steered_like_our_own() {
    olm_tests::run(async {
        let policy = json!({ "canary": { "nodes": 1, "soak": "3s" }, "waitReadySeconds": 5 });
        let lab = Lab::of_daemonset("plugin-ds", 4, &policy).await;
        let patches = json!({ "apiGroups": ["oneagent-operator.github.io"], "resources": ["daemonsetrollouts"],
            "verbs": ["patch"] });
        let kubeconfig = on_call_with(&lab, "daemonset-rollout-operator", patches).await;
        let person = Person { lab: &lab, kubeconfig };
        let good = lab.revision().await;
        let said = person.says(0, &["status"]);
        assert!(said.starts_with(&format!("agent  {good}  complete 4/4\n")) && said.contains(" ■■■■ 4/4"), "{said}");
        lab.fails("two", Fault::CrashLoop);
        let waits =
            person.typing(&["status", "agent", "--wait", "--for", "canaries", "--fail-fast", "--timeout", "240s"]);
        lab.deploy(&lab.daemonset_saying("two"));
        let message = lab.rollout_is("Degraded", "True", "RolloutFailed").await;
        let bad = lab.revision().await;
        let said = person.says(1, &["status", "agent"]);
        assert!(said.starts_with(&format!("agent  {bad}  failed 0/4")) && said.contains(&message), "{said}");
        assert!(said.contains('✖') && said.contains("--previous"), "{said}");
        let Came { code, said, noted } = waits.wait().await;
        // It had soaked before, of the revision before.
        assert!(code == Some(0) || code == Some(1), "{said}{noted}");
        let printed = person.says(0, &["retry", "agent", "--dry-run"]);
        let command_line =
            format!(r#"patch daemonsetrollout agent --type=merge -p '{{"spec":{{"rollout":{{"retry":"{bad}"}}}}}}'"#);
        assert!(printed.contains(&command_line), "{printed}");
        let Came { code, noted, .. } = person.types(&["rollback", "agent"]);
        let undo = "kubectl -n plugin-ds rollout undo daemonset/agent";
        assert!(code == Some(2) && noted.contains("has no version") && noted.contains(undo), "{noted}");
        person.says(0, &["pause", "agent"]);
        assert_eq!(lab.rollouts().get("agent").await.unwrap().spec.rollout.unwrap().pace.paused, Some(true));
        let mut command = Command::new(beside("kubectl-oneagent"));
        command.args(["status", "-w", "-n", &lab.name]).env("KUBECONFIG", &person.kubeconfig);
        command.env("LANG", "C.UTF-8").env_remove("LC_ALL").env_remove("COLUMNS");
        let mut terminal = Terminal::start(command, (24, 100));
        eventually("it is shown", LONG, || async {
            let shown = terminal.shows();
            if shown.contains("✖") && shown.contains("RolloutFailed") { Ok(()) } else { Err(shown) }
        })
        .await;
        terminal.press("q");
        eventually("it ends", SOON, || async { if terminal.echoes() { Ok(()) } else { Err("not yet".to_owned()) } })
            .await;
        lab.fails("two", Fault::Slow(std::time::Duration::from_millis(300)));
        lab.end().await;
    });
}

#[test]
fn a_configwatcher_is_seen_paused_and_tried_again() {
    olm_tests::run(async {
        let lab = watcher::lab("plugin-cw").await;
        let person = Person { lab: &lab, kubeconfig: lab.cluster.kubeconfig().display().to_string() };
        let kind = ["--kind", "configwatcher"];
        let with = |words: &[&'static str]| [words, &kind[..]].concat();
        let rows: Value = serde_json::from_str(&person.says(0, &with(&["status", "-o", "json"]))).unwrap();
        assert_eq!((&rows["name"], &rows["state"]), (&json!("watcher"), &json!("Complete")), "{rows:#}");
        person.says(0, &with(&["pause", "watcher"]));
        lab.message("two");
        lab.watcher_is("watcher", "Progressing", "False", "Paused").await;
        let held = person.typing(&with(&["status", "watcher", "--wait", "--for", "paused", "--timeout", "240s"]));
        assert_eq!(held.wait().await.code, Some(0));
        person.says(0, &with(&["resume", "watcher", "--yes"]));
        lab.all_say("webapp", "two", 4, LONG).await;
        let printed = person.says(0, &with(&["retry", "watcher", "--dry-run"]));
        assert!(printed.contains("patch configwatcher watcher") && printed.contains("\"retry\":\"20"), "{printed}");
        let Came { code, noted, .. } = person.types(&with(&["pin", "watcher", "1.301.72.20250601-101010"]));
        assert!(code == Some(2) && noted.contains("change its ConfigMap back"), "{noted}");
        lab.end().await;
    });
}
