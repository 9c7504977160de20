//! Observe: whether everything is stopped, and which templates a user replaced. All else the watches show.
//!
//! Must not decide anything.

use std::collections::BTreeMap;

use secrecy::ExposeSecret;

use super::blueprint::templates_name;
use super::context::Cx;
use super::part::{Of, Templates};
use super::resolve::Resolved;
use crate::api::nearest::nearest;
use crate::kernel::named::Lookup;
use crate::kernel::{Error, NamedKind, Reference};
use crate::stack::table::{Row, Table};

/// What a plan is made from, beside the fleet.
#[derive(Debug)]
pub struct Seen {
    pub resolved: Resolved,
    pub stopped: bool,
    /// Templates that a user replaced, by row and component.
    pub templates: BTreeMap<Of, Templates>,
}

/// What there is.
pub async fn observe(cx: &Cx<'_>, resolved: Resolved) -> Result<Seen, Error> {
    let stopped = cx.is_stopped(cx.key).await?;
    let (mut templates, mut named) = (BTreeMap::new(), vec![cx.stop()]);
    for component in &resolved.components {
        let row = &Table::own().rows[component.row];
        if row.files.is_empty() {
            continue;
        }
        let name = templates_name(row, &component.name);
        let reference = Reference { kind: NamedKind::ConfigMap, namespace: resolved.namespace.clone(), name };
        let found = cx.named.lookup(cx.key, &reference).await;
        if let Some(replaced) = replaced(row, &reference.name, found) {
            templates.insert((component.row, component.name.clone()), replaced);
        }
        named.push(reference);
    }
    cx.named.keep(cx.key, &named);
    Ok(Seen { resolved, stopped, templates })
}

/// The templates of a ConfigMap; `None`: there is none.
fn replaced(row: &Row, name: &str, found: Lookup) -> Option<Templates> {
    let data = match found {
        Lookup::Found(data) => data,
        Lookup::Absent => return None,
        Lookup::Unknown(why) => return Some(Err(format!("ConfigMap {name} cannot be read: {why}"))),
    };
    let known: Vec<&str> = row.files.keys().map(String::as_str).collect();
    if let Some(key) = data.entries.keys().find(|key| !known.contains(&key.as_str())) {
        return Some(Err(format!("ConfigMap {name}: there is no template {key}{}", nearest(key, &known))));
    }
    let entries = data.entries.iter();
    Some(Ok(entries.map(|(key, text)| (key.clone(), text.expose_secret().to_owned())).collect()))
}
