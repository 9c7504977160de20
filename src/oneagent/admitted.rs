//! Admitted: what the cluster's admission made of the agents' Pods, as their annotations tell.
//!
//! Pure. Must not decide what follows from it.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::k8s::facts::{LIMITED, PodFacts, SCC};

/// What a Pod says of its admission.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Admitted {
    /// The SCC under which OpenShift admitted it.
    pub scc: Option<String>,
    /// What a LimitRange added to it.
    pub limited: Option<String>,
}

impl Admitted {
    /// `None`: nothing was made of it.
    #[must_use]
    pub fn of(facts: &PodFacts) -> Option<Self> {
        let annotations = facts.metadata.annotations.as_ref()?;
        let said = |key: &str| annotations.get(key).cloned();
        // It may add to requests alone: that ends no Pod.
        let limited = said(LIMITED).filter(|text| text.contains("limit for"));
        Some(Self { scc: said(SCC), limited }).filter(|admitted| *admitted != Self::default())
    }
}

/// What the Pods of a OneAgent say, and how many of them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Admissions {
    pub sccs: BTreeMap<String, usize>,
    pub limits: BTreeMap<String, usize>,
}

impl Admissions {
    /// Counts them.
    pub fn count<'a>(pods: impl Iterator<Item = &'a Arc<Admitted>>) -> Self {
        let mut all = Self::default();
        for admitted in pods {
            for (counts, said) in [(&mut all.sccs, &admitted.scc), (&mut all.limits, &admitted.limited)] {
                if let Some(said) = said {
                    match counts.get_mut(said) {
                        Some(count) => *count += 1,
                        None => drop(counts.insert(said.clone(), 1)),
                    }
                }
            }
        }
        all
    }
}
