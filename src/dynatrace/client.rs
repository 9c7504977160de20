//! One environment's client: a method per question, every call bounded in time and size.
//!
//! Here because the rules of talking to the vendor (header, timeouts, redirects, the error envelope) must hold for
//! every call. Must not decide when to call: that is the poller's.

use std::collections::BTreeSet;
use std::time::Duration;

use chrono::{DateTime, Utc};
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use reqwest::{Method, StatusCode, redirect};
use secrecy::{ExposeSecret, SecretString};
use serde::de::DeserializeOwned;
use tokio::time::Instant;

use super::error::{Error, OtherHost, cause, short};
use super::types::{Accepted, ConnectionInfo, Envelope, Host, Hosts, Metainfo, Offered, TokenInfo};
use crate::api::name::Version;

const INSTALLER: &str = "/v1/deployment/installer/agent";
/// An answer is at most this large, hosts apart.
const BODY_MIB: usize = 2;
/// A page of hosts is at most this large.
const HOSTS_MIB: usize = 16;
/// Hosts on a page.
const PAGE: &str = "2000";
/// Who tells of events.
const SOURCE: &str = "OneAgent Operator";
/// More pages than any environment has: an end to a server that always names a next one.
const PAGES: usize = 150;
/// A host list that takes longer says little of now, and others wait for their turn.
const LISTING: Duration = Duration::from_secs(600);
/// More addresses of hosts than any environment has: an end to a list that would fill the memory.
const ADDRESSES: usize = 300_000;

/// How to reach an environment. Its `Debug` shows no secret.
#[derive(Debug, Clone, Default)]
pub struct Transport {
    /// Proxy URL, which may hold a password.
    pub proxy: Option<SecretString>,
    /// PEM certificates to trust beside the system's.
    pub trusted: Option<String>,
    /// Hosts, domains and networks that are reached without the proxy, separated by commas.
    pub no_proxy: Option<String>,
    /// Whether certificates go unverified.
    pub skip_cert_check: bool,
    /// Longest time for a whole call.
    pub timeout: Duration,
}

/// A client for one environment.
#[derive(Debug, Clone)]
pub struct Client {
    http: reqwest::Client,
    base: String,
    timeout: Duration,
    is_proxied: bool,
}

/// Whether the TLS library takes a certificate as an authority's.
fn is_usable(certificate: &reqwest::Certificate) -> bool {
    reqwest::Client::builder().tls_certs_only([certificate.clone()]).build().is_ok()
}

impl Client {
    /// A client for `base`, which ends in `/api`.
    pub fn new(base: &str, transport: &Transport) -> Result<Self, Error> {
        let follow_at_home = redirect::Policy::custom(|attempt| {
            let host = |url: &reqwest::Url| {
                (url.scheme().to_owned(), url.host_str().map(str::to_owned), url.port_or_known_default())
            };
            let here = attempt.previous().first().map(host);
            if here != Some(host(attempt.url())) {
                let elsewhere = attempt.url().host_str().unwrap_or("?").to_owned();
                return attempt.error(OtherHost(elsewhere));
            }
            if attempt.previous().len() > 3 { attempt.stop() } else { attempt.follow() }
        });
        let mut builder = reqwest::Client::builder()
            .user_agent(concat!("oneagent-operator/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(transport.timeout.min(Duration::from_secs(10)))
            .timeout(transport.timeout)
            .pool_max_idle_per_host(1)
            .pool_idle_timeout(Duration::from_secs(20))
            .redirect(follow_at_home)
            .tls_danger_accept_invalid_certs(transport.skip_cert_check);
        if let Some(proxy) = &transport.proxy {
            // The URL standard reads it as a slash, so that the user's domain would be the host.
            if proxy.expose_secret().contains('\\') {
                return Err(Error::Setup("the proxy's URL has a backslash: write %5C for that of a user name".into()));
            }
            let proxy = reqwest::Proxy::all(proxy.expose_secret())
                .map_err(|_| Error::Setup("the proxy is not a URL such as http://proxy.example:3128".into()))?;
            let direct = transport.no_proxy.as_deref().and_then(reqwest::NoProxy::from_string);
            builder = builder.proxy(proxy.no_proxy(direct));
        }
        if let Some(pem) = &transport.trusted {
            let certificates = reqwest::Certificate::from_pem_bundle(pem.as_bytes())
                .ok()
                .filter(|certificates| !certificates.is_empty());
            let certificates = certificates.ok_or_else(|| {
                Error::Setup(
                    "the ConfigMap with trusted certificates (key certs of that in spec.trustedCAs, key ca-bundle.crt \
                    with spec.openshift.clusterCAs) holds no PEM certificate"
                        .into(),
                )
            })?;
            if let Some(number) = certificates.iter().position(|certificate| !is_usable(certificate)) {
                let all = certificates.len();
                return Err(Error::Setup(format!(
                    "certificate {} of the {all} in the ConfigMap with trusted certificates cannot be read: correct or \
                     remove it",
                    number + 1
                )));
            }
            builder = builder.tls_certs_merge(certificates);
        }
        let http = builder.build().map_err(|error| Error::Setup(cause(&error.without_url())))?;
        let is_proxied = transport.proxy.is_some();
        Ok(Self { http, base: base.trim_end_matches('/').to_owned(), timeout: transport.timeout, is_proxied })
    }

    /// The newest agent version.
    pub async fn latest(&self, paas: &SecretString) -> Result<Version, Error> {
        let answer: Metainfo =
            self.get(&format!("{INSTALLER}/unix/default/latest/metainfo?flavor=default&arch=all"), paas).await?;
        let text = answer.latest_agent_version.filter(|v| !v.is_empty()).ok_or(Error::Lacks("latestAgentVersion"))?;
        text.parse().map_err(|error: crate::api::name::NotAVersion| Error::NotJson(error.to_string()))
    }

    /// The versions on offer, newest first. Those of another format are left out.
    pub async fn offered(&self, paas: &SecretString) -> Result<Vec<Version>, Error> {
        let answer: Offered =
            self.get(&format!("{INSTALLER}/versions/unix/default?flavor=default&arch=all"), paas).await?;
        let mut versions: Vec<Version> = answer
            .available_versions
            .ok_or(Error::Lacks("availableVersions"))?
            .iter()
            .filter_map(|v| v.parse().ok())
            .collect();
        versions.sort_unstable_by(|a, b| b.cmp(a));
        Ok(versions)
    }

    /// The environment's identity, and the addresses that agents of a network zone talk to.
    pub async fn connection(
        &self,
        paas: &SecretString,
        zone: Option<&str>,
    ) -> Result<(String, Option<Vec<String>>), Error> {
        let zone = zone.map(|zone| format!("?networkZone={}", encode(zone))).unwrap_or_default();
        let answer: ConnectionInfo = self.get(&format!("{INSTALLER}/connectioninfo{zone}"), paas).await?;
        let id = answer.tenant_uuid.filter(|id| !id.is_empty()).ok_or(Error::Lacks("tenantUUID"))?;
        // No environment has none: an answer without says nothing about them.
        Ok((id, answer.communication_endpoints.filter(|endpoints| !endpoints.is_empty())))
    }

    /// The scopes of a token.
    pub async fn scopes(&self, token: &SecretString) -> Result<Vec<String>, Error> {
        let body = || serde_json::json!({ "token": token.expose_secret().trim() }).to_string();
        let first = self.call(Method::POST, "/v2/apiTokens/lookup", token, Some(body()), BODY_MIB).await;
        let answer = match first {
            Err(Error::Status { code: 404, .. }) => {
                self.call(Method::POST, "/v1/tokens/lookup", token, Some(body()), BODY_MIB).await?
            }
            other => other?,
        };
        let info: TokenInfo = json(&answer.body)?;
        info.scopes.ok_or(Error::Lacks("scopes"))
    }

    /// The version that each host's agent reports, of the hosts in these network zones (as [`zone_key`] has them).
    ///
    /// [`zone_key`]: super::types::zone_key
    pub async fn hosts(&self, api: &SecretString, zones: &BTreeSet<String>) -> Result<Hosts, Error> {
        let mut found = Hosts::of_zones(zones);
        let mut addresses = 0;
        self.each_host(api, |host| {
            let Some(version) = host_version(&host) else { return };
            for ip in host.ip_addresses.iter().flatten().filter_map(|ip| ip.parse().ok()) {
                if addresses < ADDRESSES {
                    addresses += usize::from(found.add(host.network_zone_id.as_deref(), ip, version));
                }
            }
        })
        .await?;
        if addresses >= ADDRESSES { Err(Error::TooMany(ADDRESSES)) } else { Ok(found) }
    }

    /// Hands over every host of the last half hour, page by page.
    pub(super) async fn each_host(&self, api: &SecretString, mut take: impl FnMut(Host) + Send) -> Result<(), Error> {
        let mut query = format!("includeDetails=false&relativeTime=30mins&pageSize={PAGE}");
        let end = Instant::now() + LISTING;
        for _ in 0..PAGES {
            let path = format!("/v1/entity/infrastructure/hosts?{query}");
            let page = tokio::time::timeout_at(end, self.call(Method::GET, &path, api, None, HOSTS_MIB));
            let answer = page.await.map_err(|_| Error::Timeout(LISTING.as_secs()))??;
            json::<Vec<Host>>(&answer.body)?.into_iter().for_each(&mut take);
            match answer.next_page {
                None => return Ok(()),
                Some(key) => query = format!("nextPageKey={}", encode(&key)),
            }
        }
        Err(Error::TooMany(PAGES * 2000))
    }

    /// Tells that hosts are gone for good, so that no one is paged for them. By the newer API; where the environment
    /// has none, or the token not its scope, by the older one, which is content with the scope of the host list.
    pub async fn terminated(
        &self,
        api: &SecretString,
        entities: &[String],
        at: DateTime<Utc>,
        note: &str,
    ) -> Result<(), Error> {
        const KIND: &str = "MARKED_FOR_TERMINATION";
        const TITLE: &str = "Node removed from its Kubernetes cluster";
        let at = at.timestamp_millis();
        let ids: Vec<String> = entities.iter().map(|id| format!("\"{id}\"")).collect();
        let event = serde_json::json!({
            "eventType": KIND, "title": TITLE, "startTime": at, "endTime": at,
            "entitySelector": format!("entityId({})", ids.join(",")), "properties": { "source": SOURCE, "nodes": note },
        });
        let newer = self.call(Method::POST, "/v2/events/ingest", api, Some(event.to_string()), BODY_MIB).await;
        let answer = match newer {
            Err(Error::Forbidden(_) | Error::Status { code: 404, .. }) => {
                let event = serde_json::json!({
                    "eventType": KIND, "source": SOURCE, "description": format!("{TITLE}: {note}"), "start": at,
                    "end": at,
                    "attachRules": { "entityIds": entities },
                });
                self.call(Method::POST, "/v1/events", api, Some(event.to_string()), BODY_MIB).await?
            }
            other => other?,
        };
        // Any JSON object will do: a login page is none.
        json::<Accepted>(&answer.body).map(drop)
    }

    async fn get<T: DeserializeOwned>(&self, path: &str, token: &SecretString) -> Result<T, Error> {
        json(&self.call(Method::GET, path, token, None, BODY_MIB).await?.body)
    }

    async fn call(
        &self,
        method: Method,
        path: &str,
        token: &SecretString,
        body: Option<String>,
        mib: usize,
    ) -> Result<Answer, Error> {
        let failed = |error| Error::from_reqwest(error, self.timeout, self.is_proxied);
        let mut header = HeaderValue::from_str(&format!("Api-Token {}", token.expose_secret().trim()))
            .map_err(|_| Error::Unauthorized("the token has characters that no token has".into()))?;
        header.set_sensitive(true);
        let mut request = self.http.request(method, format!("{}{path}", self.base)).header(AUTHORIZATION, header);
        if let Some(body) = body {
            request = request.header(CONTENT_TYPE, "application/json").body(body);
        }
        let mut response = request.send().await.map_err(failed)?;
        let status = response.status();
        let retry_after = response
            .headers()
            .get(RETRY_AFTER)
            .and_then(|v| v.to_str().ok())
            .and_then(|v| v.trim().parse().ok())
            .map(Duration::from_secs);
        let next_page = response
            .headers()
            .get("Next-Page-Key")
            .and_then(|v| v.to_str().ok())
            .filter(|v| !v.is_empty())
            .map(str::to_owned);
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(failed)? {
            if body.len() + chunk.len() > mib << 20 {
                return Err(Error::TooLarge(mib));
            }
            body.extend_from_slice(&chunk);
        }
        if matches!(status, StatusCode::OK | StatusCode::CREATED) {
            Ok(Answer { body, next_page })
        } else {
            Err(refusal(status, retry_after, &scrubbed(&body, token)))
        }
    }
}

/// An answer without the token, should it quote that: what it says may stand in a status.
fn scrubbed(body: &[u8], token: &SecretString) -> Vec<u8> {
    let token = token.expose_secret().trim();
    let text = String::from_utf8_lossy(body);
    // The part after the last dot is the secret one; the rest is the token's public name.
    let secret = token.rsplit_once('.').map_or(token, |(_, secret)| secret);
    if secret.is_empty() {
        text.into_owned().into_bytes()
    } else {
        text.replace(token, "(token)").replace(secret, "(token)").into_bytes()
    }
}

struct Answer {
    body: Vec<u8>,
    next_page: Option<String>,
}

fn json<T: DeserializeOwned>(body: &[u8]) -> Result<T, Error> {
    serde_json::from_slice(body).map_err(|error| {
        let what = match body.iter().find(|b| !b.is_ascii_whitespace()) {
            None => "it is empty".to_owned(),
            Some(b'<') => "it is HTML".to_owned(),
            Some(_) if error.is_eof() => "it ends in the middle".to_owned(),
            Some(_) => format!("line {} column {}", error.line(), error.column()),
        };
        Error::NotJson(what)
    })
}

fn refusal(status: StatusCode, after: Option<Duration>, body: &[u8]) -> Error {
    let envelope = serde_json::from_slice::<Envelope>(body).ok().map(|e| e.error);
    let code = envelope.as_ref().and_then(|e| e.code).unwrap_or(status.as_u16());
    let message = envelope
        .and_then(|e| e.message)
        .map_or_else(|| status.canonical_reason().unwrap_or("no reason given").to_owned(), |m| short(&m));
    match code {
        401 => Error::Unauthorized(message),
        403 => Error::Forbidden(message),
        429 => Error::Throttled { code, after },
        503 if after.is_some() => Error::Throttled { code, after },
        300..=399 => Error::Redirect(message),
        _ => Error::Status { code, message },
    }
}

fn host_version(host: &Host) -> Option<Version> {
    let version = host.agent_version.as_ref()?;
    format!("{}.{}.{}.{}", version.major?, version.minor?, version.revision?, version.timestamp.as_deref()?)
        .parse()
        .ok()
}

fn encode(text: &str) -> String {
    text.bytes()
        .map(|b| match b {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => (b as char).to_string(),
            _ => format!("%{b:02X}"),
        })
        .collect()
}
