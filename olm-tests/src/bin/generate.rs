//! `generate`: writes what is made from the Rust types, the release list and the publisher, or with `--check` says
//! whether it differs.
//!
//! A program of the repository: it does not ship. Nothing is written before all of it was found to be right.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use olm_tests::publishing::files;
use olm_tests::publishing::generated::{Inputs, What};

/// Writes the generated files of the repository.
#[derive(Debug, Parser)]
#[command(name = "generate", version)]
struct Args {
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

fn main() -> ExitCode {
    match generate(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(sentence) => {
            eprintln!("generate: {sentence}");
            ExitCode::FAILURE
        }
    }
}

fn generate(args: &Args) -> Result<(), String> {
    let root = &args.root;
    let (list, publisher, version) = (files::list(root)?, files::publisher(root)?, files::version(root)?);
    let inputs = Inputs { root, publisher: &publisher, list: &list, version: &version, new: &[] };
    let made = inputs.files(&args.what)?;
    let stale = if args.what.is_empty() { inputs.stale(&made)? } else { Vec::new() };
    if !args.check {
        files::write_all(root, &made)?;
        return stale.iter().try_for_each(|path| {
            std::fs::remove_file(root.join(path)).map_err(|error| format!("cannot remove {path}: {error}"))
        });
    }
    let mut differing: Vec<String> =
        made.iter().filter_map(|file| files::difference(&root.join(&file.path), file)).collect();
    differing.extend(stale.iter().map(|path| format!("  {path} is not generated any more")));
    if differing.is_empty() {
        Ok(())
    } else {
        Err(format!("generated files are not up to date; run `make generate` and commit:\n{}", differing.join("\n")))
    }
}
