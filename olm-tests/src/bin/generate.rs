//! `generate`: writes what is made from the Rust types and the release list, or with `--check` says whether it differs.
//!
//! A program of the repository: it does not ship. Must not make anything up: all content comes from the operator's
//! `olm`.

use std::path::{Path, PathBuf};

use std::process::ExitCode;

use clap::{Parser, ValueEnum};
use oneagent_operator::api::package::Package;
use oneagent_operator::api::{PACKAGES, schema};
use oneagent_operator::olm::manifests::{self, File};
use oneagent_operator::olm::release::{self, Release, Released, Releases};
use oneagent_operator::olm::{catalog, check};

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
    /// First add a release of this version, which must be the code's own, to the release list.
    #[arg(long, value_name = "VERSION", requires = "commit", requires = "date", conflicts_with_all = ["check", "what"])]
    release: Option<String>,
    /// Commit that the release is made from.
    #[arg(long, value_name = "HASH")]
    commit: Option<String>,
    /// Day of the release, such as 2026-11-21.
    #[arg(long)]
    date: Option<String>,
    /// The operator's image as it was built; by digest, or mirrors cannot be told of it. Default: by tag.
    #[arg(long, value_name = "IMAGE", env = "OPERATOR_IMAGE")]
    operator_image: Option<String>,
    /// The bundle's image as it was built. Default: by tag.
    #[arg(long, value_name = "IMAGE", env = "BUNDLE_IMAGE")]
    bundle_image: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum What {
    /// CustomResourceDefinitions.
    Crds,
    /// Roles, bindings and ServiceAccounts.
    Rbac,
    /// The installation in one file, and the samples.
    Manifests,
    /// The OLM bundle that the present code would be released as.
    Bundle,
    /// The file-based catalog of the releases in the release list.
    Catalog,
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

/// A package, and its bundles as they were released.
type Made = (&'static Package, Vec<Released>);

fn generate(args: &Args) -> Result<(), String> {
    let mut list = list(&args.root)?;
    if let Some(version) = &args.release {
        add(args, &mut list, version)?;
    }
    let made: Vec<Made> = PACKAGES
        .iter()
        .map(|package| Ok((*package, bundles(&args.root, package, &list)?)))
        .collect::<Result<_, String>>()?;
    let (release, before) = list.of(env!("CARGO_PKG_VERSION"));
    let wanted = |what| args.what.is_empty() || args.what.contains(&what);
    let everything = [What::Crds, What::Rbac, What::Manifests, What::Bundle, What::Catalog];
    let mut files = Vec::new();
    for what in everything.into_iter().filter(|what| wanted(*what)) {
        for (package, bundles) in &made {
            let made = match what {
                What::Crds => manifests::crds(package),
                What::Rbac => manifests::rbac(package),
                What::Manifests => manifests::manifests(package),
                What::Bundle => catalog::bundle(package, &release, before),
                What::Catalog => catalog::catalog(package, bundles),
            };
            files.extend(made.map_err(|error| format!("cannot generate {what:?} of {}: {error}", package.name))?);
        }
        if what == What::Catalog {
            let released = made.iter().filter(|(_, bundles)| !bundles.is_empty());
            files.push(catalog::image(released.map(|(package, _)| *package)));
        }
    }
    let mut wrong = check::check(&files);
    for (package, bundles) in &made {
        wrong.extend(check::history(&history(package, bundles)?));
    }
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

/// The CRDs of each release of a package, and those of the present code.
fn history(package: &Package, bundles: &[Released]) -> Result<Vec<(String, Vec<serde_json::Value>)>, String> {
    let released = bundles.iter().map(|r| (r.release.version.clone(), r.manifests("CustomResourceDefinition")));
    let crds =
        package.kinds.iter().map(schema::crd).collect::<Result<Vec<_>, _>>().map_err(|error| error.to_string())?;
    Ok(released.chain([("the present code".to_owned(), crds)]).collect())
}

fn list(root: &Path) -> Result<Releases, String> {
    let path = root.join(release::PATH);
    let text = std::fs::read_to_string(&path).map_err(|error| {
        format!("cannot read the release list {}: {error}; name the repository with --root", path.display())
    })?;
    Releases::parse(&text).map_err(|error| error.to_string())
}

/// Adds a release to the list, and keeps its bundle as it is released.
fn add(args: &Args, list: &mut Releases, version: &str) -> Result<(), String> {
    if version != env!("CARGO_PKG_VERSION") {
        return Err(format!(
            "the code is version {}; set version in Cargo.toml to {version} and commit before releasing it",
            env!("CARGO_PKG_VERSION")
        ));
    }
    let mut release =
        Release::new(version, args.date.as_deref().unwrap_or_default(), args.commit.as_deref().unwrap_or_default());
    release.operator_image = args.operator_image.clone().unwrap_or(release.operator_image);
    release.bundle_image = args.bundle_image.clone().unwrap_or(release.bundle_image);
    list.add(release).map_err(|error| error.to_string())?;
    let (release, before) = list.of(version);
    for package in PACKAGES {
        let folder = args.root.join(Released::folder(package.name, version));
        for file in catalog::bundle(package, &release, before).map_err(|error| error.to_string())? {
            let inside = Path::new(&file.path).strip_prefix(catalog::folder(package)).unwrap_or(Path::new(&file.path));
            let path = folder.join(inside);
            write(&path, &file.content).map_err(|error| format!("cannot write {}: {error}", path.display()))?;
        }
    }
    let text = serde_yaml::to_string(list).map_err(|error| error.to_string())?;
    let path = args.root.join(release::PATH);
    write(&path, &format!("{}{text}", release::HEAD))
        .map_err(|error| format!("cannot write {}: {error}", path.display()))
}

/// The bundles of a package in the listed releases, as they were released.
fn bundles(root: &Path, package: &Package, list: &Releases) -> Result<Vec<Released>, String> {
    let of = |release: &Release| {
        let folder = root.join(Released::folder(package.name, &release.version));
        let mut files = Vec::new();
        collect(&folder, &folder, &mut files).map_err(|error| {
            format!("the bundle of release {} is not in {}: {error}", release.version, folder.display())
        })?;
        let bundle = Released { release: release.clone(), files, image: release.bundle_image(package) };
        match bundle.manifests("ClusterServiceVersion").as_slice() {
            [csv] if csv["spec"]["version"] == release.version.as_str() => Ok(bundle),
            _ => Err(format!("{} does not hold one CSV of version {}", folder.display(), release.version)),
        }
    };
    list.releases.iter().filter(|release| release.has(package)).map(of).collect()
}

/// The files below a folder, in a fixed order.
fn collect(root: &Path, folder: &Path, files: &mut Vec<File>) -> std::io::Result<()> {
    let mut entries: Vec<PathBuf> =
        std::fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<std::io::Result<_>>()?;
    entries.sort();
    for path in entries {
        if path.is_dir() {
            collect(root, &path, files)?;
        } else {
            let inside = path.strip_prefix(root).unwrap_or(&path).display().to_string();
            files.push(File { path: inside, content: std::fs::read_to_string(&path)? });
        }
    }
    Ok(())
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
