//! The front of a registry as public ones are: everyone may read, writers must log in, and it may be unreachable.
//!
//! Must not keep anything: requests are handed on to the registry behind it.

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::header::{AUTHORIZATION, CONTENT_LENGTH, TRANSFER_ENCODING, WWW_AUTHENTICATE};
use axum::http::{Method, StatusCode, request, response};
use kube::{Client, Config};

use crate::images::Registry;
use crate::operator::free_address;

/// Who may write.
pub const USER: &str = "maintainer";
/// With which password.
pub const PASSWORD: &str = "secret";
/// Both, as a request has them.
const LOGIN: &str = "Basic bWFpbnRhaW5lcjpzZWNyZXQ=";
/// A client that has no login sends this, or nothing.
const NOBODY: &str = "Basic Og==";

/// A front.
pub struct Front {
    address: String,
    writes_left: Arc<Mutex<Option<usize>>>,
}

#[derive(Clone)]
struct Behind {
    registry: Client,
    writes_left: Arc<Mutex<Option<usize>>>,
}

impl Front {
    /// Starts one before a registry.
    pub async fn of(registry: &Registry) -> Self {
        let uri = format!("http://{}", registry.address()).parse().expect("an address");
        let mut config = Config::new(uri);
        (config.read_timeout, config.write_timeout) = (None, None);
        let writes_left = Arc::new(Mutex::new(None));
        let behind = Behind { registry: config.try_into().expect("a client"), writes_left: writes_left.clone() };
        let address = free_address();
        let listener = tokio::net::TcpListener::bind(&address).await.expect("a port");
        let app = Router::new().fallback(answer).with_state(behind);
        tokio::spawn(async move { axum::serve(listener, app).await });
        Self { address, writes_left }
    }

    /// Where it is: host and port.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Answers so many more writes, and then none; `None`: all of them.
    pub fn takes(&self, writes: Option<usize>) {
        *self.writes_left.lock().expect("a number") = writes;
    }
}

fn refuse(status: StatusCode, code: &str) -> response::Response<Body> {
    let body = format!(r#"{{"errors":[{{"code":"{code}","message":"{}"}}]}}"#, status.as_str());
    let mut response = response::Response::new(Body::from(body));
    *response.status_mut() = status;
    response.headers_mut().insert(WWW_AUTHENTICATE, "Basic realm=\"registry\"".parse().expect("a header"));
    response
}

async fn answer(State(behind): State<Behind>, request: Request) -> response::Response<Body> {
    let (mut parts, body) = request.into_parts();
    if let Some(status) = refused(&behind, &parts) {
        let code = if status == StatusCode::UNAUTHORIZED { "UNAUTHORIZED" } else { "UNAVAILABLE" };
        return refuse(status, code);
    }
    for header in [AUTHORIZATION, CONTENT_LENGTH, TRANSFER_ENCODING] {
        parts.headers.remove(header);
    }
    let Ok(content) = to_bytes(body, usize::MAX).await else { return refuse(StatusCode::BAD_REQUEST, "UNKNOWN") };
    let request = request::Request::from_parts(parts, kube::client::Body::from(content));
    match behind.registry.send(request).await {
        Ok(answer) => {
            let (mut parts, body) = answer.into_parts();
            parts.headers.remove(TRANSFER_ENCODING);
            response::Response::from_parts(parts, Body::new(body))
        }
        Err(_) => refuse(StatusCode::BAD_GATEWAY, "UNAVAILABLE"),
    }
}

/// Why a request is not handed on.
fn refused(behind: &Behind, request: &request::Parts) -> Option<StatusCode> {
    let login = request.headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok()).filter(|l| *l != NOBODY);
    let reads = [Method::GET, Method::HEAD].contains(&request.method);
    // By the answer to its first request a client knows that there is a login.
    let is_open = reads && request.uri.path() != "/v2/";
    match login {
        Some(login) if login != LOGIN => return Some(StatusCode::UNAUTHORIZED),
        None if !is_open => return Some(StatusCode::UNAUTHORIZED),
        _ if reads => return None,
        _ => {}
    }
    match behind.writes_left.lock().expect("a number").as_mut() {
        Some(0) => Some(StatusCode::SERVICE_UNAVAILABLE),
        Some(left) => {
            *left -= 1;
            None
        }
        None => None,
    }
}
