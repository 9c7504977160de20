//! `CHANGELOG.md`, from the release list: each change is listed in one place, with the release that brought it.
//!
//! Must not word a change itself.

use super::manifests::File;
use super::release::{Release, Releases};

/// Path below the repository.
const PATH: &str = "CHANGELOG.md";

/// The changes of every release, the newest first; `now` is the version of what is not released yet.
#[must_use]
pub fn changelog(list: &Releases, now: &str) -> File {
    let section = |title: String, changes: &[String]| format!("\n## {title}\n\n* {}\n", changes.join("\n* "));
    let next = (!list.next.is_empty()).then(|| section(format!("{now} (not released)"), &list.next));
    let has_any = |release: &&Release| !release.changes.is_empty();
    let released = list.releases.iter().rev().filter(has_any);
    let title = |release: &Release| format!("{} ({})", release.version, release.date);
    let released = released.map(|release| section(title(release), &release.changes));
    let content: String = next.into_iter().chain(released).collect();
    let head = "# Changes\n\nMade from `catalog/releases.yaml`; edit that. An upgrade restarts no agent unless an \
        entry here says so.\n";
    File { path: PATH.to_owned(), content: format!("{head}{content}") }
}
