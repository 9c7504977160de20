//! What it is for: a new template reaches every node once, canaries first and within the budget, and stops where it
//! fails; and which Pods it does not concern.

use olm_tests::eyes::Eyes;
use olm_tests::kubelet::Fault;
use olm_tests::lab::Lab;
use olm_tests::lab::daemonset_rollout::AGENTS;
use serde_json::json;

#[test]
fn a_new_template_reaches_canaries_first_and_then_every_node_once_within_the_budget() {
    olm_tests::run(async {
        let lab =
            Lab::of_daemonset("ds-good", 6, &json!({ "maxUnavailable": 2, "canary": { "nodes": 1, "soak": "5s" } }))
                .await;
        let first = lab.revision().await;
        let eyes = Eyes::on_replicas(&lab, AGENTS, 6).await;
        lab.deploy(&lab.daemonset_saying("two"));
        lab.rollout_is("Progressing", "True", "TemplateSettling").await;
        let waits = lab.rollout_is("Progressing", "True", "RollingOut").await;
        assert!(waits.contains("canaries"), "{waits}");
        lab.agents_say("two", 6).await;
        let message = lab.rollout_is("Ready", "True", "AllUpdated").await;
        assert_eq!(message, "all 6 nodes that can run a Pod run one of the current revision");
        let seen = eyes.seen().await;
        assert_eq!(seen.counts(), (2, 6), "at most two at once, each once");
        assert_eq!(seen.others_ready[..2], [5, 5], "the canary ran before the next one went");
        let status = lab.rollout_status().await;
        let set = status.daemon_set.unwrap();
        assert_eq!((set.strategy.as_str(), set.images), ("OnDelete", vec!["agent:1".to_owned()]));
        assert_ne!(set.revision.as_deref(), Some(&*first));
        let rollout = status.rollout.unwrap();
        let ends = rollout.history.iter().map(|past| (&*past.result, past.from.as_deref(), &past.to));
        let ends: Vec<_> = ends.collect();
        assert_eq!(ends, [("Complete", Some(&*first), &set.revision)]);
        assert_eq!(rollout.last_good_hash, set.revision);
        let (_, metrics) = lab.operators[0].get("/metrics").await.unwrap();
        let gaps = "daemonsetrollout_replacement_seconds_count 6\n";
        let left = "daemonsetrollout_rollout_nodes{namespace=\"ds-good\",name=\"agent\",state=\"left\"} 0\n";
        assert!(metrics.contains(gaps) && metrics.contains(left), "{metrics}");
        let writes = lab.writes();
        let only = ["delete pods", "patch daemonsetrollouts", "create events"];
        assert!(writes.iter().all(|write| only.iter().any(|one| write.starts_with(one))), "{writes:?}");
        lab.end().await;
    });
}

#[test]
fn a_template_that_crashes_stops_at_the_canary_with_the_way_to_roll_back() {
    olm_tests::run(async {
        let lab = Lab::of_daemonset("ds-bad", 5, &json!({ "canary": { "nodes": 1, "soak": "5s" } })).await;
        let good = lab.revision().await;
        lab.fails("two", Fault::CrashLoop);
        let eyes = Eyes::on_replicas(&lab, AGENTS, 5).await;
        lab.deploy(&lab.daemonset_saying("two"));
        let message = lab.rollout_is("Degraded", "True", "RolloutFailed").await;
        let number = lab.numbers().await[&good];
        let back = format!("kubectl -n ds-bad rollout undo daemonset/agent --to-revision={number}");
        assert!(message.contains(&back), "{message}");
        let bad = lab.another_revision(&good).await;
        assert!(message.contains(&format!("revision {bad} failed on 1 of 1 nodes")), "{message}");
        assert_eq!(eyes.seen().await.deletions.len(), 1);
        // As the message says: it is rolled back, and the one that failed is replaced at once.
        lab.cluster.kubectl(&[
            "-n",
            "ds-bad",
            "rollout",
            "undo",
            "daemonset/agent",
            &format!("--to-revision={number}"),
        ]);
        lab.agents_say("one", 5).await;
        lab.rollout_is("Ready", "True", "AllUpdated").await;
        lab.rollout_is("Degraded", "False", "AsExpected").await;
        assert_eq!(eyes.seen().await.deletions.len(), 2, "the others never left that revision");
        let history = lab.rollout_status().await.rollout.unwrap().history;
        let ends: Vec<_> = history.iter().map(|past| (&*past.result, past.to.as_deref().unwrap())).collect();
        assert_eq!(ends, [("Complete", &*good), ("Failed", &*bad)], "{history:#?}");
        assert_eq!((history[0].from.as_deref(), history[1].from.as_deref()), (None, Some(&*good)), "{history:#?}");
        let events = lab.events("agent").await;
        assert_eq!(events.iter().filter(|event| event.contains("RolloutFailed: ")).count(), 1, "{events:?}");
        lab.end().await;
    });
}

#[test]
fn while_kubernetes_replaces_the_pods_itself_nothing_is_deleted_and_the_message_says_what_to_set() {
    olm_tests::run(async {
        let lab = Lab::of_daemonset("ds-rolling", 3, &json!({})).await;
        let mut daemonset = lab.daemonset_saying("two");
        daemonset["spec"]["updateStrategy"] =
            json!({ "type": "RollingUpdate", "rollingUpdate": { "maxUnavailable": 1 } });
        lab.deploy(&daemonset);
        let message = lab.rollout_is("Degraded", "True", "NotOnDelete").await;
        assert!(message.contains("kubectl -n ds-rolling patch daemonset agent --type merge"), "{message}");
        lab.agents_say("two", 3).await;
        lab.rollout_is("Ready", "True", "AllUpdated").await;
        assert!(!lab.writes().iter().any(|write| write.starts_with("delete")), "{:?}", lab.writes());
        // What the message says: no Pod restarts for that, and the next template is rolled out by us.
        let patch = message.split("-p '").nth(1).unwrap().split('\'').next().unwrap();
        lab.cluster.kubectl(&["-n", "ds-rolling", "patch", "daemonset", "agent", "--type", "merge", "-p", patch]);
        lab.rollout_is("Degraded", "False", "AsExpected").await;
        lab.cluster.kubectl(&["-n", "ds-rolling", "rollout", "restart", "daemonset/agent"]);
        lab.rollout_is("Ready", "False", "RollingOut").await;
        lab.rollout_is("Ready", "True", "AllUpdated").await;
        assert_eq!(lab.writes().iter().filter(|write| write.starts_with("delete")).count(), 3);
        lab.end().await;
    });
}

#[test]
fn what_may_not_be_served_is_said_with_the_remedy_and_the_older_of_two_has_the_daemonset() {
    olm_tests::run(async {
        let lab = Lab::of_daemonset("ds-owned", 2, &json!({})).await;
        let says = async |reason: &str, words: &str| {
            let message = lab.rollout_is("Degraded", "True", reason).await;
            assert!(message.contains(words), "{message}");
        };
        // What the API server can see it refuses.
        for (wrong, why) in [
            (json!({ "daemonSet": "" }), "spec.daemonSet"),
            (json!({ "daemonSet": "Agent" }), "spec.daemonSet"),
            (json!({ "debounceSeconds": 1 }), "greater than or equal to 3"),
            (json!({ "rollout": { "retry": "Seven" } }), "retry must be a controller-revision-hash"),
            (json!({ "rollout": { "promote": "7-" } }), "promote must be a controller-revision-hash"),
            (json!({ "rollout": { "reject": "" } }), "reject must be a controller-revision-hash"),
            (json!({ "rollout": { "maxUnavailable": "0%" } }), "maxUnavailable must be"),
            (json!({ "rollout": { "canary": { "nodes": 1, "selector": { "a": "b" } } } }), "either a number"),
            (json!({ "rollout": { "canary": { "promotion": "Perhaps" } } }), "Perhaps"),
        ] {
            let patch = json!({ "spec": wrong }).to_string();
            let args = ["-n", &lab.name, "patch", "dsr", "agent", "--type=merge", "-p", &patch];
            let refused = lab.cluster.try_kubectl(&args, None).unwrap_err();
            assert!(refused.contains(why), "{refused}");
        }
        lab.edit_rollout(json!({ "daemonSet": "agnet" })).await;
        says("DaemonSetNotFound", "the nearest name is agent").await;
        lab.edit_rollout(json!({ "daemonSet": "agent", "ignore": ["helm.sh/chart"] })).await;
        says("InvalidSpec", "spec.ignore[0] is helm.sh/chart").await;
        lab.edit_rollout(json!({ "ignore": null })).await;
        lab.rollout_is("Degraded", "False", "AsExpected").await;
        // Its controller may replace its Pods, too. It must be there: otherwise the garbage collector takes what it
        // owns.
        lab.cluster.apply(
            &json!({ "apiVersion": "dynatrace.com/v1alpha1", "kind": "OneAgent",
            "metadata": { "name": "it", "namespace": lab.name },
            "spec": { "apiUrl": "https://it.example/api" } })
            .to_string(),
        );
        let uid = lab.cluster.kubectl(&["-n", &lab.name, "get", "oneagent", "it", "-o", "jsonpath={.metadata.uid}"]);
        let owner = |kind: &str, group: &str| {
            let mut daemonset = lab.daemonset_saying("one");
            daemonset["metadata"]["ownerReferences"] = json!([{ "apiVersion": group, "kind": kind, "name": "it",
                "uid": uid,
                "controller": true }]);
            daemonset
        };
        lab.deploy(&owner("DatadogAgentInternal", "datadoghq.com/v1alpha1"));
        says("OwnerNotAccepted", "DatadogAgentInternal it").await;
        lab.edit_rollout(json!({ "acceptOwner": true })).await;
        lab.rollout_is("Degraded", "False", "AsExpected").await;
        lab.deploy(&owner("OneAgent", "dynatrace.com/v1alpha1"));
        says("OtherController", "OneAgent it").await;
        lab.deploy(&lab.daemonset_saying("one"));
        lab.rollout_is("Degraded", "False", "AsExpected").await;
        lab.rollout_named("younger", &json!({}));
        olm_tests::eventually("the younger one says so", olm_tests::lab::SOON, || async {
            let status = lab.rollouts().get("younger").await.unwrap().status.unwrap_or_default();
            let degraded = status.conditions.iter().find(|one| one.type_ == "Degraded");
            let message = degraded.filter(|one| one.reason == "Duplicate").map(|one| one.message.clone());
            message.filter(|said| said.contains("DaemonSetRollout agent, which is older")).ok_or(format!("{status:?}"))
        })
        .await;
        assert!(!lab.writes().iter().any(|write| write.starts_with("delete")), "{:?}", lab.writes());
        lab.end().await;
    });
}

#[test]
fn a_person_promotes_what_the_canaries_run_or_rejects_it_by_the_commands_of_the_message() {
    olm_tests::run(async {
        let canary = json!({ "nodes": 1, "soak": "1s", "promotion": "Manual" });
        let lab = Lab::of_daemonset("ds-word", 4, &json!({ "maxUnavailable": 2, "canary": canary })).await;
        let eyes = Eyes::on_replicas(&lab, AGENTS, 4).await;
        // The commands of the message, as they stand there.
        let says = async |nth: usize| {
            let message = lab.rollout_is("Progressing", "True", "AwaitingPromotion").await;
            let patch = message.split("-p '").nth(nth).unwrap().split('\'').next().unwrap().to_owned();
            lab.cluster.kubectl(&["-n", "ds-word", "patch", "dsr", "agent", "--type=merge", "-p", &patch]);
        };
        lab.deploy(&lab.daemonset_saying("two"));
        lab.agents_say("two", 1).await;
        says(1).await;
        lab.agents_say("two", 4).await;
        lab.rollout_is("Ready", "True", "AllUpdated").await;
        lab.deploy(&lab.daemonset_saying("three"));
        lab.agents_say("three", 1).await;
        says(2).await;
        let message = lab.rollout_is("Degraded", "True", "RolloutFailed").await;
        assert!(message.contains("was rejected by hand (spec.rollout.reject), on 1 of 4 nodes"), "{message}");
        assert_eq!(eyes.seen().await.deletions.len(), 5, "four, and the canary");
        lab.deploy(&lab.daemonset_saying("two"));
        lab.agents_say("two", 4).await;
        lab.rollout_is("Degraded", "False", "AsExpected").await;
        lab.end().await;
    });
}
