//! An API server that gives the answers of a test and keeps what it was asked: for what the real one cannot be made to
//! say at a given moment.
//!
//! Only in tests. Must not know what any request means; that the real one answers so is shown by `olm-tests`.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};

/// A request as it came.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Asked {
    pub(crate) method: String,
    /// Path and query.
    pub(crate) path: String,
    pub(crate) body: Value,
}

#[derive(Debug)]
pub(crate) enum Answer {
    Object(Value),
    /// A refusal: code and reason.
    Refusal(u16, &'static str),
    /// None, ever.
    Nothing,
}

/// A client of such a server, and what it was asked so far.
pub(crate) fn client(answer: impl Fn(&Asked) -> Answer + Send + Sync + 'static) -> (Client, Arc<Mutex<Vec<Asked>>>) {
    let asked: Arc<Mutex<Vec<Asked>>> = Arc::default();
    let (keep, answer) = (asked.clone(), Arc::new(answer));
    let service = tower::service_fn(move |request: axum::http::Request<Body>| {
        let (keep, answer) = (keep.clone(), answer.clone());
        async move {
            let (parts, body) = request.into_parts();
            let bytes = body.collect_bytes().await.expect("a body");
            let path = parts.uri.path_and_query().map(ToString::to_string).unwrap_or_default();
            let request = Asked {
                method: parts.method.to_string(),
                path,
                body: serde_json::from_slice(&bytes).unwrap_or_default(),
            };
            keep.lock().expect("requests").push(request.clone());
            let (code, value) = match answer(&request) {
                Answer::Object(object) => (200, object),
                Answer::Refusal(code, reason) => (
                    code,
                    json!({ "kind": "Status", "status": "Failure", "reason": reason, "message": reason, "code": code }),
                ),
                Answer::Nothing => std::future::pending().await,
            };
            let response =
                axum::http::Response::builder().status(code).body(Body::from(value.to_string().into_bytes()));
            Ok::<_, Infallible>(response.expect("a response"))
        }
    });
    (Client::new(service, "default"), asked)
}
