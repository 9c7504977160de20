//! `rollout.onFailure: Rollback`: the last good template is put back once, nodes that join get it, and everybody owns
//! what they owned before.

use olm_tests::audit::Request;
use olm_tests::eventually;
use olm_tests::eyes::Eyes;
use olm_tests::kubelet::Fault;
use olm_tests::lab::daemonset_rollout::AGENTS;
use olm_tests::lab::{LONG, Lab};
use olm_tests::nodes::Shape;
use olm_tests::webhook::Webhook;
use serde_json::{Value, json};

const MANAGER: &str = "daemonset-rollout-operator";

/// A fleet whose rollouts go back, and that fails with what says `bad`.
async fn fleet(name: &str, nodes: usize) -> Lab<'static> {
    let policy = json!({ "canary": { "nodes": 1, "soak": "3s" }, "onFailure": "Rollback" });
    let lab = Lab::of_daemonset(name, nodes, &policy).await;
    lab.fails("bad", Fault::CrashLoop);
    lab
}

/// How often the operator wrote the DaemonSet, dry runs included; a conflict wrote nothing.
fn written(lab: &Lab<'_>) -> usize {
    let is_write = |request: &&Request| request.resource == "daemonsets" && request.writes() && request.code < 300;
    lab.requests().iter().filter(is_write).count()
}

/// Who owns a part of the DaemonSet, its status aside.
async fn managers(lab: &Lab<'_>) -> Vec<String> {
    let entries = lab.deployed().await.metadata.managed_fields.unwrap_or_default();
    entries.into_iter().filter(|entry| entry.subresource.is_none()).filter_map(|entry| entry.manager).collect()
}

#[test]
fn a_failed_template_is_replaced_with_the_last_good_one_and_the_deployer_meets_no_conflict() {
    olm_tests::run(async {
        let mut lab = fleet("ds-restored", 5).await;
        lab.grant_extra("rollback-role.yaml");
        let good = lab.revision().await;
        let before = lab.agent_uids().await;
        let owners = managers(&lab).await;
        let eyes = Eyes::on_replicas(&lab, AGENTS, 5).await;
        lab.deploy(&lab.daemonset_saying("bad"));
        let message = lab.rollout_is("Degraded", "True", "RolledBack").await;
        assert!(message.contains(&format!("the template of revision {good} was put back")), "{message}");
        lab.agents_say("one", 5).await;
        lab.rollout_is("Ready", "True", "AllUpdated").await;
        let after = lab.agent_uids().await;
        assert_eq!(before.iter().filter(|(node, uid)| after[*node] != **uid).count(), 1, "the canary alone");
        assert_eq!(eyes.seen().await.deletions.len(), 2);
        assert_eq!(written(&lab), 3, "a dry run, the template, and its owners");
        assert_eq!(managers(&lab).await, owners);
        lab.add_nodes(1, &Shape::default()).await;
        lab.agents_say("one", 6).await;
        // A killed operator's successor knows it.
        lab.operators.clear();
        lab.start_operator(&[]).await;
        // As `helm upgrade` does, without force.
        let next = lab.daemonset_saying("two").to_string();
        let apply = ["apply", "--server-side", "--field-manager=kubectl", "-f", "-"];
        lab.cluster.try_kubectl(&apply, Some(&next)).unwrap();
        lab.agents_say("two", 6).await;
        lab.rollout_is("Degraded", "False", "AsExpected").await;
        assert_eq!(written(&lab), 3);
        // The same that failed, in a later deployment: it reaches the canary, and is not written a second time.
        lab.deploy(&lab.daemonset_saying("bad"));
        let message = lab.rollout_is("Degraded", "True", "RollbackUndone").await;
        assert!(message.contains("undone by kubectl"), "{message}");
        assert_eq!((written(&lab), lab.said().values().filter(|said| *said == "two").count()), (3, 5));
        lab.end().await;
    });
}

#[test]
fn who_puts_the_failed_template_back_is_named_and_not_fought() {
    olm_tests::run(async {
        let lab = fleet("ds-undone", 4).await;
        lab.grant_extra("rollback-role.yaml");
        lab.deploy(&lab.daemonset_saying("bad"));
        eventually("it is put back", LONG, || async {
            let template = lab.deployed().await.spec.unwrap().template;
            let text = serde_json::to_string(&template).unwrap();
            if text.contains("bad") { Err(text) } else { Ok(()) }
        })
        .await;
        lab.deploy(&lab.daemonset_saying("bad"));
        let message = lab.rollout_is("Degraded", "True", "RollbackUndone").await;
        assert!(message.contains("was put back, and undone by kubectl"), "{message}");
        let writes = written(&lab);
        assert!(writes <= 3, "{writes}");
        // Neither a restart nor time makes it try again.
        lab.edit_rollout(json!({ "rollout": { "maxUnavailable": 2 } })).await;
        lab.rests().await;
        assert_eq!(written(&lab), writes);
        lab.rollout_is("Degraded", "True", "RollbackUndone").await;
        lab.end().await;
    });
}

#[test]
fn a_rollback_that_is_not_allowed_or_would_not_last_is_refused_and_said() {
    olm_tests::run(async {
        let mut lab = fleet("ds-norole", 3).await;
        let began = chrono::Utc::now();
        lab.deploy(&lab.daemonset_saying("bad"));
        let message = lab.rollout_is("Degraded", "True", "RollbackRefused").await;
        assert!(message.contains("cannot patch resource") && message.contains("rollback-role.yaml"), "{message}");
        assert!(message.contains("kubectl -n ds-norole rollout undo daemonset/agent --to-revision=1"), "{message}");
        lab.cluster.kubectl(&[
            "-n",
            "ds-norole",
            "annotate",
            "daemonset",
            "agent",
            "argocd.argoproj.io/tracking-id=x:y",
        ]);
        let refused = eventually("Argo CD is named", LONG, || async {
            let said = lab.rollout_is("Degraded", "True", "RollbackRefused").await;
            if said.contains("Argo CD application x would write the failed one again") { Ok(said) } else { Err(said) }
        })
        .await;
        assert!(refused.contains("revert it where it comes from, which is Argo CD application x"), "{refused}");
        lab.grant_extra("rollback-role.yaml");
        lab.unjudged = Some((began, chrono::Utc::now()));
        lab.cluster.kubectl(&["-n", "ds-norole", "annotate", "daemonset", "agent", "argocd.argoproj.io/tracking-id-"]);
        // Admission makes something else of it, and then it does not.
        let webhook = Webhook::of_daemonsets(&lab.cluster.client, &lab.name, |request| {
            let is_ours = request["options"]["fieldManager"] == MANAGER;
            let more = json!({ "op": "add", "path": "/spec/template/spec/priority", "value": 1 });
            async move { is_ours.then_some(more).into_iter().collect::<Vec<Value>>() }
        })
        .await;
        eventually("admission is named", LONG, || async {
            let said = lab.rollout_is("Degraded", "True", "RollbackRefused").await;
            if said.contains("admission makes another template of it") { Ok(()) } else { Err(said) }
        })
        .await;
        webhook.end().await;
        lab.rollout_is("Degraded", "True", "RolledBack").await;
        lab.agents_say("one", 3).await;
        lab.end().await;
    });
}
