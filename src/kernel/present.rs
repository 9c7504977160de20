//! Which objects there are, also when one goes while nobody watches.
//!
//! Must not know what they are, nor what becomes of one that is gone.

use std::collections::{HashMap, HashSet};

use kube::Resource;
use kube::runtime::watcher::Event;

use super::Key;

/// Which objects there are, also when one goes while nobody watches.
#[derive(Debug, Default)]
pub(super) struct Present {
    pub(super) all: HashMap<Key, String>,
    /// Keys seen since a list began, by namespace of the scope.
    listed: HashMap<String, HashSet<Key>>,
}

impl Present {
    /// Takes an event; returns the objects that are gone, with their UIDs.
    pub(super) fn take<K: Resource>(&mut self, scope: &str, event: &Event<K>) -> Vec<(Key, String)> {
        match event {
            Event::Init => drop(self.listed.insert(scope.to_owned(), HashSet::new())),
            Event::InitApply(object) => {
                self.listed.entry(scope.to_owned()).or_default().insert(key_of(object));
                self.all.insert(key_of(object), uid_of(object));
            }
            Event::Apply(object) => drop(self.all.insert(key_of(object), uid_of(object))),
            Event::Delete(object) => {
                self.all.remove(&key_of(object));
                return vec![(key_of(object), uid_of(object))];
            }
            Event::InitDone => {
                let listed = self.listed.remove(scope).unwrap_or_default();
                let is_gone = |key: &Key| (scope.is_empty() || *scope == key.0) && !listed.contains(key);
                return self.all.extract_if(|key, _| is_gone(key)).collect();
            }
        }
        Vec::new()
    }
}

/// Namespace and name of an object.
pub(super) fn key_of(object: &impl Resource) -> Key {
    (object.meta().namespace.clone().unwrap_or_default(), object.meta().name.clone().unwrap_or_default())
}

/// The UID of an object.
pub(super) fn uid_of(object: &impl Resource) -> String {
    object.meta().uid.clone().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::core::v1::ConfigMap;
    use serde_json::json;

    #[test]
    fn one_that_goes_in_a_gap_of_the_watch_is_missed_at_the_end_of_the_next_list() {
        let object = |name: &str| -> ConfigMap {
            serde_json::from_value(
                json!({ "metadata": { "name": name, "namespace": "n", "uid": format!("uid-{name}") } }),
            )
            .unwrap()
        };
        let key = |name: &str| ("n".to_owned(), name.to_owned());
        let mut present = Present::default();
        for event in [Event::Init, Event::InitApply(object("a")), Event::InitApply(object("b")), Event::InitDone] {
            assert_eq!(present.take("n", &event), []);
        }
        present.take("n", &Event::<ConfigMap>::Init);
        present.take("n", &Event::InitApply(object("b")));
        assert!(present.all.contains_key(&key("a")), "the list is not complete");
        assert_eq!(present.take("m", &Event::<ConfigMap>::InitDone), [], "another namespace says nothing of this one");
        assert_eq!(present.take("n", &Event::<ConfigMap>::InitDone), [(key("a"), "uid-a".to_owned())]);
        assert!(!present.all.contains_key(&key("a")) && present.all.contains_key(&key("b")));
        assert_eq!(present.take("n", &Event::Delete(object("b"))), [(key("b"), "uid-b".to_owned())]);
    }
}
