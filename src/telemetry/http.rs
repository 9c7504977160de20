//! Probes and metrics over HTTP: `/livez`, `/readyz`, `/metrics`.
//!
//! Ready means: caches complete and the CRD served. Never leadership: a standby is ready, or no rollout of the
//! operator itself would ever end.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;

use super::Metrics;

/// What the probes ask.
pub trait Health: Send + Sync + 'static {
    /// Why the process is not ready; `None` when it is.
    fn not_ready(&self) -> Option<&'static str>;
    /// The metrics.
    fn metrics(&self) -> &Metrics;
}

/// Serves until the process ends.
pub async fn serve<H: Health>(address: SocketAddr, health: Arc<H>) -> Result<(), String> {
    let listener = tokio::net::TcpListener::bind(address)
        .await
        .map_err(|error| format!("cannot listen on {address}: {error}; choose another with --listen-address"))?;
    let app = Router::new()
        .route("/livez", get(|| async { "ok\n" }))
        .route("/readyz", get(ready::<H>))
        .route("/metrics", get(metrics::<H>))
        .with_state(health);
    axum::serve(listener, app).await.map_err(|error| format!("cannot serve probes: {error}"))
}

async fn ready<H: Health>(State(health): State<Arc<H>>) -> (StatusCode, String) {
    match health.not_ready() {
        None => (StatusCode::OK, "ok\n".to_owned()),
        Some(why) => (StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n")),
    }
}

async fn metrics<H: Health>(State(health): State<Arc<H>>) -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "application/openmetrics-text; version=1.0.0; charset=utf-8")], health.metrics().text())
}
