//! What identifies a component: its programs' secrets, and of a store the numbers of its servers and where they are. It
//! lies in a Secret that no owner takes along: it stays as the data does, and a new Manager of the name takes it up.
//!
//! Pure. Never replaced by another one while there is data that it fits. Must not write it, nor say a value.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use serde_json::{Value, json};

use super::blueprint::labels_of;
use super::resolve::Component;
use crate::stack::members::Members;
use crate::stack::table::{Row, Table};

/// The entry that names the servers.
const SERVERS: &str = "servers";

/// What the Secret is called.
#[must_use]
pub fn identity_name(row: &Row, component: &str) -> String {
    format!("{component}-{}-identity", row.kind)
}

/// What to do about a Secret that is immutable, and that nothing may delete: what it holds is nowhere on record.
#[must_use]
pub fn immutable(name: &str) -> String {
    format!("Secret {name} is immutable: save it, delete it, create it again without `immutable`")
}

/// An entry of a Secret, if there is any text in it.
#[must_use]
pub fn entry(secret: &Secret, key: &str) -> Option<String> {
    let bytes = secret.data.as_ref()?.get(key)?;
    String::from_utf8(bytes.0.clone()).ok().filter(|text| !text.trim().is_empty())
}

/// What identifies a component.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Identity {
    pub members: Members,
    pub secrets: BTreeMap<String, String>,
    /// Its Secret's resourceVersion.
    pub version: String,
    pub is_immutable: bool,
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity").field("members", &self.members).finish_non_exhaustive()
    }
}

impl Identity {
    /// Reads a component's Secret, or says what is wrong with it.
    pub fn read(secret: &Secret, row: &Row) -> Result<Self, String> {
        let name = secret.name_any();
        let entry = |key: &str| {
            entry(secret, key)
                .ok_or_else(|| format!("Secret {name} lacks {key}: restore it, its servers know each other by it"))
        };
        let members: Members = match &row.store {
            Some(_) => {
                entry(SERVERS)?.parse().map_err(|why| format!("Secret {name}, entry {SERVERS}: {why}; restore it"))?
            }
            None => Members::default(),
        };
        let known = row.secrets.iter().map(|key| Ok((key.clone(), entry(key)?)));
        let version = secret.resource_version().unwrap_or_default();
        let is_immutable = secret.immutable == Some(true);
        Ok(Self { members, secrets: known.collect::<Result<_, String>>()?, version, is_immutable })
    }
}

/// A component's Secret that is to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Enrol {
    pub name: String,
    pub labels: BTreeMap<String, String>,
    pub members: Members,
    /// The resourceVersion of the one that is there; `None`: there is none yet, and these secrets are to be generated.
    pub over: Option<String>,
    /// Whether the one that is there cannot be changed.
    pub is_immutable: bool,
    pub secrets: BTreeSet<String>,
}

impl Enrol {
    /// The one of a component.
    #[must_use]
    pub fn new(table: &Table, component: &Component, members: Members, over: Option<&Identity>) -> Self {
        let row = &table.rows[component.row];
        let labels = labels_of(table, row, &component.name);
        let (name, secrets) = (identity_name(row, &component.name), row.secrets.iter().cloned().collect());
        let is_immutable = over.is_some_and(|identity| identity.is_immutable);
        Self { name, labels, members, over: over.map(|identity| identity.version.clone()), is_immutable, secrets }
    }

    /// The whole object, with these secrets.
    #[must_use]
    pub fn object(&self, namespace: &str, secrets: BTreeMap<String, String>) -> Value {
        let mut data = secrets;
        if !self.members.0.is_empty() {
            data.insert(SERVERS.to_owned(), self.members.to_string());
        }
        json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": self.name, "namespace": namespace,
            "labels": self.labels }, "stringData": data })
    }

    /// What changes of the one that is there, if no one else has changed it.
    #[must_use]
    pub fn change(&self) -> Value {
        json!({ "metadata": { "resourceVersion": self.over }, "stringData": { SERVERS: self.members.to_string() } })
    }
}
