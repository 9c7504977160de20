//! A gate before an API server: what one client sees of a resource comes late, or not at all, while it sees the others
//! as ever. Watches promise no order among resources; a busy API server makes use of that.
//!
//! Must not change what it hands on.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::header::TRANSFER_ENCODING;
use axum::http::{Method, StatusCode, request, response};
use futures::StreamExt;
use kube::{Client, Config};
use tokio::sync::watch;

use crate::operator::free_address;

/// What becomes of a resource's lists and watches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    Open,
    /// Nothing comes through; all of it does later.
    Held,
    /// Requests are refused, as by an API server that is overloaded; watches go on.
    Refused,
}

/// A gate.
pub struct Gate {
    address: String,
    ways: Arc<Ways>,
}

#[derive(Default)]
struct Ways(Mutex<HashMap<String, watch::Sender<Way>>>);

#[derive(Clone)]
struct Behind {
    server: Client,
    ways: Arc<Ways>,
}

impl Ways {
    fn of(&self, resource: &str) -> watch::Receiver<Way> {
        let mut all = self.0.lock().expect("ways");
        all.entry(resource.to_owned()).or_insert_with(|| watch::channel(Way::Open).0).subscribe()
    }
}

impl Gate {
    /// One before an API server, for a client that has a token. The configuration: where the server is, and its CA.
    pub async fn before(mut config: Config) -> Self {
        config.auth_info = kube::config::AuthInfo::default();
        (config.read_timeout, config.write_timeout) = (None, None);
        let behind = Behind { server: config.try_into().expect("a client"), ways: Arc::default() };
        let (address, ways) = (free_address(), behind.ways.clone());
        let listener = tokio::net::TcpListener::bind(&address).await.expect("a port");
        let app = Router::new().fallback(answer).with_state(behind);
        tokio::spawn(async move { axum::serve(listener, app).await });
        Self { address, ways }
    }

    /// Where it is, as a kubeconfig has it.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// From now on this becomes of a resource, by its plural.
    pub fn put(&self, resource: &str, way: Way) {
        self.ways.of(resource);
        self.ways.0.lock().expect("ways")[resource].send_replace(way);
    }
}

async fn answer(State(behind): State<Behind>, request: Request) -> response::Response<Body> {
    let (parts, body) = request.into_parts();
    let mut way = behind.ways.of(resource(parts.uri.path()));
    let reads = parts.method == Method::GET;
    if reads && *way.borrow() == Way::Refused {
        return refused(StatusCode::INTERNAL_SERVER_ERROR);
    }
    if reads {
        let _ = way.wait_for(|way| *way != Way::Held).await;
    }
    let Ok(content) = to_bytes(body, usize::MAX).await else { return refused(StatusCode::BAD_REQUEST) };
    let request = request::Request::from_parts(parts, kube::client::Body::from(content));
    let Ok(answer) = behind.server.send(request).await else { return refused(StatusCode::BAD_GATEWAY) };
    let (mut parts, body) = answer.into_parts();
    parts.headers.remove(TRANSFER_ENCODING);
    if !reads {
        return response::Response::from_parts(parts, Body::new(body));
    }
    let chunks = Body::new(body).into_data_stream().then(move |chunk| {
        let mut way = way.clone();
        async move {
            let _ = way.wait_for(|way| *way != Way::Held).await;
            chunk
        }
    });
    response::Response::from_parts(parts, Body::from_stream(chunks))
}

/// The plural that a path names: `/apis/GROUP/VERSION[/namespaces/NAMESPACE]/PLURAL…`, without `/GROUP` below `/api`.
fn resource(path: &str) -> &str {
    let mut words = path.split('/').skip(1);
    let skipped = if words.next() == Some("api") { 1 } else { 2 };
    let rest: Vec<&str> = words.skip(skipped).collect();
    match rest[..] {
        ["namespaces", _, plural, ..] | [plural, ..] => plural,
        [] => "",
    }
}

fn refused(status: StatusCode) -> response::Response<Body> {
    let mut response = response::Response::new(Body::from("the gate is closed"));
    *response.status_mut() = status;
    response
}
