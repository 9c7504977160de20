//! The certificates of a component's servers, in one Secret: one for each address, all of one period.
//!
//! Pure. A server that comes later gets its own; none of the others must start again for it. Must not decide
//! where they are used, nor say a key.

use std::collections::{BTreeMap, BTreeSet};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use chrono::{DateTime, TimeDelta, Utc};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use secrecy::ExposeSecret as _;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::authority::Authorities;
use crate::k8s::hex::hex;
use crate::pki::{Authority, Period};

/// The entry that says what the others are.
const ISSUED: &str = "issued";
/// How entries begin that mark a period, and those that are of a server. All others are another client's.
const MARK: &str = "issued-";
const SERVER: &str = "server-";
/// So many periods that were before leave a mark: a server of an earlier template may start again.
const MARKS: usize = 10;

/// What the Secret is called.
#[must_use]
pub fn certificates_name(component: &str) -> String {
    format!("{component}-secret-certificates")
}

/// What is known of the certificates.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Issued {
    /// The authority that signed them.
    pub authority: String,
    pub from: DateTime<Utc>,
    pub to: DateTime<Utc>,
    /// When those before them end: servers of an earlier template have them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<DateTime<Utc>>,
    /// Marks of the periods before: they are put back from here.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    earlier: Vec<String>,
    /// Of the entries of all servers: none was changed.
    #[serde(default)]
    digest: String,
}

/// The certificates of a component's servers.
pub struct Leaves<'s> {
    pub issued: Issued,
    entries: &'s BTreeMap<String, ByteString>,
}

/// Into which Secret certificates are issued, and for which servers.
#[derive(Clone)]
pub struct Into {
    pub name: String,
    pub namespace: String,
    pub labels: BTreeMap<String, String>,
    pub owner: Value,
    /// Whose they are, and the names under which its servers are reached.
    pub subject: String,
    pub hosts: Vec<String>,
}

/// Certificates that are to be issued.
#[derive(Clone)]
pub struct Issue {
    pub into: Into,
    /// The resourceVersion of the Secret that is there.
    pub over: Option<String>,
    /// Its UID where it is immutable: only another one can have other entries.
    pub frozen: Option<String>,
    /// Addresses that get one.
    pub missing: BTreeSet<String>,
    pub issued: Issued,
    /// Entries that stay as they are.
    kept: BTreeMap<String, ByteString>,
    /// Entries that go.
    gone: BTreeSet<String>,
}

impl<'s> Leaves<'s> {
    /// Reads them; `None`: they were changed.
    #[must_use]
    pub fn read(secret: &'s Secret) -> Option<Self> {
        let entries = secret.data.as_ref()?;
        let issued = stated(entries)?;
        (digest(entries) == issued.digest).then_some(Self { issued, entries })
    }

    /// Whether these addresses have one, no other has, and each mark is there.
    fn are_whole(&self, addresses: &BTreeSet<String>) -> bool {
        let has_marks = self.issued.marks().all(|mark| self.entries.contains_key(&mark));
        has_marks && self.cover(addresses) && self.count() == addresses.len()
    }

    /// How many there are.
    fn count(&self) -> usize {
        self.entries.keys().filter(|key| key.starts_with("server-key-")).count()
    }

    /// The entry by which a server sees that it has those of this period.
    #[must_use]
    pub fn mark(&self) -> String {
        mark(&self.issued)
    }

    /// Whether these have one.
    #[must_use]
    pub fn cover(&self, addresses: &BTreeSet<String>) -> bool {
        addresses.iter().all(|address| self.entries.contains_key(&certificate(address)))
    }
}

impl Issued {
    /// The entries by which servers of this template and of earlier ones see that theirs are there.
    fn marks(&self) -> impl Iterator<Item = String> {
        self.earlier.iter().cloned().chain([mark(self)])
    }

    #[must_use]
    pub fn period(&self) -> Period {
        Period { from: self.from, to: self.to }
    }

    /// When the first of those that servers have ends. `has_earlier`: some are of an earlier template.
    #[must_use]
    pub fn ends(&self, has_earlier: bool) -> DateTime<Utc> {
        self.before.filter(|_| has_earlier).map_or(self.to, |before| before.min(self.to))
    }

    /// When a human must know that there are no others.
    #[must_use]
    pub fn late_at(&self, has_earlier: bool) -> DateTime<Utc> {
        self.ends(has_earlier) - (self.to - self.period().is_late_at())
    }
}

/// What certificates are issued by.
pub struct Terms<'t> {
    pub authorities: &'t Authorities,
    /// The Secret that is there.
    pub live: Option<&'t Secret>,
    pub lifetime: TimeDelta,
    pub now: DateTime<Utc>,
}

/// What is to be issued for these addresses.
#[must_use]
pub fn issue(
    terms: &Terms<'_>,
    leaves: Option<&Leaves<'_>>,
    addresses: &BTreeSet<String>,
    into: Into,
) -> Option<Issue> {
    let Terms { authorities, live, lifetime, now } = *terms;
    let signs = &authorities.signs.certificate;
    let own = Period::of(lifetime, now);
    let (from, to) = (own.from.max(signs.period.from), own.to.min(signs.period.to));
    let is_due = |issued: &Issued| {
        // One that would end no later is no better.
        let is_old = issued.period().renews_at() <= now && to > issued.to;
        issued.authority != signs.id || is_old || issued.period().is_longer_than(own)
    };
    let current = leaves.filter(|leaves| !is_due(&leaves.issued));
    if current.is_some_and(|leaves| leaves.are_whole(addresses)) {
        return None;
    }
    let nothing = BTreeMap::new();
    let there = live.and_then(|secret| secret.data.as_ref()).unwrap_or(&nothing);
    // Where certificates were changed, these marks are still those that servers wait for.
    let before = stated(there);
    let known = there.keys().filter(|key| key.starts_with(MARK)).cloned();
    let mut marks: BTreeSet<String> = known.chain(before.iter().flat_map(Issued::marks)).collect();
    let mut issued = current.map_or_else(
        || Issued {
            authority: signs.id.clone(),
            from,
            to,
            before: before.as_ref().map(|before| before.to),
            ..Issued::default()
        },
        |leaves| leaves.issued.clone(),
    );
    marks.remove(&mark(&issued));
    issued.earlier = marks.iter().skip(marks.len().saturating_sub(MARKS)).cloned().collect();
    let marks: BTreeSet<String> = issued.marks().collect();
    let own: BTreeSet<String> = addresses.iter().flat_map(|one| [certificate(one), private(one)]).collect();
    let stays = |key: &String| {
        if key.starts_with(MARK) {
            marks.contains(key)
        } else if key.starts_with(SERVER) {
            current.is_some() && own.contains(key)
        } else {
            key != ISSUED
        }
    };
    let (kept, others): (BTreeMap<_, _>, BTreeMap<_, _>) =
        there.iter().map(|(key, bytes)| (key.clone(), bytes.clone())).partition(|(key, _)| stays(key));
    let missing = addresses.iter().filter(|address| !kept.contains_key(&certificate(address))).cloned().collect();
    let gone = others.into_keys().filter(|key| key != ISSUED && !own.contains(key)).collect();
    let frozen = live.filter(|secret| secret.immutable == Some(true)).and_then(ResourceExt::uid);
    let over = live.filter(|_| frozen.is_none()).map(|secret| secret.resource_version().unwrap_or_default());
    Some(Issue { into, over, frozen, missing, issued, kept, gone })
}

impl Issue {
    /// The object to create, or what of it to change. `signs`: the authority; another than was meant issues nothing.
    pub fn object(&self, signs: &Authority) -> Result<Option<Value>, String> {
        if signs.certificate.id != self.issued.authority {
            return Ok(None);
        }
        let signer = signs.signer()?;
        let mut entries = self.kept.clone();
        for address in &self.missing {
            let ip = address.parse().map_err(|_| format!("{address} is no address"))?;
            let Into { subject, hosts, .. } = &self.into;
            let made = signer.issue(subject, ip, hosts, self.issued.period())?;
            entries.insert(certificate(address), ByteString(made.certificate.into_bytes()));
            entries.insert(private(address), ByteString(made.key.expose_secret().as_bytes().to_vec()));
        }
        let issued = Issued { digest: digest(&entries), ..self.issued.clone() };
        let text = serde_json::to_string(&issued).unwrap_or_default();
        entries.insert(ISSUED.to_owned(), ByteString(text.into_bytes()));
        for mark in issued.marks() {
            entries.entry(mark).or_default();
        }
        // What is there stays there: of hundreds of servers, those that join.
        entries.retain(|key, _| self.over.is_none() || !self.kept.contains_key(key));
        let data = entries.into_iter().map(|(key, bytes)| (key, STANDARD.encode(bytes.0).into()));
        let gone = self.gone.iter().filter(|_| self.over.is_some()).map(|key| (key.clone(), Value::Null));
        let data: BTreeMap<String, Value> = data.chain(gone).collect();
        let Into { name, namespace, labels, owner, .. } = &self.into;
        let mut object = json!({ "apiVersion": "v1", "kind": "Secret", "data": data, "metadata": { "name": name,
            "namespace": namespace, "labels": labels, "ownerReferences": [owner] } });
        if let Some(over) = &self.over {
            object["metadata"]["resourceVersion"] = over.clone().into();
        }
        Ok(Some(object))
    }
}

/// What a Secret says of its certificates.
fn stated(entries: &BTreeMap<String, ByteString>) -> Option<Issued> {
    serde_json::from_slice(&entries.get(ISSUED)?.0).ok()
}

fn mark(issued: &Issued) -> String {
    format!("{MARK}{}-{}", issued.to.timestamp_micros(), issued.authority)
}

fn certificate(address: &str) -> String {
    format!("{SERVER}{address}.crt")
}

fn private(address: &str) -> String {
    format!("{SERVER}key-{address}.pem")
}

/// Of the entries of all servers.
fn digest(entries: &BTreeMap<String, ByteString>) -> String {
    let mut hash = Sha256::new();
    for (key, ByteString(bytes)) in entries.iter().filter(|(key, _)| key.starts_with(SERVER)) {
        hash.update(format!("{key} {} ", bytes.len()));
        hash.update(bytes);
    }
    hex(&hash.finalize())
}
