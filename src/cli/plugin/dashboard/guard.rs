//! The guard of the dashboard: it lets reads through, of the browser that has the token, and nothing else.
//!
//! Must not know what is read.

use std::fmt::Write as _;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Redirect, Response};

const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; \
    base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// What a browser must know.
#[derive(Clone)]
pub(super) struct Guard {
    pub(super) token: Arc<str>,
    /// Names by which this server may be called.
    pub(super) hosts: Arc<[String; 2]>,
    pub(super) port: u16,
}

impl Guard {
    /// Name of the cookie that has the token. A browser keeps one jar for all ports of a host.
    fn cookie(&self) -> String {
        format!("oneagent-dashboard-{}", self.port)
    }
}

/// A new token; a request without it gets no answer.
pub(super) fn token() -> Result<String, String> {
    let mut bytes = [0_u8; 16];
    getrandom::fill(&mut bytes).map_err(|error| format!("no random numbers: {error}"))?;
    Ok(bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    }))
}

/// What a request may ask beside a path.
#[derive(Debug, Default)]
pub(super) struct Asked {
    token: String,
    pub(super) object: usize,
    pub(super) node: String,
}

impl Asked {
    pub(super) fn of(request: &Request) -> Self {
        let mut asked = Self::default();
        for (name, value) in url::form_urlencoded::parse(request.uri().query().unwrap_or_default().as_bytes()) {
            match &*name {
                "token" => asked.token = value.into_owned(),
                "object" => asked.object = value.parse().unwrap_or(usize::MAX),
                "node" => asked.node = value.into_owned(),
                _ => {}
            }
        }
        asked
    }
}

/// Lets nothing through but reads of the browser that has the token.
pub(super) async fn guarded(State(guard): State<Guard>, request: Request, next: Next) -> Response {
    let asked = Asked::of(&request);
    let refused = |code: StatusCode, why: &'static str| (code, why).into_response();
    let mut answer = if request.method() != Method::GET {
        refused(StatusCode::METHOD_NOT_ALLOWED, "this page reads only")
    } else if !has_host(request.headers(), &guard.hosts[..]) {
        refused(StatusCode::FORBIDDEN, "this page has another address")
    } else if is_same(&asked.token, &guard.token) {
        let cookie = format!("{}={}; HttpOnly; SameSite=Strict; Path=/", guard.cookie(), guard.token);
        let mut answer = Redirect::to("/").into_response();
        if let Ok(cookie) = HeaderValue::from_str(&cookie) {
            answer.headers_mut().insert(header::SET_COOKIE, cookie);
        }
        answer
    } else if has_token(request.headers(), &guard) {
        next.run(request).await
    } else {
        refused(StatusCode::FORBIDDEN, "open the address that kubectl oneagent dashboard printed")
    };
    let headers = [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::CACHE_CONTROL, "no-store"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::X_FRAME_OPTIONS, "DENY"),
    ];
    for (name, value) in headers {
        answer.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    answer
}

/// A page of another host that was led here by its name must not read this one.
fn has_host(headers: &HeaderMap, hosts: &[String]) -> bool {
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok());
    host.is_some_and(|host| hosts.iter().any(|known| known == host))
}

fn has_token(headers: &HeaderMap, guard: &Guard) -> bool {
    let own = guard.cookie();
    let cookies = headers.get_all(header::COOKIE).iter().filter_map(|cookies| cookies.to_str().ok());
    let pairs = cookies.flat_map(|cookies| cookies.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.filter(|(name, _)| *name == own).any(|(_, value)| is_same(value, &guard.token))
}

/// Takes as long for each guess of the same length.
fn is_same(guess: &str, token: &str) -> bool {
    let differs = guess.bytes().zip(token.bytes()).fold(0, |differs, (a, b)| differs | (a ^ b));
    guess.len() == token.len() && differs == 0
}
