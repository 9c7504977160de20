//! Many DaemonSetRollouts on one fleet: each has a budget of its own, and one that is in trouble delays no other.

use olm_tests::eventually;
use olm_tests::eyes::Eyes;
use olm_tests::kubelet::Fault;
use olm_tests::lab::{LONG, Lab, is_ready};
use oneagent_operator::api::daemonset_rollout::package::PACKAGE;
use serde_json::{Value, json};

/// How many DaemonSets there are, on so many nodes each.
const SETS: usize = 20;
const NODES: usize = 3;

fn set(lab: &Lab<'_>, number: usize, message: &str) -> Value {
    lab.daemonset_named(&format!("agent-{number}"), message)
}

#[test]
fn twenty_rollouts_on_one_fleet_keep_to_their_own_budgets_and_wait_for_no_other() {
    olm_tests::run(async {
        let lab = Lab::of(&PACKAGE, "ds-many", NODES).await;
        for number in 0..SETS {
            lab.deploy(&set(&lab, number, "one"));
            let name = format!("agent-{number}");
            lab.rollout_named(&name, &json!({ "daemonSet": name, "rollout": { "maxUnavailable": 1 } }));
        }
        // Two that nothing can be done for.
        lab.rollout_named("missing", &json!({ "daemonSet": "missing" }));
        let nowhere = json!([{ "start": "02:00", "duration": "1h", "timeZone": "Europe/Wien" }]);
        lab.rollout_named("agent", &json!({ "daemonSet": "missing", "rollout": { "windows": nowhere } }));
        let all = format!("lab={}", lab.name);
        let says = async |message: &str, count: usize| {
            eventually(&format!("{count} Pods say {message}"), LONG, || async {
                let pods = lab.labelled(&all).await;
                let said = |pod: &&k8s_openapi::api::core::v1::Pod| {
                    let env = pod.spec.iter().flat_map(|spec| spec.containers[0].env.iter().flatten());
                    is_ready(pod) && env.clone().any(|env| env.value.as_deref() == Some(message))
                };
                let found = pods.values().filter(said).count();
                if found == count && pods.len() == SETS * NODES { Ok(()) } else { Err(found.to_string()) }
            })
            .await;
        };
        says("one", SETS * NODES).await;
        lab.rollout_is("Degraded", "True", "InvalidSpec").await;
        let eyes = Eyes::on_replicas(&lab, "app=agent-7", NODES).await;
        // One stops at its first Pod, and the others go on.
        lab.fails("bad", Fault::CrashLoop);
        lab.deploy(&set(&lab, 0, "bad"));
        for number in 1..SETS {
            lab.deploy(&set(&lab, number, "two"));
        }
        says("two", (SETS - 1) * NODES).await;
        assert_eq!(eyes.seen().await.counts(), (1, NODES), "one at a time, each once");
        says("one", NODES - 1).await;
        let object = lab.rollouts().get("agent-0").await.unwrap().status.unwrap_or_default();
        let reasons: Vec<&str> = object.conditions.iter().map(|one| &*one.reason).collect();
        assert!(reasons.contains(&"RolloutFailed"), "{reasons:?}");
        lab.end().await;
    });
}
