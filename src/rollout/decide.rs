//! The decision: reads the fleet, updates the memory, asks the rules.
//!
//! Must not hold a rule of its own, nor leave one out: the public functions decide by all of them.

use chrono::{DateTime, Utc};

use super::bucket::read;
use super::cell::{Cell, Look};
use super::context::{Context, remembered};
use super::count::count;
use super::failure::limit;
use super::guard::Guard;
use super::ledger::Ledger;
use super::pace::Bounds;
use super::place::Revision;
use super::remember::missing;
use super::report::{Report, State, WaitingOn};
use super::rules::verdict;
use super::{Desired, Inventory, Plan, Policy, Rules, Template};

/// A plan with what it is carried out by.
#[derive(Debug)]
pub struct Decision<R> {
    pub plan: Plan<R>,
    /// What its steps are bounded by.
    pub guard: Guard,
    /// What is in flight.
    pub ledger: Ledger,
}

/// Plans where places have names. `ledger`: what was in flight at the last plan; of the inventory's own words about
/// that nothing is read.
#[must_use]
pub fn decide<R: Revision>(
    policy: &Policy,
    desired: Option<&Desired<R>>,
    inventory: &Inventory<'_, R>,
    ledger: &Ledger,
    now: DateTime<Utc>,
) -> Decision<R> {
    let mut ledger = ledger.settled(policy, inventory.places, now);
    let (deleted, lost, freed) = (ledger.deleted(), ledger.lost(), ledger.freed());
    let inventory = Inventory { deleted: &deleted, lost: &lost, freed: &freed, ..inventory.clone() };
    let plan = plan(policy, desired, &inventory, now);
    let next = plan.next.into_iter().chain(ledger.believed_until()).min();
    let plan = Plan { next, ..plan };
    ledger.inherit(&plan.missing);
    Decision { plan, guard: Guard::count(policy, inventory.places, now), ledger }
}

/// Says what to do now. `desired` is `None` while what is desired is unknown.
#[must_use]
pub fn plan<R: Revision>(
    policy: &Policy,
    desired: Option<&Desired<R>>,
    inventory: &Inventory<'_, R>,
    now: DateTime<Utc>,
) -> Plan<R> {
    plan_by(Rules::ALL, policy, desired, inventory, now)
}

/// Says it by these rules.
pub(super) fn plan_by<R: Revision>(
    rules: &Rules<R>,
    policy: &Policy,
    desired: Option<&Desired<R>>,
    inventory: &Inventory<'_, R>,
    now: DateTime<Utc>,
) -> Plan<R> {
    let reading = read(rules, policy, desired, inventory, now);
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
    let failure_limit = limit(&reading, desired, context.bounds.budget, &said.memory);
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
    read(Rules::ALL, policy, desired, inventory, now).cells.into_iter().map(looks).collect()
}
