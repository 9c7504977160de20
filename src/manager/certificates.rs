//! Certificates in one reconcile: what the authorities need, what each component has of its own, and what runs out.
//!
//! Pure. What is there stays in use when no new one can be issued. Must not make or write one.

use std::collections::{BTreeMap, BTreeSet};

use chrono::{DateTime, Utc};
use kube::ResourceExt;
use serde_json::{Value, json};

use super::authority::{Authorities, AuthorityPlan, Step, trusts};
use super::blueprint::{Marks, companion_name, labels_of};
use super::identity::immutable;
use super::leaves::{Into, Issue, Issued, Leaves, Terms, certificates_name, issue};
use super::live::controller;
use super::objects::owner;
use super::part::Facts;
use super::place::Found;
use super::resolve::Component;
use crate::api::manager::condition::Reason;
use crate::stack::table::{self, Row, Table};

/// The label's value of what belongs to no component.
const SHARED: &str = "certificates";

/// What is known of a namespace's authorities.
pub struct Trust<'f> {
    facts: &'f Facts<'f>,
    of: &'f table::Certificates,
    /// `None`: there is none yet.
    authorities: Option<Result<Authorities, String>>,
}

/// What a component has.
#[derive(Default)]
pub struct Certified {
    /// What its servers await; `None`: they have no certificates.
    pub marks: Option<Marks>,
    /// Why not all its servers have one.
    pub lacks: Option<String>,
    pub issue: Option<Issue>,
    pub issued: Option<Issued>,
}

impl<'f> Trust<'f> {
    /// `None`: no component has certificates.
    #[must_use]
    pub fn of(facts: &'f Facts<'f>) -> Option<Self> {
        let Facts { table, resolved, all, .. } = *facts;
        let of = table.certificates.as_ref()?;
        resolved.components.iter().find(|one| table.rows[one.row].certificates)?;
        let secret = all.secrets.get(&resolved.namespace, &of.authority);
        Some(Self { facts, of, authorities: secret.map(Authorities::read) })
    }

    /// What a component has.
    #[must_use]
    pub fn certified(&self, row: &Row, component: &Component, found: &Found) -> Certified {
        let Facts { table, resolved, all, now, .. } = *self.facts;
        if !row.certificates {
            return Certified::default();
        }
        let name = certificates_name(&component.name);
        let live = all.secrets.get(&resolved.namespace, &name);
        let foreign = live.and_then(|secret| controller(secret, &resolved.uid));
        let leaves = live.and_then(Leaves::read);
        let addresses: BTreeSet<String> = found.peers.iter().flatten().map(|peer| peer.address.clone()).collect();
        let authorities = self.authorities.as_ref().and_then(|read| read.as_ref().ok());
        let issue = authorities.filter(|_| foreign.is_none()).and_then(|authorities| {
            let service = format!("{}.{}", companion_name(row, &component.name), resolved.namespace);
            let into = Into {
                name: name.clone(),
                namespace: resolved.namespace.clone(),
                labels: labels_of(table, row, &component.name),
                owner: owner(resolved),
                subject: component.name.clone(),
                hosts: if row.ports.is_empty() { Vec::new() } else { vec![service.clone(), format!("{service}.svc")] },
            };
            let terms = Terms { authorities, live, lifetime: resolved.lifetimes.servers, now };
            issue(&terms, leaves.as_ref(), &addresses, into)
        });
        let marks = Marks {
            issued: leaves.as_ref().map(Leaves::mark).unwrap_or_default(),
            // Nothing starts again because it is unknown.
            trusts: authorities
                .map_or_else(|| found.live.trusts.clone(), |authorities| trusts(&authorities.newest().id)),
        };
        let lacks = match foreign {
            Some((kind, owner)) => Some(format!("Secret {name}, which belongs to {kind} {owner}, to be removed")),
            None if leaves.as_ref().is_some_and(|leaves| leaves.cover(&addresses)) => None,
            None => Some("its certificates".to_owned()),
        };
        Certified { marks: Some(marks), lacks, issue, issued: leaves.map(|leaves| leaves.issued) }
    }

    /// What the authorities need. `are_settled`: whether new Pods of all components are as desired.
    #[must_use]
    pub fn plan(&self, are_settled: bool) -> AuthorityPlan {
        let Facts { table, resolved, all, now, .. } = *self.facts;
        let Self { of, .. } = self;
        let labels = BTreeMap::from([(table.labels.kind.clone(), SHARED.to_owned())]);
        let live = all.config_maps.get(&resolved.namespace, &of.bundle);
        let mut plan = AuthorityPlan { name: of.authority.clone(), labels, ..AuthorityPlan::default() };
        let authorities = match &self.authorities {
            None if live.is_none() => return AuthorityPlan { is_made: true, ..plan },
            None => {
                let why = format!(
                    "Secret {}, the authority of all certificates, is gone: restore it; or delete ConfigMap {}, too, \
                     to have another one made, and connections refused until all Pods are replaced",
                    of.authority, of.bundle
                );
                plan.trouble = Some((Reason::AuthorityUnusable, why));
                return plan;
            }
            Some(Err(why)) => {
                let why = format!("{why}; restore it: no certificate can be issued or renewed without it");
                plan.trouble = Some((Reason::AuthorityUnusable, why));
                return plan;
            }
            Some(Ok(authorities)) => authorities,
        };
        let mark = authorities.next.as_ref().map(|next| trusts(&next.certificate.id));
        let is_there = |mark| live.and_then(|map| map.data.as_ref()).is_some_and(|data| data.contains_key(mark));
        let servers = all.servers_in(&resolved.namespace);
        let distrusts: Vec<&str> =
            servers.filter(|one| one.trusts.is_some() && one.trusts != mark).map(|one| &*one.name).collect();
        let is_known = are_settled && distrusts.is_empty() && mark.as_ref().is_some_and(is_there);
        let step = authorities.step(&of.authority, is_known, resolved.lifetimes.authority, now);
        let steps = Some(step).filter(|step| *step != Step::Stay);
        if authorities.is_immutable {
            plan.trouble = steps.map(|_| (Reason::AuthorityUnusable, immutable(&of.authority)));
        } else {
            plan.step = steps;
        }
        let wanted = authorities.bundle();
        let there = live.and_then(|map| map.data.clone()).unwrap_or_default();
        if live.is_none() || there != wanted {
            plan.frozen = live.filter(|map| map.immutable == Some(true)).and_then(ResourceExt::uid);
            let live = live.filter(|_| plan.frozen.is_none());
            let gone = there.into_keys().filter(|key| live.is_some() && !wanted.contains_key(key));
            let gone = gone.map(|key| (key, Value::Null));
            let data: BTreeMap<String, Value> =
                gone.chain(wanted.iter().map(|(key, text)| (key.clone(), text.clone().into()))).collect();
            let mut object = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": of.bundle,
                "namespace": resolved.namespace, "labels": plan.labels }, "data": data });
            if let Some(live) = live {
                object["metadata"]["resourceVersion"] = live.resource_version().into();
            }
            plan.bundle = Some(object);
        }
        let period = authorities.signs.certificate.period;
        if period.is_late_at() <= now && plan.trouble.is_none() {
            let waits = match (&authorities.next, distrusts.first()) {
                (Some(_), Some(first)) => format!(
                    "the next one signs once all Pods trust it, and {} do not, such as {first}: let them be replaced",
                    distrusts.len()
                ),
                (Some(_), None) => "the next one signs once all components are as the spec has them".to_owned(),
                (None, _) if !authorities.is_made(&of.authority) => {
                    "the operator did not make it and replaces it with none of its own: put the next one into entries \
                     next.crt and next.key of the Secret"
                        .to_owned()
                }
                (None, _) => "another one is being made".to_owned(),
            };
            let why =
                format!("the authority in Secret {} ends at {}; {waits}", of.authority, period.to.format("%FT%TZ"));
            plan.trouble = Some((Reason::CertificatesExpiring, why));
        }
        plan.next = authorities.changes_at().filter(|at| *at > now).min();
        plan
    }
}

impl Certified {
    /// Why it is high time that its Pods get other certificates. `has_earlier`: some run an earlier template.
    #[must_use]
    pub fn late(&self, table: &Table, component: &Component, has_earlier: bool, now: DateTime<Utc>) -> Option<String> {
        let issued = self.issued.as_ref()?;
        let helps = if has_earlier {
            "let its Pods be replaced: see rollout.paused, rollout.windows and rollout.blackouts".to_owned()
        } else {
            let authority = table.certificates.as_ref().map(|of| &*of.authority).unwrap_or_default();
            format!("no other can be issued: see what is said of Secret {authority}")
        };
        let when = issued.ends(has_earlier).format("%FT%TZ");
        (issued.late_at(has_earlier) <= now)
            .then(|| format!("{}: the certificates of its Pods end at {when}; {helps}", component.name))
    }

    /// When there may be something to do without an event.
    pub fn changes_at(&self) -> impl Iterator<Item = DateTime<Utc>> {
        let of = |issued: &Issued| [issued.period().renews_at(), issued.late_at(false), issued.late_at(true)];
        self.issued.iter().flat_map(of)
    }
}
