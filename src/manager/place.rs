//! Where a component's servers are, or will be: a store's by what identifies it, others' by their workload.
//!
//! Pure. Must not write anything.

use super::blueprint::{DATA, workload_name};
use super::fleet::Inner;
use super::identity::{Identity, identity_name};
use super::live::{Live, daemon_set, stateful_set};
use super::part::Facts;
use super::pods::Server;
use super::resolve::Component;
use crate::k8s::node::Node;
use crate::stack::files::Peer;
use crate::stack::members::{Around, Members, Next};
use crate::stack::size;
use crate::stack::table::{Row, Store, Workload};

/// What there is of a component, and where it is.
pub struct Found {
    pub exists: bool,
    pub live: Live,
    /// The nodes of its servers; of one that runs on each node, none.
    pub nodes: Vec<String>,
    /// Its servers with their addresses, of nodes that are gone the last that they had; or a node of which none is
    /// known.
    pub peers: Result<Vec<Peer>, String>,
    /// Why a server has no node.
    pub gone: Option<String>,
    /// What identifies it; or what is wrong with that.
    pub identity: Option<Result<Identity, String>>,
    /// A store's servers: those that it has, or its first ones.
    pub members: Option<Members>,
}

/// Looks for a component.
#[must_use]
pub fn found(facts: &Facts<'_>, component: &Component) -> Found {
    let Facts { table, resolved, all, .. } = *facts;
    let row = &table.rows[component.row];
    let (namespace, name) = (&*resolved.namespace, workload_name(row, &component.name));
    let live = match row.workload {
        Workload::StatefulSet => all.stateful_sets.get(namespace, &name).map(|set| stateful_set(set, &resolved.uid)),
        Workload::DaemonSet => all.daemon_sets.get(namespace, &name).map(|set| daemon_set(set, &resolved.uid)),
    };
    let exists = live.is_some();
    let mut live = live.unwrap_or_default();
    if exists && row.workload == Workload::StatefulSet && !live.is_recorded {
        let servers = all.servers(namespace, &row.kind, &component.name).filter(|one| one.is_bound && !one.is_ending);
        live.nodes = believed(&live, &servers.map(|one| &one.node).collect::<Vec<_>>());
    }
    let identity = all.secrets.get(namespace, &identity_name(row, &component.name)).filter(|_| row.is_identified());
    let identity = identity.map(|secret| Identity::read(secret, row));
    let members = row.store.as_ref().and_then(|store| match &identity {
        Some(Ok(identity)) => Some(identity.members.clone()),
        None if !exists => Some(first(store, component, all)),
        // Which numbers they have is unknown; where they are, their workload says.
        Some(Err(_)) | None => None,
    });
    let nodes: Vec<String> = match (row.workload, &members) {
        (Workload::DaemonSet, _) => Vec::new(),
        (_, Some(members)) => members.nodes(),
        (_, None) if row.store.is_some() => live.nodes.clone(),
        (_, None) => {
            let exists = |name: &str| all.nodes.get(name).is_some_and(|node| matches(component, node));
            size::nodes(&live.nodes, (&open(component, all), exists), component.replicas)
        }
    };
    let of_each = all.nodes.values().filter(|node| matches(component, node)).map(|node| &*node.name);
    let names: Vec<&str> = match row.workload {
        Workload::StatefulSet => nodes.iter().map(|node| &**node).collect(),
        Workload::DaemonSet => of_each.collect(),
    };
    let numbers: Vec<u32> = match &members {
        Some(Members(members)) => members.iter().map(|one| one.number).collect(),
        None => (1..).take(names.len()).collect(),
    };
    let has_address = |name: &str| all.nodes.get(name).and_then(|node| node.ip);
    let why = |name: &str| {
        let fewer = if row.store.is_none() { ", or replicas asks for fewer" } else { "" };
        format!(
            "node {name}, where a server is, is gone or has no InternalIP in its status: nothing is changed until it \
             is back, or another node is there for that server{fewer}"
        )
    };
    let peer = |(name, number): (&&str, u32)| {
        let address = has_address(name).map(|ip| ip.to_string()).or_else(|| live.addresses.get(*name).cloned());
        Ok(Peer { number, address: address.ok_or_else(|| why(name))? })
    };
    let peers = names.iter().zip(numbers).map(peer).collect();
    let gone = names.iter().find(|name| has_address(name).is_none()).map(|name| why(name));
    Found { exists, live, nodes, peers, gone, identity, members }
}

/// The nodes of a component's servers where another client may have changed the record: no server moves for that.
fn believed(live: &Live, run: &[&String]) -> Vec<String> {
    let runs = |node: &String| run.contains(&node);
    let mut others = run.iter().filter(|node| !live.nodes.contains(node)).map(|node| (*node).clone());
    let stays = |node: &String| if runs(node) { None } else { others.next() }.unwrap_or_else(|| node.clone());
    let mut nodes: Vec<String> = live.nodes.iter().map(stays).collect();
    nodes.extend(others);
    while let Some(at) = nodes.iter().rposition(|node| !runs(node)).filter(|_| nodes.len() > live.desired) {
        nodes.remove(at);
    }
    nodes
}

/// The first servers of a store.
fn first(store: &Store, component: &Component, all: &Inner) -> Members {
    let around = Around { open: &open(component, all), asked: component.replicas, gone: &[], serving: &[] };
    match Members::default().next(store.starts, around) {
        Next::Become(members) => members,
        Next::Stay | Next::Wait(_) => Members::default(),
    }
}

impl Found {
    /// Whether nothing identifies it yet: of a store, because there is nothing of it. One that keeps nothing may get
    /// other secrets.
    #[must_use]
    pub fn is_new(&self, row: &Row) -> bool {
        row.is_identified() && self.identity.is_none() && (!self.exists || row.store.is_none())
    }

    /// Why its identity is unknown.
    #[must_use]
    pub fn unidentified(&self, row: &Row, component: &Component) -> Option<String> {
        let has = self.live.nodes.len();
        match &self.identity {
            // A line less is a server less, with its data.
            Some(Ok(Identity { members, .. })) if row.store.is_some() && members.0.len() < has => Some(format!(
                "{}: Secret {} names {} servers, and there are {has}: a store never shrinks; restore its entry",
                component.name,
                identity_name(row, &component.name),
                members.0.len()
            )),
            Some(Ok(_)) => None,
            Some(Err(why)) => Some(format!("{}: {why}", component.name)),
            None if !self.exists || row.store.is_none() => None,
            None => {
                let (secret, workload) = (identity_name(row, &component.name), workload_name(row, &component.name));
                Some(format!(
                    "{}: Secret {secret} is gone, by which its servers know each other: restore it; or, to begin with \
                     empty servers, delete StatefulSet {workload} and its claims",
                    component.name
                ))
            }
        }
    }

    /// How many servers are wanted, and what is next for those of a store.
    #[must_use]
    pub fn next(&self, facts: &Facts<'_>, component: &Component) -> (usize, Next) {
        let Facts { table, resolved, all, .. } = *facts;
        let row = &table.rows[component.row];
        let Some((store, members)) = row.store.as_ref().zip(self.members.as_ref()) else {
            return (self.nodes.len(), Next::Stay);
        };
        let servers = || all.servers(&resolved.namespace, &row.kind, &component.name);
        // Kubernetes removes Pods from nodes that do not exist, after a while.
        let is_gone =
            |node: &String| !all.nodes.contains_key(node) && servers().all(|one| !one.is_bound || one.node != *node);
        let gone: Vec<String> = members.nodes().into_iter().filter(is_gone).collect();
        let is_current = |one: &&Server| one.template == self.live.template;
        let is_up = |one: &&Server| !one.is_ending && one.ready_since.is_some();
        // A change that is under way, or held, does not keep a lost server from being replaced.
        let counts = |one: &&Server| !gone.is_empty() || is_current(one);
        let serving: Vec<String> = servers().filter(is_up).filter(counts).map(|one| one.node.clone()).collect();
        let around = Around { open: &open(component, all), asked: component.replicas, gone: &gone, serving: &serving };
        let next = match self.is_new(row) {
            true if members.0.is_empty() => Next::Stay,
            true => Next::Become(members.clone()),
            false => members.next(store.starts, around),
        };
        (members.wanted(around), next)
    }
}

/// Nodes on which a further server may be placed, by name.
fn open(component: &Component, all: &Inner) -> Vec<String> {
    let nodes = all.nodes.values().filter(|node| matches(component, node) && node.busy.is_none());
    nodes.map(|node| node.name.to_string()).collect()
}

/// Whether a component may run on a node, as far as its labels go.
fn matches(component: &Component, node: &Node) -> bool {
    component.node_selector.iter().all(|(key, value)| node.labels.get(key) == Some(value))
}

/// Why a Pod is bound to no node, and what helps where its volume keeps it from all that are left.
#[must_use]
pub fn unbound(row: &Row, pod: &str, why: &str) -> String {
    // The scheduler's words, up to 1.32 and since.
    let is_kept =
        ["volume node affinity conflict", "PersistentVolume's node affinity"].iter().any(|word| why.contains(word));
    if row.store.is_none() || !is_kept {
        return format!("Pod {pod}: {why}");
    }
    format!(
        "Pod {pod}: its volume is on none of these nodes; if that node is gone for good, delete claim {DATA}-{pod}: \
         {why}"
    )
}

/// Why no node is there for a component.
#[must_use]
pub fn unplaced(component: &Component, all: &Inner) -> String {
    let selector: Vec<String> = component.node_selector.iter().map(|(key, value)| format!("{key}={value}")).collect();
    let selector = selector.join(",");
    match all.nodes.values().filter(|node| matches(component, node)).count() {
        0 => format!("no node has label {selector}; label the nodes that you mean, or correct nodeSelector"),
        count => format!("all {count} nodes with label {selector} are cordoned or being removed"),
    }
}
