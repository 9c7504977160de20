//! Rights that are missing: named, with what fixes it, and no agent is deleted for it.

use olm_tests::lab::{Lab, SOON, V1, V2};
use serde_json::json;

#[test]
fn every_refusal_is_reported_and_once_fixed_it_continues() {
    olm_tests::run(async {
        let mut lab = Lab::new("hostile-rights", 2).await;
        lab.oneagent(&json!({}));
        lab.all_at("agent", V1, 2, SOON).await;
        let before = lab.uids("agent").await;
        let (rights, began) = (lab.rights(), chrono::Utc::now());
        let without = |resource: &str, verb: &str| {
            let mut less = rights.clone();
            for rule in less.as_array_mut().unwrap().iter_mut().filter(|rule| rule["resources"][0] == resource) {
                rule["verbs"].as_array_mut().unwrap().retain(|has| has != verb);
            }
            less
        };
        lab.set_rights(&without("pods", "delete"));
        lab.cluster.vendor.publish(&lab.name, V2);
        let said = lab.condition("agent", "Degraded", "True", "RightsMissing").await;
        assert!(
            said.contains("cannot delete Pod hostile-rights/agent-") && said.contains("grant the operator"),
            "{said}"
        );
        assert_eq!(lab.uids("agent").await, before);
        lab.set_rights(&rights);
        lab.all_at("agent", V2, 2, SOON).await;
        lab.condition("agent", "Degraded", "False", "AsExpected").await;
        lab.unjudged = Some((began, chrono::Utc::now()));
        lab.end().await;
    });
}

#[test]
fn a_right_that_was_removed_is_named_and_no_agent_is_lost() {
    olm_tests::run(async {
        let mut lab = Lab::new("hostile-right", 2).await;
        lab.oneagent(&json!({}));
        lab.all_at("agent", V1, 2, SOON).await;
        let before = lab.uids("agent").await;
        let rights = lab.rights();
        let mut less = rights.clone();
        less.as_array_mut().unwrap().retain(|rule| rule["resources"][0] != "pods");
        let began = chrono::Utc::now();
        lab.set_rights(&less);
        lab.operators.clear();
        lab.cluster.vendor.publish(&lab.name, V2);
        lab.start_operator(&[]).await;
        let said = lab.condition("agent", "Degraded", "True", "RightsMissing").await;
        assert!(said.contains("pods of namespace hostile-right") && said.contains("grant the operator"), "{said}");
        assert_eq!(lab.uids("agent").await, before);
        lab.set_rights(&rights);
        lab.all_at("agent", V2, 2, SOON).await;
        lab.unjudged = Some((began, chrono::Utc::now()));
        lab.end().await;
    });
}
