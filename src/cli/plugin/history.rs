//! `history`: the rollouts that ended, as the status has them.
//!
//! Reads only. Must not add to them.

use chrono::DateTime;
use serde::Serialize;

use super::object::objects;
use super::paint::table;
use super::wording::{lasting, when};
use super::{Cx, WELL};
use crate::api::rollout::PastRollout;

/// A rollout that ended, and of what.
#[derive(Debug, Serialize)]
struct Ended {
    namespace: String,
    name: String,
    #[serde(flatten)]
    rollout: PastRollout,
}

pub(super) async fn history(cx: &Cx, name: Option<&str>) -> Result<u8, String> {
    let reached = cx.reach().await?;
    let mut all = Vec::new();
    for object in objects(cx, &reached, name).await? {
        let (namespace, name) = (object.namespace(), object.name());
        let ends = object.rollout().history.into_iter();
        all.extend(ends.map(|rollout| Ended { namespace: namespace.clone(), name: name.clone(), rollout }));
    }
    if cx.data(&all)? {
        return Ok(WELL);
    }
    if all.is_empty() {
        say!("no rollout has ended yet");
        return Ok(WELL);
    }
    let now = cx.clock.now();
    let cells = |Ended { name, rollout: past, .. }: &Ended| {
        let time = |text: &str| DateTime::parse_from_rfc3339(text).ok();
        let took = past.started_at.as_deref().and_then(time).zip(time(&past.ended_at));
        let took = took.map(|(began, ended)| lasting(ended - began)).unwrap_or_default();
        let said = |text: &Option<String>| text.clone().unwrap_or_default();
        vec![
            name.clone(),
            past.result.clone(),
            said(&past.from),
            said(&past.to),
            when(&past.ended_at, now),
            took,
            past.message.clone(),
        ]
    };
    let head = ["NAME", "RESULT", "FROM", "TO", "ENDED", "TOOK", "WHAT BECAME OF IT"];
    cx.screen.print(table(&head, &all.iter().map(cells).collect::<Vec<_>>()));
    Ok(WELL)
}
