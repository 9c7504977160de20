//! The DaemonSets of the vendor's present operator, as their watch shows them: on the same nodes they harm.
//!
//! Must not decide anything.

use std::collections::HashSet;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::DaemonSet;
use kube::ResourceExt;
use kube::runtime::watcher::Event;

use super::super::resolve::of_template;
use super::Fleet;
use crate::k8s::placement::Placement;
use crate::kernel::Key;
use crate::kernel::triggers::Concerns;

impl Fleet {
    /// What the DaemonSets of the vendor's present operator select.
    #[must_use]
    pub fn vendors(&self) -> Vec<(Key, Arc<Placement>)> {
        self.read().vendors.iter().map(|(key, placement)| (key.clone(), placement.clone())).collect()
    }

    /// Takes an event of the watch of those DaemonSets, of one scope.
    pub fn vendors_event(&self, scope: &str, event: Event<DaemonSet>) -> Concerns {
        let mut inner = self.write();
        let watch = format!("vendors/{scope}");
        let key_of = |object: &DaemonSet| (object.namespace().unwrap_or_default(), object.name_any());
        match event {
            Event::Init => {
                inner.relisted.insert(watch, HashSet::new());
                Concerns::Nobody
            }
            Event::InitApply(object) | Event::Apply(object) => {
                let key = key_of(&object);
                if let Some(seen) = inner.relisted.get_mut(&watch) {
                    seen.insert((key.0.clone(), key.1.as_str().into()));
                }
                let spec = object.spec.and_then(|spec| spec.template.spec);
                let placement = Arc::new(spec.as_ref().map(of_template).unwrap_or_default());
                let before = inner.vendors.insert(key, placement.clone());
                if before.as_ref() == Some(&placement) { Concerns::Nobody } else { Concerns::All }
            }
            Event::Delete(object) => {
                inner.vendors.remove(&key_of(&object));
                Concerns::All
            }
            Event::InitDone => {
                let seen = inner.relisted.remove(&watch).unwrap_or_default();
                let before = inner.vendors.len();
                inner.vendors.retain(|key, _| {
                    (!scope.is_empty() && scope != key.0) || seen.contains(&(key.0.clone(), key.1.as_str().into()))
                });
                if inner.vendors.len() == before { Concerns::Nobody } else { Concerns::All }
            }
        }
    }
}
