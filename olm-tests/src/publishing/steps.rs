//! The steps of a release beside its images: listed, published, submitted.
//!
//! Each refuses what comes out of order with one sentence, and then nothing is written.

use std::path::Path;

use oneagent_operator::api::package::Package;
use oneagent_operator::olm::manifests::{File, PRODUCT};
use oneagent_operator::olm::publisher::Publisher;
use oneagent_operator::olm::release::{Release, Released, Releases};
use oneagent_operator::olm::{catalog, chart as charts, submission};

use super::builder::{Builder, Source};
use super::generated::Inputs;
use super::images::bundles;
use super::registry::Target;
use super::{chart, files, is_clean, packages};

/// Refuses while an owner has not decided what the packages' releases name for ever.
fn decided(publisher: &Publisher, packages: &[&Package]) -> Result<(), String> {
    let open = publisher.undecided(packages);
    if open.is_empty() {
        return Ok(());
    }
    let path = oneagent_operator::olm::publisher::PATH;
    Err(format!("an owner must decide first, in {path}:\n  {}", open.join("\n  ")))
}

/// What a release is asked to be.
#[derive(Debug, Default, Clone)]
pub struct Wish {
    pub version: String,
    /// The packages that it is a release of; all when none is named.
    pub packages: Vec<String>,
    /// The image of the agent's installer, by digest.
    pub agent_image: Option<String>,
    pub partial: bool,
}

/// Adds a release to the list, with the digests that its images have, and keeps its bundles and charts.
pub fn add(root: &Path, wish: &Wish, today: &str) -> Result<(), String> {
    let (mut list, publisher, code) = (files::list(root)?, files::publisher(root)?, files::version(root)?);
    let version = &wish.version;
    if *version != code {
        return Err(format!(
            "the code is version {code}; set version in Cargo.toml to {version} and commit before releasing it"
        ));
    }
    let chosen = packages(&wish.packages)?;
    is_clean(root)?;
    decided(&publisher, &chosen)?;
    let source = Source::here(root)?;
    let mut release = Release::new(&publisher, version, today, &source.commit);
    release.packages.clone_from(&wish.packages);
    if let Some(image) = &wish.agent_image {
        release.agent_image.clone_from(image);
    }
    // What the list refuses is refused before minutes are spent.
    list.clone().add(release.clone()).map_err(|error| error.to_string())?;
    let builder = Builder::new(root, wish.partial, true)?;
    let digest = builder.operator(&source, version)?.digest;
    release.operator_image = publisher.image(&format!("{PRODUCT}@{digest}"));
    let mut new = Vec::new();
    let has: Vec<&Package> = release.its_packages().collect();
    for package in has {
        let before = list.before(package, &release);
        let made = catalog::bundle(package, &publisher, &release, before).map_err(|error| error.to_string())?;
        let kept: Vec<File> =
            made.into_iter().map(|file| File { path: files::inside(package, &file), ..file }).collect();
        for (key, name, layout) in bundles(&builder, &source, package, &kept)? {
            release.bundle_images.insert(key, publisher.image(&format!("{name}@{}", layout.digest)));
        }
        let folder = Released::folder(package.name, version);
        new.extend(kept.into_iter().map(|file| File { path: format!("{folder}/{}", file.path), ..file }));
        let made = charts::chart(package, &publisher, &release).map_err(|error| error.to_string())?;
        let (from, to) = (format!("config/{}/chart/", package.name), chart::folder(package.name, version));
        new.extend(made.into_iter().filter_map(|file| {
            Some(File { path: format!("{to}/{}", file.path.strip_prefix(&from)?), content: file.content })
        }));
    }
    list.add(release).map_err(|error| error.to_string())?;
    written(root, &publisher, &list, &code, new)
}

/// Says that the images of a release are pushed, once the registry has all of them.
pub fn publish(root: &Path, version: &str) -> Result<(), String> {
    let (mut list, publisher, code) = (files::list(root)?, files::publisher(root)?, files::version(root)?);
    let found = list.releases.iter().find(|release| release.version == version).cloned();
    let release = found
        .ok_or_else(|| format!("version {version} is not listed: add it first with make release VERSION={version}"))?;
    let has: Vec<&Package> = release.its_packages().collect();
    decided(&publisher, &has)?;
    // All that the list itself refuses, before the registry is asked.
    list.publish(version).map_err(|error| error.to_string())?;
    let bundle = |(key, image): (&String, &String)| (key.clone(), image.clone());
    let images = has.iter().map(|package| (package.name.to_owned(), release.image_of(package)));
    for (what, image) in images.chain(release.bundle_images.iter().map(bundle)) {
        let (name, digest) = image.split_once('@').unwrap_or((&image, ""));
        let target = Target { name: name.to_owned(), tag: version.to_owned() };
        if !target.is_there(digest)? {
            return Err(format!(
                "{what}: {image} is not in the registry under tag {version}: push it first with make images PUSH=1"
            ));
        }
    }
    written(root, &publisher, &list, &code, Vec::new())
}

/// Writes the list, and all that follows from it.
fn written(root: &Path, publisher: &Publisher, list: &Releases, version: &str, new: Vec<File>) -> Result<(), String> {
    let inputs = Inputs { root, publisher, list, version, new: &new };
    let made = inputs.files(&[])?;
    let stale = inputs.stale(&made)?;
    files::write_all(root, &[vec![files::list_file(list)?], new, made].concat())?;
    stale.iter().try_for_each(|path| {
        std::fs::remove_file(root.join(path)).map_err(|error| format!("cannot remove {path}: {error}"))
    })
}

/// Writes the pull requests of the newest published release of a package into a folder.
pub fn submit(root: &Path, package: &str, reviewers: &[String], folder: &Path) -> Result<(), String> {
    let (list, publisher) = (files::list(root)?, files::publisher(root)?);
    let package = packages(&[package.to_owned()])?[0];
    decided(&publisher, &[package])?;
    if reviewers.is_empty() {
        return Err("REVIEWERS is missing: name who may approve, as GitHub knows them".into());
    }
    let all: Vec<&Release> = list.published(package).collect();
    let none = || format!("no release of {} is published; push its images and say so with make publish", package.name);
    let (newest, older) = all.split_last().ok_or_else(none)?;
    let alone = Releases { releases: vec![(*newest).clone()], deprecations: Vec::new(), next: Vec::new() };
    let bundle = files::bundles(root, &publisher, package, &alone, &[])?.remove(0);
    let made = submission::submission(package, &bundle, older, reviewers).map_err(|error| error.to_string())?;
    let _ = std::fs::remove_dir_all(folder);
    files::write_all(folder, &made)?;
    made.iter()
        .filter(|file| file.path.ends_with(submission::NOTES))
        .for_each(|file| println!("{}", folder.join(&file.path).display()));
    Ok(())
}
