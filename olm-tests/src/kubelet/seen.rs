//! The Pods as the one watch of this rig shows them, for those who wait.
//!
//! Behind the API server by a moment: what must not have changed is asked of that.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::runtime::watcher::Event;

use super::Kubelet;

pub(super) type ByName = BTreeMap<String, Arc<Pod>>;

impl Kubelet {
    pub(super) fn remember(&self, event: &Event<Pod>) {
        let mut all = self.pods.lock().expect("Pods");
        let namespace = |pod: &Pod| pod.namespace().unwrap_or_default();
        match event {
            // What went during a gap of the watch is gone after it.
            Event::Init => all.clear(),
            Event::InitDone => {}
            Event::Apply(pod) | Event::InitApply(pod) => {
                all.entry(namespace(pod)).or_default().insert(pod.name_any(), Arc::new(pod.clone()));
            }
            Event::Delete(pod) => {
                all.entry(namespace(pod)).or_default().remove(&pod.name_any());
            }
        }
    }

    /// The Pods of a namespace.
    #[must_use]
    pub fn pods(&self, namespace: &str) -> Vec<Arc<Pod>> {
        let all = self.pods.lock().expect("Pods");
        all.get(namespace).map(|pods| pods.values().cloned().collect()).unwrap_or_default()
    }
}
