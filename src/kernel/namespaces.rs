//! Namespaces: the node selector that a namespace itself carries, which keeps Pods off nodes without a word in any spec.
//!
//! Read only where Pods are missing, and remembered for a minute. Must not judge what it means: where nobody enforces it
//! (a plain cluster without the admission plugin) it means nothing.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Namespace;
use kube::api::Api;
use kube::{Client, ResourceExt};

use super::{Error, call};

/// Annotations that hold one, the first that is there: that of the admission plugin `PodNodeSelector`, and OpenShift's.
pub const NODE_SELECTORS: [&str; 2] = ["scheduler.alpha.kubernetes.io/node-selector", "openshift.io/node-selector"];
/// How long an answer is believed.
const BELIEVED: Duration = Duration::from_secs(60);

/// Labels that nodes must have.
pub type Labels = Arc<BTreeMap<String, String>>;

/// What was read, by namespace.
#[derive(Debug, Default)]
pub struct NodeSelectors {
    known: Mutex<HashMap<String, (Instant, Labels)>>,
}

impl NodeSelectors {
    /// What was read last; `None`, if it never was.
    #[must_use]
    pub fn known(&self, namespace: &str) -> Option<Labels> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).get(namespace).map(|(_, labels)| labels.clone())
    }

    /// Reads it, unless that was done just now.
    pub async fn read(&self, client: &Client, namespace: &str) -> Result<Labels, Error> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner).get(namespace).cloned();
        if let Some((_, labels)) = known.filter(|(at, _)| at.elapsed() < BELIEVED) {
            return Ok(labels);
        }
        let api: Api<Namespace> = Api::all(client.clone());
        let found = call(|| format!("read Namespace {namespace}"), api.get(namespace)).await?;
        // OpenShift leaves its own aside where the other is.
        let selector = NODE_SELECTORS.iter().find_map(|key| found.annotations().get(*key));
        let labels: Labels = Arc::new(selector.map(|text| parse(text).collect()).unwrap_or_default());
        self.known.lock().unwrap_or_else(PoisonError::into_inner).insert(namespace.to_owned(), (Instant::now(), Arc::clone(&labels)));
        Ok(labels)
    }
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
