//! A node between its two agents for longer than it should be, while other events happen. It keeps its place in the
//! budget.

use kube::ResourceExt;
use olm_tests::eventually;
use olm_tests::kubelet::Fault;
use olm_tests::lab::{LONG, Lab, SOON, V1, V2, is_ready, version_of};
use olm_tests::nodes;
use serde_json::json;

#[test]
fn a_node_whose_next_agent_is_refused_keeps_its_place_across_cordons_and_restarts() {
    olm_tests::run(async {
        let mut lab = Lab::new("between-quota", 5).await;
        let rollout = json!({ "maxUnavailable": 1 });
        lab.oneagent(&json!({ "waitReadySeconds": 4, "rollout": rollout }));
        lab.all_at("agent", V1, 5, SOON).await;
        let quota = json!({ "apiVersion": "v1", "kind": "ResourceQuota",
            "metadata": { "name": "none", "namespace": lab.name }, "spec": { "hard": { "pods": "0" } } });
        lab.cluster.apply(&quota.to_string());
        let before = lab.uids("agent").await;
        lab.cluster.vendor.publish(&lab.name, V2);
        let node = eventually("one agent is gone", SOON, || async {
            let now = lab.uids("agent").await;
            before.keys().find(|node| !now.contains_key(*node)).cloned().ok_or_else(|| format!("{now:?}"))
        })
        .await;
        lab.says("agent", "Degraded", "exceeded quota").await;
        let left = lab.uids("agent").await;
        assert_eq!(left.len(), 4);
        let cordon = |on: bool| json!({ "spec": { "unschedulable": on } });
        let stands = async |what: &str, lab: &Lab<'_>| {
            // Two looks: one that sees it, and one that knows what the first did.
            lab.is_looked_at().await;
            lab.is_looked_at().await;
            assert_eq!(lab.uids("agent").await, left, "{what}");
        };
        for restart in [false, true] {
            nodes::patch(&lab.cluster.client, &node, &cordon(true)).await;
            stands("cordoned", &lab).await;
            if restart {
                lab.operators[0].process.kill();
                lab.operators.clear();
                lab.start_operator(&[]).await;
                stands("another operator", &lab).await;
            }
            nodes::patch(&lab.cluster.client, &node, &cordon(false)).await;
            stands("no longer cordoned", &lab).await;
        }
        assert!(lab.status("agent").await.rejected_versions.is_empty());
        lab.cluster.kubectl(&["-n", &lab.name, "delete", "resourcequota", "none"]);
        lab.all_at("agent", V2, 5, LONG).await;
        assert_eq!(lab.pods("agent").await.values().filter(|pod| is_ready(pod)).count(), 5);
        lab.end().await;
    });
}

#[test]
fn one_node_whose_pod_a_policy_refuses_holds_no_other_and_is_said_cordoned_or_not_and_beside_agents_left_over() {
    olm_tests::run(async {
        let lab = Lab::new("between-policy", 7).await;
        // Not so short that the template is put back because nothing moves.
        lab.oneagent(&json!({ "waitReadySeconds": 120, "rollout": { "maxUnavailable": 2 } }));
        lab.all_at("agent", V1, 7, SOON).await;
        let node = &lab.nodes[2];
        // An agent that runs on where no new one may start makes up for none that is refused.
        let taint = |taints: serde_json::Value| json!({ "spec": { "taints": taints } });
        let tainted = taint(json!([{ "key": "x", "effect": "NoSchedule" }]));
        nodes::patch(&lab.cluster.client, &lab.nodes[6], &tainted).await;
        lab.wants("agent", 6).await;
        let terms =
            "object.spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms";
        let policy = json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
            "metadata": { "name": lab.name },
            "spec": {
                "matchConstraints": { "resourceRules": [{ "apiGroups": [""], "apiVersions": ["v1"],
                    "operations": ["CREATE"], "resources": ["pods"] }] },
                "validations": [{ "message": "nothing privileged on this node",
                    "expression": format!("!{terms}.exists(t, t.matchFields.exists(f, '{node}' in f.values))") }],
            },
        });
        let binding = json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": { "name": lab.name },
            "spec": { "policyName": lab.name, "validationActions": ["Deny"], "matchResources": { "namespaceSelector": {
                "matchLabels": { "kubernetes.io/metadata.name": lab.name } } } },
        });
        lab.cluster.apply(&format!("{policy}\n---\n{binding}"));
        let of_that_node = json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "tried" }, "spec": {
            "containers": [{ "name": "c", "image": "i" }],
            "affinity": { "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": { "nodeSelectorTerms": [
                { "matchFields": [{ "key": "metadata.name", "operator": "In", "values": [node] }] }] } } } } });
        let try_one = ["-n", &lab.name, "create", "--dry-run=server", "-f", "-"];
        eventually("the policy is enforced", SOON, || async {
            let tried = lab.cluster.try_kubectl(&try_one, Some(&of_that_node.to_string()));
            tried.err().map(drop).ok_or_else(|| "not yet".to_owned())
        })
        .await;
        lab.cluster.vendor.publish(&lab.name, V2);
        lab.says("agent", "Degraded", "nothing privileged on this node").await;
        let cordon = |on: bool| json!({ "spec": { "unschedulable": on } });
        for on in [true, false] {
            nodes::patch(&lab.cluster.client, node, &cordon(on)).await;
            lab.is_looked_at().await;
            lab.is_looked_at().await;
            lab.says("agent", "Degraded", "nothing privileged on this node").await;
        }
        eventually("all others have the new agent", LONG, || async {
            // Where the refused Pod happens to be its first, the DaemonSet controller makes no other until it looks
            // again: in a cluster in which something happens it does so more often.
            lab.looks_again("agent").await;
            let pods = lab.pods("agent").await;
            let have_it = pods.values().filter(|pod| is_ready(pod) && version_of(pod).as_deref() == Some(V2)).count();
            if have_it == 5 { Ok(()) } else { Err(format!("{have_it} of 5")) }
        })
        .await;
        // What is wrong with another one is said beside it.
        let ill = &lab.nodes[3];
        lab.behave(|b| b.nodes.extend([(ill.clone(), Fault::ImagePull)]));
        lab.cluster.kubectl(&["-n", &lab.name, "delete", "pod", &lab.pods("agent").await[ill].name_any()]);
        lab.makes("agent", 6).await;
        lab.says("agent", "Degraded", &format!("{ill}: ")).await;
        lab.says("agent", "Degraded", "nothing privileged on this node").await;
        lab.behave(|b| b.nodes.clear());
        assert!(lab.status("agent").await.rejected_versions.is_empty());
        for kind in ["validatingadmissionpolicybinding", "validatingadmissionpolicy"] {
            lab.cluster.kubectl(&["delete", kind, &lab.name]);
        }
        nodes::patch(&lab.cluster.client, &lab.nodes[6], &taint(json!([]))).await;
        lab.all_at("agent", V2, 7, LONG).await;
        lab.end().await;
    });
}
