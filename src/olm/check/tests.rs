//! Each rule of the check with a bundle that breaks it, and the generated one that breaks none.
//!
//! Real validators read the same files in the tests under OLM.

use super::*;
use crate::api::oneagent::package::PACKAGE;
use crate::olm::catalog;
use crate::olm::publisher::Publisher;
use crate::olm::release::{Release, Released};
use serde_json::json;

fn bundle() -> Vec<File> {
    catalog::bundle(
        &PACKAGE,
        &Publisher::of_repository(),
        &Release::new(&Publisher::of_repository(), "0.2.0", "2026-11-21", "abcdef0"),
        Some(&Release::new(&Publisher::of_repository(), "0.1.0", "2026-11-20", "abcdef0")),
    )
    .unwrap()
}

/// The generated files with one of them changed.
fn broken(path: &str, change: impl FnOnce(&mut Value)) -> Vec<String> {
    let inside =
        |file: File| Some(File { path: file.path.strip_prefix("bundle/oneagent-operator/")?.to_owned(), ..file });
    let released = Released {
        release: Release::new(&Publisher::of_repository(), "0.2.0", "2026-11-21", "abcdef0"),
        files: bundle().into_iter().filter_map(inside).collect(),
        image: String::new(),
    };
    let mut files = [bundle(), catalog::catalog(&PACKAGE, &[released], &[]).unwrap()].concat();
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

/// A CRD with one field `a`, beside a list and a map.
fn crd(field: Value) -> Value {
    let mut spec = json!({ "type": "object", "properties": {
        "l": { "type": "array", "items": { "type": "string" } },
        "m": { "type": "object", "additionalProperties": { "type": "string", "description": "One." } } } });
    spec["properties"]["a"] = field;
    json!({ "metadata": { "name": "x" }, "spec": { "scope": "Namespaced", "versions": [{ "name": "v1alpha1",
        "schema": { "openAPIV3Schema": { "type": "object", "properties": { "spec": spec } } } }] } })
}

const SPEC: &str = "/spec/versions/0/schema/openAPIV3Schema/properties/spec";

/// A CRD with something set in its spec's schema.
fn with(field: Value, path: &str, value: Value) -> Value {
    let mut crd = crd(field);
    let (parent, key) = path.rsplit_once('/').unwrap();
    crd.pointer_mut(&format!("{SPEC}{parent}")).unwrap()[key] = value;
    crd
}

#[test]
fn a_crd_may_grow_and_loosen() {
    let number = |bounds: Value| {
        let mut field = json!({ "type": "integer" });
        field.as_object_mut().unwrap().extend(bounds.as_object().unwrap().clone());
        crd(field)
    };
    let text = || json!({ "type": "string" });
    for (before, after) in [
        (crd(text()), with(text(), "/properties/b", json!({ "type": "string", "maxLength": 3 }))),
        (crd(text()), crd(json!({ "type": "string", "description": "Says more." }))),
        (number(json!({ "maximum": 5, "minimum": 3 })), number(json!({ "maximum": 6, "minimum": 2 }))),
        (number(json!({ "maximum": 5 })), number(json!({}))),
        (crd(json!({ "type": "string", "enum": ["x"] })), crd(json!({ "type": "string", "enum": ["x", "y"] }))),
        (with(text(), "/required", json!(["a"])), crd(text())),
    ] {
        assert_eq!(evolution(&before, &after), Vec::<String>::new(), "{before}\n{after}");
    }
}

#[test]
fn each_rule_about_the_evolution_of_a_crd_has_a_change_that_breaks_it() {
    let text = || json!({ "type": "string" });
    let field = |more: Value| {
        let mut field = text();
        field.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        field
    };
    let changed = |field: Value| (crd(text()), crd(field));
    let from = |old: Value, new: Value| (crd(field(old)), crd(field(new)));
    let mut gone = crd(text());
    gone.pointer_mut(&format!("{SPEC}/properties")).unwrap().as_object_mut().unwrap().remove("a");
    let mut other_scope = crd(text());
    other_scope["spec"]["scope"] = "Cluster".into();
    let mut no_version = crd(text());
    no_version["spec"]["versions"] = json!([]);
    for (words, (before, after)) in [
        ("version \"v1alpha1\" is gone", (crd(text()), no_version)),
        ("its scope changed", (crd(text()), other_scope)),
        (".spec.a: it is gone", (crd(text()), gone)),
        (".spec.a: its type", changed(json!({ "type": "integer" }))),
        (".spec.a: its default", changed(field(json!({ "default": "x" })))),
        (".spec.a: its default", from(json!({ "default": "x" }), json!({}))),
        (".spec.a: its enum is new", changed(field(json!({ "enum": ["x"] })))),
        (".spec.a: its enum", from(json!({ "enum": ["x", "y"] }), json!({ "enum": ["y"] }))),
        (".spec.a: its maxLength is new", changed(field(json!({ "maxLength": 3 })))),
        (".spec.a: its maximum", from(json!({ "maximum": 3 }), json!({ "maximum": 2 }))),
        (".spec.a: its minProperties is new", changed(field(json!({ "minProperties": 1 })))),
        (".spec.a: its minimum", from(json!({ "minimum": 3 }), json!({ "minimum": 4 }))),
        (".spec.a: its pattern", from(json!({ "pattern": "a" }), json!({}))),
        (".spec.a: its format", from(json!({ "format": "int32" }), json!({ "format": "int64" }))),
        (".spec.a: its nullable", changed(field(json!({ "nullable": true })))),
        (".spec.a: its nullable", from(json!({ "nullable": true }), json!({}))),
        (
            ".spec.a: its x-kubernetes-validations",
            from(json!({ "x-kubernetes-validations": [{ "rule": "true" }] }), json!({})),
        ),
        ("[\"a\"] is newly required", (crd(text()), with(text(), "/required", json!(["a"])))),
        (".spec.l[]: its maxLength", (crd(text()), with(text(), "/properties/l/items/maxLength", json!(3)))),
        (
            ".spec.l: its x-kubernetes-list-type",
            (crd(text()), with(text(), "/properties/l/x-kubernetes-list-type", "set".into())),
        ),
        (
            ".spec.m: its additionalProperties",
            (crd(text()), with(text(), "/properties/m/additionalProperties/description", "Two.".into())),
        ),
    ] {
        let said = evolution(&before, &after);
        assert!(said.iter().any(|s| s.contains(words)), "{words}: {said:?}");
    }
}

#[test]
fn the_history_is_that_of_every_crd_from_release_to_release() {
    let release = |version: &str, crds: &[&Value]| {
        (version.to_owned(), crds.iter().map(|crd| (*crd).clone()).collect::<Vec<_>>())
    };
    let (text, b) = (json!({ "type": "string" }), json!({ "type": "string" }));
    let (before, grown) = (crd(text.clone()), with(text, "/properties/b", b));
    assert_eq!(history(&[release("1", &[&before]), release("2", &[&grown])]), Vec::<String>::new());
    let said = history(&[release("1", &[&grown]), release("2", &[&before])]);
    assert!(said.len() == 1 && said[0].contains(".spec.b: it is gone (from 1 to 2)"), "{said:?}");
    assert!(history(&[release("1", &[&before]), release("2", &[])])[0].contains("is not in 2"));
}
