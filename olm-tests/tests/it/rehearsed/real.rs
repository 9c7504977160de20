//! A scenario on a real control plane: its nodes, and what happens to them.
//!
//! Must not compare.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::Api;
use kube::runtime::watcher::Event;
use olm_tests::eventually;
use olm_tests::kubelet::Fault;
use olm_tests::lab::{Lab, SOON};
use olm_tests::nodes::{Shape, create, node, patch, set_ready};
use olm_tests::vendor::Mood;
use olm_tests::watched::events;
use oneagent_operator::api::oneagent::OneAgentStatus;
use oneagent_operator::oneagent::rehearsal::{Act, Head, Own};
use oneagent_operator::sim::{self, Fate, Pool};
use oneagent_operator::simulate::Scenario;
use serde_json::{Value, json};

/// A scenario that really happens.
pub struct Real {
    lab: Lab<'static>,
    spec: Value,
    pools: Vec<Pool>,
    /// The node of each Pod that there ever was, by its name.
    nodes: Arc<Mutex<BTreeMap<String, String>>>,
    /// How many Pods the operator had deleted when the phase began.
    before: usize,
}

impl Real {
    /// An operator, without a OneAgent and without nodes.
    pub async fn new(name: &str, scenario: &Scenario) -> Self {
        let lab = Lab::new(name, 0).await;
        lab.behave(|b| b.refuse_downgrade = false);
        lab.cluster.vendor.with(&lab.name, |environment| environment.offered.clear());
        let nodes: Arc<Mutex<BTreeMap<String, String>>> = Arc::default();
        let (noted, pods) = (nodes.clone(), Api::<Pod>::namespaced(lab.cluster.client.clone(), &lab.name));
        tokio::spawn(async move {
            let mut events = events(pods).boxed();
            while let Some(event) = events.next().await {
                let Ok(Event::Apply(pod) | Event::InitApply(pod)) = event else { continue };
                if let Some(node) = pod.spec.as_ref().and_then(|spec| spec.node_name.clone()) {
                    noted.lock().unwrap().insert(pod.name_any(), node);
                }
            }
        });
        Self { lab, spec: scenario.script.spec.clone(), pools: scenario.script.pools.clone(), nodes, before: 0 }
    }

    /// What the scenario calls these nodes.
    pub fn short(&self, nodes: &[String]) -> Vec<String> {
        let begin = format!("{}-", self.lab.name);
        nodes.iter().map(|node| node.strip_prefix(&begin).unwrap_or(node).to_owned()).collect()
    }

    fn long(&self, node: &str) -> String {
        format!("{}-{node}", self.lab.name)
    }

    /// Lets something happen.
    pub async fn act(&mut self, act: &Act) {
        match act {
            Act::World(act) => self.happens(act).await,
            Act::Own(Own::Publish(version)) => {
                self.lab.cluster.vendor.publish(&self.lab.name, version);
                if !self.spec.is_null() {
                    self.lab.oneagent(&std::mem::take(&mut self.spec));
                    self.fill().await;
                }
            }
            Act::Own(Own::EnvironmentAway(away)) => {
                let mood = if *away { Mood::Broken } else { Mood::Well };
                self.lab.cluster.vendor.with(&self.lab.name, |environment| environment.mood = mood);
                self.lab.is_polled().await;
            }
            Act::Own(Own::Edit(spec)) => self.lab.edit("agent", spec.clone()).await,
            Act::Own(Own::Pause(paused)) => self.lab.edit("agent", json!({ "rollout": { "paused": paused } })).await,
            Act::Own(Own::Stop(true)) => {
                let stop = json!({ "apiVersion": "v1", "kind": "ConfigMap", "data": { "stop": "true" },
                    "metadata": { "name": "oneagent-operator", "namespace": self.lab.name } });
                self.lab.cluster.apply(&stop.to_string());
            }
            Act::Own(Own::Stop(false)) => {
                self.lab.cluster.kubectl(&["-n", &self.lab.name, "delete", "configmap", "oneagent-operator"]);
            }
            Act::Own(Own::Restart) => {
                self.lab.operators[0].process.kill();
                self.lab.operators.clear();
                self.lab.start_operator(&[]).await;
            }
            Act::Own(Own::WipeStatus) => {
                let wipe = json!([{ "op": "replace", "path": "/status", "value": {} }]).to_string();
                let of = ["patch", "oneagent", "agent", "--subresource=status", "--type=json", "-p", &wipe];
                self.lab.cluster.kubectl(&[&["-n", self.lab.name.as_str()], &of[..]].concat());
            }
            Act::Own(Own::PublishTo(_) | Own::EditOf(_)) => panic!("one OneAgent is compared"),
        }
    }

    /// The scenario's nodes join, and each gets an agent in a second of its own: the oldest agent is replaced first,
    /// and the API's times are whole seconds.
    async fn fill(&mut self) {
        self.lab.condition("agent", "Ready", "False", "NoNodesSelected").await;
        for pool in self.pools.clone() {
            for number in 0..pool.count {
                let node = join(&mut self.lab, &pool, number).await;
                eventually("an agent is created, and its second is over", SOON, || async {
                    let created = self.lab.pods("agent").await.get(&node).and_then(ResourceExt::creation_timestamp);
                    let is_over = created.is_some_and(|at| at.0.as_second() < chrono::Utc::now().timestamp());
                    if is_over { Ok(()) } else { Err(format!("{node}: not yet")) }
                })
                .await;
            }
        }
    }

    async fn happens(&mut self, act: &sim::Act) {
        let client = self.lab.cluster.client.clone();
        match act {
            sim::Act::Fate(fates) => self.lab.behave(|behaviour| {
                for (version, fate) in fates {
                    match fault(*fate) {
                        Some(fault) => behaviour.versions.insert(version.clone(), fault),
                        None => behaviour.versions.remove(version),
                    };
                }
            }),
            sim::Act::FateOn(fates) => {
                let fates: Vec<_> = fates.iter().map(|(node, fate)| (self.long(node), fate.and_then(fault))).collect();
                self.lab.behave(|behaviour| {
                    for (node, fault) in fates {
                        match fault {
                            Some(fault) => behaviour.nodes.insert(node, fault),
                            None => behaviour.nodes.remove(&node),
                        };
                    }
                });
            }
            sim::Act::NotReady(nodes) | sim::Act::Ready(nodes) => {
                for node in nodes {
                    set_ready(&client, &self.long(node), matches!(act, sim::Act::Ready(_))).await;
                }
            }
            sim::Act::Cordon(nodes) | sim::Act::Uncordon(nodes) => {
                let cordoned = json!({ "spec": { "unschedulable": matches!(act, sim::Act::Cordon(_)) } });
                for node in nodes {
                    patch(&client, &self.long(node), &cordoned).await;
                }
            }
            sim::Act::Taint(all) => {
                for (node, taints) in all {
                    let taints: Vec<Value> = taints.iter().map(|taint| taint_of(taint)).collect();
                    patch(&client, &self.long(node), &json!({ "spec": { "taints": taints } })).await;
                }
            }
            sim::Act::Leave(nodes) => {
                let nodes: Vec<String> = nodes.iter().map(|node| self.long(node)).collect();
                olm_tests::nodes::delete(&client, &nodes).await;
            }
            sim::Act::Join(pools) => {
                for (name, count) in pools {
                    let pool = self.pools.iter_mut().find(|pool| pool.name == *name).expect("a pool of the scenario");
                    let first = pool.count;
                    pool.count += count;
                    for number in first..pool.count {
                        join(&mut self.lab, pool, number).await;
                    }
                }
            }
            sim::Act::Delete(nodes) => {
                let pods = self.lab.pods("agent").await;
                for node in nodes {
                    let pod = pods[&self.long(node)].name_any();
                    self.lab.cluster.kubectl(&["-n", &self.lab.name, "delete", "pod", &pod, "--wait=false"]);
                }
            }
            sim::Act::RestartContainers(_) | sim::Act::Refuse(_) | sim::Act::Scale(_) | sim::Act::MinAvailable(_) => {
                panic!("no scenario that is compared has {act:?}")
            }
        }
    }

    /// Waits until the operator is where the simulated one was, having replaced so many agents; returns the nodes of
    /// these, as `replaced` does.
    pub async fn comes_to(&mut self, wanted: &Head, steps: usize, story: &str) -> Vec<Vec<String>> {
        let wanted = head(wanted.clone());
        let so_far = || async {
            self.lab.is_observed("agent").await;
            let status = self.lab.status("agent").await;
            let (rollout, nodes) = (status.rollout.unwrap_or_default(), status.nodes.unwrap_or_default());
            head(Head {
                state: rollout.state,
                to: status.desired_version,
                updated: nodes.updated,
                selected: nodes.selected,
                causes: Vec::new(),
                waiting_on: None,
                failure: rollout.failure.map(|failure| failure.message),
            })
        };
        let what = format!("the same comes of it: {wanted:?}; {story}");
        let comes = || async {
            eventually(&what, SOON, || async {
                let (is, replaced) = (so_far().await, self.replaced());
                // More than that a comparison shows better.
                if is == wanted && replaced.iter().flatten().count() >= steps {
                    Ok(())
                } else {
                    Err(format!("{is:?} {replaced:?} of {steps}"))
                }
            })
            .await;
        };
        comes().await;
        // What else it would do it does now.
        self.lab.is_polled().await;
        comes().await;
        let replaced = self.replaced();
        self.before += replaced.iter().flatten().count();
        replaced
    }

    /// The nodes of the agents that the operator has deleted in this phase, in order. Requests that were under way
    /// together have none among them.
    fn replaced(&self) -> Vec<Vec<String>> {
        let requests = self.lab.requests().into_iter();
        let deletions = requests.filter(|one| one.resource == "pods" && one.verb == "delete" && one.code < 300);
        let mut deletions: Vec<_> = deletions.skip(self.before).collect();
        deletions.sort_by(|a, b| a.at.cmp(&b.at));
        let nodes = self.nodes.lock().unwrap();
        let (mut all, mut answered): (Vec<Vec<String>>, _) = (Vec::new(), String::new());
        for one in deletions {
            if one.at > answered {
                all.push(Vec::new());
            }
            answered = answered.max(one.answered);
            let node = nodes.get(&one.name).unwrap_or(&one.name).clone();
            all.last_mut().expect("one at least").extend(self.short(&[node]));
        }
        all
    }

    pub async fn status(&self) -> OneAgentStatus {
        self.lab.status("agent").await
    }

    pub async fn end(self) {
        self.lab.end().await;
    }
}

/// What can be compared: words name Pods and times.
fn head(head: Head) -> Head {
    Head { causes: Vec::new(), waiting_on: None, failure: head.failure.map(|_| String::new()), ..head }
}

/// An agent that takes so many seconds is late.
const LATE: i64 = 600;

/// What a kubelet of the rig makes of it; `None`: nothing is wrong. A late agent is held until a fate releases it.
fn fault(fate: Fate) -> Option<Fault> {
    match fate {
        Fate::Ready(seconds) => (seconds >= LATE).then_some(Fault::Held),
        Fate::CrashesAfter(_) => Some(Fault::CrashesAfter(Duration::from_secs(1))),
        Fate::Crashes => Some(Fault::CrashLoop),
        Fate::Pulls(seconds) => Some(Fault::SlowPull(Duration::from_secs(seconds.unsigned_abs()))),
        Fate::NoImage => Some(Fault::ImagePull),
        Fate::Refused => Some(Fault::Refused),
        Fate::KillsNode => Some(Fault::KillsNode),
    }
}

fn taint_of(taint: &str) -> Value {
    let (key, effect) = taint.split_once(':').expect("key:Effect");
    json!({ "key": key, "effect": effect })
}

/// A node of a pool joins.
async fn join(lab: &mut Lab<'_>, pool: &Pool, number: usize) -> String {
    let mut shape = Shape::default().zone(pool.zone()).label("lab", &lab.name);
    for (key, value) in &pool.labels {
        shape = shape.label(key, value);
    }
    let name = format!("{}-{}-{number}", lab.name, pool.name);
    create(&lab.cluster.client, vec![node(&name, &shape)]).await;
    lab.nodes.push(name.clone());
    name
}
