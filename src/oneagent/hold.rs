//! Why nothing may be replaced, in this kind's words.
//!
//! Pure. Must not decide when.

use std::borrow::Cow;

use crate::rollout::{Hold, State};

/// The stop for the whole cluster.
pub const STOPPED: Hold = Hold {
    state: State::Stopped,
    why: Cow::Borrowed(
        "ConfigMap oneagent-operator in the operator's namespace has key stop; to continue, delete the key, or use \
        kubectl oneagent resume --all",
    ),
};
/// An older agent is wanted, and that is not allowed.
pub const DOWNGRADE: Hold = Hold {
    state: State::Paused,
    why: Cow::Borrowed(
        "the agent that is wanted is older than those that run, and spec.update.allowDowngrade is not true",
    ),
};
/// Agents are newer than all that the list of versions names.
pub const LIST: Hold = Hold {
    state: State::Held,
    why: Cow::Borrowed(
        "agents reported a newer version than those that spec.update.configMap lists; see condition Degraded",
    ),
};
/// The Secret with the tokens is not there as Pods need it.
pub const TOKENS: Hold = Hold {
    state: State::Held,
    why: Cow::Borrowed("the Secret with the tokens is not as Pods need it; condition PaaSToken says what to fix"),
};
/// The environment that Pods download from does not answer.
pub const ENVIRONMENT: Hold = Hold {
    state: State::Held,
    why: Cow::Borrowed(
        "the environment does not answer: a new Pod could not download its agent; condition Degraded says why",
    ),
};
/// The environment that Pods download from rejects the token.
pub const TOKEN_REJECTED: Hold = Hold {
    state: State::Held,
    why: Cow::Borrowed(
        "the environment rejects the paasToken: a new Pod could not download its agent; condition PaaSToken says why",
    ),
};
/// The environment that Pods download from does not offer the version.
pub const NOT_OFFERED: Hold = Hold {
    state: State::Held,
    why: Cow::Borrowed(
        "the environment does not offer the desired version any more: a new Pod could not download its agent; \
        condition Degraded names what it offers",
    ),
};
/// No question to the environment has been answered yet.
pub const AWAITED: Hold =
    Hold { state: State::Held, why: Cow::Borrowed("the environment has not answered yet since the operator started") };
/// The DaemonSet was deleted.
pub const RETURNING: Hold = Hold {
    state: State::Held,
    why: Cow::Borrowed("the DaemonSet was deleted: agents come back with the last good version first"),
};
/// The cluster is being updated.
pub const CLUSTER_UPDATE: Hold = Hold {
    state: State::Held,
    why: Cow::Borrowed(
        "the cluster is being updated (ClusterVersion version is Progressing), and \
        spec.openshift.pauseDuringClusterUpdate is true",
    ),
};
/// Whether it is, is unknown.
pub const CLUSTER_UPDATE_UNKNOWN: Hold = Hold {
    state: State::Held,
    why: Cow::Borrowed(
        "spec.openshift.pauseDuringClusterUpdate is true, and ClusterVersion version cannot be read: the operator \
        needs get of clusterversions.config.openshift.io, and an answer; condition Degraded quotes what came",
    ),
};
/// The namespace's own node selector excludes nodes with a running agent: a write would take these.
pub const NAMESPACE_SELECTOR: Hold = Hold {
    state: State::Held,
    why: Cow::Borrowed(
        "a node selector of the namespace, or the cluster's default one, excludes nodes with a running agent: agents \
        that are replaced there would not come back",
    ),
};
