//! Singletons: objects of which a cluster has one, of APIs that it may lack; read when they are needed, and at most
//! once a period.
//!
//! What was read stays known while it cannot be read again: an outage is no change. Must not know what an object means.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use kube::api::{Api, DynamicObject};
use kube::core::{ApiResource, GroupVersionKind};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::time::Instant;

use super::call;
use crate::k8s::singleton::Singleton;

/// What is known of one.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum Answer {
    /// Not asked for.
    #[default]
    Unasked,
    /// The cluster has no such object, or no such kind.
    Absent,
    There(Arc<Value>),
    /// The operator may not read it; the API server's words.
    Refused(String),
    /// It never could be read; why.
    Unread(String),
}

/// All of them.
#[derive(Debug)]
pub struct Singletons {
    /// For how long an answer is believed.
    period: Duration,
    known: Mutex<HashMap<&'static str, (Instant, Answer)>>,
}

impl Singletons {
    /// None is known yet.
    #[must_use]
    pub fn new(period: Duration) -> Self {
        Self { period, known: Mutex::default() }
    }

    /// What is known of one; asks, unless that was done a moment ago.
    pub async fn lookup(&self, client: &Client, one: &Singleton) -> Answer {
        let known = self.known.lock().get(one.kind).cloned();
        if let Some((_, answer)) = known.as_ref().filter(|(at, _)| at.elapsed() < self.period) {
            return answer.clone();
        }
        let kind = GroupVersionKind::gvk(one.group, one.version, one.kind);
        let api: Api<DynamicObject> =
            Api::all_with(client.clone(), &ApiResource::from_gvk_with_plural(&kind, one.plural));
        let asked = call(|| format!("read {} {} ({})", one.kind, one.name, one.group), api.get(one.name)).await;
        let answer = match asked {
            Ok(object) => serde_json::to_value(&object)
                .map_or_else(|error| Answer::Unread(error.to_string()), |value| Answer::There(Arc::new(value))),
            Err(error) if error.is_not_found() => Answer::Absent,
            Err(error) => match known {
                Some((_, answer @ (Answer::There(_) | Answer::Absent))) => answer,
                _ => error.objection().map_or_else(|| Answer::Unread(error.to_string()), Answer::Refused),
            },
        };
        self.known.lock().insert(one.kind, (Instant::now(), answer.clone()));
        answer
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::super::scripted::{Answer as Says, client};
    use super::*;
    use serde_json::json;

    const ONE: Singleton =
        Singleton { group: "g.example", version: "v1", kind: "One", plural: "ones", name: "cluster" };

    #[tokio::test]
    async fn an_outage_is_no_change_and_a_refusal_is_told_from_one() {
        let next: Arc<Mutex<fn() -> Says>> = Arc::new(Mutex::new(|| Says::Refusal(500, "InternalError")));
        let says = next.clone();
        let (client, _) = client(move |_| says.lock().unwrap()());
        let all = Singletons::new(Duration::ZERO);
        let answer = async |now: fn() -> Says| {
            *next.lock().unwrap() = now;
            all.lookup(&client, &ONE).await
        };
        assert!(matches!(answer(|| Says::Refusal(500, "InternalError")).await, Answer::Unread(_)));
        assert!(matches!(answer(|| Says::Refusal(403, "Forbidden")).await, Answer::Refused(_)));
        let object = || {
            Says::Object(json!({ "apiVersion": "g.example/v1", "kind": "One",
            "metadata": { "name": "cluster" }, "spec": { "a": 1 } }))
        };
        assert!(matches!(answer(object).await, Answer::There(there) if there["spec"]["a"] == 1));
        assert!(matches!(answer(|| Says::Refusal(500, "InternalError")).await, Answer::There(_)), "it stays known");
        assert_eq!(answer(|| Says::Refusal(404, "NotFound")).await, Answer::Absent);
        assert_eq!(answer(|| Says::Refusal(503, "Unavailable")).await, Answer::Absent);
    }
}
