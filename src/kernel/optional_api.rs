//! Optional APIs: objects of a group that a cluster may lack, told by their labels, made equal to a wanted set.
//!
//! Here because such a group can come, go and change its version while we run. Must not know what the objects are for.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tokio::time::Instant;

use kube::Client;
use kube::core::GroupVersionKind;

use super::set::{self, Owner};
use super::{Error, call};
use crate::k8s::api_group::{Group, Served, Wanted};

#[derive(Debug)]
struct Done {
    wanted: String,
    at: Instant,
    /// Why it is not as it should be.
    trouble: Option<String>,
}

/// All of them.
#[derive(Debug)]
pub struct OptionalApis {
    manager: &'static str,
    /// For how long an answer about a group, and what was compared, is believed.
    period: Duration,
    groups: Mutex<HashMap<&'static str, (Served, Instant)>>,
    done: Mutex<HashMap<String, Done>>,
}

impl OptionalApis {
    /// None yet; written by this field manager.
    #[must_use]
    pub fn new(manager: &'static str, period: Duration) -> Self {
        Self { manager, period, groups: Mutex::default(), done: Mutex::default() }
    }

    /// How often objects are compared with the cluster.
    #[must_use]
    pub fn period(&self) -> Duration {
        self.period
    }

    /// How the cluster serves a group; asked once a period.
    pub async fn served(&self, client: &Client, group: &Group) -> Result<Served, Error> {
        if let Some((served, at)) = self.groups().get(group.name)
            && at.elapsed() < self.period
        {
            return Ok(served.clone());
        }
        let all = call(|| "list API groups".to_owned(), client.list_api_groups()).await?;
        let offered: Option<Vec<String>> = all
            .groups
            .into_iter()
            .find(|g| g.name == group.name)
            .map(|g| g.versions.into_iter().map(|v| v.version).collect());
        let served = match offered {
            None => Served::Absent,
            Some(offered) => match group.versions.iter().find(|version| offered.iter().any(|o| o == *version)) {
                Some(version) => Served::As(version),
                None => Served::Otherwise(offered),
            },
        };
        self.groups().insert(group.name, (served.clone(), Instant::now()));
        Ok(served)
    }

    /// Makes an owner's objects what is wanted: applies what differs, deletes what is too much. Returns the writes, or
    /// what was in the way, also when that was tried a moment ago.
    pub async fn converge(
        &self,
        client: &Client,
        group: &Group,
        owner: Owner<'_>,
        wanted: &Wanted,
    ) -> Result<usize, String> {
        let fingerprint =
            format!("{} {}", wanted.keep_others, serde_json::to_string(&wanted.objects).unwrap_or_default());
        if let Some(done) = self.done().get(owner.uid).filter(|done| done.wanted == fingerprint) {
            // That nothing of an owner is there was seen once, and no one else creates such objects.
            let is_seen = done.trouble.is_none() && wanted.objects.is_empty();
            if is_seen || done.at.elapsed() < self.period {
                return done.trouble.clone().map_or(Ok(0), Err);
            }
        }
        let outcome = self.try_converge(client, group, owner, wanted).await;
        let trouble = outcome.as_ref().err().map(Error::chain);
        if let Some(error) = &trouble {
            tracing::warn!(
                namespace = owner.namespace,
                group = group.name,
                error,
                "objects could not be made as they should be"
            );
        }
        self.done()
            .insert(owner.uid.to_owned(), Done { wanted: fingerprint, at: Instant::now(), trouble: trouble.clone() });
        trouble.map_or_else(|| Ok(outcome.unwrap_or_default()), Err)
    }

    async fn try_converge(
        &self,
        client: &Client,
        group: &Group,
        owner: Owner<'_>,
        wanted: &Wanted,
    ) -> Result<usize, Error> {
        let Served::As(version) = self.served(client, group).await? else { return Ok(0) };
        let mut writes = 0;
        for kind in group.kinds {
            writes +=
                set::converge(self.manager, client, &GroupVersionKind::gvk(group.name, version, kind), owner, wanted)
                    .await?;
        }
        Ok(writes)
    }

    /// Forgets an owner.
    pub fn forget(&self, uid: &str) {
        self.done().remove(uid);
    }

    fn groups(&self) -> MutexGuard<'_, HashMap<&'static str, (Served, Instant)>> {
        self.groups.lock()
    }

    fn done(&self) -> MutexGuard<'_, HashMap<String, Done>> {
        self.done.lock()
    }
}
