//! Publishing: what makes a release of the repository, from generated files to signed images in a registry.
//!
//! Programs of the repository use it (`generate`, `release`); nothing of it ships. Every step is checked before the
//! first thing is written or pushed. Must not make up content: that comes from the operator's `olm`.

pub mod builder;
pub mod catalogs;
pub mod chart;
pub mod files;
pub mod generated;
pub mod images;
pub mod registry;
pub mod scenarios;
pub mod sign;
pub mod steps;

use std::path::Path;
use std::process::Command;

use oneagent_operator::api::PACKAGES;
use oneagent_operator::api::package::Package;

/// Runs a program; what it printed, or one sentence with its last words.
pub fn run(what: &str, command: &mut Command) -> Result<String, String> {
    let output = command.output().map_err(|error| format!("{what}: cannot run {command:?}: {error}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let last = said.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("it said nothing").trim();
    let wants_login =
        ["UNAUTHORIZED", "DENIED", "401 Unauthorized", "status code 401"].iter().any(|w| said.contains(w));
    let remedy = if wants_login { "; log in to the registry first, with `docker login`" } else { "" };
    Err(format!("{what} failed: {last}{remedy}"))
}

/// Asks git about a repository.
pub fn git(root: &Path, args: &[&str]) -> Result<String, String> {
    run(&format!("git {}", args.first().unwrap_or(&"")), Command::new("git").arg("-C").arg(root).args(args))
}

/// Refuses what a commit does not hold: it could not be created again.
pub fn is_clean(root: &Path) -> Result<(), String> {
    match git(root, &["status", "--porcelain"])?.lines().next() {
        None => Ok(()),
        Some(first) => {
            let path = first.trim().split_once(' ').map_or(first, |(_, path)| path.trim());
            Err(format!(
                "there are uncommitted changes, in {path} for one: commit first, because a release names its commit"
            ))
        }
    }
}

/// The packages of these names; all when none is named.
pub fn packages(names: &[String]) -> Result<Vec<&'static Package>, String> {
    let known = PACKAGES.iter().map(|package| package.name).collect::<Vec<_>>().join(" and ");
    let of = |name: &String| {
        let found = PACKAGES.iter().find(|package| package.name == *name).copied();
        found.ok_or_else(|| format!("{name:?} is no package; there are {known}"))
    };
    if names.is_empty() { Ok(PACKAGES.to_vec()) } else { names.iter().map(of).collect() }
}
