//! Releases as images: bundles and catalogs pushed to the registry, and the operators of releases built from their
//! commits.
//!
//! Must not install anything.

use std::path::PathBuf;
use std::process::Command;
use std::sync::Mutex;

use oneagent_operator::api::package::Package;
use oneagent_operator::olm::catalog::catalog;
use oneagent_operator::olm::publisher::Publisher;
use oneagent_operator::olm::release::{Release, Released, Releases};
use serde_json::{Value, json};

use super::{CATALOGS, NEXT, Olm, PATIENCE, ROW};
use crate::cluster::{read, repository};
use crate::images::{Config, pull, said};
use crate::process::Process;
use crate::publishing::files;
use crate::tools::tool;
use crate::{eventually, operator};

impl Olm {
    /// A release with its images pushed to the registry, and named by their digests: a listed one with the binary of
    /// its commit, the present code's, or (for any other version) the present code's under that name.
    #[must_use]
    pub fn release(&self, version: &str) -> Released {
        self.release_of(&ROW, version)
    }

    /// The same of another package.
    #[must_use]
    pub fn release_of(&self, package: &'static Package, version: &str) -> Released {
        let present = repository(&format!("bundle/{}", package.name));
        let listed = releases().releases.into_iter().find(|release| release.version == version && version != NEXT);
        let (release, folder, binary) = match listed {
            Some(release) => {
                let (folder, binary) = (repository(&Released::folder(package.name, version)), binary_of(&release));
                (release, folder, binary)
            }
            None => (releases().of(&publisher(), version), present.clone(), operator::binary()),
        };
        let image = self.operators.image(version, &binary);
        let mut files = read(&folder);
        let named = if version == NEXT {
            release.operator_image.clone()
        } else {
            releases().of(&publisher(), NEXT).operator_image
        };
        for file in &mut files {
            file.content = file.content.replace(&named, &image).replace(&release.operator_image, &image);
            if folder == present && version != NEXT {
                file.content = file
                    .content
                    .replace(&format!(".v{NEXT}"), &format!(".v{version}"))
                    .replace(&format!("version: {NEXT}\n"), &format!("version: {version}\n"));
            }
        }
        let mut released =
            Released { release: Release { operator_image: image, ..release }, files, image: String::new() };
        released.image = self.push_bundle(package, &released);
        released
    }

    /// Another publisher's package of one bundle, pushed as an image: what a catalog says of it, as opm renders it.
    #[must_use]
    pub fn foreign(&self, package: &str, channel: &str, csv: &str, manifests: &[(String, Value)]) -> String {
        let root = tempfile::tempdir().expect("a folder");
        let annotations = json!({
            "operators.operatorframework.io.bundle.mediatype.v1": "registry+v1",
            "operators.operatorframework.io.bundle.manifests.v1": "manifests/",
            "operators.operatorframework.io.bundle.metadata.v1": "metadata/",
            "operators.operatorframework.io.bundle.package.v1": package,
            "operators.operatorframework.io.bundle.channels.v1": channel,
        });
        let labels = annotations
            .as_object()
            .into_iter()
            .flatten()
            .map(|(k, v)| (k.clone(), v.as_str().unwrap_or_default().to_owned()))
            .collect();
        let metadata = ("metadata/annotations.yaml".to_owned(), json!({ "annotations": annotations }));
        for (path, object) in manifests.iter().chain([&metadata]) {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            std::fs::write(path, object.to_string()).expect("a file");
        }
        let image = self.registry.push(
            &format!("{package}-bundle:{channel}"),
            root.path(),
            &["manifests", "metadata"],
            &Config { labels, ..Config::default() },
        );
        let level = [
            "render",
            "-o",
            "yaml",
            "--migrate-level",
            "bundle-object-to-csv-metadata",
            "--alpha-image-ref-template",
            &image,
        ];
        let bundle = said(Command::new(tool("opm")).args(level).arg(root.path()));
        let head = [
            json!({ "schema": "olm.package", "name": package, "defaultChannel": channel }),
            json!({ "schema": "olm.channel", "package": package, "name": channel, "entries": [{ "name": csv }] }),
        ];
        format!("{}\n---\n{}\n{bundle}", head[0], head[1])
    }

    /// Serves a catalog of these releases: pushed as an image, pulled, served by opm. Served content is replaced.
    pub async fn publish(&self, released: &[Released]) {
        self.publish_with(released, &[]).await;
    }

    /// The same, with packages of others beside it.
    pub async fn publish_with(&self, released: &[Released], others: &[String]) {
        self.publish_all(&[(&ROW, released)], others).await;
    }

    /// Serves a catalog of several packages.
    pub async fn publish_all(&self, packages: &[(&Package, &[Released])], others: &[String]) {
        let root = tempfile::tempdir().expect("a folder");
        let configs = root.path().join("configs");
        let made = packages.iter().flat_map(|(package, released)| catalog(package, released, &[]).expect("a catalog"));
        for file in made {
            if let Some(path) = file.path.strip_prefix("catalog/").filter(|path| path.contains('/')) {
                std::fs::create_dir_all(configs.join(path).parent().expect("a folder")).expect("a folder");
                std::fs::write(configs.join(path), file.content).expect("a file");
            }
        }
        for (at, other) in others.iter().enumerate() {
            std::fs::write(configs.join(format!("other-{at}.yaml")), other).expect("a file");
        }
        let labels = vec![("operators.operatorframework.io.index.configs.v1".into(), "/configs".into())];
        let image =
            self.registry.push("catalog:latest", root.path(), &["configs"], &Config { labels, ..Config::default() });
        let folder = self.cluster.path(&format!("catalog-{}", image.rsplit(':').next().unwrap_or_default()));
        pull(&image, &folder).unwrap_or_else(|why| panic!("the catalog image cannot be pulled: {why}"));
        let configs = folder.join("configs");
        said(Command::new(tool("opm")).arg("validate").arg(&configs));
        let (_, port) = self.catalog.rsplit_once(':').expect("a port");
        let log = self.cluster.path("opm.log").display().to_string();
        let args = ["serve", &configs.display().to_string(), "-p", port, "--pprof-addr", "", "--termination-log", &log]
            .map(str::to_owned);
        {
            let mut server = self.server.lock().expect("the server");
            drop(server.take());
            *server = Some(Process::start("opm", &tool("opm"), &args, &[], &self.cluster.path("opm.log")));
        }
        let spec = json!({ "sourceType": "grpc", "address": self.catalog, "displayName": "OneAgent Operator",
            "publisher": "rig" });
        self.cluster.apply(
            &json!({ "apiVersion": "operators.coreos.com/v1alpha1", "kind": "CatalogSource",
            "metadata": { "name": "oneagent", "namespace": CATALOGS }, "spec": spec })
            .to_string(),
        );
        eventually("the CatalogSource is READY", PATIENCE, || async {
            let source = self.get("CatalogSource", CATALOGS, "oneagent").await;
            let state = source.as_ref().map(|s| s["status"]["connectionState"]["lastObservedState"].clone());
            if state == Some("READY".into()) { Ok(()) } else { Err(format!("{state:?}")) }
        })
        .await;
    }
}

/// A listed release as it is kept in the repository: its images are named by tag, and no registry has them.
#[must_use]
pub fn kept(package: &Package, version: &str) -> Released {
    let release = releases().of(&publisher(), version);
    let files = read(&repository(&Released::folder(package.name, version)));
    let image = release.bundle_image(&publisher(), package);
    Released { release, files, image }
}

/// The release list.
#[must_use]
pub fn releases() -> Releases {
    files::list(&repository("")).unwrap_or_else(|why| panic!("{why}"))
}

/// The publisher.
#[must_use]
pub fn publisher() -> Publisher {
    files::publisher(&repository("")).unwrap_or_else(|why| panic!("{why}"))
}

/// The operator of a release, built from its commit; once.
#[must_use]
pub fn binary_of(release: &Release) -> PathBuf {
    static BUILDING: Mutex<()> = Mutex::new(());
    let _one = BUILDING.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let target = operator::binary().ancestors().nth(2).expect("a target folder").to_owned();
    let folder = target.join("releases").join(&release.commit);
    let done = folder.join("debug/oneagent-operator");
    if done.is_file() {
        return done;
    }
    eprintln!("building release {} from commit {}", release.version, release.commit);
    let source = folder.join("source");
    std::fs::create_dir_all(&source).expect("a folder");
    let archive = folder.join("source.tar");
    let git = Command::new("git")
        .arg("-C")
        .arg(repository(""))
        .args(["archive", "-o"])
        .arg(&archive)
        .arg(&release.commit)
        .output()
        .expect("git");
    assert!(
        git.status.success(),
        "commit {} of release {} is not in this clone: {}; get the whole history with `git fetch --unshallow`",
        release.commit,
        release.version,
        String::from_utf8_lossy(&git.stderr)
    );
    said(Command::new("tar").arg("-xf").arg(&archive).arg("-C").arg(&source));
    // Dependencies are those of the present code for the most part, and built already; so as the present code has them.
    said(
        Command::new("cargo")
            .args([
                "--config",
                "profile.dev.package.\"*\".opt-level=1",
                "--config",
                "profile.dev.package.\"*\".debug=false",
                "build",
                "--quiet",
                "--locked",
                "--package",
                "oneagent-operator",
                "--bin",
                "oneagent-operator",
                "--target-dir",
            ])
            .arg(&folder)
            .current_dir(&source)
            .env("CARGO_BUILD_BUILD_DIR", &target),
    );
    done
}
