//! What a component's programs read: where it is mounted, and how a container waits until it is there.
//!
//! Kubelets bring new content a moment late. So each content has an entry beside it whose name is its revision:
//! what is awaited are files that exist. Pure. Must not render anything.

use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::{Value, json};

use super::blueprint::{Blueprint, files_name, secret_name};
use super::leaves::certificates_name;

/// Names of the volumes.
const FILES: &str = "files";
const CERTIFICATES: &str = "certificates";

/// So many revisions of files are kept for Pods of earlier templates.
const REVISIONS: usize = 20;

/// The entry by which a server sees that it has the files of a revision.
#[must_use]
pub fn revision(revision: &str) -> String {
    format!("revision-{revision}")
}

/// The revisions that a ConfigMap has entries of, some at most.
pub fn revisions(map: &ConfigMap) -> Vec<String> {
    let keys = map.data.iter().flatten().filter_map(|(key, _)| key.strip_prefix("revision-"));
    keys.take(REVISIONS).map(str::to_owned).collect()
}

/// The same, of files that are confidential.
#[must_use]
pub fn secret_revision(revision: &str) -> String {
    format!("secret-revision-{revision}")
}

/// The volumes of all of it.
#[must_use]
pub fn volumes(blueprint: &Blueprint<'_>) -> Vec<Value> {
    let (table, row, component) = (blueprint.table, blueprint.row(), blueprint.component);
    let mut volumes = Vec::new();
    if !row.files.is_empty() {
        let name = files_name(row, &component.name);
        let mut sources = vec![json!({ "configMap": { "name": name } })];
        if !blueprint.files.secret.is_empty() {
            sources.push(json!({ "secret": { "name": secret_name(row, &component.name) } }));
        }
        volumes.push(json!({ "name": FILES, "projected": { "sources": sources } }));
    }
    if let Some(certificates) = table.certificates_of(row) {
        let own = json!({ "secret": { "name": certificates_name(&component.name) } });
        let all = json!({ "configMap": { "name": certificates.bundle } });
        volumes.push(json!({ "name": CERTIFICATES, "projected": { "sources": [own, all] } }));
    }
    volumes
}

/// Where each container finds them.
#[must_use]
pub fn mounts(blueprint: &Blueprint<'_>) -> Vec<Value> {
    let (table, row) = (blueprint.table, blueprint.row());
    let mount = |name: &str, path: &str| json!({ "name": name, "mountPath": path, "readOnly": true });
    let certificates = table.certificates_of(row);
    let files = (!row.files.is_empty()).then(|| mount(FILES, &table.files_path));
    files.into_iter().chain(certificates.map(|of| mount(CERTIFICATES, &of.path))).collect()
}

/// Files that must be there before a program starts: those of this server, and those that say that they are the newest.
/// When they become others, so does the template.
#[must_use]
pub fn awaits(blueprint: &Blueprint<'_>) -> String {
    let (table, row, files) = (blueprint.table, blueprint.row(), blueprint.files);
    let mut all = Vec::new();
    if !row.files.is_empty() {
        all.push(format!("{}/{}", table.files_path, revision(&files.revision)));
        if !files.secret.is_empty() {
            all.push(format!("{}/{}", table.files_path, secret_revision(&files.revision)));
        }
        all.extend(row.files.keys().map(|name| format!("{}/{name}.$(POD_IP)", table.files_path)));
    }
    if let Some((of, marks)) = table.certificates.as_ref().zip(blueprint.marks) {
        all.push(format!("{}/{}", of.path, marks.issued));
        all.push(format!("{}/{}", of.path, marks.trusts));
        all.push(format!("{}/server-$(POD_IP).crt", of.path));
    }
    all.join(" ")
}
