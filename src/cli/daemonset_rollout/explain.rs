//! `explain` of DaemonSetRollouts: what is read for it.
//!
//! Reads only, with the caller's rights. Must not judge anything itself: that is the operator's own code.

use chrono::{DateTime, Utc};
use kube::ResourceExt;

use super::super::asked::{PodKind, Question, Said, none};
use super::super::read::Reader;
use super::read::lists;
use crate::api::daemonset_rollout::DaemonSetRollout;
use crate::api::nearest::nearest;
use crate::daemonset_rollout::explain::{Around, told};
use crate::daemonset_rollout::listed::{Listed, Lists};

/// What there is to say of DaemonSetRollouts.
pub(in crate::cli) async fn explain(
    reader: Reader<'_>,
    question: &Question<'_>,
    namespace: Option<&str>,
) -> Result<Said, String> {
    let objects = match reader.any::<DaemonSetRollout>(namespace, "daemonsetrollouts").await? {
        Ok(objects) if objects.is_empty() => return Ok(Err(none(PodKind::Daemonsetrollout, namespace))),
        Ok(objects) => objects,
        Err(why) => return Ok(Err(why)),
    };
    Ok(Ok(match question {
        Question::All => objects.iter().map(|object| told(object).conclusion()).collect(),
        Question::One(name) => {
            let found: Vec<&DaemonSetRollout> = objects.iter().filter(|object| object.name_any() == *name).collect();
            if found.is_empty() {
                let names: Vec<String> = objects.iter().map(ResourceExt::name_any).collect();
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
    let counts = object.status.as_ref().and_then(|status| status.nodes.as_ref());
    let asked = reader.refused((set.as_deref(), &pods), counts, now).await;
    match asked {
        Ok(refused) => Around { refused, unread: Vec::new() },
        Err(why) => Around { refused: None, unread: vec![why] },
    }
}
