//! `plan`: what it says would be replaced is what is replaced; and it writes nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::process::{Command, Output};

use kube::ResourceExt;
use olm_tests::eventually;
use olm_tests::lab::{Lab, SOON, V1, V2, V3, version_of};
use olm_tests::nodes::Shape;
use serde_json::{Value, json};

use crate::explain::on_call;

fn plan(lab: &Lab<'_>, kubeconfig: &str, args: &[&str]) -> Output {
    let mut command = Command::new(olm_tests::operator::binary());
    command.arg("plan").args(args).args(["-n", &lab.name]);
    command.env("KUBECONFIG", kubeconfig).output().unwrap()
}

fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// The OneAgent as the cluster has it, with a spec of its own, in a file.
fn file(lab: &Lab<'_>, spec: &Value) -> String {
    let agent = json!({ "apiVersion": "dynatrace.com/v1alpha1", "kind": "OneAgent",
        "metadata": { "name": "agent", "namespace": lab.name }, "spec": spec });
    let path = lab.cluster.path(&format!("{}.oneagent.yaml", lab.name));
    std::fs::write(&path, serde_yaml::to_string(&agent).unwrap()).unwrap();
    path.display().to_string()
}

fn names(value: &Value) -> BTreeSet<String> {
    value.as_array().unwrap().iter().map(|name| name.as_str().unwrap().to_owned()).collect()
}

/// The Pods that the operator has deleted, in order.
pub fn deleted(lab: &Lab<'_>) -> Vec<String> {
    let requests = lab.requests().into_iter();
    requests.filter(|r| r.resource == "pods" && r.verb == "delete" && r.code < 300).map(|r| r.name).collect()
}

/// Numbers that look random and are the same in every run.
pub struct Dice(pub u64);

impl Dice {
    pub fn roll<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        &of[usize::try_from(self.0 >> 33).unwrap() % of.len()]
    }
}

/// Some edit of a spec.
fn edit(dice: &mut Dice, spec: &Value) -> Value {
    let versions = [V1, V2, V3];
    let mut spec = spec.clone();
    let rollout = |spec: &mut Value, key: &str, value: Value| spec["rollout"][key] = value;
    let always = json!([{ "start": "00:00", "duration": "168h" }]);
    let freeze = json!([{ "from": "2026-01-01T00:00:00Z", "to": "2099-01-01T00:00:00Z" }]);
    match dice.roll(&[0, 0, 0, 1, 1, 2, 3, 4, 5, 6, 7, 8, 9]) {
        0 => spec["env"] = json!([{ "name": "SOMETHING", "value": dice.roll(&["a", "b", "c", "d"]) }]),
        1 => spec["update"] = json!({ "version": dice.roll(&versions), "allowDowngrade": true }),
        2 => rollout(&mut spec, "maxUnavailable", dice.roll(&[json!(1), json!(2), json!("50%")]).clone()),
        3 => rollout(&mut spec, "paused", json!(dice.roll(&[true, false, false]))),
        4 => rollout(&mut spec, "order", json!(dice.roll(&["ZoneByZone", "SpreadAcrossZones"]))),
        5 => rollout(&mut spec, "canary", dice.roll(&[json!({ "nodes": 1, "soak": "1s" }), Value::Null]).clone()),
        6 => rollout(&mut spec, "blackouts", dice.roll(&[freeze, json!([]), json!([])]).clone()),
        7 => rollout(&mut spec, "windows", dice.roll(&[always, json!([])]).clone()),
        8 => spec["nodeSelector"]["half"] = dice.roll(&[json!("yes"), Value::Null]).clone(),
        _ => spec["args"] = json!([format!("--set-host-group={}", dice.roll(&["a", "b"]))]),
    }
    // What is null is not there.
    for of in ["rollout", "nodeSelector"] {
        if let Some(of) = spec[of].as_object_mut() {
            of.retain(|_, value| !value.is_null());
        }
    }
    spec
}

/// Waits for what a plan said to have come about.
async fn came(lab: &Lab<'_>, plan: &Value, pods: &BTreeSet<String>) {
    lab.is_observed("agent").await;
    eventually("it is as planned", SOON, || async {
        let status = lab.status("agent").await;
        let rollout = status.rollout.clone().unwrap_or_default();
        let nodes = status.nodes.clone().unwrap_or_default();
        let there = lab.pods("agent").await;
        // The environment has heard of every agent: none updates itself here.
        let is_heard = there
            .iter()
            .all(|(node, pod)| status.instances.get(node).is_some_and(|instance| instance.version == version_of(pod)));
        let there: BTreeSet<String> = there.into_keys().collect();
        let is_done = rollout.state == plan["state"].as_str().unwrap_or_default()
            && nodes.version_unknown == 0
            && is_heard
            && nodes.running == nodes.selected
            && there == *pods;
        if is_done { Ok(()) } else { Err(format!("{plan:#}\n{rollout:#?} {nodes:?} {there:?}")) }
    })
    .await;
}

#[test]
fn what_a_plan_says_is_what_happens() {
    olm_tests::run(async {
        let mut lab = Lab::new("planned", 0).await;
        for zone in ["a", "b", "c"] {
            lab.add_nodes(1, &Shape::default().zone(zone)).await;
            lab.add_nodes(1, &Shape::default().zone(zone).label("half", "yes")).await;
        }
        lab.cluster.vendor.publish(&lab.name, V2);
        lab.cluster.vendor.publish(&lab.name, V3);
        lab.behave(|b| b.refuse_downgrade = false);
        let kubeconfig = on_call(&lab).await;
        lab.oneagent(&json!({ "rollout": {} }));
        lab.all_at("agent", V3, 6, SOON).await;
        let mut spec = serde_json::to_value(lab.agents().get("agent").await.unwrap()).unwrap()["spec"].take();
        let rounds = std::env::var("PLANS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(12);
        let seed = std::env::var("SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(7);
        let mut dice = Dice(seed);
        let mut replaced_in_all = 0;
        for round in 0..rounds {
            let edited = edit(&mut dice, &spec);
            let before = lab.pods("agent").await;
            let asked = deleted(&lab).len();
            let output = plan(&lab, &kubeconfig, &["-f", &file(&lab, &edited), "-o", "json"]);
            let planned: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", said(&output)));
            let planned = &planned[0];
            let restarts: Vec<String> = planned["batches"]
                .as_array()
                .unwrap()
                .iter()
                .flat_map(|batch| batch["nodes"].as_array().unwrap())
                .map(|node| node["node"].as_str().unwrap().to_owned())
                .collect();
            assert_eq!(output.status.code(), Some(i32::from(!restarts.is_empty())), "{}", said(&output));
            let story = format!("round {round}: from {spec}\nto {edited}\nplan {planned:#}");
            lab.cluster.kubectl(&[
                "-n",
                &lab.name,
                "patch",
                "oneagent",
                "agent",
                "--type=json",
                "-p",
                &json!([{ "op": "replace", "path": "/spec", "value": edited }]).to_string(),
            ]);
            let (gains, loses) = (names(&planned["gains"]), names(&planned["loses"]));
            let pods = before.keys().filter(|node| !loses.contains(*node)).chain(&gains).cloned().collect();
            came(&lab, planned, &pods).await;
            let after = lab.uids("agent").await;
            let changed = |(node, pod): &(&String, &k8s_openapi::api::core::v1::Pod)| {
                after.get(*node).is_some_and(|uid| pod.uid().as_deref() != Some(uid))
            };
            let replaced: BTreeSet<String> = before.iter().filter(changed).map(|(node, _)| node.clone()).collect();
            assert_eq!(replaced, restarts.iter().cloned().collect(), "{story}");
            let node_of: BTreeMap<String, &String> = before.iter().map(|(node, pod)| (pod.name_any(), node)).collect();
            let order: Vec<&String> =
                deleted(&lab)[asked..].iter().filter_map(|pod| node_of.get(pod).copied()).collect();
            let one_by_one =
                planned["batches"].as_array().unwrap().iter().all(|b| b["nodes"].as_array().unwrap().len() == 1);
            if one_by_one {
                assert_eq!(order, restarts.iter().collect::<Vec<_>>(), "{story}");
            }
            let canaries = planned["batches"].as_array().unwrap().iter().filter(|b| b["canaries"] == true);
            let canaries: usize = canaries.map(|batch| batch["nodes"].as_array().unwrap().len()).sum();
            assert_eq!(
                order[..canaries].iter().collect::<BTreeSet<_>>(),
                restarts[..canaries].iter().collect::<Vec<_>>().iter().collect::<BTreeSet<_>>(),
                "{story}"
            );
            replaced_in_all += replaced.len();
            spec = edited;
        }
        assert!(replaced_in_all > 0, "nothing was tried");
        lab.end().await;
    });
}

#[test]
fn a_plan_says_what_holds_it_and_what_cannot_be_said() {
    olm_tests::run(async {
        let mut lab = Lab::new("plan-held", 0).await;
        lab.add_nodes(3, &Shape::default().zone("a")).await;
        let kubeconfig = on_call(&lab).await;
        lab.oneagent(&json!({ "rollout": { "maxUnavailable": 1 } }));
        lab.all_at("agent", V1, 3, SOON).await;
        let spec = serde_json::to_value(lab.agents().get("agent").await.unwrap()).unwrap()["spec"].take();
        let ask = |change: Value, more: &[&str]| {
            let mut edited = spec.clone();
            for (key, value) in change.as_object().unwrap() {
                edited[key] = value.clone();
            }
            let file = file(&lab, &edited);
            let output = plan(&lab, &kubeconfig, &[&["-f", &file], more].concat());
            (output.status.code(), said(&output))
        };
        let env = json!([{ "name": "A", "value": "a-secret" }]);
        let differs = "  differs: containers[dynatrace-oneagent].env[A] is added";
        let (code, text) = ask(json!({ "env": env }), &[]);
        assert_eq!(code, Some(1), "{text}");
        assert!(text.contains(&format!("OneAgent plan-held/agent: agents stay at {V1}, and the Pod template changes")));
        assert!(text.lines().any(|line| line == differs) && !text.contains("a-secret"), "{text}");
        assert!(text.contains("3 nodes selected; 3 agents are replaced, in 3 batches"), "{text}");
        assert!(text.contains("finishes at ") && text.contains("(median of 3 that run)"), "{text}");
        // A window that opens in March, and one that never does.
        let march = json!({ "env": env, "rollout": { "maxUnavailable": 1,
            "blackouts": [{ "from": "2026-01-01T00:00:00Z", "to": "2027-03-01T00:00:00Z", "reason": "freeze" }] } });
        let (code, text) = ask(march.clone(), &["--at", "2027-02-27T12:00:00Z"]);
        assert_eq!(code, Some(1), "{text}");
        assert!(text.contains("waits: none is replaced in a blackout (freeze) until 2027-03-01T00:00:00Z"), "{text}");
        assert!(text.contains("1      2027-03-01T00:00:0"), "{text}");
        // The stop of everything: nothing is under way, and nothing will be.
        let stop = json!({ "apiVersion": "v1", "kind": "ConfigMap", "data": { "stop": "true" },
            "metadata": { "name": "oneagent-operator", "namespace": lab.name } });
        lab.cluster.apply(&stop.to_string());
        lab.condition("agent", "Progressing", "False", "Stopped").await;
        let (code, text) = ask(json!({ "env": env }), &[]);
        assert!(code == Some(0) && text.contains("ConfigMap oneagent-operator"), "{text}");
        lab.cluster.kubectl(&["-n", &lab.name, "delete", "configmap", "oneagent-operator"]);
        lab.condition("agent", "Progressing", "False", "AsExpected").await;
        let (code, text) = ask(json!({ "env": env, "rollout": { "paused": true } }), &[]);
        assert_eq!(code, Some(0), "{text}");
        let is_held = text.contains("no agent is replaced as things are") && text.contains("rollout.paused is true");
        assert!(is_held && text.contains(differs), "{text}");
        // Placement is outside of every budget.
        let nowhere = json!({ "nodeSelector": { "lab": "elsewhere" } });
        let (code, text) = ask(nowhere, &[]);
        assert_eq!(code, Some(0), "{text}");
        assert!(text.contains("3 nodes lose their agent, at once"), "{text}");
        // What cannot be said.
        let (code, text) = ask(json!({ "rollout": { "maxUnavailable": "x%" } }), &[]);
        assert_eq!(code, Some(2), "{text}");
        assert!(text.contains("OneAgent plan-held/agent: its spec is invalid") && text.contains("maxUnavailable"));
        let run = |args: &[&str], kubeconfig: &str| {
            let output = plan(&lab, kubeconfig, args);
            (output.status.code(), said(&output))
        };
        let (code, text) = run(&["agemt"], &kubeconfig);
        assert_eq!(code, Some(2));
        assert!(
            text.contains("there is no OneAgent agemt in namespace plan-held; the nearest name is agent"),
            "{text}"
        );
        let (code, text) = run(&["-f", "/nowhere.yaml"], &kubeconfig);
        assert_eq!((code, text.contains("cannot read /nowhere.yaml")), (Some(2), true), "{text}");
        let path = lab.cluster.path("plan-held.other.yaml");
        std::fs::write(&path, "kind: ConfigMap\napiVersion: v1\n").unwrap();
        let (code, text) = run(&["-f", &path.display().to_string()], &kubeconfig);
        assert_eq!((code, text.contains("holds no OneAgent")), (Some(2), true), "{text}");
        let (code, text) = run(&["agent"], "/nowhere");
        assert_eq!(code, Some(2), "{text}");
        lab.cluster.kubectl(&["delete", "clusterrolebinding", "on-call-plan-held"]);
        let (code, text) = run(&["agent"], &kubeconfig);
        assert_eq!((code, text.contains("cannot list oneagents")), (Some(2), true), "{text}");
        lab.end().await;
    });
}

#[test]
fn a_plan_of_another_source_of_versions_reads_it_or_says_that_it_cannot() {
    olm_tests::run(async {
        let lab = Lab::new("plan-list", 2).await;
        let kubeconfig = on_call(&lab).await;
        lab.oneagent(&json!({}));
        lab.all_at("agent", V1, 2, SOON).await;
        let spec = serde_json::to_value(lab.agents().get("agent").await.unwrap()).unwrap()["spec"].take();
        lab.edit("agent", json!({ "disableAgentUpdate": true })).await;
        lab.is_observed("agent").await;
        lab.cluster.vendor.publish(&lab.name, V2);
        lab.cluster.vendor.publish(&lab.name, V3);
        let ask = |update: Value| {
            let mut edited = spec.clone();
            edited["update"] = update;
            let output = plan(&lab, &kubeconfig, &["-f", &file(&lab, &edited)]);
            (output.status.code(), said(&output))
        };
        let from = |name: &str| json!({ "source": "ConfigMap", "configMap": { "name": name } });
        let (code, text) = ask(from("versions"));
        assert_eq!(code, Some(0), "{text}");
        assert!(text.contains("ConfigMap plan-list/versions does not exist"), "{text}");
        let (code, text) = ask(from("other"));
        assert_eq!(code, Some(2), "{text}");
        assert!(text.contains("cannot get ConfigMap plan-list/other"), "{text}");
        let list = |text: &str| {
            let map = json!({ "apiVersion": "v1", "kind": "ConfigMap",
                "metadata": { "name": "versions", "namespace": lab.name }, "data": { "versions": text } });
            lab.cluster.apply(&map.to_string());
        };
        list(V2);
        let (code, text) = ask(from("versions"));
        assert_eq!(code, Some(1), "{text}");
        assert!(text.contains(V2) && text.contains("2 agents are replaced"), "{text}");
        let before = lab.uids("agent").await;
        lab.edit("agent", json!({ "update": from("versions"), "disableAgentUpdate": false })).await;
        lab.all_at("agent", V2, 2, SOON).await;
        assert!(lab.uids("agent").await.iter().all(|(node, uid)| before[node] != *uid));
        // The list is not what the status tells: it may have changed since.
        list(&format!("{V3}\n{V2}"));
        lab.all_at("agent", V3, 2, SOON).await;
        let (code, text) = ask(json!({ "source": "Api" }));
        assert_eq!(code, Some(2), "{text}");
        assert!(text.contains("spec.update.source only its environment knows"), "{text}");
        lab.end().await;
    });
}

#[test]
fn a_plan_names_what_must_be_corrected_first_and_who_keeps_the_nodes() {
    olm_tests::run(async {
        let lab = Lab::new("planned-cause", 2).await;
        let kubeconfig = lab.cluster.kubeconfig().display().to_string();
        lab.cluster.kubectl(&["-n", &lab.name, "delete", "secret", "tokens"]);
        lab.oneagent(&json!({}));
        lab.condition("agent", "PaaSToken", "False", "TokenSecretNotFound").await;
        let before = said(&plan(&lab, &kubeconfig, &["agent"]));
        assert!(before.contains("first: ") && before.contains("tokens does not exist; create it"), "{before}");
        lab.secret(&olm_tests::vendor::api_token(&lab.name), &olm_tests::vendor::paas_token(&lab.name));
        lab.all_at("agent", V1, 2, SOON).await;
        let after = said(&plan(&lab, &kubeconfig, &["agent"]));
        assert!(!after.contains("first: "), "{after}");

        // A second one for the same nodes: said before it is applied.
        let spec = lab.agents().get("agent").await.unwrap().spec;
        let mut second: Value =
            serde_yaml::from_str(&std::fs::read_to_string(file(&lab, &json!(spec))).unwrap()).unwrap();
        second["metadata"]["name"] = json!("second");
        let path = lab.cluster.path("planned-cause.second.yaml");
        std::fs::write(&path, second.to_string()).unwrap();
        let said = said(&plan(&lab, &kubeconfig, &["-f", &path.display().to_string()]));
        let words = format!("OneAgent {}/agent selects 2 of these nodes too", lab.name);
        assert!(said.contains("0 nodes selected") && said.contains(&words), "{said}");
        lab.end().await;
    });
}
