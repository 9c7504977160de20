//! Pools: what many Pods have in common is kept once.
//!
//! Pure. Must not know what it holds.

use std::collections::HashSet;
use std::hash::Hash;
use std::sync::Arc;

/// Values, each once.
#[derive(Debug)]
pub struct Pool<T: ?Sized> {
    values: HashSet<Arc<T>>,
    /// With so many it is looked which of them are in use.
    full: usize,
}

/// So many values are few.
const FEW: usize = 64;

impl<T: ?Sized> Default for Pool<T> {
    fn default() -> Self {
        Self { values: HashSet::new(), full: FEW }
    }
}

impl<T: ?Sized + Eq + Hash> Pool<T> {
    /// The value as it is kept.
    pub fn share(&mut self, value: impl Into<Arc<T>>) -> Arc<T> {
        let value = value.into();
        if let Some(known) = self.values.get(&value) {
            return known.clone();
        }
        if self.values.len() >= self.full {
            self.values.retain(|value| Arc::strong_count(value) > 1);
            self.full = (self.values.len() * 2).max(FEW);
        }
        self.values.insert(value.clone());
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_values_are_one_and_unused_ones_are_dropped() {
        let mut pool = Pool::<str>::default();
        let first = pool.share("a");
        assert!(Arc::ptr_eq(&first, &pool.share("a")));
        for number in 0..10_000 {
            pool.share(number.to_string());
        }
        assert!(pool.values.len() <= 2 * FEW && pool.values.contains("a"), "{}", pool.values.len());
    }
}
