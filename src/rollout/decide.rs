//! The decision: template, steps, memory. The rules stand in the order of their precedence.
//!
//! Must not read the fleet itself (that is `bucket`) nor word what it found (that is `report`).

use std::collections::BTreeMap;

use chrono::{DateTime, TimeDelta, Utc};

use super::bucket::{Bucket, Cell, Sorted, Standing, sort};
use super::report::{Report, State, WaitingOn};
use super::{Desired, Failure, Hold, Inventory, Memory, Plan, Policy, Source, Step, Stuck, StuckPhase, Template};

/// How many versions that failed are remembered.
const REJECTED: usize = 10;
/// How many causes, and nodes of a failure, are named.
const WAITING: usize = 5;
/// How many nodes are named of each cause.
const NAMES: usize = 3;
/// How many nodes are remembered for each cause, at most: a status must not grow with the fleet.
const REMEMBERED: usize = 200;
/// A node that went away because of us and was removed counts for so long.
const REMOVED: TimeDelta = TimeDelta::hours(1);
/// Where one place was tried in vain the next is tried after so long.
const TRY_AGAIN: TimeDelta = TimeDelta::minutes(10);
/// A verdict on one revision is withdrawn at most so often.
const WITHDRAWALS: u32 = 2;
/// Fewer nodes than these are no storm.
const STORM: usize = 3;

/// Says what to do now. `desired` is `None` while nobody knows which version is wanted.
#[must_use]
pub fn plan(policy: &Policy, desired: Option<&Desired>, inventory: &Inventory<'_>, now: DateTime<Utc>) -> Plan {
    let mut memory = inventory.memory.clone();
    let sorted = sort(policy, desired, inventory, now);
    let budget = policy.budget.of(sorted.cells.len());
    let mut report = Report::count(&sorted);
    remember(&sorted, inventory, &mut memory, now);
    withdraw(&sorted, policy, &mut memory, now);
    let mut plan = Plan {
        template: Template::Keep,
        steps: Vec::new(),
        budget,
        next: sorted.cells.iter().filter_map(|cell| cell.until).min(),
        needs_hosts: inventory.pods.iter().any(|pod| pod.revision.is_none())
            || sorted.cells.iter().any(|cell| matches!(cell.standing, Some(Standing::Outdated | Standing::Unheard | Standing::Unknown))),
        needs_proof: sorted.cells.iter().any(|cell| cell.suspect),
        report: Report::default(),
        memory: Memory::default(),
    };

    let Some(desired) = desired else {
        report.state = State::Waiting;
        report.waiting_on = vec![WaitingOn::Version];
        return Plan { report, memory, ..plan };
    };
    if inventory.template.is_some() && memory.adopted_hash.is_none() && inventory.pods.iter().any(|pod| pod.revision.is_none()) {
        memory.adopted_hash = Some(desired.revision.hash.clone());
        memory.adopted_version = desired.revision.version;
    }

    // Rule 2: an unresolved failure, then a hold.
    new_failure(&sorted, desired, inventory, budget, &mut memory);
    let failed = memory.failure.as_ref().is_some_and(|failure| is_about(failure, desired));
    stick(&sorted, desired, policy, &mut memory, now);
    plan.template = template(desired, inventory, &memory, failed, policy.hold);
    let removed = memory.away.values().flatten().count();
    let in_flight = sorted.cells.iter().filter(|cell| cell.counts).count() + sorted.outside.len() + removed;

    if failed || policy.hold.is_some() {
        if let (true, Some(failure)) = (failed, &memory.failure) {
            report.state = State::Failed;
            report.waiting_on = vec![WaitingOn::Failure(failure.message.clone())];
            memory.started = None;
        } else if let Some(hold) = policy.hold {
            hold_on(hold, desired, inventory, &mut report);
        }
        plan.next = plan.next.into_iter().chain(withdrawal_due(&sorted, policy, &memory, now)).min();
        return Plan { report, memory, ..plan };
    }

    begin(&sorted, desired, inventory, plan.template, &mut memory, now);
    let template_is_there = inventory.template == Some(&desired.revision);
    if plan.template != Template::Keep || !template_is_there || !inventory.settled {
        let is_back = memory.stuck.as_ref().is_some_and(|stuck| stuck.phase == StuckPhase::Back);
        let idle = report.outdated == 0 && in_flight == 0 && template_is_there;
        report.state = if idle { State::Complete } else { State::Rolling };
        if is_back {
            report.waiting_on = places(&sorted);
            plan.next = plan.next.into_iter().chain(stuck_until(&memory, policy, now)).min();
        } else if !idle {
            report.waiting_on = vec![WaitingOn::Template];
        }
        return Plan { report, memory, ..plan };
    }

    // Rules 4, 5, 7: what is in flight occupies the budget; broken ones go first, for they cost nothing; then the oldest.
    let budget = if memory.stuck.as_ref().is_some_and(|stuck| stuck.phase == StuckPhase::Trial) { trial(&sorted, budget, in_flight) } else { budget };
    let storm = storm(&sorted);
    plan.steps = steps(&sorted, budget, in_flight, storm.is_some());
    for step in &plan.steps {
        note(step, &sorted, &mut memory, now);
    }
    if storm.is_some() && report.outdated > 0 {
        report.waiting_on.extend(storm);
    }
    plan.next = plan.next.into_iter().chain(stuck_until(&memory, policy, now)).min();
    let taken = plan.steps.iter().filter(|step| step.costs).count();
    finish_or_wait(&sorted, desired, (in_flight + taken, budget), &mut report, &mut memory, now);
    Plan { report, memory, ..plan }
}

/// Whether an agent is to be replaced and can be: one on a node that is away or busy waits for its node.
fn is_open(cell: &Cell<'_>) -> bool {
    let waits = matches!(cell.bucket, Some(Bucket::NodeNotReady | Bucket::NodeLost | Bucket::NodeBusy));
    cell.standing == Some(Standing::Outdated) && cell.node.busy.is_none() && !waits
}

fn is_about(failure: &Failure, desired: &Desired) -> bool {
    failure.revision == desired.revision && failure.strict == desired.strict
}

/// What a hold says, and where the rollout stands meanwhile.
fn hold_on(hold: Hold, desired: &Desired, inventory: &Inventory<'_>, report: &mut Report) {
    let something = report.outdated > 0 || inventory.template.is_some_and(|template| *template != desired.revision);
    report.state = match (something, hold) {
        (false, _) => State::Complete,
        (true, Hold::Paused | Hold::Downgrade) => State::Paused,
        (true, Hold::Stopped) => State::Stopped,
        (true, Hold::Tokens | Hold::Environment | Hold::NamespaceSelector) => State::Held,
    };
    report.waiting_on = if something { vec![WaitingOn::Hold(hold)] } else { Vec::new() };
}

/// Notes what a later look cannot find out any more: nodes that went away, what was broken before, and outages.
fn remember(sorted: &Sorted<'_>, inventory: &Inventory<'_>, memory: &mut Memory, now: DateTime<Utc>) {
    let is_there = |name: &str| inventory.nodes.iter().find(|node| &*node.name == name);
    let mut away: BTreeMap<String, Option<DateTime<Utc>>> = BTreeMap::new();
    for (name, gone) in &memory.away {
        match is_there(name) {
            Some(node) if node.ready => {}
            Some(_) => drop(away.insert(name.clone(), None)),
            None => {
                let gone = gone.unwrap_or(now);
                if now - gone < REMOVED {
                    away.insert(name.clone(), Some(gone));
                }
            }
        }
    }
    let lost = sorted.cells.iter().filter(|cell| cell.counts && !cell.node.ready);
    away.extend(lost.take(REMEMBERED).map(|cell| (cell.node.name.to_string(), None)));
    memory.away = away;
    if !memory.broken.is_empty() {
        for cell in sorted.cells.iter().filter(|cell| cell.bucket.is_none()) {
            memory.broken.remove(&*cell.node.name);
        }
    }
    memory.outage = match (inventory.source, memory.outage) {
        (Source::Away, None | Some((_, Some(_)))) if memory.started.is_some() => Some((now, None)),
        (Source::Answers(_), Some((since, None))) => Some((since, Some(now))),
        (_, outage) => outage,
    };
}

/// What a step leaves behind: its place was broken before, or had an agent that restarted again and again.
fn note(step: &Step, sorted: &Sorted<'_>, memory: &mut Memory, now: DateTime<Utc>) {
    let pod = &step.pod;
    if !step.costs {
        // What counts already goes on to count: an earlier step took its agent.
        let counts = sorted.cells.iter().any(|cell| cell.counts && *cell.node.name == *pod.node);
        if !counts && memory.broken.len() < REMEMBERED {
            memory.broken.insert(pod.node.to_string());
        }
        return;
    }
    let days = (now - pod.created).num_days() + 1;
    if pod.restarts >= 3 && i64::from(pod.restarts) >= days && memory.flapping.len() < REMEMBERED {
        memory.flapping.insert(pod.node.to_string());
    }
}

/// A rollout begins when the template advances, or with Pods that do not have it.
fn begin(sorted: &Sorted<'_>, desired: &Desired, inventory: &Inventory<'_>, template: Template, memory: &mut Memory, now: DateTime<Utc>) {
    let advances = template == Template::Advance && inventory.template.is_some();
    let resumes = memory.stuck.is_some() && memory.started.is_some();
    let work = sorted.cells.iter().any(is_open);
    let late = memory.started.is_none() && inventory.template == Some(&desired.revision) && work;
    if !(advances && !resumes || late) {
        return;
    }
    memory.started = Some(now);
    memory.finished = None;
    if memory.touched_since.is_none() {
        memory.forget_places();
        memory.touched_since = Some(now);
    }
    memory.joined_after = Some(now);
    if memory.last_good.is_none() && advances {
        // Never completed by us, yet it is what agents run: better than nothing to go back to.
        memory.last_good = inventory.template.cloned();
    }
    memory.from = inventory.template.and_then(|t| t.version).filter(|from| Some(*from) != desired.revision.version).or(memory.from);
}

/// The budget while one place is tried: one that may still come counts as that one, what is lost otherwise does not.
fn trial(sorted: &Sorted<'_>, budget: usize, in_flight: usize) -> usize {
    let may_come = |bucket: Bucket| matches!(bucket, Bucket::Starting | Bucket::Terminating) || bucket.is_the_worlds();
    let tried = sorted.cells.iter().filter(|cell| cell.counts && cell.bucket.is_some_and(may_come)).count();
    budget.min((in_flight + 1).saturating_sub(tried))
}

/// Whom to replace now.
fn steps(sorted: &Sorted<'_>, budget: usize, in_flight: usize, storm: bool) -> Vec<Step> {
    let outdated = || sorted.cells.iter().filter(|cell| is_open(cell));
    let step = |cell: &Cell<'_>, costs| cell.pod.map(|pod| Step { pod: pod.clone(), costs });
    // Those that cost nothing, too, are at most the budget at a time: a whole fleet may look broken for a moment.
    let is_free = |cell: &&Cell<'_>| cell.touched && !cell.counts && matches!(cell.bucket, Some(Bucket::Starting | Bucket::Terminating));
    let freed = sorted.cells.iter().filter(is_free).count();
    let broken = outdated().filter(|cell| cell.bucket.is_some_and(Bucket::is_broken));
    let mut steps: Vec<Step> = broken.filter_map(|cell| step(cell, false)).take(budget.saturating_sub(freed)).collect();
    if storm {
        return steps;
    }
    let mut healthy: Vec<&Cell<'_>> = outdated().filter(|cell| cell.bucket.is_none()).collect();
    healthy.sort_by_key(|cell| cell.pod.map(|pod| (pod.created, pod.name.clone())));
    steps.extend(healthy.into_iter().take(budget.saturating_sub(in_flight)).filter_map(|cell| step(cell, true)));
    steps
}

/// Rule 3: while a third of the nodes is NotReady no agent is taken from any.
fn storm(sorted: &Sorted<'_>) -> Option<WaitingOn> {
    let down = sorted.cells.iter().filter(|cell| !cell.node.ready).count();
    (down >= STORM && down * 3 >= sorted.cells.len()).then_some(WaitingOn::Storm(down, sorted.cells.len()))
}

/// Rule 9: as many places that speak against a revision as the budget stop the rollout.
fn new_failure(sorted: &Sorted<'_>, desired: &Desired, inventory: &Inventory<'_>, budget: usize, memory: &mut Memory) {
    let failures: Vec<&Cell<'_>> = sorted.cells.iter().filter(|cell| cell.speaks).collect();
    let known = memory.failure.as_ref().is_some_and(|failure| is_about(failure, desired));
    // A budget larger than what can be reached must not let everything fail without a word.
    let all_fail = || {
        let excused = |cell: &Cell<'_>| matches!(cell.bucket, Some(Bucket::NodeNotReady | Bucket::NodeBusy));
        !failures.is_empty() && sorted.cells.iter().all(|cell| cell.speaks || excused(cell))
    };
    let too_many = failures.len() >= budget || all_fail();
    // Outside of a rollout an agent that fails says nothing about a version.
    let in_rollout = inventory.memory.started.is_some() && inventory.template == Some(&desired.revision);
    if known || !too_many || !in_rollout {
        // A failure is over when something else is wanted and that is done; finish_or_wait forgets it.
        return;
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
        nodes: failures.iter().take(REMEMBERED).map(|cell| cell.node.name.to_string()).collect(),
    });
    if let Some(version) = new_version.filter(|version| !memory.rejected.contains(version)) {
        memory.rejected.push(version);
        let surplus = memory.rejected.len().saturating_sub(REJECTED);
        memory.rejected.drain(..surplus);
    }
}

fn reached(sorted: &Sorted<'_>) -> usize {
    sorted.cells.iter().filter(|cell| cell.standing == Some(Standing::Current) || cell.speaks).count()
}

/// When the places that spoke against a revision will all have been available with it for as long as they had been given;
/// `None`: one is not, is gone, or was made from another.
fn recovered_at(sorted: &Sorted<'_>, policy: &Policy, failure: &Failure) -> Option<DateTime<Utc>> {
    let mut at = None;
    for name in &failure.nodes {
        let cell = sorted.cells.iter().find(|cell| &*cell.node.name == name.as_str())?;
        let pod = cell.pod.filter(|pod| cell.bucket.is_none() && pod.revision.as_ref() == Some(&failure.revision))?;
        at = at.max(pod.ready_since.map(|since| since + policy.wait_ready));
    }
    at
}

/// Rule 9: a verdict is withdrawn when the places that spoke recovered by themselves.
fn withdraw(sorted: &Sorted<'_>, policy: &Policy, memory: &mut Memory, now: DateTime<Utc>) {
    let Some(failure) = &memory.failure else { return };
    let before = memory.withdrawn.as_ref().filter(|(revision, _)| *revision == failure.revision).map_or(0, |(_, times)| *times);
    if before >= WITHDRAWALS || recovered_at(sorted, policy, failure).is_none_or(|at| at > now) {
        return;
    }
    memory.withdrawn = Some((failure.revision.clone(), before + 1));
    memory.rejected.retain(|version| Some(*version) != failure.revision.version);
    memory.failure = None;
}

fn withdrawal_due(sorted: &Sorted<'_>, policy: &Policy, memory: &Memory, now: DateTime<Utc>) -> Option<DateTime<Utc>> {
    recovered_at(sorted, policy, memory.failure.as_ref()?).filter(|at| *at > now)
}

/// Rule 9: trouble of the world rejects nothing. If it lasts the template goes back meanwhile; where nothing is left that
/// tries by itself, one place is tried.
fn stick(sorted: &Sorted<'_>, desired: &Desired, policy: &Policy, memory: &mut Memory, now: DateTime<Utc>) {
    if memory.started.is_none() {
        memory.stuck = None;
        return;
    }
    // What kept another revision from starting says nothing about this one: a typo in an image's name, say, that was mended.
    let stuck = memory.stuck.take().filter(|stuck| stuck.revision == desired.revision);
    let is_this = |cell: &Cell<'_>| cell.standing != Some(Standing::Outdated);
    let in_trouble = sorted.cells.iter().any(|cell| cell.touched && is_this(cell) && cell.bucket.is_some_and(Bucket::is_the_worlds));
    let to = |phase, tries| Some(Stuck { revision: desired.revision.clone(), phase, since: now, tries });
    let Some(stuck) = stuck else {
        memory.stuck = if in_trouble { to(StuckPhase::Waiting, 0) } else { None };
        return;
    };
    let is_proof = |cell: &Cell<'_>| {
        let pod = cell.pod.filter(|pod| cell.bucket.is_none() && pod.revision.as_ref() == Some(&desired.revision));
        pod.and_then(|pod| pod.ready_since).is_some_and(|ready| ready >= stuck.since)
    };
    let too_long = stuck.since + policy.wait_ready <= now;
    let tries_again = stuck.tries == 0 || stuck.since + TRY_AGAIN <= now;
    memory.stuck = match stuck.phase {
        _ if sorted.cells.iter().any(is_proof) => None,
        StuckPhase::Waiting if !in_trouble => None,
        StuckPhase::Waiting if too_long => to(StuckPhase::Back, 0),
        StuckPhase::Trial if in_trouble && too_long => to(StuckPhase::Back, stuck.tries + 1),
        StuckPhase::Back if !in_trouble && tries_again => to(StuckPhase::Trial, stuck.tries),
        _ => Some(stuck),
    };
}

/// When being stuck changes by the clock alone; what is past changes by an event only.
fn stuck_until(memory: &Memory, policy: &Policy, now: DateTime<Utc>) -> Option<DateTime<Utc>> {
    let stuck = memory.stuck.as_ref()?;
    let wait = if stuck.phase == StuckPhase::Back { TRY_AGAIN } else { policy.wait_ready };
    Some(stuck.since + wait).filter(|at| *at > now)
}

/// Rule 0: the template is part of the plan.
fn template(desired: &Desired, inventory: &Inventory<'_>, memory: &Memory, failed: bool, hold: Option<Hold>) -> Template {
    let is_back = memory.stuck.as_ref().is_some_and(|stuck| stuck.phase == StuckPhase::Back);
    match inventory.template {
        Some(running) if failed || is_back => match &memory.last_good {
            Some(good) if good != running && *good != desired.revision => Template::GoBack,
            _ => Template::Keep,
        },
        Some(running) if *running == desired.revision => Template::Keep,
        Some(_) if hold.is_some() => Template::Keep,
        // A first install replaces nothing, so nothing holds it.
        None | Some(_) => Template::Advance,
    }
}

/// The places that the rollout waits for, each cause once.
fn places(sorted: &Sorted<'_>) -> Vec<WaitingOn> {
    let mut causes: Vec<(&str, Vec<&Cell<'_>>)> = Vec::new();
    for cell in sorted.cells.iter().filter(|cell| cell.counts || (cell.bucket.is_some() && cell.standing == Some(Standing::Outdated))) {
        match causes.iter().position(|(why, _)| *why == cell.detail) {
            Some(known) => causes[known].1.push(cell),
            None if causes.len() < WAITING => causes.push((&cell.detail, vec![cell])),
            None => {}
        }
    }
    let place = |(why, cells): (&str, Vec<&Cell<'_>>)| WaitingOn::Nodes {
        names: cells.iter().take(NAMES).map(|cell| cell.node.name.to_string()).collect(),
        count: cells.len(),
        why: why.to_owned(),
        until: cells.iter().filter_map(|cell| cell.until).min(),
    };
    let mut places: Vec<WaitingOn> = causes.into_iter().map(place).collect();
    places.extend(sorted.outside.first().map(|(_, taint)| WaitingOn::Nodes {
        names: sorted.outside.iter().take(NAMES).map(|(node, _)| node.name.to_string()).collect(),
        count: sorted.outside.len(),
        why: format!("its agent was being replaced when taint {taint} came, which keeps the new one off"),
        until: None,
    }));
    places
}

fn finish_or_wait(
    sorted: &Sorted<'_>,
    desired: &Desired,
    (busy, budget): (usize, usize),
    report: &mut Report,
    memory: &mut Memory,
    now: DateTime<Utc>,
) {
    let left = sorted.cells.iter().filter(|cell| is_open(cell)).count();
    let ends_by_itself = |bucket: Bucket| matches!(bucket, Bucket::Starting | Bucket::Terminating) || bucket.is_the_worlds();
    // A place that may yet speak keeps the rollout open: afterwards nobody would hear it.
    let moves = |cell: &&Cell<'_>| cell.counts && (cell.pending || cell.bucket.is_some_and(ends_by_itself));
    let moving = sorted.cells.iter().filter(moves).count();
    let unheard = sorted.cells.iter().filter(|cell| cell.standing == Some(Standing::Unheard)).count();
    if left == 0 && moving == 0 && unheard > 0 {
        // After a start nothing is under way until the vendor says otherwise.
        report.state = if memory.started.is_some() { State::Rolling } else { State::Complete };
        report.waiting_on.push(WaitingOn::Hosts(unheard));
        return;
    }
    if left == 0 && moving == 0 {
        report.state = State::Complete;
        report.waiting_on = places(sorted);
        if memory.started.take().is_some() {
            memory.finished = Some(now);
        }
        memory.stuck = None;
        // Whoever cordoned or tainted a node since: once that ends its agent is missing because of us.
        let is_back = |cell: &Cell<'_>| !cell.touched || cell.bucket.is_none();
        if sorted.cells.iter().all(is_back) && sorted.outside.is_empty() && memory.away.is_empty() {
            memory.forget_places();
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
        report.waiting_on.push(WaitingOn::Budget(busy, budget));
    }
    if unheard > 0 {
        report.waiting_on.push(WaitingOn::Hosts(unheard));
    }
    report.waiting_on.extend(places(sorted));
    report.waiting_on.truncate(WAITING);
}
