//! Events: one for each transition, through the events API, aggregated by it. Best effort: an Event that cannot be
//! written is logged and never fails a reconcile.
//!
//! Must not word anything: reasons and messages come from the conditions.

use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;
use kube::runtime::events::{Event, EventType, Recorder, Reporter};

use super::{MANAGER, call};

/// Publishes Events.
#[derive(Clone)]
pub struct Events(Recorder);

impl std::fmt::Debug for Events {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Events")
    }
}

impl Events {
    /// As reported by this instance.
    #[must_use]
    pub fn new(client: Client, instance: &str) -> Self {
        Self(Recorder::new(client, Reporter { controller: MANAGER.to_owned(), instance: Some(instance.chars().take(128).collect()) }))
    }

    /// Publishes one.
    pub async fn publish(&self, about: &ObjectReference, warning: bool, reason: &str, action: &str, note: &str) {
        let event = Event {
            type_: if warning { EventType::Warning } else { EventType::Normal },
            reason: reason.to_owned(),
            note: Some(note.chars().take(1000).collect()),
            action: action.to_owned(),
            secondary: None,
        };
        if let Err(error) = call(|| "write an Event".to_owned(), self.0.publish(&event, about)).await {
            tracing::warn!(error = error.chain(), reason, "an Event was lost");
        }
    }
}
