//! The operator under Operator Lifecycle Manager, as its users meet it: installed, upgraded, moved to, removed.
//!
//! Each test has a cluster of its own: OLM's rules reach across namespaces.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that cannot go on fails")]

mod images;
mod install;
mod migrate;
mod remove;
mod upgrade;
mod v1;
