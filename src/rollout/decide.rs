//! The decision: template, steps, memory. The rules stand in the order of their precedence.
//!
//! Must not read the fleet itself (that is `bucket`) nor word what it found (that is `report`).

use chrono::{DateTime, Utc};

use super::bucket::{Bucket, Cell, Currency, Sorted, sort};
use super::report::{Report, State, WaitingOn};
use super::{Desired, Failure, Hold, Inventory, Memory, Plan, Policy, Step, Template};

/// How many versions that failed are remembered.
const REJECTED: usize = 10;
/// How many nodes a rollout's waiting names.
const WAITING: usize = 5;

/// Says what to do now. `desired` is `None` while nobody knows which version is wanted.
#[must_use]
pub fn plan(policy: &Policy, desired: Option<&Desired>, inventory: &Inventory<'_>, now: DateTime<Utc>) -> Plan {
    let mut memory = inventory.memory.clone();
    let rolling = memory.started.is_some()
        || (inventory.template.is_some() && inventory.template == desired.map(|d| &d.revision) && any_other_revision(inventory));
    let sorted = sort(policy, desired, inventory, rolling, now);
    let budget = policy.budget.of(sorted.cells.len());
    let mut report = Report::count(&sorted);
    let next = sorted.cells.iter().filter_map(|cell| cell.until).min();
    // A hold holds everything that we do: only what the DaemonSet controller does by itself lies outside of it.
    let surplus = sorted.surplus.iter().filter(|_| policy.hold.is_none());
    let mut steps: Vec<Step> = surplus.map(|pod| Step { pod: (*pod).clone(), costs: false }).collect();

    let Some(desired) = desired else {
        report.state = State::Waiting;
        report.waiting_on = vec![WaitingOn::Version];
        return Plan { template: Template::Keep, steps, budget, report, memory, next };
    };
    if inventory.template.is_some() && memory.adopted_hash.is_none() && inventory.pods.iter().any(|pod| pod.revision.is_none()) {
        memory.adopted_hash = Some(desired.revision.hash.clone());
    }

    // Rule 2: an unresolved failure, then a hold.
    let failed_now = new_failure(&sorted, desired, inventory, budget, &mut memory);
    let failed = failed_now || memory.failure.as_ref().is_some_and(|f| f.revision == desired.revision && f.strict == desired.strict);
    let template = template(desired, inventory, &memory, failed, policy.hold);
    let (outdated, in_flight) = (report.outdated, sorted.cells.iter().filter(|cell| cell.counts).count());

    if failed || policy.hold.is_some() {
        if let (true, Some(failure)) = (failed, &memory.failure) {
            report.state = State::Failed;
            report.waiting_on = vec![WaitingOn::Failure(failure.message.clone())];
            memory.started = None;
        } else if let Some(hold) = policy.hold {
            let something = outdated > 0 || inventory.template.is_some_and(|t| *t != desired.revision);
            report.state = match (something, hold) {
                (false, _) => State::Complete,
                (true, Hold::Paused | Hold::Downgrade) => State::Paused,
                (true, Hold::Stopped) => State::Stopped,
            };
            report.waiting_on = if something { vec![WaitingOn::Hold(hold)] } else { Vec::new() };
        }
        return Plan { template, steps, budget, report, memory, next };
    }

    // A rollout begins when the template advances, or with Pods that do not have it.
    let advances = template == Template::Advance && inventory.template.is_some();
    let work = sorted.cells.iter().any(is_open);
    if advances || (memory.started.is_none() && inventory.template == Some(&desired.revision) && work) {
        memory.started = Some(now);
        memory.finished = None;
        if memory.last_good.is_none() && advances {
            // Never completed by us, yet it is what agents run: better than nothing to go back to.
            memory.last_good = inventory.template.cloned();
        }
        memory.from = inventory.template.and_then(|t| t.version).filter(|from| Some(*from) != desired.revision.version).or(memory.from);
    }

    let template_is_there = inventory.template == Some(&desired.revision);
    if !template_is_there || !inventory.settled {
        report.state = if outdated > 0 || in_flight > 0 || !template_is_there { State::Rolling } else { State::Complete };
        if report.state == State::Rolling {
            report.waiting_on = vec![WaitingOn::Template];
        }
        return Plan { template, steps, budget, report, memory, next };
    }

    // Rules 4, 5, 7: what is in flight occupies the budget; broken ones go first, for they cost nothing; then the oldest.
    let outdated_cells = || sorted.cells.iter().filter(|cell| cell.currency == Some(Currency::Outdated));
    let pod_of = |cell: &Cell<'_>, costs| cell.pod.map(|pod| Step { pod: pod.clone(), costs });
    steps.extend(outdated_cells().filter(|cell| cell.bucket.is_some_and(Bucket::replaceable)).filter_map(|cell| pod_of(cell, false)));
    let mut healthy: Vec<&Cell<'_>> = outdated_cells().filter(|cell| cell.bucket.is_none() && cell.node.busy.is_none()).collect();
    healthy.sort_by_key(|cell| cell.pod.map(|pod| (pod.created, pod.name.clone())));
    steps.extend(healthy.iter().take(budget.saturating_sub(in_flight)).filter_map(|cell| pod_of(cell, true)));

    finish_or_wait(&sorted, desired, budget, in_flight + steps.len(), &mut report, &mut memory, now);
    Plan { template, steps, budget, report, memory, next }
}

/// Whether an agent is to be replaced and can be: one on a node that is away or busy waits for its node.
fn is_open(cell: &Cell<'_>) -> bool {
    cell.currency == Some(Currency::Outdated) && cell.node.busy.is_none() && !matches!(cell.bucket, Some(Bucket::NodeNotReady | Bucket::NodeBusy))
}

/// Whether some Pod was made from something else than the template: a rollout whose beginning nobody remembers.
fn any_other_revision(inventory: &Inventory<'_>) -> bool {
    inventory.pods.iter().any(|pod| pod.revision.is_some() && pod.revision.as_ref() != inventory.template)
}

/// Rule 9: as many failures as the budget stop the rollout. Returns whether that happened now.
fn new_failure(sorted: &Sorted<'_>, desired: &Desired, inventory: &Inventory<'_>, budget: usize, memory: &mut Memory) -> bool {
    let failures: Vec<&Cell<'_>> = sorted.cells.iter().filter(|cell| cell.failure).collect();
    let known = memory.failure.as_ref().is_some_and(|f| f.revision == desired.revision && f.strict == desired.strict);
    // A budget larger than what can be reached must not let everything fail without a word.
    let all_fail = || {
        !failures.is_empty() && sorted.cells.iter().all(|cell| cell.failure || matches!(cell.bucket, Some(Bucket::NodeNotReady | Bucket::NodeBusy)))
    };
    let too_many = failures.len() >= budget || all_fail();
    // Outside of a rollout an agent that fails says nothing about a version.
    let in_rollout = inventory.memory.started.is_some() && inventory.template == Some(&desired.revision);
    if known || !too_many || !in_rollout {
        // A failure is over when something else is wanted and that is done; finish_or_wait forgets it.
        return false;
    }
    let names: Vec<&str> = failures.iter().take(WAITING).map(|cell| &*cell.node.name).collect();
    let more = failures.len().saturating_sub(names.len());
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let why = failures.iter().map(|cell| cell.detail.as_str()).find(|detail| !detail.is_empty()).unwrap_or("not Ready");
    let new_version = desired.revision.version.filter(|version| memory.last_good.as_ref().is_none_or(|good| good.version != Some(*version)));
    let what = new_version.map_or_else(|| "the new Pod template".to_owned(), |version| format!("version {version}"));
    memory.failure = Some(Failure {
        revision: desired.revision.clone(),
        strict: desired.strict,
        message: format!("{what} failed on {} of {} nodes it reached ({}{more}): {why}", failures.len(), reached(sorted), names.join(", ")),
    });
    if let Some(version) = new_version.filter(|version| !memory.rejected.contains(version)) {
        memory.rejected.push(version);
        let surplus = memory.rejected.len().saturating_sub(REJECTED);
        memory.rejected.drain(..surplus);
    }
    true
}

fn reached(sorted: &Sorted<'_>) -> usize {
    sorted.cells.iter().filter(|cell| cell.currency == Some(Currency::Updated) || cell.failure).count()
}

/// Rule 0: the template is part of the plan.
fn template(desired: &Desired, inventory: &Inventory<'_>, memory: &Memory, failed: bool, hold: Option<Hold>) -> Template {
    match inventory.template {
        Some(running) if failed => match &memory.last_good {
            Some(good) if good != running && *good != desired.revision => Template::GoBack,
            _ => Template::Keep,
        },
        Some(running) if *running == desired.revision => Template::Keep,
        Some(_) if hold.is_some() => Template::Keep,
        // A first install replaces nothing, so nothing holds it.
        None | Some(_) => Template::Advance,
    }
}

fn finish_or_wait(sorted: &Sorted<'_>, desired: &Desired, budget: usize, busy: usize, report: &mut Report, memory: &mut Memory, now: DateTime<Utc>) {
    let left = sorted.cells.iter().filter(|cell| is_open(cell)).count();
    let moving = sorted.cells.iter().filter(|cell| cell.counts && matches!(cell.bucket, Some(Bucket::Starting | Bucket::Terminating))).count();
    let waiting: Vec<WaitingOn> = sorted
        .cells
        .iter()
        .filter(|cell| cell.counts || (cell.bucket.is_some() && cell.currency == Some(Currency::Outdated)))
        .take(WAITING)
        .map(|cell| WaitingOn::Node { name: cell.node.name.to_string(), why: cell.detail.clone(), until: cell.until })
        .collect();
    if left == 0 && moving == 0 {
        report.state = State::Complete;
        report.waiting_on = waiting;
        if memory.started.take().is_some() {
            memory.finished = Some(now);
        }
        // What is wanted runs: whatever failed before it is history.
        if report.updated > 0 && report.joining == 0 {
            memory.last_good = Some(desired.revision.clone());
            let over = |f: &Failure| {
                desired.strict
                    || f.revision.version < desired.revision.version
                    || (f.revision.version == desired.revision.version && f.revision.hash != desired.revision.hash)
            };
            memory.failure = memory.failure.take().filter(|f| !over(f));
        }
        if let Some(failure) = &memory.failure {
            report.state = State::Failed;
            report.waiting_on.insert(0, WaitingOn::Failure(failure.message.clone()));
            report.waiting_on.truncate(WAITING);
        }
        return;
    }
    report.state = State::Rolling;
    if left > 0 && busy >= budget {
        report.waiting_on.push(WaitingOn::Budget(busy.min(budget.max(busy)), budget));
    }
    report.waiting_on.extend(waiting);
    report.waiting_on.truncate(WAITING);
}
