//! The decision: reads the fleet, updates the memory, asks the rules.
//!
//! Must not hold a rule of its own.

use chrono::{DateTime, Utc};

use super::bucket::read;
use super::cell::{Cell, Look};
use super::context::{Context, remembered};
use super::count::count;
use super::failure::limit;
use super::pace::Bounds;
use super::place::Revision;
use super::remember::missing;
use super::report::{Report, State, WaitingOn};
use super::rules::verdict;
use super::{Desired, Inventory, Plan, Policy, Template};

/// Says what to do now. `desired` is `None` while what is desired is unknown.
#[must_use]
pub fn plan<R: Revision>(
    policy: &Policy,
    desired: Option<&Desired<R>>,
    inventory: &Inventory<'_, R>,
    now: DateTime<Utc>,
) -> Plan<R> {
    let reading = read(policy, desired, inventory, now);
    let memory = remembered(&reading);
    let bounds = Bounds::of(&reading, &memory);
    let (_, overdue) = bounds.coming(&reading);
    let report = count(&reading);
    let plan = Plan {
        template: Template::Keep,
        steps: Vec::new(),
        missing: missing(&reading),
        budget: bounds.budget,
        failure_limit: bounds.budget,
        failing: reading.failing().len(),
        needs_proof: reading.cells.iter().any(|cell| cell.suspect),
        report: Report::default(),
        memory: inventory.memory.clone(),
        next: reading.until().into_iter().chain(overdue).min(),
    };
    let Some(desired) = desired else {
        let waiting_on = vec![WaitingOn::Decision(inventory.words.undecided)];
        return Plan { report: Report { state: State::Waiting, waiting_on, ..report }, memory, ..plan };
    };
    let context = Context::of(&reading, desired, bounds, memory, report);
    let said = verdict(&context);
    let failure_limit = limit(policy, desired, context.bounds.budget, &said.memory);
    let Context { report, template, next, .. } = context;
    // One that is not ours stays as it is; what the rules would make of ours holds its Pods back all the same.
    let template = if inventory.writes_template { template } else { Template::Keep };
    Plan {
        template,
        steps: said.steps,
        report: Report { state: said.state, waiting_on: said.waiting_on, finish: said.finish, ..report },
        memory: said.memory,
        failure_limit,
        next: [plan.next, next, said.next].into_iter().flatten().min(),
        ..plan
    }
}

/// How each selected place of the inventory is.
#[must_use]
pub fn looks<R: Revision>(
    policy: &Policy,
    desired: Option<&Desired<R>>,
    inventory: &Inventory<'_, R>,
    now: DateTime<Utc>,
) -> Vec<Look> {
    let looks = |cell: Cell<'_, R>| Look {
        name: cell.place.name.clone(),
        zone: cell.place.zone.map(str::to_owned),
        standing: cell.standing(),
        cause: cell.cause,
    };
    read(policy, desired, inventory, now).cells.into_iter().map(looks).collect()
}
