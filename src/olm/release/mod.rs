//! Releases: the list in `catalog/releases.yaml`, and the bundle of each as it was released.
//!
//! The list is the only input of a bundle and a catalog beside the types and the publisher. What was released does not
//! follow the code any more: its bundle is kept below `catalog/bundles/`. Pure: the command line reads the files. Must
//! not invent a digest: an image that was not built has none, and then nothing may claim that it can be mirrored.

mod entry;
#[cfg(test)]
mod tests;

pub use entry::{FLAVOUR, Release, bundle_name, channels_of};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::manifests::File;
use super::place;
use super::publisher::Publisher;
use crate::api::PACKAGES;
use crate::api::package::Package;

/// Path of the list below the repository.
pub const PATH: &str = "catalog/releases.yaml";

/// What the list begins with.
pub const HEAD: &str = "\
# Every release, oldest first; `make release VERSION=…` adds one, `make publish VERSION=…` says that its images are
# pushed. The catalog begins with the first published one. By hand, followed by `make generate`:
#   channels: [candidate-v0]            in this channel alone; without it in all (a pre-release in candidate-v0)
#   skips: [0.3.1]                      no upgrade leads to that one any more, but from it to this one
#   deprecated: It loses agents. ...    what OLM and the console say to those who have it
# and beside the releases:
#   deprecations: [{ package: …, channel: stable-v0, message: … }]    of a channel, or without one of the package
#   next: [...]                         what the next release changes, a sentence or two each; see CHANGELOG.md
";

/// The list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Releases {
    /// Oldest first.
    pub releases: Vec<Release>,
    /// What should not be used any more beside single releases.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub deprecations: Vec<Deprecation>,
    /// What the next one will change.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub next: Vec<String>,
}

/// A channel or a package that should not be used any more.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Deprecation {
    pub package: String,
    /// The channel; without it the whole package.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channel: Option<String>,
    /// What to do instead.
    pub message: String,
}

/// A release with its bundle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Released {
    /// Its entry in the list.
    pub release: Release,
    /// The files of its bundle, by their path in it.
    pub files: Vec<File>,
    /// The image of its bundle.
    pub image: String,
}

impl Released {
    /// Where the bundle of a release is kept, below the repository.
    #[must_use]
    pub fn folder(package: &str, version: &str) -> String {
        format!("catalog/bundles/{package}/v{version}")
    }

    /// Its manifests of a kind.
    #[must_use]
    pub fn manifests(&self, kind: &str) -> Vec<Value> {
        let manifests = self.files.iter().filter(|file| file.path.starts_with("manifests/"));
        manifests
            .filter_map(|file| serde_yaml::from_str::<Value>(&file.content).ok())
            .filter(|object| object["kind"] == kind)
            .collect()
    }
}

/// What is wrong with the list.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{PATH}{0}")]
pub struct Invalid(String);

impl Releases {
    /// Reads the list.
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        let list: Self = serde_yaml::from_str(text).map_err(|error| Invalid(format!(": {error}")))?;
        let at = |line: usize, why: String| Invalid(format!(" line {line}: {why}"));
        let mut before: Vec<&Release> = Vec::new();
        for (index, release) in list.releases.iter().enumerate() {
            let wrong = |(field, why)| at(place::line(text, "releases", index, field), why);
            release.check(&before).map_err(wrong)?;
            before.push(release);
        }
        for (index, deprecation) in list.deprecations.iter().enumerate() {
            let wrong = |(field, why)| at(place::line(text, "deprecations", index, field), why);
            list.check(deprecation).map_err(wrong)?;
        }
        if list.releases.is_empty() { Err(at(1, "it lists no release".into())) } else { Ok(list) }
    }

    fn check(&self, deprecation: &Deprecation) -> Result<(), entry::Wrong> {
        let Deprecation { package, channel, message } = deprecation;
        let Some(row) = PACKAGES.iter().find(|row| row.name == *package) else {
            return Err(("package", format!("deprecations has {package:?}, which is no package; remove it")));
        };
        let has = |channel: &String| self.published(row).any(|release| release.is_in(channel));
        if let Some(channel) = channel.as_ref().filter(|channel| !has(channel)) {
            let why =
                format!("no published release of {package} is in channel {channel:?}, so it cannot be deprecated");
            return Err(("channel", why));
        }
        if message.trim().is_empty() {
            let why = format!("{package} is deprecated without a message; say what to do instead");
            return Err(("message", why));
        }
        Ok(())
    }

    /// The published releases of a package, oldest first.
    #[must_use = "an iterator does nothing until it is read"]
    pub fn published<'a>(&'a self, package: &'a Package) -> impl DoubleEndedIterator<Item = &'a Release> {
        self.releases.iter().filter(|release| release.published && release.has(package))
    }

    /// The release of a version. One that is not listed is not released yet: its images have no digest, and its day is
    /// the last release's, for a bundle must not depend on when it is generated.
    #[must_use]
    pub fn of(&self, publisher: &Publisher, version: &str) -> Release {
        let listed = self.releases.iter().find(|release| release.version == version);
        let day = self.releases.last().map_or("2026-01-01", |release| &release.date);
        listed.cloned().unwrap_or_else(|| Release::new(publisher, version, day, ""))
    }

    /// The same for a package: where the version is a release of others alone, the newest one that is the package's.
    #[must_use]
    pub fn of_package(&self, publisher: &Publisher, version: &str, package: &Package) -> Release {
        let release = self.of(publisher, version);
        let newest = || self.releases.iter().rev().find(|release| release.has(package)).cloned();
        if release.has(package) { release } else { newest().unwrap_or(release) }
    }

    /// The published release that a release's bundle replaces. Pipelines that know no channels but the bundle's own
    /// would bring a pre-release into the default channel, if a release for everybody replaced it.
    #[must_use]
    pub fn before(&self, package: &Package, release: &Release) -> Option<&Release> {
        let older = self.releases.iter().take_while(|older| older.version != release.version);
        let is_for_everybody = !release.is_pre_release();
        older
            .filter(|older| older.published && older.has(package) && !release.skips.contains(&older.version))
            .filter(|older| !(is_for_everybody && older.is_pre_release()))
            .last()
    }

    /// Adds a release; it must come after all others, and has the changes that were noted for the next one.
    pub fn add(&mut self, release: Release) -> Result<(), Invalid> {
        self.releases.push(Release { changes: std::mem::take(&mut self.next), ..release });
        self.checked()
    }

    /// Says that the images of a release are pushed.
    pub fn publish(&mut self, version: &str) -> Result<(), Invalid> {
        let found = self.releases.iter_mut().find(|release| release.version == version);
        let missing = || Invalid(format!(": version {version} is not listed; add it first with `make release`"));
        found.ok_or_else(missing)?.published = true;
        self.checked()
    }

    fn checked(&mut self) -> Result<(), Invalid> {
        *self = Self::parse(&serde_yaml::to_string(self).map_err(|error| Invalid(format!(": {error}")))?)?;
        Ok(())
    }
}
