//! Submission: the pull requests by which the community's catalogs take a release.
//!
//! Two repositories, two flavours: OperatorHub.io installs on any Kubernetes and takes the plain bundle, OpenShift's
//! community catalog takes the one with monitoring, and adds it to its catalogs by a template. Their pipelines accept
//! one bundle of one operator for each pull request, and keep files of their own beside it: after the first release
//! only the version's folder is ours. Pure. Must not change a file of the bundle: what is submitted is what was
//! released.

use serde_json::{Value, json};

use super::catalog::OPENSHIFT;
use super::csv;
use super::manifests::{Error, File, yaml};
use super::release::{Release, Released};
use crate::api::package::Package;

/// The template from which OpenShift's catalogs are made.
const TEMPLATE: &str = "basic.yaml";

/// OpenShift's catalogs that receive a first release; later ones are added by the pipeline's promotion, which asks for
/// an approval. There is none of a release that is not out.
const CATALOGS: [&str; 7] = ["v4.17", "v4.18", "v4.19", "v4.20", "v4.21", "v4.22", "v5.0"];

/// What a maintainer reads before the pull request is made; not part of it.
pub const NOTES: &str = "PULL_REQUEST.md";

/// A repository of a community.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Repository {
    /// OperatorHub.io.
    Kubernetes,
    /// OpenShift's community catalog.
    OpenShift,
}

impl Repository {
    const ALL: [Self; 2] = [Self::Kubernetes, Self::OpenShift];

    fn name(self) -> &'static str {
        match self {
            Self::Kubernetes => "community-operators",
            Self::OpenShift => "community-operators-prod",
        }
    }

    fn address(self) -> &'static str {
        match self {
            Self::Kubernetes => "https://github.com/k8s-operatorhub/community-operators",
            Self::OpenShift => "https://github.com/redhat-openshift-ecosystem/community-operators-prod",
        }
    }

    /// The place of a bundle's file in it, below the version's folder.
    fn place(self, path: &str) -> Option<String> {
        let is_in_both = ["manifests/", "metadata/", "tests/"].iter().any(|folder| path.starts_with(folder));
        let more = path.strip_prefix(&format!("{OPENSHIFT}/"));
        match more {
            Some(name) if self == Self::OpenShift => Some(format!("manifests/{name}")),
            _ => is_in_both.then(|| path.to_owned()),
        }
    }
}

/// The pull requests of a released bundle after these published releases of its package, the oldest first: a folder
/// each, to be copied over a clone. `reviewers` are GitHub's names of those who may approve.
pub fn submission(
    package: &Package,
    bundle: &Released,
    older: &[&Release],
    reviewers: &[String],
) -> Result<Vec<File>, Error> {
    let mut all = Vec::new();
    for repository in Repository::ALL {
        let folder = format!("operators/{}", package.name);
        let request = request(repository, package, bundle, older, reviewers)?;
        let files = request.into_iter().map(|(path, content)| (format!("{folder}/{path}"), content));
        let files: Vec<(String, String)> = files.collect();
        let paths: Vec<&str> = files.iter().map(|(path, _)| path.as_str()).collect();
        if let Some(why) = refused(&paths, !older.is_empty()).first() {
            return Err(Error::Submission(repository.name(), why.clone()));
        }
        let notes = (NOTES.to_owned(), notes(repository, package, &bundle.release, older.is_empty()));
        let place = |(path, content)| File { path: format!("{}/{path}", repository.name()), content };
        all.extend(files.into_iter().chain([notes]).map(place));
    }
    Ok(all)
}

/// The files of one pull request, by their path below the operator's folder.
fn request(
    repository: Repository,
    package: &Package,
    bundle: &Released,
    older: &[&Release],
    reviewers: &[String],
) -> Result<Vec<(String, String)>, Error> {
    let release = &bundle.release;
    let version = &release.version;
    let within = |file: &File| Some((format!("{version}/{}", repository.place(&file.path)?), file.content.clone()));
    let mut files: Vec<(String, String)> = bundle.files.iter().filter_map(within).collect();
    if repository == Repository::OpenShift {
        files.push((format!("{version}/release-config.yaml"), yaml(&[config(package, release, older)])?));
    }
    if !older.is_empty() {
        return Ok(files);
    }
    let ci = match repository {
        // OperatorHub.io takes no file-based catalogs yet.
        Repository::Kubernetes => json!({ "updateGraph": "replaces-mode", "reviewers": reviewers }),
        Repository::OpenShift => json!({
            "reviewers": reviewers,
            "fbc": {
                "enabled": true,
                "version_promotion_strategy": "review-needed",
                "catalog_mapping": [{ "template_name": TEMPLATE, "type": "olm.template.basic",
                    "catalog_names": CATALOGS }],
            },
        }),
    };
    files.push(("ci.yaml".into(), yaml(&[ci])?));
    if repository == Repository::OpenShift {
        files.push((format!("catalog-templates/{TEMPLATE}"), yaml(&[template(package, release)])?));
    }
    Ok(files)
}

/// The template before the first release; the pipeline adds each release to it.
fn template(package: &Package, release: &Release) -> Value {
    let about = json!({ "schema": "olm.package", "name": package.name, "defaultChannel": release.channels().first(),
        "icon": csv::icon(), "description": package.texts.sentence });
    json!({ "schema": "olm.template.basic", "entries": [about] })
}

/// Where the pipeline puts the release: in each channel it replaces the one that came before it there.
fn config(package: &Package, release: &Release, older: &[&Release]) -> Value {
    let name = |version: &str| format!("{}.v{version}", package.name);
    let place = |channel: String| {
        let within = older.iter().filter(|other| other.is_in(&channel));
        let (skipped, kept): (Vec<&String>, Vec<&String>) =
            within.map(|other| &other.version).partition(|version| release.skips.contains(version));
        let skipped: Vec<String> = skipped.into_iter().map(|version| name(version)).collect();
        let mut place = json!({ "template_name": TEMPLATE, "channels": [channel],
            "skipRange": csv::skip_range(release) });
        if let Some(before) = kept.last() {
            place["replaces"] = name(before).into();
        }
        if !skipped.is_empty() {
            place["skips"] = skipped.into();
        }
        place
    };
    json!({ "catalog_templates": release.channels().into_iter().map(place).collect::<Vec<_>>() })
}

/// How the pull request is made, and what happens to it then.
fn notes(repository: Repository, package: &Package, release: &Release, is_first: bool) -> String {
    let (name, version, address) = (package.name, &release.version, repository.address());
    let then = match (repository, is_first) {
        (Repository::Kubernetes, true) => {
            "A reviewer of the community looks at a first submission; the checks say what is missing."
        }
        (Repository::Kubernetes, false) => "A reviewer named in `ci.yaml` approves; the checks then merge it.",
        (Repository::OpenShift, true) => {
            "A reviewer of the community looks at a first submission. Once it is merged, the pipeline releases the \
            bundle and opens a second pull request, which adds it to the catalogs: approve that. When a new OpenShift \
            comes out, approve the promotion to its catalog after you have run the operator there."
        }
        (Repository::OpenShift, false) => {
            "A reviewer named in `ci.yaml` approves. The pipeline then opens a second pull request, which adds the \
            bundle to the catalogs: approve that, too. Deprecations are an edit of `catalog-templates/basic.yaml`, in \
            a pull request of its own."
        }
    };
    format!(
        "# operator {name} ({version})\n\nThe heading is the title of the pull request. In a fork of {address}, cloned \
        beside this folder:\n\n```sh\n\
        git switch -c {name}-{version} origin/main\ncp -r ../{}/operators .\ngit add operators/{name}\n\
        git commit -s -m \"operator {name} ({version})\"      # -s: the pipeline refuses commits without a sign-off\n\
        git push --set-upstream origin {name}-{version}\n```\n\n{then}\n",
        repository.name()
    )
}

/// What the pipelines would refuse in a pull request: its files by their path in the repository, and whether the
/// operator is there already.
fn refused(paths: &[&str], is_there: bool) -> Vec<String> {
    let mut wrong = Vec::new();
    let parts: Vec<Vec<&str>> = paths.iter().map(|path| path.split('/').collect()).collect();
    let distinct = |mut all: Vec<&str>| {
        all.sort_unstable();
        all.dedup();
        all.join(", ")
    };
    let operators = distinct(parts.iter().filter_map(|part| part.get(1).copied()).collect());
    if operators.contains(", ") {
        wrong.push(format!("a pull request holds one operator, and this one {operators}"));
    }
    // A version's folder is one with manifests.
    let versions =
        distinct(parts.iter().filter(|part| part.get(3) == Some(&"manifests")).map(|part| part[2]).collect());
    if versions.is_empty() || versions.contains(", ") {
        wrong.push(format!("a pull request holds one bundle, and this one {versions:?}"));
    }
    let pipelines: Vec<&str> =
        paths.iter().filter(|path| path.split('/').nth(2) != Some(versions.as_str())).copied().collect();
    if is_there && !pipelines.is_empty() {
        wrong.push(format!("the pipeline keeps {}: catalogs would lose what it added there", pipelines.join(", ")));
    }
    wrong.extend(
        paths
            .iter()
            .filter(|path| !path.starts_with("operators/"))
            .map(|path| format!("a pull request changes nothing outside of operators/, and this one {path}")),
    );
    wrong
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::PACKAGES;
    use crate::olm::catalog;
    use crate::olm::publisher::Publisher;

    /// The paths of each pull request that a release makes after these.
    fn requests(package: &Package, older: &[&Release]) -> Vec<Vec<String>> {
        let publisher = Publisher::of_repository();
        let release = Release::new(&publisher, "0.4.0", "2026-11-21", "abcdef0");
        let inside = |file: File| {
            let path = file.path.strip_prefix(&format!("{}/", catalog::folder(package))).unwrap().to_owned();
            File { path, ..file }
        };
        let files = catalog::bundle(package, &publisher, &release, None).unwrap().into_iter().map(inside).collect();
        let bundle = Released { release, files, image: String::new() };
        let made = submission(package, &bundle, older, &["someone".into()]).unwrap();
        let of = |repository: Repository| -> Vec<String> {
            let prefix = format!("{}/", repository.name());
            let within = made.iter().filter_map(|file| file.path.strip_prefix(&prefix));
            within.filter(|path| *path != NOTES).map(str::to_owned).collect()
        };
        Repository::ALL.map(of).into()
    }

    #[test]
    fn each_pull_request_is_one_that_the_pipelines_take_first_and_later() {
        let publisher = Publisher::of_repository();
        let before = Release::new(&publisher, "0.3.0", "2026-11-20", "abcdef0");
        for package in PACKAGES {
            for older in [vec![], vec![&before]] {
                let all = requests(package, &older);
                for request in &all {
                    let paths: Vec<&str> = request.iter().map(String::as_str).collect();
                    assert_eq!(refused(&paths, !older.is_empty()), Vec::<String>::new());
                }
                let has = |end: &str| all.concat().iter().any(|path| path.ends_with(end));
                assert!(has("release-config.yaml") && has("prometheusrule.yaml") && !has("Containerfile"));
                assert_eq!((has("ci.yaml"), has("basic.yaml")), (older.is_empty(), older.is_empty()));
            }
        }
    }

    #[test]
    fn what_the_pipelines_refuse_is_seen() {
        let one = "operators/a/0.1.0/manifests/x.yaml";
        assert_eq!(refused(&[one], true), Vec::<String>::new());
        for (paths, is_there, words) in [
            (vec![one, "operators/b/0.1.0/manifests/x.yaml"], false, "one operator, and this one a, b"),
            (vec![one, "operators/a/0.2.0/manifests/x.yaml"], false, "one bundle, and this one \"0.1.0, 0.2.0\""),
            (vec!["operators/a/ci.yaml"], false, "one bundle, and this one \"\""),
            (vec![one, "operators/a/ci.yaml"], true, "the pipeline keeps operators/a/ci.yaml"),
            (
                vec![one, "operators/a/catalog-templates/basic.yaml"],
                true,
                "the pipeline keeps operators/a/catalog-templates",
            ),
            (vec![one, "README.md"], false, "nothing outside of operators/, and this one README.md"),
        ] {
            let said = refused(&paths, is_there).join("\n");
            assert!(said.contains(words), "{said}");
        }
    }
}
