//! Releases: the list in `catalog/releases.yaml` is the only input of a bundle and a catalog beside the types.
//!
//! Pure: the command line reads the file. Must not invent a digest: an image that was not pushed has none, and then
//! nothing may claim that it can be mirrored.

use serde::{Deserialize, Serialize};

/// Path of the list below the repository.
pub const PATH: &str = "catalog/releases.yaml";

/// The list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Releases {
    /// Oldest first.
    pub releases: Vec<Release>,
}

/// One release.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Release {
    /// Semantic version, without a leading v.
    pub version: String,
    /// Day, `YYYY-MM-DD`.
    pub date: String,
    /// Image of the operator: by digest once it is pushed, by tag before.
    pub operator_image: String,
    /// Image of the agent's installer.
    pub agent_image: String,
    /// Image of the bundle.
    pub bundle_image: String,
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
            let number = number(&release.version).ok_or_else(|| Invalid(format!("version {:?} is not of the form 0.1.0", release.version)))?;
            if before.is_some_and(|before| before >= number) {
                return Err(Invalid(format!("version {} does not come after the one before it; list the oldest first", release.version)));
            }
            before = Some(number);
            let parts: Vec<&str> = release.date.split('-').collect();
            if release.date.len() != 10 || parts.len() != 3 || !parts.iter().all(|p| p.bytes().all(|b| b.is_ascii_digit())) {
                return Err(Invalid(format!("date {:?} of {} is not of the form 2026-11-21", release.date, release.version)));
            }
        }
        if list.releases.is_empty() { Err(Invalid("it lists no release".into())) } else { Ok(list) }
    }

    /// The newest; `parse` refuses an empty list.
    #[must_use]
    pub fn newest(&self) -> Option<&Release> {
        self.releases.last()
    }
}

fn number(version: &str) -> Option<(u32, u32, u32)> {
    let mut parts = version.split('.').map(|p| p.parse::<u32>().ok().filter(|n| n.to_string() == p));
    let number = (parts.next()??, parts.next()??, parts.next()??);
    parts.next().is_none().then_some(number)
}

impl Release {
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
        let entry = |v: &&str| format!("- {{ version: {v}, date: 2026-11-21, operatorImage: a, agentImage: b, bundleImage: c }}\n");
        format!("releases:\n{}", versions.iter().map(entry).collect::<String>())
    }

    #[test]
    fn a_list_is_ordered_and_well_formed_or_refused_with_its_place() {
        assert_eq!(Releases::parse(&list(&["0.1.0", "0.2.0"])).unwrap().newest().unwrap().version, "0.2.0");
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
