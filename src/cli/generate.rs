//! `generate`: writes what is made from the Rust types, or with `--check` says whether it differs.
//!
//! Must not make anything up: all content comes from `olm`.

use std::path::{Path, PathBuf};

use clap::ValueEnum;

use crate::olm::manifests::{self, File};

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
}

pub(super) fn generate(args: &Args) -> Result<(), String> {
    let wanted = |what| args.what.is_empty() || args.what.contains(&what);
    let mut files = Vec::new();
    for (what, make) in [
        (What::Crds, manifests::crds as fn() -> Result<Vec<File>, manifests::Error>),
        (What::Rbac, manifests::rbac),
        (What::Manifests, manifests::manifests),
    ] {
        if wanted(what) {
            files.extend(make().map_err(|error| format!("cannot generate {what:?}: {error}"))?);
        }
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
