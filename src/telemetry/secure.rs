//! Metrics over TLS, for clients that the cluster lets read them.
//!
//! The certificate is read for every connection, so that a renewed one is served without a restart, and one that comes
//! late is. Without it no request is served: metrics are not handed out in the clear in its place. Must not know who
//! may.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{CipherSuite, ServerConfig, version};
use tokio_rustls::TlsAcceptor;

use super::http::{Health, each_connection, exposition, speak};
use crate::openshift::tls_profile::TlsProfile;

/// Who may read the metrics, and how it is spoken.
pub trait Gate: Send + Sync + 'static {
    /// Whether the owner of this token may.
    fn admits(&self, token: &str) -> impl Future<Output = Admission> + Send;
    /// How TLS may be spoken.
    fn profile(&self) -> impl Future<Output = TlsProfile> + Send;
}

/// What a gate says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Admission {
    Welcome,
    /// The token is no one's.
    Unknown,
    /// This user may not.
    Forbidden(String),
    /// Unknown now.
    Unanswered(String),
}

struct Shared<H, G> {
    health: Arc<H>,
    gate: Arc<G>,
}

impl<H, G> Clone for Shared<H, G> {
    fn clone(&self) -> Self {
        Self { health: self.health.clone(), gate: self.gate.clone() }
    }
}

/// Serves `/metrics` with the certificate in a folder (`tls.crt`, `tls.key`) until the process ends.
pub async fn serve_securely<H: Health, G: Gate>(
    address: SocketAddr,
    folder: PathBuf,
    health: Arc<H>,
    gate: Arc<G>,
) -> Result<(), String> {
    let shared = Shared { health, gate: gate.clone() };
    let app = Router::new().route("/metrics", get(metrics::<H, G>)).with_state(shared);
    let handle = move |stream| {
        let (app, folder, gate) = (app.clone(), folder.clone(), gate.clone());
        async move {
            let config = match config(&folder, &gate.profile().await).await {
                Ok(config) => config,
                Err(why) => return tracing::warn!(why, "metrics are not served"),
            };
            match TlsAcceptor::from(Arc::new(config)).accept(stream).await {
                Ok(stream) => speak(stream, app).await,
                Err(error) => tracing::debug!(%error, "a connection to the metrics ended before it began"),
            }
        }
    };
    each_connection(address, "--secure-metrics-address", handle).await
}

async fn config(folder: &Path, profile: &TlsProfile) -> Result<ServerConfig, String> {
    let read = async |name: &str| {
        let path = folder.join(name);
        tokio::fs::read(&path).await.map_err(|error| format!("{}: {error}", path.display()))
    };
    let refuse = |name: &str, why: &dyn std::fmt::Display| format!("{}: {why}", folder.join(name).display());
    let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(&read("tls.crt").await?)
        .collect::<Result<_, _>>()
        .map_err(|error| refuse("tls.crt", &error))?;
    let key = PrivateKeyDer::from_pem_slice(&read("tls.key").await?).map_err(|error| refuse("tls.key", &error))?;
    let mut provider: CryptoProvider = ring::default_provider();
    provider.cipher_suites.retain(|suite| profile.allows(&standard_name(suite.suite())));
    let versions = if profile.only_1_3 { &[&version::TLS13][..] } else { &[&version::TLS13, &version::TLS12] };
    let builder = ServerConfig::builder_with_provider(Arc::new(provider)).with_protocol_versions(versions);
    let builder = builder.map_err(|error| format!("the cluster's TLS profile leaves nothing to speak: {error}"))?;
    builder.with_no_client_auth().with_single_cert(chain, key).map_err(|error| refuse("tls.crt", &error))
}

/// rustls marks those of TLS 1.3.
fn standard_name(suite: CipherSuite) -> String {
    format!("{suite:?}").replace("TLS13_", "TLS_")
}

async fn metrics<H: Health, G: Gate>(State(shared): State<Shared<H, G>>, headers: HeaderMap) -> Response {
    let said = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let Some(token) = said.and_then(|said| said.strip_prefix("Bearer ")) else {
        return unauthorized("a bearer token of a ServiceAccount that may get /metrics is needed\n");
    };
    match shared.gate.admits(token).await {
        Admission::Welcome => exposition(&*shared.health).into_response(),
        Admission::Unknown => unauthorized("the token is not valid\n"),
        Admission::Forbidden(who) => {
            (StatusCode::FORBIDDEN, format!("{who} may not get the non-resource URL /metrics\n")).into_response()
        }
        Admission::Unanswered(why) => (StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n")).into_response(),
    }
}

fn unauthorized(why: &'static str) -> Response {
    (StatusCode::UNAUTHORIZED, [(header::WWW_AUTHENTICATE, "Bearer")], why).into_response()
}
