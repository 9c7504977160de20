//! What needs real programs. PrometheusJmxExporter: JVMs that run already export, and none ends for it. Manager: stores
//! stand up.
//!
//! On a real API server, beside real JVMs, of each version that is found; what an endpoint answers is asked of the
//! endpoint. Must not hold a test itself.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod attach;
mod basics;
mod cassandra;
mod certificates;
mod changes;
mod growth;
mod guarded;
mod harm;
mod hostile;
mod opensdn;
mod policy;
mod rabbitmq;
mod reasons;
mod shapes;
mod shop;
mod stack;
