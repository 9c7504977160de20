//! The node selector that a namespace itself carries, which keeps Pods off nodes without a word in any spec.
//!
//! Pure. Must not judge what it means: where it is not enforced (a plain cluster without the admission plugin) it means
//! nothing.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
use kube::ResourceExt;

/// Annotations that hold one, the first that is there: that of the admission plugin `PodNodeSelector`, and OpenShift's.
pub const NODE_SELECTORS: [&str; 2] = ["scheduler.alpha.kubernetes.io/node-selector", "openshift.io/node-selector"];

/// A namespace's own node selector.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Selector {
    /// Labels that nodes must have; none: every node will do.
    pub labels: BTreeMap<String, String>,
    /// Whether it is OpenShift's, which means nothing elsewhere.
    pub is_openshifts: bool,
    /// Whether it is the cluster's default one: the namespace says nothing.
    pub is_default: bool,
    /// When it was written, if that is known.
    pub since: Option<DateTime<Utc>>,
}

/// What a Namespace says.
#[must_use]
pub fn of(namespace: &Namespace) -> Selector {
    // OpenShift leaves its own aside where the other is.
    let found = NODE_SELECTORS.iter().find_map(|key| Some((*key, namespace.annotations().get(*key)?)));
    let Some((key, text)) = found else { return Selector { is_default: true, ..Selector::default() } };
    let field = format!("f:{key}");
    let wrote = |entry: &&ManagedFieldsEntry| {
        entry.fields_v1.as_ref().is_some_and(|fields| fields.0["f:metadata"]["f:annotations"].get(&field).is_some())
    };
    let at = namespace
        .managed_fields()
        .iter()
        .filter(wrote)
        .filter_map(|entry| entry.time.as_ref())
        .map(|time| time.0.as_second())
        .max();
    Selector {
        labels: parse(text).collect(),
        is_openshifts: key == NODE_SELECTORS[1],
        is_default: false,
        since: at.and_then(|at| DateTime::from_timestamp(at, 0)),
    }
}

/// What OpenShift's Scheduler says for namespaces that say nothing.
#[must_use]
pub fn of_scheduler(scheduler: &serde_json::Value) -> Selector {
    let text = scheduler["spec"]["defaultNodeSelector"].as_str().unwrap_or_default();
    Selector { labels: parse(text).collect(), is_openshifts: true, is_default: true, since: None }
}

/// `key=value` or `key==value`, separated by commas. What is neither is passed over.
fn parse(text: &str) -> impl Iterator<Item = (String, String)> {
    let pair = |part: &str| {
        let (key, value) = part.split_once('=')?;
        let (key, value) = (key.trim(), value.trim_start_matches('=').trim());
        (!key.is_empty() && !key.ends_with('!')).then(|| (key.to_owned(), value.to_owned()))
    };
    text.split(',').filter_map(pair).collect::<Vec<_>>().into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_selector_reads_as_people_write_it() {
        let read = |text| parse(text).map(|(key, value)| format!("{key}:{value}")).collect::<Vec<_>>();
        assert_eq!(read("a=b, region==east ,x="), ["a:b", "region:east", "x:"]);
        assert_eq!(read(""), [] as [&str; 0]);
        assert_eq!(read("a!=b,c,=d"), [] as [&str; 0]);
    }
}
