//! Events: one for each transition. Best effort: an Event that cannot be written is logged and never fails a reconcile.
//!
//! Core Events, created and never changed, so that one right is enough; a transition is rare, so nothing is
//! aggregated. Must not word anything: reasons and messages come from the conditions.

use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use kube::Client;
use kube::api::{Api, ObjectMeta, PostParams};

use super::call;
use crate::api::condition::shortened;

/// The API server refuses longer messages.
const NOTE_AT_MOST: usize = 1000;

/// Publishes Events.
#[derive(Clone)]
pub struct Events {
    client: Client,
    manager: &'static str,
    instance: String,
}

impl Events {
    /// As reported by this instance of a package.
    #[must_use]
    pub fn new(client: Client, manager: &'static str, instance: &str) -> Self {
        Self { client, manager, instance: instance.chars().take(128).collect() }
    }

    /// Publishes one.
    #[expect(clippy::disallowed_methods, reason = "the kernel writes")]
    pub async fn publish(&self, about: &ObjectReference, warning: bool, reason: &str, action: &str, note: &str) {
        let now = Timestamp::now();
        let (name, namespace) = (about.name.clone().unwrap_or_default(), about.namespace.clone().unwrap_or_default());
        let event = Event {
            metadata: ObjectMeta {
                name: Some(format!("{name}.{:x}", now.as_nanosecond())),
                namespace: Some(namespace.clone()),
                ..ObjectMeta::default()
            },
            involved_object: about.clone(),
            type_: Some(if warning { "Warning" } else { "Normal" }.to_owned()),
            reason: Some(reason.to_owned()),
            action: Some(action.to_owned()),
            message: Some(shortened(note, NOTE_AT_MOST)),
            source: Some(EventSource { component: Some(self.manager.to_owned()), host: None }),
            reporting_component: Some(self.manager.to_owned()),
            reporting_instance: Some(self.instance.clone()),
            first_timestamp: Some(Time(now)),
            last_timestamp: Some(Time(now)),
            count: Some(1),
            ..Event::default()
        };
        let api: Api<Event> = Api::namespaced(self.client.clone(), &namespace);
        let params = PostParams { field_manager: Some(self.manager.to_owned()), ..PostParams::default() };
        if let Err(error) = call(|| "write an Event".to_owned(), api.create(&params, &event)).await {
            tracing::warn!(error = error.chain(), reason, "an Event was lost");
        }
    }
}
