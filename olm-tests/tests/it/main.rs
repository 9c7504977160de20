//! What a user would ask, on a real control plane. One process, one shared cluster, a namespace for each test.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod admitted;
mod adopt;
mod alerts;
mod back;
mod beside;
mod between;
mod bundle;
mod calm;
mod check;
mod clock;
mod controllers;
mod dying;
mod edits;
mod explain;
mod fail;
mod fields;
mod flapping;
mod gone;
mod hostile;
mod image;
mod install;
mod istio;
mod listed;
mod many;
mod metrics;
mod middle;
mod openshift;
mod outages;
mod overlap;
mod pages;
mod planned;
mod policies;
mod recover;
mod refused;
mod releases;
mod rights;
mod secure;
mod soak;
mod stop;
mod torn;
mod toy;
mod update;
mod watcher;
mod webhook;
