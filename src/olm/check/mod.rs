//! The rules that a bundle and a catalog must meet, by the number that our documents give them.
//!
//! Pure: files in, complaints out, each with its rule, file and remedy. Holds what validators of the field do not
//! notice, too. Must not repair anything.

#[cfg(test)]
mod tests;

use serde_json::{Value, json};

use super::catalog::OPENSHIFT;
use super::manifests::{File, documents};

/// Kinds that may stand beside the CSV and the CRDs.
const KINDS: &[&str] = &[
    "ClusterServiceVersion",
    "CustomResourceDefinition",
    "Service",
    "ClusterRole",
    "ServiceMonitor",
    "PrometheusRule",
    "ConfigMap",
];

/// Resources without a namespace that a right may be about.
const CLUSTER_SCOPED: &[&str] = &[
    "nodes",
    "namespaces",
    "customresourcedefinitions",
    "securitycontextconstraints",
    "schedulers",
    "proxies",
    "clusterversions",
];

/// Complaints about generated files; empty when all is well.
#[must_use]
pub fn check(files: &[File]) -> Vec<String> {
    let mut wrong = Vec::new();
    let looked_at = |file: &&File| file.path.starts_with("bundle/") || file.path.starts_with("catalog/");
    for file in files.iter().filter(looked_at) {
        let documents = documents(&file.content);
        let inside = file.path.strip_prefix("bundle/").and_then(|path| path.split_once('/')).map(|(_, inside)| inside);
        if let Some(name) = inside.and_then(|inside| {
            inside.strip_prefix("manifests/").or_else(|| inside.strip_prefix(OPENSHIFT)?.strip_prefix('/'))
        }) {
            manifest(name, &documents, &mut wrong);
        }
        if file.path.starts_with("catalog/") && !documents.is_empty() && documents[0].is_object() {
            catalog(&file.path, &documents, &mut wrong);
        }
        if inside == Some("metadata/dependencies.yaml") {
            wrong.push(format!("R10: {}: dependencies are refused by OLM v1; remove the file", file.path));
        }
    }
    wrong
}

fn manifest(name: &str, documents: &[Value], wrong: &mut Vec<String>) {
    if documents.len() != 1 || name.contains('/') || name.starts_with('.') {
        wrong.push(format!(
            "R1: {name}: one object a file, no folders, no hidden files; it has {} objects",
            documents.len()
        ));
    }
    for object in documents {
        let kind = object["kind"].as_str().unwrap_or_default();
        if !KINDS.contains(&kind) {
            let rule = if kind == "ServiceAccount" { "R3" } else { "R2" };
            wrong.push(format!(
                "{rule}: {name}: kind {kind} does not belong into a bundle; rights and ServiceAccounts come from the \
                CSV's permissions"
            ));
        }
        if kind == "ClusterServiceVersion" {
            csv(name, object, wrong);
        }
    }
}

fn csv(name: &str, csv: &Value, wrong: &mut Vec<String>) {
    let spec = &csv["spec"];
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let install = &spec["install"]["spec"];
    let scc = list(&install["clusterPermissions"])
        .iter()
        .flat_map(|p| list(&p["rules"]))
        .find(|rule| list(&rule["resources"]).contains(&"securitycontextconstraints".into()));
    if scc.is_some_and(|rule| list(&rule["resourceNames"]).len() != 1) {
        wrong.push(format!(
            "R4: {name}: the first rule on securitycontextconstraints must name exactly one of them in resourceNames"
        ));
    }
    let modes = list(&spec["installModes"]);
    if modes.len() != 4 || modes.iter().any(|mode| mode["supported"] != true) {
        wrong.push(format!("R5: {name}: installModes must list all four modes as supported"));
    }
    let cluster_wide = |rule: &Value| {
        list(&rule["resources"]).iter().all(|r| CLUSTER_SCOPED.contains(&r.as_str().unwrap_or_default()))
    };
    // The namespace of another installation's Lease is not known beforehand.
    let one_lease = |rule: &Value| {
        rule["resources"] == json!(["leases"])
            && rule["verbs"] == json!(["get"])
            && list(&rule["resourceNames"]).len() == 1
    };
    let cluster = list(&install["clusterPermissions"]);
    if cluster.iter().flat_map(|p| list(&p["rules"])).any(|rule| !cluster_wide(&rule) && !one_lease(&rule)) {
        wrong.push(format!(
            "R6: {name}: clusterPermissions hold a namespaced rule other than get of one Lease; it belongs into \
             permissions"
        ));
    }
    examples(name, csv, wrong);
    let annotations = &csv["metadata"]["annotations"];
    if annotations["createdAt"].as_str().is_none_or(|at| !at.ends_with("T00:00:00Z")) {
        wrong.push(format!(
            "R8: {name}: createdAt must be the release's day, for annotations are part of the Pod template"
        ));
    }
    let images: Vec<String> =
        list(&spec["relatedImages"]).iter().filter_map(|i| i["image"].as_str().map(str::to_owned)).collect();
    let containers: Vec<Value> =
        list(&install["deployments"]).iter().flat_map(|d| list(&d["spec"]["template"]["spec"]["containers"])).collect();
    let named = containers.iter().filter_map(|c| c["image"].as_str().map(str::to_owned));
    let env = containers
        .iter()
        .flat_map(|c| list(&c["env"]))
        .filter(|e| e["name"].as_str().is_some_and(|n| n.starts_with("RELATED_IMAGE_")))
        .filter_map(|e| e["value"].as_str().map(str::to_owned));
    for image in named.chain(env).filter(|image| !images.contains(image)) {
        wrong.push(format!("R9: {name}: image {image} is not in relatedImages, so a mirror would lack it"));
    }
    if annotations["features.operators.openshift.io/disconnected"] == "true"
        && images.iter().any(|image| !image.contains("@sha256:"))
    {
        wrong.push(format!("R9: {name}: disconnected is claimed, and an image is named by tag; name it by digest"));
    }
    if spec["customresourcedefinitions"].get("required").is_some() || spec.get("apiservicedefinitions").is_some() {
        wrong.push(format!("R10: {name}: required CRDs and APIServices are dependencies, which OLM v1 refuses"));
    }
    if containers.iter().flat_map(|c| list(&c["env"])).any(|e| e["name"] == "OPERATOR_CONDITION_NAME") {
        wrong.push(format!("R11: {name}: OPERATOR_CONDITION_NAME is OLM's to set; OLM v1 has none"));
    }
    if spec.get("release").is_some() {
        wrong.push(format!("R14: {name}: spec.release is not known to older OLM and opm; remove it"));
    }
}

fn examples(name: &str, csv: &Value, wrong: &mut Vec<String>) {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let text = csv["metadata"]["annotations"]["alm-examples"].as_str().unwrap_or_default();
    let examples: Vec<Value> = serde_json::from_str(text).unwrap_or_default();
    for owned in list(&csv["spec"]["customresourcedefinitions"]["owned"]) {
        let kind = owned["kind"].as_str().unwrap_or_default().to_owned();
        let of_kind: Vec<&Value> = examples.iter().filter(|e| e["kind"] == kind.as_str()).collect();
        if of_kind.is_empty()
            || list(&owned["resources"]).is_empty()
            || owned["description"].as_str().is_none_or(str::is_empty)
        {
            wrong.push(format!(
                "R7: {name}: {kind} needs an example in alm-examples, a description and a list of resources"
            ));
        }
        for key in of_kind.iter().filter_map(|e| e["spec"].as_object()).flat_map(|spec| spec.keys()) {
            if !list(&owned["specDescriptors"]).iter().any(|d| d["path"] == key.as_str()) {
                wrong.push(format!(
                    "R7: {name}: an example of {kind} has spec.{key}, for which there is no specDescriptor"
                ));
            }
        }
    }
}

fn catalog(path: &str, blobs: &[Value], wrong: &mut Vec<String>) {
    for property in blobs.iter().filter_map(|blob| blob["properties"].as_array()).flatten() {
        let kind = property["type"].as_str().unwrap_or_default();
        match kind {
            "olm.bundle.object" => {
                wrong.push(format!("R12: {path}: {kind} is refused by newer catalogs; use olm.csv.metadata"));
            }
            "olm.package.required" | "olm.gvk.required" | "olm.constraint" => {
                wrong.push(format!("R10: {path}: {kind} is a dependency, which OLM v1 refuses"));
            }
            _ => {}
        }
    }
}

/// R13 over the whole history: every CRD against the same of the release before, by version.
#[must_use]
pub fn history(releases: &[(String, Vec<Value>)]) -> Vec<String> {
    let mut wrong = Vec::new();
    for pair in releases.windows(2) {
        let [(old, before), (new, after)] = pair else { continue };
        for crd in before {
            let name = &crd["metadata"]["name"];
            match after.iter().find(|other| other["metadata"]["name"] == *name) {
                None => wrong.push(format!("R13: CRD {name} of {old} is not in {new}; objects of it may be stored")),
                Some(after) => {
                    wrong.extend(evolution(crd, after).into_iter().map(|what| format!("{what} (from {old} to {new})")));
                }
            }
        }
    }
    wrong
}

/// R13: how a CRD may not change between releases, by the published rules of crdify, with which OLM v1 looks at an
/// upgrade. It refuses what it has no rule for, and so do we. Returns complaints, by field.
#[must_use]
pub fn evolution(before: &Value, after: &Value) -> Vec<String> {
    let mut wrong = Vec::new();
    if before["spec"]["scope"] != after["spec"]["scope"] {
        wrong.push("R13: its scope changed; objects of the other scope would be lost".to_owned());
    }
    let versions = |crd: &Value| crd["spec"]["versions"].as_array().cloned().unwrap_or_default();
    for old in versions(before) {
        match versions(after).iter().find(|new| new["name"] == old["name"]) {
            None => wrong.push(format!("R13: version {} is gone; it may still be stored", old["name"])),
            Some(new) => narrowed(&old["schema"]["openAPIV3Schema"], &new["schema"]["openAPIV3Schema"], "", &mut wrong),
        }
    }
    wrong
}

/// Bounds that may grow, and bounds that may shrink; each may be dropped and none may come.
const UPPER: [&str; 4] = ["maximum", "maxLength", "maxItems", "maxProperties"];
const LOWER: [&str; 4] = ["minimum", "minLength", "minItems", "minProperties"];

fn narrowed(old: &Value, new: &Value, path: &str, wrong: &mut Vec<String>) {
    let keys =
        |schema: &Value| schema.as_object().into_iter().flatten().map(|(key, _)| key.clone()).collect::<Vec<_>>();
    let mut all = [keys(old), keys(new)].concat();
    all.sort();
    all.dedup();
    for key in all {
        let (was, is) = (&old[&key], &new[&key]);
        let number = |value: &Value| value.as_f64();
        let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
        let complaint = match key.as_str() {
            "properties" => {
                for (name, inner) in was.as_object().into_iter().flatten() {
                    let path = format!("{path}.{name}");
                    match is.get(name) {
                        None => wrong.push(format!("R13: {path}: it is gone")),
                        Some(new) => narrowed(inner, new, &path, wrong),
                    }
                }
                None
            }
            "items" if !was.is_null() && !is.is_null() => {
                narrowed(was, is, &format!("{path}[]"), wrong);
                None
            }
            // A text changes nothing; but additionalProperties are compared as a whole, texts included.
            "description" => None,
            "required" => {
                let new: Vec<Value> = list(is).into_iter().filter(|field| !list(was).contains(field)).collect();
                (!new.is_empty()).then(|| format!("{} is newly required", Value::from(new)))
            }
            "enum" => {
                let removed: Vec<Value> = list(was).into_iter().filter(|value| !list(is).contains(value)).collect();
                let came = was.is_null();
                (came || (!is.is_null() && !removed.is_empty()))
                    .then(|| format!("its enum is new or lost {}", Value::from(removed)))
            }
            bound if UPPER.contains(&bound) => {
                let tighter = number(was).is_none_or(|was| number(is).is_some_and(|is| is < was));
                tighter.then(|| format!("its {bound} is new or smaller"))
            }
            bound if LOWER.contains(&bound) => {
                let tighter = number(was).is_none_or(|was| number(is).is_some_and(|is| is > was));
                tighter.then(|| format!("its {bound} is new or larger"))
            }
            other => (was != is).then(|| format!("its {other} changed, came or went")),
        };
        wrong.extend(complaint.map(|what| format!("R13: {path}: {what}")));
    }
}
