//! Submission: the folders that the community's pipelines take a release from.
//!
//! Two repositories, two flavours: OperatorHub.io installs on any Kubernetes and takes the plain bundle, OpenShift's
//! community catalog takes the one with monitoring, and adds it to its catalogs by a template. Pure. Must not change a
//! file of the bundle: what is submitted is what was released.

use serde_json::{Value, json};

use super::catalog::{OPENSHIFT, OPENSHIFTS};
use super::csv;
use super::manifests::{Error, File, yaml};
use super::release::{CHANNELS, Release, Released};
use crate::api::package::Package;

/// The template from which OpenShift's catalogs are made.
const TEMPLATE: &str = "basic.yaml";

/// What is submitted of a released bundle after these published ones, the oldest first; `reviewers` are GitHub's names
/// of who may approve.
pub fn submission(
    package: &Package,
    bundle: &Released,
    older: &[&Release],
    reviewers: &[String],
) -> Result<Vec<File>, Error> {
    let release = &bundle.release;
    let mut files = Vec::new();
    let mut put = |repository: &str, path: String, content: String| {
        files.push(File { path: format!("{repository}/operators/{}/{path}", package.name), content });
    };
    let version = &release.version;
    for file in &bundle.files {
        let more = file.path.strip_prefix(&format!("{OPENSHIFT}/"));
        let is_in_both = ["manifests/", "metadata/", "tests/"].iter().any(|folder| file.path.starts_with(folder));
        if is_in_both {
            put("community-operators", format!("{version}/{}", file.path), file.content.clone());
            put("community-operators-prod", format!("{version}/{}", file.path), file.content.clone());
        } else if let Some(name) = more {
            put("community-operators-prod", format!("{version}/manifests/{name}"), file.content.clone());
        }
    }
    let kubernetes = json!({ "updateGraph": "replaces-mode", "reviewers": reviewers });
    put("community-operators", "ci.yaml".into(), yaml(&[kubernetes])?);
    let openshift = json!({
        "reviewers": reviewers,
        "fbc": {
            "enabled": true,
            "catalog_mapping": [{ "template_name": TEMPLATE, "type": "olm.template.basic",
                "catalog_names": OPENSHIFTS }],
        },
    });
    put("community-operators-prod", "ci.yaml".into(), yaml(&[openshift])?);
    put("community-operators-prod", format!("catalog-templates/{TEMPLATE}"), yaml(&[template(package, release)])?);
    put(
        "community-operators-prod",
        format!("{version}/release-config.yaml"),
        yaml(&[config(package, release, older)])?,
    );
    Ok(files)
}

/// The template before the first release; the pipeline adds each release to it, and it is not to be replaced later.
fn template(package: &Package, release: &Release) -> Value {
    let about = json!({ "schema": "olm.package", "name": package.name, "defaultChannel": channels(release).next(),
        "icon": csv::icon(), "description": package.texts.sentence });
    json!({ "schema": "olm.template.basic", "entries": [about] })
}

/// The channels of a release, the default one first.
fn channels(release: &Release) -> impl Iterator<Item = &'static str> {
    CHANNELS.into_iter().filter(|channel| release.is_in(channel))
}

/// Where the pipeline puts the release: in each channel it replaces the one that came before it there.
fn config(package: &Package, release: &Release, older: &[&Release]) -> Value {
    let name = |version: &str| format!("{}.v{version}", package.name);
    let place = |channel: &str| {
        let mut place = json!({ "template_name": TEMPLATE, "channels": [channel] });
        let within = older.iter().filter(|other| other.has(package) && other.is_in(channel));
        let (skipped, kept): (Vec<&String>, Vec<&String>) =
            within.map(|other| &other.version).partition(|version| release.skips.contains(version));
        if let Some(before) = kept.last() {
            place["replaces"] = name(before).into();
            place["skipRange"] = csv::skip_range(release).into();
        }
        let skipped: Vec<String> = skipped.into_iter().map(|version| name(version)).collect();
        if !skipped.is_empty() {
            place["skips"] = skipped.into();
        }
        place
    };
    json!({ "catalog_templates": channels(release).map(place).collect::<Vec<_>>() })
}
