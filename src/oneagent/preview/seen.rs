//! What is observed of a OneAgent by a user's lists and its status alone, as the operator would observe it.
//!
//! Pure. Must not ask a cluster or an environment.

use std::sync::Arc;

use chrono::{DateTime, Utc};
use k8s_openapi::api::apps::v1::DaemonSet;
use secrecy::SecretString;

use super::super::build::record::Record;
use super::super::build::template::marks;
use super::super::fleet::Fleet;
use super::super::observe::{Named, Observed, OpenShift, Token, Undeletable};
use super::super::resolve::{ProxySource, Resolved};
use crate::api::condition::has;
use crate::api::oneagent::OneAgentStatus;
use crate::api::oneagent::condition::{ConditionType, Reason};
use crate::fleet::kept_out::is_ignored;
use crate::fleet::missing::Missing;
use crate::k8s::node_selector::Selector;
use crate::kernel::Answer;
use crate::kernel::named::Lookup;
use crate::rollout::ledger::Ledger;

/// What is asked of the cluster beside its lists.
#[derive(Debug, Default)]
pub struct Surroundings {
    /// The node selector that the namespace itself carries.
    pub selector: Selector,
    /// What OpenShift says of its own update, when the spec wants it.
    pub update: Answer,
    /// The ConfigMap that lists the versions, where the spec names one.
    pub list: Option<Lookup>,
}

/// Whether the operator was stopped when it looked last: an idle OneAgent says so in its condition alone.
fn is_stopped(status: &OneAgentStatus) -> bool {
    has(&status.conditions, ConditionType::Progressing, Reason::Stopped)
}

/// What a cluster's lists and a status show of one OneAgent, without its environment.
pub(in super::super) fn observed(
    fleet: &Fleet,
    resolved: &Resolved,
    status: &OneAgentStatus,
    around: &Surroundings,
    now: DateTime<Utc>,
) -> Observed {
    let key = (resolved.namespace.clone(), resolved.name.clone());
    let (daemonset, nodes, pods) = (fleet.daemonset(&key), fleet.nodes(), fleet.pods(&key));
    Observed {
        named_objects: Vec::new(),
        paas: token(status),
        api: Token::There { value: SecretString::default(), blanks: false },
        proxy: resolved.proxy.as_ref().map(|proxy| match proxy {
            ProxySource::Value(url, _) => Named::There(url.clone(), String::new()),
            ProxySource::Secret(_) => mark(daemonset.as_deref(), 0),
        }),
        trusted: resolved.trusted_cas.as_ref().map(|_| mark(daemonset.as_deref(), 1)),
        bundle_is_missing: false,
        openshift: OpenShift {
            is_one: None,
            proxy: Answer::Unread("not asked".to_owned()),
            version: around.update.clone(),
        },
        admissions: fleet.admissions(&key),
        pull_secret: None,
        istio: None,
        environment: None,
        unlisted: None,
        known: None,
        told: Vec::new(),
        is_believed: true,
        losses: Arc::default(),
        undeletable: Undeletable::default(),
        ledger: Ledger::default(),
        missing: Missing::new(),
        deciding_since: now,
        in_contact_since: DateTime::UNIX_EPOCH,
        refused: None,
        namespace_selector: around.selector.labels.clone(),
        selector_is_default: around.selector.is_default,
        selector_enforced: !around.selector.labels.is_empty() && !is_ignored(&around.selector, &nodes, &pods),
        cluster_id: daemonset.as_deref().and_then(cluster_id).unwrap_or_default(),
        stopped: is_stopped(status),
        other_operator: false,
        daemonset,
        nodes,
        pods,
    }
}

/// The token, as far as the status tells: what no message reports exists.
fn token(status: &OneAgentStatus) -> Token {
    let missing = [Reason::TokenSecretNotFound, Reason::TokenMissing].map(|reason| reason.to_string());
    let is_it = ConditionType::PaasToken.to_string();
    let found = status.conditions.iter().find(|condition| condition.type_ == is_it);
    if found.is_some_and(|condition| missing.contains(&condition.reason)) {
        return Token::NoSecret;
    }
    Token::There { value: SecretString::default(), blanks: false }
}

/// An object that the spec names, by the mark that its last content left on the template.
fn mark(live: Option<&DaemonSet>, which: usize) -> Named {
    let mark = live.and_then(|live| {
        let record = Record::of(live);
        marks(&record.templates.first()?.template)[which].clone()
    });
    Named::There(SecretString::default(), mark.unwrap_or_default())
}

/// UID of Namespace kube-system, as the template has it.
fn cluster_id(live: &DaemonSet) -> Option<String> {
    let record = Record::of(live);
    let container = record.templates.first()?.template.spec.as_ref()?.containers.first()?.clone();
    container.env?.into_iter().find(|entry| entry.name == "DT_K8S_CLUSTER_ID")?.value
}
