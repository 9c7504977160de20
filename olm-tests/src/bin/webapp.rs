//! The web application of the ConfigWatcher's sample, as a process: answers with what its environment says.
//!
//! Takes MESSAGE when it starts and never again. Told to end it answers a moment longer, as an application does that
//! is taken out of a Service while requests are on their way. Must not read a ConfigMap.

#![allow(clippy::expect_used, reason = "without its address it cannot serve")]
#![allow(clippy::disallowed_methods, reason = "its environment is all that it has")]

use std::time::Duration;

use axum::Router;
use axum::routing::get;
use tokio::signal::unix::{SignalKind, signal};

/// It answers for so long after it was told to end.
const DRAIN: Duration = Duration::from_secs(1);

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let message = std::env::var("MESSAGE").unwrap_or_default();
    let address = std::env::var("ADDRESS").expect("ADDRESS");
    let app = Router::new().route("/", get(move || async move { message.clone() }));
    let listener = tokio::net::TcpListener::bind(address).await.expect("a free address");
    let mut terminate = signal(SignalKind::terminate()).expect("signals");
    let ended = async move {
        terminate.recv().await;
        tokio::time::sleep(DRAIN).await;
    };
    let _ = axum::serve(listener, app).with_graceful_shutdown(ended).await;
}
