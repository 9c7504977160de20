//! What happens to the rehearsed operator itself: versions are published, specs edited, its process starts again.
//!
//! Must not look at anything.

use chrono::TimeDelta;
use serde_json::{Value, json};

use super::super::listed::Cluster;
use super::act::Own;
use super::kept::Kept;
use super::operator::Operator;
use super::shown::show;
use crate::k8s::watch::Change;
use crate::sim::edit;

impl Operator {
    pub(super) fn own(&mut self, act: &Own) -> Result<String, String> {
        let now = self.stage.world.now;
        Ok(match act {
            Own::Publish(version) => {
                self.all.iter_mut().for_each(|kept| kept.publish(version, now));
                format!("the environment offers {version}")
            }
            Own::PublishTo(all) => {
                for (name, version) in all {
                    self.named(name, |kept| kept.publish(version, now));
                }
                format!("environments offer versions: {all:?}")
            }
            Own::EnvironmentAway(away) => {
                self.all.iter_mut().for_each(|kept| kept.set_unreachable(*away, now));
                (if *away { "the environment is unreachable" } else { "the environment answers again" }).to_owned()
            }
            Own::Edit(patch) => self.edit(|_| Some(patch))?,
            Own::EditOf(all) => self.edit(|name| all.get(name))?,
            Own::Pause(paused) => {
                let patch = json!({ "rollout": { "paused": paused } });
                self.edit(|_| Some(&patch))?
            }
            Own::Stop(stopped) => {
                self.stopped = *stopped;
                (if *stopped { "somebody stops everything" } else { "nothing is stopped any more" }).to_owned()
            }
            Own::Restart => {
                let before = std::mem::replace(&mut self.cluster, Cluster::new(self.stage.clock()));
                // A new process lists what is there.
                self.stage.world.list().into_iter().for_each(|event| show(&self.cluster.fleet, event));
                for kept in &mut self.all {
                    if let Some(daemonset) = before.fleet.daemonset(&kept.key()) {
                        self.cluster.fleet.daemonset_change(Change::Applied((*daemonset).clone()));
                    }
                    kept.forget();
                }
                self.note();
                (self.deciding_since, self.answers_at) = (now, now + TimeDelta::seconds(1));
                "the operator starts again".to_owned()
            }
            Own::WipeStatus => {
                self.all.iter_mut().for_each(|kept| kept.agent.status = None);
                "somebody empties the status".to_owned()
            }
        })
    }

    pub(super) fn named(&mut self, name: &str, act: impl Fn(&mut Kept)) {
        self.all.iter_mut().filter(|kept| kept.name() == name).for_each(act);
    }

    /// Edits the specs of those that have a patch.
    fn edit<'p>(&mut self, patch: impl Fn(&str) -> Option<&'p Value>) -> Result<String, String> {
        let mut said = String::new();
        for kept in &mut self.all {
            if let Some(patch) = patch(&kept.name()) {
                said = edit(&mut kept.agent.spec, &mut kept.agent.metadata, patch)?;
            }
        }
        self.note();
        self.stage.world.reconsider();
        Ok(said)
    }
}
