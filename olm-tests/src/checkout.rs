//! A copy of the repository as it is, everything committed: what a maintainer works in; and a stand-in for the
//! compiler.
//!
//! Must not touch the repository itself.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::cluster::repository;
use crate::images::said;

/// The copy.
pub struct Checkout {
    root: PathBuf,
}

impl Checkout {
    /// Makes a new folder a copy.
    #[must_use]
    pub fn at(root: &Path) -> Self {
        let checkout = Self { root: root.to_owned() };
        let mut list = Command::new("git");
        list.arg("-C").arg(repository("")).args(["ls-files", "--cached", "--others", "--exclude-standard"]);
        for path in said(&mut list).lines().filter(|path| repository(path).is_file()) {
            let to = root.join(path);
            std::fs::create_dir_all(to.parent().expect("a folder")).expect("a folder");
            std::fs::copy(repository(path), to).expect("a file is copied");
        }
        said(Command::new("git").args(["init", "--quiet", "--initial-branch", "main"]).arg(root));
        for (key, value) in [("user.name", "Maintainer"), ("user.email", "maintainer@acme.org")] {
            let _ = checkout.git(&["config", key, value]);
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
}

/// Decides in a repository's `catalog/publisher.yaml` what an owner has to, with this registry and this base of the
/// catalog's server.
pub fn decide(root: &Path, registry: &str, opm: &str) {
    for (from, to) in [
        ("Example Organization", "Acme"),
        ("https://oneagent-operator.example", "https://acme.org"),
        ("Example Maintainers, through", "Maintainers, through"),
        ("Example Maintainers", "Maintainers"),
        ("maintainers@oneagent-operator.example", "maintainers@acme.org"),
        ("https://git.example", "https://git.acme.org"),
        ("registry.example/oneagent-operator", registry),
        ("quay.io/operator-framework/opm:v1.73.0", opm),
        ("recorded: \"\"", "recorded: https://acme.org/letter"),
    ] {
        edit(root, "catalog/publisher.yaml", from, to);
    }
}

/// Edits a file below a folder.
pub fn edit(root: &Path, path: &str, from: &str, to: &str) {
    let file = root.join(path);
    let text = std::fs::read_to_string(&file).expect(path);
    assert!(text.contains(from), "{path} has no {from}");
    std::fs::write(file, text.replace(from, to)).expect(path);
}

/// A program in the place of Cargo for `make images`: the operator's binary as the tests have it, with the digest of
/// the sources behind it, so that other sources make another image. A build of both architectures would take minutes.
#[must_use]
pub fn compiler(folder: &Path) -> PathBuf {
    let path = folder.join("cargo");
    let script = format!(
        "#!/usr/bin/env bash\nset -euo pipefail\nif [ \"$1\" != auditable ]; then exec cargo \"$@\"; fi\n\
        while [ $# -gt 0 ]; do case $1 in --target) target=$2;; --target-dir) into=$2;; esac; shift; done\n\
        mkdir -p \"$into/$target/debug\"\nstrip -o \"$into/$target/debug/oneagent-operator\" {}\n\
        find src -type f | LC_ALL=C sort | xargs sha256sum | sha256sum >> \"$into/$target/debug/oneagent-operator\"\n",
        crate::operator::binary().display()
    );
    std::fs::write(&path, script).expect("a program");
    let _ = said(Command::new("chmod").arg("+x").arg(&path));
    path
}
