//! One release: its entry in the list, what is wrong with it, and which channels, packages and images it has.
//!
//! Pure. Must not know another release but those that it is compared with.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::api::PACKAGES;
use crate::api::oneagent::DEFAULT_IMAGE;
use crate::api::package::Package;
use crate::olm::manifests::PRODUCT;
use crate::olm::publisher::Publisher;

/// What follows a package's name where the bundle's OpenShift flavour is meant.
pub const FLAVOUR: &str = "-openshift";

/// The name of a bundle's image; `flavour`: nothing, or [`FLAVOUR`].
#[must_use]
pub fn bundle_name(package: &Package, flavour: &str) -> String {
    format!("{}-bundle{flavour}", package.name)
}

/// One release.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Release {
    /// Semantic version, without a leading v.
    pub version: String,
    /// Day, `YYYY-MM-DD`.
    pub date: String,
    /// Commit that it is made from.
    pub commit: String,
    /// Whether its images are pushed, so that the catalog may name it.
    pub published: bool,
    /// The packages that it is a release of, where not of all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub packages: Vec<String>,
    /// Image of the operator: by digest, or by tag while it is not built.
    pub operator_image: String,
    /// Image of the agent's installer.
    pub agent_image: String,
    /// Images of the bundles, by package, and of their OpenShift flavours; by tag where nothing is said.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub bundle_images: BTreeMap<String, String>,
    /// The channels that it is in, where not in all that take it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub channels: Vec<String>,
    /// Older releases to which no cluster should be upgraded any more.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub skips: Vec<String>,
    /// Why it should not be used any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deprecated: Option<String>,
    /// What it changed for its users, a sentence or two each: `CHANGELOG.md` is made of it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<String>,
}

/// A release has no build in its number.
fn number(version: &str) -> Option<semver::Version> {
    version.parse::<semver::Version>().ok().filter(|number| number.build.is_empty())
}

/// The channels of a version's major number, the default one first; an administrator who has one gets no release of
/// the next major number.
#[must_use]
pub fn channels_of(version: &str) -> [String; 2] {
    let major = number(version).map_or(0, |number| number.major);
    [format!("stable-v{major}"), format!("candidate-v{major}")]
}

/// Whether an image is named by a digest.
fn is_pinned(image: &str) -> bool {
    image.split_once("@sha256:").is_some_and(|(name, digest)| {
        !name.is_empty() && digest.len() == 64 && digest.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
    })
}

/// What is wrong with an entry: the field, and one sentence with the remedy.
pub(super) type Wrong = (&'static str, String);

impl Release {
    /// A release whose images are named by tag, and not pushed.
    #[must_use]
    pub fn new(publisher: &Publisher, version: &str, date: &str, commit: &str) -> Self {
        Self {
            version: version.to_owned(),
            date: date.to_owned(),
            commit: commit.to_owned(),
            published: false,
            packages: Vec::new(),
            operator_image: publisher.image(&format!("{PRODUCT}:{version}")),
            agent_image: DEFAULT_IMAGE.to_owned(),
            bundle_images: BTreeMap::new(),
            channels: Vec::new(),
            skips: Vec::new(),
            deprecated: None,
            changes: Vec::new(),
        }
    }

    /// What is wrong with it, after these older ones.
    pub(super) fn check(&self, older: &[&Self]) -> Result<(), Wrong> {
        let version = &self.version;
        let Some(number) = number(version) else {
            return Err(("version", format!("version {version:?} is not of the form 0.1.0 or 0.1.0-rc.1")));
        };
        if older.iter().any(|older| older.version == *version) {
            let why =
                format!("version {version} is listed already; a release is never made twice, take the next number");
            return Err(("version", why));
        }
        if older.last().is_some_and(|older| self::number(&older.version) >= Some(number.clone())) {
            let why = format!("version {version} does not come after the one before it; list the oldest first");
            return Err(("version", why));
        }
        if chrono::NaiveDate::parse_from_str(&self.date, "%Y-%m-%d").is_err() || self.date.len() != 10 {
            return Err(("date", format!("date {:?} of {version} is not of the form 2026-11-21", self.date)));
        }
        if self.commit.len() < 7 || !self.commit.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err(("commit", format!("commit {:?} of {version} is not a commit's hash", self.commit)));
        }
        self.check_packages()?;
        self.check_images()?;
        self.check_channels(&number)?;
        self.check_skips(&number, older)?;
        if self.deprecated.as_ref().is_some_and(|why| why.trim().is_empty()) {
            return Err(("deprecated", format!("{version} is deprecated without a reason; say what to do instead")));
        }
        Ok(())
    }

    fn check_packages(&self) -> Result<(), Wrong> {
        let version = &self.version;
        for name in &self.packages {
            let Some(package) = PACKAGES.iter().find(|package| package.name == *name) else {
                return Err((
                    "packages",
                    format!("packages of {version} has {name:?}, which is no package; remove it"),
                ));
            };
            if !self.has(package) {
                let why = format!("{version} cannot be a release of {name}, which came with {}", package.since);
                return Err(("packages", why));
            }
        }
        let of_none = self.its_packages().next().is_none();
        if of_none { Err(("packages", format!("{version} is a release of no package"))) } else { Ok(()) }
    }

    fn check_images(&self) -> Result<(), Wrong> {
        let version = &self.version;
        let is_known = |key: &str| {
            let name = key.strip_suffix(FLAVOUR).unwrap_or(key);
            PACKAGES.iter().any(|package| package.name == name && self.has(package))
        };
        if let Some(name) = self.bundle_images.keys().find(|key| !is_known(key)) {
            let why = format!("bundleImages of {version} has {name:?}, which is no package of it; remove it");
            return Err(("bundleImages", why));
        }
        let own = [("operatorImage", &self.operator_image), ("agentImage", &self.agent_image)];
        let own = own.into_iter().map(|(field, image)| (field, field.to_owned(), image));
        let bundles =
            self.bundle_images.iter().map(|(key, image)| ("bundleImages", format!("bundleImages.{key}"), image));
        for (field, what, image) in own.chain(bundles) {
            if image.contains('@') && !is_pinned(image) {
                let why = format!(
                    "{what} of {version}, {image:?}, names no digest; it ends with @sha256: and 64 hexadecimal digits"
                );
                return Err((field, why));
            }
            if self.published && field != "agentImage" && !is_pinned(image) {
                let why =
                    format!("{what} of {version}, {image:?}, is published without a digest; `make release` writes it");
                return Err((field, why));
            }
        }
        match self.its_packages().find(|package| !self.bundle_images.contains_key(package.name)) {
            Some(package) if self.published => {
                let why = format!(
                    "bundleImages.{} of {version} is missing, and it is published; `make release` writes its digest",
                    package.name
                );
                Err(("bundleImages", why))
            }
            _ => Ok(()),
        }
    }

    fn check_channels(&self, number: &semver::Version) -> Result<(), Wrong> {
        let version = &self.version;
        let known = channels_of(version);
        if let Some(unknown) = self.channels.iter().find(|channel| !known.contains(channel)) {
            let why = format!("channel {unknown:?} of {version} is none; there are {}", known.join(" and "));
            return Err(("channels", why));
        }
        if !number.pre.is_empty() && self.channels.contains(&known[0]) {
            let why = format!("{version} is a pre-release and cannot be in {}; {} takes it", known[0], known[1]);
            return Err(("channels", why));
        }
        Ok(())
    }

    fn check_skips(&self, number: &semver::Version, older: &[&Self]) -> Result<(), Wrong> {
        let version = &self.version;
        for skipped in &self.skips {
            let known = older.iter().find(|older| older.version == *skipped);
            let why = match (known, self::number(skipped)) {
                (Some(older), _) if self.published && !older.published => {
                    format!("{version} skips {skipped}, which was never published; leave it out of skips")
                }
                (Some(_), _) => continue,
                (None, Some(other)) if other >= *number => {
                    format!("{version} skips {skipped}, which does not come before it: upgrades would go in a circle")
                }
                _ => format!("{version} skips {skipped:?}, which is not listed; correct the number"),
            };
            return Err(("skips", why));
        }
        Ok(())
    }

    /// Whether its number says that it is not for everybody.
    #[must_use]
    pub fn is_pre_release(&self) -> bool {
        number(&self.version).is_some_and(|number| !number.pre.is_empty())
    }

    /// Whether a channel has it.
    #[must_use]
    pub fn is_in(&self, channel: &str) -> bool {
        self.channels().iter().any(|own| own == channel)
    }

    /// The channels that have it, the default one first.
    #[must_use]
    pub fn channels(&self) -> Vec<String> {
        let [stable, candidate] = channels_of(&self.version);
        if !self.channels.is_empty() {
            return [stable, candidate].into_iter().filter(|channel| self.channels.contains(channel)).collect();
        }
        if self.is_pre_release() { vec![candidate] } else { vec![stable, candidate] }
    }

    /// Whether it is a release of a package: the package may have come later, or the release may be another's alone.
    #[must_use]
    pub fn has(&self, package: &Package) -> bool {
        // A pre-release comes before the release in which the package came, and has it all the same.
        let without = |version: &str| number(version).map(|v| (v.major, v.minor, v.patch));
        let is_named = self.packages.is_empty() || self.packages.iter().any(|name| name == package.name);
        is_named && without(&self.version) >= without(package.since)
    }

    /// The packages that it is a release of.
    #[must_use = "an iterator does nothing until it is read"]
    pub fn its_packages(&self) -> impl Iterator<Item = &'static Package> {
        PACKAGES.iter().copied().filter(|package| self.has(package))
    }

    /// The operator's image under the package's own name: every package has the same bytes in a repository of its own.
    #[must_use]
    pub fn image_of(&self, package: &Package) -> String {
        let image = &self.operator_image;
        let (folder, last) = image.rsplit_once('/').unwrap_or_default();
        match last.strip_prefix(PRODUCT) {
            Some(rest) if rest.starts_with([':', '@']) => format!("{folder}/{}{rest}", package.name),
            _ => image.clone(),
        }
    }

    /// The image of a package's bundle.
    #[must_use]
    pub fn bundle_image(&self, publisher: &Publisher, package: &Package) -> String {
        let named = self.bundle_images.get(package.name).cloned();
        named.unwrap_or_else(|| publisher.image(&format!("{}:{}", bundle_name(package, ""), self.version)))
    }

    /// Whether every image that a package needs is named by its digest, so that it can be mirrored.
    #[must_use]
    pub fn is_pinned(&self, package: &Package) -> bool {
        is_pinned(&self.operator_image) && (package.image_variable.is_none() || is_pinned(&self.agent_image))
    }
}
