//! Observe: the ConfigMap as it is now. Read only when its watch shows another version.
//!
//! Must not decide what becomes of a change.

use std::time::Duration;

use chrono::{DateTime, Utc};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::Api;

use super::context::Cx;
use super::resolve::Resolved;
use super::revision::{Config, hash, written_at};
use super::turns::Turn;
use crate::kernel;

/// What was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    Found(Config),
    /// There is none.
    Absent,
    /// It may not be read; the API server's words.
    Forbidden(String),
}

/// What a plan is made from, beside the fleet.
#[derive(Debug)]
pub struct Seen {
    pub resolved: Resolved,
    pub content: Content,
    pub stopped: bool,
    /// The spec was edited since the status was written.
    pub is_edited: bool,
    /// Held until the reconcile is over.
    _turn: Turn,
}

impl Seen {
    #[must_use]
    pub fn new(resolved: Resolved, content: Content, stopped: bool, is_edited: bool, turn: Turn) -> Self {
        Self { resolved, content, stopped, is_edited, _turn: turn }
    }

    /// Fewer Pods than there were are believed after so long, where their desired number is unknown.
    #[must_use]
    pub fn believed_after(&self) -> Duration {
        self.resolved.policy.wait_ready.to_std().unwrap_or(Duration::MAX)
    }
}

/// The ConfigMap now. `known`: what it was, as far as we know.
pub async fn content(cx: &Cx<'_>, resolved: &Resolved, known: Option<&Config>) -> Result<Content, kernel::Error> {
    let Resolved { namespace, config_map: name, .. } = resolved;
    let change = cx.kind.fleet.last_change(namespace, name);
    let before = cx.state.own.content.lock().clone();
    let last = match &before {
        Some((_, Content::Found(config))) => Some(config.clone()),
        _ => known.cloned(),
    };
    // What may not be read is asked for again: no event says when that changes.
    if let Some((_, data)) = before.filter(|(at, data)| *at == change && !matches!(data, Content::Forbidden(_))) {
        return Ok(data);
    }
    let api: Api<ConfigMap> = Api::namespaced(cx.client.clone(), namespace);
    let read = match kernel::call(|| format!("read ConfigMap {namespace}/{name}"), api.get(name)).await {
        Ok(object) => Content::Found(config(cx, &object, last.as_ref()).await?),
        Err(error) if error.is_not_found() => Content::Absent,
        Err(error) => Content::Forbidden(error.objection().ok_or(error)?),
    };
    *cx.state.own.content.lock() = Some((change, read.clone()));
    Ok(read)
}

async fn config(cx: &Cx<'_>, object: &ConfigMap, known: Option<&Config>) -> Result<Config, kernel::Error> {
    let (hash, mut changed_at) = (hash(object), written_at(object).unwrap_or_default());
    // An edit that only removes keys leaves no time behind: then it is now, by the API server's clock.
    if known.is_some_and(|known| known.hash != hash && known.changed_at >= changed_at) {
        let now: Option<DateTime<Utc>> = kernel::server_time(&cx.client).await?;
        changed_at = now.unwrap_or_else(|| cx.clock.now());
    }
    Ok(Config { hash, changed_at })
}
