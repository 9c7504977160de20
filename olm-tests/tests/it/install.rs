//! A OneAgent becomes agents on the right nodes, and its edits reach them.

use olm_tests::lab::{Lab, SOON, V1};
use olm_tests::nodes::Shape;
use serde_json::json;

#[test]
fn a_oneagent_becomes_agents_on_selected_and_tolerated_nodes() {
    olm_tests::run(async {
        let mut lab = Lab::new("install", 3).await;
        let tainted = lab.add_nodes(1, &Shape::default().taint("infra", "", "NoSchedule")).await;
        lab.oneagent(&json!({}));
        lab.all_at("agent", V1, 3, SOON).await;
        let status = lab.status("agent").await;
        assert_eq!(status.nodes.unwrap().untolerated, 1);
        lab.edit("agent", json!({ "tolerations": [{ "key": "infra", "operator": "Exists" }] })).await;
        lab.all_at("agent", V1, 4, SOON).await;
        assert!(lab.pods("agent").await.contains_key(&tainted[0]));
        lab.end().await;
    });
}
