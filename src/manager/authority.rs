//! The authority that issues certificates: one Secret in a Manager's namespace, that no owner takes along, and
//! the ConfigMap of all authorities that programs trust.
//!
//! Pure. An authority is trusted by all before it signs, and trusted until it ends after it has signed: no connection
//! is refused for a renewal. Must not write anything, nor say a key.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use chrono::{DateTime, TimeDelta, Utc};
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use secrecy::ExposeSecret as _;
use serde_json::{Value, json};

use super::identity::entry;
use crate::api::manager::condition::Reason;
use crate::pki::{self, Certificate, Made, Period};

/// Entries of the Secret: certificate and key of the authority that signs, of the one that will, and the certificate of
/// the one that did.
const SIGNS: [&str; 2] = ["ca.crt", "ca.key"];
const NEXT: [&str; 2] = ["next.crt", "next.key"];
const PREVIOUS: &str = "previous.crt";
/// Entry of the ConfigMap.
const BUNDLE: &str = "ca-bundle.crt";

/// The authorities of a namespace.
#[derive(Debug, Clone)]
pub struct Authorities {
    pub signs: pki::Authority,
    /// It is being made known, and signs once all trust it.
    pub next: Option<pki::Authority>,
    pub previous: Option<Certificate>,
    /// The Secret's resourceVersion.
    pub version: String,
    pub is_immutable: bool,
}

/// What is to be done about them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    Stay,
    /// Another one is made.
    Prepare,
    /// The other one signs from now on.
    Promote,
    /// One that has ended is named no more.
    Forget,
}

/// What is to be written about the authorities, and what is wrong with them.
#[derive(Debug, Default, PartialEq)]
pub struct AuthorityPlan {
    /// The Secret, and the labels of what is created.
    pub name: String,
    pub labels: BTreeMap<String, String>,
    /// The first one is made.
    pub is_made: bool,
    pub step: Option<Step>,
    /// The desired ConfigMap, or what of it changes.
    pub bundle: Option<Value>,
    /// The UID of the one that is there, where it is immutable: only another one can have other entries.
    pub frozen: Option<String>,
    pub trouble: Option<(Reason, String)>,
    /// When there may be something to do without an event.
    pub next: Option<DateTime<Utc>>,
}

impl Authorities {
    /// Reads them, or says what is wrong.
    pub fn read(secret: &Secret) -> Result<Self, String> {
        let name = secret.name_any();
        let text = |key: &str| entry(secret, key);
        let wrong = |key: &str, why: String| format!("Secret {name}, entry {key}: {why}");
        let pair = |[certificate, key]: [&str; 2]| {
            let both = text(certificate).zip(text(key));
            both.map(|(pem, own)| pki::Authority::read(&pem, own.into()).map_err(|why| wrong(certificate, why)))
        };
        let lacks = || Err(format!("Secret {name} lacks {} or {}", SIGNS[0], SIGNS[1]));
        let previous = text(PREVIOUS).map(|pem| Certificate::read(&pem).map_err(|why| wrong(PREVIOUS, why)));
        Ok(Self {
            signs: pair(SIGNS).unwrap_or_else(lacks)?,
            next: pair(NEXT).transpose()?,
            previous: previous.transpose()?,
            version: secret.resource_version().unwrap_or_default(),
            is_immutable: secret.immutable == Some(true),
        })
    }

    /// The one that the newest servers must trust, too.
    #[must_use]
    pub fn newest(&self) -> &Certificate {
        &self.next.as_ref().unwrap_or(&self.signs).certificate
    }

    /// All that are trusted.
    fn trusted(&self) -> impl Iterator<Item = &Certificate> {
        let next = self.next.as_ref().map(|next| &next.certificate);
        [Some(&self.signs.certificate), next, self.previous.as_ref()].into_iter().flatten()
    }

    /// What the ConfigMap should hold: beside the certificates, an empty entry for each by which a server sees that it
    /// has it.
    #[must_use]
    pub fn bundle(&self) -> BTreeMap<String, String> {
        let marks = self.trusted().map(|one| (trusts(&one.id), String::new()));
        marks.chain([(BUNDLE.to_owned(), self.trusted().map(|one| &*one.pem).collect())]).collect()
    }

    /// Whether the operator made the one that signs, by the name of its Secret. It replaces no other one.
    #[must_use]
    pub fn is_made(&self, name: &str) -> bool {
        self.signs.certificate.name == name
    }

    /// What is to be done now. `is_known`: whether all servers trust the next one. `lifetime`: that of a new one.
    #[must_use]
    pub fn step(&self, name: &str, is_known: bool, lifetime: TimeDelta, now: DateTime<Utc>) -> Step {
        let period = self.signs.certificate.period;
        let is_due = period.renews_at() <= now || period.is_longer_than(Period::of(lifetime, now));
        match (&self.next, &self.previous) {
            (Some(_), _) if is_known => Step::Promote,
            (_, Some(previous)) if previous.period.to <= now => Step::Forget,
            (None, _) if is_due && self.is_made(name) => Step::Prepare,
            _ => Step::Stay,
        }
    }

    /// When there may be something to do without an event.
    pub fn changes_at(&self) -> impl Iterator<Item = DateTime<Utc>> {
        let period = self.signs.certificate.period;
        let ends = self.previous.as_ref().map(|previous| previous.period.to);
        [period.renews_at(), period.is_late_at()].into_iter().chain(ends)
    }

    /// What of the Secret a step changes, if no one else has changed it. `made`: the authority that it makes.
    #[must_use]
    pub fn change(&self, step: Step, made: Option<&Made>) -> Value {
        let mut data = BTreeMap::new();
        match (step, made, &self.next) {
            (Step::Prepare, Some(made), _) => data.extend(entries(NEXT, made)),
            (Step::Promote, _, Some(next)) => {
                let (certificate, key) = (next.certificate.pem.clone(), next.key.clone());
                data.extend(entries(SIGNS, &Made { certificate, key }));
                data.extend(NEXT.map(|key| (key, Value::Null)));
                data.insert(PREVIOUS, STANDARD.encode(&self.signs.certificate.pem).into());
            }
            (Step::Forget, _, _) => drop(data.insert(PREVIOUS, Value::Null)),
            _ => {}
        }
        json!({ "metadata": { "resourceVersion": self.version }, "data": data })
    }
}

/// The entries of an authority that signs.
#[must_use]
pub fn first(made: &Made) -> BTreeMap<&'static str, Value> {
    entries(SIGNS, made).into()
}

fn entries([certificate, key]: [&'static str; 2], made: &Made) -> [(&'static str, Value); 2] {
    let value = |text: &str| STANDARD.encode(text).into();
    [(certificate, value(&made.certificate)), (key, value(made.key.expose_secret()))]
}

/// The entry by which a server sees that it has an authority's certificate.
#[must_use]
pub fn trusts(id: &str) -> String {
    format!("trusts-{id}")
}
