//! The operator under Operator Lifecycle Manager, as its users meet it: installed, upgraded, moved to, removed.
//!
//! OLM's rules reach across namespaces, so most tests have a cluster of their own; those that only install share one.
//! Tests begin in the order of their names: what takes longest comes first, lest a processor idles at the end.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that cannot go on fails")]

mod between_releases;
mod both;
mod catalog_polling;
mod cleanup;
mod disconnected;
mod flavours;
mod history;
mod images;
mod install;
mod migrate;
mod recipes;
mod release_page;
mod v1;
