//! The Secrets and ConfigMaps that a OneAgent names, as the last look at them showed.
//!
//! Must not print a value, nor decide.

use std::sync::Arc;

use secrecy::{ExposeSecret, SecretString};

use super::super::build::pull_secret::KEY;
use super::super::build::template::short_hash;
use super::super::context::Cx;
use super::super::from_cluster::bundle_name;
use super::super::resolve::{ProxySource, Resolved};
use crate::api::name::Version;
use crate::dynatrace::{Error, Snapshot};
use crate::kernel::named::Lookup;
use crate::kernel::{NamedKind, Reference};
use crate::openshift::cluster::BUNDLE;

/// A token, as its Secret has it.
#[derive(Debug, Clone)]
pub enum Token {
    There {
        /// Trimmed.
        value: SecretString,
        /// Whether there were blanks around it.
        blanks: bool,
    },
    /// The Secret is missing.
    NoSecret,
    /// The Secret lacks the key, or it is empty.
    NoKey,
    /// The Secret could not be read.
    Unread(String),
}

/// An object that the spec names.
#[derive(Debug, Clone)]
pub enum Named {
    /// Its value, and a mark that changes with it: never a hash that lets the value of a Secret be guessed.
    There(SecretString, String),
    /// Why it cannot be used, and the remedy.
    Unusable(String),
    /// The API server did not say.
    Unread(String),
}

/// The environment, and why its place is empty.
type InItsPlace = (Option<Result<Arc<Snapshot>, Error>>, Option<String>);

/// The objects that a OneAgent refers to.
pub(super) struct References {
    pub(super) secret: Reference,
    pub(super) proxy: Option<Reference>,
    pub(super) trusted: Option<Reference>,
    pub(super) pull: Option<Reference>,
    /// The list of versions.
    pub(super) versions: Option<Reference>,
    /// The stop for the whole cluster.
    pub(super) stop: Reference,
}

pub(super) fn references(cx: &Cx<'_>, resolved: &Resolved) -> References {
    let here = |kind, name: &str| Reference { kind, namespace: resolved.namespace.clone(), name: name.to_owned() };
    let proxy = match &resolved.proxy {
        Some(ProxySource::Secret(name)) => Some(here(NamedKind::Secret, name)),
        _ => None,
    };
    References {
        secret: here(NamedKind::Secret, &resolved.tokens),
        proxy,
        trusted: certificates(resolved).map(|(name, _)| here(NamedKind::ConfigMap, &name)),
        pull: resolved
            .from_image
            .as_ref()
            .and_then(|image| image.secret(&resolved.name))
            .map(|name| here(NamedKind::Secret, &name)),
        versions: resolved.versions.as_ref().map(|(name, _)| here(NamedKind::ConfigMap, name)),
        stop: cx.stop(),
    }
}

/// The ConfigMap with certificates, and its key.
pub(super) fn certificates(resolved: &Resolved) -> Option<(String, &'static str)> {
    let bundle = || resolved.cluster.certificates.then(|| (bundle_name(&resolved.name), BUNDLE));
    resolved.trusted_cas.clone().map(|name| (name, "certs")).or_else(bundle)
}

/// A pull secret has its content under one of two keys, by its type.
pub(super) fn pull_secret_of(look: Option<Lookup>, namespace: &str, name: &str) -> Named {
    let remedy = format!(
        "kubectl -n {namespace} create secret docker-registry {name} --docker-server=… --docker-username=… \
        --docker-password=…"
    );
    match look {
        Some(Lookup::Found(data)) => match [KEY, ".dockercfg"].iter().find_map(|key| data.entries.get(*key)) {
            Some(content) => Named::There(content.clone(), String::new()),
            None => Named::Unusable(format!(
                "Secret {namespace}/{name} is no pull secret (type kubernetes.io/dockerconfigjson): delete it and run \
                {remedy}"
            )),
        },
        Some(Lookup::Absent) | None => {
            Named::Unusable(format!("Secret {namespace}/{name} does not exist: run {remedy}"))
        }
        Some(Lookup::Unknown(why)) => Named::Unread(format!("Secret {namespace}/{name} cannot be read: {why}")),
    }
}

/// What a ConfigMap says in the place of the environment, and why it says nothing: then nothing is known of versions.
#[must_use]
pub fn in_its_place(look: Option<Lookup>, resolved: &Resolved, list: &(String, String)) -> InItsPlace {
    let listed = listed(look, resolved, list);
    let why = listed.as_ref().err().map(|why| format!("spec.update.configMap: {why}; agents keep their version"));
    (Some(Ok(Arc::new(listed.unwrap_or_default()))), why)
}

fn listed(look: Option<Lookup>, resolved: &Resolved, (name, key): &(String, String)) -> Result<Snapshot, String> {
    let what = format!("ConfigMap {}/{name}", resolved.namespace);
    let text = match look {
        Some(Lookup::Found(data)) => data.entries.get(key).cloned(),
        Some(Lookup::Absent) | None => return Err(format!("{what} does not exist; create it with key {key}")),
        Some(Lookup::Unknown(why)) => return Err(format!("{what} cannot be read: {why}")),
    };
    let text = text.ok_or_else(|| format!("{what} has no key {key}; add it, with one version per line"))?;
    let lines = text.expose_secret().lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    let read = |line: &str| line.parse::<Version>().map_err(|why| format!("key {key} of {what}: {line:?}: {why}"));
    let mut versions = lines.map(read).collect::<Result<Vec<_>, _>>()?;
    versions.sort_unstable_by(|a, b| b.cmp(a));
    let latest = versions.first().copied();
    let latest = latest.ok_or_else(|| format!("key {key} of {what} is empty; write one version per line"))?;
    Ok(Snapshot { latest: Some(latest), offered: Some(versions.into()), ..Snapshot::default() })
}

pub(super) fn token(look: Option<&Lookup>, key: &str) -> Token {
    match look {
        Some(Lookup::Found(data)) => {
            match data.entries.get(key).map(|v| (v.expose_secret().trim(), v.expose_secret().len())) {
                Some((trimmed, length)) if !trimmed.is_empty() => {
                    Token::There { value: trimmed.to_owned().into(), blanks: trimmed.len() != length }
                }
                _ => Token::NoKey,
            }
        }
        Some(Lookup::Absent) | None => Token::NoSecret,
        Some(Lookup::Unknown(why)) => Token::Unread(why.clone()),
    }
}

pub(super) fn named(look: Option<Lookup>, kind: &str, namespace: &str, name: &str, key: &str) -> Named {
    match look {
        Some(Lookup::Found(data)) => match data.entries.get(key).filter(|v| !v.expose_secret().trim().is_empty()) {
            Some(value) => {
                let value = value.expose_secret().trim();
                // A Secret's UID is known only to those who may read the Secret: with it no one else can try values
                // out. Of another Secret with the same value the plan keeps the mark.
                let keyed = if kind == "Secret" { data.uid.as_str() } else { "" };
                Named::There(value.to_owned().into(), short_hash(format!("{keyed}\n{value}").as_bytes()))
            }
            None => Named::Unusable(format!("{kind} {namespace}/{name} has no key {key}; add it")),
        },
        Some(Lookup::Absent) | None => {
            Named::Unusable(format!("{kind} {namespace}/{name} does not exist; create it with key {key}"))
        }
        Some(Lookup::Unknown(why)) => Named::Unread(format!("{kind} {namespace}/{name} cannot be read: {why}")),
    }
}
