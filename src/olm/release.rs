//! Releases: the list in `catalog/releases.yaml`, and the bundle of each as it was released.
//!
//! The list is the only input of a bundle and a catalog beside the types. What was released does not follow the code
//! any more: its bundle is kept below `catalog/bundles/`. Pure: the command line reads the files. Must not invent a
//! digest: an image that was not built has none, and then nothing may claim that it can be mirrored.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::manifests::{File, PRODUCT};
use crate::api::oneagent::DEFAULT_IMAGE;
use crate::api::package::Package;

/// Path of the list below the repository.
pub const PATH: &str = "catalog/releases.yaml";

/// Where images are pushed.
pub const REPOSITORY: &str = "ghcr.io/oneagent-operator";

/// What the list begins with.
pub const HEAD: &str = "# Every release, oldest first; `make release VERSION=…` adds one. An image is named by its \
    digest once it was built.\n";

/// The list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Releases {
    /// Oldest first.
    pub releases: Vec<Release>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Release {
    /// Semantic version, without a leading v.
    pub version: String,
    /// Day, `YYYY-MM-DD`.
    pub date: String,
    /// Commit that it was made from.
    pub commit: String,
    /// Image of the operator: by digest once it is pushed, by tag before.
    pub operator_image: String,
    /// Image of the agent's installer.
    pub agent_image: String,
    pub bundle_image: String,
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
#[error("{PATH}: {0}")]
pub struct Invalid(pub String);

impl Releases {
    /// Reads the list.
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        let list: Self = serde_yaml::from_str(text).map_err(|error| Invalid(error.to_string()))?;
        let mut before = None;
        for release in &list.releases {
            let number = number(&release.version)
                .ok_or_else(|| Invalid(format!("version {:?} is not of the form 0.1.0", release.version)))?;
            if before.is_some_and(|before: semver::Version| before >= number) {
                return Err(Invalid(format!(
                    "version {} does not come after the one before it; list the oldest first",
                    release.version
                )));
            }
            before = Some(number);
            let parts: Vec<&str> = release.date.split('-').collect();
            if release.date.len() != 10
                || parts.len() != 3
                || !parts.iter().all(|p| p.bytes().all(|b| b.is_ascii_digit()))
            {
                return Err(Invalid(format!(
                    "date {:?} of {} is not of the form 2026-11-21",
                    release.date, release.version
                )));
            }
            if release.commit.len() < 7 || !release.commit.bytes().all(|b| b.is_ascii_hexdigit()) {
                return Err(Invalid(format!(
                    "commit {:?} of {} is not a commit's hash",
                    release.commit, release.version
                )));
            }
        }
        if list.releases.is_empty() { Err(Invalid("it lists no release".into())) } else { Ok(list) }
    }

    /// The release of a version, and the one before it. A version that is not listed is not released yet: its images
    /// have no digest, and its day is the last release's, for a bundle must not depend on when it is generated.
    #[must_use]
    pub fn of(&self, version: &str) -> (Release, Option<&Release>) {
        if let Some(at) = self.releases.iter().position(|release| release.version == version) {
            return (self.releases[at].clone(), at.checked_sub(1).map(|before| &self.releases[before]));
        }
        let before = self.releases.last();
        (Release::new(version, before.map_or("2026-01-01", |release| &release.date), ""), before)
    }

    /// Adds a release; it must come after all others.
    pub fn add(&mut self, release: Release) -> Result<(), Invalid> {
        self.releases.push(release);
        *self = Self::parse(&serde_yaml::to_string(self).map_err(|error| Invalid(error.to_string()))?)?;
        Ok(())
    }
}

/// A release has neither a pre-release nor a build in its number.
fn number(version: &str) -> Option<semver::Version> {
    version.parse::<semver::Version>().ok().filter(|number| number.pre.is_empty() && number.build.is_empty())
}

impl Release {
    /// A release whose images are named by tag.
    #[must_use]
    pub fn new(version: &str, date: &str, commit: &str) -> Self {
        Self {
            version: version.to_owned(),
            date: date.to_owned(),
            commit: commit.to_owned(),
            operator_image: format!("{REPOSITORY}/{PRODUCT}:{version}"),
            agent_image: DEFAULT_IMAGE.to_owned(),
            bundle_image: format!("{REPOSITORY}/{PRODUCT}-bundle:{version}"),
        }
    }

    /// Whether a package is part of it: it may have come later.
    #[must_use]
    pub fn has(&self, package: &Package) -> bool {
        number(&self.version) >= number(package.since)
    }

    /// The image of a package's bundle.
    #[must_use]
    pub fn bundle_image(&self, package: &Package) -> String {
        if package.name == PRODUCT {
            self.bundle_image.clone()
        } else {
            format!("{REPOSITORY}/{}-bundle:{}", package.name, self.version)
        }
    }

    /// Whether every image is named by its digest, so that it can be mirrored.
    #[must_use]
    pub fn is_pinned(&self) -> bool {
        [&self.operator_image, &self.agent_image].iter().all(|image| image.contains("@sha256:"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(versions: &[&str]) -> String {
        let entry = |v: &&str| {
            format!(
                "- {{ version: {v}, date: 2026-11-21, commit: abcdef0, operatorImage: a, agentImage: b, \
                bundleImage: c }}\n"
            )
        };
        format!("releases:\n{}", versions.iter().map(entry).collect::<String>())
    }

    #[test]
    fn a_list_is_ordered_and_well_formed_or_refused_with_its_place() {
        let two = Releases::parse(&list(&["0.1.0", "0.2.0"])).unwrap();
        let before = |version: &str| two.of(version).1.map(|release| release.version.clone());
        assert_eq!(
            (before("0.1.0"), before("0.2.0"), before("0.3.0")),
            (None, Some("0.1.0".into()), Some("0.2.0".into()))
        );
        assert!(
            two.clone()
                .add(Release::new("0.2.0", "2026-11-22", "abcdef0"))
                .unwrap_err()
                .to_string()
                .contains("oldest first")
        );
        for (wrong, words) in [
            (list(&["0.2.0", "0.1.0"]), "oldest first"),
            (list(&["v0.1.0"]), "of the form 0.1.0"),
            (list(&["0.01.0"]), "of the form"),
            ("releases: []".into(), "no release"),
            ("x: 1".into(), "unknown field"),
        ] {
            let said = Releases::parse(&wrong).unwrap_err().to_string();
            assert!(said.contains(words) && said.contains(PATH), "{said}");
        }
    }
}
