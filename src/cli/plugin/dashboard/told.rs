//! What a browser was told of each object, and what is new.
//!
//! Must not judge a node.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;

use axum::response::sse::Event;
use chrono::{DateTime, Utc};
use futures::{Stream, stream};
use serde::Serialize;
use tokio::sync::watch;

use crate::api::condition::timestamp;
use crate::cli::commands::json;
use crate::clock::Clock;
use crate::page::picture::{Frame, Line, Picture, Shown, Whole};

/// How an object is.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Now {
    pub(super) name: String,
    /// Zone of each node, and the number of its cell.
    pub(super) nodes: BTreeMap<String, (String, usize)>,
    pub(super) whole: Whole,
    pub(super) events: Vec<Line>,
    pub(super) trouble: String,
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
    Some(Event::default().event(name).data(json(what).ok()?))
}

/// What a browser was told.
struct Told {
    clock: Clock,
    /// The time from which seconds are counted.
    began: DateTime<Utc>,
    now: watch::Receiver<Arc<Vec<Now>>>,
    /// What it knows of each object, and the number of each node.
    known: Vec<(Now, BTreeMap<String, usize>)>,
    /// What is to be said before anything new.
    queue: Vec<Event>,
}

/// What there is to say to a browser, from the beginning on.
pub(super) fn events(
    (clock, began): (Clock, DateTime<Utc>),
    now: watch::Receiver<Arc<Vec<Now>>>,
) -> impl Stream<Item = Result<Event, Infallible>> {
    let told = Told { clock, began, now, known: Vec::new(), queue: Vec::new() };
    stream::unfold(told, |mut told| async move {
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
    })
}

impl Told {
    /// Puts into the queue what a browser does not know.
    fn say(&mut self, now: &[Now]) {
        let at = (self.clock.now() - self.began).num_seconds();
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
            let picture = Picture { title, begins: timestamp(self.began), live: true, objects };
            all.extend(event("picture", &picture));
        } else {
            let has_news =
                |change: &&Change| !(change.frames.is_empty() && change.wholes.is_empty() && change.events.is_empty());
            let news = changes.iter().filter(has_news);
            all.extend(news.filter_map(|change| event("change", change)));
        }
        // A browser passes an event without data over, so that there is none has a word of its own.
        all.extend(event("trouble", &trouble));
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
