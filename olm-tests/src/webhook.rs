//! A mutating admission webhook, as a cluster's policy tool runs one, for the DaemonSets or the new Pods of one
//! namespace.
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
use kube::Client;
use kube::api::{Api, DeleteParams, DynamicObject, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::{Value, json};

use crate::eventually;
use crate::pki::{Ca, TlsListener};
use crate::wait::SOON;

/// What it does with a request (`request` of an AdmissionReview): operations of a JSON patch, or why it refuses.
type Answer = Arc<dyn Fn(Value) -> Pin<Box<dyn Future<Output = Result<Vec<Value>, String>> + Send>> + Send + Sync>;

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
        let answer: Answer = Arc::new(move |request| {
            let patch = answer(request);
            Box::pin(async { Ok(patch.await) })
        });
        Self::start(client, namespace, ("apps", "daemonsets", &["CREATE", "UPDATE"]), answer).await
    }

    /// One of Pods that are deleted, by the names of the user that asks and of the Pod; each deletion waits for it.
    pub async fn of_deletions<F, Fut>(client: &Client, namespace: &str, answer: F) -> Self
    where
        F: Fn(String, String) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), String>> + Send + 'static,
    {
        let answer: Answer = Arc::new(move |request| {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let said = answer(text(&request["userInfo"]["username"]), text(&request["name"]));
            Box::pin(async { said.await.map(|()| Vec::new()) })
        });
        Self::start(client, namespace, ("", "pods", &["DELETE"]), answer).await
    }

    /// One of evictions; each waits for it.
    pub async fn of_evictions<F, Fut>(client: &Client, namespace: &str, answer: F) -> Self
    where
        F: Fn() -> Fut + Send + Sync + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        let answer: Answer = Arc::new(move |_| {
            let said = answer();
            Box::pin(async {
                said.await;
                Ok(Vec::new())
            })
        });
        Self::start(client, namespace, ("", "pods/eviction", &["CREATE"]), answer).await
    }

    /// One of new Pods, as OpenShift's admission is.
    pub async fn of_pods<F>(client: &Client, namespace: &str, answer: F) -> Self
    where
        F: Fn(&Value) -> Result<Vec<Value>, String> + Send + Sync + 'static,
    {
        let answer: Answer = Arc::new(move |request| {
            let said = answer(&request["object"]);
            Box::pin(async { said })
        });
        Self::start(client, namespace, ("", "pods", &["CREATE"]), answer).await
    }

    async fn start(
        client: &Client,
        namespace: &str,
        (group, resource, operations): (&str, &str, &[&str]),
        answer: Answer,
    ) -> Self {
        let ca = Ca::new("webhook");
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let port = listener.local_addr().expect("an address").port();
        let called = Arc::new(AtomicBool::new(false));
        let mark = called.clone();
        let answer: Answer = Arc::new(move |request| {
            mark.store(true, Ordering::SeqCst);
            answer(request)
        });
        let app = Router::new().fallback(review).with_state(answer);
        tokio::spawn(axum::serve(TlsListener::new(listener, &ca.server(&["localhost"], true)), app).into_future());
        let name = format!("{}.{namespace}.webhook.example", resource.replace('/', "-"));
        let configuration = json!({
            "metadata": { "name": name },
            "webhooks": [{
                "name": name,
                "admissionReviewVersions": ["v1"],
                "sideEffects": "None",
                "timeoutSeconds": 30,
                "clientConfig": { "url": format!("https://localhost:{port}/"),
                "caBundle": base64(ca.pem().as_bytes()) },
                "namespaceSelector": { "matchLabels": { "kubernetes.io/metadata.name": namespace } },
                "rules": [{ "apiGroups": [group], "apiVersions": ["v1"], "operations": operations,
                "resources": [resource] }],
            }],
        });
        let configuration = serde_json::from_value(configuration).expect("a configuration");
        webhooks(client).create(&PostParams::default(), &configuration).await.expect("the webhook is registered");
        if operations == ["DELETE"] || resource == "pods/eviction" {
            // Nothing is there that could go for a try: the first deletion shows whether it is called.
            return Self { client: client.clone(), name };
        }
        // The API server takes a moment to hear of it.
        let pod = json!({ "containers": [{ "name": "c", "image": "i" }] });
        let (kind, spec) = if resource == "pods" {
            ("Pod", pod)
        } else {
            let template = json!({ "metadata": { "labels": { "a": "b" } }, "spec": pod });
            ("DaemonSet", json!({ "selector": { "matchLabels": { "a": "b" } }, "template": template }))
        };
        let probe = json!({ "metadata": { "name": "probe" }, "spec": spec });
        let probe: DynamicObject = serde_json::from_value(probe).expect("an object");
        let kind = ApiResource::from_gvk(&GroupVersionKind::gvk(group, "v1", kind));
        let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &kind);
        eventually("the webhook is called", SOON, || async {
            let probed = api.create(&PostParams { dry_run: true, ..PostParams::default() }, &probe).await;
            // It may refuse that one.
            let probed = probed.map_err(|e| e.to_string());
            probed.or_else(|why| if why.contains("denied the request") { Ok(probe.clone()) } else { Err(why) })?;
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
    let (patch, refusal) = match answer(request).await {
        Ok(patch) => (patch, None),
        Err(why) => (Vec::new(), Some(why)),
    };
    let mut response = json!({ "uid": uid, "allowed": refusal.is_none() });
    if let Some(why) = refusal {
        response["status"] = json!({ "message": why });
    }
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
