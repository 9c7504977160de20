//! `release`: the steps of a release, as docs/release.md has them, and previews of the present code.
//!
//! A program of the repository: it does not ship. `make` calls it; every step is in `publishing`.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use olm_tests::publishing::{images, sign, steps};

/// Makes releases of the repository.
#[derive(Debug, Parser)]
#[command(name = "release", version)]
struct Cli {
    /// Root of the repository.
    #[arg(long, default_value = ".", global = true)]
    root: PathBuf,
    #[command(subcommand)]
    step: Step,
}

#[derive(Debug, Subcommand)]
enum Step {
    /// Adds the code's version to the release list, with the digests of its images, and keeps its bundles and charts.
    Add(Add),
    /// Builds the images of the release, or of a preview; pushes and signs them.
    Images(Images),
    /// Makes a key pair to sign with: the private half where it is asked for, the public one in the repository.
    Key {
        /// Folder of the private half, outside of the repository.
        folder: PathBuf,
    },
    /// Says that a release's images are pushed: from then on the catalog has it.
    Publish {
        /// Version, as in the release list.
        version: String,
    },
    /// Writes the pull requests by which the community's catalogs take the newest published release of a package.
    Submit(Submit),
}

#[derive(Debug, Args)]
struct Add {
    /// Version, as in Cargo.toml.
    version: String,
    /// The packages that it is a release of, with a space between them; all by default.
    #[arg(long, env = "PACKAGES", value_delimiter = ' ')]
    packages: Vec<String>,
    /// The image of the agent's installer; by digest, or the bundle cannot claim that it can be mirrored.
    #[arg(long, value_name = "IMAGE", env = "AGENT_IMAGE")]
    agent_image: Option<String>,
    /// Day of the release; today by default.
    #[arg(long, value_name = "DAY")]
    date: Option<String>,
    /// Go on without the architectures that cannot be built here.
    #[arg(long, env = "PARTIAL", value_parser = clap::builder::BoolishValueParser::new())]
    partial: Option<bool>,
}

#[derive(Debug, Args)]
struct Images {
    /// Host and folder to push a preview to.
    #[arg(long, env = "REGISTRY")]
    registry: Option<String>,
    /// Push the images.
    #[arg(long, env = "PUSH", value_parser = clap::builder::BoolishValueParser::new())]
    push: Option<bool>,
    /// Sign what is pushed, with this key.
    #[arg(long, value_name = "KEY", env = "SIGN")]
    sign: Option<String>,
    /// Go on without the architectures that cannot be built here.
    #[arg(long, env = "PARTIAL", value_parser = clap::builder::BoolishValueParser::new())]
    partial: Option<bool>,
    /// The image of the agent's installer, for a preview.
    #[arg(long, value_name = "IMAGE", env = "AGENT_IMAGE")]
    agent_image: Option<String>,
    /// The base of the catalog that serves itself; `none` leaves that out.
    #[arg(long, value_name = "IMAGE", env = "OPM_IMAGE")]
    opm_image: Option<String>,
}

#[derive(Debug, Args)]
struct Submit {
    /// The package.
    package: String,
    /// GitHub's names of those who may approve.
    #[arg(long = "reviewer", value_name = "NAME", env = "REVIEWERS", value_delimiter = ' ')]
    reviewers: Vec<String>,
    /// Where to write.
    #[arg(long, default_value = "target/submission")]
    folder: PathBuf,
}

fn main() -> ExitCode {
    match release(Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(sentence) => {
            eprintln!("release: {sentence}");
            ExitCode::FAILURE
        }
    }
}

fn release(cli: Cli) -> Result<(), String> {
    let root = &cli.root;
    // `make` hands on what was not named as an empty word.
    let named = |value: Option<String>| value.filter(|value| !value.is_empty());
    let all = |names: Vec<String>| names.into_iter().filter(|name| !name.is_empty()).collect::<Vec<_>>();
    match cli.step {
        Step::Add(add) => {
            let today = add.date.unwrap_or_else(|| chrono::Utc::now().format("%Y-%m-%d").to_string());
            let wish = steps::Wish {
                version: add.version,
                packages: all(add.packages),
                agent_image: named(add.agent_image),
                partial: add.partial.unwrap_or_default(),
            };
            steps::add(root, &wish, &today)
        }
        Step::Images(wish) => {
            let wish = images::Wish {
                registry: named(wish.registry),
                push: wish.push.unwrap_or_default(),
                sign: named(wish.sign),
                partial: wish.partial.unwrap_or_default(),
                agent_image: named(wish.agent_image),
                opm_image: named(wish.opm_image),
            };
            images::images(root, &wish)
        }
        Step::Key { folder } => sign::key(root, &folder),
        Step::Publish { version } => steps::publish(root, &version),
        Step::Submit(submit) => {
            steps::submit(root, &submit.package, &all(submit.reviewers), &root.join(&submit.folder))
        }
    }
}
