//! The client for the API server: kube's own layers on a connector of ours.
//!
//! Here because kube's connector leaves two settings of a socket as they are by default. Nagle's algorithm holds the
//! body of a request back until the API server has acknowledged its header, which costs up to 40 ms a write; and
//! without keep-alive a watch whose peer vanished without a word hears nothing for five minutes. Must not retry: that
//! is done by back-off per object.

use std::time::Duration;

use chrono::{DateTime, Utc};
use hyper_timeout::TimeoutConnector;
use hyper_util::client::legacy::Client as HttpClient;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use kube::client::{Body, ConfigExt};
use kube::{Client, Config};
use tower::{BoxError, ServiceBuilder};

use super::{Error, call};

/// A connection on which nothing was heard for so long is asked whether it lives,
const QUIET: Duration = Duration::from_secs(30);
/// this often,
const AGAIN: Duration = Duration::from_secs(10);
/// so many times.
const TIMES: u32 = 3;
/// What was sent is acknowledged within this time, or the connection is dead.
const ACKNOWLEDGED: Duration = Duration::from_secs(60);
/// No connection takes longer to be made, its TLS handshake with it.
const CONNECT: Duration = Duration::from_secs(10);

/// A client from the environment (in-cluster, or a kubeconfig).
pub async fn client() -> Result<Client, String> {
    let config = Config::infer()
        .await
        .map_err(|_| "no cluster is configured: set KUBECONFIG to a kubeconfig file, or run inside a Pod".to_owned())?;
    if config.proxy_url.is_some() {
        return Err(
            "the cluster would be reached through a proxy (proxy-url of the kubeconfig, or HTTPS_PROXY), which \
            is not supported; unset it for this command"
                .to_owned(),
        );
    }
    connect(&config).map_err(|error| format!("cannot make a client for the cluster: {error}"))
}

/// A client for a configuration.
pub fn connect(config: &Config) -> Result<Client, kube::Error> {
    let mut connector = HttpConnector::new();
    connector.enforce_http(false);
    connector.set_nodelay(true);
    #[cfg(target_os = "linux")]
    connector.set_tcp_user_timeout(Some(ACKNOWLEDGED));
    connector.set_keepalive(Some(QUIET));
    connector.set_keepalive_interval(Some(AGAIN));
    connector.set_keepalive_retries(Some(TIMES));
    let mut https = TimeoutConnector::new(config.rustls_https_connector_with_connector(connector)?);
    https.set_connect_timeout(Some(CONNECT));
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer()?)
        .layer(config.extra_headers_layer()?)
        .map_err(BoxError::from)
        .service(HttpClient::builder(TokioExecutor::new()).build::<_, Body>(https));
    Ok(Client::new(service, config.default_namespace.clone()))
}

/// The API server's own clock, as its answers carry it.
pub async fn server_time(client: &Client) -> Result<Option<DateTime<Utc>>, Error> {
    let answer = call(|| "ask for the API server's time".to_owned(), async {
        let request = axum::http::Request::get("/version").body(Body::empty()).map_err(kube::Error::HttpError)?;
        client.send(request).await
    });
    let date =
        answer.await?.headers().get(axum::http::header::DATE).and_then(|date| date.to_str().ok()).map(str::to_owned);
    Ok(date.and_then(|date| DateTime::parse_from_rfc2822(&date).ok()).map(|date| date.to_utc()))
}
