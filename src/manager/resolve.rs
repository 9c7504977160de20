//! Resolve: what a Manager's spec means, component by component.
//!
//! Pure. A mistake in one component is said of that one, with its path and the remedy; the others proceed. Must not
//! look at the cluster.

use std::collections::{BTreeMap, BTreeSet};

use chrono::{DateTime, TimeDelta, Utc};
use k8s_openapi::api::core::v1::Toleration;
use kube::ResourceExt;
use serde_json::{Map, Value};

use crate::api::manager::{self as api, CommonConfiguration, ContainerImage, Manager, Service, ServiceConfiguration};
use crate::api::nearest::nearest;
use crate::api::rollout::written;
use crate::fleet::policy;
use crate::rollout::Share;
use crate::rollout::calendar::Calendar;
use crate::stack::table::{Row, Table, Workload};

/// What a spec means.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Resolved {
    pub namespace: String,
    pub name: String,
    pub uid: String,
    pub components: Vec<Component>,
    /// What is wrong with entries that are no component.
    pub problems: Vec<String>,
    /// Services that are not carried out, and why.
    pub ignored: Vec<String>,
    /// Rows whose entries cannot be told: whatever they have stays.
    pub untold: BTreeSet<usize>,
    pub rollout: Rollout,
    pub lifetimes: Lifetimes,
}

/// How long certificates hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lifetimes {
    pub servers: TimeDelta,
    pub authority: TimeDelta,
}

impl Default for Lifetimes {
    fn default() -> Self {
        Self { servers: TimeDelta::days(365), authority: TimeDelta::days(3650) }
    }
}

fn lifetimes(spec: Option<&api::Certificates>) -> Result<Lifetimes, String> {
    let default = Lifetimes::default();
    let one = |field: &str, text: Option<&String>, default: TimeDelta| match text {
        None => Ok(default),
        Some(text) => policy::duration(text).filter(|lifetime| *lifetime > TimeDelta::zero()).ok_or_else(|| {
            format!("spec.certificates.{field} is {text:?}: use hours, minutes and seconds above zero, such as 8760h")
        }),
    };
    let Some(spec) = spec else { return Ok(default) };
    let servers = one("lifetime", spec.lifetime.as_ref(), default.servers)?;
    let authority = one("authorityLifetime", spec.authority_lifetime.as_ref(), default.authority.max(servers))?;
    if authority < servers {
        return Err("spec.certificates.authorityLifetime is shorter than the lifetime of what it issues".to_owned());
    }
    Ok(Lifetimes { servers, authority })
}

/// How Pods are replaced.
#[derive(Debug, Clone, PartialEq)]
pub struct Rollout {
    /// How many of those that run on every node may be missing at once.
    pub budget: Share,
    /// When these may be replaced.
    pub calendar: Calendar,
    /// Whether none is replaced.
    pub paused: bool,
}

impl Default for Rollout {
    fn default() -> Self {
        Self { budget: Share::Count(1), calendar: Calendar::default(), paused: false }
    }
}

impl Rollout {
    /// How many of a component's servers may be missing at once because of a change.
    #[must_use]
    pub fn budget_of(&self, row: &Row, servers: usize) -> usize {
        match row.workload {
            Workload::DaemonSet => self.budget.of(servers),
            Workload::StatefulSet => 1,
        }
    }

    /// Why no Pod of a row may be replaced now.
    #[must_use]
    pub fn hold(&self, row: &Row, now: DateTime<Utc>) -> Option<String> {
        if self.paused {
            return Some("none is replaced while rollout.paused is true".to_owned());
        }
        let closed = self.calendar.closed(now).filter(|_| row.workload == Workload::DaemonSet)?;
        Some(format!("none is replaced {closed}"))
    }
}

fn rollout(written_down: Option<&api::Rollout>) -> Result<Rollout, String> {
    let Some(spec) = written_down else { return Ok(Rollout::default()) };
    let mut wrong = Vec::new();
    let budget = spec.max_unavailable.as_ref().map_or(Ok(Share::Count(1)), |share| written(share).parse());
    let budget = budget.unwrap_or_else(|why: String| {
        wrong.push(format!("spec.rollout.maxUnavailable: {why}"));
        Share::Count(1)
    });
    let calendar = policy::calendar(&spec.windows, &spec.blackouts, &mut wrong);
    if wrong.is_empty() {
        Ok(Rollout { budget, calendar, paused: spec.paused == Some(true) })
    } else {
        Err(wrong.join("; "))
    }
}

/// A component.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Component {
    /// Its row of the table.
    pub row: usize,
    pub name: String,
    pub labels: BTreeMap<String, String>,
    /// How many servers are asked for.
    pub replicas: Option<usize>,
    pub node_selector: BTreeMap<String, String>,
    pub pull_secrets: Vec<String>,
    pub tolerations: Vec<Toleration>,
    /// Its containers by name.
    pub containers: BTreeMap<String, ContainerImage>,
    /// What its programs read.
    pub fields: Map<String, Value>,
    /// What is wrong with it, and what helps: nothing of it is changed.
    pub problem: Option<String>,
}

/// What the spec of a Manager means; or what makes no sense.
pub fn resolve(manager: &Manager) -> Result<Resolved, String> {
    let table = Table::own();
    let mut resolved = Resolved {
        namespace: manager.namespace().unwrap_or_default(),
        name: manager.name_any(),
        uid: manager.uid().unwrap_or_default(),
        rollout: rollout(manager.spec.rollout.as_ref())?,
        lifetimes: lifetimes(manager.spec.certificates.as_ref())?,
        ..Resolved::default()
    };
    let common = manager.spec.common_configuration.clone().unwrap_or_default();
    let mut has_unknown = false;
    for (key, value) in &manager.spec.services.0 {
        let path = format!("spec.services.{key}");
        if let Some(why) = table.not_carried_out.get(key) {
            resolved.ignored.push(format!("{path}: {why}"));
            continue;
        }
        let Some((at, row)) = table.by_key(key) else {
            let known: Vec<&str> = table.rows.iter().map(|row| &*row.key).collect();
            resolved.problems.push(format!("{path}: there is no such service{}", nearest(key, &known)));
            has_unknown = true;
            continue;
        };
        let entries: Vec<(String, &Value)> = match value {
            Value::Array(all) if row.many => {
                all.iter().enumerate().map(|(number, one)| (format!("{path}[{number}]"), one)).collect()
            }
            Value::Object(_) if !row.many => vec![(path.clone(), value)],
            Value::Null => continue,
            _ => {
                let form = if row.many { "a list of entries" } else { "one entry" };
                resolved.problems.push(format!("{path}: it must be {form}, each with metadata and spec"));
                resolved.untold.insert(at);
                continue;
            }
        };
        for (path, entry) in entries {
            match serde_json::from_value::<Service>(entry.clone()) {
                Ok(service) => resolved.add(at, row, &path, service, &common),
                Err(why) => {
                    resolved.problems.push(format!("{path}: {why}; see kubectl explain manager.{path}"));
                    resolved.untold.insert(at);
                }
            }
        }
    }
    if has_unknown {
        // It may be the misspelt key of any service that the spec does not name: what there is of these stays.
        let is_absent = |(_, row): &(usize, &Row)| !manager.spec.services.0.contains_key(&row.key);
        resolved.untold.extend(table.rows.iter().enumerate().filter(is_absent).map(|(at, _)| at));
    }
    resolved.components.sort_by(|a, b| (a.row, &a.name).cmp(&(b.row, &b.name)));
    resolved.note_references(table);
    resolved.note_namesakes(table);
    Ok(resolved)
}

impl Resolved {
    fn add(&mut self, at: usize, row: &Row, path: &str, service: Service, common: &CommonConfiguration) {
        let Service { metadata, spec } = service;
        let own = spec.common_configuration.unwrap_or_default();
        let ServiceConfiguration { containers, fields } = spec.service_configuration;
        let (containers, problem) = containers_of(row, path, containers);
        for ignored in row.ignores.iter().filter(|name| containers.contains_key(*name)) {
            self.ignored.push(format!("{path}: container {ignored} is not carried out"));
        }
        let every_taint = || vec![Toleration { operator: Some("Exists".to_owned()), ..Toleration::default() }];
        let component = Component {
            row: at,
            name: metadata.name,
            labels: metadata.labels,
            replicas: own.replicas.or(common.replicas).map(|count| count as usize),
            node_selector: own
                .node_selector
                .or_else(|| common.node_selector.clone())
                .unwrap_or_else(|| Table::own().selector_of(row)),
            pull_secrets: own.image_pull_secrets.or_else(|| common.image_pull_secrets.clone()).unwrap_or_default(),
            tolerations: own.tolerations.or_else(|| common.tolerations.clone()).unwrap_or_else(every_taint),
            containers,
            fields,
            problem,
        };
        if let Some(twin) = self.components.iter_mut().find(|one| (one.row, &one.name) == (at, &component.name)) {
            let why = format!("{path}: another entry has the name {}, too; rename one of them", component.name);
            twin.problem.get_or_insert(why);
            return;
        }
        self.components.push(component);
    }

    /// The Secret with a component's certificates has its name alone.
    fn note_namesakes(&mut self, table: &Table) {
        let mut names: BTreeMap<String, &str> = BTreeMap::new();
        for component in self.components.iter_mut().filter(|one| table.rows[one.row].certificates) {
            let key = &*table.rows[component.row].key;
            if let Some(other) = names.insert(component.name.clone(), key) {
                let name = &component.name;
                let why =
                    format!("spec.services.{key}: an entry of {other} has the name {name}, too; rename one of them");
                component.problem.get_or_insert(why);
            }
        }
    }

    /// Fields that name another component must name one that there is.
    fn note_references(&mut self, table: &Table) {
        let all: Vec<(usize, String)> = self.components.iter().map(|one| (one.row, one.name.clone())).collect();
        for component in &mut self.components {
            let key = &table.rows[component.row].key;
            for (field, kind) in &table.references {
                let Some(name) = component.reference(table, kind) else { continue };
                let known: Vec<&str> =
                    all.iter().filter(|(row, _)| table.rows[*row].kind == *kind).map(|(_, name)| &**name).collect();
                if !known.contains(&name) {
                    let why = format!(
                        "spec.services.{key}, {}: serviceConfiguration.{field}: there is no {kind} {name}{}",
                        component.name,
                        nearest(name, &known)
                    );
                    component.problem.get_or_insert(why);
                }
            }
        }
    }
}

impl Component {
    /// Which component of a kind it means, if it says so.
    #[must_use]
    pub fn reference(&self, table: &Table, kind: &str) -> Option<&str> {
        let field = table.references.iter().find(|(_, of)| *of == kind)?.0;
        self.fields.get(field)?.as_str()
    }

    /// Whether it means this component of a kind: the one that it names, otherwise any.
    #[must_use]
    pub fn means(&self, table: &Table, kind: &str, name: &str) -> bool {
        self.reference(table, kind).is_none_or(|named| named == name)
    }

    /// The tag of its first container's image.
    #[must_use]
    pub fn version(&self, row: &Row) -> Option<String> {
        let image = &self.containers.get(row.containers.first()?)?.image;
        let last = image.rsplit('/').next()?;
        Some(last.split_once(['@', ':'])?.1.to_owned())
    }
}

impl Table {
    /// Where a row's components run that say nothing of it.
    fn selector_of(&self, row: &Row) -> BTreeMap<String, String> {
        match row.workload {
            Workload::StatefulSet => self.node_selector.clone(),
            Workload::DaemonSet => BTreeMap::new(),
        }
    }
}

/// The containers of an entry by name, and what is wrong with them.
fn containers_of(
    row: &Row,
    path: &str,
    all: Vec<ContainerImage>,
) -> (BTreeMap<String, ContainerImage>, Option<String>) {
    let path = format!("{path}.spec.serviceConfiguration.containers");
    let known: Vec<&str> = row.init.iter().chain(&row.containers).chain(&row.ignores).map(String::as_str).collect();
    let mut problem = None;
    let mut by_name = BTreeMap::new();
    for container in all {
        if !known.contains(&&*container.name) {
            let why = format!("{path}: there is no container {}{}", container.name, nearest(&container.name, &known));
            problem.get_or_insert(why);
        }
        if let Some(twice) = by_name.insert(container.name.clone(), container) {
            problem.get_or_insert(format!("{path}: container {} is listed twice; remove one", twice.name));
        }
    }
    for name in row.init.iter().chain(&row.containers).filter(|name| !by_name.contains_key(*name)) {
        problem.get_or_insert(format!("{path}: container {name} is missing; add its name and image"));
    }
    (by_name, problem)
}
