//! Verbs that write: each prints the kubectl command that does the same, says what would be replaced, and sends one
//! merge patch of the object that it read.
//!
//! Writes only through `kernel`. Must not decide what an edit leads to: that is the operator's own plan.

use std::io::{IsTerminal, Write as _};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use super::earlier::{earlier, is_going_back};
use super::managed::Managed;
use super::object::{Object, api, object};
use super::paint::note;
use super::planned::planned;
use super::{Cx, WELL, in_quotes};
use crate::api::condition::timestamp;
use crate::api::name::Version;
use crate::api::nearest::nearest;
use crate::api::patch::merged;
use crate::cli::asked::Subject;
use crate::cli::plan::previews;
use crate::cli::read::{Edited, Reader};
use crate::k8s::source::source;
use crate::kernel::apply::merge;
use crate::kernel::{self, Reached};

/// Owns what a person changes by it.
pub(super) const MANAGER: &str = "kubectl-oneagent";
/// An object that others write at the same time is read again so often.
const TRIES: usize = 5;
/// The operator takes no longer to look at an edit.
const OBSERVED: Duration = Duration::from_secs(60);

/// How a verb writes.
#[derive(Debug, clap::Args)]
pub(super) struct How {
    /// Print the kubectl command and what it would replace, and write nothing.
    #[arg(long)]
    pub(super) dry_run: bool,
    /// Do not ask for confirmation, although Pods are replaced.
    #[arg(short, long)]
    yes: bool,
}

/// One object.
#[derive(Debug, clap::Args)]
pub(super) struct One {
    /// Name of an object.
    name: String,
    #[command(flatten)]
    how: How,
}

/// One object, or all.
#[derive(Debug, clap::Args)]
pub(super) struct Target {
    /// Name of an object.
    #[arg(required_unless_present = "all", conflicts_with = "all")]
    name: Option<String>,
    /// Every object of the operator, by means of its stop ConfigMap.
    #[arg(long)]
    pub(super) all: bool,
    #[command(flatten)]
    pub(super) how: How,
}

/// What to try again.
#[derive(Debug, clap::Args)]
pub(super) struct Again {
    /// Name of an object.
    name: String,
    /// The version, or the hash of the revision. Default: the one that failed last.
    version: Option<String>,
    #[command(flatten)]
    how: How,
}

/// What to stay at.
#[derive(Debug, clap::Args)]
pub(super) struct Pin {
    /// Name of a OneAgent.
    name: String,
    /// All four parts, such as 1.301.72.20250601-101010.
    version: String,
    /// Allow a version that is older than the running one. Dynatrace does not support downgrades.
    #[arg(long)]
    allow_downgrade: bool,
    #[command(flatten)]
    how: How,
}

/// What is written, one after the other; in between the operator looks at it.
type Patches = Vec<Value>;

pub(super) async fn pause(cx: &Cx, target: &Target, is_pause: bool) -> Result<u8, String> {
    let name = target.name.as_deref().unwrap_or_default();
    let patch = |object: &Object| {
        let is_paused = object.spec()["rollout"]["paused"] == true;
        let value = if is_pause { json!(true) } else { Value::Null };
        Ok(if is_paused == is_pause { Vec::new() } else { vec![rollout("paused", value)] })
    };
    write(cx, name, &target.how, patch).await
}

pub(super) async fn retry(cx: &Cx, again: &Again) -> Result<u8, String> {
    let now = timestamp(cx.clock.now());
    let patch = |object: &Object| {
        let what = match (&again.version, object.kind) {
            (Some(version), Managed::Oneagent) => known(object, version)?,
            // Of hashes the operator knows more than the status says.
            (Some(version), _) => version.clone(),
            // Any text does, if it is another one.
            (None, Managed::Configwatcher) => now.clone(),
            (None, _) => failed(object)?,
        };
        let named = rollout("retry", what.clone());
        // Once for each time that it is named: an existing one is removed first.
        let is_named = object.spec()["rollout"]["retry"] == json!(what);
        Ok(if is_named { vec![rollout("retry", Value::Null), named] } else { vec![named] })
    };
    write(cx, &again.name, &again.how, patch).await
}

/// A version that the object knows: another one is most likely mistyped.
fn known(object: &Object, version: &str) -> Result<String, String> {
    let rollout = object.rollout();
    let failure = rollout.failure.and_then(|failure| failure.version);
    let past = rollout.history.into_iter().flat_map(|past| [past.to, past.from]);
    let rejected = object.status.iter().flat_map(|status| status.rejected_versions.clone());
    let spec = object.spec();
    let named = [&spec["update"]["version"], &spec["rollout"]["retry"]].map(|field| field.as_str().map(str::to_owned));
    let all = [failure].into_iter().chain(past).chain(named).flatten().chain(rejected);
    let mut all: Vec<String> = all.chain(object.to().map(str::to_owned)).filter(|name| !name.is_empty()).collect();
    all.sort_unstable();
    all.dedup();
    if all.iter().any(|known| known == version) {
        return Ok(version.to_owned());
    }
    let kind = object.kind.revision();
    Err(format!("{} knows no {kind} {version}{}: name one that failed", object.who(), nearest(version, &all)))
}

/// What failed last.
fn failed(object: &Object) -> Result<String, String> {
    let failure = object.rollout().failure;
    // A version that a newer one has replaced since is not tried again, whatever is written.
    let desired = object.to().and_then(|to| to.parse::<Version>().ok());
    let may_come = |name: &String| {
        let version = name.parse::<Version>().ok();
        version.is_none_or(|version| desired.is_none_or(|desired| version >= desired))
    };
    let of_failure = failure.and_then(|failure| {
        let hash = Some(failure.hash).filter(|_| object.kind == Managed::Daemonsetrollout);
        failure.version.or(hash).filter(|name| !name.is_empty()).filter(&may_come)
    });
    let rejected = || {
        let mut rejected = object.status.iter().flat_map(|status| &status.rejected_versions);
        rejected.rfind(|name| may_come(name)).cloned()
    };
    of_failure.or_else(rejected).ok_or_else(|| {
        format!("nothing of {} has failed: name a {} to try it again", object.who(), object.kind.revision())
    })
}

pub(super) async fn pin(cx: &Cx, pin: &Pin) -> Result<u8, String> {
    let such = "major.minor.revision.YYYYMMDD-HHMMSS, such as 1.301.72.20250601-101010";
    let version: Version = pin.version.parse().map_err(|_| format!("{} is no version: write {such}", pin.version))?;
    let patch = |object: &Object| {
        versions_only(object)?;
        let may_be_older = pin.allow_downgrade || object.spec()["update"]["allowDowngrade"] == true;
        let desired = object.to().and_then(|to| to.parse::<Version>().ok());
        if let Some(newer) = desired.filter(|desired| *desired > version && !may_be_older) {
            let helps = "add --allow-downgrade, or use rollback; the vendor does not support downgrades";
            return Err(format!("{version} is older than {newer}, which is desired: {helps}"));
        }
        let mut update = json!({ "version": pin.version });
        if pin.allow_downgrade {
            update["allowDowngrade"] = json!(true);
        }
        let is_there = |(key, value): (&String, &Value)| object.spec()["update"][key] == *value;
        let is_same = update.as_object().is_some_and(|update| update.iter().all(is_there));
        Ok(if is_same { Vec::new() } else { vec![json!({ "spec": { "update": update } })] })
    };
    write(cx, &pin.name, &pin.how, patch).await
}

pub(super) async fn unpin(cx: &Cx, one: &One) -> Result<u8, String> {
    let patch = |object: &Object| {
        versions_only(object)?;
        let update = &object.spec()["update"];
        let there = ["version", "allowDowngrade"].iter().filter(|key| !update[**key].is_null());
        let none: serde_json::Map<String, Value> = there.map(|key| ((*key).to_owned(), Value::Null)).collect();
        Ok(if none.is_empty() { Vec::new() } else { vec![json!({ "spec": { "update": none } })] })
    };
    write(cx, &one.name, &one.how, patch).await
}

pub(super) async fn rollback(cx: &Cx, one: &One) -> Result<u8, String> {
    let patch = |object: &Object| {
        versions_only(object)?;
        if is_going_back(object) {
            return Ok(Vec::new());
        }
        let version = earlier(object)?;
        let unpin = format!("kubectl oneagent -n {} unpin {}", object.namespace(), object.name());
        note(&format!("note: Dynatrace does not support downgrades; to follow the newest version again: {unpin}"));
        let update = json!({ "version": version, "allowDowngrade": true });
        Ok(vec![json!({ "spec": { "update": update } })])
    };
    write(cx, &one.name, &one.how, patch).await
}

/// Only a OneAgent has a version.
fn versions_only(object: &Object) -> Result<(), String> {
    match object.kind {
        Managed::Oneagent => Ok(()),
        Managed::Daemonsetrollout => {
            let set = object.spec()["daemonSet"].as_str().unwrap_or_default();
            let undo = format!("kubectl -n {} rollout undo daemonset/{set}", object.namespace());
            Err(format!("{} has no version: revert its DaemonSet where it is deployed, or with: {undo}", object.who()))
        }
        Managed::Configwatcher => Err(format!("{} has no version: change its ConfigMap back", object.who())),
    }
}

fn rollout(key: &str, value: impl Into<Value>) -> Value {
    json!({ "spec": { "rollout": { key: value.into() } } })
}

/// Carries a verb out.
async fn write(
    cx: &Cx,
    name: &str,
    how: &How,
    make: impl Fn(&Object) -> Result<Patches, String>,
) -> Result<u8, String> {
    let reached = cx.reach().await?;
    let mut object = object(cx, &reached, name).await?;
    let patches = make(&object)?;
    if patches.is_empty() {
        say!("{} is so already: nothing to do", object.who());
        return Ok(WELL);
    }
    commands(&object, &patches);
    if let Some(source) = source(&object.whole.metadata) {
        note(&format!("note: {source} manages {} and may revert this: change it there, too", object.who()));
    }
    let would = consequence(cx, &reached, (&object, &patches)).await?;
    if how.dry_run {
        return Ok(WELL);
    }
    if let Some(would) = would
        && !asked(&would, how)?
    {
        say!("nothing was changed");
        return Ok(WELL);
    }
    for part in 0..patches.len() {
        if part > 0 {
            object = observed(&reached, object).await?;
        }
        object = send(&reached, object, part, &make).await?;
    }
    say!("{} was changed", object.who());
    Ok(WELL)
}

/// What does the same.
fn commands(object: &Object, patches: &[Value]) {
    let (namespace, name) = (object.namespace(), object.name());
    let typed = object.kind.typed();
    let first = object.whole.metadata.generation.unwrap_or_default();
    for (generation, patch) in (first..).zip(patches) {
        if generation > first {
            let seen = format!("--for=jsonpath='{{.status.observedGeneration}}'={generation}");
            say!("kubectl -n {namespace} wait {typed}/{name} {seen}");
        }
        say!("kubectl -n {namespace} patch {typed} {name} --type=merge -p {}", in_quotes(&patch.to_string()));
    }
}

/// Shows what would be replaced; says what a person must agree to, if anything.
async fn consequence(
    cx: &Cx,
    reached: &Reached,
    (object, patches): (&Object, &[Value]),
) -> Result<Option<String>, String> {
    let is_pause = patches == [rollout("paused", true)];
    if is_pause {
        return Ok(None);
    }
    let Ok(kind) = object.kind.of_nodes() else {
        return Ok(Some(format!("{} that wait are replaced; there is no plan of them", object.kind.pods())));
    };
    let mut whole = serde_json::to_value(&object.whole).map_err(|error| error.to_string())?;
    for patch in patches {
        merged(&mut whole, patch);
    }
    let subject = Subject { name: Some(object.name()), namespace: Some(object.namespace()), file: None, all: false };
    let edited = Edited { shown: "the edit".to_owned(), objects: vec![whole] };
    Ok(match previews(reached, kind, (&subject, Some(edited)), cx.clock.now()).await {
        Ok(found) if found.iter().all(|preview| preview.restarts == 0) => None,
        Ok(found) => {
            for preview in &found {
                cx.screen.print(planned(preview, cx.clock.now(), cx.screen));
            }
            let count: usize = found.iter().map(|preview| preview.restarts).sum();
            Some(format!("{count} {} are replaced", object.kind.pods()))
        }
        Err(why) => Some(format!("what would be replaced cannot be said: {why}")),
    })
}

/// Whether the person agrees.
pub(super) fn asked(would: &str, how: &How) -> Result<bool, String> {
    if how.yes {
        return Ok(true);
    }
    if !std::io::stdin().is_terminal() {
        return Err(format!("{would}; add --yes to go on without a question"));
    }
    let printed = write!(std::io::stderr(), "{would}. Go on? [y/N] ").and_then(|()| std::io::stderr().flush());
    printed.map_err(|error| format!("cannot ask: {error}"))?;
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer).map_err(|error| format!("cannot read the answer: {error}"))?;
    Ok(matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes"))
}

/// Sends a part of what a verb writes, of exactly the object that was read; of one that changed meanwhile what is
/// written is made again.
async fn send(
    reached: &Reached,
    object: Object,
    part: usize,
    make: &impl Fn(&Object) -> Result<Patches, String>,
) -> Result<Object, String> {
    let (kind, namespace, name) = (object.kind, object.namespace(), object.name());
    let api = api(&reached.client, kind, Some(&namespace));
    let mut patch = make(&object)?;
    let planned = object.whole.metadata.generation;
    let mut now = object;
    for _ in 0..TRIES {
        // The second part is what is left once the first is there.
        let Some(mut body) = patch.get(part).or(patch.last()).cloned() else { return Ok(now) };
        body["metadata"] = json!({ "resourceVersion": now.whole.metadata.resource_version });
        match merge(MANAGER, &api, &name, &body).await {
            Ok(stored) => return Ok(Object::of(kind, stored)),
            Err(error) if error.is_conflict() => {
                now = read(reached, &now).await?;
                // Of a status or an annotation nothing depends; an edit makes another plan.
                if now.whole.metadata.generation != planned {
                    return Err(format!("{} was edited meanwhile: look at the edit, then repeat the verb", now.who()));
                }
                patch = make(&now)?;
            }
            Err(kernel::Error::Api { source, .. }) => {
                let what = format!("patch {} {namespace}/{name}", kind.name());
                return Err(Reader::of(reached, kind.operator()).unwritten(&what, &source));
            }
            Err(error) => return Err(error.chain()),
        }
    }
    Err(format!("{} is written by others all the time: try again", now.who()))
}

async fn read(reached: &Reached, object: &Object) -> Result<Object, String> {
    let (kind, name) = (object.kind, object.name());
    let found = api(&reached.client, kind, Some(&object.namespace())).get(&name).await;
    let what = format!("get {} {}/{name}", kind.name(), object.namespace());
    let found = found.map_err(|error| Reader::of(reached, kind.operator()).unanswered(&what, &error))?;
    Ok(Object::of(kind, found))
}

/// The object, once the operator has looked at its last edit.
async fn observed(reached: &Reached, object: Object) -> Result<Object, String> {
    let until = Instant::now() + OBSERVED;
    let mut now = object;
    while !now.is_observed() {
        if Instant::now() > until {
            let why = "the operator has not looked at the edit within a minute";
            return Err(format!("{}: {why}: does it run? Then try again", now.who()));
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
        now = read(reached, &now).await?;
    }
    Ok(now)
}
