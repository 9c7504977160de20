//! The types users hold: serde, schemars and kube's derive, nothing else.
//!
//! Here because every other room starts from them. Must not know a client, a clock or an environment.

pub mod condition;
pub mod name;
pub mod oneagent;
pub mod rollout;
pub mod schema;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;

/// One kind: everything a generator needs to know about it.
#[derive(Debug, Clone, Copy)]
pub struct Kind {
    /// Its name.
    pub name: &'static str,
    /// Its plural, as in RBAC rules.
    pub plural: &'static str,
    /// Its group.
    pub group: &'static str,
    /// Its CRD, as derived.
    pub crd: fn() -> CustomResourceDefinition,
}

/// Every kind we serve; generators iterate over it.
pub const KINDS: &[Kind] = &[Kind { name: "OneAgent", plural: "oneagents", group: "dynatrace.com", crd: oneagent::OneAgent::crd }];
