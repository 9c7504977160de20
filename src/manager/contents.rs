//! What a component's programs read: its files, from templates, with what is known of all that it needs.
//!
//! Pure. An address or a secret that is not known yet is no reason to write a file without it. Must not keep a file.

use std::collections::BTreeMap;

use super::identity::identity_name;
use super::part::Facts;
use super::place::Found;
use super::resolve::Component;
use crate::stack::files::{Context, Files, render};
use crate::stack::table::Table;

/// Why files cannot be rendered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unread {
    /// A template, or what it uses, has a mistake.
    Wrong(String),
    /// What it needs is not there, or not there any more: this.
    Lacks(String),
}

/// A component's files.
pub fn files(facts: &Facts<'_>, component: &Component, own: &Found, found: &[Found]) -> Result<Files, Unread> {
    let Facts { table, resolved, templates, .. } = *facts;
    let row = &table.rows[component.row];
    if row.files.is_empty() || own.is_new(row) {
        return Ok(Files::default());
    }
    let mut all = row.files.clone();
    if let Some(replaced) = templates.get(&(component.row, component.name.clone())) {
        all.extend(replaced.clone().map_err(Unread::Wrong)?);
    }
    let mut servers: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    let mut secrets: BTreeMap<&str, BTreeMap<String, String>> = BTreeMap::new();
    let mut unknown = Vec::new();
    for (other, found) in resolved.components.iter().zip(found) {
        let of = &table.rows[other.row];
        let kind = &*of.kind;
        let is_own = other.row == component.row;
        let is_meant = if is_own { other.name == component.name } else { component.means(table, kind, &other.name) };
        if !is_meant {
            continue;
        }
        let peers = match &found.peers {
            Ok(peers) => peers.clone(),
            // An address that nothing here reads holds nothing up.
            Err(_) if !is_own && !row.needs.contains(&of.kind) && !mentions(&all, table, kind) => continue,
            Err(why) => return Err(Unread::Lacks(why.clone())),
        };
        let addresses = peers.into_iter().map(|peer| peer.address);
        servers.entry(kind).or_default().extend(addresses);
        if of.secrets.is_empty() || !(is_own || row.needs.contains(&of.kind)) {
            continue;
        }
        match &found.identity {
            Some(Ok(identity)) => secrets.entry(kind).or_default().extend(identity.secrets.clone()),
            Some(Err(_)) | None => unknown.push(format!("Secret {}", identity_name(of, &other.name))),
        }
    }
    if let Some(kind) = row.needs.iter().find(|kind| !servers.contains_key(kind.as_str())) {
        return Err(Unread::Lacks(kind.clone()));
    }
    let version = component.version(row).unwrap_or_default();
    let context = Context {
        name: &component.name,
        fields: component.fields.clone(),
        servers,
        peers: own.peers.clone().map_err(Unread::Lacks)?,
        certificates: table.certificates_of(row).map(|of| &*of.path),
        secrets,
        version: &version,
        kind: &row.kind,
        rereads: &row.rereads,
        learns: row.store.is_some(),
    };
    // What is not known is no fault of a template that asks for it.
    let unread = |why| if unknown.is_empty() { Unread::Wrong(why) } else { Unread::Lacks(unknown.join(", ")) };
    render(&table.templates(&all), &context).map_err(unread)
}

/// Whether templates, or what they include, mention a kind.
fn mentions(templates: &BTreeMap<String, String>, table: &Table, kind: &str) -> bool {
    let all = table.templates(templates);
    let has_part = |name: &str| templates.values().any(|text| text.contains(name));
    let parts = all.snippets.iter().filter(|(name, _)| has_part(name)).map(|(_, text)| text);
    templates.values().chain(parts).any(|text| text.contains(kind))
}
