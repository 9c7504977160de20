//! Runs: the containers of ours that joined a Pod, each with what it was asked to do and what came of it.
//!
//! Pure: the Pod itself is the memory of what was done to it. Must not decide what follows.

use std::borrow::Cow;
use std::str::FromStr;
use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};
use serde::Deserialize;

use super::export::Export;
use super::pool::Pool;
use crate::api::jmx_exporter::obstacle::Obstacle;
use crate::fleet::time;
use crate::k8s::containers::{ContainerSpec, ContainerStatus};
use crate::k8s::facts::WhyFacts;

/// The command that our containers run.
pub const COMMAND: &str = "jmx-attach";
/// How our containers are named: this, the restarts of their target, and a number.
pub const PREFIX: &str = "jmx-";
/// For so long a container of ours may be started; later it does nothing.
pub const VALID: TimeDelta = TimeDelta::minutes(10);
/// One that was started at the last moment has so long to end.
const LAST: TimeDelta = TimeDelta::minutes(3);

/// A container of ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    pub name: Arc<str>,
    pub asked: Arc<Asked>,
    pub joined: Joined,
    pub valid_until: DateTime<Utc>,
    pub came: Came,
}

/// What a run was asked to do.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Asked {
    /// The container that it joined.
    pub target: Box<str>,
    pub order: Export,
    /// Only another configuration was to be brought.
    pub rewrites: bool,
    /// What memory must be left.
    pub min_free_memory: Box<str>,
    /// The image that it runs.
    pub image: Box<str>,
}

/// What became of the very container that a run joined: after a restart it is another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Joined {
    /// It runs, as this one of those that do.
    Runs(u8),
    /// It ran then, and was done with its work or not.
    Ended { from: DateTime<Utc>, to: DateTime<Utc>, is_done: bool },
    /// Its outcome is lost.
    Gone,
}

/// What came of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Came {
    /// It has not ended; what keeps it from being started, where its status says so.
    Awaited(Option<Held>),
    /// The JVM exports.
    Exports(Times),
    /// It was not done, or harmed.
    Refused(Times, Box<Refused>),
}

/// What keeps a container from being started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    pub is_image: bool,
    pub why: String,
}

/// When it did what, by the clock of its node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Times {
    /// It began to make the JVM load the exporter, if it did.
    pub loaded: Option<DateTime<Utc>>,
    /// It ended.
    pub to: DateTime<Utc>,
}

/// Why a JVM does not export, as the container said it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    pub why: Why,
    pub message: String,
    /// The user for the next run.
    pub identity: Option<Identity>,
}

/// What a container says when it ends without success.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// One of the reasons that a status counts.
    Obstacle(Obstacle),
    /// The exporter did not take the configuration.
    NotTaken,
    /// The kubelet's copy of the configuration was another one, or the order too old: nothing was done.
    Void,
    /// Nothing that can be read: what it did is unknown.
    Silent,
}

/// Whose files a JVM's are.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Identity {
    pub user: i64,
    pub group: i64,
}

/// A line of JSON, perhaps cut.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Line {
    #[serde(default)]
    result: Option<String>,
    #[serde(default)]
    reason: String,
    #[serde(default)]
    message: String,
    #[serde(default)]
    identity: Option<Identity>,
    #[serde(default)]
    loaded_at: Option<String>,
}

impl Run {
    /// A container that joined, if it is one of ours. `joined`: what became of the container with a name and an ID.
    #[must_use]
    pub fn of(
        spec: &ContainerSpec,
        status: Option<&ContainerStatus>,
        joined: impl Fn(&str, &str) -> Joined,
        (names, all): (&mut Pool<str>, &mut Pool<Asked>),
    ) -> Option<Self> {
        if !spec.name.starts_with(PREFIX) || spec.args.first().is_none_or(|first| first != COMMAND) {
            return None;
        }
        let value = |flag: &str| spec.args.iter().find_map(|arg| arg.strip_prefix(flag)?.strip_prefix('='));
        let target = spec.target_container_name.as_deref()?;
        let asked = Asked {
            target: target.into(),
            order: Export { port: value("--port")?.parse().ok()?, sha256: value("--sha256")?.to_owned() },
            rewrites: spec.args.iter().any(|arg| arg == "--rewrite"),
            min_free_memory: value("--min-free-memory").unwrap_or_default().into(),
            image: spec.image.as_deref().unwrap_or_default().into(),
        };
        Some(Self {
            name: names.share(spec.name.as_str()),
            asked: all.share(asked),
            joined: joined(target, value("--container")?),
            valid_until: time(value("--valid-until")?)?,
            came: status.map_or(Came::Awaited(None), came),
        })
    }

    /// Which of a Pod's runs came first.
    #[must_use]
    pub fn order_of_asking(&self) -> (DateTime<Utc>, u32) {
        let number = self.name.rsplit('-').next().and_then(|number| number.parse().ok());
        (self.valid_until, number.unwrap_or_default())
    }

    #[must_use]
    pub fn has_ended(&self) -> bool {
        !matches!(self.came, Came::Awaited(_))
    }

    /// When it was asked for.
    #[must_use]
    pub fn asked_at(&self) -> DateTime<Utc> {
        self.valid_until - VALID
    }

    /// Until when a result may come.
    #[must_use]
    pub fn ends_by(&self) -> DateTime<Utc> {
        self.valid_until + LAST
    }

    /// How it ended, if it did not succeed. One that never ended, and may not begin any more, said nothing.
    #[must_use]
    pub fn failure(&self) -> Option<(Times, Cow<'_, Refused>)> {
        match &self.came {
            Came::Refused(times, refused) => Some((*times, Cow::Borrowed(refused))),
            Came::Awaited(_) => {
                let at = self.ends_by();
                let message = format!("container {} of the Pod never ended", self.name);
                let refused = Refused { why: Why::Silent, message, identity: None };
                Some((Times { loaded: None, to: at }, Cow::Owned(refused)))
            }
            Came::Exports(_) => None,
        }
    }

    /// What its JVM exports since then, if the run brought it that: without a configuration where it did not take one.
    #[must_use]
    pub fn exports(&self) -> Option<(Export, DateTime<Utc>)> {
        match &self.came {
            Came::Exports(times) => Some((self.asked.order.clone(), times.to)),
            Came::Refused(times, refused) if refused.why == Why::NotTaken && !self.asked.rewrites => {
                Some((Export { sha256: String::new(), port: self.asked.order.port }, times.to))
            }
            _ => None,
        }
    }
}

fn came(status: &ContainerStatus) -> Came {
    if let Some(ended) = &status.state.terminated {
        let said = ended.message.as_deref().unwrap_or_default().trim();
        let line = serde_json::from_str::<Line>(said).ok();
        let loaded = line.as_ref().and_then(|line| time(line.loaded_at.as_deref()?));
        let to = ended.finished_at.as_deref().and_then(time).unwrap_or_default();
        let times = Times { loaded, to };
        if ended.exit_code == Some(0) || line.as_ref().is_some_and(|line| line.result.is_some()) {
            return Came::Exports(times);
        }
        return Came::Refused(times, Box::new(refused(said, line, ended)));
    }
    let waiting = status.state.waiting.as_ref();
    Came::Awaited(waiting.and_then(held))
}

/// What a container's last words say.
fn refused(said: &str, line: Option<Line>, ended: &WhyFacts) -> Refused {
    if let Some(line) = line {
        return Refused { why: why(&line.reason), message: line.message, identity: line.identity };
    }
    // Kubelets cut what is too long; the reason comes first.
    let reason = said.strip_prefix("{\"reason\":\"").and_then(|rest| rest.split('"').next());
    let code = ended.exit_code.map(|code| format!(" with exit code {code}")).unwrap_or_default();
    let message = format!("the container that joined it ended{code} and without a result");
    Refused { why: reason.map_or(Why::Silent, why), message, identity: None }
}

fn why(reason: &str) -> Why {
    match reason {
        "ConfigNotTaken" => Why::NotTaken,
        "ConfigStale" | "Expired" | "Untouched" => Why::Void,
        _ => Obstacle::from_str(reason).map_or(Why::Silent, Why::Obstacle),
    }
}

/// What keeps a container from being started, if it is more than its turn.
fn held(waiting: &WhyFacts) -> Option<Held> {
    let reason = waiting.reason.as_deref()?;
    let is_image = reason.contains("Image") || reason == "RegistryUnavailable";
    if !is_image && !reason.contains("Error") && reason != "CrashLoopBackOff" {
        return None;
    }
    let message = waiting.message.as_deref().map(|text| format!(": {text}")).unwrap_or_default();
    Some(Held { is_image, why: format!("{reason}{message}").chars().take(200).collect() })
}

#[cfg(test)]
mod tests {
    use strum::IntoEnumIterator as _;

    use super::*;
    use crate::attach::Reason;

    #[test]
    fn every_reason_that_a_helper_has_is_understood() {
        for reason in Reason::iter() {
            let said = serde_json::json!({ "reason": reason }).to_string();
            let line = serde_json::from_str(&said).ok();
            assert_ne!(refused(&said, line, &WhyFacts::default()).why, Why::Silent, "{reason:?}");
        }
    }
}
