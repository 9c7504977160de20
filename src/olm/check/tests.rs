//! Each rule of the check with a bundle that breaks it, and the generated one that breaks none.
//!
//! Real validators read the same files in the tests under OLM.

use super::*;
use crate::api::oneagent::package::PACKAGE;
use crate::olm::catalog;
use crate::olm::release::{Release, Released};
use serde_json::json;

fn bundle() -> Vec<File> {
    catalog::bundle(
        &PACKAGE,
        &Release::new("0.2.0", "2026-11-21", "abcdef0"),
        Some(&Release::new("0.1.0", "2026-11-20", "abcdef0")),
    )
    .unwrap()
}

/// The generated files with one of them changed.
fn broken(path: &str, change: impl FnOnce(&mut Value)) -> Vec<String> {
    let inside =
        |file: File| Some(File { path: file.path.strip_prefix("bundle/oneagent-operator/")?.to_owned(), ..file });
    let released = Released {
        release: Release::new("0.2.0", "2026-11-21", "abcdef0"),
        files: bundle().into_iter().filter_map(inside).collect(),
        image: String::new(),
    };
    let mut files = [bundle(), catalog::catalog(&PACKAGE, &[released]).unwrap()].concat();
    let file = files.iter_mut().find(|f| f.path.ends_with(path)).unwrap();
    let mut documents = documents(&file.content);
    change(documents.last_mut().unwrap());
    file.content = documents.iter().fold(String::new(), |text, d| format!("{text}---\n{d}\n"));
    check(&files)
}

#[test]
fn what_is_generated_meets_every_rule() {
    assert_eq!(broken("clusterserviceversion.yaml", |_| {}), Vec::<String>::new());
}

type Change = Box<dyn FnOnce(&mut Value)>;

#[test]
fn each_rule_has_a_bundle_that_breaks_it_and_is_named() {
    const CSV: &str = "clusterserviceversion.yaml";
    let install = |csv: &mut Value, path: &str, value: Value| {
        *csv.pointer_mut(&format!("/spec/install/spec/{path}")).unwrap() = value;
    };
    let cases: Vec<(&str, &str, Change)> = vec![
        ("R2", "oneagents.yaml", Box::new(|crd| crd["kind"] = "NetworkPolicy".into())),
        ("R3", "oneagents.yaml", Box::new(|crd| crd["kind"] = "ServiceAccount".into())),
        (
            "R4",
            CSV,
            Box::new(move |csv| {
                install(csv, "clusterPermissions/1/rules/0/resourceNames", json!(["privileged", "anyuid"]));
            }),
        ),
        ("R5", CSV, Box::new(|csv| csv["spec"]["installModes"][3]["supported"] = false.into())),
        ("R6", CSV, Box::new(move |csv| install(csv, "clusterPermissions/0/rules/0/resources", json!(["secrets"])))),
        (
            "R7",
            CSV,
            Box::new(|csv| csv["spec"]["customresourcedefinitions"]["owned"][0]["specDescriptors"] = json!([])),
        ),
        ("R8", CSV, Box::new(|csv| csv["metadata"]["annotations"]["createdAt"] = "2026-11-21T11:12:13Z".into())),
        ("R9", CSV, Box::new(|csv| csv["spec"]["relatedImages"] = json!([]))),
        (
            "R9",
            CSV,
            Box::new(|csv| {
                csv["metadata"]["annotations"]["features.operators.openshift.io/disconnected"] = "true".into();
            }),
        ),
        ("R10", CSV, Box::new(|csv| csv["spec"]["customresourcedefinitions"]["required"] = json!([]))),
        ("R10", "catalog.yaml", Box::new(|blob| blob["properties"][0]["type"] = "olm.gvk.required".into())),
        (
            "R11",
            CSV,
            Box::new(move |csv| {
                install(
                    csv,
                    "deployments/0/spec/template/spec/containers/0/env/0/name",
                    "OPERATOR_CONDITION_NAME".into(),
                );
            }),
        ),
        ("R12", "catalog.yaml", Box::new(|blob| blob["properties"][0]["type"] = "olm.bundle.object".into())),
        ("R14", CSV, Box::new(|csv| csv["spec"]["release"] = 1.into())),
    ];
    for (rule, path, change) in cases {
        let said = broken(path, change);
        assert!(said.iter().any(|s| s.starts_with(&format!("{rule}:"))), "{rule}: {said:?}");
    }
    let mut two = bundle();
    let copy = format!("---\n{}", two[1].content);
    two[1].content.push_str(&copy);
    assert!(check(&two).iter().any(|s| s.starts_with("R1:")));
}

#[test]
fn a_crd_may_grow_and_not_narrow() {
    let schema = |spec: Value| {
        json!({ "spec": { "versions": [{ "name": "v1alpha1",
        "schema": { "openAPIV3Schema": { "type": "object", "properties": { "spec": spec } } } }] } })
    };
    let before = schema(json!({ "type": "object", "properties": { "a": { "type": "string" },
            "l": { "type": "array", "items": { "type": "string" } } } }));
    let grown = schema(json!({ "type": "object", "properties": { "a": { "type": "string" },
            "b": { "type": "string", "maxLength": 3 },
            "l": { "type": "array", "items": { "type": "string" } } } }));
    assert_eq!(evolution(&before, &grown), Vec::<String>::new());
    for (words, after) in [
        (
            ".spec.a: it is gone",
            schema(json!({ "type": "object", "properties": { "l": { "type": "array",
                    "items": { "type": "string" } } } })),
        ),
        (
            ".spec.a: its type",
            schema(json!({ "type": "object", "properties": { "a": { "type": "integer" },
                    "l": { "type": "array", "items": { "type": "string" } } } })),
        ),
        (
            ".spec.a: its default",
            schema(json!({ "type": "object", "properties": { "a": { "type": "string", "default": "x" },
                    "l": { "type": "array", "items": { "type": "string" } } } })),
        ),
        (
            ".spec.l[]: its maxLength",
            schema(json!({ "type": "object", "properties": { "a": { "type": "string" },
                    "l": { "type": "array", "items": { "type": "string", "maxLength": 3 } } } })),
        ),
        (
            "newly required",
            schema(json!({ "type": "object", "required": ["a"],
                    "properties": { "a": { "type": "string" },
                    "l": { "type": "array", "items": { "type": "string" } } } })),
        ),
        ("is gone", json!({ "spec": { "versions": [] } })),
    ] {
        let said = evolution(&before, &after);
        assert!(said.iter().any(|s| s.contains(words)), "{words}: {said:?}");
    }
    let release = |version: &str, crds: &[&Value]| {
        (version.to_owned(), crds.iter().map(|crd| (*crd).clone()).collect::<Vec<_>>())
    };
    assert_eq!(history(&[release("1", &[&before]), release("2", &[&grown])]), Vec::<String>::new());
    let said = history(&[release("1", &[&grown]), release("2", &[&before])]);
    assert!(said.len() == 1 && said[0].contains(".spec.b: it is gone (from 1 to 2)"), "{said:?}");
    assert!(history(&[release("1", &[&before]), release("2", &[])])[0].contains("is not in 2"));
}
