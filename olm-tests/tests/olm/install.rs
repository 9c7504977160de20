//! Subscription to agents, in every install mode, and by which user.

use std::time::Duration;

use olm_tests::eventually;
use olm_tests::lab::{Lab, SOON, V1, V2};
use olm_tests::nodes::Shape;
use olm_tests::olm::{NEXT, Olm, PACKAGE, Wish};
use oneagent_operator::api::oneagent::package::PACKAGE as ROW;
use serde_json::json;

const PATIENCE: Duration = Duration::from_secs(180);

/// Agents on plain and tainted nodes of a namespace, installed and updated.
async fn agents(olm: &Olm, namespace: &str) {
    agents_of(Lab::in_namespace(&olm.cluster, namespace, 3).await).await;
}

async fn agents_of(mut lab: Lab<'_>) {
    lab.add_nodes(2, &Shape::default().taint("node-role.kubernetes.io/infra", "", "NoSchedule")).await;
    lab.oneagent(&json!({ "tolerations": [{ "key": "node-role.kubernetes.io/infra", "operator": "Exists" }] }));
    lab.all_at("agent", V1, 5, PATIENCE).await;
    lab.cluster.vendor.publish(&lab.name, V2);
    lab.all_at("agent", V2, 5, PATIENCE).await;
    // What OLM writes into the operator's Pod template stays there.
    let daemonset = lab.daemonset("agent").await.unwrap();
    let template = daemonset.spec.unwrap().template.metadata.unwrap();
    assert!(
        !template.annotations.unwrap_or_default().keys().any(|key| key.starts_with("olm.") || key.starts_with("alm-"))
    );
}

/// The same in a namespace beside the operator's: the agents' ServiceAccounts are not there automatically, and the
/// status names the commands that fix it.
async fn agents_elsewhere(olm: &Olm, namespace: &str) {
    let lab = Lab::in_namespace(&olm.cluster, namespace, 3).await;
    lab.oneagent(&json!({}));
    let said = lab.condition("agent", "Degraded", "True", "ServiceAccountMissing").await;
    assert!(said.contains("dynatrace-oneagent"), "{said}");
    for account in ["dynatrace-oneagent", "dynatrace-oneagent-unprivileged"] {
        olm.cluster.kubectl(&["-n", namespace, "create", "serviceaccount", account]);
    }
    agents_of(lab).await;
}

/// What the operator's Pods are told to watch.
async fn watched(olm: &Olm, namespace: &str) -> Vec<String> {
    let pods = olm.list("Pod", namespace).await;
    let ours = pods.iter().filter(|p| {
        p["metadata"]["labels"]["app.kubernetes.io/name"] == PACKAGE && p["metadata"]["deletionTimestamp"].is_null()
    });
    ours.map(|p| p["metadata"]["annotations"]["olm.targetNamespaces"].as_str().unwrap_or("-").to_owned()).collect()
}

/// A user who may write Subscriptions and OperatorGroups of one namespace, and nothing else anywhere, installs it.
#[test]
fn own_namespace_a_user_with_few_rights_subscribes_and_has_agents() {
    olm_tests::run(async {
        let olm = Olm::shared().await;
        olm.namespace("dynatrace");
        let metadata = json!({ "name": "subscriber", "namespace": "dynatrace" });
        let rule = json!({ "apiGroups": ["operators.coreos.com"], "resources": ["subscriptions", "operatorgroups"],
            "verbs": ["get", "create", "patch"] });
        let few = json!({ "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": metadata,
            "rules": [rule] });
        let subjects = json!([{ "kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "tenant" }]);
        let reference = json!({ "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "subscriber" });
        let binding = json!({ "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
            "metadata": metadata, "roleRef": reference, "subjects": subjects });
        olm.cluster.apply(&few.to_string());
        olm.cluster.apply(&binding.to_string());
        assert!(
            olm.cluster
                .try_kubectl(&["-n", "dynatrace", "auth", "can-i", "create", "deployments", "--as=tenant"], None)
                .is_err()
        );
        for object in Olm::recipe(&Wish::own("dynatrace", &["dynatrace"])) {
            olm.cluster
                .try_kubectl(&["apply", "--server-side", "--as=tenant", "-f", "-"], Some(&object.to_string()))
                .unwrap();
        }
        olm.installed("dynatrace", NEXT).await;
        assert_eq!(watched(olm, "dynatrace").await, ["dynatrace"]);
        // The agents may use the one SCC that they need; the operator may use none.
        let may = |account: &str| {
            let asked = json!({ "group": "security.openshift.io", "resource": "securitycontextconstraints",
                "name": "privileged", "verb": "use", "namespace": "dynatrace" });
            let spec =
                json!({ "user": format!("system:serviceaccount:dynatrace:{account}"), "resourceAttributes": asked });
            let review =
                json!({ "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec })
                    .to_string();
            olm.cluster.try_kubectl(&["create", "-f", "-", "-o", "jsonpath={.status.allowed}"], Some(&review)).unwrap()
                == "true"
        };
        assert_eq!([PACKAGE, "dynatrace-oneagent", "dynatrace-oneagent-unprivileged"].map(may), [false, true, true]);
        agents(olm, "dynatrace").await;
        // As the README warns: OLM lets everybody who may edit the namespace write OneAgents.
        olm.cluster.kubectl(&[
            "-n",
            "dynatrace",
            "create",
            "rolebinding",
            "editor",
            "--clusterrole=edit",
            "--user=editor",
        ]);
        eventually("OLM's own role is aggregated", SOON, || async {
            let asked = olm.cluster.try_kubectl(
                &["-n", "dynatrace", "auth", "can-i", "patch", "oneagents.dynatrace.com", "--as=editor"],
                None,
            );
            asked.map(drop)
        })
        .await;
        olm.judge("dynatrace");
    });
}

#[test]
fn single_namespace_then_several_as_the_operator_group_is_changed() {
    olm_tests::run(async {
        // Not the shared one: two installations that watch namespaces of others keep OLM's operator busy for good.
        let olm = &Olm::start().await;
        olm.publish(&[olm.release(NEXT)]).await;
        for name in ["operators-one", "team", "other"] {
            olm.namespace(name);
        }
        olm.subscribe(&Wish {
            namespace: "operators-one",
            targets: &["team"],
            starting: None,
            manual: false,
            package: &ROW,
        });
        olm.installed("operators-one", NEXT).await;
        assert_eq!(watched(olm, "operators-one").await, ["team"]);
        agents_elsewhere(olm, "team").await;
        olm.judge("operators-one");
        // MultiNamespace, by changing the group under the running operator: OLM rolls its Pod.
        olm.merge(
            "OperatorGroup",
            "operators-one",
            "agents",
            &json!({ "spec": { "targetNamespaces": ["other", "team"] } }),
        )
        .await;
        eventually("the operator watches both", PATIENCE, || async {
            let now = watched(olm, "operators-one").await;
            if now == ["other,team"] { Ok(()) } else { Err(format!("{now:?}")) }
        })
        .await;
        olm.installed("operators-one", NEXT).await;
        agents_elsewhere(olm, "other").await;
        olm.judge("operators-one");
    });
}

#[test]
fn several_namespaces_from_the_start() {
    olm_tests::run(async {
        let olm = Olm::shared().await;
        for name in ["several", "several-team"] {
            olm.namespace(name);
        }
        olm.subscribe(&Wish {
            namespace: "several",
            targets: &["several", "several-team"],
            starting: None,
            manual: false,
            package: &ROW,
        });
        olm.installed("several", NEXT).await;
        agents(olm, "several").await;
        agents_elsewhere(olm, "several-team").await;
        olm.judge("several");
    });
}

#[test]
fn all_namespaces_and_a_second_subscription_elsewhere_does_no_harm() {
    olm_tests::run(async {
        let olm = Olm::start().await;
        olm.publish(&[olm.release(NEXT)]).await;
        for name in ["dynatrace", "team", "second"] {
            olm.namespace(name);
        }
        olm.subscribe(&Wish { namespace: "dynatrace", targets: &[], starting: None, manual: false, package: &ROW });
        olm.installed("dynatrace", NEXT).await;
        assert_eq!(watched(&olm, "dynatrace").await, [""]);
        agents(&olm, "dynatrace").await;
        agents_elsewhere(&olm, "team").await;
        // OLM takes the copy of the first's CSV for the second's, and installs nothing; the first continues.
        olm.subscribe(&Wish::own("second", &["second"]));
        eventually("OLM calls the second Subscription done", PATIENCE, || async {
            let subscription = olm.get("Subscription", "second", PACKAGE).await.unwrap_or_default();
            if subscription["status"]["state"] == "AtLatestKnown" {
                Ok(())
            } else {
                Err(subscription["status"].to_string())
            }
        })
        .await;
        tokio::time::sleep(Duration::from_secs(3)).await;
        assert!(olm.get("Deployment", "second", PACKAGE).await.is_none());
        let lab = Lab::in_namespace(&olm.cluster, "dynatrace", 0).await;
        lab.condition_within(SOON, "agent", "Ready", "True", "AllUpdated").await;
        olm.judge("dynatrace");
    });
}
