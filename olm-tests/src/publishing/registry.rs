//! The registry as a release sees it, by crane: what a tag names, and how an image gets there.
//!
//! A tag that names an image never names another one. Logins are those of `docker login`. Must not build anything.

use std::process::Command;

use super::builder::Layout;
use super::run;
use crate::tools::tool;

fn crane() -> Command {
    Command::new(tool("crane"))
}

/// The digest that a reference has; `None` when there is no such image. Whatever else the registry says is an error.
pub fn digest(reference: &str) -> Result<Option<String>, String> {
    match run("crane digest", crane().args(["digest", reference])) {
        Ok(digest) => Ok(Some(digest)),
        Err(why) if ["MANIFEST_UNKNOWN", "NAME_UNKNOWN", "404"].iter().any(|word| why.contains(word)) => Ok(None),
        Err(why) => Err(format!("the registry does not say whether {reference} is there: {why}")),
    }
}

/// An image as it is pushed: name without a tag, and the tag.
#[derive(Debug, Clone)]
pub struct Target {
    pub name: String,
    pub tag: String,
}

impl Target {
    /// The reference by tag.
    #[must_use]
    pub fn tagged(&self) -> String {
        format!("{}:{}", self.name, self.tag)
    }

    /// The reference by a digest.
    #[must_use]
    pub fn at(&self, digest: &str) -> String {
        format!("{}@{digest}", self.name)
    }

    /// Whether the image is there already; another one under its tag is an error.
    pub fn is_there(&self, digest: &str) -> Result<bool, String> {
        match self::digest(&self.tagged())? {
            None => Ok(false),
            Some(found) if found == digest => Ok(true),
            Some(found) => Err(format!(
                "{} is {found} in the registry, and here it is {digest}: a tag never moves, so take the next version",
                self.tagged()
            )),
        }
    }

    /// Pushes an image, unless it is there.
    pub fn push(&self, layout: &Layout) -> Result<(), String> {
        if self.is_there(&layout.digest)? {
            return Ok(());
        }
        run(&format!("pushing {}", self.tagged()), crane().arg("push").arg(&layout.folder).arg(self.tagged()))?;
        if self.is_there(&layout.digest)? {
            Ok(())
        } else {
            Err(format!("{} is not there after its push", self.tagged()))
        }
    }

    /// Lets a tag that users follow name the image: the only kind of tag that moves.
    pub fn follow(&self, tag: &str, digest: &str) -> Result<(), String> {
        let followed = format!("{}:{tag}", self.name);
        if self::digest(&followed)?.as_deref() == Some(digest) {
            return Ok(());
        }
        run(&format!("tagging {followed}"), crane().args(["tag", &self.at(digest), tag])).map(drop)
    }
}

/// A label of an image.
pub fn label(reference: &str, key: &str) -> Result<Option<String>, String> {
    let config = run("crane config", crane().args(["config", "--platform", "linux/amd64", reference]))?;
    let config: serde_json::Value = serde_json::from_str(&config).map_err(|error| format!("{reference}: {error}"))?;
    Ok(config["config"]["Labels"][key].as_str().map(str::to_owned))
}
