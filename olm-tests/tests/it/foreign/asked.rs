//! `plan` and `explain` of a DaemonSetRollout: what is said of an edit is what happens, and a node has one cause.

use std::collections::BTreeSet;

use olm_tests::kubelet::Fault;
use olm_tests::lab::{LONG, Lab};
use olm_tests::nodes::{Shape, patch};
use olm_tests::{eventually, run};
use oneagent_operator::api::daemonset_rollout::package::PACKAGE;
use serde_json::{Value, json};

use crate::explain::{on_call_with, typed};
use crate::planned::Dice;

/// An account that may read, and try an edit of a DaemonSet.
async fn person(lab: &Lab<'_>) -> String {
    let tries = json!({ "apiGroups": ["apps"], "resources": ["daemonsets"], "verbs": ["patch", "update"] });
    on_call_with(lab, "daemonset-rollout-operator", tries).await
}

/// A file with this object.
fn file(lab: &Lab<'_>, object: &Value) -> String {
    let path = lab.cluster.path(&format!("{}.{}.yaml", lab.name, object["kind"].as_str().unwrap()));
    std::fs::write(&path, serde_yaml::to_string(object).unwrap()).unwrap();
    path.display().to_string()
}

/// Some edit of the policy, or of the DaemonSet.
fn edit(dice: &mut Dice, spec: &mut Value, set: &mut Value) {
    let template = &mut set["spec"]["template"];
    match dice.roll(&[0, 0, 0, 1, 2, 3, 4, 5, 6]) {
        0 => template["spec"]["containers"][0]["env"][0]["value"] = json!(dice.roll(&["a", "b", "c"])),
        1 => template["metadata"]["annotations"]["chart"] = json!(dice.roll(&["1", "2", "3"])),
        2 => template["metadata"]["labels"]["other"] = json!(dice.roll(&["1", "2", "3"])),
        3 => spec["rollout"]["maxUnavailable"] = dice.roll(&[json!(1), json!(2), json!("50%")]).clone(),
        4 => spec["rollout"]["order"] = json!(dice.roll(&["ZoneByZone", "SpreadAcrossZones"])),
        5 => spec["rollout"]["paused"] = json!(dice.roll(&[true, false, false])),
        _ => spec["rollout"]["canary"] = json!({ "nodes": dice.roll(&[1, 2]), "soak": "1s" }),
    }
}

#[test]
fn what_a_plan_says_of_a_daemonset_is_what_happens() {
    run(async {
        let mut lab = Lab::of(&PACKAGE, "ds-planned", 0).await;
        for zone in ["a", "b", "c"] {
            lab.add_nodes(2, &Shape::default().zone(zone)).await;
        }
        let mut set = lab.daemonset_saying("a");
        set["spec"]["template"]["metadata"]["annotations"] = json!({ "chart": "0" });
        let mut spec = json!({ "daemonSet": "agent", "debounceSeconds": 3, "ignore": ["chart"],
            "rollout": { "maxUnavailable": 1, "paused": false } });
        lab.deploy(&set);
        lab.cluster.apply(&lab.rollout_object("agent", &spec).to_string());
        lab.agents_say("a", 6).await;
        lab.rollout_is("Ready", "True", "AllUpdated").await;
        let kubeconfig = person(&lab).await;
        let rounds = std::env::var("PLANS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(10);
        let seed = std::env::var("SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(3);
        let mut dice = Dice(seed);
        let mut replaced_in_all = 0;
        for round in 0..rounds {
            let (old_spec, old_set) = (spec.clone(), set.clone());
            if round % 2 == 1 {
                // A template that changes again and again must be quiet for longer and longer.
                lab.cluster.kubectl(&["-n", &lab.name, "delete", "daemonsetrollout", "agent"]);
                lab.cluster.apply(&lab.rollout_object("agent", &spec).to_string());
                eventually("it is seen again", LONG, || async {
                    let counted = lab.rollout_status().await.nodes.filter(|nodes| nodes.running == 6);
                    counted.map(drop).ok_or_else(|| "not yet".to_owned())
                })
                .await;
            }
            edit(&mut dice, &mut spec, &mut set);
            let object = if set == old_set { lab.rollout_object("agent", &spec) } else { set.clone() };
            let before = lab.agent_uids().await;
            let args = ["plan", "--kind", "daemonsetrollout", "agent", "-o", "json", "-f", &file(&lab, &object)];
            let (code, text) = typed(&lab, &kubeconfig, &args);
            let planned: Value = serde_json::from_str(&text).unwrap_or_else(|_| panic!("{text}"));
            let planned = &planned[0];
            let batches = planned["batches"].as_array().unwrap();
            let nodes = batches.iter().flat_map(|batch| batch["nodes"].as_array().unwrap());
            let restarts: BTreeSet<String> = nodes.map(|node| node["node"].as_str().unwrap().to_owned()).collect();
            assert_eq!(code, Some(i32::from(!restarts.is_empty())), "{text}");
            let story = format!("round {round}: from {old_spec} {old_set}\nto {object}\nplan {planned:#}");
            lab.cluster.apply(&object.to_string());
            let wanted = planned["state"].as_str().unwrap().to_owned();
            eventually("it is as planned", LONG, || async {
                let (status, now) = (lab.rollout_status().await, lab.rollouts().get("agent").await.unwrap());
                let stored = lab.deployed().await;
                let rollout = status.rollout.unwrap_or_default();
                let nodes = status.nodes.unwrap_or_default();
                let set = status.daemon_set.unwrap_or_default();
                let is_current = status.observed_generation == now.metadata.generation
                    && set.generation == stored.metadata.generation
                    && set.revision.is_some();
                let is_there = is_current && rollout.state == wanted && nodes.running == 6;
                if is_there { Ok(()) } else { Err(format!("{rollout:#?} {nodes:?} {set:?}\n{story}")) }
            })
            .await;
            let after = lab.agent_uids().await;
            let is_other = |(node, uid): &(&String, &String)| after.get(*node) != Some(uid);
            let replaced: BTreeSet<String> = before.iter().filter(is_other).map(|(node, _)| node.clone()).collect();
            assert_eq!(replaced, restarts, "{story}");
            replaced_in_all += replaced.len();
        }
        assert!(replaced_in_all > 0, "nothing was tried");
        lab.end().await;
    });
}

#[test]
fn a_person_is_told_what_a_deployment_would_do_and_why_a_node_waits() {
    run(async {
        let lab = Lab::of_daemonset("ds-asked", 4, &json!({ "maxUnavailable": 1 })).await;
        let kubeconfig = person(&lab).await;
        let say = |args: &[&str]| typed(&lab, &kubeconfig, args);
        let plan = |args: &[&str]| say(&[&["plan", "--kind", "daemonsetrollout"], args].concat());
        let node = |number: usize| say(&["explain", "node", &lab.nodes[number]]);
        let (code, text) = plan(&[]);
        assert_eq!(code, Some(0), "{text}");
        let mut set = lab.daemonset_saying("two");
        set["spec"]["template"]["spec"]["containers"][0]["image"] = json!("agent:2");
        let path = file(&lab, &set);
        let stored = lab.deployed().await.metadata.resource_version;
        let (code, text) = plan(&["-f", &path]);
        assert_eq!(code, Some(1), "{text}");
        assert!(text.contains("to a new revision, and the Pod template changes"), "{text}");
        assert!(text.contains("  differs: containers[agent].image 1 → 2\n"), "{text}");
        assert!(text.contains("  differs: containers[agent].env[MESSAGE]\n") && !text.contains("two"), "{text}");
        assert!(text.contains("4 Pods are replaced, in 4 batches") && text.contains("PODS ON"), "{text}");
        assert!(text.contains("nodes that join after the deployment get the new revision at once"), "{text}");
        assert_eq!(lab.deployed().await.metadata.resource_version, stored, "a plan writes nothing");
        // The one that was there is put back by hand: its revision is known.
        let mut same = lab.daemonset_saying("one");
        let (code, text) = plan(&["-f", &file(&lab, &same)]);
        assert!(code == Some(0) && text.contains("the file leaves the Pod template as it is"), "{text}");
        same["metadata"]["name"] = json!("other");
        let (code, text) = plan(&["-f", &file(&lab, &same)]);
        assert!(
            code == Some(2) && text.contains("holds neither a DaemonSetRollout nor a DaemonSet that one"),
            "{text}"
        );
        let (code, text) = plan(&["agnet"]);
        assert!(code == Some(2) && text.contains("the nearest name is agent"), "{text}");
        let mut refused = set.clone();
        refused["spec"]["template"]["spec"]["containers"][0]["image"] = Value::Null;
        let (code, text) = plan(&["-f", &file(&lab, &refused)]);
        assert!(code == Some(2) && text.contains("dry run of DaemonSet ds-asked/agent"), "{text}");
        let (code, text) = say(&["plan", "-f", &path]);
        assert!(code == Some(2) && text.contains("holds no OneAgent, but DaemonSet; for a DaemonSetRollout"), "{text}");
        // OneAgents are another role's.
        let (code, text) = say(&["plan", "agent"]);
        assert!(code == Some(2) && text.contains("oneagent-operator-observe"), "{text}");

        let good = lab.revision().await;
        let (code, text) = node(0);
        assert_eq!((code, &*text), (Some(0), &*format!("ds-asked/agent: runs revision {good} (agent 1) as desired\n")));
        lab.fails("two", Fault::CrashLoop);
        let skip = json!({ "metadata": { "labels": { "oneagent-operator.github.io/skip-update": "agent" } } });
        patch(&lab.cluster.client, &lab.nodes[3], &skip).await;
        lab.deploy(&set);
        lab.rollout_is("Degraded", "True", "RolloutFailed").await;
        let bad = lab.another_revision(&good).await;
        let outcomes: Vec<(Option<i32>, String)> = (0..4).map(node).collect();
        let lost = outcomes.iter().filter(|(code, text)| {
            *code == Some(1) && text.contains("no available Pod: ") && text.contains(" --previous")
        });
        assert_eq!(lost.count(), 1, "{outcomes:#?}");
        let waits = format!("runs revision {good} (agent 1); revision {bad} (agent 2) is desired, and its turn comes");
        let of_waits = outcomes.iter().filter(|(code, text)| *code == Some(0) && text.contains(&waits));
        assert_eq!(of_waits.clone().count(), 2, "{outcomes:#?}");
        assert!(of_waits.clone().all(|(_, text)| text.contains("(rollout: Failed")), "{outcomes:#?}");
        assert!(outcomes[3].1.contains("the node is left alone: it has label"), "{outcomes:#?}");
        let unlabel = format!("kubectl label node {} oneagent-operator.github.io/skip-update-", lab.nodes[3]);
        assert!(outcomes[3].1.contains(&unlabel), "{outcomes:#?}");
        let (code, text) = say(&["explain", "agent", "--kind", "daemonsetrollout"]);
        let degraded = lab.rollout_is("Degraded", "True", "RolloutFailed").await;
        assert!(
            code == Some(1) && text.starts_with("ds-asked/agent: Failed (RolloutFailed): desired Pods (revision "),
            "{text}"
        );
        assert!(text.contains(&degraded) && text.lines().count() <= 6, "{text}");
        let (_, fleet) = say(&["explain"]);
        assert_eq!(fleet.lines().next(), text.lines().next());
        // As the failure says: it is rolled back, of which one Pod is left to be replaced.
        let (code, text) = plan(&["-f", &file(&lab, &lab.daemonset_saying("one"))]);
        assert!(code == Some(1) && text.contains("1 Pod is replaced"), "{text}");
        assert!(text.contains(&format!("from revision {bad} to revision {good}")), "{text}");
        lab.end().await;
    });
}
