//! A Pod whose JVM may be meant: its containers as they run now, and what was done to them.
//!
//! Pure. Must not decide anything.

use std::collections::BTreeMap;
use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};
use kube::ResourceExt;

use super::marks::ANNOTATIONS;
use super::pool::Pool;
use super::run::{Asked, Joined, PREFIX, Run};
use crate::fleet::{created, time};
use crate::k8s::containers::{ContainerStatus, PodContainers, Security};
use crate::k8s::facts::is_silent;

/// A container that ran for so long and is started again did not crash in a loop; kubelets count alike.
const HEALTHY: TimeDelta = TimeDelta::minutes(10);
/// One that may crash in a loop is joined after so long, and twice as long with each container that joined it before.
const CRASHED: TimeDelta = TimeDelta::seconds(30);

/// A Pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    pub name: Arc<str>,
    pub uid: Arc<str>,
    pub resource_version: Box<str>,
    pub node: Arc<str>,
    pub labels: Arc<Labels>,
    pub created: DateTime<Utc>,
    /// It has ended, or is about to.
    pub is_ending: bool,
    /// Its containers ended, and neither its node ended it, such as by an eviction, nor is it being deleted.
    pub is_over: bool,
    /// Its node's kubelet has fallen silent: what it said last may be old.
    pub is_silent: bool,
    /// Since when it is not Ready, by its kubelet's word; also where it was so since the last run was asked for.
    pub unready_since: Option<DateTime<Utc>>,
    /// Its containers that run.
    pub instances: Box<[Instance]>,
    /// What joined it, ours alone, the oldest first.
    pub runs: Box<[Run]>,
    /// Containers of others whose names are like those of ours.
    pub taken: Box<[Box<str>]>,
    /// Annotations of our keys, by any writer.
    pub annotations: Arc<Labels>,
}

/// What many Pods have in common.
#[derive(Debug, Default)]
pub struct Pools {
    words: Pool<str>,
    labels: Pool<Labels>,
    shapes: Pool<Shape>,
    asked: Pool<Asked>,
}

/// Labels or annotations.
pub type Labels = BTreeMap<String, String>;

/// A container that runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Instance {
    pub shape: Arc<Shape>,
    /// Another one with each restart.
    pub id: Box<str>,
    pub restarts: i32,
    /// Nothing joins it before, in seconds since 1970: what was started again may end as soon as the one before did.
    pub settles_at: u32,
}

/// What a container is in each Pod of a workload.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Shape {
    pub name: Arc<str>,
    pub image: Arc<str>,
    /// Its user, as far as its Pod says so.
    pub security: Security,
}

impl Target {
    /// A Pod as its watch shows it; `None`: it could not be told from another.
    #[must_use]
    pub fn of(pod: &PodContainers, pools: &mut Pools) -> Option<Self> {
        let (spec, status) = (&pod.spec, &pod.status);
        let ready = status.conditions.iter().find(|condition| condition.type_ == "Ready");
        // A node that is lost gives no reason: that is no word of its kubelet's.
        let unready = ready.filter(|ready| ready.status != "True" && ready.reason.is_some());
        let status_of = |all: &'_ [ContainerStatus], name: &str| all.iter().position(|one| one.name == name);
        let mut instances = Vec::new();
        for container in &spec.containers {
            let Some(at) = status_of(&status.container_statuses, &container.name) else { continue };
            let now = &status.container_statuses[at];
            let (Some(_), Some(id)) = (&now.state.running, now.container_id.as_deref()) else { continue };
            let shape = Shape {
                name: container.name.as_str().into(),
                image: container.image.as_deref().unwrap_or_default().into(),
                security: security(container.security_context.as_ref(), spec.security_context.as_ref()),
            };
            instances.push(Instance {
                shape: pools.shapes.share(shape),
                id: without_scheme(id).into(),
                restarts: now.restart_count,
                settles_at: 0,
            });
        }
        // A container that is always started again has a JVM that should not end, whatever its exit code says.
        let may_be_done = matches!(spec.restart_policy.as_deref(), Some("Never" | "OnFailure"));
        let became = |name: &str, id: &str| {
            let is_it = |instance: &Instance| *instance.shape.name == *name && *instance.id == *id;
            match instances.iter().position(is_it).map(u8::try_from) {
                Some(Ok(at)) => Joined::Runs(at),
                _ => ended(&status.container_statuses, id, may_be_done).unwrap_or(Joined::Gone),
            }
        };
        let (mut runs, mut taken) = (Vec::new(), Vec::new());
        for joined in &spec.ephemeral_containers {
            let at = status_of(&status.ephemeral_container_statuses, &joined.name);
            let status = at.map(|at| &status.ephemeral_container_statuses[at]);
            match Run::of(joined, status, became, (&mut pools.words, &mut pools.asked)) {
                Some(run) => runs.push(run),
                None => taken.push(joined),
            }
        }
        for instance in &mut instances {
            let is_before =
                |run: &&Run| *run.asked.target == *instance.shape.name && !matches!(run.joined, Joined::Runs(_));
            let before = runs.iter().filter(is_before).count();
            let now =
                status_of(&status.container_statuses, &instance.shape.name).map(|at| &status.container_statuses[at]);
            let settles_at = now.and_then(|now| settles_at(now, before)).and_then(|at| at.timestamp().try_into().ok());
            instance.settles_at = settles_at.unwrap_or_default();
        }
        taken.extend(&spec.containers);
        taken.retain(|one| one.name.starts_with(PREFIX));
        // A merge leaves them in no order.
        runs.sort_by_key(Run::order_of_asking);
        let is_over = matches!(status.phase.as_deref(), Some("Succeeded" | "Failed"));
        Some(Self {
            name: pod.metadata.name.as_deref()?.into(),
            uid: pod.metadata.uid.as_deref()?.into(),
            resource_version: pod.metadata.resource_version.as_deref().unwrap_or_default().into(),
            node: pools.words.share(spec.node_name.as_deref().unwrap_or_default()),
            labels: pools.labels.share(pod.metadata.labels.clone().unwrap_or_default()),
            created: created(pod.metadata.creation_timestamp.as_ref()),
            is_ending: pod.metadata.deletion_timestamp.is_some() || is_over,
            is_over: is_over && status.reason.is_none() && pod.metadata.deletion_timestamp.is_none(),
            is_silent: is_silent(&status.conditions, status.container_statuses.iter().map(|one| one.ready)),
            unready_since: unready.and_then(|ready| ready.last_transition_time.as_deref().and_then(time)),
            instances: instances.into(),
            runs: runs.into(),
            taken: taken.into_iter().map(|one| one.name.as_str().into()).collect(),
            annotations: {
                let ours = pod.annotations().iter().filter(is_ours);
                pools.labels.share(ours.map(|(key, value)| (key.clone(), value.clone())).collect::<Labels>())
            },
        })
    }

    /// Whether it is the same except for its resourceVersion.
    #[must_use]
    pub fn is_like(&self, other: &Self) -> bool {
        Self { resource_version: other.resource_version.clone(), ..self.clone() } == *other
    }

    /// A container that runs.
    #[must_use]
    pub fn instance(&self, name: &str) -> Option<&Instance> {
        self.instances.iter().find(|instance| *instance.shape.name == *name)
    }

    /// The container that a run joined, if it still is the same one.
    #[must_use]
    pub fn instance_of(&self, run: &Run) -> Option<&Instance> {
        match run.joined {
            Joined::Runs(at) => self.instances.get(usize::from(at)),
            Joined::Ended { .. } | Joined::Gone => None,
        }
    }
}

/// When a container with this ID began and ended, if one of these statuses knows it.
fn ended(all: &[ContainerStatus], id: &str, may_be_done: bool) -> Option<Joined> {
    let ends = all.iter().flat_map(|now| [&now.state.terminated, &now.last_state.terminated]).flatten();
    let end =
        ends.into_iter().find(|end| end.container_id.as_deref().is_some_and(|known| without_scheme(known) == id))?;
    let (from, to) = (time(end.started_at.as_deref()?)?, time(end.finished_at.as_deref()?)?);
    Some(Joined::Ended { from, to, is_done: may_be_done && end.exit_code == Some(0) })
}

/// When a container that was started again is joined: once it has outlived the one before, or for longer each time that
/// one was joined in vain, as each leaves an entry in the Pod. `before`: how many joined its predecessors.
fn settles_at(now: &ContainerStatus, before: usize) -> Option<DateTime<Utc>> {
    let last = now.last_state.terminated.as_ref()?;
    let lived = time(last.finished_at.as_deref()?)? - time(last.started_at.as_deref()?)?;
    let began = time(now.state.running.as_ref()?.started_at.as_deref()?)?;
    let longest = CRASHED * 2_i32.saturating_pow(u32::try_from(before).unwrap_or(u32::MAX).min(20));
    (lived < HEALTHY).then(|| began + lived.min(longest).max(TimeDelta::zero()))
}

/// An ID, whichever runtime it is of.
fn without_scheme(id: &str) -> &str {
    id.rsplit_once("://").map_or(id, |(_, id)| id)
}

fn is_ours((key, _): &(&String, &String)) -> bool {
    ANNOTATIONS.contains(&key.as_str())
}

/// What a container says of itself, and for the rest its Pod.
fn security(own: Option<&Security>, pods: Option<&Security>) -> Security {
    let own = own.cloned().unwrap_or_default();
    Security {
        run_as_user: own.run_as_user.or_else(|| pods?.run_as_user),
        run_as_group: own.run_as_group.or_else(|| pods?.run_as_group),
        capabilities: own.capabilities,
    }
}
