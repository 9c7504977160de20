//! What a script lets happen to the world and to the operator.
//!
//! Must not look at what comes of it.

use kube::runtime::watcher;

use super::super::fleet::Fleet;
use super::super::observe::Missing;
use super::operator::{Operator, key, show};
use super::script::Act;
use super::text::{full, merge};
use crate::clock::Clock;
use crate::rollout::ledger::Ledger;
use crate::sim::World;

const ZONE: &str = "topology.kubernetes.io/zone";

impl Operator {
    pub(super) fn join(&mut self, zone: &str, count: usize) {
        for _ in 0..count {
            let number = self.joined.entry(zone.to_owned()).or_default();
            let name = format!("{zone}-{number}");
            *number += 1;
            let index = self.joined.values().sum::<usize>();
            self.world.join(&name, &format!("10.0.0.{index}"), &[(ZONE.to_owned(), zone.to_owned())].into());
        }
    }

    pub(super) fn act(&mut self, act: &Act) {
        let told = match act {
            Act::Publish(version) => {
                self.environment.latest = version.parse().ok();
                self.environment.latest_at = Some(self.world.now);
                format!("the environment offers {version}")
            }
            Act::EnvironmentAway(away) => {
                self.environment.away = *away;
                self.environment.trouble = away.then(|| "connection refused".to_owned());
                (if *away { "the environment is away" } else { "the environment answers again" }).to_owned()
            }
            Act::Fate(fates) => {
                self.world.fates.extend(fates.iter().map(|(version, fate)| (full(version), *fate)));
                format!("agents from now on: {fates:?}")
            }
            Act::FateOn(fates) => {
                for (node, fate) in fates {
                    match fate {
                        Some(fate) => self.world.fates_on.insert(node.clone(), *fate),
                        None => self.world.fates_on.remove(node),
                    };
                }
                format!("agents on nodes from now on: {fates:?}")
            }
            Act::NotReady(nodes) => self.each(nodes, "NotReady", |world, node| world.set_ready(node, false)),
            Act::Ready(nodes) => self.each(nodes, "Ready again", |world, node| world.set_ready(node, true)),
            Act::Cordon(nodes) => self.each(nodes, "cordoned", |world, node| world.cordon(node, true)),
            Act::Uncordon(nodes) => self.each(nodes, "uncordoned", |world, node| world.cordon(node, false)),
            Act::Leave(nodes) => self.each(nodes, "deleted", World::leave),
            Act::Delete(nodes) => self.each(nodes, "losing their agents to somebody", World::delete_on),
            Act::Taint(nodes) => {
                for (node, taints) in nodes {
                    self.world.taint(node, taints);
                }
                format!("taints: {nodes:?}")
            }
            Act::Join(zones) => {
                for (zone, count) in zones {
                    self.join(zone, *count);
                }
                format!("nodes join: {zones:?}")
            }
            Act::Edit(patch) => {
                let mut spec = serde_json::to_value(&self.agent.spec).expect("a spec");
                merge(&mut spec, patch);
                self.agent.spec = serde_json::from_value(spec).expect("a spec");
                self.agent.metadata.generation = self.agent.metadata.generation.map(|generation| generation + 1);
                format!("edit: {patch}")
            }
            Act::Refuse(words) => {
                self.world.refuses.clone_from(words);
                let words = words.as_deref().unwrap_or("nothing any more");
                format!("the API server refuses new Pods: {words}")
            }
            Act::Restart => {
                (self.ledger, self.missing, self.deciding_since) = (Ledger::default(), Missing::new(), self.world.now);
                let clock = Clock::at(self.world.now);
                let before = std::mem::replace(&mut self.fleet, Fleet::new(clock));
                self.refill(&before);
                "the operator starts again".to_owned()
            }
            Act::WipeStatus => {
                self.agent.status = None;
                "somebody empties the status".to_owned()
            }
        };
        self.line("", &told);
    }

    fn each(&mut self, nodes: &[String], what: &str, act: impl Fn(&mut World, &str)) -> String {
        for node in nodes {
            act(&mut self.world, node);
        }
        format!("{what}: {}", nodes.join(", "))
    }

    /// A new process lists what is there.
    fn refill(&mut self, before: &Fleet) {
        let key = key();
        for event in self.world.list() {
            show(&self.fleet, event);
        }
        if let Some(daemonset) = before.daemonset(&key) {
            self.fleet.daemonset_event("", watcher::Event::Apply((*daemonset).clone()));
        }
    }
}
