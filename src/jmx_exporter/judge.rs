//! Judging Pods: what each one's JVM exports, what is to be done with it, and why not.
//!
//! Pure: what was done to a Pod is in its own spec and status. Must not choose a Pod to attach to.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use chrono::{DateTime, Utc};

use super::again::{SOON, again_at, may_begin, rewritten_again_at};
use super::export::Export;
use super::fleet::Inner;
use super::harm::harm_of;
use super::resolve::Resolved;
use super::run::{Came, Held, Refused, Run, Why};
use super::standing::{State, held, refused_for};
use super::target::{Instance, Target};
use crate::api::jmx_exporter::obstacle::Obstacle;
use crate::rollout::{Closed, Occupant, Place, Pod, Selection, Standing, Trouble};

/// So many containers of ours may join one container.
const RUNS: usize = 5;
/// And so many a Pod, however often its containers restart.
const RUNS_OF_POD: usize = 20;
/// Of a Pod whose kubelet has fallen silent.
const SILENT: &str = "the kubelet of its node does not report, and what it said last may be old";

/// The JVM of a selected Pod.
#[derive(Debug)]
pub struct Jvm {
    pub target: Arc<Target>,
    pub state: State,
    /// What it exports now, whatever it should.
    pub exports: Option<Export>,
    /// The container that another run would join.
    pub next: Option<Next>,
    /// When this may change without an event.
    pub until: Option<DateTime<Utc>>,
    pod: Arc<Pod<Export>>,
    busy: Option<Cow<'static, str>>,
}

/// A container that a run would join.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Next {
    pub container: Arc<str>,
    /// It exports already, and another configuration is brought.
    pub rewrites: bool,
}

/// What Pods are judged by.
pub struct Input<'j> {
    pub resolved: &'j Resolved,
    /// What JVMs should export; `None`: unknown.
    pub desired: Option<&'j Export>,
    /// Runs that no longer count against anything.
    pub forgiven: &'j BTreeSet<String>,
    /// Pods whose change the API server refused a moment ago, by UID.
    pub blocked: &'j HashMap<Arc<str>, String>,
    /// Our own image, which runs join with.
    pub image: &'j str,
    pub now: DateTime<Utc>,
}

/// How a run is named among all.
#[must_use]
pub fn id_of(target: &Target, run: &Run) -> String {
    format!("{}/{}", target.uid, run.name)
}

/// Judges the selected Pods.
#[must_use]
pub fn judge(fleet: &Inner, input: &Input<'_>) -> Vec<Jvm> {
    let of = |target| Judge { input, fleet, target };
    let running = fleet.selected(input.resolved).map(|target| of(target).jvm());
    // A Pod that ended of the load is heard, too.
    running.chain(fleet.ended(input.resolved).filter_map(|target| of(target).harmed())).collect()
}

impl Jvm {
    /// As the engine wants it.
    #[must_use]
    pub fn place(&self) -> Place<'_, Export> {
        let (selection, standing) = match &self.state {
            State::Starting => (Selection::NotSelected, Standing::Unknown),
            State::Exporting | State::Changing | State::Failed(Obstacle::ConfigRejected, _) => {
                (Selection::Selected, Standing::Current)
            }
            State::Waiting => (Selection::Selected, Standing::Outdated),
            State::Refused(_, why) | State::Failed(_, why) => {
                let closed = Closed { name: "refused", by: Some(why.clone()), keeps_pods: false, may_open: false };
                (Selection::Closed(closed), Standing::Unknown)
            }
        };
        // As of a place that joined long ago: a JVM that comes during a rollout has its turn in it.
        let occupant = Occupant { pod: &self.pod, standing };
        Place { selection, busy: self.busy.clone(), ..Place::plain(&self.target.name, Some(occupant)) }
    }

    /// What is counted of it, with its cause.
    #[must_use]
    pub fn obstacle(&self) -> Option<(Obstacle, &str)> {
        match &self.state {
            State::Refused(obstacle, why) | State::Failed(obstacle, why) => Some((*obstacle, why)),
            State::Changing => match &self.pod.trouble {
                Some(Trouble::Image(why)) => Some((Obstacle::HelperImage, why)),
                _ => None,
            },
            _ => None,
        }
    }

    /// The run that failed, by name, if one did.
    pub fn failed_runs(&self) -> impl Iterator<Item = String> + '_ {
        let has_failed = matches!(self.state, State::Failed(..));
        self.target.runs.iter().filter(move |_| has_failed).map(|run| id_of(&self.target, run))
    }
}

struct Judge<'j> {
    input: &'j Input<'j>,
    fleet: &'j Inner,
    target: &'j Arc<Target>,
}

impl Judge<'_> {
    fn jvm(&self) -> Jvm {
        let Input { resolved, desired, now, .. } = *self.input;
        let instances = self.instances();
        let exported = self.exported();
        let exports = exported.as_ref().map(|(export, _)| export.clone());
        let of = |state, pod| self.jvm_of(state, exports.clone(), pod);
        let is_another = |keeper: &&Arc<Resolved>| keeper.name != resolved.name;
        if let Some(keeper) = self.fleet.keeper(&resolved.namespace, self.target).filter(is_another) {
            let why = format!("PrometheusJmxExporter {} is older, selects it, too, and keeps it", keeper.name);
            return Jvm { exports: None, ..of(State::Refused(Obstacle::OtherObject, why), self.idle()) };
        }
        if let Some(why) = self.harm() {
            return of(State::Failed(Obstacle::Harmed, why), self.idle());
        }
        if let Some((run, until)) = self.at_work() {
            // Worked on, whatever its kubelet says or does not: a node that dies frees nothing.
            return Jvm { until: Some(until), busy: None, ..of(State::Changing, self.changing(run)) };
        }
        if instances.is_empty() {
            return of(State::Starting, self.idle());
        }
        let Some(desired) = desired else {
            let pod = exported.as_ref().map_or_else(|| self.idle(), |(export, at)| self.exporting(export, *at));
            let is_there = exported.is_some();
            return of(if is_there { State::Exporting } else { State::Waiting }, pod);
        };
        let Some((export, since)) = &exported else { return self.to_attach(&instances, desired, now) };
        let pod = self.exporting(export, *since);
        if export == desired {
            return of(State::Exporting, pod);
        }
        if export.port != desired.port {
            let why = format!(
                "it exports on port {}, and an exporter cannot move; delete the Pod to have it export on port {}",
                export.port, desired.port
            );
            return of(State::Refused(Obstacle::RestartNeeded, why), pod);
        }
        self.to_rewrite(desired, pod, exports)
    }

    /// One that ended, if a run did it harm and the Pod is this object's.
    fn harmed(&self) -> Option<Jvm> {
        let keeper = self.fleet.keeper(&self.input.resolved.namespace, self.target)?;
        let why = self.harm().filter(|_| keeper.name == self.input.resolved.name)?;
        Some(self.jvm_of(State::Failed(Obstacle::Harmed, why), None, self.idle()))
    }

    fn jvm_of(&self, mut state: State, exports: Option<Export>, pod: Pod<Export>) -> Jvm {
        let silent = self.target.is_silent.then_some(Cow::Borrowed(SILENT));
        if silent.is_some() && state == State::Waiting {
            state = State::Refused(Obstacle::KubeletSilent, format!("{SILENT}: node {}", self.target.node));
        }
        Jvm { target: self.target.clone(), state, exports, next: None, until: None, pod: Arc::new(pod), busy: silent }
    }

    /// The containers that may be meant.
    fn instances(&self) -> Vec<&Instance> {
        let is_meant = |instance: &&Instance| {
            self.input.resolved.container.as_deref().is_none_or(|container| *instance.shape.name == *container)
        };
        self.target.instances.iter().filter(is_meant).collect()
    }

    /// What its JVM exports, and since when.
    fn exported(&self) -> Option<(Export, DateTime<Utc>)> {
        let current = self.target.runs.iter().rev().filter(|run| self.target.instance_of(run).is_some());
        // A run that finds no JVM with a configuration of ours finds another than the one that it had.
        let is_gone = |run: &&Run| run.failure().is_some_and(|(_, one)| one.why == Why::Obstacle(Obstacle::NoJvm));
        // What a run that ended without a word put in force is unknown.
        let mut is_unknown = false;
        let exports = |run: &Run| {
            let has_ended = run.has_ended() || self.input.now >= run.ends_by();
            let is_silent = has_ended && run.failure().is_some_and(|(_, one)| one.why == Why::Silent);
            // One that its kubelet could not start put nothing in force.
            is_unknown |= is_silent && run.asked.rewrites && !matches!(run.came, Came::Awaited(Some(_)));
            run.exports()
        };
        let (export, at) = current.take_while(|run| !is_gone(run)).find_map(exports)?;
        Some((if is_unknown { Export { sha256: String::new(), ..export } } else { export }, at))
    }

    /// What a run did to the JVM, in words.
    fn harm(&self) -> Option<String> {
        let counts = |run: &&Run| !self.input.forgiven.contains(&id_of(self.target, run));
        self.target.runs.iter().rev().filter(counts).find_map(|run| harm_of(self.target, run))
    }

    /// A run that may still end with a result.
    fn at_work(&self) -> Option<(&Run, DateTime<Utc>)> {
        let until = |run: &Run| match &run.came {
            Came::Awaited(_) => run.ends_by(),
            // Its kubelet may say a moment later that the JVM's container ended, too.
            Came::Refused(times, refused) if refused.why == Why::Silent => (times.to + SOON).min(run.ends_by()),
            _ => DateTime::<Utc>::MIN_UTC,
        };
        let all = self.target.runs.iter().rev().map(|run| (run, until(run)));
        all.into_iter().find(|(_, until)| self.input.now < *until)
    }

    /// A JVM that exports another configuration.
    fn to_rewrite(&self, desired: &Export, pod: Pod<Export>, exports: Option<Export>) -> Jvm {
        let last = self.target.runs.iter().rev().find(|run| self.target.instance_of(run).is_some());
        let Some((run, instance)) = last.and_then(|run| Some((run, self.target.instance_of(run)?))) else {
            return self.jvm_of(State::Waiting, exports, pod);
        };
        if let Some(state) = held(run).filter(|_| may_begin(run, self.input.image, self.input.now)) {
            return self.jvm_of(state, exports, pod);
        }
        if let Some((times, refused)) = run.failure()
            && run.asked.order == *desired
        {
            let is_forgiven = self.input.forgiven.contains(&id_of(self.target, run));
            if refused.why == Why::NotTaken && !is_forgiven {
                let why = refused.message.clone();
                let failed = self.failed(desired, run.asked_at(), why.clone());
                return self.jvm_of(State::Failed(Obstacle::ConfigRejected, why), exports, failed);
            }
            let until = rewritten_again_at(refused.why, times.to, self.runs_in(instance), self.input.now);
            if !is_forgiven && until.is_none_or(|at| at > self.input.now) {
                return Jvm { until, ..self.jvm_of(refused_for(&refused), exports, pod) };
            }
        }
        self.joins(instance, true, exports, pod)
    }

    /// A JVM that exports nothing.
    fn to_attach(&self, instances: &[&Instance], desired: &Export, now: DateTime<Utc>) -> Jvm {
        // A container without a JVM lets the next one have its turn.
        let mut none: Option<(DateTime<Utc>, &Instance, State)> = None;
        for instance in instances {
            let last = self.target.runs.iter().rev().find(|run| self.is_in(run, instance));
            if let Some(state) = last.filter(|run| may_begin(run, self.input.image, now)).and_then(held) {
                return self.jvm_of(state, None, self.idle());
            }
            let Some((run, (times, refused))) = last.and_then(|run| Some((run, run.failure()?))) else {
                return self.joins(instance, false, None, self.idle());
            };
            let is_void = match refused.why {
                Why::Obstacle(Obstacle::PortInUse) => run.asked.order.port != desired.port,
                Why::Obstacle(Obstacle::LowMemory) => {
                    *run.asked.min_free_memory != *self.input.resolved.min_free_memory
                }
                Why::Obstacle(Obstacle::NotReachable | Obstacle::NoJvm) => self.is_another_identity(instance, &refused),
                // An edit forgave it: the container started another JVM, in which nothing was loaded yet.
                Why::Obstacle(Obstacle::Harmed) => true,
                _ => false,
            };
            let state = refused_for(&refused);
            let at = if is_void { Some(now) } else { again_at(refused.why, times.to, self.runs_in(instance), now) };
            if refused.why == Why::Obstacle(Obstacle::NoJvm) {
                let at = at.unwrap_or(DateTime::<Utc>::MAX_UTC);
                if none.as_ref().is_none_or(|(first, ..)| at < *first) {
                    none = Some((at, instance, state));
                }
                continue;
            }
            return match at {
                Some(at) if at <= now => self.joins(instance, false, None, self.idle()),
                until => Jvm { until, ..self.jvm_of(state, None, self.idle()) },
            };
        }
        match none {
            Some((at, instance, _)) if at <= now => self.joins(instance, false, None, self.idle()),
            Some((at, _, state)) => Jvm { until: Some(at), ..self.jvm_of(state, None, self.idle()) },
            None => self.jvm_of(State::Starting, None, self.idle()),
        }
    }

    /// One that a container should join, unless too many have, or the API server refused it a moment ago.
    fn joins(&self, instance: &Instance, rewrites: bool, exports: Option<Export>, pod: Pod<Export>) -> Jvm {
        let runs = self.runs_in(instance);
        if runs >= RUNS || self.target.runs.len() >= RUNS_OF_POD {
            let last = self.target.runs.iter().rev().find_map(|run| Some(run.failure()?.1.message.clone()));
            let last = last.map(|last| format!("; the last said: {last}")).unwrap_or_default();
            let why = format!(
                "{runs} containers joined container {}, and {} the Pod{last}; delete the Pod to have it tried again",
                instance.shape.name,
                self.target.runs.len()
            );
            return self.jvm_of(State::Refused(Obstacle::TooManyRuns, why), exports, pod);
        }
        let settles_at = DateTime::from_timestamp(instance.settles_at.into(), 0).unwrap_or_default();
        if settles_at > self.input.now {
            let why = format!(
                "container {} was started again soon after it had been started; it is joined at {} if it still runs",
                instance.shape.name,
                settles_at.format("%TZ")
            );
            let state = State::Refused(Obstacle::Restarting, why);
            return Jvm { until: Some(settles_at), ..self.jvm_of(state, exports, pod) };
        }
        if let Some(why) = self.input.blocked.get(&self.target.uid) {
            return self.jvm_of(State::Refused(Obstacle::NotAdmitted, why.clone()), exports, pod);
        }
        let next = Some(Next { container: instance.shape.name.clone(), rewrites });
        Jvm { next, ..self.jvm_of(State::Waiting, exports, pod) }
    }

    /// Whether a run joined a container as it is now.
    fn is_in(&self, run: &Run, instance: &Instance) -> bool {
        self.target.instance_of(run).is_some_and(|joined| std::ptr::eq(joined, instance))
    }

    /// Whether the next run would have another user than the one that could not reach the JVM, or see it.
    fn is_another_identity(&self, instance: &Instance, refused: &Refused) -> bool {
        self.runs_in(instance) == 1 && refused.identity.is_some() && instance.shape.security.run_as_user.is_none()
    }

    /// How many runs joined a container as it is now.
    fn runs_in(&self, instance: &Instance) -> usize {
        self.target.runs.iter().filter(|run| self.is_in(run, instance)).count()
    }

    fn pod(&self) -> Pod<Export> {
        Pod {
            // What joins it makes it another.
            id: format!("{}/{}", self.target.uid, self.target.runs.len()).into(),
            resource_version: (&*self.target.resource_version).into(),
            created: self.target.created,
            ..Pod::named(&self.target.name, &self.target.node)
        }
    }

    /// One that exports nothing, and does its own work.
    fn idle(&self) -> Pod<Export> {
        Pod { ready_since: Some(self.target.created), ..self.pod() }
    }

    fn exporting(&self, export: &Export, since: DateTime<Utc>) -> Pod<Export> {
        let last = self.target.runs.last().map_or(self.target.created, Run::asked_at);
        let since = since.min(self.input.now);
        Pod { revision: Some(export.clone()), created: last, ready_since: Some(since.max(last)), ..self.pod() }
    }

    fn changing(&self, run: &Run) -> Pod<Export> {
        let trouble = match &run.came {
            Came::Awaited(Some(Held { is_image: true, why })) => Trouble::Image(why.clone()),
            Came::Awaited(Some(Held { why, .. })) => Trouble::Config(why.clone()),
            Came::Awaited(None) => Trouble::Config(format!("container {} of the Pod has not ended yet", run.name)),
            _ => Trouble::Config(format!("container {} of the Pod ended without a result", run.name)),
        };
        let created = run.asked_at();
        Pod { revision: Some(run.asked.order.clone()), created, trouble: Some(trouble), ..self.pod() }
    }

    fn failed(&self, order: &Export, at: DateTime<Utc>, why: String) -> Pod<Export> {
        Pod { revision: Some(order.clone()), created: at, trouble: Some(Trouble::Crash(why)), ..self.pod() }
    }
}
