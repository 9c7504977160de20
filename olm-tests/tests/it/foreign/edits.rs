//! What a plan says of an edit is what happens: random edits of the policy and of the template, of which each is
//! planned, made, and compared by the Pods that were replaced and by their order.

use std::collections::BTreeSet;

use olm_tests::eventually;
use olm_tests::lab::{LONG, Lab};
use olm_tests::nodes::Shape;
use oneagent_operator::api::daemonset_rollout::package::PACKAGE;
use serde_json::{Value, json};

use super::asked::{file, person};
use crate::explain::typed;
use crate::planned::{Dice, deleted};

/// What a plan says.
struct Planned {
    /// The nodes whose Pods are replaced, in order.
    nodes: Vec<String>,
    /// How many of them are canaries.
    canaries: usize,
    /// Whether one waits for the other. Of those that are deleted at once no plan knows which is Ready first.
    is_one_by_one: bool,
    /// The state that all ends in.
    state: String,
    whole: Value,
}

/// Asks what an object, as this file would make it, leads to.
fn ask(lab: &Lab<'_>, kubeconfig: &str, object: &Value) -> Planned {
    let args = ["plan", "--kind", "daemonsetrollout", "agent", "-o", "json", "-f", &file(lab, object)];
    let (code, text) = typed(lab, kubeconfig, &args);
    let mut all: Value = serde_json::from_str(&text).unwrap_or_else(|_| panic!("{text}"));
    let whole = all[0].take();
    let batches = whole["batches"].as_array().unwrap();
    let size = |batch: &Value| batch["nodes"].as_array().unwrap().len();
    let nodes = batches.iter().flat_map(|batch| batch["nodes"].as_array().unwrap());
    let nodes: Vec<String> = nodes.map(|node| node["node"].as_str().unwrap().to_owned()).collect();
    assert_eq!(code, Some(i32::from(!nodes.is_empty())), "{text}");
    Planned {
        canaries: batches.iter().filter(|batch| batch["canaries"] == true).map(size).sum(),
        is_one_by_one: batches.iter().all(|batch| size(batch) == 1),
        state: whole["state"].as_str().unwrap().to_owned(),
        nodes,
        whole,
    }
}

/// Makes the edit that was planned, waits until it has come about, and compares. Returns how many Pods were replaced.
async fn comes_true(lab: &Lab<'_>, object: &Value, planned: &Planned, story: &str) -> usize {
    let (before, nodes_of, done) = (lab.agent_uids().await, lab.agent_nodes().await, deleted(lab).len());
    lab.cluster.apply(&object.to_string());
    let plan = &planned.whole;
    eventually("it is as planned", LONG, || async {
        let (status, now) = (lab.rollout_status().await, lab.rollouts().get("agent").await.unwrap());
        let stored = lab.deployed().await;
        let rollout = status.rollout.unwrap_or_default();
        let nodes = status.nodes.unwrap_or_default();
        let set = status.daemon_set.unwrap_or_default();
        let is_current = status.observed_generation == now.metadata.generation
            && set.generation == stored.metadata.generation
            && set.revision.is_some();
        let is_there = is_current && rollout.state == planned.state && nodes.running == nodes.selected;
        if is_there { Ok(()) } else { Err(format!("{rollout:#?} {nodes:?} {set:?}\n{story}\nplan {plan:#}")) }
    })
    .await;
    let after = lab.agent_uids().await;
    let is_other = |(node, uid): &(&String, &String)| after.get(*node) != Some(uid);
    let replaced: BTreeSet<&String> = before.iter().filter(is_other).map(|(node, _)| node).collect();
    assert_eq!(replaced, planned.nodes.iter().collect(), "{story}\nplan {plan:#}");
    let order: Vec<&String> = deleted(lab)[done..].iter().filter_map(|pod| nodes_of.get(pod)).collect();
    assert_eq!(order.len(), planned.nodes.len(), "each once, and nobody else's: {order:?}\n{story}\nplan {plan:#}");
    let first = |nodes: &[&String]| nodes[..planned.canaries].iter().map(|node| (*node).clone()).collect();
    let wanted: Vec<&String> = planned.nodes.iter().collect();
    let (had, said): (BTreeSet<String>, BTreeSet<String>) = (first(&order), first(&wanted));
    assert_eq!(had, said, "the canaries: {order:?}\n{story}\nplan {plan:#}");
    if planned.is_one_by_one {
        assert_eq!(order, wanted, "{story}\nplan {plan:#}");
    }
    replaced.len()
}

/// Some edit of the policy, or of the template.
fn edit(dice: &mut Dice, spec: &mut Value, set: &mut Value) {
    let (rollout, template) = (&mut spec["rollout"], &mut set["spec"]["template"]);
    let always = json!([{ "start": "00:00", "duration": "168h" }]);
    let freeze = json!([{ "from": "2026-01-01T00:00:00Z", "to": "2099-01-01T00:00:00Z" }]);
    let canaries = [
        json!({ "nodes": 1, "soak": "1s" }),
        json!({ "nodes": 2, "soak": "1s" }),
        json!({ "selector": { "ring": "first" }, "soak": "1s" }),
        Value::Null,
    ];
    match dice.roll(&[0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 6, 7, 8, 9]) {
        0 => template["spec"]["containers"][0]["env"][0]["value"] = json!(dice.roll(&["a", "b", "c"])),
        1 => template["metadata"]["annotations"]["chart"] = json!(dice.roll(&["1", "2", "3"])),
        2 => template["metadata"]["labels"]["other"] = json!(dice.roll(&["1", "2", "3"])),
        3 => rollout["maxUnavailable"] = dice.roll(&[json!(1), json!(1), json!(2), json!("50%")]).clone(),
        4 => rollout["order"] = json!(dice.roll(&["ZoneByZone", "SpreadAcrossZones"])),
        5 => rollout["paused"] = json!(dice.roll(&[true, false, false])),
        6 => rollout["canary"] = dice.roll(&canaries).clone(),
        7 => rollout["maxUnavailablePerZone"] = dice.roll(&[json!(1), Value::Null]).clone(),
        8 => rollout["blackouts"] = dice.roll(&[freeze, Value::Null, Value::Null]).clone(),
        _ => rollout["windows"] = dice.roll(&[always, Value::Null]).clone(),
    }
    // What is null is not there.
    rollout.as_object_mut().unwrap().retain(|_, value| !value.is_null());
}

#[test]
fn what_a_plan_says_of_a_daemonset_is_what_happens() {
    olm_tests::run(async {
        let mut lab = Lab::of(&PACKAGE, "ds-planned", 0).await;
        for zone in ["a", "b", "c"] {
            lab.add_nodes(1, &Shape::default().zone(zone)).await;
            let ring = if zone == "b" { "first" } else { "last" };
            lab.add_nodes(1, &Shape::default().zone(zone).label("ring", ring)).await;
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
        let rounds = std::env::var("PLANS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(50);
        let seed = std::env::var("SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(3);
        let mut dice = Dice(seed);
        let mut replaced = 0;
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
            let planned = ask(&lab, &kubeconfig, &object);
            let story = format!("round {round}: from {old_spec} {old_set}\nto {object}");
            replaced += comes_true(&lab, &object, &planned, &story).await;
        }
        assert!(replaced > 0, "nothing was tried");
        lab.end().await;
    });
}

#[test]
fn an_edit_in_the_middle_of_a_soak_comes_as_planned() {
    olm_tests::run(async {
        let policy = json!({ "maxUnavailable": 1, "canary": { "nodes": 1, "soak": "1h" } });
        let lab = Lab::of_daemonset("ds-midway", 5, &policy).await;
        let kubeconfig = person(&lab).await;
        let before = lab.agent_uids().await;
        lab.deploy(&lab.daemonset_saying("two"));
        lab.rollout_says("Progressing", "1 node must stay available until").await;
        let now = lab.agent_uids().await;
        let stays = |(node, uid): &(&String, &String)| now.get(*node) == Some(*uid);
        let left: BTreeSet<&String> = before.iter().filter(stays).map(|(node, _)| node).collect();
        // Without canaries the others follow, each in its turn; the one that soaked stays.
        let edited = lab.rollout_object("agent", &json!({ "rollout": { "maxUnavailable": 1 } }));
        let planned = ask(&lab, &kubeconfig, &edited);
        assert_eq!((planned.nodes.iter().collect::<BTreeSet<_>>(), planned.is_one_by_one), (left, true));
        let replaced = comes_true(&lab, &edited, &planned, "the canaries are given up").await;
        assert_eq!((replaced, &*planned.state), (4, "Complete"));
        lab.agents_say("two", 5).await;
        lab.end().await;
    });
}
