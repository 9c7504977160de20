//! Rivals: other installations of the package, elsewhere in the cluster, that watch a namespace of ours.
//!
//! Each has a Lease in its own namespace, so no election is between them. The status of an object names the
//! installation that operates it; while that one's Lease is held, the others leave the object alone. Must not write.

use std::collections::HashMap;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use kube::api::Api;
use kube::{Client, ResourceExt};
use parking_lot::Mutex;
use tokio::time::Instant;

use super::lease::{Step, UNSAID, WATCHED, decide};
use super::{Error, Key, call};

/// For how long an answer about a Lease is believed, and when an object that is left alone is looked at again.
const PERIOD: Duration = Duration::from_secs(5);

/// All of them.
pub(super) struct Rivals {
    client: Client,
    /// Name of the package, and so of each Lease.
    name: &'static str,
    /// Our own namespace.
    namespace: String,
    /// What their Leases say, by namespace.
    leases: Mutex<HashMap<String, Seen>>,
    /// Who operates the objects that are left alone.
    left_alone: Mutex<HashMap<Key, String>>,
}

#[derive(Debug, Clone)]
struct Seen {
    lease: Option<Lease>,
    /// Why it cannot be read.
    unread: Option<String>,
    asked: Instant,
    /// When it was first seen to say this: clocks are never compared.
    since: Instant,
}

/// An object that another installation operates.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct LeftAlone {
    /// To be said once.
    pub(super) news: Option<String>,
    /// When to look again.
    pub(super) again: Duration,
}

impl Rivals {
    pub(super) fn new(client: Client, name: &'static str, namespace: &str) -> Self {
        let namespace = namespace.to_owned();
        Self { client, name, namespace, leases: Mutex::default(), left_alone: Mutex::default() }
    }

    /// Whether another installation operates an object; `claimed`: the namespace that the object's status names.
    pub(super) async fn operates(&self, key: &Key, claimed: Option<&str>) -> Option<LeftAlone> {
        let Some(claimed) = claimed.filter(|namespace| !namespace.is_empty() && *namespace != self.namespace) else {
            self.left_alone.lock().remove(key);
            return None;
        };
        let Some(evidence) = self.holds(claimed, &key.0).await else {
            if self.left_alone.lock().remove(key).is_some() {
                let (namespace, name) = key;
                tracing::info!(namespace, name, before = claimed, "the installation that operated it has ended");
            }
            return None;
        };
        let before = self.left_alone.lock().insert(key.clone(), claimed.to_owned());
        let news = (before.as_deref() != Some(claimed)).then(|| {
            format!(
                "the installation of {} in namespace {claimed} operates this object: {evidence}. The one in namespace \
                {} leaves it alone until then. Let only one installation watch namespace {}",
                self.name, self.namespace, key.0
            )
        });
        Some(LeftAlone { news, again: PERIOD })
    }

    /// Forgets an object that is gone.
    pub(super) fn forget(&self, key: &Key) {
        self.left_alone.lock().remove(key);
    }

    /// Why the installation in a namespace counts as running, and when that ends; `None`: it does not run, or does not
    /// watch the objects of `watched` any more.
    async fn holds(&self, namespace: &str, watched: &str) -> Option<String> {
        let lease = format!("Lease {namespace}/{}", self.name);
        let Seen { lease: found, unread, since, .. } = self.lookup(namespace).await;
        if let Some(why) = unread {
            return Some(format!("{why}, so whether it has ended is not known; it is until that can be read"));
        }
        let found = found?;
        let is_among = |scope: &String| scope.is_empty() || scope.split(',').any(|name| name.trim() == watched);
        if found.annotations().get(WATCHED).is_some_and(|scope| !is_among(scope)) {
            return None;
        }
        match decide(found.spec.as_ref(), "", since.elapsed(), UNSAID) {
            Step::Acquire | Step::Resume => None,
            Step::Wait(_) => Some(format!("it holds {lease} until it ends, or does not renew that Lease in time")),
        }
    }

    /// What is known of a Lease; asked for at most once a period.
    async fn lookup(&self, namespace: &str) -> Seen {
        let known = self.leases.lock().get(namespace).cloned();
        if let Some(seen) = known.as_ref().filter(|seen| seen.asked.elapsed() < PERIOD) {
            return seen.clone();
        }
        let api: Api<Lease> = Api::namespaced(self.client.clone(), namespace);
        let asked = call(|| format!("read Lease {namespace}/{}", self.name), api.get_opt(self.name)).await;
        let now = Instant::now();
        let seen = match asked {
            Ok(lease) => {
                let is_as_before =
                    |seen: &Seen| seen.unread.is_none() && spec(seen.lease.as_ref()) == spec(lease.as_ref());
                let since = known.filter(is_as_before).map_or(now, |seen| seen.since);
                Seen { lease, unread: None, asked: now, since }
            }
            Err(error) => {
                // An outage tells nothing: neither that it has ended, nor that it lives.
                let unread = Some(unread(&error));
                Seen {
                    unread,
                    asked: now,
                    ..known.unwrap_or(Seen { lease: None, unread: None, asked: now, since: now })
                }
            }
        };
        self.leases.lock().insert(namespace.to_owned(), seen.clone());
        seen
    }
}

fn spec(lease: Option<&Lease>) -> Option<&k8s_openapi::api::coordination::v1::LeaseSpec> {
    lease.and_then(|lease| lease.spec.as_ref())
}

fn unread(error: &Error) -> String {
    error.objection().map_or_else(|| error.to_string(), |why| format!("the API server answered: {why}"))
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::super::scripted::{Answer, client};
    use super::*;
    use serde_json::json;

    fn lease(holder: &str, renewed: u32, watched: &str) -> Answer {
        Answer::Object(json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": { "name": "us", "namespace": "there", "annotations": { WATCHED: watched } },
            "spec": { "holderIdentity": holder, "leaseDurationSeconds": 60,
                "renewTime": format!("2026-01-01T00:00:{renewed:02}.000000Z") },
        }))
    }

    /// Rivals that are asked once more, later, about an object that the installation in `there` claims.
    struct Asked {
        rivals: Rivals,
        says: Arc<Mutex<fn() -> Answer>>,
    }

    impl Asked {
        fn new() -> Self {
            let says: Arc<Mutex<fn() -> Answer>> = Arc::new(Mutex::new(|| Answer::Nothing));
            let answers = says.clone();
            let (client, _) = client(move |_| answers.lock().unwrap()());
            Self { rivals: Rivals::new(client, "us", "here"), says }
        }

        async fn later(&self, seconds: u64, says: fn() -> Answer) -> Option<LeftAlone> {
            tokio::time::advance(Duration::from_secs(seconds)).await;
            *self.says.lock().unwrap() = says;
            self.rivals.operates(&("n".to_owned(), "o".to_owned()), Some("there")).await
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_object_is_left_alone_while_the_lease_is_renewed_and_until_it_is_not() {
        let asked = Asked::new();
        let first = asked.later(0, || lease("them", 1, "")).await.unwrap();
        assert!(first.news.unwrap().contains("holds Lease there/us"));
        assert_eq!(asked.later(59, || lease("them", 2, "")).await, Some(LeftAlone { news: None, again: PERIOD }));
        assert!(asked.later(59, || lease("them", 2, "")).await.is_some(), "renewed a minute ago at most");
        assert_eq!(asked.later(1 + PERIOD.as_secs(), || lease("them", 2, "")).await, None);
        assert!(asked.later(9, || lease("them", 3, "")).await.unwrap().news.is_some(), "it is back: said again");
        assert_eq!(asked.later(9, || lease("", 3, "")).await, None, "given back");
        assert_eq!(asked.later(9, || Answer::Refusal(404, "NotFound")).await, None);
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_does_not_watch_the_namespace_operates_nothing_in_it() {
        let asked = Asked::new();
        assert_eq!(asked.later(0, || lease("them", 1, "m,k")).await, None);
        assert!(asked.later(9, || lease("them", 2, "m,n")).await.is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn an_outage_or_a_missing_right_is_no_end_of_the_other() {
        let asked = Asked::new();
        let said = asked.later(0, || Answer::Refusal(403, "Forbidden")).await.unwrap().news.unwrap();
        assert!(said.contains("the API server answered: Forbidden"), "{said}");
        assert!(asked.later(900, || Answer::Refusal(500, "InternalError")).await.is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn our_own_objects_are_not_asked_about() {
        let asked = Asked::new();
        for claimed in [None, Some(""), Some("here")] {
            assert_eq!(asked.rivals.operates(&("n".to_owned(), "o".to_owned()), claimed).await, None);
        }
    }
}
