//! The vendor's stand-in: its published shapes, paging, scopes and error envelope, and every way to misbehave.
//!
//! One server for many environments: `…/e/NAME/api`, as Managed addresses look. Must not know the operator.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{Method, StatusCode, header};
use axum::response::Response;
use serde_json::{Value, json};

/// How an environment answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mood {
    /// As it should.
    #[default]
    Well,
    /// 401.
    Unauthorized,
    /// 403.
    Forbidden,
    /// 429 with Retry-After in seconds.
    Throttled(u64),
    /// 500 with the envelope.
    Broken,
    /// A login page with 200.
    Html,
    /// Nothing with 200.
    Empty,
    /// Half an answer.
    Truncated,
    /// More than a reader can use.
    Huge,
    /// The right answer, late.
    Slow(Duration),
    /// No answer.
    Hanging,
    /// A redirect to another host.
    Redirect,
}

#[derive(Debug, Clone, Default)]
pub struct Environment {
    /// Newest version.
    pub latest: String,
    /// Versions on offer.
    pub offered: Vec<String>,
    /// Tokens and their scopes.
    pub tokens: BTreeMap<String, Vec<String>>,
    /// Hosts: address, or address@zone → version.
    pub hosts: BTreeMap<String, String>,
    /// Addresses that agents talk to.
    pub endpoints: Vec<String>,
    /// Addresses that agents of a network zone talk to, where they are others.
    pub zone_endpoints: BTreeMap<String, Vec<String>>,
    /// Events that were taken: by which path, and what.
    pub events: Vec<(String, Value)>,
    /// This many hosts more, made up.
    pub invented_hosts: usize,
    /// Whether there is no answer to those who ask for hosts.
    pub hides_hosts: bool,
    /// How it answers.
    pub mood: Mood,
    /// Calls so far, by path.
    pub calls: BTreeMap<String, u32>,
}

/// The stand-in.
#[derive(Debug, Clone)]
pub struct Vendor {
    environments: Arc<Mutex<BTreeMap<String, Environment>>>,
    base: String,
    tls_base: Option<String>,
}

type Shared = Arc<Mutex<BTreeMap<String, Environment>>>;

impl Vendor {
    /// Starts one; with a certificate it also serves TLS.
    pub async fn start(tls: Option<&crate::pki::Pair>) -> Self {
        let environments = Shared::default();
        let app = Router::new().fallback(answer).with_state(environments.clone());
        let bind = || async { tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port") };
        let listener = bind().await;
        let base = format!("http://{}", listener.local_addr().expect("an address"));
        tokio::spawn(axum::serve(listener, app.clone()).into_future());
        let tls_base = match tls {
            None => None,
            Some(pair) => {
                let listener = bind().await;
                let port = listener.local_addr().expect("an address").port();
                tokio::spawn(axum::serve(crate::pki::TlsListener::new(listener, pair), app).into_future());
                Some(format!("https://localhost:{port}"))
            }
        };
        Self { environments, base, tls_base }
    }

    /// An environment's API address.
    #[must_use]
    pub fn url(&self, name: &str) -> String {
        format!("{}/e/{name}/api", self.base)
    }

    /// The same over TLS.
    #[must_use]
    pub fn tls_url(&self, name: &str) -> String {
        format!("{}/e/{name}/api", self.tls_base.as_deref().expect("started with a certificate"))
    }

    /// Adds an environment with one version and the usual two tokens.
    pub fn add(&self, name: &str, version: &str) {
        let tokens = [
            (api_token(name), vec!["DataExport".to_owned()]),
            (paas_token(name), vec!["InstallerDownload".to_owned()]),
        ]
        .into();
        let environment = Environment {
            latest: version.to_owned(),
            offered: vec![version.to_owned()],
            tokens,
            endpoints: vec!["https://127.0.0.1:9999/communication".into()],
            ..Environment::default()
        };
        self.lock().insert(name.to_owned(), environment);
    }

    /// Publishes a version: it is offered, and the newest.
    pub fn publish(&self, name: &str, version: &str) {
        self.with(name, |e| {
            version.clone_into(&mut e.latest);
            e.offered.insert(0, version.to_owned());
        });
    }

    /// Reads or changes an environment.
    pub fn with<T>(&self, name: &str, act: impl FnOnce(&mut Environment) -> T) -> T {
        act(self.lock().get_mut(name).unwrap_or_else(|| panic!("no environment {name}")))
    }

    /// The environment that an installer's address belongs to, and the version it asks for.
    #[must_use]
    pub fn installer(&self, url: &str) -> Option<(String, String)> {
        let rest = url.split_once("/e/")?.1;
        let (name, path) = rest.split_once("/api/v1/deployment/installer/agent/unix/default/")?;
        let path = path.split('?').next()?;
        let version = match path.strip_prefix("version/") {
            Some(version) => version.to_owned(),
            None => self.lock().get(name)?.latest.clone(),
        };
        Some((name.to_owned(), version))
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Environment>> {
        self.environments.lock().expect("the environments")
    }
}

/// The token that reads hosts.
#[must_use]
pub fn api_token(name: &str) -> String {
    format!("dt0c01.API{}.SECRETAPI{name}", name.to_uppercase())
}

/// The token that downloads installers.
#[must_use]
pub fn paas_token(name: &str) -> String {
    format!("dt0c01.PAAS{}.SECRETPAAS{name}", name.to_uppercase())
}

/// The entity that a host is: address, or address@zone.
#[must_use]
pub fn entity(host: &str) -> String {
    let (ip, zone) = host.split_once('@').unwrap_or((host, ""));
    let number = ip.parse::<std::net::Ipv4Addr>().map_or(0, |ip| u32::from_be_bytes(ip.octets()));
    format!("HOST-{:08X}{number:08X}", zone.len())
}

fn respond(status: u16, body: &Value) -> Response {
    Response::builder()
        .status(status)
        .header(header::CONTENT_TYPE, "application/json")
        .body(Body::from(body.to_string()))
        .expect("a response")
}

fn refuse(code: u16, message: &str) -> Response {
    respond(code, &json!({ "error": { "code": code, "message": message } }))
}

async fn answer(State(environments): State<Shared>, request: Request) -> Response {
    let path = request.uri().path().to_owned();
    let query = request.uri().query().unwrap_or_default().to_owned();
    let token = request
        .headers()
        .get(header::AUTHORIZATION)
        .and_then(|v| v.to_str().ok())
        .and_then(|v| v.strip_prefix("Api-Token "))
        .unwrap_or_default()
        .to_owned();
    let Some((name, path)) =
        path.strip_prefix("/e/").and_then(|rest| rest.split_once("/api")).map(|(n, p)| (n.to_owned(), p.to_owned()))
    else {
        return refuse(404, "no such environment");
    };
    let method = request.method().clone();
    let body = axum::body::to_bytes(request.into_body(), 1 << 20).await.unwrap_or_default();
    let environment = {
        let mut all = environments.lock().expect("the environments");
        let Some(environment) = all.get_mut(&name) else { return refuse(404, "no such environment") };
        *environment.calls.entry(path.clone()).or_default() += 1;
        environment.clone()
    };
    match environment.mood {
        Mood::Well => {}
        Mood::Unauthorized => return refuse(401, "Token Authentication failed"),
        Mood::Forbidden => return refuse(403, "Token is missing required scope"),
        Mood::Throttled(seconds) => {
            let mut response = refuse(429, "Too many requests");
            response.headers_mut().insert(header::RETRY_AFTER, seconds.into());
            return response;
        }
        Mood::Broken => return refuse(500, "Internal error"),
        Mood::Html => return Response::new(Body::from("<!DOCTYPE html><html><body>Log in</body></html>")),
        Mood::Empty => return Response::new(Body::empty()),
        Mood::Truncated => return Response::new(Body::from("{\"latestAgentVersion\": \"1.2")),
        Mood::Huge => return Response::new(Body::from(vec![b' '; 70 << 20])),
        Mood::Slow(late) => tokio::time::sleep(late).await,
        Mood::Hanging => tokio::time::sleep(Duration::from_secs(3600)).await,
        Mood::Redirect => {
            return Response::builder()
                .status(StatusCode::FOUND)
                .header(header::LOCATION, "http://login.example/")
                .body(Body::empty())
                .expect("a response");
        }
    }
    if environment.hides_hosts && path.contains("/hosts") {
        std::future::pending::<()>().await;
    }
    let Some(scopes) = environment.tokens.get(&token) else { return refuse(401, "Token Authentication failed") };
    let may = |scope: &str| scopes.iter().any(|s| s == scope);
    let installer = "/v1/deployment/installer/agent";
    match (method, path.as_str()) {
        (Method::POST, "/v2/apiTokens/lookup") => {
            let asked: Value = serde_json::from_slice(&body).unwrap_or_default();
            match asked["token"].as_str().and_then(|t| environment.tokens.get(t)) {
                Some(scopes) => respond(200, &json!({ "name": "t", "enabled": true, "scopes": scopes })),
                None => refuse(404, "Token does not exist"),
            }
        }
        (Method::GET, path) if path.starts_with(installer) && !may("InstallerDownload") => {
            let _ = path;
            refuse(403, "Token is missing required scope. Use one of: InstallerDownload")
        }
        (Method::GET, p) if p == format!("{installer}/unix/default/latest/metainfo") => {
            respond(200, &json!({ "latestAgentVersion": environment.latest }))
        }
        (Method::GET, p) if p == format!("{installer}/versions/unix/default") => {
            respond(200, &json!({ "availableVersions": environment.offered }))
        }
        (Method::GET, p) if p == format!("{installer}/connectioninfo") => {
            let zone = query.strip_prefix("networkZone=").and_then(|zone| environment.zone_endpoints.get(zone));
            let endpoints = zone.unwrap_or(&environment.endpoints);
            respond(
                200,
                &json!({ "tenantUUID": name, "tenantToken": "secret-tenant-token",
                    "communicationEndpoints": endpoints }),
            )
        }
        (Method::GET, "/v1/entity/infrastructure/hosts") => hosts(&environment, &query, may("DataExport")),
        (Method::POST, "/v2/events/ingest" | "/v1/events") => event(&environments, &name, &path, &body, &may),
        _ => refuse(404, "Not found"),
    }
}

/// Takes an event. As published: the newer path wants a selector and a scope of its own and answers 201, the older one
/// attach rules and 200; both refuse what names no entity.
fn event(environments: &Shared, name: &str, path: &str, body: &[u8], may: &dyn Fn(&str) -> bool) -> Response {
    let event: Value = serde_json::from_slice(body).unwrap_or_default();
    let newer = path.starts_with("/v2");
    let scope = if newer { "events.ingest" } else { "DataExport" };
    if !may(scope) {
        return refuse(403, &format!("Token is missing required scope. Use one of: {scope}"));
    }
    let entities = if newer {
        event["entitySelector"]
            .as_str()
            .is_some_and(|s| s.starts_with("entityId(\"HOST-") && s.ends_with("\")") && s.len() <= 2000)
    } else {
        event["attachRules"]["entityIds"].as_array().is_some_and(|ids| !ids.is_empty())
    };
    let times = if newer { ("startTime", "endTime") } else { ("start", "end") };
    let has_times = event[times.0].is_i64() && event[times.1].is_i64();
    let titled = event[if newer { "title" } else { "description" }].is_string();
    if event["eventType"] != "MARKED_FOR_TERMINATION" || !entities || !has_times || !titled {
        return refuse(400, "Constraints violated.");
    }
    environments
        .lock()
        .expect("the environments")
        .get_mut(name)
        .expect("an environment")
        .events
        .push((path.to_owned(), event));
    if newer {
        respond(201, &json!({ "reportCount": 1, "eventIngestResults": [{ "correlationId": "c", "status": "OK" }] }))
    } else {
        respond(200, &json!({ "storedEventIds": [1], "storedIds": ["1"], "storedCorrelationIds": ["c"] }))
    }
}

fn hosts(environment: &Environment, query: &str, allowed: bool) -> Response {
    if !allowed {
        return refuse(403, "Token is missing required scope. Use one of: DataExport");
    }
    let parameter =
        |name: &str| query.split('&').find_map(|pair| pair.strip_prefix(&format!("{name}=")).map(str::to_owned));
    // As the real one: the key of a next page carries the first page's parameters, and is sent alone.
    let (from, size): (usize, usize) = match parameter("nextPageKey") {
        Some(key) => {
            let (from, size) = key.split_once('-').unwrap_or(("0", "500"));
            (from.parse().unwrap_or(0), size.parse().unwrap_or(500))
        }
        None => (0, parameter("pageSize").and_then(|s| s.parse().ok()).unwrap_or(500usize)),
    };
    // By number, not by skipping: an endless list is read to its bound.
    let first = from.saturating_sub(environment.hosts.len());
    let invented = (first..environment.invented_hosts).map(|i| {
        // Every third one is alone in a network zone.
        let zone = if i % 3 == 0 { format!("@zone-{i}") } else { String::new() };
        (format!("172.{}.{}.{}{zone}", 16 + i / 65536, (i / 256) % 256, i % 256), "1.100.0.20200101-000000".to_owned())
    });
    let own = environment.hosts.clone().into_iter().skip(from);
    let page: Vec<Value> = own.chain(invented).take(size).map(|(ip, version)| host(&ip, &version)).collect();
    let more = from + page.len() < environment.hosts.len() + environment.invented_hosts;
    let next = from + page.len();
    let mut response = respond(200, &Value::Array(page));
    if more {
        response.headers_mut().insert("Next-Page-Key", format!("{next}-{size}").parse().expect("a header"));
    }
    response
}

fn host(host: &str, version: &str) -> Value {
    let (ip, zone) = host.split_once('@').unwrap_or((host, "default"));
    let parts: Vec<&str> = version.splitn(4, '.').collect();
    let number_at = |at: usize| parts.get(at).and_then(|p| p.parse::<u32>().ok());
    json!({
        "entityId": entity(host),
        "displayName": format!("host-{ip}"),
        "ipAddresses": [ip],
        "lastSeenTimestamp": chrono::Utc::now().timestamp_millis(),
        "networkZoneId": zone,
        "agentVersion": { "major": number_at(0), "minor": number_at(1), "revision": number_at(2),
        "timestamp": parts.get(3), "sourceRevision": "" },
    })
}
