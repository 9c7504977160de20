//! `dashboard`: the page of a fleet, fed live, for the browser of the user who started it.
//!
//! Reads only: no request changes anything. It listens on loopback alone, and answers only a browser that has the token
//! of its address. Must not judge a node: that is the operator's own code.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fmt::Write as _;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::get;
use futures::{Stream, stream};
use serde::Serialize;
use tokio::net::TcpListener;
use tokio::sync::watch;

use super::live::Judged;
use super::managed::Managed;
use super::object::{Object, objects};
use super::watched::Watched;
use super::{Cx, WELL};
use crate::api::condition::timestamp;
use crate::clock::Clock;
use crate::fleet::cells::Cell;
use crate::page::picture::{Frame, Line, Picture, Shown, Whole, number};
use crate::page::{self, SCRIPT, STYLE};

/// No more than so many pictures a second are made.
const BETWEEN: Duration = Duration::from_millis(200);
/// Times in what is said are true again within this.
const AGAIN: Duration = Duration::from_secs(5);
/// A connection without news is kept open so.
const ALIVE: Duration = Duration::from_secs(15);

/// Name of the cookie that has the token.
const COOKIE: &str = "oneagent-dashboard";
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; \
    base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// How an object is.
#[derive(Debug, Clone, Default, PartialEq)]
struct Now {
    name: String,
    /// Zone of each node, and the number of its cell.
    nodes: BTreeMap<String, (String, usize)>,
    whole: Whole,
    events: Vec<Line>,
    trouble: String,
}

/// What is served.
#[derive(Clone)]
struct Served {
    token: Arc<str>,
    /// Names by which this server may be called.
    hosts: Arc<[String; 2]>,
    clock: Clock,
    began: chrono::DateTime<chrono::Utc>,
    shown: Arc<Vec<(Object, Arc<Watched>)>>,
    now: watch::Receiver<Arc<Vec<Now>>>,
}

/// Serves the page until somebody ends it.
pub(super) async fn dashboard(cx: &Cx) -> Result<u8, String> {
    let reached = cx.reach().await?;
    let found = objects(cx, &reached, None).await?;
    let mut sources: Vec<((Managed, String), Arc<Watched>)> = Vec::new();
    let mut shown = Vec::new();
    for object in found.into_iter().filter(|object| object.kind.of_nodes().is_ok()) {
        let key = (object.kind, object.namespace());
        let known = sources.iter().find(|(known, _)| *known == key).map(|(_, watched)| watched.clone());
        let watched = known.unwrap_or_else(|| {
            let watched = Arc::new(Watched::of(&reached, key.0, &key.1));
            sources.push((key, watched.clone()));
            watched
        });
        shown.push((object, watched));
    }
    if shown.is_empty() {
        return Err("there is no object whose Pods belong to nodes: use status".to_owned());
    }
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await;
    let listener = listener.map_err(|error| format!("cannot listen on 127.0.0.1: {error}"))?;
    let address: SocketAddr = listener.local_addr().map_err(|error| format!("cannot listen on 127.0.0.1: {error}"))?;
    let began = cx.clock.now();
    let shown = Arc::new(shown);
    let (send, now) = watch::channel(Arc::new(all(&shown, began, began)));
    let token: Arc<str> = token()?.into();
    let port = address.port();
    let hosts = Arc::new([format!("127.0.0.1:{port}"), format!("localhost:{port}")]);
    let served = Served { token: token.clone(), hosts, clock: cx.clock.clone(), began, shown: shown.clone(), now };
    say!("http://127.0.0.1:{port}/?token={token}");
    super::paint::note("Only this address opens the page. Press Ctrl-C to end it.");
    let clock = cx.clock.clone();
    let keep = async move {
        loop {
            let changed =
                futures::future::select_all(sources.iter().map(|(_, watched)| Box::pin(watched.changed.notified())));
            tokio::select! {
                _ = changed => {}
                () = tokio::time::sleep(AGAIN) => {}
            }
            let next = Arc::new(all(&shown, clock.now(), began));
            send.send_if_modified(|last| {
                let is_news = **last != *next;
                *last = next;
                is_news
            });
            tokio::time::sleep(BETWEEN).await;
        }
    };
    let serve = axum::serve(listener, router(served));
    tokio::select! {
        ended = serve => ended.map_err(|error| format!("cannot serve the page: {error}"))?,
        () = keep => {}
        _ = tokio::signal::ctrl_c() => {}
    }
    Ok(WELL)
}

/// Who does not know this gets no answer.
fn token() -> Result<String, String> {
    let mut bytes = [0_u8; 16];
    getrandom::fill(&mut bytes).map_err(|error| format!("no random numbers: {error}"))?;
    Ok(bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    }))
}

/// How all objects are.
fn all(
    shown: &[(Object, Arc<Watched>)],
    now: chrono::DateTime<chrono::Utc>,
    began: chrono::DateTime<chrono::Utc>,
) -> Vec<Now> {
    let one = |(known, watched): &(Object, Arc<Watched>)| {
        let name = format!("{} {}/{}", known.kind.name(), known.namespace(), known.name());
        let fleet = watched.fleet();
        let trouble = match watched.trouble.lock().clone() {
            Some(Ok(why) | Err(why)) => why,
            None => String::new(),
        };
        let Some(object) = watched.object(&fleet, &known.name()) else {
            return Now { name, trouble, ..Now::default() };
        };
        let looks = Judged::of(fleet, &object).looks(now);
        let nodes = looks
            .iter()
            .map(|look| (look.name.to_string(), (look.zone.clone().unwrap_or_default(), number(Cell::of(look)))));
        let (rollout, counts) =
            (object.rollout(), object.status.as_ref().and_then(|status| status.nodes.clone()).unwrap_or_default());
        let whole = Whole {
            state: object.state(),
            to: object.to().map(str::to_owned),
            updated: counts.updated,
            selected: counts.selected,
            said: object.degraded().map(|degraded| degraded.message.clone()).or(rollout.waiting_on.first().cloned()),
            finish: rollout.expected_finish.clone(),
        };
        let events = rollout.history.iter().rev().filter_map(|past| {
            let ended = chrono::DateTime::parse_from_rfc3339(&past.ended_at).ok()?;
            let versions = [past.from.as_deref(), past.to.as_deref()].into_iter().flatten().collect::<Vec<_>>();
            Some(Line {
                at: (ended.to_utc() - began).num_seconds(),
                warning: past.result != "Complete",
                reason: past.result.clone(),
                message: versions.join(" to "),
            })
        });
        Now { name, nodes: nodes.collect(), whole, events: events.collect(), trouble }
    };
    shown.iter().map(one).collect()
}

fn router(served: Served) -> Router {
    let text = |kind: &'static str, text: &'static str| move || async move { ([(header::CONTENT_TYPE, kind)], text) };
    Router::new()
        .route("/", get(async || ([(header::CONTENT_TYPE, "text/html; charset=utf-8")], page::served())))
        .route("/page.css", get(text("text/css; charset=utf-8", STYLE)))
        .route("/page.js", get(text("text/javascript; charset=utf-8", SCRIPT)))
        .route("/events", get(events))
        .route("/explain", get(explain))
        .layer(middleware::from_fn_with_state(served.clone(), guarded))
        .with_state(served)
}

/// What a request may ask beside a path.
#[derive(Debug, Default)]
struct Asked {
    token: String,
    object: usize,
    node: String,
}

impl Asked {
    fn of(request: &Request) -> Self {
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
async fn guarded(State(served): State<Served>, request: Request, next: Next) -> Response {
    let asked = Asked::of(&request);
    let refused = |code: StatusCode, why: &'static str| (code, why).into_response();
    let mut answer = if request.method() != Method::GET {
        refused(StatusCode::METHOD_NOT_ALLOWED, "this page reads only")
    } else if !has_host(request.headers(), &served.hosts[..]) {
        refused(StatusCode::FORBIDDEN, "this page has another address")
    } else if is_same(&asked.token, &served.token) {
        let cookie = format!("{COOKIE}={}; HttpOnly; SameSite=Strict; Path=/", served.token);
        let mut answer = Redirect::to("/").into_response();
        if let Ok(cookie) = HeaderValue::from_str(&cookie) {
            answer.headers_mut().insert(header::SET_COOKIE, cookie);
        }
        answer
    } else if has_token(request.headers(), &served.token) {
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

fn has_token(headers: &HeaderMap, token: &str) -> bool {
    let cookies = headers.get_all(header::COOKIE).iter().filter_map(|cookies| cookies.to_str().ok());
    let pairs = cookies.flat_map(|cookies| cookies.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.filter(|(name, _)| *name == COOKIE).any(|(_, value)| is_same(value, token))
}

/// Takes as long for each guess of the same length.
fn is_same(guess: &str, token: &str) -> bool {
    let differs = guess.bytes().zip(token.bytes()).fold(0, |differs, (a, b)| differs | (a ^ b));
    guess.len() == token.len() && differs == 0
}

/// What there is to say of a node.
async fn explain(State(served): State<Served>, request: Request) -> Response {
    let asked = Asked::of(&request);
    let Some((known, watched)) = served.shown.get(asked.object) else {
        return (StatusCode::NOT_FOUND, "there is no such object").into_response();
    };
    let fleet = watched.fleet();
    let found = watched.object(&fleet, &known.name());
    let said = found.and_then(|object| Judged::of(fleet, &object).node(&asked.node, served.clock.now()));
    let Some(said) = said else { return (StatusCode::NOT_FOUND, "there is no such node").into_response() };
    let remedy = said.remedy.map(|remedy| format!(". To fix it: {remedy}")).unwrap_or_default();
    format!("{}{remedy}", said.what).into_response()
}

/// What is new of an object.
#[derive(Debug, Serialize)]
struct Change {
    object: usize,
    nodes: Vec<(String, String)>,
    frames: Vec<Frame>,
    wholes: Vec<(i64, Whole)>,
    events: Vec<Line>,
}

fn event<T: Serialize>(name: &str, what: &T) -> Option<Event> {
    Some(Event::default().event(name).data(serde_json::to_string(what).ok()?))
}

/// What a browser was told.
struct Told {
    served: Served,
    now: watch::Receiver<Arc<Vec<Now>>>,
    /// What it knows of each object, and the number of each node.
    known: Vec<(Now, BTreeMap<String, usize>)>,
    /// What is to be said before anything new.
    queue: Vec<Event>,
}

async fn events(State(served): State<Served>) -> Sse<impl Stream<Item = Result<Event, Infallible>>> {
    let told = Told { now: served.now.clone(), served, known: Vec::new(), queue: Vec::new() };
    let stream = stream::unfold(told, |mut told| async move {
        loop {
            if let Some(event) = told.queue.pop() {
                return Some((Ok(event), told));
            }
            if !told.known.is_empty() {
                told.now.changed().await.ok()?;
            }
            let now = told.now.borrow_and_update().clone();
            told.say(&now);
        }
    });
    Sse::new(stream).keep_alive(KeepAlive::new().interval(ALIVE))
}

impl Told {
    /// Puts into the queue what a browser does not know.
    fn say(&mut self, now: &[Now]) {
        let at = (self.served.clock.now() - self.served.began).num_seconds();
        let is_first = self.known.is_empty();
        self.known.resize_with(now.len(), Default::default);
        let changes: Vec<Change> = now.iter().enumerate().map(|(object, now)| self.change(object, now, at)).collect();
        let mut all = Vec::new();
        let trouble = now.iter().map(|now| now.trouble.as_str()).find(|trouble| !trouble.is_empty());
        if is_first {
            let shown = |(change, now): (Change, &Now)| Shown {
                name: now.name.clone(),
                nodes: change.nodes,
                frames: change.frames,
                wholes: change.wholes,
                events: change.events,
            };
            let objects = changes.into_iter().zip(now).map(shown).collect();
            let title = "OneAgent rollouts".to_owned();
            let picture = Picture { title, begins: timestamp(self.served.began), live: true, objects };
            all.extend(event("picture", &picture));
        } else {
            let has_news =
                |change: &&Change| !(change.frames.is_empty() && change.wholes.is_empty() && change.events.is_empty());
            let news = changes.iter().filter(has_news);
            all.extend(news.filter_map(|change| event("change", change)));
        }
        all.push(Event::default().event("trouble").data(trouble.unwrap_or_default()));
        all.reverse();
        self.queue = all;
    }

    fn change(&mut self, object: usize, now: &Now, at: i64) -> Change {
        let (known, numbers) = &mut self.known[object];
        let mut change =
            Change { object, nodes: Vec::new(), frames: Vec::new(), wholes: Vec::new(), events: Vec::new() };
        let mut cells = Vec::new();
        for (name, (zone, cell)) in &now.nodes {
            let next = numbers.len();
            let number = *numbers.entry(name.clone()).or_insert_with(|| {
                change.nodes.push((name.clone(), zone.clone()));
                next
            });
            if known.nodes.get(name).map(|(_, cell)| cell) != Some(cell) {
                cells.push((number, Some(*cell)));
            }
        }
        let gone = known.nodes.keys().filter(|name| !now.nodes.contains_key(*name));
        cells.extend(gone.map(|name| (numbers[name], None)));
        if !cells.is_empty() {
            change.frames.push((at, cells));
        }
        if known.whole != now.whole {
            change.wholes.push((at, now.whole.clone()));
        }
        change.events.extend(now.events.iter().filter(|event| !known.events.contains(event)).cloned());
        *known = now.clone();
        change
    }
}
