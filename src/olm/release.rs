//! Releases: the list in `catalog/releases.yaml`, and the bundle of each as it was released.
//!
//! The list is the only input of a bundle and a catalog beside the types. What was released does not follow the code
//! any more: its bundle is kept below `catalog/bundles/`. Pure: the command line reads the files. Must not invent a
//! digest: an image that was not built has none, and then nothing may claim that it can be mirrored.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::manifests::{File, PRODUCT};
use crate::api::PACKAGES;
use crate::api::oneagent::DEFAULT_IMAGE;
use crate::api::package::Package;

/// Path of the list below the repository.
pub const PATH: &str = "catalog/releases.yaml";

/// Where images are pushed.
pub const REPOSITORY: &str = "ghcr.io/oneagent-operator";

/// Channels, the default first. A pre-release (0.4.0-rc.1) is in the second alone.
pub const CHANNELS: [&str; 2] = ["stable-v0", "candidate-v0"];

/// What the list begins with.
pub const HEAD: &str = "\
# Every release, oldest first; `make release VERSION=…` adds one, `make publish VERSION=…` says that its images are
# pushed. The catalog begins with the first published one. By hand, followed by `make generate`:
#   channels: [candidate-v0]            in this channel alone; without it in all (a pre-release in candidate-v0)
#   skips: [0.3.1]                      nobody shall be upgraded to that one any more, but from it to this one
#   deprecated: It loses agents. ...    what OLM and the console say to those who have it
#   next: [...]                         what the next release changes, a sentence or two each; see CHANGELOG.md
";

/// The list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Releases {
    /// Oldest first.
    pub releases: Vec<Release>,
    /// What the next one will change.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub next: Vec<String>,
}

/// One release.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Release {
    /// Semantic version, without a leading v.
    pub version: String,
    /// Day, `YYYY-MM-DD`.
    pub date: String,
    /// Commit that it was made from.
    pub commit: String,
    /// Whether its images are pushed, so that the catalog may name it.
    pub published: bool,
    /// Image of the operator: by digest once it is pushed, by tag before.
    pub operator_image: String,
    /// Image of the agent's installer.
    pub agent_image: String,
    /// Images of the bundles, by package; by tag where nothing is said.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub bundle_images: BTreeMap<String, String>,
    /// The channels that it is in, where not in all that take it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub channels: Vec<String>,
    /// Older releases to which nobody shall be upgraded any more.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub skips: Vec<String>,
    /// Why it should not be used any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deprecated: Option<String>,
    /// What it changed for its users, a sentence or two each: `CHANGELOG.md` is made of it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<String>,
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
        let mut before: Vec<&Release> = Vec::new();
        for release in &list.releases {
            release.check(&before).map_err(Invalid)?;
            before.push(release);
        }
        if list.releases.is_empty() { Err(Invalid("it lists no release".into())) } else { Ok(list) }
    }

    /// The release of a version, and the published one before it, which its bundle replaces. A version that is not
    /// listed is not released yet: its images have no digest, and its day is the last release's, for a bundle must not
    /// depend on when it is generated.
    #[must_use]
    pub fn of(&self, version: &str) -> (Release, Option<&Release>) {
        let at = self.releases.iter().position(|release| release.version == version);
        let older = &self.releases[..at.unwrap_or(self.releases.len())];
        let release = at.map_or_else(
            || Release::new(version, self.releases.last().map_or("2026-01-01", |release| &release.date), ""),
            |at| self.releases[at].clone(),
        );
        let before = older.iter().rev().find(|older| older.published && !release.skips.contains(&older.version));
        (release, before)
    }

    /// Adds a release; it must come after all others, and has the changes that were noted for the next one.
    pub fn add(&mut self, release: Release) -> Result<(), Invalid> {
        self.releases.push(Release { changes: std::mem::take(&mut self.next), ..release });
        self.checked()
    }

    /// Says that the images of a release are pushed, the bundles' under these names by package.
    pub fn publish(&mut self, version: &str, images: &BTreeMap<String, String>) -> Result<(), Invalid> {
        let found = self.releases.iter_mut().find(|release| release.version == version);
        let release = found
            .ok_or_else(|| Invalid(format!("version {version} is not listed; add it first with `make release`")))?;
        release.published = true;
        release.bundle_images.extend(images.clone());
        self.checked()
    }

    fn checked(&mut self) -> Result<(), Invalid> {
        *self = Self::parse(&serde_yaml::to_string(self).map_err(|error| Invalid(error.to_string()))?)?;
        Ok(())
    }
}

/// A release has no build in its number.
fn number(version: &str) -> Option<semver::Version> {
    version.parse::<semver::Version>().ok().filter(|number| number.build.is_empty())
}

/// Whether an image is named by a digest.
fn is_pinned(image: &str) -> bool {
    image.split_once("@sha256:").is_some_and(|(name, digest)| {
        !name.is_empty() && digest.len() == 64 && digest.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
    })
}

impl Release {
    /// A release whose images are named by tag, and not pushed.
    #[must_use]
    pub fn new(version: &str, date: &str, commit: &str) -> Self {
        Self {
            version: version.to_owned(),
            date: date.to_owned(),
            commit: commit.to_owned(),
            published: false,
            operator_image: format!("{REPOSITORY}/{PRODUCT}:{version}"),
            agent_image: DEFAULT_IMAGE.to_owned(),
            bundle_images: BTreeMap::new(),
            channels: Vec::new(),
            skips: Vec::new(),
            deprecated: None,
            changes: Vec::new(),
        }
    }

    /// What is wrong with it, after these older ones; one sentence with the remedy.
    fn check(&self, older: &[&Self]) -> Result<(), String> {
        let version = &self.version;
        let Some(number) = number(version) else {
            return Err(format!("version {version:?} is not of the form 0.1.0 or 0.1.0-rc.1"));
        };
        if older.iter().any(|older| older.version == *version) {
            return Err(format!(
                "version {version} is listed already; a release is never made twice, take the next number"
            ));
        }
        if older.last().is_some_and(|older| self::number(&older.version) >= Some(number.clone())) {
            return Err(format!("version {version} does not come after the one before it; list the oldest first"));
        }
        if chrono::NaiveDate::parse_from_str(&self.date, "%Y-%m-%d").is_err() || self.date.len() != 10 {
            return Err(format!("date {:?} of {version} is not of the form 2026-11-21", self.date));
        }
        if self.commit.len() < 7 || !self.commit.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err(format!("commit {:?} of {version} is not a commit's hash", self.commit));
        }
        if let Some(name) =
            self.bundle_images.keys().find(|name| !PACKAGES.iter().any(|package| package.name == **name))
        {
            return Err(format!("bundleImages of {version} has {name:?}, which is no package; remove it"));
        }
        for (what, image) in self.images() {
            if image.contains('@') && !is_pinned(&image) {
                return Err(format!(
                    "{what} of {version}, {image:?}, names no digest; it ends with @sha256: and 64 hexadecimal digits"
                ));
            }
            if self.published && what != "agentImage" && !is_pinned(&image) {
                return Err(format!(
                    "{what} of {version}, {image:?}, is published without a digest; take what `make images` printed"
                ));
            }
        }
        if let Some(unknown) = self.channels.iter().find(|channel| !CHANNELS.contains(&channel.as_str())) {
            return Err(format!("channel {unknown:?} of {version} is none; there are {}", CHANNELS.join(" and ")));
        }
        if !number.pre.is_empty() && self.channels.iter().any(|channel| channel == CHANNELS[0]) {
            return Err(format!(
                "{version} is a pre-release and cannot be in {}; {} takes it",
                CHANNELS[0], CHANNELS[1]
            ));
        }
        for skipped in &self.skips {
            let known = older.iter().find(|older| older.version == *skipped);
            match (known, self::number(skipped)) {
                (Some(older), _) if self.published && !older.published => {
                    return Err(format!("{version} skips {skipped}, which was never published; leave it out of skips"));
                }
                (Some(_), _) => {}
                (None, Some(other)) if other >= number => {
                    return Err(format!(
                        "{version} skips {skipped}, which does not come before it: upgrades would go in a circle"
                    ));
                }
                _ => return Err(format!("{version} skips {skipped:?}, which is not listed; correct the number")),
            }
        }
        if self.deprecated.as_ref().is_some_and(|why| why.trim().is_empty()) {
            return Err(format!("{version} is deprecated without a reason; say what to do instead"));
        }
        Ok(())
    }

    /// Its images, by field; the bundles' of the packages that it is the release of.
    fn images(&self) -> Vec<(String, String)> {
        let own = [("operatorImage", &self.operator_image), ("agentImage", &self.agent_image)];
        let own = own.into_iter().map(|(what, image)| (what.to_owned(), image.clone()));
        let has = |package: &&&Package| self.has(package);
        let bundle = |package: &&Package| (format!("bundleImages.{}", package.name), self.bundle_image(package));
        own.chain(PACKAGES.iter().filter(has).map(bundle)).collect()
    }

    /// Whether a channel has it.
    #[must_use]
    pub fn is_in(&self, channel: &str) -> bool {
        if self.channels.is_empty() {
            channel != CHANNELS[0] || number(&self.version).is_some_and(|number| number.pre.is_empty())
        } else {
            self.channels.iter().any(|own| own == channel)
        }
    }

    /// Whether a package is part of it: it may have come later.
    #[must_use]
    pub fn has(&self, package: &Package) -> bool {
        // A pre-release comes before the release in which the package came, and has it all the same.
        let without = |version: &str| number(version).map(|v| (v.major, v.minor, v.patch));
        without(&self.version) >= without(package.since)
    }

    /// The image of a package's bundle.
    #[must_use]
    pub fn bundle_image(&self, package: &Package) -> String {
        let named = self.bundle_images.get(package.name);
        named.cloned().unwrap_or_else(|| format!("{REPOSITORY}/{}-bundle:{}", package.name, self.version))
    }

    /// Whether every image is named by its digest, so that it can be mirrored.
    #[must_use]
    pub fn is_pinned(&self) -> bool {
        [&self.operator_image, &self.agent_image].iter().all(|image| is_pinned(image))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIGEST: &str = "@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

    /// A list of these versions, with lines added to the last of them.
    fn list(versions: &[&str], more: &str) -> String {
        let entry = |v: &&str| {
            format!(
                "- version: {v}\n  date: 2026-11-21\n  commit: abcdef0\n  published: false\n  operatorImage: a\n  \
                agentImage: b\n"
            )
        };
        format!("releases:\n{}{more}", versions.iter().map(entry).collect::<String>())
    }

    #[test]
    fn a_list_is_ordered_and_well_formed_or_refused_with_its_place() {
        let two = ["0.1.0", "0.2.0"];
        for (wrong, words) in [
            (list(&["0.2.0", "0.1.0"], ""), "oldest first"),
            (list(&["0.1.0", "0.1.0"], ""), "listed already"),
            (list(&["v0.1.0"], ""), "of the form 0.1.0"),
            (list(&["0.01.0"], ""), "of the form"),
            (list(&["0.1.0+1"], ""), "of the form"),
            ("releases: []".into(), "no release"),
            ("x: 1".into(), "unknown field"),
            (list(&two, "").replace("2026-11-21", "2026-13-41"), "of the form 2026-11-21"),
            (list(&two, "").replace("abcdef0", "HEAD"), "not a commit's hash"),
            (list(&two, "  channels: [stable]\n"), "channel \"stable\" of 0.2.0 is none; there are stable-v0 and"),
            (list(&["0.1.0-rc.1"], "  channels: [stable-v0]\n"), "is a pre-release and cannot be in stable-v0"),
            (list(&two, "  skips: [0.2.0]\n"), "in a circle"),
            (list(&two, "  skips: [0.3.0]\n"), "in a circle"),
            (list(&two, "  skips: [0.1.1]\n"), "0.2.0 skips \"0.1.1\", which is not listed"),
            (list(&two, "  deprecated: ''\n"), "without a reason"),
            (list(&two, "").replace("operatorImage: a", "operatorImage: a@sha256:abc"), "names no digest"),
            (list(&two, "").replace("agentImage: b", "agentImage: b@sha512:abc"), "agentImage of 0.1.0"),
            (list(&two, "").replace("published: false", "published: true"), "is published without a digest"),
        ] {
            let said = Releases::parse(&wrong).unwrap_err().to_string();
            assert!(said.contains(words) && said.contains(PATH) && !said.contains('\n'), "{said}\n{wrong}");
        }
    }

    #[test]
    fn a_release_replaces_the_published_one_before_it_that_it_does_not_skip() {
        let text =
            list(&["0.1.0", "0.2.0", "0.3.0"], "").replace("operatorImage: a", &format!("operatorImage: a{DIGEST}"));
        let mut three = Releases::parse(&text).unwrap();
        let before = |list: &Releases, version: &str| list.of(version).1.map(|release| release.version.clone());
        assert_eq!(before(&three, "0.4.0"), None, "nothing is published");
        let said = three.clone().publish("0.9.0", &BTreeMap::new()).unwrap_err().to_string();
        assert!(said.contains("0.9.0 is not listed"), "{said}");
        let bundle = |image: &str| BTreeMap::from([("oneagent-operator".to_owned(), image.to_owned())]);
        for wrong in [bundle("x:1"), BTreeMap::new()] {
            let said = three.clone().publish("0.2.0", &wrong).unwrap_err().to_string();
            assert!(said.contains("bundleImages.oneagent-operator of 0.2.0") && said.contains("digest"), "{said}");
        }
        let other = BTreeMap::from([("x".to_owned(), format!("x{DIGEST}"))]);
        let said = three.clone().publish("0.2.0", &other).unwrap_err().to_string();
        assert!(said.contains("\"x\", which is no package"), "{said}");
        let pushed = bundle(&format!("x{DIGEST}"));
        three.publish("0.2.0", &pushed).unwrap();
        assert_eq!(before(&three, "0.4.0"), Some("0.2.0".into()));
        assert_eq!((before(&three, "0.3.0"), before(&three, "0.2.0")), (Some("0.2.0".into()), None));
        three.publish("0.1.0", &pushed).unwrap();
        three.releases[2].skips = vec!["0.2.0".into()];
        assert_eq!(before(&three, "0.3.0"), Some("0.1.0".into()));
        let again = three.add(Release::new("0.2.0", "2026-11-22", "abcdef0")).unwrap_err().to_string();
        assert!(again.contains("listed already"), "{again}");
    }

    #[test]
    fn a_release_is_in_all_channels_but_a_pre_release_in_the_second_alone() {
        let of = |version: &str| Release::new(version, "2026-11-21", "abcdef0");
        let channels = |release: &Release| CHANNELS.map(|channel| release.is_in(channel));
        assert_eq!((channels(&of("0.3.0")), channels(&of("0.3.0-rc.1"))), ([true, true], [false, true]));
        assert_eq!(channels(&Release { channels: vec![CHANNELS[1].into()], ..of("0.3.0") }), [false, true]);
        let package = &crate::api::config_watcher::package::PACKAGE;
        assert!(of("0.3.0-rc.1").has(package) && !of("0.2.9").has(package));
    }
}
