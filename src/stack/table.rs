//! The table of a stack: a row for each kind of component.
//!
//! Read once. What it says wrong is said with the row and the field. Must not decide anything.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{LazyLock, OnceLock};

use serde::Deserialize;

use super::files::{Templates, check};
use super::members::Starts;

/// The table in the binary.
const OWN: &str = include_str!("stack.yaml");
static TABLE: OnceLock<Result<Table, String>> = OnceLock::new();
static NONE: LazyLock<Table> = LazyLock::new(Table::default);

/// A stack.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Table {
    pub labels: Labels,
    /// Where components run that say nothing of it.
    #[serde(default)]
    pub node_selector: BTreeMap<String, String>,
    /// Class of the volumes of stores.
    pub storage_class: String,
    /// The user of all Pods.
    pub service_account: String,
    /// Where the files of programs are.
    pub files_path: String,
    /// What the first init container of a row with files or certificates runs unless the object says otherwise: it
    /// waits until all of `$AWAITS` are there.
    #[serde(default)]
    pub waits: Vec<String>,
    /// Where certificates are, and what issues them.
    #[serde(default)]
    pub certificates: Option<Certificates>,
    /// Parts of files that templates include, by name.
    #[serde(default)]
    pub snippets: BTreeMap<String, String>,
    /// Services that are not carried out, and why.
    #[serde(default)]
    pub not_carried_out: BTreeMap<String, String>,
    /// Fields of a service that name an entry of another one, with that one's kind.
    #[serde(default)]
    pub references: BTreeMap<String, String>,
    /// In the order in which changes go out: what a row needs comes before it.
    pub rows: Vec<Row>,
}

/// The certificates of servers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Certificates {
    /// The Secret of the authority that issues them.
    pub authority: String,
    /// The ConfigMap of all authorities that are trusted.
    pub bundle: String,
    /// Where they are mounted.
    pub path: String,
}

/// Labels of all objects.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Labels {
    /// The key of an object's row.
    pub kind: String,
}

/// A kind of component.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Row {
    /// What its objects are named and labelled by.
    pub kind: String,
    /// Its key below `spec.services`.
    pub key: String,
    /// Whether that holds a list.
    #[serde(default)]
    pub many: bool,
    pub workload: Workload,
    /// Kinds whose components must serve before one of these is created.
    #[serde(default)]
    pub needs: Vec<String>,
    /// Its init containers, in order.
    #[serde(default)]
    pub init: Vec<String>,
    /// Its containers; what it stores is mounted into the first.
    pub containers: Vec<String>,
    /// Containers that a service may name and that are not carried out.
    #[serde(default)]
    pub ignores: Vec<String>,
    /// What its programs read: a template for each file, by name.
    #[serde(default)]
    pub files: BTreeMap<String, String>,
    /// Files that its programs reload on their own: no program restarts for those.
    #[serde(default)]
    pub rereads: Vec<String>,
    /// Whether its servers have certificates.
    #[serde(default)]
    pub certificates: bool,
    /// What a container runs where its service does not say.
    #[serde(default)]
    pub commands: BTreeMap<String, Vec<String>>,
    /// What succeeds while a container serves.
    #[serde(default)]
    pub serves: BTreeMap<String, Probe>,
    /// What the node of a container keeps for it, where its service does not say: a store would be the first to be
    /// evicted.
    #[serde(default)]
    pub requests: BTreeMap<String, BTreeMap<String, String>>,
    /// Ports under which others reach all of its servers.
    #[serde(default)]
    pub ports: BTreeMap<String, u16>,
    /// Secrets of its programs, by name: random, and the same as long as a component of the name may have data.
    #[serde(default)]
    pub secrets: Vec<String>,
    /// What it keeps.
    #[serde(default)]
    pub store: Option<Store>,
    /// Folders that its containers share, and that go with the Pod, by the names of their volumes.
    #[serde(default)]
    pub scratch: BTreeMap<String, String>,
    /// Whether its containers may do anything on their node.
    #[serde(default)]
    pub privileged: bool,
    /// Folders of the node, by the names of their volumes.
    #[serde(default)]
    pub host_paths: BTreeMap<String, String>,
}

/// What a row's components are made as.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, strum::Display)]
pub enum Workload {
    /// So many servers, each with a number and a volume of its own.
    #[default]
    StatefulSet,
    /// One on each node.
    DaemonSet,
}

/// What a row's servers keep.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Store {
    /// Where it is mounted.
    pub path: String,
    /// How much room it asks for.
    pub size: String,
    /// How its first servers start.
    #[serde(default)]
    pub starts: Starts,
}

/// What tells that a container serves: one of these.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Probe {
    /// What succeeds in it.
    #[serde(default)]
    pub command: Vec<String>,
    /// Where it listens.
    #[serde(default)]
    pub port: Option<u16>,
}

impl Row {
    /// Whether its programs read something that is made for each server.
    #[must_use]
    pub fn reads(&self) -> bool {
        !self.files.is_empty() || self.certificates
    }

    /// Whether there is something that makes its components themselves, and that must be there before their programs.
    #[must_use]
    pub fn is_identified(&self) -> bool {
        self.store.is_some() || !self.secrets.is_empty()
    }
}

impl Table {
    /// The one that was chosen, otherwise the one in the binary.
    #[must_use]
    pub fn own() -> &'static Self {
        TABLE.get_or_init(|| Self::read(OWN)).as_ref().unwrap_or(&NONE)
    }

    /// Has this one hold, before any is asked for; none: the one in the binary. Says what is wrong with it.
    pub fn choose(text: Option<&str>) -> Result<(), String> {
        TABLE.get_or_init(|| Self::read(text.unwrap_or(OWN))).as_ref().map(drop).map_err(Clone::clone)
    }

    /// Reads one, and says what is wrong with it.
    pub fn read(text: &str) -> Result<Self, String> {
        let table: Self = serde_yaml::from_str(text).map_err(|why| format!("the table cannot be read: {why}"))?;
        let (mut kinds, mut keys) = (BTreeSet::new(), BTreeSet::new());
        for row in &table.rows {
            let Row { kind, key, needs, containers, init, commands, files, .. } = row;
            // What a row needs is above it: so nothing waits in a circle.
            if let Some(need) = needs.iter().find(|need| !kinds.contains(need)) {
                return Err(format!("row {kind}: needs: no row above it has kind {need}; move that one up, or add it"));
            }
            if containers.is_empty() {
                return Err(format!("row {kind}: containers: name at least one"));
            }
            if let Some(name) = commands.keys().find(|name| !init.contains(name) && !containers.contains(name)) {
                return Err(format!("row {kind}: commands: it has no container {name}"));
            }
            if let Some(name) = row.requests.keys().find(|name| !containers.contains(name)) {
                return Err(format!("row {kind}: requests: it has no container {name}"));
            }
            for (name, probe) in &row.serves {
                if !containers.contains(name) {
                    return Err(format!("row {kind}: serves: it has no container {name}"));
                }
                if probe.command.is_empty() == probe.port.is_none() {
                    return Err(format!("row {kind}: serves: {name}: name a command or a port"));
                }
            }
            if row.certificates && table.certificates.is_none() {
                return Err(format!(
                    "row {kind}: certificates: the table's own certificates do not say who issues them"
                ));
            }
            let waits = init.first().is_some_and(|first| !table.waits.is_empty() || commands.contains_key(first));
            if row.reads() && !waits {
                return Err(format!(
                    "row {kind}: init: name a container that waits for files, and how in the table's waits"
                ));
            }
            if let Some(name) = files.keys().find(|name| table.snippets.contains_key(*name)) {
                return Err(format!("row {kind}: files: a snippet has the name {name}, too; rename one of them"));
            }
            if let Some(name) = row.rereads.iter().find(|name| !files.contains_key(*name)) {
                return Err(format!("row {kind}: rereads: it has no file {name}"));
            }
            if let Err(why) = check(&table.templates(files)) {
                return Err(format!("row {kind}: files: {why}"));
            }
            if !kinds.insert(kind) || !keys.insert(key) {
                return Err(format!("row {kind}: another row has its kind, or its key {key}"));
            }
        }
        if let Some((field, kind)) = table.references.iter().find(|(_, kind)| !kinds.contains(kind)) {
            return Err(format!("references: {field}: no row has kind {kind}"));
        }
        Ok(table)
    }

    /// Where a row's certificates are, if it has some.
    #[must_use]
    pub fn certificates_of(&self, row: &Row) -> Option<&Certificates> {
        self.certificates.as_ref().filter(|_| row.certificates)
    }

    /// What files are rendered from.
    #[must_use]
    pub fn templates<'t>(&'t self, files: &'t BTreeMap<String, String>) -> Templates<'t> {
        Templates { snippets: &self.snippets, files }
    }

    /// The row with this key, and which it is.
    #[must_use]
    pub fn by_key(&self, key: &str) -> Option<(usize, &Row)> {
        self.rows.iter().enumerate().find(|(_, row)| row.key == key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_in_the_binary_has_no_mistake() {
        let table = Table::read(OWN).unwrap();
        assert_eq!(table.rows.len(), 9);
        assert_eq!((Table::choose(None), Table::own()), (Ok(()), &table));
    }

    #[test]
    fn a_mistake_is_said_with_its_row_and_field() {
        let head = "labels: { kind: k }\nstorageClass: s\nserviceAccount: a\nfilesPath: /f\n";
        let table = |rows: &str| Table::read(&format!("{head}rows: [{rows}]"));
        let row = |more: &str| format!("{{ kind: a, key: as, workload: StatefulSet, containers: [c] {more} }}");
        table(&row("")).unwrap();
        for (rows, said) in [
            (row(", needs: [b]"), "row a: needs: no row above it has kind b"),
            (row(", needs: [a]"), "no row above it has kind a"),
            (row(", commands: { d: [x] }"), "row a: commands: it has no container d"),
            (row(", init: [i], commands: { i: [x] }, files: { f: '{{ x' }"), "row a: files: template f: syntax error"),
            (row(", files: { f: x }"), "row a: init: name a container that waits"),
            (row(", init: [i], files: { f: x }"), "row a: init: name a container that waits"),
            (row(", init: [i], commands: { i: [x] }, rereads: [f]"), "row a: rereads: it has no file f"),
            (row(", serves: { d: { port: 1 } }"), "row a: serves: it has no container d"),
            (row(", serves: { c: {} }"), "row a: serves: c: name a command or a port"),
            (row(", certificates: true"), "row a: certificates: the table's own certificates do not say"),
            (row(", port: 1"), "unknown field `port`"),
            (format!("{0}, {0}", row("")), "row a: another row has its kind"),
            ("{ kind: a, key: as, workload: Job, containers: [c] }".to_owned(), "unknown variant `Job`"),
            ("{ kind: a, key: as, workload: DaemonSet, containers: [] }".to_owned(), "name at least one"),
        ] {
            let why = table(&rows).unwrap_err();
            assert!(why.contains(said), "{why}");
        }
        let why = Table::read(&format!("{head}references: {{ f: z }}\nrows: []")).unwrap_err();
        assert!(why.contains("no row has kind z"), "{why}");
    }
}
