//! `generate`: writes what is made from the Rust types, or with `--check` says whether it differs.
//!
//! Must not make anything up: all content comes from `olm`.

use std::path::{Path, PathBuf};

use clap::ValueEnum;

use crate::olm::manifests::{self, File};
use crate::olm::release::{self, Releases};
use crate::olm::{catalog, check};

/// Arguments of `generate`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// What to write; all of it when nothing is named.
    #[arg(value_enum)]
    what: Vec<What>,
    /// Root of the repository.
    #[arg(long, default_value = ".")]
    root: PathBuf,
    /// Write nothing; fail with a list of differences if the files are not what would be written.
    #[arg(long)]
    check: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum What {
    /// CustomResourceDefinitions.
    Crds,
    /// Roles, bindings and ServiceAccounts.
    Rbac,
    /// The installation in one file, and the samples.
    Manifests,
    /// The OLM bundle of the newest release in the release list.
    Bundle,
    /// The file-based catalog of all releases.
    Catalog,
}

pub(super) fn generate(args: &Args) -> Result<(), String> {
    let wanted = |what| args.what.is_empty() || args.what.contains(&what);
    let everything = [What::Crds, What::Rbac, What::Manifests, What::Bundle, What::Catalog];
    let mut files = Vec::new();
    for what in everything.into_iter().filter(|what| wanted(*what)) {
        let made = match what {
            What::Crds => manifests::crds(),
            What::Rbac => manifests::rbac(),
            What::Manifests => manifests::manifests(),
            What::Bundle => catalog::bundle(&releases(&args.root)?),
            What::Catalog => catalog::catalog(&releases(&args.root)?),
        };
        files.extend(made.map_err(|error| format!("cannot generate {what:?}: {error}"))?);
    }
    let wrong = check::check(&files);
    if !wrong.is_empty() {
        return Err(format!("what was generated breaks the rules of OLM:\n  {}", wrong.join("\n  ")));
    }
    let mut differing = Vec::new();
    for file in &files {
        let path = args.root.join(&file.path);
        if args.check {
            differing.extend(difference(&path, file));
        } else {
            write(&path, &file.content).map_err(|error| format!("cannot write {}: {error}", path.display()))?;
        }
    }
    if differing.is_empty() {
        Ok(())
    } else {
        Err(format!("generated files are not up to date; run `make generate` and commit:\n{}", differing.join("\n")))
    }
}

fn releases(root: &Path) -> Result<Releases, String> {
    let path = root.join(release::PATH);
    let text = std::fs::read_to_string(&path)
        .map_err(|error| format!("cannot read the release list {}: {error}; name the repository with --root", path.display()))?;
    Releases::parse(&text).map_err(|error| error.to_string())
}

fn difference(path: &Path, file: &File) -> Option<String> {
    let Ok(found) = std::fs::read_to_string(path) else { return Some(format!("  {} is missing", file.path)) };
    if found == file.content {
        return None;
    }
    let line = found.lines().zip(file.content.lines()).take_while(|(a, b)| a == b).count();
    let show = |text: &str| text.lines().nth(line).unwrap_or("(end of file)").to_owned();
    Some(format!("  {} line {}:\n    - {}\n    + {}", file.path, line + 1, show(&found), show(&file.content)))
}

fn write(path: &Path, content: &str) -> std::io::Result<()> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    std::fs::write(path, content)
}
