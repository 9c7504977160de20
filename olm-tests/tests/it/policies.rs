//! What an administrator may ask of a rollout, on a real API server: windows, blackouts, canaries, zones, failures that
//! are allowed, nodes that are left out.

use chrono::{DateTime, TimeDelta, Utc};
use kube::ResourceExt;
use olm_tests::cluster::{documents, repository};
use olm_tests::eventually;
use olm_tests::kubelet::Fault;
use olm_tests::lab::{Lab, SOON, V1, V2, V3, is_ready, version_of};
use olm_tests::nodes::{Shape, patch};
use olm_tests::vendor::Mood;
use serde_json::{Value, json};

/// Nodes that have another agent than before.
async fn replaced(lab: &Lab<'_>, before: &std::collections::BTreeMap<String, String>) -> Vec<String> {
    let after = lab.uids("agent").await;
    before.keys().filter(|node| after.get(*node) != before.get(*node)).cloned().collect()
}

fn text(time: DateTime<Utc>) -> String {
    time.to_rfc3339_opts(chrono::SecondsFormat::Secs, true)
}

/// A window of an hour that opens in half a day.
pub fn later() -> Value {
    let start = (Utc::now() + TimeDelta::hours(12)).format("%H:00").to_string();
    json!([{ "start": start, "duration": "1h" }])
}

#[test]
fn agents_are_replaced_within_windows_and_outside_of_blackouts() {
    olm_tests::run(async {
        let lab = Lab::new("windows", 3).await;
        lab.oneagent(&json!({ "rollout": { "maxUnavailable": 1, "windows": later() } }));
        lab.all_at("agent", V1, 3, SOON).await;
        let before = lab.uids("agent").await;
        lab.cluster.vendor.publish(&lab.name, V2);
        let said = lab.says("agent", "Progressing", "outside of every window until 20").await;
        assert!(said.contains(":00:00Z"), "{said}");
        let template = lab.daemonset("agent").await.unwrap().spec.unwrap().template;
        assert!(serde_json::to_string(&template).unwrap().contains(V1), "nodes that join get what was there");
        // A typo in a time zone is named, and nothing happens.
        let zone = json!([{ "start": "00:00", "duration": "168h", "timeZone": "Europe/Wien" }]);
        lab.edit("agent", json!({ "rollout": { "windows": zone } })).await;
        let said = lab.condition("agent", "Degraded", "True", "InvalidSpec").await;
        assert!(said.contains("spec.rollout.windows[0].timeZone is \"Europe/Wien\""), "{said}");
        assert!(replaced(&lab, &before).await.is_empty());
        // What CEL can see the API server refuses.
        for (wrong, why) in [
            (json!({ "windows": [{ "start": "25:00", "duration": "1h" }] }), "start"),
            (json!({ "windows": [{ "start": "02:00", "duration": "0h" }] }), "from 1m to 168h"),
            (json!({ "windows": [{ "start": "02:00", "duration": "1h", "days": ["Someday"] }] }), "Someday"),
            (json!({ "blackouts": [{ "from": "2026-01-02T00:00:00Z", "to": "2026-01-01T00:00:00Z" }] }), "before to"),
            (json!({ "canary": { "nodes": 0 } }), "nodes must be"),
            (json!({ "canary": { "nodes": 1, "selector": { "a": "b" } } }), "either a number"),
            (json!({ "canary": { "soak": "soon" } }), "soak must be"),
            (json!({ "maxUnavailablePerZone": "0%" }), "maxUnavailablePerZone must be"),
            (json!({ "order": "Backwards" }), "Backwards"),
        ] {
            let patch = json!({ "spec": { "rollout": wrong } }).to_string();
            let args = ["-n", &lab.name, "patch", "oneagent", "agent", "--type=merge", "-p", &patch];
            let refused = lab.cluster.try_kubectl(&args, None).unwrap_err();
            assert!(refused.contains(why), "{refused}");
        }
        // A blackout within an open window.
        let open = json!([{ "start": "00:00", "duration": "168h", "timeZone": "Europe/Vienna" }]);
        let until = |end: DateTime<Utc>| {
            let blackout = json!([{ "from": "2026-01-01T00:00:00Z", "to": text(end), "reason": "freeze" }]);
            json!({ "rollout": { "windows": open, "blackouts": blackout } })
        };
        let end = Utc::now() + TimeDelta::days(9);
        lab.edit("agent", until(end)).await;
        let said = lab.says("agent", "Progressing", "in a blackout (freeze) until").await;
        assert!(said.contains(&text(end)), "{said}");
        assert!(replaced(&lab, &before).await.is_empty());
        // It ends without an edit.
        let end = Utc::now() + TimeDelta::seconds(4);
        lab.edit("agent", until(end)).await;
        lab.all_at("agent", V2, 3, SOON).await;
        let deleted = lab.requests().into_iter().filter(|r| r.resource == "pods" && r.verb == "delete");
        for request in deleted {
            assert!(DateTime::parse_from_rfc3339(&request.at).unwrap() >= end - TimeDelta::seconds(1), "{request:?}");
        }
        lab.end().await;
    });
}

#[test]
fn a_canary_keeps_a_bad_version_from_the_others_and_a_good_one_waits_for_it_across_restarts() {
    olm_tests::run(async {
        let mut lab = Lab::new("canary", 6).await;
        let rollout = json!({ "maxUnavailable": "50%", "canary": { "nodes": 1, "soak": "10s" } });
        lab.oneagent(&json!({ "rollout": rollout }));
        lab.all_at("agent", V1, 6, SOON).await;
        lab.behave(|b| {
            b.versions.insert(V2.into(), Fault::CrashLoop);
        });
        let before = lab.uids("agent").await;
        lab.cluster.vendor.publish(&lab.name, V2);
        lab.condition("agent", "Degraded", "True", "RolloutFailed").await;
        assert_eq!(replaced(&lab, &before).await.len(), 1, "the canary alone saw it");
        // A good one: the canary is watched.
        let before = lab.uids("agent").await;
        lab.cluster.vendor.publish(&lab.name, V3);
        let said = lab.says("agent", "Progressing", "1 node must stay available until").await;
        assert_eq!(replaced(&lab, &before).await.len(), 1);
        let finish = lab.status("agent").await.rollout.and_then(|rollout| rollout.expected_finish);
        assert!(finish.is_some(), "the canary shows how long an agent takes");
        let until = said.split_once("available until ").unwrap().1.split_once(',').unwrap().0.to_owned();
        lab.operators[0].process.kill();
        lab.operators.clear();
        lab.start_operator(&[]).await;
        lab.all_at("agent", V3, 6, SOON).await;
        let until: DateTime<Utc> = until.parse().unwrap();
        let since = |node: &str| before.contains_key(node);
        let pods = lab.pods("agent").await;
        let created: Vec<DateTime<Utc>> = pods
            .iter()
            .filter(|(node, _)| since(node))
            .map(|(_, pod)| DateTime::from_timestamp(pod.creation_timestamp().unwrap().0.as_second(), 0).unwrap())
            .collect();
        assert_eq!(created.iter().filter(|at| **at < until).count(), 1, "{until} {created:?}");
        lab.end().await;
    });
}

#[test]
fn a_node_that_joins_while_a_canary_is_watched_gets_the_previous_version() {
    olm_tests::run(async {
        let mut lab = Lab::new("apart", 4).await;
        let rollout = json!({ "maxUnavailable": "50%", "canary": { "nodes": 1, "soak": "1h" } });
        lab.oneagent(&json!({ "rollout": rollout }));
        lab.all_at("agent", V1, 4, SOON).await;
        let before = lab.uids("agent").await;
        lab.cluster.vendor.publish(&lab.name, V2);
        lab.says("agent", "Progressing", "1 node must stay available until").await;
        let canary = replaced(&lab, &before).await.remove(0);
        lab.add_nodes(1, &Shape::default()).await;
        let evicted = lab.nodes.iter().find(|node| **node != canary).unwrap().clone();
        let pod = lab.pods("agent").await.remove(&evicted).unwrap().name_any();
        lab.cluster.kubectl(&["-n", &lab.name, "delete", "pod", &pod]);
        eventually("five agents run, one of them at the new version", SOON, || async {
            let pods = lab.pods("agent").await;
            let ready = pods.values().filter(|pod| is_ready(pod)).count();
            let new: Vec<&String> =
                pods.iter().filter(|(_, pod)| version_of(pod).as_deref() == Some(V2)).map(|(node, _)| node).collect();
            if ready == 5 && new == [&canary] { Ok(()) } else { Err(format!("{ready} {new:?}")) }
        })
        .await;
        // An operator that restarts while the environment is unreachable knows what was on its way.
        let now = lab.uids("agent").await;
        lab.cluster.vendor.with(&lab.name, |e| e.mood = Mood::Broken);
        lab.operators[0].process.kill();
        lab.operators.clear();
        lab.start_operator(&[]).await;
        lab.condition("agent", "Degraded", "True", "EnvironmentUnreachable").await;
        lab.shows("it knows", SOON, |status| {
            let state = status.rollout.as_ref().map(|rollout| rollout.state.clone()).unwrap_or_default();
            status.desired_version.as_deref() == Some(V2) && state != "Complete"
        })
        .await;
        lab.cluster.vendor.with(&lab.name, |e| e.mood = Mood::Well);
        lab.says("agent", "Progressing", "1 node must stay available until").await;
        assert_eq!(lab.uids("agent").await, now, "another canary was taken");
        lab.edit("agent", json!({ "rollout": { "canary": null } })).await;
        lab.all_at("agent", V2, 5, SOON).await;
        lab.condition("agent", "Ready", "True", "AllUpdated").await;
        lab.end().await;
    });
}

#[test]
fn as_many_failures_as_are_said_stop_a_rollout() {
    olm_tests::run(async {
        let lab = Lab::new("failures", 6).await;
        lab.oneagent(&json!({ "rollout": { "maxUnavailable": "100%", "maxFailures": 2 } }));
        lab.all_at("agent", V1, 6, SOON).await;
        // Two nodes are hopeless, which the budget of six would not have stopped for.
        lab.behave(|b| {
            for node in &lab.nodes[..2] {
                b.nodes.insert(node.clone(), Fault::CrashLoop);
            }
        });
        lab.cluster.vendor.publish(&lab.name, V2);
        let said = lab.condition("agent", "Degraded", "True", "RolloutFailed").await;
        assert!(said.contains("failed on 2 of"), "{said}");
        lab.end().await;
    });
}

#[test]
fn a_version_that_failed_is_tried_again_once_when_it_is_named() {
    olm_tests::run(async {
        let lab = Lab::new("retry", 4).await;
        lab.oneagent(&json!({ "rollout": { "maxUnavailable": 1 } }));
        lab.all_at("agent", V1, 4, SOON).await;
        let crashes = |crashes: bool| {
            lab.behave(|b| {
                if crashes {
                    b.versions.insert(V2.into(), Fault::CrashLoop);
                } else {
                    b.versions.clear();
                }
            });
        };
        crashes(true);
        lab.cluster.vendor.publish(&lab.name, V2);
        let said = lab.condition("agent", "Degraded", "True", "RolloutFailed").await;
        assert!(said.contains("spec.rollout.retry"), "{said}");
        // It fails again: that is final, although the field still names it.
        let before = lab.uids("agent").await;
        lab.edit("agent", json!({ "rollout": { "maxUnavailable": 1, "retry": V2 } })).await;
        eventually("the agent that failed is created again", SOON, || async {
            let now = lab.uids("agent").await;
            let changed = before.iter().filter(|(node, uid)| now.get(*node).is_some_and(|now| now != *uid)).count();
            if changed == 1 { Ok(()) } else { Err(format!("{now:?}")) }
        })
        .await;
        lab.shows("it failed again", SOON, |status| status.rejected_versions == [V2]).await;
        lab.condition("agent", "Degraded", "True", "RolloutFailed").await;
        let before = lab.uids("agent").await;
        lab.is_looked_at().await;
        assert_eq!(lab.uids("agent").await, before);
        assert_eq!(lab.status("agent").await.rejected_versions, [V2]);
        // What made it fail is corrected: named again, it is tried again.
        crashes(false);
        lab.edit("agent", json!({ "rollout": { "maxUnavailable": 1, "retry": null } })).await;
        lab.is_observed("agent").await;
        // In a blackout it waits, and is not forgotten.
        let freeze = json!([{ "from": "2026-01-01T00:00:00Z", "to": "2099-01-01T00:00:00Z", "reason": "freeze" }]);
        let healthy = lab.uids("agent").await;
        lab.edit("agent", json!({ "rollout": { "retry": V2, "blackouts": freeze } })).await;
        lab.says("agent", "Progressing", "in a blackout (freeze) until").await;
        let now = lab.uids("agent").await;
        let replaced = healthy.iter().filter(|(node, uid)| now.get(*node) != Some(*uid)).count();
        assert!(replaced <= 1, "beside the one that failed others went");
        lab.edit("agent", json!({ "rollout": { "blackouts": null } })).await;
        lab.all_at("agent", V2, 4, SOON).await;
        lab.condition("agent", "Degraded", "False", "AsExpected").await;
        lab.end().await;
    });
}

#[test]
fn zones_come_one_after_the_other_and_a_node_with_the_label_never() {
    olm_tests::run(async {
        let mut lab = Lab::new("zones", 0).await;
        // The zones are not in the order of the Pods' age.
        for zone in ["c", "a", "b"] {
            lab.add_nodes(2, &Shape::default().zone(zone)).await;
        }
        let zones = ["c", "c", "a", "a", "b", "b"];
        lab.oneagent(&json!({ "rollout":
            { "maxUnavailable": "100%", "maxUnavailablePerZone": 1, "order": "ZoneByZone" } }));
        lab.all_at("agent", V1, 6, SOON).await;
        let skip = |value: Value| json!({ "metadata": { "labels": { "oneagent.dynatrace.com/skip-update": value } } });
        patch(&lab.cluster.client, &lab.nodes[5], &skip(json!("true"))).await;
        let pods = lab.pods("agent").await;
        let zone_of = |pod: &str| {
            let node = pods.iter().find(|(_, found)| found.name_any() == pod).map(|(node, _)| node.clone());
            lab.nodes.iter().position(|name| Some(name) == node.as_ref()).map(|at| zones[at])
        };
        lab.cluster.vendor.publish(&lab.name, V2);
        lab.reached("agent", V2, 5).await;
        lab.is_looked_at().await;
        let deleted: Vec<&str> = lab
            .requests()
            .iter()
            .filter(|r| r.resource == "pods" && r.verb == "delete" && r.code < 300)
            .filter_map(|r| zone_of(&r.name))
            .collect();
        assert_eq!(deleted, ["a", "a", "b", "c", "c"]);
        let left = &lab.pods("agent").await[&lab.nodes[5]];
        assert_eq!(version_of(left).as_deref(), Some(V1));
        let said = lab.says("agent", "Ready", "skip-update").await;
        assert!(said.contains(&lab.nodes[5]), "{said}");
        patch(&lab.cluster.client, &lab.nodes[5], &skip(Value::Null)).await;
        lab.all_at("agent", V2, 6, SOON).await;
        eventually("it is complete", SOON, || async {
            let state = lab.status("agent").await.rollout.unwrap_or_default().state;
            if state == "Complete" { Ok(()) } else { Err(state) }
        })
        .await;
        lab.end().await;
    });
}

/// What a sample says of updates.
fn sample(name: &str) -> Value {
    let text = std::fs::read_to_string(repository(&format!("config/oneagent-operator/samples/oneagent-{name}.yaml")));
    let spec = documents(&text.unwrap()).remove(0)["spec"].clone();
    let kept = |key: &str| (key.to_owned(), spec[key].clone());
    Value::Object(["rollout", "update", "waitReadySeconds"].map(kept).into_iter().collect())
}

/// Publishes a version that crashes to twenty nodes in two zones, and returns the zones of those that it reached.
async fn reached_by_a_bad_version(lab: &str, spec: Value, is_held: Option<(&str, &str)>) -> Vec<&'static str> {
    let mut lab = Lab::new(lab, 0).await;
    for zone in ["a", "b"] {
        lab.add_nodes(10, &Shape::default().zone(zone)).await;
    }
    lab.oneagent(&spec);
    lab.all_at("agent", V1, 20, SOON).await;
    let before = lab.uids("agent").await;
    let bad = Utc::now().format("1.999.0.%Y%m%d-%H%M%S").to_string();
    lab.behave(|b| {
        b.versions.insert(bad.clone(), Fault::CrashLoop);
    });
    lab.cluster.vendor.publish(&lab.name, &bad);
    match is_held {
        Some((condition, words)) => drop(lab.says("agent", condition, words).await),
        None => {
            lab.condition_within(SOON, "agent", "Degraded", "True", "RolloutFailed").await;
        }
    }
    lab.is_looked_at().await;
    let zone = |node: &String| if lab.nodes[..10].contains(node) { "a" } else { "b" };
    let reached = replaced(&lab, &before).await.iter().map(zone).collect();
    lab.end().await;
    reached
}

/// The table in `docs/rollouts.md`.
#[test]
fn a_bad_version_reaches_with_each_worked_policy_what_the_page_says() {
    olm_tests::run(async {
        let nights = |windows: Value| {
            let mut spec = sample("nights");
            // It is some time of some day.
            (spec["rollout"]["windows"], spec["rollout"]["blackouts"]) = (windows, json!([]));
            spec
        };
        let open = json!([{ "start": "00:00", "duration": "168h" }]);
        let (careful, fast, day, night, zones) = tokio::join!(
            reached_by_a_bad_version("careful", sample("careful"), None),
            reached_by_a_bad_version("fast", sample("fast"), None),
            reached_by_a_bad_version("by-day", nights(later()), Some(("Progressing", "outside of every window"))),
            reached_by_a_bad_version("at-night", nights(open), None),
            reached_by_a_bad_version("by-zone", sample("zones"), None),
        );
        let young = Some(("Degraded", "younger than spec.update.minimumAge"));
        let late = reached_by_a_bad_version("late-ring", sample("late-ring"), young).await;
        assert_eq!([careful.len(), fast.len(), day.len(), night.len(), late.len()], [1, 10, 0, 2, 0]);
        assert_eq!(zones, ["a", "a"]);
        let page = std::fs::read_to_string(repository("docs/rollouts.md")).unwrap();
        for row in
            ["the others | 1 node |", "| 10 nodes,", "| 0 by day, 2 at night |", "| 2 nodes, both of the first zone |"]
        {
            assert!(page.contains(row), "{row}");
        }
    });
}

#[test]
fn twenty_windows_and_a_blackout_of_ten_years_delay_no_other() {
    olm_tests::run(async {
        let lab = Lab::new("policies-decade", 2).await;
        let windows: Vec<Value> =
            (0..20).map(|minute| json!({ "start": format!("02:{minute:02}"), "duration": "1m" })).collect();
        let decade = json!([{ "from": "2026-01-01T00:00:00Z", "to": "2036-01-01T00:00:00Z" }]);
        lab.oneagent(&json!({ "rollout": { "windows": windows, "blackouts": decade } }));
        // Nodes without an agent wait for no window.
        lab.all_at("agent", V1, 2, SOON).await;
        lab.cluster.vendor.publish(&lab.name, V2);
        lab.says("agent", "Progressing", "in a blackout until 2036-01-01T02:00:00Z").await;
        lab.oneagent_named("other", &json!({ "nodeSelector": { "no": "node" } }));
        lab.daemonset_is("other", "there", |_| true).await;
        lab.is_looked_at().await;
        let deleted = lab.requests().iter().filter(|r| r.resource == "pods" && r.verb == "delete").count();
        assert_eq!(deleted, 0);
        lab.end().await;
    });
}
