//! Rollback: whether the template of a failed revision is replaced with the last good one, and doing that: the only
//! write to a DaemonSet, which the administrator must allow.
//!
//! Once for each revision that failed: if it is put back, the status says so, and the operator does not fight. Must not
//! replace a Pod.

use k8s_openapi::api::apps::v1::DaemonSet;
use kube::api::Api;

use super::MANAGER;
use super::context::Cx;
use super::memory::{Memory, Rollback};
use super::observe::{Seen, list};
use super::revision::own;
use super::source::last_writers;
use crate::k8s::source::reverter;
use crate::kernel::{self, Key, restore};

/// The state of the template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Back {
    /// Nothing is to be put back.
    Not,
    /// The last good template is to be put back.
    Due(Rollback),
    /// It was put back.
    Done(Rollback),
    /// It was, and the failed one was written again: those who write it.
    Undone(Vec<String>),
    /// It is not put back, for this.
    Refused(String),
}

/// What is to be done, and remembered; `has_failed`: the current revision has, and nothing holds the rollout.
pub fn judge(memory: &mut Memory, seen: &Seen, has_failed: bool) -> Back {
    let noted = memory.rollback.take();
    let (Some(set), Some(known)) = (seen.set.as_deref(), seen.revisions.known()) else {
        memory.rollback = noted;
        return Back::Not;
    };
    if !seen.resolved.rolls_back {
        return Back::Not;
    }
    let failed = memory.engine.failure.as_ref().map(|failure| &failure.revision).filter(|one| **one == known.current);
    let Some(failed) = failed else {
        let Some(noted) = noted else { return Back::Not };
        let is_there = noted.to == known.current;
        let is_over = noted.is_over || !(is_there || noted.failed == known.current);
        let noted = Rollback { is_done: noted.is_done || is_there, is_over, ..noted };
        // What failed and comes back later is known.
        memory.rollback = Some(noted.clone());
        return if is_there && !is_over { Back::Done(noted) } else { Back::Not };
    };
    let put_back = seen.put_back.as_ref().filter(|(of, _)| of == failed);
    let is_unseen = put_back.is_some_and(|(_, generation)| *generation == set.metadata.generation);
    let noted = noted.filter(|noted| noted.failed == *failed);
    let noted = noted.map(|noted| {
        let is_done = put_back.is_some_and(|(_, generation)| *generation >= noted.generation) && !is_unseen;
        Rollback { is_done: noted.is_done || is_done, ..noted }
    });
    if is_unseen {
        // No watch has shown what we wrote.
        memory.rollback = noted;
        return Back::Not;
    }
    if let Some(noted) = noted.as_ref().filter(|noted| noted.is_done) {
        memory.rollback = Some(noted.clone());
        return Back::Undone(last_writers(set).into_iter().map(str::to_owned).collect());
    }
    if !has_failed {
        memory.rollback = noted;
        return Back::Not;
    }
    let good = memory.engine.last_good.as_ref().filter(|good| known.numbers.contains_key(&good.0) && *good != failed);
    let Some(good) = good else {
        return Back::Refused("none of its revisions is known to be good".to_owned());
    };
    if let Some(source) = reverter(&set.metadata) {
        return Back::Refused(format!("{source} would write the failed one again"));
    }
    if let Some(why) = &seen.unrestorable {
        return Back::Refused(why.clone());
    }
    let generation = set.metadata.generation;
    let due = Rollback { failed: failed.clone(), to: good.clone(), generation, is_done: false, is_over: false };
    memory.rollback = Some(due.clone());
    Back::Due(due)
}

/// What came of an attempt: why the template was not put back, if it was not.
pub type Outcome = Result<(), String>;

/// Puts the last good template back into a DaemonSet that still is as it was decided for.
pub async fn put_back(
    cx: &Cx<'_>,
    (namespace, name): &Key,
    live: &DaemonSet,
    due: &Rollback,
) -> Result<Outcome, kernel::Error> {
    let all = list(&cx.client, live, namespace).await?;
    let good = own(live, &all).into_iter().find(|one| one.hash == due.to.0);
    let Some((template, data)) = good.map(|one| (one.template, one.data)) else {
        return Ok(Err(format!("{} is gone", due.to)));
    };
    let api: Api<DaemonSet> = Api::namespaced(cx.client.clone(), namespace);
    let is_as_wanted = |made: &DaemonSet| made.spec.as_ref().is_some_and(|spec| spec.template == template);
    match restore::restore(MANAGER, &api, live, &data, is_as_wanted).await {
        Ok(true) => Ok(Ok(())),
        Ok(false) => Ok(Err("admission makes another template of it".to_owned())),
        Err(error) => match error.objection() {
            Some(why) => Ok(Err(format!(
                "the API server refuses it: {why}; the right is in config/{MANAGER}/rollback-role.yaml"
            ))),
            None if error.is_conflict() => Ok(Err(format!("DaemonSet {namespace}/{name} changed meanwhile"))),
            None => Err(error),
        },
    }
}
