//! `explain` of DaemonSetRollouts: what is read for it.
//!
//! Reads only, with the caller's rights. Must not judge anything itself: that is the operator's own code.

use chrono::{DateTime, Utc};
use kube::ResourceExt;

use super::super::asked::Question;
use super::super::read::Reader;
use super::read::lists;
use crate::api::daemonset_rollout::DaemonSetRollout;
use crate::api::nearest::nearest;
use crate::daemonset_rollout::explain::{Around, told};
use crate::daemonset_rollout::listed::{Listed, Lists};
use crate::fleet::finding::Finding;
use crate::kernel::refused;

/// What there is to say; `None`: there is no DaemonSetRollout. `is_asked`: nothing else was asked for.
pub(in crate::cli) async fn explain(
    reader: Reader<'_>,
    question: &Question<'_>,
    namespace: Option<&str>,
    is_asked: bool,
) -> Result<Option<Vec<Finding>>, String> {
    let objects = reader.any::<DaemonSetRollout>(namespace, "daemonsetrollouts", is_asked).await?;
    let Some(objects) = objects else { return Ok(None) };
    Ok(Some(match question {
        Question::All => objects.iter().map(|object| told(object).conclusion()).collect(),
        Question::One(name) => {
            let found: Vec<&DaemonSetRollout> = objects.iter().filter(|object| object.name_any() == *name).collect();
            if found.is_empty() {
                let names: Vec<String> = objects.iter().map(ResourceExt::name_any).collect();
                let names: Vec<&str> = names.iter().map(String::as_str).collect();
                return Err(format!("there is no DaemonSetRollout {name}{}", nearest(name, &names)));
            }
            found.into_iter().flat_map(|object| told(object).findings()).collect()
        }
        Question::Node { name, nodes, now } => {
            let lists = Lists { nodes: nodes.to_vec(), ..lists(reader, objects).await? };
            let listed = Listed::of(lists);
            let mut found = Vec::new();
            for object in listed.objects() {
                let around = around(reader, &listed, object, *now).await;
                found.push(listed.node(name, object, &around, *now));
            }
            found
        }
    }))
}

/// What no list shows, where something is missing. Without the right to read it, that is said, and no more.
async fn around(reader: Reader<'_>, listed: &Listed, object: &DaemonSetRollout, now: DateTime<Utc>) -> Around {
    let (set, pods) = listed.workload(object);
    // Since when a Pod is missing only the operator knows.
    let counts = object.status.as_ref().and_then(|status| status.nodes.as_ref());
    let since = counts.is_some_and(|nodes| nodes.admission > 0).then_some(DateTime::UNIX_EPOCH);
    let asked = match set.as_deref() {
        Some(set) => refused::why(reader.client, set, (&pods, since), now).await,
        None => Ok(None),
    };
    match asked {
        Ok(refused) => Around { refused, unread: Vec::new() },
        Err(why) => Around { refused: None, unread: vec![why.chain()] },
    }
}
