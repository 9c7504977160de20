//! Beside the tools that deploy a DaemonSet, by the real ones: each version of Helm, and `kubectl wait` as the page has
//! it for a deployment that is waited for.

use std::process::Command;
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::apps::v1::DaemonSet;
use kube::api::{Api, ListParams};
use olm_tests::cluster::repository;
use olm_tests::eventually;
use olm_tests::eyes::Eyes;
use olm_tests::kubelet::Fault;
use olm_tests::lab::daemonset_rollout::AGENTS;
use olm_tests::lab::{LONG, Lab, is_ready};
use olm_tests::pages::blocks;
use olm_tests::tools::tool;
use oneagent_operator::api::daemonset_rollout::package::PACKAGE;
use serde_json::json;

/// A release of a chart whose DaemonSet says what its values do, as an administrator of this cluster deploys it.
struct Release<'l> {
    lab: &'l Lab<'static>,
    helm: &'static str,
}

impl Release<'_> {
    /// Runs Helm with these arguments, in the namespace of the corner.
    fn helm(&self, args: &[&str]) {
        let home = self.lab.cluster.path(&format!("{}-{}", self.helm, self.lab.name));
        let done = Command::new(tool(self.helm))
            .args(args)
            .args(["--namespace", &self.lab.name])
            .env("KUBECONFIG", self.lab.cluster.kubeconfig())
            .env("HOME", home)
            .output()
            .unwrap();
        assert!(done.status.success(), "{args:?}: {}", String::from_utf8_lossy(&done.stderr));
    }

    /// Deploys a version of the chart.
    fn upgrade(&self, chart: &str, message: &str) {
        let folder = self.lab.cluster.path(&format!("chart-{}", self.lab.name));
        std::fs::create_dir_all(folder.join("templates")).unwrap();
        let about = json!({ "apiVersion": "v2", "name": "agent", "version": chart });
        std::fs::write(folder.join("Chart.yaml"), about.to_string()).unwrap();
        let mut set = self.lab.daemonset_saying("{{ .Values.message }}");
        set["spec"]["template"]["metadata"]["labels"]["helm.sh/chart"] = json!("agent-{{ .Chart.Version }}");
        std::fs::write(folder.join("templates/daemonset.yaml"), set.to_string()).unwrap();
        let value = format!("message={message}");
        self.helm(&["upgrade", "--install", "agent", folder.to_str().unwrap(), "--set", &value]);
    }
}

async fn a_release_is_rolled_out(helm: &'static str) {
    let lab = Lab::of(&PACKAGE, &format!("ds-{helm}"), 4).await;
    let release = Release { lab: &lab, helm };
    release.upgrade("1.0.0", "one");
    let policy = json!({ "maxUnavailable": 2, "canary": { "nodes": 1, "soak": "3s" } });
    lab.rollout(&json!({ "ignore": ["helm.sh/chart"], "rollout": policy }));
    lab.rollout_is("Ready", "True", "AllUpdated").await;
    let generation = async || lab.rollout_status().await.daemon_set.and_then(|set| set.generation);
    let (uids, first) = (lab.agent_uids().await, generation().await);
    release.upgrade("1.0.1", "one");
    eventually("the new chart is seen", LONG, || async {
        let status = lab.rollout_status().await;
        let is_ready = status.conditions.iter().any(|one| one.type_ == "Ready" && one.status == "True");
        if generation().await > first && is_ready { Ok(()) } else { Err(format!("{status:#?}")) }
    })
    .await;
    assert_eq!(lab.agent_uids().await, uids, "the chart's version alone replaces nothing");
    lab.fails("bad", Fault::CrashLoop);
    let eyes = Eyes::on_replicas(&lab, AGENTS, 4).await;
    release.upgrade("1.0.2", "bad");
    let message = lab.rollout_is("Degraded", "True", "RolloutFailed").await;
    assert!(message.contains("which is Helm release agent"), "{message}");
    release.helm(&["rollback", "agent"]);
    lab.agents_say("one", 4).await;
    lab.rollout_is("Ready", "True", "AllUpdated").await;
    assert_eq!(eyes.seen().await.deletions.len(), 2, "the canary, and back");
    // What we put back does not stop the next deployment.
    lab.grant_extra("rollback-role.yaml");
    lab.edit_rollout(json!({ "rollout": { "onFailure": "Rollback" } })).await;
    lab.fails("worse", Fault::CrashLoop);
    release.upgrade("1.0.3", "worse");
    lab.rollout_is("Degraded", "True", "RolledBack").await;
    lab.agents_say("one", 4).await;
    release.upgrade("1.0.4", "two");
    lab.agents_say("two", 4).await;
    lab.rollout_is("Ready", "True", "AllUpdated").await;
    lab.end().await;
}

#[test]
fn helm_3_deploys_reverts_a_failed_version_and_upgrades_after_a_rollback() {
    olm_tests::run(a_release_is_rolled_out("helm"));
}

#[test]
fn helm_4_which_applies_on_the_servers_side_does_the_same() {
    olm_tests::run(a_release_is_rolled_out("helm4"));
}

/// How often a deployment is waited for.
const TRIES: usize = 50;

#[test]
fn the_lines_that_wait_for_a_deployment_never_return_early() {
    olm_tests::run(async {
        let lab = Lab::of(&PACKAGE, "ds-waited", 1).await;
        let names: Vec<String> = (0..TRIES).map(|number| format!("agent-{number}")).collect();
        for name in &names {
            lab.deploy(&lab.daemonset_named(name, "one"));
            lab.rollout_named(name, &json!({ "daemonSet": name }));
        }
        eventually("each is as it was deployed", LONG, || async {
            let all = lab.rollouts().list(&ListParams::default()).await.map_err(|e| e.to_string())?;
            let is_ready = |one: &oneagent_operator::api::daemonset_rollout::DaemonSetRollout| {
                let conditions = one.status.iter().flat_map(|status| &status.conditions);
                conditions.into_iter().any(|one| one.type_ == "Ready" && one.status == "True")
            };
            let count = all.items.iter().filter(|one| is_ready(one)).count();
            if count == TRIES { Ok(()) } else { Err(format!("{count}")) }
        })
        .await;
        let page = blocks("docs/daemonsetrollout.md", "Deployers", "sh").concat();
        assert_eq!(page.matches("kubectl -n NAMESPACE wait").count(), 2, "{page}");
        let try_one = async |name: &String| {
            lab.deploy(&lab.daemonset_named(name, "two"));
            let typed = page.replace("NAMESPACE", &lab.name).replace("NAME", name);
            let kubectl = tool("kubectl");
            let path = format!("{}:{}", kubectl.parent().unwrap().display(), std::env::var("PATH").unwrap());
            let mut shell = tokio::process::Command::new("sh");
            let shell = shell.args(["-ec", &typed]).env("KUBECONFIG", lab.cluster.kubeconfig()).env("PATH", path);
            let done = shell.current_dir(repository("")).output().await.unwrap();
            let pods = lab.labelled(&format!("app={name}")).await;
            let set: DaemonSet = Api::namespaced(lab.cluster.client.clone(), &lab.name).get(name).await.unwrap();
            assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
            let said = pods
                .values()
                .filter(|pod| is_ready(pod))
                .filter_map(|pod| pod.spec.as_ref()?.containers[0].env.as_ref()?[0].value.clone());
            assert_eq!(said.collect::<Vec<_>>(), ["two"], "{name} {set:#?}");
        };
        // Half of the time it is late: what it said before is then all that there is.
        let operator = &lab.operators[0].process;
        let doze = async {
            loop {
                for signal in ["STOP", "CONT"] {
                    operator.signal(signal);
                    tokio::time::sleep(Duration::from_secs(1)).await;
                }
            }
        };
        tokio::select! {
            () = futures::stream::iter(&names).for_each_concurrent(5, try_one) => operator.signal("CONT"),
            () = doze => {}
        }
        lab.end().await;
    });
}
