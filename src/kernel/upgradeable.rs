//! OLM's OperatorCondition: "do not replace the operator now", while Pods are deleted and not yet replaced.
//!
//! Here because a controller that is replaced between a deletion and the replacement's readiness forgets what it was
//! waiting for. It never holds an upgrade longer than the latest deletion's deadline. Everything works without it:
//! only OLM v0 makes such an object. Must not decide what counts as replaced.

use std::collections::BTreeMap;
use std::time::Duration;

use chrono::{DateTime, SecondsFormat, Utc};
use kube::Client;
use kube::api::{Api, DynamicObject, Patch};
use kube::core::{ApiResource, GroupVersionKind};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::Notify;

use super::{apply::params, call};
use crate::clock::Clock;

/// A rollout deletes the next Pod a moment after the last one was replaced: that is not worth a write.
const QUIET: Duration = Duration::from_secs(1);
/// A write that failed is tried again.
const AGAIN: Duration = Duration::from_secs(10);

/// Which objects are in the middle of a rollout.
#[derive(Debug, Default)]
pub struct Upgradeable {
    owners: Mutex<BTreeMap<String, DateTime<Utc>>>,
    changed: Notify,
}

impl Upgradeable {
    /// Says until when Pods of an object count as deleted and not yet replaced; `None`: there are none.
    pub fn set_busy_until(&self, owner: &str, until: Option<DateTime<Utc>>) {
        let mut owners = self.owners.lock();
        let before = match until {
            Some(until) => owners.insert(owner.to_owned(), until),
            None => owners.remove(owner),
        };
        if before != until {
            self.changed.notify_one();
        }
    }

    /// Objects in the middle of something, and until when at most.
    fn busy(&self, now: DateTime<Utc>) -> Option<(String, DateTime<Utc>)> {
        let owners = self.owners.lock();
        let busy: Vec<(&String, &DateTime<Utc>)> = owners.iter().filter(|(_, until)| **until > now).collect();
        let until = busy.iter().map(|(_, until)| **until).max()?;
        Some((busy.into_iter().map(|(owner, _)| owner.as_str()).collect::<Vec<_>>().join(", "), until))
    }

    /// Keeps the OperatorCondition of this name in step. Never ends.
    #[expect(clippy::disallowed_methods, reason = "the kernel writes")]
    pub async fn keep(&self, client: Client, manager: &str, clock: &Clock, namespace: &str, name: &str) {
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("operators.coreos.com", "v2", "OperatorCondition"));
        let api: Api<DynamicObject> = Api::namespaced_with(client, namespace, &resource);
        let mut said: Option<bool> = None;
        loop {
            let now = clock.now();
            let busy = self.busy(now);
            let wish = busy.is_none();
            let mut next = busy.as_ref().map(|(_, until)| (*until - now).to_std().unwrap_or_default());
            if said != Some(wish) {
                if wish && said.is_some() && tokio::time::timeout(QUIET, self.changed.notified()).await.is_ok() {
                    continue;
                }
                let patch = json!({ "spec": { "conditions": [condition(busy.as_ref().map(|(who, _)| who.as_str()),
                    clock.now())] } });
                match call(
                    || format!("write OperatorCondition {name}"),
                    api.patch(name, &params(manager), &Patch::Merge(patch)),
                )
                .await
                {
                    Ok(_) => said = Some(wish),
                    // Not installed by OLM v0, or not any more: nothing waits for what we say.
                    Err(error) if error.has_code(&[403, 404]) => said = Some(wish),
                    Err(error) => {
                        tracing::warn!(%error, "OLM is not told whether the operator may be upgraded now; trying \
                            again");
                        next = Some(AGAIN);
                    }
                }
            }
            let _ = tokio::time::timeout(next.unwrap_or(Duration::MAX), self.changed.notified()).await;
        }
    }
}

/// What OLM reads.
fn condition(busy: Option<&str>, now: DateTime<Utc>) -> Value {
    let (status, reason, message) = match busy {
        None => ("True", "NothingInFlight", "no Pod is between removal and replacement".to_owned()),
        Some(who) => (
            "False",
            "ReplacingPods",
            format!(
                "Pods of {who} are removed and not yet replaced; an upgrade waits until none is, or waitReadySeconds \
                after the last removal; rollout.paused lifts it"
            ),
        ),
    };
    json!({ "type": "Upgradeable", "status": status, "reason": reason, "message": message,
        "lastTransitionTime": now.to_rfc3339_opts(SecondsFormat::Secs, true) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use chrono::TimeDelta;

    #[test]
    fn an_upgrade_waits_for_pods_in_flight_and_never_longer_than_their_deadline() {
        let upgradeable = Upgradeable::default();
        let now = DateTime::UNIX_EPOCH;
        let after = |seconds| now + TimeDelta::seconds(seconds);
        assert_eq!(upgradeable.busy(now), None);
        upgradeable.set_busy_until("a/one", Some(after(5)));
        upgradeable.set_busy_until("b/two", Some(after(9)));
        assert_eq!(upgradeable.busy(now), Some(("a/one, b/two".into(), after(9))));
        assert_eq!(upgradeable.busy(after(6)).unwrap().0, "b/two");
        assert_eq!(upgradeable.busy(after(9)), None);
        upgradeable.set_busy_until("b/two", None);
        assert_eq!(upgradeable.busy(now).unwrap().0, "a/one");
        assert!(condition(Some("a/one"), DateTime::UNIX_EPOCH)["message"].as_str().unwrap().contains("a/one"));
    }
}
