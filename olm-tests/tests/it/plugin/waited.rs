//! `status --wait`: the code says what has come, whatever happens meanwhile; and `-w` without a terminal.

use olm_tests::cluster::Cluster;
use olm_tests::eventually;
use olm_tests::kubelet::Fault;
use olm_tests::lab::{Lab, SHORT_LEASE, SOON, V1, V2, V3};
use serde_json::json;

use super::{Came, Person};

#[test]
fn a_wait_ends_as_what_it_waits_for_does() {
    olm_tests::run(async {
        let lab = Lab::new("plugin-waits", 3).await;
        lab.oneagent(&json!({ "waitReadySeconds": 5, "rollout": { "maxUnavailable": 1, "canary": { "soak": "2s" } } }));
        lab.all_at("agent", V1, 3, SOON).await;
        lab.condition("agent", "Ready", "True", "AllUpdated").await;
        let person = Person::who_observes(&lab).await;
        let wait = |more: &[&'static str]| [&["status", "agent", "--wait"], more].concat();
        assert!(person.says(0, &wait(&[])).contains("Complete"), "it is so already");
        let canaries = person.typing(&wait(&["--for", "canaries", "--version", V2]));
        let done = person.typing(&wait(&["--version", "1.301"]));
        lab.cluster.vendor.publish(&lab.name, V2);
        let Came { code, said, noted } = canaries.wait().await;
        assert_eq!(code, Some(0), "{said}{noted}");
        let Came { code, said, noted } = done.wait().await;
        assert_eq!(code, Some(0), "{said}{noted}");
        let lines: Vec<&str> = said.lines().collect();
        assert!(
            lines.len() >= 3
                && lines.last().unwrap().contains(&format!("Complete: desired agents (version {V2}) on 3/3")),
            "{said}"
        );
        assert!(lines.windows(2).all(|two| two[0][9..] != two[1][9..]), "one line for each change: {said}");
        // What fails ends it once that has lasted, and what had failed before does not.
        lab.behave(|b| {
            b.versions.insert(V3.to_owned(), Fault::CrashLoop);
        });
        let fails = person.typing(&wait(&[]));
        let at_once = person.typing(&wait(&["--fail-fast", "--version", V3]));
        let Came { code, .. } = fails.wait().await;
        assert_eq!(code, Some(0), "nothing is published yet, so all is well");
        let fails = person.typing(&wait(&["--version", V3]));
        lab.cluster.vendor.publish(&lab.name, V3);
        for waits in [at_once, fails] {
            let Came { code, said, noted } = waits.wait().await;
            assert_eq!(code, Some(1), "{said}{noted}");
            assert!(said.contains("RolloutFailed"), "{said}");
        }
        let Came { code, said, .. } = person.typing(&wait(&["--timeout", "7s"])).wait().await;
        assert_eq!(code, Some(3), "{said}");
        assert!(
            said.contains("OneAgent plugin-waits/agent: the end of the rollout was not reached in time"),
            "it had failed before: {said}"
        );
        lab.edit("agent", json!({ "rollout": { "paused": true } })).await;
        person.says(0, &wait(&["--for", "paused"]));
        let before = person.watches();
        let deleted = person.typing(&wait(&["--version", "1.999"]));
        eventually("it waits", SOON, || async {
            if person.watches() > before { Ok(()) } else { Err(before.to_string()) }
        })
        .await;
        lab.agents().delete("agent", &kube::api::DeleteParams::default()).await.unwrap();
        let Came { code, noted, .. } = deleted.wait().await;
        assert!(code == Some(2) && noted.contains("was deleted"), "{noted}");
        lab.end().await;
    });
}

#[test]
fn a_wait_outlives_an_api_server_that_is_unreachable_for_a_time() {
    olm_tests::run(async {
        let lab = Lab::new("plugin-cut", 2).await;
        lab.oneagent(&json!({}));
        lab.all_at("agent", V1, 2, SOON).await;
        lab.condition("agent", "Ready", "True", "AllUpdated").await;
        let mut person = Person::who_observes(&lab).await;
        let relay = person.behind_a_relay().await;
        let mut waits = person.typing(&["status", "agent", "--wait", "--version", V2]);
        eventually("it waits", SOON, || async {
            if person.watches() > 0 { Ok(()) } else { Err("no watch".to_owned()) }
        })
        .await;
        relay.cut(true);
        lab.cluster.vendor.publish(&lab.name, V2);
        lab.all_at("agent", V2, 2, SOON).await;
        lab.condition("agent", "Ready", "True", "AllUpdated").await;
        assert!(waits.goes_on(), "what it cannot see has not come");
        let cut_off = person.types(&["status", "agent"]);
        assert!(cut_off.code == Some(2) && cut_off.noted.contains("does not answer"), "{}", cut_off.noted);
        relay.cut(false);
        let Came { code, said, noted } = waits.wait().await;
        assert_eq!(code, Some(0), "{said}{noted}");
        let of_outage = |line: &&str| line.contains("watch was interrupted") || line.contains("does not answer");
        assert_eq!(said.lines().filter(of_outage).count(), 1, "{said}");
        assert_eq!(said.matches(&format!("Complete: desired agents (version {V1})")).count(), 1, "{said}");
        lab.end().await;
    });
}

#[test]
fn what_no_operator_has_looked_at_has_not_come() {
    olm_tests::run(async {
        let mut lab = Lab::without_operator(Cluster::shared().await, "plugin-away", 1).await;
        lab.start_operator(&SHORT_LEASE).await;
        lab.oneagent(&json!({}));
        lab.all_at("agent", V1, 1, SOON).await;
        lab.condition("agent", "Ready", "True", "AllUpdated").await;
        lab.operators[0].process.kill();
        let person = Person::who_observes(&lab).await;
        eventually("the Lease is over", SOON, || async {
            let said = person.types(&["status", "agent"]).said;
            if said.contains("the operator: does not run") { Ok(()) } else { Err(said) }
        })
        .await;
        let Came { code, said, .. } = person.typing(&["status", "agent", "--wait", "--timeout", "2s"]).wait().await;
        assert_eq!(code, Some(3), "{said}");
        let is_told = said.contains("the operator does not run: Lease ") && said.contains(" was renewed at ");
        assert!(is_told, "{said}");
        let waits = person.typing(&["status", "agent", "--wait", "--timeout", "240s"]);
        lab.operators.clear();
        lab.start_operator(&SHORT_LEASE).await;
        let Came { code, said, noted } = waits.wait().await;
        assert_eq!(code, Some(0), "{said}{noted}");
        lab.end().await;
    });
}
