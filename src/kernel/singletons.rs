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

/// Where such an object is.
#[derive(Debug, Clone, Copy)]
pub struct Singleton {
    pub group: &'static str,
    pub version: &'static str,
    pub kind: &'static str,
    pub plural: &'static str,
    pub name: &'static str,
}

/// What is known of one.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum Answer {
    /// Nobody asked.
    #[default]
    Unasked,
    /// The cluster has no such object, or no such kind.
    Absent,
    There(Arc<Value>),
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
    pub async fn look(&self, client: &Client, one: &Singleton) -> Answer {
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
                _ => Answer::Unread(error.objection().unwrap_or_else(|| error.to_string())),
            },
        };
        self.known.lock().insert(one.kind, (Instant::now(), answer.clone()));
        answer
    }
}
