//! What a OneAgent is made into: one file per object. Pure; must not read the raw spec nor send anything.

pub mod daemonset;
pub mod pull_secret;
pub mod template;

/// Labels of virtual nodes, on which no host agent can run.
pub const VIRTUAL_NODES: &[(&str, &str)] = &[("type", "virtual-kubelet"), ("eks.amazonaws.com/compute-type", "fargate")];
