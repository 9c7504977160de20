//! What the events of a watch say: one object that is there or gone, and, at the end of a list, what the list named.
//!
//! Here because every index must drop what was deleted while its watch was interrupted, and each by the same rule. Must
//! not keep an object.

use std::collections::{HashMap, HashSet};

use kube::Resource;
use kube::api::ObjectMeta;
use kube::runtime::watcher::Event;

/// An object of a kind: its namespace and name.
pub type Key = (String, String);

/// Of an object.
pub fn key_of(object: &impl Resource) -> Key {
    let meta = object.meta();
    (meta.namespace.clone().unwrap_or_default(), meta.name.clone().unwrap_or_default())
}

/// The objects of a kind that a change affects: these are reconciled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Affects {
    Nobody,
    One(Key),
    Each(Vec<Key>),
    All,
}

/// What an event changes.
#[derive(Debug)]
pub enum Change<K> {
    /// One of a list that is under way.
    Listed(K),
    /// It was created or changed.
    Applied(K),
    Deleted(K),
    /// The list is complete: of its scope there is nothing else.
    Complete(Listed),
}

impl<K> Change<K> {
    /// The object as it is now, if it is there.
    #[must_use]
    pub fn present(&self) -> Option<&K> {
        match self {
            Self::Listed(object) | Self::Applied(object) => Some(object),
            Self::Deleted(_) | Self::Complete(_) => None,
        }
    }
}

/// What a complete list named.
#[derive(Debug, Default)]
pub struct Listed {
    /// A namespace; empty: all.
    scope: String,
    ids: HashMap<String, HashSet<Box<str>>>,
}

impl Listed {
    /// Whether the list would have named this object, and did not: it is gone. `id`: what the list is keyed by.
    #[must_use]
    pub fn lacks(&self, namespace: &str, id: &str) -> bool {
        self.covers(namespace) && !self.ids.get(namespace).is_some_and(|ids| ids.contains(id))
    }

    /// Whether the list is of this namespace.
    #[must_use]
    pub fn covers(&self, namespace: &str) -> bool {
        self.scope.is_empty() || self.scope == namespace
    }
}

/// The changes that a complete list of all namespaces brings.
pub fn list<K: Resource>(id: Id, objects: impl IntoIterator<Item = K>) -> impl Iterator<Item = Change<K>> {
    let mut relist = Relist::new("", id);
    let events = objects.into_iter().map(Event::InitApply).chain([Event::InitDone]);
    events.filter_map(move |event| relist.take(event))
}

/// By what a list names its objects.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Id {
    #[default]
    Name,
    /// For an index by UID: of a name that was deleted and created again the old UID is gone.
    Uid,
}

/// Follows one watch.
#[derive(Debug)]
pub struct Relist {
    scope: String,
    id: Id,
    ids: HashMap<String, HashSet<Box<str>>>,
}

impl Relist {
    /// Of a namespace; empty: of all, or of the cluster.
    #[must_use]
    pub fn new(scope: &str, id: Id) -> Self {
        Self { scope: scope.to_owned(), id, ids: HashMap::new() }
    }

    /// What an event changes; `None`: a list begins.
    pub fn take<K: Resource>(&mut self, event: Event<K>) -> Option<Change<K>> {
        let listed = self.note(&event);
        Some(match event {
            Event::Init => return None,
            Event::InitApply(object) => Change::Listed(object),
            Event::Apply(object) => Change::Applied(object),
            Event::Delete(object) => Change::Deleted(object),
            Event::InitDone => Change::Complete(listed),
        })
    }

    /// The same, of an event that others need, too.
    pub fn look_at<'e, K: Resource>(&mut self, event: &'e Event<K>) -> Option<Change<&'e K>> {
        let listed = self.note(event);
        Some(match event {
            Event::Init => return None,
            Event::InitApply(object) => Change::Listed(object),
            Event::Apply(object) => Change::Applied(object),
            Event::Delete(object) => Change::Deleted(object),
            Event::InitDone => Change::Complete(listed),
        })
    }

    /// Takes note of an event; returns what a list named that is complete with it.
    fn note<K: Resource>(&mut self, event: &Event<K>) -> Listed {
        match event {
            Event::Init => self.ids.clear(),
            Event::InitApply(object) => self.name(object.meta()),
            Event::InitDone => return Listed { scope: self.scope.clone(), ids: std::mem::take(&mut self.ids) },
            Event::Apply(_) | Event::Delete(_) => {}
        }
        Listed::default()
    }

    fn name(&mut self, metadata: &ObjectMeta) {
        let id = match self.id {
            Id::Name => metadata.name.as_deref(),
            Id::Uid => metadata.uid.as_deref(),
        };
        let namespace = metadata.namespace.as_deref().unwrap_or_default();
        let id = id.unwrap_or_default().into();
        match self.ids.get_mut(namespace) {
            Some(ids) => drop(ids.insert(id)),
            None => drop(self.ids.insert(namespace.to_owned(), HashSet::from([id]))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::core::v1::ConfigMap;
    use serde_json::json;

    fn object(namespace: &str, name: &str, uid: &str) -> ConfigMap {
        serde_json::from_value(json!({ "metadata": { "name": name, "namespace": namespace, "uid": uid } })).unwrap()
    }

    fn list(relist: &mut Relist, objects: Vec<ConfigMap>) -> Listed {
        assert!(relist.take(Event::<ConfigMap>::Init).is_none());
        for object in objects {
            assert!(matches!(relist.take(Event::InitApply(object)), Some(Change::Listed(_))));
        }
        match relist.take(Event::<ConfigMap>::InitDone) {
            Some(Change::Complete(listed)) => listed,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_complete_list_lacks_what_it_did_not_name_of_its_own_namespaces() {
        let listed = list(&mut Relist::new("n", Id::Name), vec![object("n", "a", "1")]);
        assert!(!listed.lacks("n", "a") && listed.lacks("n", "b") && !listed.lacks("m", "b"));
        let listed = list(&mut Relist::new("", Id::Name), vec![object("n", "a", "1")]);
        assert!(listed.lacks("m", "a") && !listed.lacks("n", "a"));
    }

    #[test]
    fn a_list_that_begins_again_forgets_what_the_interrupted_one_named() {
        let mut relist = Relist::new("", Id::Name);
        relist.take(Event::<ConfigMap>::Init);
        relist.take(Event::InitApply(object("n", "a", "1")));
        assert!(list(&mut relist, vec![object("n", "b", "2")]).lacks("n", "a"));
    }

    #[test]
    fn by_uid_an_object_that_was_created_again_under_its_name_is_another() {
        let listed = list(&mut Relist::new("", Id::Uid), vec![object("n", "a", "2")]);
        assert!(listed.lacks("n", "1") && !listed.lacks("n", "2"));
    }
}
