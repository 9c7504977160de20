//! `make images`: the images of a release as the list names them, or a preview of the present code.
//!
//! What is pushed under a version never moves: a release is built from its own commit, and must come out with the
//! digest that the list has. A preview has a version, tags and a catalog of its own, which no release uses. Must not
//! change a file of the repository.

use std::path::Path;

use oneagent_operator::api::PACKAGES;
use oneagent_operator::api::package::Package;
use oneagent_operator::olm::manifests::{File, PRODUCT};
use oneagent_operator::olm::publisher::{Publisher, is_placeholder};
use oneagent_operator::olm::release::{FLAVOUR, Release, Released, bundle_name};
use oneagent_operator::olm::{catalog, check};

use super::builder::{Builder, Layout, Source};
use super::catalogs::Catalogs;
use super::registry::Target;
use super::sign::{PROVENANCE, Signer, dependencies, is_signed};
use super::{chart, files, is_clean};

/// What is asked for.
#[derive(Debug, Default, Clone)]
pub struct Wish {
    /// Where to push a preview; a release is pushed to the publisher's registry.
    pub registry: Option<String>,
    pub push: bool,
    /// The key to sign with.
    pub sign: Option<String>,
    pub partial: bool,
    /// Image of the agent's installer, for a preview.
    pub agent_image: Option<String>,
    /// Base of the catalog that serves itself; `none` leaves it out.
    pub opm_image: Option<String>,
}

/// Builds, and pushes and signs if that is wished; prints every image by digest.
pub fn images(root: &Path, wish: &Wish) -> Result<(), String> {
    let (list, publisher, version) = (files::list(root)?, files::publisher(root)?, files::version(root)?);
    if wish.sign.is_some() && !wish.push {
        return Err("SIGN without PUSH=1: what is not in a registry cannot be signed".into());
    }
    let signer = wish.sign.as_deref().map(|key| Signer::new(root, key)).transpose()?;
    let signer = signer.as_ref();
    match list.releases.iter().find(|release| release.version == version) {
        Some(release) => released(root, &publisher, release, wish, signer),
        None => preview(root, &publisher, &list.of(&publisher, &version), wish, signer),
    }
}

/// An image of a release: its name, the digest that the list has, and what it is built from.
struct Listed<'a> {
    name: String,
    digest: String,
    from: From<'a>,
}

impl Listed<'_> {
    /// What the builder calls it: all packages have one operator.
    fn layout(&self) -> String {
        match self.from {
            From::Operator => PRODUCT.to_owned(),
            From::Bundle(..) => self.name.clone(),
        }
    }
}

enum From<'a> {
    Operator,
    /// A bundle's folder and Containerfile.
    Bundle(&'a Package, &'static str),
}

/// The Containerfiles of a bundle, with what its image is called by.
const FLAVOURS: [(&str, &str); 2] = [("", "Containerfile"), (FLAVOUR, "Containerfile.openshift")];

fn listed(release: &Release) -> Result<Vec<Listed<'_>>, String> {
    let mut all = Vec::new();
    let none =
        |what: &str| format!("{what} of {} has no digest in the release list; it was never built", release.version);
    let digest = |image: &'_ str| image.split_once('@').map(|(_, digest)| digest.to_owned());
    let operator = digest(&release.operator_image).ok_or_else(|| none("operatorImage"))?;
    for package in release.its_packages() {
        all.push(Listed { name: package.name.to_owned(), digest: operator.clone(), from: From::Operator });
        for (suffix, containerfile) in FLAVOURS {
            let key = format!("{}{suffix}", package.name);
            let digest = release.bundle_images.get(&key).and_then(|image| digest(image));
            let digest = digest.ok_or_else(|| none(&format!("bundleImages.{key}")))?;
            all.push(Listed { name: bundle_name(package, suffix), digest, from: From::Bundle(package, containerfile) });
        }
    }
    Ok(all)
}

/// A release that is listed: exactly the images of the list, built again only when one of them is missing.
fn released(
    root: &Path,
    publisher: &Publisher,
    release: &Release,
    wish: &Wish,
    signer: Option<&Signer>,
) -> Result<(), String> {
    let version = &release.version;
    if let Some(other) = wish.registry.as_ref().filter(|registry| **registry != publisher.registry) {
        return Err(format!(
            "{version} is released to {}, which its bundles name, and not to {other}: leave REGISTRY out, or raise the \
            version in Cargo.toml for a preview",
            publisher.registry
        ));
    }
    let all = listed(release)?;
    let target = |image: &Listed<'_>| Target { name: publisher.image(&image.name), tag: version.clone() };
    let mut missing = Vec::new();
    for image in &all {
        let is_there = wish.push && target(image).is_there(&image.digest)?;
        let is_complete = wish.sign.is_none() || is_signed(&target(image).name, &image.digest)?;
        if !(is_there && is_complete) {
            missing.push(image);
        }
    }
    let builder = Builder::new(root, wish.partial, wish.push && !missing.is_empty())?;
    if !missing.is_empty() {
        let source = builder.source(&release.commit)?;
        let built = built(root, &builder, &source, release, &missing)?;
        // Nothing is pushed before all of it was found to be right.
        for (image, layout) in missing.iter().zip(&built).filter(|_| wish.push) {
            target(image).push(layout)?;
        }
        if let Some(signer) = signer {
            let dependencies = dependencies(&source.root, builder.work())?;
            for image in &missing {
                let mut attestations = vec![(PROVENANCE, builder.provenance(&image.digest))];
                attestations.extend(matches!(image.from, From::Operator).then(|| dependencies.clone()));
                signer.sign(&target(image).name, &image.digest, &attestations)?;
            }
        }
    }
    for image in &all {
        println!("{}", target(image).at(&image.digest));
    }
    if !wish.push {
        println!("nothing was pushed: PUSH=1 does");
        return Ok(());
    }
    for package in release.its_packages() {
        let folder = root.join(chart::folder(package.name, version));
        let (target, digest) = chart::push(&publisher.registry, package.name, version, &folder, builder.work())?;
        signer.map_or(Ok(()), |signer| signer.sign(&target.name, &digest, &[]))?;
        println!("{}", target.at(&digest));
    }
    if !release.published {
        println!("catalogs do not name {version} yet: make publish VERSION={version}");
        return Ok(());
    }
    let source = Source::here(root)?;
    let content = Catalogs { builder: &builder, publisher, source: &source, folder: root.join("catalog"), version };
    content.push(wish.opm_image.as_deref(), &["latest"], signer)
}

/// Builds images of a release, and holds them against the list.
fn built(
    root: &Path,
    builder: &Builder,
    source: &Source,
    release: &Release,
    wanted: &[&Listed<'_>],
) -> Result<Vec<Layout>, String> {
    let mut operator: Option<Layout> = None;
    let mut layouts = Vec::new();
    for image in wanted {
        if let Some(layout) = builder.found(&image.layout(), &image.digest) {
            layouts.push(layout);
            continue;
        }
        let layout = match image.from {
            From::Operator => match &operator {
                Some(layout) => layout.clone(),
                None => operator.insert(builder.operator(source, &release.version)?).clone(),
            },
            From::Bundle(package, containerfile) => {
                let folder = root.join(Released::folder(package.name, &release.version));
                builder.image(&image.name, &folder.join(containerfile), &folder, source, &[])?
            }
        };
        if layout.digest != image.digest {
            return Err(format!(
                "{} of {} comes out as {}, and the release list has {}: build it with the toolchain, the certificate \
                authorities and the architectures of the release",
                image.name, release.version, layout.digest, image.digest
            ));
        }
        layouts.push(layout);
    }
    Ok(layouts)
}

/// The bundles of a release, built from the files that are about to be kept: the key of the list, the image's name, and
/// the image.
pub fn bundles(
    builder: &Builder,
    source: &Source,
    package: &Package,
    kept: &[File],
) -> Result<Vec<(String, String, Layout)>, String> {
    let folder = builder.work().join("bundles").join(package.name);
    let _ = std::fs::remove_dir_all(&folder);
    files::write_all(&folder, kept)?;
    let one = |(suffix, containerfile): (&str, &str)| {
        let name = bundle_name(package, suffix);
        let layout = builder.image(&name, &folder.join(containerfile), &folder, source, &[])?;
        Ok((format!("{}{suffix}", package.name), name, layout))
    };
    FLAVOURS.into_iter().map(one).collect()
}

/// A version that no release has, and that comes before the release of its number.
fn preview_version(version: &str, time: i64) -> Result<String, String> {
    let day = chrono::DateTime::from_timestamp(time, 0).ok_or("the commit has no time")?;
    let number = version.split('-').next().unwrap_or(version);
    Ok(format!("{number}-dev.{}", day.format("%Y%m%d%H%M%S")))
}

/// The present code alone, under a version of its own.
fn preview(
    root: &Path,
    publisher: &Publisher,
    release: &Release,
    wish: &Wish,
    signer: Option<&Signer>,
) -> Result<(), String> {
    if wish.push {
        is_clean(root)?;
        if wish.registry.is_none() && is_placeholder(&publisher.registry) {
            return Err("REGISTRY is missing: name the host and folder to push to, such as quay.io/acme".into());
        }
    }
    let publisher = Publisher {
        registry: wish.registry.clone().unwrap_or_else(|| publisher.registry.clone()),
        ..publisher.clone()
    };
    let source = Source::here(root)?;
    let version = preview_version(&release.version, source.time)?;
    let builder = Builder::new(root, wish.partial, wish.push)?;
    let operator = builder.operator(&source, &version)?;
    let agent_image = wish.agent_image.clone().unwrap_or_else(|| release.agent_image.clone());
    let release = Release {
        operator_image: publisher.image(&format!("{PRODUCT}@{}", operator.digest)),
        agent_image,
        ..Release::new(&publisher, &version, &release.date, &source.commit)
    };
    let mut pushed: Vec<(String, Layout)> = PACKAGES.iter().map(|p| (p.name.to_owned(), operator.clone())).collect();
    let mut all = Vec::new();
    for package in PACKAGES {
        let bundle = catalog::bundle(package, &publisher, &release, None).map_err(|error| error.to_string())?;
        let kept: Vec<File> =
            bundle.iter().map(|file| File { path: files::inside(package, file), ..file.clone() }).collect();
        all.extend(bundle);
        let images = bundles(&builder, &source, package, &kept)?;
        let digest = images.first().map(|(_, _, layout)| layout.digest.clone()).unwrap_or_default();
        let released = Released {
            release: release.clone(),
            files: kept,
            image: publisher.image(&format!("{}@{digest}", bundle_name(package, ""))),
        };
        all.extend(catalog::catalog(package, &[released], &[]).map_err(|error| error.to_string())?);
        pushed.extend(images.into_iter().map(|(_, name, layout)| (name, layout)));
    }
    all.extend(catalog::images(&publisher, &all));
    let wrong = check::check(&all);
    if !wrong.is_empty() {
        return Err(wrong.join("\n  "));
    }
    let folder = builder.work().join("preview");
    let _ = std::fs::remove_dir_all(&folder);
    files::write_all(&folder, &all)?;
    let dependencies = signer.map(|_| dependencies(&source.root, builder.work())).transpose()?;
    for (name, layout) in &pushed {
        let target = Target { name: publisher.image(name), tag: version.clone() };
        if wish.push {
            target.push(layout)?;
            let mut attestations = vec![(PROVENANCE, builder.provenance(&layout.digest))];
            attestations.extend(dependencies.clone().filter(|_| layout.digest == operator.digest));
            signer.map_or(Ok(()), |signer| signer.sign(&target.name, &layout.digest, &attestations))?;
        }
        println!("{}", target.at(&layout.digest));
    }
    if !wish.push {
        println!("nothing was pushed: PUSH=1 does");
        return Ok(());
    }
    let content = Catalogs {
        builder: &builder,
        publisher: &publisher,
        source: &source,
        folder: folder.join("catalog"),
        version: &version,
    };
    content.push(wish.opm_image.as_deref(), &["preview"], signer)
}
