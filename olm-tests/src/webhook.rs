//! A mutating admission webhook, as a cluster's policy tool runs one, for the DaemonSets of one namespace.
//!
//! The API server calls it over TLS like any other. Must not know the operator.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::Response;
use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use k8s_openapi::api::apps::v1::DaemonSet;
use kube::Client;
use kube::api::{Api, DeleteParams, PostParams};
use serde_json::{Value, json};

use crate::eventually;
use crate::lab::SOON;
use crate::pki::{Ca, TlsListener};

/// What it does with a request (`request` of an AdmissionReview): operations of a JSON patch.
type Answer = Arc<dyn Fn(Value) -> Pin<Box<dyn Future<Output = Vec<Value>> + Send>> + Send + Sync>;

/// A webhook that is called.
pub struct Webhook {
    client: Client,
    name: String,
}

impl Webhook {
    /// Starts one and registers it.
    pub async fn of_daemonsets<F, Fut>(client: &Client, namespace: &str, answer: F) -> Self
    where
        F: Fn(Value) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Vec<Value>> + Send + 'static,
    {
        let ca = Ca::new("webhook");
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let port = listener.local_addr().expect("an address").port();
        let called = Arc::new(AtomicBool::new(false));
        let mark = called.clone();
        let answer: Answer = Arc::new(move |request| {
            mark.store(true, Ordering::SeqCst);
            Box::pin(answer(request))
        });
        let app = Router::new().fallback(review).with_state(answer);
        tokio::spawn(axum::serve(TlsListener::new(listener, &ca.server(&["localhost"], true)), app).into_future());
        let name = format!("{namespace}.webhook.example");
        let configuration = json!({
            "metadata": { "name": name },
            "webhooks": [{
                "name": name,
                "admissionReviewVersions": ["v1"],
                "sideEffects": "None",
                "clientConfig": { "url": format!("https://localhost:{port}/"),
                "caBundle": base64(ca.pem().as_bytes()) },
                "namespaceSelector": { "matchLabels": { "kubernetes.io/metadata.name": namespace } },
                "rules": [{ "apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"],
                "resources": ["daemonsets"] }],
            }],
        });
        let configuration = serde_json::from_value(configuration).expect("a configuration");
        webhooks(client).create(&PostParams::default(), &configuration).await.expect("the webhook is registered");
        // The API server takes a moment to hear of it.
        let probe = json!({ "metadata": { "name": "probe" }, "spec": {
            "selector": { "matchLabels": { "a": "b" } },
            "template": { "metadata": { "labels": { "a": "b" } },
            "spec": { "containers": [{ "name": "c", "image": "i" }] } },
        } });
        let probe: DaemonSet = serde_json::from_value(probe).expect("a DaemonSet");
        let daemonsets: Api<DaemonSet> = Api::namespaced(client.clone(), namespace);
        eventually("the webhook is called", SOON, || async {
            daemonsets
                .create(&PostParams { dry_run: true, ..PostParams::default() }, &probe)
                .await
                .map_err(|e| e.to_string())?;
            if called.load(Ordering::SeqCst) { Ok(()) } else { Err("not called".to_owned()) }
        })
        .await;
        Self { client: client.clone(), name }
    }

    /// Takes it out of the cluster.
    pub async fn end(self) {
        webhooks(&self.client).delete(&self.name, &DeleteParams::default()).await.expect("the webhook is removed");
    }
}

fn webhooks(client: &Client) -> Api<MutatingWebhookConfiguration> {
    Api::all(client.clone())
}

async fn review(State(answer): State<Answer>, body: Bytes) -> Response {
    let review: Value = serde_json::from_slice(&body).expect("an AdmissionReview");
    let request = review["request"].clone();
    let uid = request["uid"].clone();
    let patch = answer(request).await;
    let mut response = json!({ "uid": uid, "allowed": true });
    if !patch.is_empty() {
        response["patchType"] = "JSONPatch".into();
        response["patch"] = base64(Value::Array(patch).to_string().as_bytes()).into();
    }
    let review = json!({ "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response });
    Response::builder()
        .header(CONTENT_TYPE, "application/json")
        .body(Body::from(review.to_string()))
        .expect("a response")
}

fn base64(bytes: &[u8]) -> String {
    serde_json::to_value(k8s_openapi::ByteString(bytes.to_vec())).expect("bytes").as_str().expect("base64").to_owned()
}
