//! `status --wait` and, without a terminal, `status -w`: a line for each change, and an end when something has come.
//!
//! Reads only. Must not judge a rollout: it repeats what the status says, and waits for what was asked for.

use std::time::Duration;

use futures::{Stream, StreamExt};
use kube::ResourceExt;
use kube::api::DynamicObject;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event, watcher};
use ratatui::text::Line;
use tokio::time::{Instant, timeout};

use super::goal::{Goal, Patience, Verdict, Wait, judge, may_begin};
use super::managed::Managed;
use super::object::{Object, api};
use super::{ACT, Cx, UNDER_WAY, WELL};
use crate::cli::explain::asked_operator;
use crate::cli::read::Reader;
use crate::fleet::finding::Kind;
use crate::kernel::Reached;

/// A request that has no answer for so long is given up.
const ANSWER: Duration = Duration::from_secs(5);
/// Whether there is an operator is asked again after so long.
const OPERATOR: Duration = Duration::from_secs(10);

/// Waits; returns the exit code.
pub(super) async fn wait(cx: &Cx, reached: &Reached, object: &Object, wait: &Wait) -> Result<u8, String> {
    if wait.goal == Goal::Canaries && object.canaries().is_none() {
        return Err(format!("{} has no canaries: spec.rollout.canary is not set", object.who()));
    }
    wait.version.as_deref().map_or(Ok(()), |version| may_begin(object, version))?;
    let (kind, who, uid) = (object.kind, object.who(), object.whole.uid());
    let namespace = object.namespace();
    let mut events = Box::pin(events(reached, kind, Some(&namespace), Some(&object.name())));
    let deadline = wait.timeout.map(|timeout| Instant::now() + timeout);
    let (began, mut patience) = (Instant::now(), Patience::of(wait, object));
    let (mut now, mut said) = (object.clone(), String::new());
    let (mut is_listed, mut trouble): (bool, Option<String>) = (true, None);
    loop {
        let verdict = judge(wait, &now);
        let gives_up = patience.ends(wait, &now, began.elapsed()).filter(|_| trouble.is_none());
        let gives_up = gives_up.map(|after| began + after);
        // While the watch has no answer, what was seen last is neither news nor a reason to give up.
        let mut line = trouble.clone().unwrap_or_else(|| now.conclusion().what);
        // What was seen before an interruption is not known to be so still.
        if verdict == Verdict::Reached && trouble.is_none() {
            let asked = asked_operator(&reached.client, (kind.operator(), Some(&namespace)), cx.clock.now());
            match timeout(ANSWER, asked).await {
                Ok(Ok(None)) => {
                    tell(cx, &mut said, line)?;
                    return Ok(WELL);
                }
                Ok(Ok(Some(finding))) => line = format!("the operator {}", finding.what),
                Ok(Err(why)) => line = Reader::of(reached, kind.operator()).unanswered("list leases", &why),
                Err(_) => "the API server does not answer whether the operator runs".clone_into(&mut line),
            }
        }
        tell(cx, &mut said, line)?;
        if gives_up.is_some_and(|at| at <= Instant::now()) {
            return Ok(ACT);
        }
        if deadline.is_some_and(|at| at <= Instant::now()) {
            let version = wait.version.as_ref().map(|version| format!(" with {version}")).unwrap_or_default();
            say!("{who}: {}{version} was not reached in time; {}", wait.goal.said(), now.conclusion().what);
            return Ok(UNDER_WAY);
        }
        let looks_again = Instant::now() + OPERATOR;
        let next = [gives_up, deadline].into_iter().flatten().fold(looks_again, Instant::min);
        tokio::select! {
            event = events.next() => match event {
                Some(Ok(Event::Apply(whole) | Event::InitApply(whole))) => {
                    is_listed = true;
                    if whole.uid() != uid {
                        return Err(format!("{who} was deleted and created again"));
                    }
                    (now, trouble) = (Object::of(kind, whole), None);
                }
                Some(Ok(Event::Init)) => is_listed = false,
                Some(Ok(Event::InitDone)) if is_listed => trouble = None,
                Some(Ok(Event::Delete(_) | Event::InitDone)) => return Err(format!("{who} was deleted")),
                Some(Err(why)) => {
                    let why = unanswered(reached, kind, &kind.resource().plural, &why)?;
                    trouble.get_or_insert(why);
                }
                None => return Err("the watch ended".to_owned()),
            },
            () = tokio::time::sleep_until(next) => {
                // A watch that has an answer again may have nothing to show.
                let api = api(&reached.client, kind, Some(&namespace));
                if trouble.is_some()
                    && let Ok(Ok(live)) = timeout(ANSWER, api.get_opt(&object.name())).await
                {
                    let whole = live.filter(|live| live.uid() == uid).ok_or_else(|| format!("{who} was deleted"))?;
                    (now, trouble) = (Object::of(kind, whole), None);
                }
            }
        }
    }
}

/// What becomes of the objects of a kind, from now on.
fn events(
    reached: &Reached,
    kind: Managed,
    namespace: Option<&str>,
    name: Option<&str>,
) -> impl Stream<Item = watcher::Result<Event<DynamicObject>>> + use<> {
    let config = name.map_or_else(watcher::Config::default, |name| {
        watcher::Config::default().fields(&format!("metadata.name={name}"))
    });
    watcher(api(&reached.client, kind, namespace), config).default_backoff()
}

/// What is said while a watch has no answer; a refusal is an error.
pub(super) fn unanswered(
    reached: &Reached,
    kind: Managed,
    plural: &str,
    why: &watcher::Error,
) -> Result<String, String> {
    let (watcher::Error::InitialListFailed(error)
    | watcher::Error::WatchStartFailed(error)
    | watcher::Error::WatchFailed(error)) = why
    else {
        return Ok(format!("the watch was interrupted: {}", crate::kernel::chain(why)));
    };
    let said = Reader::of(reached, kind.operator()).unanswered(&format!("watch {plural}"), error);
    match error {
        kube::Error::Api(status) if matches!(status.code, 401 | 403) => Err(said),
        _ => Ok(said),
    }
}

/// Says a line that is news, with the time.
fn tell(cx: &Cx, said: &mut String, line: String) -> Result<(), String> {
    if *said == line {
        return Ok(());
    }
    let time = jiff::Timestamp::from_second(cx.clock.now().timestamp())
        .map(|time| time.to_zoned(jiff::tz::TimeZone::system()).strftime("%H:%M:%S").to_string());
    let closed = |_| "standard output is closed".to_owned();
    cx.screen.line(Line::raw(format!("{}  {line}", time.unwrap_or_default()))).map_err(closed)?;
    *said = line;
    Ok(())
}

/// A line for each change of any of these objects, until the user ends it.
pub(super) async fn follow(cx: &Cx, reached: &Reached, found: &[Object], name: Option<&str>) -> Result<u8, String> {
    let namespace = cx.namespace(reached);
    let mut kinds: Vec<Managed> = Vec::new();
    for object in found {
        if !kinds.contains(&object.kind) {
            kinds.push(object.kind);
        }
    }
    let streams = kinds.into_iter().map(|kind| {
        let of = events(reached, kind, namespace.as_deref(), name);
        of.map(move |event| (kind, event)).boxed()
    });
    let mut all = futures::stream::select_all(streams);
    let mut said: std::collections::BTreeMap<String, String> = std::collections::BTreeMap::new();
    while let Some((kind, event)) = all.next().await {
        let (who, line) = match event {
            Ok(Event::Apply(whole) | Event::InitApply(whole)) => {
                let object = Object::of(kind, whole);
                let conclusion = object.conclusion();
                let mark = if conclusion.kind == Kind::Act { "! " } else { "" };
                (object.who(), format!("{mark}{}: {}", conclusion.who, conclusion.what))
            }
            Ok(Event::Delete(whole)) => {
                let who = Object::of(kind, whole).who();
                (who.clone(), format!("{who} was deleted"))
            }
            // An outage of the same words that comes later is news again.
            Ok(Event::InitDone) if said.remove(kind.name()).is_some() => {
                (String::new(), format!("the watch of {} has an answer again", kind.resource().plural))
            }
            Ok(Event::Init | Event::InitDone) => continue,
            Err(why) => (kind.name().to_owned(), unanswered(reached, kind, &kind.resource().plural, &why)?),
        };
        // Nothing is compared with what is said of no object.
        said.remove("");
        if tell(cx, said.entry(who).or_default(), line).is_err() {
            break;
        }
    }
    Ok(WELL)
}
