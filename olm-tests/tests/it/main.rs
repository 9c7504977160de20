//! What a user would ask, on a real control plane. One process, one shared cluster, a namespace for each test.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod install;
