//! New versions reach every Pod, safely; bad ones do not.

use std::time::Duration;

use olm_tests::eventually;
use olm_tests::eyes::Eyes;
use olm_tests::kubelet::Fault;
use olm_tests::lab::{LONG, Lab, SOON, V1, V2, V3, is_ready, version_of};
use olm_tests::nodes::Shape;
use serde_json::json;

#[test]
fn two_hundred_outdated_pods_are_replaced_once_each_and_never_more_than_a_tenth_at_a_time() {
    olm_tests::run(async {
        let lab = Lab::new("update-200", 200).await;
        lab.behave(|b| b.ready_after = Duration::from_millis(700));
        lab.oneagent(&json!({}));
        lab.all_at("agent", V1, 200, SOON).await;
        let eyes = Eyes::on(&lab, "agent", 200).await;
        lab.cluster.vendor.publish(&lab.name, V2);
        lab.all_at("agent", V2, 200, LONG).await;
        {
            let seen = eyes.seen().await;
            assert!(seen.most_unready <= 20, "{} at once", seen.most_unready);
            assert!(seen.most_unready > 10, "only {} at once: the budget is not used", seen.most_unready);
            assert!(seen.without(2).is_empty(), "not replaced exactly once: {:?}", seen.without(2));
        }
        let status = lab.status("agent").await;
        assert_eq!(status.last_good_version.as_deref(), Some(V2));
        assert_eq!(status.rollout.unwrap().state, "Complete");
        assert_eq!(status.nodes.unwrap().progress, "200/200");
        lab.end().await;
    });
}

#[test]
fn a_rollout_has_events_for_its_milestones_and_not_for_each_pod() {
    olm_tests::run(async {
        let lab = Lab::new("update-told", 6).await;
        lab.behave(|b| (b.ready_after, b.refuse_downgrade) = (Duration::from_millis(300), false));
        lab.oneagent(&json!({ "waitReadySeconds": 20, "rollout": { "maxUnavailable": 1, "onFailure": "Rollback",
            "canary": { "nodes": 1, "soak": "2s" } } }));
        lab.all_at("agent", V1, 6, SOON).await;
        lab.condition("agent", "Ready", "True", "AllUpdated").await;
        assert_eq!(lab.events("agent").await, Vec::<String>::new(), "an installation in good order is no news");
        let told = async |reasons: &[&str]| {
            let has_all = async || {
                let mut events = lab.events("agent").await;
                // That a node has no agent meanwhile is another matter.
                events.retain(|event| !event.contains(" AgentsUnavailable: ") && !event.contains(" Recovered: "));
                let all = reasons.iter().zip(&events).all(|(reason, event)| event.contains(&format!(" {reason}: ")));
                if all && events.len() == reasons.len() { Ok(events) } else { Err(format!("{events:#?}")) }
            };
            eventually(&format!("{reasons:?} are told"), SOON, has_all).await
        };
        lab.cluster.vendor.publish(&lab.name, V2);
        lab.all_at("agent", V2, 6, SOON).await;
        let good = ["RolloutStarted", "CanariesReady", "RolloutComplete"];
        let events = told(&good).await;
        let started = format!(
            "Normal RolloutStarted: The rollout of version {V2} started from version {V1}: 6 of 6 nodes are to be \
            updated, at most 1 at a time; canaries first: 1."
        );
        assert_eq!(events[0], started);
        // The soak is two seconds; a busy machine takes longer.
        let soaked = events[1].split_once(&format!("The canaries have run version {V2} for ")).expect(&events[1]).1;
        assert!(!soaked.starts_with("0s") && !soaked.starts_with("1s"), "{}", events[1]);
        assert!(events[2].contains("6 of 6 nodes run it."), "{}", events[2]);
        lab.behave(|b| _ = b.versions.insert(V3.into(), Fault::CrashLoop));
        lab.cluster.vendor.publish(&lab.name, V3);
        lab.condition_within(LONG, "agent", "Degraded", "True", "RolledBack").await;
        let events = told(&[&good[..], &["RolloutStarted", "RolloutFailed", "RolledBack"]].concat()).await;
        assert!(events[4].starts_with("Warning ") && events[4].len() < 1_000, "{}", events[4]);
        assert!(events[4].contains(&format!("The rollout of version {V3} stopped after ")), "{}", events[4]);
        let rollout = lab.status("agent").await.rollout.unwrap();
        let ends: Vec<_> = rollout.history.iter().map(|past| (past.result.as_str(), past.to.as_deref())).collect();
        assert_eq!(ends, [("RolledBack", Some(V2)), ("Failed", Some(V3)), ("Complete", Some(V2))]);
        // The log says the same.
        let log = lab.operators[0].printed();
        for event in &events {
            let said = event.split_once(": ").unwrap().1;
            assert_eq!(log.matches(said).count(), 1, "{said}");
        }
        lab.end().await;
    });
}

#[test]
fn a_version_that_crashes_stops_within_the_budget_and_new_nodes_get_the_one_before() {
    olm_tests::run(async {
        let mut lab = Lab::new("update-bad", 20).await;
        lab.oneagent(&json!({ "rollout": { "maxUnavailable": "10%" } }));
        lab.all_at("agent", V1, 20, SOON).await;
        lab.behave(|b| {
            b.versions.insert(V2.into(), Fault::CrashLoop);
        });
        lab.cluster.vendor.publish(&lab.name, V2);
        let message = lab.condition("agent", "Degraded", "True", "RolloutFailed").await;
        assert!(
            message.contains(V2) && message.contains("CrashLoopBackOff") && message.contains("spec.update.version"),
            "{message}"
        );
        let status = lab.status("agent").await;
        assert_eq!(status.rejected_versions, [V2]);
        // The verdict is final: nothing else is touched while we look.
        lab.is_looked_at().await;
        let pods = lab.pods("agent").await;
        let bad = pods.values().filter(|p| version_of(p).as_deref() == Some(V2)).count();
        assert_eq!(bad, 2, "the budget of 10 % of 20 nodes");
        assert_eq!(pods.values().filter(|p| is_ready(p)).count(), 18);
        // A node that joins gets the last good version.
        let joined = lab.add_nodes(1, &Shape::default()).await.remove(0);
        eventually("the node that joined has the version before", SOON, || async {
            match lab.pods("agent").await.get(&joined) {
                Some(pod) if is_ready(pod) && version_of(pod).as_deref() == Some(V1) => Ok(()),
                other => Err(format!("{:?}", other.and_then(version_of))),
            }
        })
        .await;
        assert!(
            lab.events("agent").await.iter().any(|e| e.starts_with("Warning RolloutFailed")),
            "{:?}",
            lab.events("agent").await
        );
        // A good version is rolled out everywhere, to the broken ones first.
        lab.cluster.vendor.publish(&lab.name, V3);
        lab.all_at("agent", V3, 21, SOON).await;
        lab.condition("agent", "Degraded", "False", "AsExpected").await;
        lab.end().await;
    });
}

#[test]
fn agents_that_never_become_ready_stop_a_rollout_and_an_image_that_cannot_be_pulled_only_holds_it() {
    olm_tests::run(async {
        let lab = Lab::new("update-never", 10).await;
        lab.oneagent(&json!({ "waitReadySeconds": 3 }));
        lab.all_at("agent", V1, 10, SOON).await;
        lab.behave(|b| {
            b.versions.insert(V2.into(), Fault::NeverReady);
            b.versions.insert(V3.into(), Fault::ImagePull);
        });
        lab.cluster.vendor.publish(&lab.name, V2);
        let message = lab.condition("agent", "Degraded", "True", "RolloutFailed").await;
        assert!(message.contains("not Ready within 3 s"), "{message}");
        assert_eq!(lab.status("agent").await.nodes.unwrap().overdue, 1);
        lab.cluster.vendor.publish(&lab.name, V3);
        lab.says("agent", "Degraded", "ImagePullBackOff").await;
        eventually("the template goes back meanwhile", SOON, || async {
            let memory = lab.status("agent").await.rollout.and_then(|r| r.memory).unwrap_or_default();
            if memory["rollout"]["phase"]["rolling"]["stuck"]["phase"] == "back" {
                Ok(())
            } else {
                Err(memory.to_string())
            }
        })
        .await;
        assert_eq!(lab.status("agent").await.rejected_versions, [V2], "the registry is no fault of the version");
        assert_eq!(lab.pods("agent").await.values().filter(|p| is_ready(p)).count(), 9);
        lab.behave(|b| b.versions.retain(|version, _| version != V3));
        lab.all_at("agent", V3, 10, SOON).await;
        lab.end().await;
    });
}

#[test]
fn a_pause_keeps_agents_and_template_as_they_are_until_it_ends() {
    olm_tests::run(async {
        let mut lab = Lab::new("update-paused", 3).await;
        lab.oneagent(&json!({ "rollout": { "paused": true } }));
        lab.all_at("agent", V1, 3, SOON).await;
        let before = lab.uids("agent").await;
        lab.cluster.vendor.publish(&lab.name, V2);
        lab.edit("agent", json!({ "env": [{ "name": "A", "value": "1" }] })).await;
        lab.condition("agent", "Ready", "False", "Paused").await;
        let joined = lab.add_nodes(1, &Shape::default()).await.remove(0);
        eventually("the node that joined has the template of before", SOON, || async {
            match lab.pods("agent").await.get(&joined) {
                Some(pod) if is_ready(pod) => {
                    assert_eq!(version_of(pod).as_deref(), Some(V1));
                    assert!(!pod.spec.as_ref().unwrap().containers[0].env.iter().flatten().any(|e| e.name == "A"));
                    Ok(())
                }
                _ => Err("no Pod".to_owned()),
            }
        })
        .await;
        let now = lab.uids("agent").await;
        assert!(before.iter().all(|(node, uid)| now.get(node) == Some(uid)), "a Pod was replaced in a pause");
        lab.edit("agent", json!({ "rollout": { "paused": false } })).await;
        lab.all_at("agent", V2, 4, SOON).await;
        for pod in lab.pods("agent").await.values() {
            assert!(pod.spec.as_ref().unwrap().containers[0].env.iter().flatten().any(|e| e.name == "A"));
        }
        lab.end().await;
    });
}

#[test]
fn a_pin_is_honoured_checked_and_downgrades_only_when_allowed() {
    olm_tests::run(async {
        let lab = Lab::new("update-pin", 2).await;
        lab.cluster.vendor.publish(&lab.name, V2);
        lab.cluster.vendor.publish(&lab.name, V3);
        lab.oneagent(&json!({ "update": { "version": V2 } }));
        lab.all_at("agent", V2, 2, SOON).await;
        assert_eq!(lab.status("agent").await.version_source.as_deref(), Some("Pin"));
        lab.edit("agent", json!({ "update": { "version": "1.999.0.20250101-000000" } })).await;
        let message = lab.condition("agent", "Degraded", "True", "VersionNotOffered").await;
        assert!(message.contains(V3), "it says what is offered: {message}");
        lab.edit("agent", json!({ "update": { "version": V1 } })).await;
        lab.condition("agent", "Degraded", "True", "DowngradeNotAllowed").await;
        assert!(lab.pods("agent").await.values().all(|p| version_of(p).as_deref() == Some(V2)), "nothing was touched");
        // On hosts that let it happen.
        lab.behave(|b| b.refuse_downgrade = false);
        lab.edit("agent", json!({ "update": { "allowDowngrade": true } })).await;
        lab.all_at("agent", V1, 2, SOON).await;
        lab.edit("agent", json!({ "update": null })).await;
        lab.all_at("agent", V3, 2, SOON).await;
        lab.end().await;
    });
}

#[test]
fn an_agent_that_updated_itself_is_not_restarted() {
    olm_tests::run(async {
        let lab = Lab::new("update-self", 2).await;
        lab.oneagent(&json!({}));
        lab.all_at("agent", V1, 2, SOON).await;
        let before = lab.uids("agent").await;
        let itself = lab.nodes[0].clone();
        let ip = lab.ip(&itself).await;
        lab.cluster.vendor.with(&lab.name, |e| drop(e.hosts.insert(ip, V2.into())));
        lab.cluster.vendor.publish(&lab.name, V2);
        is_ready_for(&lab, V2).await;
        let now = lab.uids("agent").await;
        assert_eq!(before[&itself], now[&itself], "it was restarted for nothing");
        assert_ne!(before[&lab.nodes[1]], now[&lab.nodes[1]]);
        lab.end().await;
    });
}

/// Another cluster's hosts may have our addresses: a zone tells them apart.
#[test]
fn only_hosts_of_the_network_zone_say_that_an_agent_updated_itself() {
    olm_tests::run(async {
        let lab = Lab::new("update-zone", 2).await;
        lab.oneagent(&json!({ "networkZone": "Zone-1" }));
        lab.all_at("agent", V1, 2, SOON).await;
        let before = lab.uids("agent").await;
        let (itself, other) = (lab.ip(&lab.nodes[0]).await, lab.ip(&lab.nodes[1]).await);
        lab.cluster.vendor.with(&lab.name, |e| {
            assert_eq!(
                e.hosts.remove(&format!("{itself}@Zone-1")).as_deref(),
                Some(V1),
                "the installer was asked for in the zone"
            );
            // The vendor writes zones in lower case.
            e.hosts.insert(format!("{itself}@zone-1"), V2.into());
            e.hosts.insert(other, V2.into());
        });
        lab.cluster.vendor.publish(&lab.name, V2);
        is_ready_for(&lab, V2).await;
        let now = lab.uids("agent").await;
        assert_eq!(before[&lab.nodes[0]], now[&lab.nodes[0]], "the zone's own host was not believed");
        assert_ne!(before[&lab.nodes[1]], now[&lab.nodes[1]], "a host of another zone was believed");
        let container = lab.pods("agent").await.remove(&lab.nodes[1]).unwrap().spec.unwrap().containers.remove(0);
        assert_eq!(container.args.unwrap(), ["--set-network-zone=Zone-1"]);
        // A zone is part of the template: a change reaches every agent, once.
        lab.edit("agent", json!({ "networkZone": "zone two" })).await;
        lab.says("agent", "Degraded", "spec.networkZone").await;
        assert_eq!(lab.uids("agent").await, now, "agents were touched for a spec that is invalid");
        lab.edit("agent", json!({ "networkZone": "two" })).await;
        eventually("every agent is in the new zone", SOON, || async {
            let pods = lab.pods("agent").await;
            let there = pods.values().filter(|p| {
                p.spec
                    .as_ref()
                    .is_some_and(|s| s.containers[0].args.as_deref() == Some(&["--set-network-zone=two".to_owned()]))
            });
            if there.count() == 2 { Ok(()) } else { Err("not yet".to_owned()) }
        })
        .await;
        lab.all_at("agent", V2, 2, SOON).await;
        lab.end().await;
    });
}

/// Waits until the status says that all is done for a version, whatever Pods were made from.
async fn is_ready_for(lab: &Lab<'_>, version: &str) {
    eventually(&format!("{} is Ready for {version}", lab.name), SOON, || async {
        let status = lab.status("agent").await;
        let ready = status.conditions.iter().any(|c| c.type_ == "Ready" && c.status == "True");
        if ready && status.desired_version.as_deref() == Some(version) { Ok(()) } else { Err(format!("{status:#?}")) }
    })
    .await;
}

#[test]
fn a_version_is_taken_once_it_is_old_enough_and_a_pin_does_not_wait() {
    olm_tests::run(async {
        let lab = Lab::new("update-age", 2).await;
        lab.oneagent(&json!({ "update": { "minimumAge": "240h" } }));
        lab.all_at("agent", V1, 2, SOON).await;
        let before = lab.uids("agent").await;
        // Built just now, as its number says.
        let young = format!("1.999.1.{}", chrono::Utc::now().format("%Y%m%d-%H%M%S"));
        lab.cluster.vendor.publish(&lab.name, &young);
        let said = lab.says("agent", "Degraded", "younger than spec.update.minimumAge").await;
        assert!(said.contains(&young), "{said}");
        assert_eq!(lab.uids("agent").await, before);
        lab.edit("agent", json!({ "update": { "version": young } })).await;
        lab.all_at("agent", &young, 2, SOON).await;
        // Another that is newer still, and not asked for by name.
        let younger = format!("1.999.2.{}", chrono::Utc::now().format("%Y%m%d-%H%M%S"));
        lab.edit("agent", json!({ "update": { "version": null } })).await;
        lab.cluster.vendor.publish(&lab.name, &younger);
        lab.says("agent", "Degraded", &younger).await;
        lab.edit("agent", json!({ "update": { "minimumAge": null } })).await;
        lab.all_at("agent", &younger, 2, SOON).await;
        lab.end().await;
    });
}
