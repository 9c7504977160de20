//! Everything that is generated, from the types, the release list and the publisher.
//!
//! Must not write anything: who asks decides.

use std::path::Path;

use clap::ValueEnum;
use oneagent_operator::api::package::Package;
use oneagent_operator::api::{PACKAGES, schema};
use oneagent_operator::olm::changelog::changelog;
use oneagent_operator::olm::manifests::{self, File};
use oneagent_operator::olm::publisher::Publisher;
use oneagent_operator::olm::release::{Released, Releases};
use oneagent_operator::olm::signatures::{self, signatures};
use oneagent_operator::olm::{catalog, chart, check, console, images, monitoring, recipes};

use super::files::{below, bundles};
use super::scenarios;
use crate::reference;

/// Folders in which every file is generated.
const OURS: [&str; 3] = ["bundle", "config", "docs/reference"];

/// What can be generated alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum What {
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
    /// How clusters check signatures, once there is a public key.
    Signatures,
    /// The operator's Containerfile.
    Containerfile,
    /// Pages of fields and commands.
    Reference,
    /// `CHANGELOG.md`.
    Changelog,
}

/// Where things come from.
pub struct Inputs<'a> {
    pub root: &'a Path,
    pub publisher: &'a Publisher,
    pub list: &'a Releases,
    /// Version of the code.
    pub version: &'a str,
    /// Bundles that are about to be kept.
    pub new: &'a [File],
}

impl Inputs<'_> {
    /// The files; of one kind, or all of them. What breaks a rule of OLM is an error.
    pub fn files(&self, what: &[What]) -> Result<Vec<File>, String> {
        let Self { publisher, list, version, .. } = *self;
        let wanted = |one: What| what.is_empty() || what.contains(&one);
        let key = std::fs::read_to_string(self.root.join(signatures::KEY)).ok();
        let (mut files, mut wrong) = (Vec::new(), Vec::new());
        for package in PACKAGES {
            let release = list.of_package(publisher, version, package);
            let bundles = bundles(self.root, publisher, package, list, self.new)?;
            let published: Vec<Released> = bundles.iter().filter(|bundle| bundle.release.published).cloned().collect();
            for one in What::value_variants().iter().copied().filter(|one| wanted(*one)) {
                let made = match one {
                    What::Crds => manifests::crds(package),
                    What::Rbac => manifests::rbac(package),
                    What::Manifests => manifests::manifests(package, &release.image_of(package)),
                    What::Recipes => recipes::recipes(package, publisher, &release),
                    What::Monitoring => monitoring::monitoring(package, publisher),
                    What::Console => console::console(package, publisher),
                    What::Chart => chart::chart(package, publisher, &release),
                    What::Bundle => catalog::bundle(package, publisher, &release, list.before(package, &release)),
                    What::Catalog => catalog::catalog(package, &published, &list.deprecations),
                    What::Signatures => key.as_ref().map_or(Ok(Vec::new()), |key| signatures(package, publisher, key)),
                    // One for all packages.
                    What::Changelog | What::Containerfile => continue,
                    What::Reference => {
                        let pages = reference::Pages { package, releases: &bundles, version };
                        files.extend(pages.kinds()?);
                        continue;
                    }
                };
                files.extend(made.map_err(|error| format!("cannot generate {one:?} of {}: {error}", package.name))?);
            }
            wrong.extend(check::history(&history(package, &published)?));
        }
        if wanted(What::Catalog) {
            files.extend(catalog::images(publisher, &files));
        }
        if wanted(What::Containerfile) {
            files.push(images::containerfile(publisher, version));
        }
        if wanted(What::Reference) {
            let commands = reference::commands(oneagent_operator::cli::command());
            files.extend(commands.map_err(|error| format!("cannot generate pages of commands: {error}"))?);
            files.push(reference::page_of("kubectl-oneagent.md", oneagent_operator::cli::plugin_command()));
            files.extend(scenarios::files()?);
        }
        if wanted(What::Changelog) {
            files.push(changelog(list, version));
        }
        wrong.extend(check::check(&files));
        if wrong.is_empty() {
            Ok(files)
        } else {
            Err(format!("what was generated breaks the rules of OLM:\n  {}", wrong.join("\n  ")))
        }
    }

    /// Files where all is generated that would not be any more.
    pub fn stale(&self, files: &[File]) -> Result<Vec<String>, String> {
        let root = self.root;
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
}

/// The CRDs of each published release of a package, and those of the present code.
fn history(package: &Package, bundles: &[Released]) -> Result<Vec<(String, Vec<serde_json::Value>)>, String> {
    let released = bundles.iter().map(|r| (r.release.version.clone(), r.manifests("CustomResourceDefinition")));
    let crds =
        package.kinds.iter().map(schema::crd).collect::<Result<Vec<_>, _>>().map_err(|error| error.to_string())?;
    Ok(released.chain([("the present code".to_owned(), crds)]).collect())
}
