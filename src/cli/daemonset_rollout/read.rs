//! Lists of all that a DaemonSetRollout is judged by.
//!
//! Must not write.

use std::collections::BTreeSet;

use kube::ResourceExt;

use super::super::read::Reader;
use crate::api::daemonset_rollout::DaemonSetRollout;
use crate::daemonset_rollout::listed::Lists;

/// Everything in the namespaces of these objects; nodes are listed apart.
pub(super) async fn lists(reader: Reader<'_>, objects: Vec<DaemonSetRollout>) -> Result<Lists, String> {
    let namespaces: BTreeSet<String> = objects.iter().filter_map(ResourceExt::namespace).collect();
    let mut lists = Lists { objects, ..Lists::default() };
    for namespace in &namespaces {
        let within = Some(namespace.as_str());
        lists.pods.extend(reader.within(within, "pods", "").await?);
        lists.sets.extend(reader.within(within, "daemonsets", "").await?);
        lists.revisions.extend(reader.within(within, "controllerrevisions", "").await?);
    }
    Ok(lists)
}
