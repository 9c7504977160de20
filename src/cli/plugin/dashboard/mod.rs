//! `dashboard`: the page of a fleet, fed live, for the browser of the user who started it.
//!
//! Reads only: no request changes anything. It listens on loopback alone, and answers only a browser that has the token
//! of its address. Must not judge a node: that is the operator's own code.

mod guard;
mod told;

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::middleware;
use axum::response::sse::{KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use chrono::{DateTime, Utc};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::time::Instant;

use super::live::Judged;
use super::managed::Managed;
use super::object::{Object, objects};
use super::watched::{AGAIN, OPERATOR, Watched, rest};
use super::{Cx, WELL};
use crate::cli::commands::typed;
use crate::cli::explain::operator;
use crate::clock::Clock;
use crate::fleet::causes;
use crate::fleet::cells::Cell;
use crate::fleet::finding::Finding;
use crate::page::picture::{Line, Whole, number};
use crate::page::{self, SCRIPT, STYLE};
use guard::{Asked, Guard, guarded, token};
use told::Now;

/// A connection without news is kept open so.
const ALIVE: Duration = Duration::from_secs(15);

/// Which operators do not run, by name and the namespace that they must watch.
type Downs = BTreeMap<(&'static str, String), Option<String>>;

/// What is served.
#[derive(Clone)]
struct Served {
    clock: Clock,
    began: DateTime<Utc>,
    shown: Arc<Vec<(Object, Arc<Watched>)>>,
    now: watch::Receiver<Arc<Vec<Now>>>,
}

/// Serves the page until the user ends it.
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
    let (send, now) = watch::channel(Arc::new(all(&shown, began, began, &Downs::new())));
    let token: Arc<str> = token()?.into();
    let port = address.port();
    let hosts = Arc::new([format!("127.0.0.1:{port}"), format!("localhost:{port}")]);
    let served = Served { clock: cx.clock.clone(), began, shown: shown.clone(), now };
    let guard = Guard { token: token.clone(), hosts, port };
    say!("http://127.0.0.1:{port}/?token={token}");
    super::paint::note("Only this address opens the page. Press Ctrl-C to end it.");
    let clock = cx.clock.clone();
    let keep = async move {
        let mut asked: Option<Instant> = None;
        let mut downs = Downs::new();
        loop {
            if asked.is_none_or(|at| at.elapsed() > OPERATOR) {
                downs.clear();
                for (object, _) in shown.iter() {
                    let (name, namespace) = (object.kind.operator(), object.namespace());
                    if let Entry::Vacant(unknown) = downs.entry((name, namespace.clone())) {
                        let down = operator(&reached.client, (name, Some(&namespace)), clock.now()).await;
                        unknown.insert(down.map(said));
                    }
                }
                asked = Some(Instant::now());
            }
            let began_at = Instant::now();
            let next = Arc::new(all(&shown, clock.now(), began, &downs));
            send.send_if_modified(|last| {
                let is_news = **last != *next;
                *last = next;
                is_news
            });
            tokio::time::sleep(rest(began_at.elapsed())).await;
            let changed =
                futures::future::select_all(sources.iter().map(|(_, watched)| Box::pin(watched.changed.notified())));
            tokio::select! {
                _ = changed => {}
                () = tokio::time::sleep(AGAIN) => {}
            }
        }
    };
    let serve = axum::serve(listener, router(served, guard));
    tokio::select! {
        ended = serve => ended.map_err(|error| format!("cannot serve the page: {error}"))?,
        () = keep => {}
        _ = tokio::signal::ctrl_c() => {}
    }
    Ok(WELL)
}

/// How all objects are.
fn all(shown: &[(Object, Arc<Watched>)], now: DateTime<Utc>, began: DateTime<Utc>, downs: &Downs) -> Vec<Now> {
    let one = |(known, watched): &(Object, Arc<Watched>)| {
        let name = format!("{} {}/{}", known.kind.name(), known.namespace(), known.name());
        let fleet = watched.fleet();
        let trouble = match watched.trouble() {
            Some(Ok(why) | Err(why)) => why,
            None => downs.get(&(known.kind.operator(), known.namespace())).cloned().flatten().unwrap_or_default(),
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
            causes: causes::said(&counts),
            finish: rollout.expected_finish.clone(),
        };
        let events = rollout.history.iter().rev().filter_map(|past| {
            let ended = DateTime::parse_from_rfc3339(&past.ended_at).ok()?;
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

async fn stream(State(served): State<Served>) -> impl IntoResponse {
    Sse::new(told::events((served.clock, served.began), served.now)).keep_alive(KeepAlive::new().interval(ALIVE))
}

fn router(served: Served, guard: Guard) -> Router {
    let text = |kind: &'static str, text: &'static str| move || async move { ([(header::CONTENT_TYPE, kind)], text) };
    Router::new()
        .route("/", get(async || ([(header::CONTENT_TYPE, "text/html; charset=utf-8")], page::served())))
        .route("/page.css", get(text("text/css; charset=utf-8", STYLE)))
        .route("/page.js", get(text("text/javascript; charset=utf-8", SCRIPT)))
        .route("/events", get(stream))
        .route("/explain", get(explain))
        .layer(middleware::from_fn_with_state(guard, guarded))
        .with_state(served)
}

/// What there is to say of a node.
async fn explain(State(served): State<Served>, request: Request) -> Response {
    let asked = Asked::of(&request);
    let Some((known, watched)) = served.shown.get(asked.object) else {
        return (StatusCode::NOT_FOUND, "there is no such object").into_response();
    };
    let fleet = watched.fleet();
    let found = watched.object(&fleet, &known.name());
    let found = found.and_then(|object| Judged::of(fleet, &object).node(&asked.node, served.clock.now()));
    let Some(found) = found else { return (StatusCode::NOT_FOUND, "there is no such node").into_response() };
    typed(&said(found)).into_owned().into_response()
}

/// A finding, as a sentence.
fn said(found: Finding) -> String {
    let remedy = found.remedy.map(|remedy| format!(". To fix it: {remedy}")).unwrap_or_default();
    format!("{}{remedy}", found.what)
}
