//! What we read of workloads: how many Pods each should have, and whether it is replacing them itself.
//!
//! Our own partial types, as in `facts`. Must not know a Pod.

use std::borrow::Cow;
use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::{DaemonSet, ReplicaSet, StatefulSet};
use kube::api::ObjectMeta;
use serde::Deserialize;

use super::facts::{ConditionFacts, DESIRED_REPLICAS, TEMPLATE_GENERATION, slim};

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SpecFacts {
    pub replicas: Option<usize>,
    pub update_strategy: StrategyFacts,
    pub template: TemplateFacts,
    pub ordinals: OrdinalsFacts,
}

/// Where a StatefulSet begins to count its Pods.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct OrdinalsFacts {
    pub start: i64,
}

/// What its Pods carry.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct TemplateFacts {
    pub metadata: LabelFacts,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct LabelFacts {
    pub labels: BTreeMap<String, String>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct StrategyFacts {
    #[serde(rename = "type")]
    pub type_: String,
    pub rolling_update: Option<PartitionFacts>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct PartitionFacts {
    pub partition: Option<usize>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct StatusFacts {
    pub observed_generation: Option<i64>,
    pub current_revision: Option<String>,
    pub update_revision: Option<String>,
    pub current_replicas: usize,
    pub desired_number_scheduled: usize,
    pub current_number_scheduled: usize,
    pub updated_number_scheduled: usize,
    pub conditions: Vec<ConditionFacts>,
}

macro_rules! workload {
    ($name:ident, $of:ident) => {
        #[derive(Debug, Clone, Default, Deserialize, kube::Resource)]
        #[resource(inherit = $of)]
        pub struct $name {
            /// Name, namespace, UID, generation, owners.
            #[serde(deserialize_with = "slim")]
            pub metadata: ObjectMeta,
            #[serde(default)]
            pub spec: SpecFacts,
            #[serde(default)]
            pub status: StatusFacts,
        }
    };
}
workload!(ReplicaSetFacts, ReplicaSet);
workload!(StatefulSetFacts, StatefulSet);
workload!(DaemonSetFacts, DaemonSet);

/// How many Pods a workload should have, and why no one else should replace any now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Size {
    pub expected: usize,
    pub busy: Option<Cow<'static, str>>,
}

/// Which of its templates a workload makes a Pod from when it makes that one again.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Remade {
    /// From the one that all of its Pods have; or unknown.
    #[default]
    Alike,
    /// From a revision, by the Pod's ordinal: from the old one below `first`.
    Revision { first: i64, old: Option<String>, new: String },
    /// From the template of so many changes.
    Generation(u32),
}

const NOT_SEEN: Cow<'static, str> = Cow::Borrowed("its controller has not seen its latest edit yet");

fn is_unseen(metadata: &ObjectMeta, status: &StatusFacts) -> bool {
    metadata.generation > status.observed_generation
}

impl ReplicaSetFacts {
    #[must_use]
    pub fn size(&self) -> Size {
        let expected = self.spec.replicas.unwrap_or(1);
        // While its Deployment rolls out without a surge, this one is scaled down before the next one is scaled up.
        let annotations = self.metadata.annotations.as_ref();
        let whole = annotations.and_then(|all| all.get(DESIRED_REPLICAS)?.parse::<usize>().ok());
        let rolls = expected > 0 && whole.is_some_and(|whole| whole > expected);
        Size { expected, busy: busy(&self.metadata, &self.status, rolls) }
    }

    /// Why the API server refuses its Pods.
    #[must_use]
    pub fn refused(&self) -> Option<String> {
        let is_it = |condition: &&ConditionFacts| condition.type_ == "ReplicaFailure" && condition.status == "True";
        self.status.conditions.iter().find(is_it).and_then(|condition| condition.message.clone())
    }
}

impl StatefulSetFacts {
    /// One with a partition is at rest once all above it are updated.
    #[must_use]
    pub fn size(&self) -> Size {
        let Self { metadata, spec, status } = self;
        let expected = spec.replicas.unwrap_or(1);
        let partition = spec.update_strategy.rolling_update.as_ref().and_then(|rolling| rolling.partition);
        let differs = status.current_revision != status.update_revision;
        let rolls = spec.update_strategy.type_ != "OnDelete"
            && differs
            && status.current_replicas > partition.unwrap_or_default();
        Size { expected, busy: busy(metadata, status, rolls) }
    }

    /// What OnDelete and a partition hold back: the StatefulSet controller keeps to the partition alone.
    #[must_use]
    pub fn remade(&self) -> Remade {
        let Self { spec, status, .. } = self;
        let Some(new) = status.update_revision.clone() else { return Remade::Alike };
        let partition = spec.update_strategy.rolling_update.as_ref().and_then(|rolling| rolling.partition);
        let partition = i64::try_from(partition.unwrap_or_default()).unwrap_or(i64::MAX);
        let first = spec.ordinals.start.saturating_add(partition);
        Remade::Revision { first, old: status.current_revision.clone(), new }
    }
}

impl DaemonSetFacts {
    #[must_use]
    pub fn size(&self) -> Size {
        let Self { metadata, spec, status } = self;
        let expected = status.desired_number_scheduled;
        // A node whose Pod is being created again is in neither count.
        let is_behind = status.updated_number_scheduled < status.current_number_scheduled;
        let rolls = spec.update_strategy.type_ != "OnDelete" && is_behind;
        Size { expected, busy: busy(metadata, status, rolls) }
    }

    /// What OnDelete holds back. Which Pods have which template only its count and the number of changes tell.
    #[must_use]
    pub fn remade(&self) -> Remade {
        let Self { metadata, status, .. } = self;
        let annotations = metadata.annotations.as_ref();
        let generation = annotations.and_then(|all| all.get(TEMPLATE_GENERATION)?.parse().ok());
        let is_behind = status.updated_number_scheduled < status.current_number_scheduled;
        generation.filter(|_| is_behind).map_or(Remade::Alike, Remade::Generation)
    }
}

fn busy(metadata: &ObjectMeta, status: &StatusFacts, rolls: bool) -> Option<Cow<'static, str>> {
    match (is_unseen(metadata, status), rolls) {
        (true, _) => Some(NOT_SEEN),
        (false, true) => Some(Cow::Borrowed("it is rolling out a template of its own")),
        (false, false) => None,
    }
}
