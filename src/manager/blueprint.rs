//! What a component's objects are made from, and what they are called.
//!
//! Data. Must not know what an object looks like.

use std::collections::BTreeMap;

use super::resolve::{Component, Resolved};
use crate::stack::files::{Files, Peer};
use crate::stack::table::{Row, Table};

/// Name of the volume of what a server keeps.
pub const DATA: &str = "data";

/// What a component's workload is called.
#[must_use]
pub fn workload_name(row: &Row, component: &str) -> String {
    format!("{component}-{}-{}", row.kind, row.workload.to_string().to_lowercase())
}

/// The name of what belongs to it.
#[must_use]
pub fn companion_name(row: &Row, component: &str) -> String {
    format!("{component}-{}", row.kind)
}

/// What the ConfigMap with its files is called.
#[must_use]
pub fn files_name(row: &Row, component: &str) -> String {
    format!("{component}-{}-configmap", row.kind)
}

/// The name of the Secret with its confidential files.
#[must_use]
pub fn secret_name(row: &Row, component: &str) -> String {
    format!("{component}-{}-secret", row.kind)
}

/// The name of the ConfigMap in which a user replaces templates.
#[must_use]
pub fn templates_name(row: &Row, component: &str) -> String {
    format!("{component}-{}-templates", row.kind)
}

/// Labels that tell a component's Pods from all others.
#[must_use]
pub fn labels_of(table: &Table, row: &Row, component: &str) -> BTreeMap<String, String> {
    [(table.labels.kind.clone(), row.kind.clone()), (row.kind.clone(), component.to_owned())].into()
}

/// What a component's objects are made from.
#[derive(Debug, Clone, Copy)]
pub struct Blueprint<'b> {
    pub table: &'b Table,
    pub manager: &'b Resolved,
    pub component: &'b Component,
    /// The nodes of its servers; of one that runs on each node, none.
    pub nodes: &'b [String],
    /// Its servers with their addresses.
    pub peers: &'b [Peer],
    /// What its programs read.
    pub files: &'b Files,
    /// Revisions of files that Pods of an earlier template wait for when they start again.
    pub earlier: &'b [String],
    /// Its certificates, if it has some.
    pub marks: Option<&'b Marks>,
}

/// By which entries a server sees that its certificates are there.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Marks {
    pub issued: String,
    /// That the newest authority is trusted.
    pub trusts: String,
}

impl<'b> Blueprint<'b> {
    #[must_use]
    pub fn row(&self) -> &'b Row {
        &self.table.rows[self.component.row]
    }
}
