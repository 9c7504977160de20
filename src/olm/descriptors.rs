//! Descriptors: what the OpenShift console shows for each field, in the order of the package's own list. The
//! descriptions are the CRD's, so that none is written twice.
//!
//! Pure. Must not describe a field that the CRD does not have, nor forget one: tests hold both, and that the console's
//! own rules leave nothing out of the form that we believe to be in it.

use serde_json::{Value, json};

use crate::api::package::Shown;

/// Descriptors of a part (`spec` or `status`) of a CRD's first version.
#[must_use]
pub fn descriptors(shown: &[Shown], crd: &Value, part: &str) -> Vec<Value> {
    let schema = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"][part];
    shown.iter().map(|shown| descriptor(shown, &field(schema, shown.path)["description"])).collect()
}

/// The schema of a field, by its path.
fn field<'s>(schema: &'s Value, path: &str) -> &'s Value {
    path.split('.').fold(schema, |schema, name| &schema["properties"][name])
}

fn descriptor(shown: &Shown, description: &Value) -> Value {
    let advanced = shown.advanced.then_some("com.tectonic.ui:advanced");
    let widgets: Vec<String> =
        shown.widgets.iter().copied().chain(advanced).map(|widget| format!("urn:alm:descriptor:{widget}")).collect();
    let description = description.as_str().unwrap_or_default();
    let mut value = json!({ "path": shown.path, "displayName": shown.title, "description": description });
    if !widgets.is_empty() {
        value["x-descriptors"] = widgets.into();
    }
    value
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::api::package::Package;
    use crate::api::{PACKAGES, schema};

    /// Widgets with which the console's form draws a field whatever its schema is; the others only read.
    const DRAWN: [&str; 5] = ["text", "number", "booleanSwitch", "resourceRequirements", "nodeAffinity"];

    fn parts(package: &Package) -> (Value, Value) {
        let crd = schema::crd(&package.kinds[0]).unwrap();
        let properties = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"];
        (properties["spec"].clone(), properties["status"].clone())
    }

    /// Whether the console's form leaves a field out, by its published rule (`hasNoFields`): an object is as good as
    /// its properties, so that a map has none; a list is as good as its items; what has no type needs a widget.
    fn is_left_out(form: &[Shown], path: &str, schema: &Value) -> bool {
        let has_widget = form.iter().filter(|shown| shown.path == path).flat_map(|shown| shown.widgets).any(|widget| {
            widget.starts_with("io.kubernetes:")
                || widget.starts_with("com.tectonic.ui:select:")
                || DRAWN.iter().any(|drawn| *widget == format!("com.tectonic.ui:{drawn}"))
        });
        if ["allOf", "anyOf", "oneOf"].iter().any(|key| schema.get(key).is_some()) {
            return true;
        }
        match schema["type"].as_str() {
            Some("array") => !has_widget && is_left_out(form, &format!("{path}[]"), &schema["items"]),
            Some("object") => {
                !has_widget
                    && schema["properties"]
                        .as_object()
                        .into_iter()
                        .flatten()
                        .all(|(name, inner)| is_left_out(form, &format!("{path}.{name}"), inner))
            }
            Some(_) => false,
            None => !has_widget,
        }
    }

    #[test]
    fn every_field_of_the_spec_is_shown_under_a_title_that_a_person_would_write() {
        for package in PACKAGES {
            let (spec, status) = parts(package);
            let texts = &package.texts;
            let tops: BTreeSet<&str> = texts.form.iter().map(|shown| shown.path.split('.').next().unwrap()).collect();
            let fields: BTreeSet<&str> = spec["properties"].as_object().unwrap().keys().map(String::as_str).collect();
            assert_eq!(tops, fields);
            for (shown, schema) in
                texts.form.iter().map(|shown| (shown, &spec)).chain(texts.page.iter().map(|shown| (shown, &status)))
            {
                let field = field(schema, shown.path);
                assert!(field["description"].as_str().is_some_and(|text| text.len() > 5), "{}: {field}", shown.path);
                let words: Vec<&str> = shown.title.split(' ').collect();
                assert!(shown.title.starts_with(|c: char| c.is_uppercase()), "{}", shown.title);
                assert!(!words.iter().any(|word| ["Api", "Url", "Id", "Cas"].contains(word)), "{}", shown.title);
            }
            let mut titles: Vec<&str> = texts.form.iter().map(|shown| shown.title).collect();
            titles.sort_unstable();
            let all = titles.len();
            titles.dedup();
            assert_eq!(titles.len(), all, "two fields have one title");
        }
    }

    #[test]
    fn the_form_has_every_field_but_the_maps_and_nothing_is_advanced_within_advanced() {
        for package in PACKAGES {
            let (spec, _) = parts(package);
            let form = package.texts.form;
            let left_out: Vec<&str> = form
                .iter()
                .filter(|shown| is_left_out(form, shown.path, field(&spec, shown.path)))
                .map(|shown| shown.path)
                .collect();
            // The console has no widget for a map: these are for its YAML view, and their page shows them.
            let maps = form.iter().filter(|shown| field(&spec, shown.path).get("additionalProperties").is_some());
            assert_eq!(left_out, maps.map(|shown| shown.path).collect::<Vec<_>>());
            for outer in form.iter().filter(|shown| shown.advanced) {
                let inside = format!("{}.", outer.path);
                let hidden = form.iter().find(|shown| shown.advanced && shown.path.starts_with(&inside));
                assert!(hidden.is_none(), "{hidden:?}");
            }
            // What is behind "advanced" comes last, and a group's fields follow it.
            let tops: Vec<&Shown> = form.iter().filter(|shown| !shown.path.contains('.')).collect();
            let first = tops.iter().position(|shown| shown.advanced).unwrap_or(tops.len());
            assert!(tops[first..].iter().all(|shown| shown.advanced), "{tops:?}");
        }
    }

    #[test]
    fn the_page_of_an_object_shows_values_and_no_object_that_the_console_would_drop() {
        for package in PACKAGES {
            let (_, status) = parts(package);
            for shown in package.texts.page {
                let kind = field(&status, shown.path)["type"].as_str().unwrap_or_default().to_owned();
                let drawn = shown.widgets.contains(&"io.kubernetes.conditions");
                assert!(drawn || ["string", "integer", "boolean"].contains(&kind.as_str()), "{}: {kind}", shown.path);
            }
        }
    }

    #[test]
    fn a_form_that_breaks_the_rules_is_noticed() {
        let number = json!({ "x-kubernetes-int-or-string": true });
        let with = |widgets| [Shown { path: "a", title: "A", widgets, advanced: false }];
        assert!(is_left_out(&with(&[]), "a", &number));
        assert!(!is_left_out(&with(&["com.tectonic.ui:select:5%"]), "a", &number));
        assert!(is_left_out(&with(&["com.tectonic.ui:selector:core:v1:Node"]), "a", &json!({ "type": "object" })));
        assert!(is_left_out(&with(&[]), "a", &json!({ "type": "array", "items": { "type": "object" } })));
        assert!(!is_left_out(&with(&[]), "a", &json!({ "type": "array", "items": { "type": "string" } })));
        assert!(is_left_out(&with(&[]), "a", &json!({ "anyOf": [], "type": "string" })));
    }
}
