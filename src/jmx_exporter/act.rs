//! Act: has containers join the Pods of a plan, in its order, and annotates those that export.
//!
//! Writes only through `kernel`. Must not decide, nor wait for a Pod.

use std::time::Duration;

use super::context::Cx;
use super::judge::Jvm;
use super::marks::wanted;
use super::observe::{Content, Seen};
use super::plan::Plan;
use super::request::container;
use crate::k8s::facts::EXPORTS;
use crate::kernel::kind::Acted;
use crate::kernel::pods::{How, Outcome};
use crate::kernel::{self, annotate};

/// What the API server refused is asked for again after so long, and twice as long each time.
pub(super) const AGAIN: Duration = Duration::from_secs(10);
/// A ConfigMap that may not be read is asked for again.
const ASK_AGAIN: Duration = Duration::from_secs(30);
/// What is due by the clock is done a moment later.
const CLOCK_MARGIN: Duration = Duration::from_millis(20);

/// A watch that shows nothing of an annotation for so long is not waited for.
const UNSEEN: Duration = Duration::from_secs(5);

/// What came of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Done {
    /// A Pod changed meanwhile.
    pub has_changed: bool,
    /// The API server refused to let a container join.
    pub is_blocked: bool,
    /// The time of this reconcile was over before all was done.
    pub is_unfinished: bool,
}

/// Carries a plan out.
pub async fn act(cx: &Cx<'_>, seen: &Seen, plan: &Plan, done: &mut Done) -> Acted {
    let attached = attach(cx, seen, plan, done).await;
    let marked = if seen.stopped { Ok(()) } else { mark(cx, seen, plan, done).await };
    let error = marked.err().or(attached.err());
    let waits = [
        plan.next.map(|at| (at - cx.clock.now()).to_std().unwrap_or_default() + CLOCK_MARGIN),
        cx.state.own.blocked.ends_in().map(|wait| wait + CLOCK_MARGIN),
        cx.state.own.marked.ends_in().map(|wait| wait + CLOCK_MARGIN),
        cx.state.own.settles_in(&seen.content).map(|wait| wait + CLOCK_MARGIN),
        (done.is_unfinished || done.is_blocked).then_some(CLOCK_MARGIN),
        done.has_changed.then_some(Duration::from_secs(1)),
        matches!(seen.content, Content::Unread(_)).then_some(ASK_AGAIN),
    ];
    // A container that joined continues without another run: nothing that OLM could interrupt is under way.
    Acted { error, next: waits.into_iter().flatten().min(), busy_until: None }
}

/// Has containers join, one after the other.
async fn attach(cx: &Cx<'_>, seen: &Seen, plan: &Plan, done: &mut Done) -> Result<(), kernel::Error> {
    let Some(desired) = &plan.desired else { return Ok(()) };
    for step in &plan.decision.plan.steps {
        if !cx.state.has_time() {
            done.is_unfinished = true;
            break;
        }
        // A pause, an edit or a deletion in the middle is heard, and a stop.
        let is_still = cx.kind.fleet.read().is_still(cx.key, &seen.resolved);
        if !is_still || cx.is_stopped(cx.key).await.unwrap_or(true) {
            done.has_changed = true;
            break;
        }
        let is_it = |jvm: &&Jvm| jvm.target.name == step.place;
        let jvm = plan.jvms.iter().find(is_it).and_then(|jvm| Some((jvm, jvm.next.as_ref()?)));
        let request = jvm.and_then(|(jvm, next)| {
            let instance = jvm.target.instance(&next.container)?;
            let fleet = cx.kind.fleet.read();
            let own = (&*cx.kind.image, fleet.identity(&instance.shape.image));
            let place = (&*jvm.target, instance);
            Some(container(&seen.resolved, desired, place, next.rewrites, own, cx.clock.now()))
        });
        let Some(((jvm, _), request)) = jvm.zip(request) else { continue };
        let uid = &jvm.target.uid;
        match cx.take((&cx.state.uid, uid), &plan.decision.guard, step, How::Join(&request)).await? {
            Outcome::Taken | Outcome::OverBudget => {}
            Outcome::Changed | Outcome::Stale => done.has_changed = true,
            Outcome::Blocked(blocked) => {
                done.is_blocked = true;
                let why = format!("the API server refuses the container that would join it: {}", blocked.why);
                cx.state.own.blocked.put(uid, why, AGAIN, true);
            }
        }
    }
    Ok(())
}

/// Annotates Pods; one that cannot be keeps no other waiting.
async fn mark(cx: &Cx<'_>, seen: &Seen, plan: &Plan, done: &mut Done) -> Result<(), kernel::Error> {
    let mut first = Ok(());
    let (marked, unseen) = (&cx.state.own.marked, cx.state.own.marked.now());
    for (target, port) in &plan.marks {
        let as_seen = (*port, target.annotations.clone());
        if unseen.get(&target.uid) == Some(&as_seen) {
            continue;
        }
        if !cx.state.has_time() {
            done.is_unfinished = true;
            break;
        }
        let pod = (&*seen.resolved.namespace, &*target.name, &*target.uid);
        match annotate(&cx.client, cx.manager, pod, &wanted(*port)).await {
            Ok(others) if !others.is_empty() => {
                cx.state.own.others.lock().insert(target.uid.clone(), others);
            }
            // Nothing of ours was there to be removed: what is seen is another client's.
            Ok(_) if port.is_none() && cx.state.own.marked.lately().get(&target.uid) == Some(&as_seen) => {
                cx.state.own.others.lock().insert(target.uid.clone(), vec![EXPORTS.to_owned()]);
            }
            Ok(_) => {
                cx.state.own.others.lock().remove(&target.uid);
                marked.put(&target.uid, as_seen, UNSEEN, false);
            }
            Err(error) => first = first.and(Err(error)),
        }
    }
    let mut others = cx.state.own.others.lock();
    others.retain(|uid, _| plan.jvms.iter().any(|jvm| jvm.target.uid == *uid));
    first
}
