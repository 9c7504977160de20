//! What a user would ask, on a real control plane. One process, one shared cluster, a namespace for each test.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod adopt;
mod bundle;
mod check;
mod fail;
mod fields;
mod gone;
mod hostile;
mod image;
mod install;
mod istio;
mod many;
mod middle;
mod recover;
mod secure;
mod steady;
mod toy;
mod update;
mod webhook;
