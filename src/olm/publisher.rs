//! The publisher: who answers for what is published, and where it is; `catalog/publisher.yaml`.
//!
//! Generators take names, addresses and registries from here and from nowhere else. Pure. Must not decide for an
//! owner: a placeholder stays one, and is listed as undecided.

use serde::Deserialize;

use super::place;
use crate::api::PACKAGES;
use crate::api::package::Package;

/// Path of the file below the repository.
pub const PATH: &str = "catalog/publisher.yaml";

/// The file.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Publisher {
    /// The organization, as catalogs show it.
    pub provider: Provider,
    /// Who can be written to.
    pub maintainers: Vec<Maintainer>,
    /// Address of the source repository.
    pub repository: String,
    /// Host and folder that images are pushed to.
    pub registry: String,
    /// Who helps users.
    pub support: String,
    /// Bases of images.
    pub bases: Bases,
    /// Names of others that are used.
    pub consents: Vec<Consent>,
}

/// An organization.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Provider {
    pub name: String,
    pub url: String,
}

/// A contact.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Maintainer {
    pub name: String,
    pub email: String,
}

/// Images that ours are built from.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bases {
    /// Builds the operator.
    pub builder: String,
    /// Fetches the exporter that JVMs load, where the image is built by hand.
    pub maven: String,
    /// Serves the catalog.
    pub opm: String,
}

/// A name that belongs to another owner.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Consent {
    /// The API group of the kinds that use it.
    pub group: String,
    /// Who can consent.
    pub owner: String,
    /// What is used.
    pub r#use: String,
    /// Where the consent can be read; empty while there is none.
    pub recorded: String,
}

/// What is wrong with the file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{PATH}{0}")]
pub struct Invalid(String);

/// Whether a value is a placeholder for one that an owner must choose.
#[must_use]
pub fn is_placeholder(value: &str) -> bool {
    value.to_lowercase().contains("example")
}

impl Publisher {
    /// Reads the file.
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        let read: Self = serde_yaml::from_str(text).map_err(|error| Invalid(format!(": {error}")))?;
        match read.wrong() {
            None => Ok(read),
            Some((key, field, why)) => Err(Invalid(format!(" line {}: {why}", place::key(text, key, field)))),
        }
    }

    /// The first mistake: key, field, and a sentence with the remedy.
    fn wrong(&self) -> Option<(&'static str, Option<&'static str>, String)> {
        let is_address =
            |url: &str| url.strip_prefix("https://").is_some_and(|rest| !rest.is_empty() && !rest.contains(' '));
        if self.provider.name.trim().len() < 3 {
            return Some(("provider", Some("name"), "provider.name needs at least 3 characters".into()));
        }
        if !is_address(&self.provider.url) {
            let why = format!("provider.url {:?} is not an address that begins with https://", self.provider.url);
            return Some(("provider", Some("url"), why));
        }
        if self.maintainers.is_empty() {
            return Some(("maintainers", None, "maintainers is empty; name one with an email address".into()));
        }
        let is_email = |email: &str| {
            email.split_once('@').is_some_and(|(name, host)| !name.is_empty() && host.contains('.'))
                && !email.contains(' ')
        };
        if let Some(odd) = self.maintainers.iter().find(|one| one.name.trim().is_empty() || !is_email(&one.email)) {
            let why = format!("maintainer {:?} with email {:?} needs a name and an email address", odd.name, odd.email);
            return Some(("maintainers", None, why));
        }
        if !is_address(&self.repository) || self.repository.ends_with('/') {
            let why = format!(
                "repository {:?} is not an address that begins with https:// and ends without a slash",
                self.repository
            );
            return Some(("repository", None, why));
        }
        // A host alone has no folder, and what follows a colon after a slash is a tag.
        let is_registry = self.registry.split_once('/').is_some_and(|(host, folder)| {
            !host.is_empty() && !folder.is_empty() && !folder.ends_with('/') && !folder.contains([':', '@', ' '])
        });
        if !is_registry || self.registry.contains("://") || self.registry != self.registry.to_lowercase() {
            let why = format!(
                "registry {:?} is not a host and a folder in lower case, such as quay.io/acme: no https://, no tag",
                self.registry
            );
            return Some(("registry", None, why));
        }
        if self.support.trim().len() < 3 {
            return Some(("support", None, "support needs at least 3 characters: say who helps users".into()));
        }
        for (field, image) in [("builder", &self.bases.builder), ("maven", &self.bases.maven), ("opm", &self.bases.opm)]
        {
            if image.trim().is_empty() || image.contains(' ') {
                return Some(("bases", Some(field), format!("bases.{field} {image:?} is not an image")));
            }
        }
        let used = PACKAGES.iter().flat_map(|package| package.kinds).map(|kind| kind.group);
        let missing = used.into_iter().find(|group| !self.consents.iter().any(|consent| consent.group == *group));
        missing.map(|group| {
            let why = format!("consents has no entry for API group {group}, which a kind uses; add it, with its owner");
            ("consents", None, why)
        })
    }

    /// What an owner must decide before these packages are published; a sentence each.
    #[must_use]
    pub fn undecided(&self, packages: &[&Package]) -> Vec<String> {
        let maintainer = |one: &Maintainer| format!("{} {}", one.name, one.email);
        let maintainers: Vec<String> = self.maintainers.iter().map(maintainer).collect();
        let values = [
            (
                "provider",
                "the organization that answers for it",
                format!("{} {}", self.provider.name, self.provider.url),
            ),
            ("maintainers", "who can be written to", maintainers.join(" ")),
            ("repository", "the address of the source", self.repository.clone()),
            ("registry", "where images are pushed", self.registry.clone()),
            ("support", "who helps users", self.support.clone()),
        ];
        let mut list: Vec<String> = values
            .into_iter()
            .filter(|(_, _, value)| is_placeholder(value))
            .map(|(key, what, _)| format!("{key}: a placeholder; name {what}"))
            .collect();
        if !self.bases.opm.contains("@sha256:") {
            list.push(format!("bases.opm: {0} has no digest; `crane digest {0}` prints it", self.bases.opm));
        }
        let concerns =
            |group: &str| packages.iter().any(|package| package.kinds.iter().any(|kind| kind.group == group));
        let open =
            self.consents.iter().filter(|consent| consent.recorded.trim().is_empty() && concerns(&consent.group));
        list.extend(open.map(|consent| {
            format!(
                "consents: the consent of {} to {}; say in `recorded` where it can be read",
                consent.owner, consent.r#use
            )
        }));
        list
    }

    /// The repository's own, for tests.
    #[cfg(test)]
    pub(crate) fn of_repository() -> Self {
        Self::parse(include_str!("../../catalog/publisher.yaml")).unwrap_or_else(|why| unreachable!("{why}"))
    }

    /// An image of ours, by name.
    #[must_use]
    pub fn image(&self, name: &str) -> String {
        format!("{}/{name}", self.registry)
    }

    /// A page of the source, such as `docs/olm.md`.
    #[must_use]
    pub fn page(&self, path: &str) -> String {
        format!("{}/blob/main/{path}", self.repository)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::config_watcher::package::PACKAGE as WATCHER;
    use crate::api::oneagent::package::PACKAGE as ONEAGENT;

    const DECIDED: &str = "provider:\n  name: Acme\n  url: https://acme.org\n\
        maintainers:\n- name: A\n  email: a@acme.org\n\
        repository: https://git.acme.org/x\nregistry: quay.io/acme\nsupport: Acme\nbases:\n  builder: rust:1\n  \
        maven: maven:3\n  opm: opm@sha256:abc\nconsents:\n\
        - group: dynatrace.com\n  owner: D\n  use: the group\n  recorded: https://acme.org/1\n\
        - group: k8spatterns.io\n  owner: K\n  use: the group\n  recorded: ''\n\
        - group: banzaicloud.com\n  owner: B\n  use: the group\n  recorded: ''\n\
        - group: contrail.juniper.net\n  owner: J\n  use: the group\n  recorded: ''\n\
        - group: oneagent-operator.github.io\n  owner: O\n  use: the group\n  recorded: ''\n";

    #[test]
    fn every_mistake_is_one_sentence_with_its_line() {
        assert!(Publisher::parse(DECIDED).is_ok());
        for (from, to, words) in [
            ("name: Acme", "name: A", "line 2: provider.name needs at least 3"),
            ("url: https://acme.org", "url: acme.org", "line 3: provider.url \"acme.org\" is not an address"),
            ("- name: A\n  email: a@acme.org\n", "  []\n", "line 4: maintainers is empty"),
            ("a@acme.org", "a at acme", "line 4: maintainer \"A\" with email \"a at acme\""),
            ("https://git.acme.org/x", "https://git.acme.org/", "line 7: repository"),
            ("quay.io/acme", "https://quay.io/acme", "line 8: registry \"https://quay.io/acme\""),
            ("quay.io/acme", "quay.io/acme:latest", "line 8: registry"),
            ("quay.io/acme", "quay.io/Acme", "line 8: registry"),
            ("quay.io/acme", "acme", "line 8: registry"),
            ("support: Acme", "support: ''", "line 9: support"),
            ("opm: opm@sha256:abc", "opm: ''", "line 13: bases.opm"),
            ("group: k8spatterns.io", "group: other.io", "line 14: consents has no entry for API group k8spatterns.io"),
            ("support: Acme", "suport: Acme", "unknown field `suport`"),
            ("support: Acme\n", "", "missing field `support`"),
            ("support: Acme", "support: Acme\nsupport: Acme", "duplicate"),
            ("support: Acme", "support: [", "line"),
        ] {
            let said = Publisher::parse(&DECIDED.replace(from, to)).unwrap_err().to_string();
            assert!(said.contains(words) && said.starts_with(PATH) && !said.contains('\n'), "{said}");
        }
    }

    #[test]
    fn placeholders_and_consents_are_undecided_for_the_packages_that_they_concern() {
        let decided = Publisher::parse(DECIDED).unwrap();
        assert_eq!(decided.undecided(&[&ONEAGENT]), Vec::<String>::new());
        let watcher = decided.undecided(&[&WATCHER]);
        assert!(watcher.len() == 1 && watcher[0].contains("the consent of K to the group"), "{watcher:?}");
        for (from, to, key) in [
            ("name: Acme", "name: Example Org", "provider"),
            ("a@acme.org", "a@acme.example", "maintainers"),
            ("git.acme.org", "git.example", "repository"),
            ("quay.io/acme", "registry.example/acme", "registry"),
            ("support: Acme", "support: Example", "support"),
            ("opm@sha256:abc", "opm:v1", "bases.opm"),
        ] {
            let list = Publisher::parse(&DECIDED.replace(from, to)).unwrap().undecided(&[&ONEAGENT]);
            assert!(list.len() == 1 && list[0].starts_with(&format!("{key}: ")), "{list:?}");
        }
    }
}
