//! Charts: packed, and pushed as OCI artifacts, as a release keeps them.
//!
//! A chart that was packed twice is not the same twice (Helm writes the time), so what is pushed once stays. Must not
//! change a file of it.

use std::path::Path;
use std::process::Command;

use super::registry::Target;
use super::{registry, run};
use crate::tools::tool;

/// Where the chart of a release is kept, below the repository.
#[must_use]
pub fn folder(package: &str, version: &str) -> String {
    format!("catalog/charts/{package}/v{version}")
}

/// Pushes a chart, unless one of its version is there; where it is, and its digest.
pub fn push(
    registry: &str,
    package: &str,
    version: &str,
    folder: &Path,
    work: &Path,
) -> Result<(Target, String), String> {
    let target = Target { name: format!("{registry}/charts/{package}"), tag: version.to_owned() };
    if let Some(digest) = registry::digest(&target.tagged())? {
        return Ok((target, digest));
    }
    let helm = || Command::new(tool("helm"));
    let to = work.join("charts");
    run("helm package", helm().arg("package").arg(folder).arg("-d").arg(&to))?;
    let mut push = helm();
    push.arg("push").arg(to.join(format!("{package}-{version}.tgz"))).arg(format!("oci://{registry}/charts"));
    // A registry without TLS, as a test has it.
    run("helm push", push.args(registry.starts_with("127.0.0.1:").then_some("--plain-http")))?;
    match registry::digest(&target.tagged())? {
        Some(digest) => Ok((target, digest)),
        None => Err(format!("{} is not there after its push", target.tagged())),
    }
}
