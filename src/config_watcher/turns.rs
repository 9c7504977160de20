//! Turns: of the watchers of a namespace one looks at a time, because the next must count what this one evicts.
//!
//! No lock is held: who finds the turn taken is noted, and woken when it ends. Must not know what a look does.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;

use crate::kernel::Key;

type Wake = Box<dyn Fn(&Key) + Send + Sync>;

/// The turns of all namespaces in which a reconcile looks or waits.
#[derive(Default)]
pub struct Turns {
    namespaces: Mutex<HashMap<String, Queue>>,
    wake: OnceLock<Wake>,
}

#[derive(Debug, Default)]
struct Queue {
    is_taken: bool,
    waiting: VecDeque<Key>,
}

/// A turn; it ends when it is dropped, also in the middle of a look that is cancelled.
#[derive(Debug)]
pub struct Turn {
    turns: Arc<Turns>,
    namespace: String,
}

impl fmt::Debug for Turns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.namespaces.lock().fmt(f)
    }
}

impl Turns {
    /// How a watcher that waits is woken.
    pub fn wake_by(&self, wake: impl Fn(&Key) + Send + Sync + 'static) {
        let _ = self.wake.set(Box::new(wake));
    }

    /// The turn in a watcher's namespace; `None`: another has it, and its end wakes this one.
    pub fn take(self: &Arc<Self>, key: &Key) -> Option<Turn> {
        let mut namespaces = self.namespaces.lock();
        let queue = namespaces.entry(key.0.clone()).or_default();
        if queue.is_taken {
            if !queue.waiting.contains(key) {
                queue.waiting.push_back(key.clone());
            }
            return None;
        }
        queue.is_taken = true;
        queue.waiting.retain(|waiting| waiting != key);
        Some(Turn { turns: self.clone(), namespace: key.0.clone() })
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut namespaces = self.turns.namespaces.lock();
        let Some(queue) = namespaces.get_mut(&self.namespace) else { return };
        queue.is_taken = false;
        let next = queue.waiting.pop_front();
        if next.is_none() {
            namespaces.remove(&self.namespace);
        }
        drop(namespaces);
        if let Some((next, wake)) = next.zip(self.turns.wake.get()) {
            wake(&next);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_turn_wakes_the_first_in_line_once_and_leaves_nothing() {
        let (turns, woken) = (Arc::new(Turns::default()), Arc::new(Mutex::new(Vec::new())));
        let noted = woken.clone();
        turns.wake_by(move |key| noted.lock().push(key.1.clone()));
        let key = |name: &str| ("n".to_owned(), name.to_owned());
        let first = turns.take(&key("a"));
        assert!(first.is_some() && turns.take(&("m".to_owned(), "a".to_owned())).is_some());
        for name in ["b", "c", "b"] {
            assert!(turns.take(&key(name)).is_none());
        }
        drop(first);
        assert_eq!(*woken.lock(), ["b"]);
        // Another one is faster; the one that was woken waits behind.
        let second = turns.take(&key("d"));
        assert!(turns.take(&key("b")).is_none());
        drop(second);
        drop(turns.take(&key("c")));
        drop(turns.take(&key("b")));
        assert_eq!(*woken.lock(), ["b", "c", "b"]);
        assert!(turns.namespaces.lock().is_empty());
    }
}
