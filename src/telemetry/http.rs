//! Probes and metrics over HTTP: `/livez`, `/readyz`, `/metrics`.
//!
//! Everybody who reaches the port may ask, so connections are bounded in number and in time. Ready means: caches are
//! complete and the CRD is served. Never leadership: a standby is ready, or no rollout of the operator itself would
//! ever end.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

use super::Metrics;

/// What the probes ask.
pub trait Health: Send + Sync + 'static {
    /// Why the process is not ready; `None` when it is.
    fn not_ready(&self) -> Option<String>;
    fn metrics(&self) -> &Metrics;
}

/// Serves until the process ends; `/metrics` only where they are not served over TLS.
pub async fn serve<H: Health>(address: SocketAddr, health: Arc<H>, with_metrics: bool) -> Result<(), String> {
    let mut app = Router::new().route("/livez", get(|| async { "ok\n" })).route("/readyz", get(ready::<H>));
    if with_metrics {
        app = app.route("/metrics", get(async |State(health): State<Arc<H>>| exposition(&*health)));
    }
    let app = app.with_state(health);
    each_connection(address, "--listen-address", move |stream| speak(stream, app.clone())).await
}

/// Accepts connections, bounded in number and in time.
pub(super) async fn each_connection<F>(
    address: SocketAddr,
    flag: &str,
    handle: impl Fn(TcpStream) -> F,
) -> Result<(), String>
where
    F: Future<Output = ()> + Send + 'static,
{
    let listener = TcpListener::bind(address)
        .await
        .map_err(|error| format!("cannot listen on {address}: {error}; choose another with {flag}"))?;
    let free = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        // With all places taken no connection is accepted: the kernel's queue is bounded, too.
        let Ok(place) = free.clone().acquire_owned().await else {
            return Err("connections are no longer accepted".to_owned());
        };
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(%error, "a connection to probes or metrics was not accepted");
                tokio::time::sleep(AGAIN).await;
                continue;
            }
        };
        let connection = handle(stream);
        tokio::spawn(async move {
            let _ = tokio::time::timeout(LONGEST, connection).await;
            drop(place);
        });
    }
}

/// Serves HTTP over a connection.
pub(super) async fn speak<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(stream: S, app: Router) {
    // The version is fixed: otherwise the server waits for a first byte without any bound of its own.
    let mut server = Builder::new(TokioExecutor::new()).http1_only();
    server.http1().timer(TokioTimer::new()).header_read_timeout(HEADER);
    let _ = server.serve_connection(TokioIo::new(stream), TowerToHyperService::new(app)).await;
}

/// Connections at once.
const CONNECTIONS: usize = 64;
/// A request's header must be there within this time.
const HEADER: Duration = Duration::from_secs(5);
/// No connection lasts longer.
const LONGEST: Duration = Duration::from_secs(10);
/// After a connection that was not accepted.
const AGAIN: Duration = Duration::from_millis(100);

async fn ready<H: Health>(State(health): State<Arc<H>>) -> (StatusCode, String) {
    match health.not_ready() {
        None => (StatusCode::OK, "ok\n".to_owned()),
        Some(why) => (StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n")),
    }
}

/// The metrics as they are scraped.
pub(super) fn exposition<H: Health>(health: &H) -> impl IntoResponse + use<H> {
    ([(header::CONTENT_TYPE, "application/openmetrics-text; version=1.0.0; charset=utf-8")], health.metrics().text())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    struct Well(Metrics);

    impl Health for Well {
        fn not_ready(&self) -> Option<String> {
            None
        }
        fn metrics(&self) -> &Metrics {
            &self.0
        }
    }

    #[tokio::test(start_paused = true)]
    async fn those_who_connect_and_say_nothing_do_not_keep_probes_out() {
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        tokio::spawn(serve(free, Arc::new(Well(Metrics::new("Test", ("pods", "Pods")))), true));
        let connect = async || loop {
            match tokio::net::TcpStream::connect(free).await {
                Ok(stream) => break stream,
                Err(_) => tokio::task::yield_now().await,
            }
        };
        let mut silent = Vec::new();
        for _ in 0..CONNECTIONS {
            silent.push(connect().await);
        }
        // The clock is not the machine's: it jumps to the end of their time when no task has anything else to do.
        let mut probe = connect().await;
        probe.write_all(b"GET /livez HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").await.unwrap();
        let mut answer = String::new();
        probe.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("ok\n"), "{answer}");
    }
}
