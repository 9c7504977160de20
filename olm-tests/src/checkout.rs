//! A copy of the repository as it is, everything committed: what a maintainer works in.
//!
//! Must not touch the repository itself.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::cluster::repository;
use crate::images::said;

/// The copy.
pub struct Checkout {
    root: PathBuf,
}

impl Checkout {
    /// Makes a folder a copy. A file that is the same already keeps its time: Cargo need not build it again.
    #[must_use]
    pub fn at(root: &Path) -> Self {
        let checkout = Self { root: root.to_owned() };
        let listed = said(Command::new("git").arg("-C").arg(repository("")).args([
            "ls-files",
            "--cached",
            "--others",
            "--exclude-standard",
        ]));
        let wanted: BTreeSet<&str> = listed.lines().filter(|path| repository(path).is_file()).collect();
        for path in &wanted {
            let (from, to) = (repository(path), root.join(path));
            let content = std::fs::read(&from).expect("a file");
            if std::fs::read(&to).is_ok_and(|found| found == content) {
                continue;
            }
            std::fs::create_dir_all(to.parent().expect("a folder")).expect("a folder");
            std::fs::copy(from, to).expect("a file is copied");
        }
        if !root.join(".git").is_dir() {
            said(Command::new("git").args(["init", "--quiet", "--initial-branch", "main"]).arg(root));
        }
        for (key, value) in [("user.name", "Maintainer"), ("user.email", "maintainer@acme.org")] {
            let _ = checkout.git(&["config", key, value]);
        }
        let there = checkout.git(&["ls-files", "--cached", "--others", "--exclude-standard"]);
        for path in there.lines().filter(|path| !wanted.contains(path)) {
            let _ = std::fs::remove_file(root.join(path));
        }
        checkout.commit("The present code");
        checkout
    }

    /// Where it is.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Runs git in it; what it printed.
    #[must_use]
    pub fn git(&self, args: &[&str]) -> String {
        said(Command::new("git").arg("-C").arg(&self.root).args(args))
    }

    /// Commits all that is there.
    pub fn commit(&self, why: &str) {
        let _ = self.git(&["add", "--all"]);
        let _ = self.git(&["commit", "--quiet", "--allow-empty", "--message", why]);
    }

    /// Edits a file.
    pub fn edit(&self, path: &str, from: &str, to: &str) {
        let file = self.root.join(path);
        let text = std::fs::read_to_string(&file).expect(path);
        assert!(text.contains(from), "{path} has no {from}");
        std::fs::write(file, text.replace(from, to)).expect(path);
    }
}
