//! `plan` and `explain` of a DaemonSetRollout, as a person reads them: what an edit changes, and a cause for each node.

use olm_tests::kubelet::Fault;
use olm_tests::lab::Lab;
use olm_tests::nodes::patch;
use olm_tests::run;
use serde_json::{Value, json};

use crate::explain::{on_call_with, typed};

/// An account that may read, and try an edit of a DaemonSet.
pub(super) async fn person(lab: &Lab<'_>) -> String {
    let tries = json!({ "apiGroups": ["apps"], "resources": ["daemonsets"], "verbs": ["patch", "update"] });
    on_call_with(lab, "daemonset-rollout-operator", tries).await
}

/// A file with this object.
pub(super) fn file(lab: &Lab<'_>, object: &Value) -> String {
    let path = lab.cluster.path(&format!("{}.{}.yaml", lab.name, object["kind"].as_str().unwrap()));
    std::fs::write(&path, serde_yaml::to_string(object).unwrap()).unwrap();
    path.display().to_string()
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
