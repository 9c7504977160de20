//! `generate`: writes what is made from the Rust types and the release list, or with `--check` says whether it differs.
//!
//! A program of the repository: it does not ship. Must not make anything up: all content comes from the operator's
//! `olm`. Nothing is written before all of it was found to be right.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Parser, ValueEnum};
use olm_tests::reference;
use oneagent_operator::api::package::Package;
use oneagent_operator::api::{PACKAGES, schema};
use oneagent_operator::olm::changelog::changelog;
use oneagent_operator::olm::manifests::{self, File};
use oneagent_operator::olm::release::{self, Release, Released, Releases};
use oneagent_operator::olm::{catalog, chart, check, console, monitoring, recipes, submission};

/// Folders in which every file is generated.
const OURS: [&str; 3] = ["bundle", "config", "docs/reference"];

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
    /// First note in the release list that the images of this version are pushed.
    #[arg(long, value_name = "VERSION", conflicts_with_all = ["check", "what", "release"])]
    publish: Option<String>,
    /// Write bundle and catalog of the present code alone into this folder, as if it were released with these images.
    #[arg(long, value_name = "FOLDER", conflicts_with_all = ["check", "release", "publish"])]
    preview: Option<PathBuf>,
    /// Write what the community's pipelines take the newest published release from into this folder.
    #[arg(long, value_name = "FOLDER", requires = "reviewers",
        conflicts_with_all = ["check", "release", "publish", "preview"])]
    submission: Option<PathBuf>,
    /// GitHub's names of those who may approve a submission.
    #[arg(long = "reviewer", value_name = "NAME", env = "REVIEWERS", value_delimiter = ' ')]
    reviewers: Vec<String>,
    /// Commit that the release is made from.
    #[arg(long, value_name = "HASH")]
    commit: Option<String>,
    /// Day of the release, such as 2026-11-21.
    #[arg(long)]
    date: Option<String>,
    /// The operator's image as it was built; by digest, or mirrors cannot be told of it. Default: by tag.
    #[arg(long, value_name = "IMAGE", env = "OPERATOR_IMAGE")]
    operator_image: Option<String>,
    /// The image of the agent's installer; by digest, or the bundle cannot claim that it can be mirrored.
    #[arg(long, value_name = "IMAGE", env = "AGENT_IMAGE")]
    agent_image: Option<String>,
    /// The bundle's image of a package as it was pushed; once for each package. Default: by tag.
    #[arg(long = "bundle-image", value_name = "PACKAGE=IMAGE", env = "BUNDLE_IMAGES", value_delimiter = ' ',
        value_parser = of_package)]
    bundle_images: Vec<(String, String)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum What {
    /// CustomResourceDefinitions.
    Crds,
    /// Roles, bindings and ServiceAccounts.
    Rbac,
    /// The installation in one file, and the samples.
    Manifests,
    /// What an administrator applies to get it from a catalog.
    Recipes,
    /// Service, ServiceMonitor and alerts.
    Monitoring,
    /// Samples, tour and dashboards.
    Console,
    /// The Helm chart.
    Chart,
    /// The OLM bundle that the present code would be released as.
    Bundle,
    /// The file-based catalog of the published releases.
    Catalog,
    /// Pages of fields and commands.
    Reference,
    /// `CHANGELOG.md`.
    Changelog,
}

const EVERYTHING: [What; 11] = [
    What::Crds,
    What::Rbac,
    What::Manifests,
    What::Recipes,
    What::Monitoring,
    What::Console,
    What::Chart,
    What::Bundle,
    What::Catalog,
    What::Reference,
    What::Changelog,
];

fn main() -> ExitCode {
    match generate(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(sentence) => {
            eprintln!("generate: {sentence}");
            ExitCode::FAILURE
        }
    }
}

fn of_package(text: &str) -> Result<(String, String), String> {
    let names: Vec<&str> = PACKAGES.iter().map(|package| package.name).collect();
    match text.split_once('=') {
        Some((package, image)) if names.contains(&package) => Ok((package.to_owned(), image.to_owned())),
        _ => Err(format!("write PACKAGE=IMAGE, where PACKAGE is {}", names.join(" or "))),
    }
}

fn generate(args: &Args) -> Result<(), String> {
    let mut list = list(&args.root)?;
    if let Some(folder) = &args.preview {
        return write_all(folder, &preview(args, &list)?);
    }
    if let Some(folder) = &args.submission {
        return write_all(folder, &submitted(args, &list)?);
    }
    let mut files = Vec::new();
    if let Some(version) = &args.release {
        files.extend(add(args, &mut list, version)?);
    }
    if let Some(version) = &args.publish {
        let images = args.bundle_images.iter().cloned().collect();
        list.publish(version, &images).map_err(|error| error.to_string())?;
        files.push(list_file(&list)?);
    }
    let released = files.clone();
    let (release, before) = list.of(env!("CARGO_PKG_VERSION"));
    let wanted = |what| args.what.is_empty() || args.what.contains(&what);
    let mut wrong = Vec::new();
    for package in PACKAGES {
        let bundles = bundles(&args.root, package, &list, &released)?;
        let published: Vec<Released> = bundles.iter().filter(|bundle| bundle.release.published).cloned().collect();
        for what in EVERYTHING.into_iter().filter(|what| wanted(*what)) {
            let made = match what {
                What::Crds => manifests::crds(package),
                What::Rbac => manifests::rbac(package),
                What::Manifests => manifests::manifests(package),
                What::Recipes => recipes::recipes(package, &release),
                What::Monitoring => monitoring::monitoring(package),
                What::Console => console::console(package),
                What::Chart => chart::chart(package, &release),
                What::Bundle => catalog::bundle(package, &release, before),
                What::Catalog => catalog::catalog(package, &published),
                // One for all packages.
                What::Changelog => continue,
                What::Reference => reference::kinds(package).map_err(manifests::Error::from),
            };
            files.extend(made.map_err(|error| format!("cannot generate {what:?} of {}: {error}", package.name))?);
        }
        wrong.extend(check::history(&history(package, &published)?));
    }
    if wanted(What::Catalog) {
        files.extend(catalog::images(&files));
    }
    if wanted(What::Reference) {
        let commands = reference::commands(oneagent_operator::cli::command());
        files.extend(commands.map_err(|error| format!("cannot generate pages of commands: {error}"))?);
    }
    if wanted(What::Changelog) {
        files.push(changelog(&list, env!("CARGO_PKG_VERSION")));
    }
    wrong.extend(check::check(&files));
    if !wrong.is_empty() {
        return Err(format!("what was generated breaks the rules of OLM:\n  {}", wrong.join("\n  ")));
    }
    let stale = if args.what.is_empty() { stale(&args.root, &files)? } else { Vec::new() };
    if !args.check {
        write_all(&args.root, &files)?;
        for path in stale {
            std::fs::remove_file(args.root.join(&path)).map_err(|error| format!("cannot remove {path}: {error}"))?;
        }
        return Ok(());
    }
    let mut differing: Vec<String> =
        files.iter().filter_map(|file| difference(&args.root.join(&file.path), file)).collect();
    differing.extend(stale.iter().map(|path| format!("  {path} is not generated any more")));
    if differing.is_empty() {
        Ok(())
    } else {
        Err(format!("generated files are not up to date; run `make generate` and commit:\n{}", differing.join("\n")))
    }
}

/// The present code as if it were released alone.
fn preview(args: &Args, list: &Releases) -> Result<Vec<File>, String> {
    let version = env!("CARGO_PKG_VERSION");
    let release = with_images(args, Release { skips: Vec::new(), ..list.of(version).0 });
    let mut files = Vec::new();
    for package in PACKAGES {
        let bundle = catalog::bundle(package, &release, None).map_err(|error| error.to_string())?;
        let inside = bundle.iter().map(|file| File { path: inside(package, file), ..file.clone() }).collect();
        let released = Released { release: release.clone(), files: inside, image: release.bundle_image(package) };
        files.extend(bundle);
        files.extend(catalog::catalog(package, &[released]).map_err(|error| error.to_string())?);
    }
    files.extend(catalog::images(&files));
    let wrong = check::check(&files);
    if wrong.is_empty() { Ok(files) } else { Err(wrong.join("\n  ")) }
}

/// What is submitted of the newest published release.
fn submitted(args: &Args, list: &Releases) -> Result<Vec<File>, String> {
    let newest = list.releases.iter().rev().find(|release| release.published);
    let version = &newest.ok_or("no release is published; push its images and say so with make publish")?.version;
    let (release, _) = list.of(version);
    let older: Vec<&Release> =
        list.releases.iter().take_while(|older| older.version != *version).filter(|older| older.published).collect();
    let alone = Releases { releases: vec![release], next: Vec::new() };
    let mut files = Vec::new();
    for package in PACKAGES {
        for bundle in bundles(&args.root, package, &alone, &[])? {
            let made = submission::submission(package, &bundle, &older, &args.reviewers);
            files.extend(made.map_err(|error| error.to_string())?);
        }
    }
    Ok(files)
}

/// A release with the images that were named.
fn with_images(args: &Args, release: Release) -> Release {
    Release {
        operator_image: args.operator_image.clone().unwrap_or(release.operator_image),
        agent_image: args.agent_image.clone().unwrap_or(release.agent_image),
        bundle_images: release.bundle_images.into_iter().chain(args.bundle_images.iter().cloned()).collect(),
        ..release
    }
}

/// The CRDs of each published release of a package, and those of the present code.
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

/// Adds a release to the list; the list and its bundles as they are released.
fn add(args: &Args, list: &mut Releases, version: &str) -> Result<Vec<File>, String> {
    if version != env!("CARGO_PKG_VERSION") {
        return Err(format!(
            "the code is version {}; set version in Cargo.toml to {version} and commit before releasing it",
            env!("CARGO_PKG_VERSION")
        ));
    }
    let release =
        Release::new(version, args.date.as_deref().unwrap_or_default(), args.commit.as_deref().unwrap_or_default());
    list.add(with_images(args, release)).map_err(|error| error.to_string())?;
    let (release, before) = list.of(version);
    let mut files = vec![list_file(list)?];
    for package in PACKAGES {
        let folder = Released::folder(package.name, version);
        let made = catalog::bundle(package, &release, before).map_err(|error| error.to_string())?;
        files
            .extend(made.into_iter().map(|file| File { path: format!("{folder}/{}", inside(package, &file)), ..file }));
    }
    Ok(files)
}

fn list_file(list: &Releases) -> Result<File, String> {
    let text = serde_yaml::to_string(list).map_err(|error| error.to_string())?;
    Ok(File { path: release::PATH.to_owned(), content: format!("{}{text}", release::HEAD) })
}

/// The path of a bundle's file within it.
fn inside(package: &Package, file: &File) -> String {
    file.path.strip_prefix(&format!("{}/", catalog::folder(package))).unwrap_or(&file.path).to_owned()
}

/// The bundles of a package in the listed releases, as they were released or (`new`) are about to be.
fn bundles(root: &Path, package: &Package, list: &Releases, new: &[File]) -> Result<Vec<Released>, String> {
    let of = |release: &Release| {
        let folder = Released::folder(package.name, &release.version);
        let within = |file: &File| {
            let path = file.path.strip_prefix(&format!("{folder}/"))?.to_owned();
            Some(File { path, content: file.content.clone() })
        };
        let mut files: Vec<File> = new.iter().filter_map(within).collect();
        if files.is_empty() {
            let paths = below(root, &folder)
                .map_err(|error| format!("the bundle of release {} is not in {folder}: {error}", release.version))?;
            for path in paths {
                let content = std::fs::read_to_string(root.join(&path)).map_err(|error| format!("{path}: {error}"))?;
                files.push(File { path: path[folder.len() + 1..].to_owned(), content });
            }
        }
        let bundle = Released { release: release.clone(), files, image: release.bundle_image(package) };
        match bundle.manifests("ClusterServiceVersion").as_slice() {
            [csv] if csv["spec"]["version"] == release.version.as_str() => Ok(bundle),
            _ => Err(format!("{folder} does not hold one CSV of version {}", release.version)),
        }
    };
    list.releases.iter().filter(|release| release.has(package)).map(of).collect()
}

/// Paths of all files below a folder of the repository, in a fixed order.
fn below(root: &Path, folder: &str) -> std::io::Result<Vec<String>> {
    let mut entries = BTreeMap::new();
    for entry in std::fs::read_dir(root.join(folder))? {
        let entry = entry?;
        entries.insert(format!("{folder}/{}", entry.file_name().to_string_lossy()), entry.path().is_dir());
    }
    let mut paths = Vec::new();
    for (path, is_folder) in entries {
        if is_folder {
            paths.extend(below(root, &path)?);
        } else {
            paths.push(path);
        }
    }
    Ok(paths)
}

/// Files where all is generated that would not be any more.
fn stale(root: &Path, files: &[File]) -> Result<Vec<String>, String> {
    let catalogs = PACKAGES.iter().map(|package| format!("catalog/{}", package.name));
    let mut stale = Vec::new();
    for folder in OURS.map(str::to_owned).into_iter().chain(catalogs).filter(|folder| root.join(folder).is_dir()) {
        stale.extend(below(root, &folder).map_err(|error| format!("cannot read {folder}: {error}"))?);
    }
    let images = ["catalog/Containerfile", "catalog/Containerfile.content"].map(str::to_owned);
    stale.extend(images.into_iter().filter(|path| root.join(path).is_file()));
    stale.retain(|path| !files.iter().any(|file| file.path == *path));
    Ok(stale)
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

fn write_all(root: &Path, files: &[File]) -> Result<(), String> {
    let write = |path: &Path, content: &str| {
        std::fs::create_dir_all(path.parent().unwrap_or(root))?;
        std::fs::write(path, content)
    };
    for file in files {
        let path = root.join(&file.path);
        write(&path, &file.content)
            .map_err(|error: std::io::Error| format!("cannot write {}: {error}", path.display()))?;
    }
    Ok(())
}
