//! `status`: how rollouts are; once, until something has come, or as they go on.
//!
//! Reads only. Must not judge anything itself.

use std::collections::BTreeMap;
use std::time::Duration;

use super::goal::{Goal, Wait};
use super::live::{Judged, listed};
use super::managed::Managed;
use super::object::{Object, code, objects};
use super::overview::Overview;
use super::paint::{finding, table};
use super::wording::when;
use super::{ACT, Cx, Output, view, wait};
use crate::cli::duration::duration;
use crate::cli::explain::operator;
use crate::fleet::finding::Finding;
use crate::kernel::Reached;

/// So many lines of nodes at most, where the page may be as long as it likes.
const ROWS: usize = 40;

/// Arguments of `status`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Name of an object. Default: all of the namespace.
    name: Option<String>,
    /// Follow it. Without a terminal it prints one line for each change.
    #[arg(short, long)]
    watch: bool,
    /// End when the goal of --for is reached, or when a stop has lasted as long as a Pod may take to become Ready.
    #[arg(long, requires = "name", conflicts_with = "watch")]
    wait: bool,
    /// The goal that --wait waits for.
    #[arg(long = "for", value_enum, default_value_t, requires = "wait")]
    goal: Goal,
    /// Wait for this version or revision, or the beginning of one. Default: the desired one.
    #[arg(long, requires = "wait")]
    version: Option<String>,
    /// End with exit code 3 after this time, such as 30m. Default: never.
    #[arg(long, requires = "wait", value_parser = duration)]
    timeout: Option<Duration>,
    /// End with the first stop, although the operator may withdraw it.
    #[arg(long, requires = "wait")]
    fail_fast: bool,
}

pub(super) async fn status(cx: &Cx, args: &Args) -> Result<u8, String> {
    let reached = cx.reach().await?;
    let found = objects(cx, &reached, args.name.as_deref()).await?;
    if (args.wait || args.watch) && cx.flags.output != Output::Text {
        return Err("-w and --wait print text alone".to_owned());
    }
    if args.wait {
        let Args { goal, version, timeout, fail_fast, .. } = args;
        let wait = Wait { goal: *goal, version: version.clone(), timeout: *timeout, fail_fast: *fail_fast };
        return wait::wait(cx, &reached, &found[0], &wait).await;
    }
    if args.watch && cx.screen.has_cursor {
        return view::view(cx, &reached, &found).await;
    }
    if args.watch {
        return wait::follow(cx, &reached, &found, args.name.as_deref()).await;
    }
    let is_down =
        if found.len() == 1 { one(cx, &reached, &found[0]).await? } else { many(cx, &reached, &found).await? };
    Ok(if is_down { ACT } else { code(&found) })
}

/// One object, with its zones and what is wrong; returns whether its operator does not run.
async fn one(cx: &Cx, reached: &Reached, object: &Object) -> Result<bool, String> {
    let judged = Judged::of(listed(reached, object).await?, object);
    let now = cx.clock.now();
    let looks = judged.looks(now);
    let namespace = object.namespace();
    let first = operator(&reached.client, (object.kind.operator(), Some(&namespace)), now).await;
    let is_down = first.is_some();
    let overview = Overview::of(object, &looks, |node| judged.remedy(node, now), first);
    if !cx.data(&overview)? {
        cx.screen.print(overview.lines(cx.screen, now, (ROWS, None)));
    }
    Ok(is_down)
}

/// Many objects, a line each; returns whether one of their operators does not run.
async fn many(cx: &Cx, reached: &Reached, found: &[Object]) -> Result<bool, String> {
    let now = cx.clock.now();
    let mut down: Vec<(Managed, Finding)> = Vec::new();
    let kinds: BTreeMap<&str, Managed> = found.iter().map(|object| (object.kind.name(), object.kind)).collect();
    for kind in kinds.into_values() {
        let namespace = cx.namespace(reached);
        let found = operator(&reached.client, (kind.operator(), namespace.as_deref()), now).await;
        down.extend(found.map(|found| (kind, found)));
    }
    let is_down = !down.is_empty();
    let of = |object: &Object| {
        let first = down.iter().find(|(kind, _)| *kind == object.kind).map(|(_, finding)| finding.clone());
        Overview::of(object, &[], |_| None, first).without_nodes()
    };
    if cx.data(&found.iter().map(of).collect::<Result<Vec<_>, _>>()?)? {
        return Ok(is_down);
    }
    for (_, down) in &down {
        cx.screen.print(finding(down));
    }
    let cells = |object: &Object| {
        let counts = object.status.as_ref().and_then(|status| status.nodes.clone()).unwrap_or_default();
        let finish = object.rollout().expected_finish.map(|finish| when(&finish, now)).unwrap_or_default();
        let reason = object.degraded().map(|degraded| degraded.reason.clone()).unwrap_or_default();
        vec![
            object.namespace(),
            object.name(),
            object.kind.name().to_owned(),
            object.state(),
            object.to().unwrap_or_default().to_owned(),
            counts.progress,
            counts.agents,
            finish,
            reason,
        ]
    };
    let head = ["NAMESPACE", "NAME", "KIND", "STATE", "TO", "UPDATED", "AVAILABLE", "FINISH", "REASON"];
    cx.screen.print(table(&head, &found.iter().map(cells).collect::<Vec<_>>()));
    Ok(is_down)
}
