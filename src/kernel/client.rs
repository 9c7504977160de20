//! The client for the API server: kube's own layers on a connector of ours.
//!
//! Here because kube's connector leaves two settings of a socket as they are by default. Nagle's algorithm holds the
//! body of a request back until the API server has acknowledged its header, which costs up to 40 ms a write; and
//! without keep-alive a watch whose peer vanished without a word hears nothing for five minutes. Must not retry: that
//! is done by back-off per object.

use std::path::PathBuf;
use std::time::Duration;

use axum::http::Response;
use chrono::{DateTime, Utc};
use futures::FutureExt;
use futures::future::BoxFuture;
use hyper_timeout::TimeoutConnector;
use hyper_util::client::legacy::Client as HttpClient;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use kube::client::{Body, ConfigExt};
use kube::config::{InferConfigError, KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::{Client, Config};
use tower::{BoxError, ServiceBuilder};
use tracing::info;

use super::{Error, call, chain};
use crate::api::nearest::nearest;
use crate::clock::Clock;

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

/// How a cluster is reached; by default as the environment says: in-cluster, or a kubeconfig.
#[derive(Debug, Clone, Default)]
pub struct Access {
    /// File in the place of the kubeconfig.
    pub kubeconfig: Option<PathBuf>,
    /// Context in the place of the kubeconfig's current one.
    pub context: Option<String>,
    /// The user whose rights count, where the caller may act as that one.
    pub user: Option<String>,
}

/// A cluster that was reached.
#[derive(Clone)]
pub struct Reached {
    pub client: Client,
    /// Address of the API server.
    pub address: String,
    /// The namespace of the kubeconfig's context, where it names one.
    pub namespace: Option<String>,
}

/// Reaches a cluster; its answers set the clock.
pub async fn reach(access: &Access, clock: &Clock) -> Result<Reached, String> {
    let (mut config, namespace) = configured(access).await?;
    if access.user.is_some() {
        config.auth_info.impersonate.clone_from(&access.user);
    }
    if config.proxy_url.is_some() {
        return Err(
            "the cluster would be reached through a proxy (proxy-url of the kubeconfig, or HTTPS_PROXY), which \
            is not supported; unset it for this command"
                .to_owned(),
        );
    }
    let client = connect(&config, clock);
    let client = client.map_err(|error| format!("cannot make a client for the cluster: {error}"))?;
    Ok(Reached { client, address: config.cluster_url.to_string(), namespace })
}

/// What is known of the cluster, and the namespace of the context.
async fn configured(access: &Access) -> Result<(Config, Option<String>), String> {
    let file = match &access.kubeconfig {
        Some(path) => {
            let unread = |why: KubeconfigError| format!("{} is no kubeconfig: {}", path.display(), chain(&why));
            Some(Kubeconfig::read_from(path).map_err(unread)?)
        }
        None => Kubeconfig::read().ok(),
    };
    let namespace = file.as_ref().and_then(|file| {
        let name = access.context.as_ref().or(file.current_context.as_ref())?;
        let context = file.contexts.iter().find(|context| context.name == *name)?;
        context.context.as_ref()?.namespace.clone().filter(|namespace| !namespace.is_empty())
    });
    let config = match file.filter(|_| access.kubeconfig.is_some() || access.context.is_some()) {
        None => Config::infer().await.map_err(|error| not_configured(&error))?,
        Some(file) => {
            let names: Vec<String> = file.contexts.iter().map(|context| context.name.clone()).collect();
            if let Some(context) = access.context.as_ref().filter(|context| !names.contains(context)) {
                return Err(format!("the kubeconfig has no context {context}{}", nearest(context, &names)));
            }
            let options = KubeConfigOptions { context: access.context.clone(), ..KubeConfigOptions::default() };
            let used = Config::from_custom_kubeconfig(file, &options).await;
            used.map_err(|error| format!("the kubeconfig cannot be used: {}", chain(&error)))?
        }
    };
    Ok((config, namespace))
}

/// Why no cluster is known: where KUBECONFIG names files, what is wrong with them.
fn not_configured(error: &InferConfigError) -> String {
    match Kubeconfig::from_env() {
        Err(KubeconfigError::ReadConfig(why, path)) => {
            format!("KUBECONFIG names {}, which cannot be read: {why}", path.display())
        }
        Err(wrong) => format!("KUBECONFIG names a file that cannot be used: {}", chain(&wrong)),
        Ok(Some(_)) => format!("the kubeconfig cannot be used: {}", chain(error)),
        Ok(None) => "no cluster is configured: set KUBECONFIG to a kubeconfig file, or run inside a Pod".to_owned(),
    }
}

/// A client for a configuration, whose answers set the clock.
pub fn connect(config: &Config, clock: &Clock) -> Result<Client, kube::Error> {
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
        .map_future(listening(clock.clone()))
        .map_err(BoxError::from)
        .service(HttpClient::builder(TokioExecutor::new()).build::<_, Body>(https));
    Ok(Client::new(service, config.default_namespace.clone()))
}

/// Has a clock hear every answer's time.
fn listening<F, B, E>(clock: Clock) -> impl FnMut(F) -> BoxFuture<'static, Result<Response<B>, E>> + Clone
where
    F: Future<Output = Result<Response<B>, E>> + Send + 'static,
{
    move |answer| {
        let clock = clock.clone();
        async move {
            let asked = clock.own();
            let answer = answer.await?;
            // Others, such as a load balancer, answer with errors of their own.
            let said = date(&answer).filter(|_| answer.status().is_success());
            let differs = said.and_then(|said| clock.hear(asked, said, clock.own()));
            if let Some(by) = differs {
                info!(
                    seconds = by.num_seconds(),
                    "the API server's clock is ahead of this machine's by so much: it counts"
                );
            }
            Ok(answer)
        }
        .boxed()
    }
}

fn date<B>(answer: &Response<B>) -> Option<DateTime<Utc>> {
    let date = answer.headers().get(axum::http::header::DATE)?.to_str().ok()?;
    DateTime::parse_from_rfc2822(date).ok().map(|date| date.to_utc())
}

/// The API server's own clock, as its answers carry it.
pub async fn server_time(client: &Client) -> Result<Option<DateTime<Utc>>, Error> {
    let answer = call(|| "ask for the API server's time".to_owned(), async {
        let request = axum::http::Request::get("/version").body(Body::empty()).map_err(kube::Error::HttpError)?;
        client.send(request).await
    });
    Ok(date(&answer.await?))
}
