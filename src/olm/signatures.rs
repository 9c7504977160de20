//! How a cluster checks the signatures of our images: for OpenShift, for sigstore's policy-controller, for Kyverno.
//!
//! Made once there is a public key. Pure. Must not claim an image that is not ours: a policy refuses what has no
//! signature.

use base64::Engine as _;
use serde_json::{Value, json};

use super::manifests::{Error, File, PRODUCT, yaml};
use super::publisher::Publisher;
use super::release::{FLAVOUR, bundle_name};
use crate::api::package::Package;

/// The public key, below the repository.
pub const KEY: &str = "catalog/cosign.pub";

/// The policies of a package.
pub fn signatures(package: &Package, publisher: &Publisher, key: &str) -> Result<Vec<File>, Error> {
    let names = [
        package.name.to_owned(),
        bundle_name(package, ""),
        bundle_name(package, FLAVOUR),
        format!("{PRODUCT}-catalog"),
        format!("{PRODUCT}-catalog-content"),
    ];
    let images: Vec<String> = names.iter().map(|name| publisher.image(name)).collect();
    let file = |name: &str, about: &str, object: Value| -> Result<File, Error> {
        let text = yaml(&[object])?;
        let (head, rest) = text.split_once('\n').unwrap_or_default();
        let path = format!("config/{}/signatures/{name}.yaml", package.name);
        Ok(File { path, content: format!("{head}\n# {about}\n{rest}") })
    };
    let metadata = json!({ "name": package.name });
    let object = |version: &str, kind: &str, spec: Value| {
        let mut object = json!({ "apiVersion": version, "kind": kind, "metadata": metadata });
        object["spec"] = spec;
        object
    };
    let data = base64::engine::general_purpose::STANDARD.encode(key);
    let openshift = json!({ "scopes": images, "policy": {
        "rootOfTrust": { "policyType": "PublicKey", "publicKey": { "keyData": data } },
        // A mirror has the same digests under other names.
        "signedIdentity": { "matchPolicy": "MatchRepoDigestOrExact" } } });
    let globs: Vec<Value> = images.iter().map(|image| json!({ "glob": format!("{image}*") })).collect();
    let controller = json!({ "images": globs,
        "authorities": [{ "name": PRODUCT, "key": { "data": key, "hashAlgorithm": "sha256" } }] });
    let references: Vec<String> = images.iter().map(|image| format!("{image}*")).collect();
    let attestor =
        json!({ "keys": { "publicKeys": key, "rekor": { "ignoreTlog": true }, "ctlog": { "ignoreSCT": true } } });
    let kyverno = json!({ "background": false, "webhookConfiguration": { "failurePolicy": "Fail" }, "rules": [{
        "name": "signed", "match": { "any": [{ "resources": { "kinds": ["Pod"] } }] },
        "verifyImages": [{ "imageReferences": references, "mutateDigest": false, "failureAction": "Enforce",
            "attestors": [{ "entries": [attestor] }] }] }] });
    Ok(vec![
        file(
            "openshift",
            "For OpenShift 4.20 and newer. Applying it restarts the nodes one after the other.",
            object("config.openshift.io/v1", "ClusterImagePolicy", openshift),
        )?,
        file(
            "policy-controller",
            "For sigstore's policy-controller, in namespaces that it is enabled for.",
            object("policy.sigstore.dev/v1beta1", "ClusterImagePolicy", controller),
        )?,
        file("kyverno", "For Kyverno.", object("kyverno.io/v1", "ClusterPolicy", kyverno))?,
    ])
}
