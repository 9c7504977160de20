//! Subscription to agents, in every install mode, and by whom.

use std::time::Duration;

use olm_tests::lab::{Lab, V1, V2};
use olm_tests::nodes::Shape;
use olm_tests::olm::{NEXT, Olm, Wish};
use serde_json::json;

const MINUTE: Duration = Duration::from_secs(60);

/// Agents on plain and tainted nodes of a namespace, installed and updated.
async fn agents(olm: &Olm, namespace: &str) {
    let mut lab = Lab::in_namespace(&olm.cluster, namespace, 3).await;
    lab.add_nodes(2, &Shape::default().taint("node-role.kubernetes.io/infra", "", "NoSchedule")).await;
    lab.oneagent(&json!({ "tolerations": [{ "key": "node-role.kubernetes.io/infra", "operator": "Exists" }] }));
    lab.all_at("agent", V1, 5, MINUTE).await;
    olm.cluster.vendor.publish(namespace, V2);
    lab.all_at("agent", V2, 5, MINUTE).await;
}

#[test]
fn own_namespace_a_subscription_becomes_an_operator_and_its_agents() {
    olm_tests::run(async {
        let olm = Olm::start(&[]).await;
        olm.publish(&[olm.release(NEXT)]).await;
        olm.namespace("dynatrace");
        olm.subscribe(&Wish::own("dynatrace", &["dynatrace"]));
        olm.installed("dynatrace", NEXT).await;
        agents(&olm, "dynatrace").await;
        olm.judge("dynatrace");
    });
}
