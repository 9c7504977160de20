//! The rollout engine: handed what is, it says which template the workload should have, which Pods to replace now, and
//! what all others wait for.
//!
//! A pure function of its arguments, called on every change; it remembers nothing. What must outlive a call is
//! [`Memory`], which the caller keeps in the cluster. Must not know a kind, a version, a host, a vendor, HTTP, a
//! client, a clock or a log.
//!
//! ```text
//! Policy, Inventory, now ─▶ bucket ─▶ Reading ─▶ context (memory after it) ─▶ rules ─▶ Plan { template, steps, … }
//! Policy, places ──▶ guard: the last check before a Pod is deleted      Ledger: what was replaced and is not back
//! ```

mod away;
mod back;
mod begin;
mod bucket;
pub mod calendar;
pub mod canary;
mod cause;
mod cell;
mod context;
mod count;
mod decide;
mod failure;
mod forecast;
pub mod guard;
pub mod ledger;
mod lenient;
mod memory;
mod outage;
mod pace;
mod place;
mod reading;
mod remember;
mod report;
mod rules;
mod share;
mod stall;
#[cfg(test)]
mod tests;
mod verdict;
mod waiting;
mod zones;

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, LazyLock};

use chrono::{DateTime, TimeDelta, Utc};

pub use calendar::Calendar;
pub use canary::{Canary, Who};
pub use cause::{Bucket, Cause, Start};
pub use cell::Look;
pub use decide::{Decision, decide, looks, plan};
pub use failure::is_about;
pub use memory::{Back, BackPhase, Failure, Memory, Outage, Phase, Proof, Stall, StallPhase, Touched, Withdrawn};
pub use place::{Closed, Loss, Occupant, Place, Pod, Revision, Selection, Standing, Trouble, Workload};
pub use report::{Example, Nodes, Report, State, WaitingOn, Without};
pub use share::Share;

/// A calendar is looked at again within this: the clock may be set.
const LOOK_AGAIN: TimeDelta = TimeDelta::minutes(10);

/// The rules that answer one question, each with its name, in the order in which they are asked.
type Rows<F> = &'static [(&'static str, F)];

/// The rules, a table for each question. There is one value of it, [`Rules::ALL`] in `rules`.
#[expect(clippy::type_complexity, reason = "the type of a table is the question that its rules answer")]
struct Rules<R: 'static> {
    /// Whether this rollout brought what a place has, and when: the first that says so.
    heard: Rows<fn(&cell::Judge<'_, '_, R>, &Place<'_, R>) -> Option<(cell::Heard, DateTime<Utc>)>>,
    /// Whether an agent is to be replaced and can be: all agree.
    open: Rows<fn(&cell::Cell<'_, R>) -> bool>,
    /// Whether it may be replaced without a cost: all agree.
    broken: Rows<fn(Bucket) -> bool>,
    /// Whether a place without an available agent takes from the budget: any.
    counts: Rows<fn(&cell::Judge<'_, '_, R>, &cell::Cell<'_, R>, Bucket) -> bool>,
    /// What a place says of the desired revision: each in turn.
    judged: Rows<fn(&cell::Judge<'_, '_, R>, &mut cell::Cell<'_, R>)>,
    /// Whether it says that this one has failed: the first that knows.
    says: Rows<fn(&cell::Judge<'_, '_, R>, &cell::Cell<'_, R>, Bucket, &verdict::Late) -> Option<verdict::Says>>,
    /// What is taken back of that, once all places have said it: each in turn.
    excused: Rows<fn(&mut [cell::Cell<'_, R>], &Policy, DateTime<Utc>)>,
    /// Whether no running agent may be replaced: the first that says so.
    mass_outage: Rows<fn(&reading::Reading<'_, '_, R>) -> Option<reading::MassOutage>>,
    /// Why nothing may be replaced: the first that says so.
    holds: Rows<fn(&Policy, DateTime<Utc>) -> Option<(State, WaitingOn)>>,
    /// Whether a failure is withdrawn: any.
    lifted: Rows<fn(&reading::Reading<'_, '_, R>, &Memory<R>) -> bool>,
    /// Whether what is desired must prove itself first: any.
    unproven: Rows<fn(&reading::Reading<'_, '_, R>, &Desired<R>, &Memory<R>) -> bool>,
    /// Whether it has failed, whatever its agents do: any.
    rejected: Rows<fn(&Policy) -> bool>,
    /// Whether it has failed, by how many do and how many may: any.
    fails: Rows<fn(&reading::Reading<'_, '_, R>, usize, usize) -> bool>,
    /// Whether one place is tried while external trouble lasts: any.
    tries: Rows<fn(&stall::Stalled) -> bool>,
    /// Whether it has proven itself, by since when all canaries are available: all agree.
    proof: Rows<fn(&reading::Reading<'_, '_, R>, DateTime<Utc>) -> bool>,
    /// When fewer failures than allowed are one: the first that says so.
    standstill: Rows<fn(&reading::Reading<'_, '_, R>, &pace::Bounds<'_>) -> Option<DateTime<Utc>>>,
    /// Which template the workload should have: the first that says it; otherwise the desired one.
    template: Rows<fn(&context::Context<'_, '_, '_, R>) -> Option<Template>>,
    /// What is done: the first that says it; otherwise agents are replaced.
    verdict: Rows<fn(&context::Context<'_, '_, '_, R>) -> Option<rules::Verdict<R>>>,
    /// Until when no running agent is rolled back: the first that says so.
    patience: Rows<fn(&reading::Reading<'_, '_, R>, &Failure<R>) -> Option<DateTime<Utc>>>,
    /// How far a way back is: the first that says so; otherwise all go.
    way_back: Rows<back::HowFar<R>>,
    /// Which zones have their turn, and how many of each may go: each takes away.
    zones: Rows<fn(&reading::Reading<'_, '_, R>, &mut zones::Zones<'_, '_, '_, R>)>,
    /// Which go now: each takes away.
    pace: Rows<fn(&pace::Turn<'_, '_>, &mut pace::Chosen<'_, '_, R>)>,
}

/// The target state of the fleet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Desired<R> {
    /// The revision every Pod should have.
    pub revision: R,
    /// Whether the user demands it even if it failed before.
    pub insists: bool,
}

/// How fast, and whether at all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// How many selected places may be without an available Pod because of us.
    pub budget: Share,
    /// How long a Pod must be Ready to count as available.
    pub min_ready: TimeDelta,
    /// Within which time a Pod must become available.
    pub wait_ready: TimeDelta,
    /// How many places of a zone may be without an available Pod because of us.
    pub per_zone: Option<Share>,
    /// In which order zones are taken.
    pub order: Order,
    /// Which places go first.
    pub canary: Option<Canary>,
    /// How many places must fail before the rollout is stopped; `None`: one while there are
    /// canaries, then as many as the budget.
    pub max_failures: Option<usize>,
    /// Whether agents of a revision that failed are replaced with the last good one.
    pub rolls_back: bool,
    /// When anything may be replaced.
    pub calendar: Calendar,
    /// Why nothing may be replaced.
    pub hold: Option<Hold>,
    /// What a person said of the desired revision.
    pub word: Option<Word>,
}

/// What a person said of the desired revision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Word {
    /// Its canaries have soaked enough.
    Promoted,
    /// It has failed.
    Rejected,
}

impl Word {
    /// What was said of what is desired, by what is promoted and rejected.
    #[must_use]
    pub fn of<T: PartialEq>(desired: &T, promoted: Option<&T>, rejected: Option<&T>) -> Option<Self> {
        if rejected == Some(desired) {
            Some(Self::Rejected)
        } else {
            (promoted == Some(desired)).then_some(Self::Promoted)
        }
    }
}

impl Policy {
    /// At any time, without canaries or a hold, zones alike.
    #[must_use]
    pub fn plain(budget: Share, wait_ready: TimeDelta) -> Self {
        Self {
            budget,
            min_ready: TimeDelta::zero(),
            wait_ready,
            per_zone: None,
            order: Order::default(),
            canary: None,
            max_failures: None,
            rolls_back: false,
            calendar: Calendar::default(),
            hold: None,
            word: None,
        }
    }
}

/// In which order zones are taken.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Order {
    /// All alike.
    #[default]
    Spread,
    /// One after the other, by name.
    ByZone,
}

/// Why nothing may be replaced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hold {
    /// What the rollout is meanwhile.
    pub state: State,
    /// In words.
    pub why: Cow<'static, str>,
}

/// The source that Pods download from when they start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// They download from none.
    NotNeeded,
    /// They download, and whether it is there cannot be asked.
    Unasked,
    /// This process has no answer yet: nothing is replaced before there is one, and no outage is known either.
    Awaited,
    /// It answered well at this time, the last time that it was asked.
    Answers(DateTime<Utc>),
    /// It is unreachable, or refuses.
    Away,
}

/// What a kind calls what it waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Words {
    /// While no revision is desired.
    pub undecided: &'static str,
    /// Who says what Pods are that may have updated themselves.
    pub authority: &'static str,
    /// What one place is called.
    pub place: &'static str,
    /// What many are called.
    pub places: &'static str,
    /// What a place is that takes from the budget.
    pub lacking: &'static str,
    /// What failed where no other release did.
    pub template: &'static str,
    /// What closes a place while its Pod is being replaced.
    pub closes: &'static str,
}

/// All that a decision needs.
#[derive(Debug, Clone)]
pub struct Inventory<'a, R> {
    /// Where agents belong, and the Pods there.
    pub places: &'a [Place<'a, R>],
    /// The workloads whose replicas the places are; none: each place has a name of its own, and all share the policy's
    /// budget.
    pub workloads: &'a [Workload],
    /// The revision of the workload's template; `None` without a workload.
    pub template: Option<&'a R>,
    /// Whether that template is ours to write.
    pub writes_template: bool,
    /// Whether the workload's controller has seen that template.
    pub settled: bool,
    /// Ids of Pods that we deleted and that the watch still shows.
    pub deleted: &'a HashSet<Arc<str>>,
    /// Places that lost an available agent by us and have none yet, as far as this process knows, with the time of it.
    pub lost: &'a HashMap<Arc<str>, DateTime<Utc>>,
    /// Places that lost a broken agent by us and have no Pod yet, as far as this process knows.
    pub freed: &'a HashSet<Arc<str>>,
    /// Since when this process sees places without any Pod, or workloads with too few of them.
    pub missing: &'a HashMap<Arc<str>, DateTime<Utc>>,
    /// Since when this process decides: it does not know what was done earlier.
    pub deciding_since: DateTime<Utc>,
    /// Since when the API server has answered without a break: no deadline runs out while it is silent.
    pub in_contact_since: DateTime<Utc>,
    /// The source that Pods download from.
    pub source: Source,
    /// Why the API server refuses new Pods, if it does.
    pub refused: Option<&'a str>,
    /// The kind's words.
    pub words: Words,
    /// What outlived the last call.
    pub memory: &'a Memory<R>,
}

static NO_NAMES: LazyLock<HashSet<Arc<str>>> = LazyLock::new(HashSet::new);
static NO_TIMES: LazyLock<HashMap<Arc<str>, DateTime<Utc>>> = LazyLock::new(HashMap::new);

impl<'a, R> Inventory<'a, R> {
    /// Places with names, of a template that its controller has seen; nothing is in flight, missing or refused.
    /// `since`: since when this process decides.
    #[must_use]
    pub fn plain(places: &'a [Place<'a, R>], words: Words, memory: &'a Memory<R>, since: DateTime<Utc>) -> Self {
        Self {
            places,
            workloads: &[],
            template: None,
            writes_template: true,
            settled: true,
            deleted: &NO_NAMES,
            lost: &NO_TIMES,
            freed: &NO_NAMES,
            missing: &NO_TIMES,
            deciding_since: since,
            in_contact_since: since,
            source: Source::NotNeeded,
            refused: None,
            words,
            memory,
        }
    }
}

/// Which template the workload should have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Template {
    /// The one it has.
    Keep,
    /// The desired one.
    Advance,
    /// The last good one.
    GoBack,
}

/// One Pod to replace now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step<R> {
    pub place: Arc<str>,
    pub pod: Arc<Pod<R>>,
    /// Whether it takes from the budget: an available Pod does, a broken one does not.
    pub costs: bool,
}

/// What to do now, and why nothing else.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan<R> {
    pub template: Template,
    /// Pods to replace, in order.
    pub steps: Vec<Step<R>>,
    /// Places that lack an agent because of us, as far as the cluster shows it, and that the inventory did not know of:
    /// to be noted in the ledger.
    pub missing: Vec<(Arc<str>, DateTime<Utc>)>,
    /// How many Pods may be unavailable because of us.
    pub budget: usize,
    /// So many failing places stop the rollout at the latest,
    pub failure_limit: usize,
    /// and so many there are.
    pub failing: usize,
    /// Whether a fresh check of the source is needed.
    pub needs_proof: bool,
    /// What everything is waiting for.
    pub report: Report,
    /// What to remember.
    pub memory: Memory<R>,
    /// When to look again if nothing happens before.
    pub next: Option<DateTime<Utc>>,
}
