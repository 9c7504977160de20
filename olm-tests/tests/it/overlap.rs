//! Two OneAgents that select the same nodes: never two agents on a node, never one without.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::core::v1::{Affinity, Pod};
use kube::api::Api;
use kube::runtime::{WatchStreamExt, watcher};
use olm_tests::eventually;
use olm_tests::lab::{LONG, Lab, SOON, V1, V2, is_ready};
use olm_tests::nodes;
use serde_json::json;

/// Nodes with their Ready agents, by OneAgent.
async fn who_runs_where(lab: &Lab<'_>, names: &[&str]) -> BTreeMap<String, Vec<String>> {
    let mut all: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for name in names {
        for node in lab.pods(name).await.into_iter().filter(|(_, pod)| is_ready(pod)).map(|(node, _)| node) {
            all.entry(node).or_default().push((*name).to_owned());
        }
    }
    all
}

async fn runs(lab: &Lab<'_>, what: &str, wanted: &[(&str, &[String])]) {
    let names: Vec<&str> = wanted.iter().map(|(name, _)| *name).collect();
    let mut all: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (name, nodes) in wanted {
        for node in *nodes {
            all.entry(node.clone()).or_default().push((*name).to_owned());
        }
    }
    eventually(what, LONG, || async {
        let now = who_runs_where(lab, &names).await;
        if now == all { Ok(()) } else { Err(format!("{now:?}")) }
    })
    .await;
}

/// Whether an agent that is being deleted counts as there.
#[derive(Clone, Copy, PartialEq)]
enum Ending {
    Counts,
    IsGone,
}

/// Watches for nodes on which two agents are that were Ready; returns those that were seen so far.
fn watch_for_two(lab: &Lab<'_>, ending: Ending) -> Arc<Mutex<BTreeSet<String>>> {
    let seen: Arc<Mutex<BTreeSet<String>>> = Arc::default();
    let (shared, api) = (seen.clone(), Api::<Pod>::namespaced(lab.cluster.client.clone(), &lab.name));
    tokio::spawn(async move {
        let mut events =
            watcher(api, watcher::Config::default().labels("dynatrace=oneagent")).default_backoff().boxed();
        let mut ready: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        while let Some(event) = events.next().await {
            let (pod, gone) = match event {
                Ok(watcher::Event::Apply(pod) | watcher::Event::InitApply(pod)) => (pod, false),
                Ok(watcher::Event::Delete(pod)) => (pod, true),
                _ => continue,
            };
            let Some(node) = pod.spec.as_ref().and_then(|spec| spec.node_name.clone()) else { continue };
            let there = ready.entry(node.clone()).or_default();
            let uid = pod.metadata.uid.clone().unwrap_or_default();
            let is_ending = pod.metadata.deletion_timestamp.is_some();
            if !gone && !is_ending && is_ready(&pod) {
                there.insert(uid);
            } else if gone || ending == Ending::IsGone {
                there.remove(&uid);
            }
            if there.len() > 1 {
                shared.lock().unwrap().insert(node);
            }
        }
    });
    seen
}

#[test]
fn of_two_oneagents_that_select_a_node_the_older_one_keeps_it() {
    olm_tests::run(async {
        let mut lab = Lab::new("hostile-overlap", 0).await;
        let two = watch_for_two(&lab, Ending::IsGone);
        let ssd = lab.add_nodes(2, &nodes::Shape::default().label("disk", "ssd")).await;
        let both = lab.add_nodes(2, &nodes::Shape::default().label("disk", "ssd").label("team", "x")).await;
        let team = lab.add_nodes(2, &nodes::Shape::default().label("team", "x")).await;
        let all = |some: &[&[String]]| some.concat();
        lab.oneagent_named("older", &json!({ "nodeSelector": { "lab": lab.name, "disk": "ssd" } }));
        runs(&lab, "the older one is there", &[("older", &all(&[&ssd, &both]))]).await;
        // Creation times are whole seconds; the name decides within one.
        tokio::time::sleep(Duration::from_millis(1100)).await;
        lab.oneagent_named("younger", &json!({ "nodeSelector": { "lab": lab.name, "team": "x" } }));
        runs(&lab, "the younger one leaves it its nodes", &[("older", &all(&[&ssd, &both])), ("younger", &team)]).await;
        let said = lab.condition("younger", "NodesConflict", "True", "NodesConflict").await;
        assert!(
            said.contains("OneAgent hostile-overlap/older selects 2 of these nodes too")
                && said.contains("that one is older and keeps them"),
            "{said}"
        );
        let said = lab.condition("older", "NodesConflict", "True", "NodesConflict").await;
        assert!(
            said.contains("hostile-overlap/younger") && said.contains("this one is older and keeps them"),
            "{said}"
        );
        eventually("the younger one counts them apart", SOON, || async {
            let counts = lab.status("younger").await.nodes.unwrap_or_default();
            let right = (counts.selected, counts.overlap, counts.progress.as_str()) == (2, 2, "2/2");
            if right { Ok(()) } else { Err(format!("{counts:?}")) }
        })
        .await;
        // A node is relabelled from one to the other, and back.
        let patch = |value: serde_json::Value| json!({ "metadata": { "labels": { "disk": value } } });
        nodes::patch(&lab.cluster.client, &both[0], &patch(json!(null))).await;
        runs(
            &lab,
            "the younger one has it",
            &[("older", &all(&[&ssd, &both[1..]])), ("younger", &all(&[&team, &both[..1]]))],
        )
        .await;
        nodes::patch(&lab.cluster.client, &both[0], &patch(json!("ssd"))).await;
        runs(&lab, "the older one has it", &[("older", &all(&[&ssd, &both])), ("younger", &team)]).await;
        // Of a relabelled node the DaemonSets' controller takes care, for the one when it can and for the other.
        two.lock().unwrap().remove(&both[0]);
        // The older one is deleted: the younger one serves all of its own.
        lab.cluster.kubectl(&["-n", &lab.name, "delete", "oneagent", "older"]);
        runs(&lab, "the younger one serves what is left", &[("younger", &all(&[&team, &both]))]).await;
        lab.condition("younger", "NodesConflict", "False", "AsExpected").await;
        assert_eq!(*two.lock().unwrap(), BTreeSet::new(), "never two agents on a node");
        lab.end().await;
    });
}

#[test]
fn one_for_everything_beside_one_for_infra_nodes_costs_no_agent() {
    olm_tests::run(async {
        let mut lab = Lab::new("hostile-infra", 2).await;
        let workers = lab.nodes.clone();
        let infra =
            lab.add_nodes(2, &nodes::Shape::default().label("infra", "yes").taint("infra", "", "NoSchedule")).await;
        lab.oneagent_named("all", &json!({}));
        runs(&lab, "workers have an agent", &[("all", &workers)]).await;
        tokio::time::sleep(Duration::from_millis(1100)).await;
        lab.oneagent_named(
            "infra",
            &json!({ "nodeSelector": { "lab": lab.name, "infra": "yes" }, "tolerations": [{ "operator": "Exists" }] }),
        );
        runs(&lab, "infra nodes too", &[("all", &workers), ("infra", &infra)]).await;
        lab.condition("infra", "NodesConflict", "False", "AsExpected").await;
        lab.end().await;
    });
}

async fn affinity(lab: &Lab<'_>) -> Option<Affinity> {
    lab.daemonset("agent").await.unwrap().spec.unwrap().template.spec.unwrap().affinity
}

#[test]
fn nodes_stay_left_to_an_older_oneagent_that_cannot_be_read_after_a_restart() {
    olm_tests::run(async {
        let cluster = olm_tests::cluster::Cluster::shared().await;
        let old = Lab::without_operator(cluster, "unread-old", 0).await;
        let mut lab = Lab::without_operator(cluster, "unread-young", 2).await;
        let plain = lab.nodes.clone();
        lab.add_nodes(1, &nodes::Shape::default().label("half", "old")).await;
        lab.grant("unread-old");
        let scopes = [("WATCH_NAMESPACE", "unread-young,unread-old")];
        lab.start_operator(&scopes).await;
        old.oneagent(&json!({ "nodeSelector": { "lab": "unread-young", "half": "old" } }));
        old.all_at("agent", V1, 1, SOON).await;
        lab.oneagent(&json!({}));
        lab.all_at("agent", V1, 2, SOON).await;
        lab.pods_are("agent", &plain).await;
        let before = (affinity(&lab).await, lab.uids("agent").await);

        // The rights there are taken away, and the operator restarts: who is older it cannot know.
        cluster.kubectl(&["-n", "unread-old", "delete", "rolebinding", "oneagent-operator"]);
        lab.operators.clear();
        lab.unjudged = Some((chrono::DateTime::UNIX_EPOCH, chrono::DateTime::<chrono::Utc>::MAX_UTC));
        lab.start_operator(&scopes).await;
        lab.says("agent", "Degraded", "cannot read OneAgents in namespace unread-old").await;
        lab.cluster.vendor.publish(&lab.name, V2);
        lab.is_polled().await;
        assert_eq!((affinity(&lab).await, lab.uids("agent").await), before, "agents come to nodes that are another's");
        lab.grant("unread-old");
        lab.all_at("agent", V2, 2, LONG).await;
        lab.pods_are("agent", &plain).await;
        assert_eq!(affinity(&lab).await, before.0);
        old.end().await;
        lab.end().await;
    });
}

#[test]
fn no_agent_starts_on_a_node_before_the_older_ones_agent_has_left_it() {
    olm_tests::run(async {
        let mut lab = Lab::new("late", 1).await;
        let plain = lab.nodes.clone();
        let left = lab.add_nodes(1, &nodes::Shape::default().label("half", "old")).await;
        lab.oneagent_named("older", &json!({ "nodeSelector": { "lab": "late", "half": "old" } }));
        runs(&lab, "the older one is there", &[("older", &left)]).await;
        tokio::time::sleep(Duration::from_millis(1100)).await;
        lab.oneagent_named("younger", &json!({}));
        runs(&lab, "the younger one leaves its node to it", &[("older", &left), ("younger", &plain)]).await;
        let two = watch_for_two(&lab, Ending::IsGone);
        // It wants to leave, and cannot: nothing of it is touched before its certificates are there.
        let elsewhere = json!({ "nodeSelector": { "lab": "late", "half": "none" }, "trustedCAs": "missing" });
        lab.edit("older", elsewhere).await;
        lab.says("older", "Degraded", "missing").await;
        lab.says("younger", "Degraded", "its agent still runs there").await;
        lab.is_polled().await;
        assert_eq!(who_runs_where(&lab, &["older", "younger"]).await[&left[0]], ["older"]);
        lab.edit("older", json!({ "trustedCAs": null })).await;
        let both = [plain, left].concat();
        runs(&lab, "the younger one takes the node", &[("older", &[]), ("younger", &both)]).await;
        assert!(two.lock().unwrap().is_empty(), "two agents on {:?}", two.lock().unwrap());
        lab.end().await;
    });
}

#[test]
fn nodes_stay_left_to_an_older_one_that_makes_no_sense_after_a_restart_and_to_agents_that_outlive_theirs() {
    olm_tests::run(async {
        let mut lab = Lab::new("senseless", 1).await;
        let plain = lab.nodes.clone();
        let left = lab.add_nodes(1, &nodes::Shape::default().label("half", "old")).await;
        let wish = json!({ "nodeSelector": { "lab": "senseless", "half": "old" } });
        lab.oneagent_named("older", &wish);
        runs(&lab, "the older one is there", &[("older", &left)]).await;
        tokio::time::sleep(Duration::from_millis(1100)).await;
        lab.oneagent_named("younger", &json!({}));
        let apart = [("older", left.as_slice()), ("younger", plain.as_slice())];
        runs(&lab, "the younger one leaves its node to it", &apart).await;
        let two = watch_for_two(&lab, Ending::IsGone);

        // What the CRD takes and no operator understands; a new operator never knew what it selected.
        let window = json!([{ "start": "01:00", "duration": "2h", "timeZone": "Europe/Nowhere" }]);
        lab.edit("older", json!({ "rollout": { "windows": window } })).await;
        lab.says("older", "Degraded", "Europe/Nowhere").await;
        lab.operators.clear();
        lab.start_operator(&[]).await;
        lab.says("younger", "Degraded", "OneAgent senseless/older is older, and its spec is invalid").await;
        lab.is_polled().await;
        assert_eq!(who_runs_where(&lab, &["older", "younger"]).await[&left[0]], ["older"]);
        // One that comes meanwhile takes no node of it, either.
        lab.oneagent_named("youngest", &json!({ "nodeSelector": { "lab": "senseless", "half": "old" } }));
        lab.says("youngest", "Degraded", "its spec is invalid").await;
        lab.edit("older", json!({ "rollout": null })).await;
        lab.condition("younger", "Degraded", "False", "AsExpected").await;
        runs(&lab, "all is as it was", &apart).await;
        lab.cluster.kubectl(&["-n", &lab.name, "delete", "oneagent", "youngest"]);

        // Deleted, and its agents are left behind.
        lab.cluster.kubectl(&["-n", &lab.name, "delete", "oneagent", "older", "--cascade=orphan"]);
        let said = lab.says("younger", "Degraded", "OneAgent senseless/older was deleted, and its agent").await;
        lab.is_polled().await;
        assert_eq!(who_runs_where(&lab, &["older", "younger"]).await[&left[0]], ["older"]);
        let (_, command) = said.split_once("run kubectl ").unwrap();
        let words: Vec<&str> = command.split_whitespace().take(5).collect();
        lab.cluster.kubectl(&words);
        let both = [plain, left].concat();
        runs(&lab, "the younger one takes the node", &[("younger", &both)]).await;
        assert!(two.lock().unwrap().is_empty(), "two agents on {:?}", two.lock().unwrap());
        lab.end().await;
    });
}

#[test]
fn a_oneagent_that_is_created_again_waits_for_its_predecessors_agents_and_has_its_nodes_again() {
    olm_tests::run(async {
        let mut lab = Lab::new("again", 2).await;
        lab.behave(|b| b.gone_after = Duration::from_secs(5));
        let plain = lab.nodes.clone();
        let ssd = lab.add_nodes(2, &nodes::Shape::default().label("disk", "ssd")).await;
        let gpu = json!({ "nodeSelector": { "lab": "again", "disk": "ssd" } });
        lab.oneagent_named("gpu", &gpu);
        runs(&lab, "the older one is there", &[("gpu", &ssd)]).await;
        tokio::time::sleep(Duration::from_millis(1100)).await;
        lab.oneagent_named("all", &json!({}));
        let apart = [("gpu", ssd.as_slice()), ("all", plain.as_slice())];
        runs(&lab, "the younger one leaves its nodes to it", &apart).await;
        let two = watch_for_two(&lab, Ending::Counts);

        let before = lab.uids("gpu").await;
        lab.cluster.kubectl(&["-n", "again", "delete", "oneagent", "gpu"]);
        lab.oneagent_named("gpu", &gpu);
        lab.condition("gpu", "Degraded", "True", "BeingRemoved").await;
        eventually("its agents are others", LONG, || async {
            let now = lab.uids("gpu").await;
            let are_new = now.len() == 2 && now.values().all(|uid| !before.values().any(|old| old == uid));
            if are_new { Ok(()) } else { Err(format!("{before:?} {now:?}")) }
        })
        .await;
        runs(&lab, "at once", &apart).await;

        lab.cluster.kubectl(&["-n", "again", "delete", "oneagent", "gpu"]);
        let both = [plain.as_slice(), &ssd].concat();
        runs(&lab, "the younger one serves all", &[("gpu", &[]), ("all", &both)]).await;
        lab.oneagent_named("gpu", &gpu);
        runs(&lab, "later", &apart).await;
        lab.condition("gpu", "Degraded", "False", "AsExpected").await;
        assert!(two.lock().unwrap().is_empty(), "two agents on {:?}", two.lock().unwrap());
        lab.end().await;
    });
}

#[test]
fn no_number_of_oneagents_makes_a_daemonset_large_or_takes_the_operators_memory() {
    olm_tests::run(async {
        let cluster = olm_tests::cluster::Cluster::shared().await;
        let hostile = Lab::without_operator(cluster, "pools", 1).await;
        let mut lab = Lab::without_operator(cluster, "beside-pools", 1).await;
        lab.grant("pools");
        for number in 0..16 {
            let selector = json!({ format!("a{number}"): "x", format!("b{number}"): "y" });
            hostile.oneagent_named(&format!("pool{number}"), &json!({ "nodeSelector": selector }));
        }
        tokio::time::sleep(Duration::from_millis(1100)).await;
        hostile.oneagent_named("rest", &json!({}));
        lab.oneagent(&json!({}));
        lab.start_operator(&[("WATCH_NAMESPACE", "beside-pools,pools")]).await;
        lab.all_at("agent", V1, 1, LONG).await;
        hostile.all_at("rest", V1, 1, LONG).await;
        for daemonset in [hostile.daemonset("rest").await.unwrap(), lab.daemonset("agent").await.unwrap()] {
            let bytes = serde_json::to_vec(&daemonset).unwrap().len();
            let affinity = daemonset.spec.unwrap().template.spec.unwrap().affinity.unwrap().node_affinity.unwrap();
            let terms = affinity.required_during_scheduling_ignored_during_execution.unwrap().node_selector_terms;
            assert!(terms.len() <= 128 && bytes < 512 * 1024, "{} terms, {bytes} bytes", terms.len());
        }
        let most = lab.operators[0].memory("VmHWM");
        assert!(most < 256.0, "{most:.0} MiB");
        hostile.end().await;
        lab.end().await;
    });
}

#[test]
fn the_vendors_present_operator_on_the_same_nodes_is_said_while_it_is_there() {
    olm_tests::run(async {
        let lab = Lab::new("dynakube", 1).await;
        lab.oneagent(&json!({}));
        lab.all_at("agent", V1, 1, LONG).await;
        let labels = json!({ "app.kubernetes.io/name": "oneagent", "app.kubernetes.io/created-by": "dynakube",
            "app.kubernetes.io/managed-by": "dynatrace-operator" });
        let selected = json!({ "app.kubernetes.io/name": "oneagent" });
        let pod = json!({ "nodeSelector": { "lab": "dynakube" }, "containers": [{ "name": "c", "image": "i" }] });
        let daemonset = json!({
            "apiVersion": "apps/v1", "kind": "DaemonSet",
            "metadata": { "name": "dynakube-oneagent", "namespace": "dynakube", "labels": labels },
            "spec": { "selector": { "matchLabels": selected },
                "template": { "metadata": { "labels": selected }, "spec": pod } },
        });
        lab.cluster.apply(&daemonset.to_string());
        lab.says("agent", "Degraded", "DaemonSet dynakube/dynakube-oneagent of Dynatrace Operator selects 1 of").await;
        lab.cluster.kubectl(&["-n", "dynakube", "delete", "daemonset", "dynakube-oneagent"]);
        lab.says("agent", "Degraded", "nothing needs attention").await;
        lab.end().await;
    });
}
