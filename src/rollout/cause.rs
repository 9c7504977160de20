//! Causes: why a place has no available agent. One enum that words itself; without its particulars it is the bucket
//! under which a status counts.
//!
//! No other place words a cause, and no code compares sentences. Must not find a cause (that is `bucket`).

use std::borrow::Cow;
use std::fmt;

/// Why a place has no available agent.
#[derive(Debug, Clone, PartialEq, Eq, strum::EnumDiscriminants)]
#[strum_discriminants(
    name(Bucket),
    doc = "A cause without its particulars: under this name a status counts.",
    derive(Hash, PartialOrd, Ord, strum::Display, strum::EnumIter),
    strum(serialize_all = "camelCase")
)]
pub enum Cause {
    /// NotReady before its Pod was touched.
    NodeNotReady,
    /// NotReady after its Pod was replaced.
    NodeLost,
    /// Not to be touched now: its node is cordoned, draining or being deleted.
    NodeBusy(Cow<'static, str>),
    /// No room.
    Capacity(String),
    /// The API server refuses the Pod.
    Admission(String),
    /// The image cannot be pulled.
    Image(String),
    /// A Secret or ConfigMap that the Pod names is missing.
    Config(String),
    /// It crashes.
    Crash(String),
    /// Beyond its time, which is so many seconds, and never started: a slow registry, volume or network.
    Pulling(i64, String),
    /// Within its time.
    Starting(Start),
    /// Beyond its time.
    Overdue(Start),
    /// Being deleted, and whether it should be gone by now.
    Terminating(bool),
}

/// How far a Pod is that is not available.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Start {
    /// It was not created.
    NotMade,
    /// No scheduler has said anything of it.
    NotBound,
    /// It is not Ready; for how many seconds it is waited, and what its status says.
    NotReady(i64, Option<String>),
    /// It was Ready and is not; for how many seconds it is waited, and what its status says.
    Ceased(i64, Option<String>),
    /// It is Ready, and must stay so for so many seconds.
    Settling(i64),
}

impl Cause {
    #[must_use]
    pub fn bucket(&self) -> Bucket {
        self.into()
    }

    /// Whether a person must look.
    pub(super) fn is_trouble(&self) -> bool {
        !matches!(self, Self::Starting(_) | Self::NodeBusy(_) | Self::NodeNotReady | Self::Terminating(false))
    }

    /// Whether its agent ran, is not Ready, and may be again in time.
    pub(super) fn has_ceased(&self) -> bool {
        matches!(self, Self::Starting(Start::Ceased(..)))
    }
}

impl Bucket {
    /// Whether the cause lies outside of any revision and ends once it is fixed.
    #[must_use]
    pub fn is_external(self) -> bool {
        matches!(self, Self::Admission | Self::Image | Self::Config | Self::Pulling)
    }
}

/// There is a Pod, and no agent runs in it.
pub(super) fn is_without_agent(bucket: Bucket) -> bool {
    let has_trouble = matches!(bucket, Bucket::Capacity | Bucket::Image | Bucket::Config | Bucket::Crash);
    has_trouble || matches!(bucket, Bucket::Pulling | Bucket::Overdue | Bucket::Starting)
}

/// One that only starts may be Ready in a moment.
pub(super) fn has_had_its_time(bucket: Bucket) -> bool {
    bucket != Bucket::Starting
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NodeNotReady => f.write_str("the node is NotReady"),
            Self::NodeLost => f.write_str("the node became NotReady after its agent was replaced"),
            Self::NodeBusy(why) => f.write_str(why),
            Self::Capacity(why) | Self::Admission(why) | Self::Image(why) | Self::Config(why) | Self::Crash(why) => {
                f.write_str(why)
            }
            Self::Pulling(seconds, why) => write!(f, "never started within {seconds} s: {why}"),
            Self::Starting(start) => match start {
                Start::NotMade => f.write_str("the Pod is not created yet"),
                Start::NotBound => f.write_str("the Pod is not bound to its node yet"),
                Start::NotReady(_, said) => write!(f, "not Ready yet{}", after_colon(said.as_deref())),
                Start::Ceased(_, said) => write!(f, "not Ready any more{}", after_colon(said.as_deref())),
                Start::Settling(seconds) => write!(f, "Ready, and must stay so for {seconds} s"),
            },
            Self::Overdue(Start::NotReady(seconds, said) | Start::Ceased(seconds, said)) => write!(
                f,
                "not Ready within \
                {seconds} s{}",
                after_colon(said.as_deref())
            ),
            Self::Overdue(Start::NotBound) => {
                f.write_str("no scheduler has bound the Pod to its node: does kube-scheduler run?")
            }
            Self::Overdue(_) => f.write_str(
                "no controller has created the Pod: does kube-controller-manager run, is the DaemonSet being deleted, \
                and what do its Events say?",
            ),
            Self::Terminating(false) => f.write_str("the Pod is being deleted"),
            Self::Terminating(true) => f.write_str(
                "the Pod should be gone by now and is not: is its node's kubelet at work, and its \
                    container not stuck in a system call?",
            ),
        }
    }
}

fn after_colon(said: Option<&str>) -> String {
    said.map(|said| format!(": {said}")).unwrap_or_default()
}
