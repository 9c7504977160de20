//! Descriptors: what the OpenShift console shows for each field. Made from the CRD's own schema, so that no field is
//! forgotten and no description is written twice; only the widgets are the package's.
//!
//! Pure. Must not describe a field that the CRD does not have: a test holds that.

use serde_json::{Value, json};

use crate::api::package::Texts;

/// Descriptors of a part (`spec` or `status`) of a CRD's first version: its fields, and the fields of small groups.
#[must_use]
pub fn descriptors(texts: &Texts, crd: &Value, part: &str) -> Vec<Value> {
    let schema = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"][part];
    let mut all = Vec::new();
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        all.push(descriptor(texts, part, name, field));
        let is_group = part == "spec" && texts.groups.contains(&name.as_str());
        for (inner, field) in field["properties"].as_object().into_iter().flatten().filter(|_| is_group) {
            all.push(descriptor(texts, part, &format!("{name}.{inner}"), field));
        }
    }
    all
}

fn descriptor(texts: &Texts, part: &str, path: &str, field: &Value) -> Value {
    let mut widgets: Vec<String> =
        texts.widgets.iter().filter(|(p, _)| *p == path).map(|(_, w)| format!("urn:alm:descriptor:{w}")).collect();
    let top = path.split('.').next().unwrap_or(path);
    if part == "spec" && !texts.plain.contains(&top) {
        widgets.push("urn:alm:descriptor:com.tectonic.ui:advanced".into());
    }
    let mut value = json!({ "path": path, "displayName": title(path.rsplit('.').next().unwrap_or(path)),
        "description": field["description"].as_str().unwrap_or_default() });
    if !widgets.is_empty() {
        value["x-descriptors"] = widgets.into();
    }
    value
}

/// `apiUrl` as `Api Url`.
fn title(name: &str) -> String {
    let mut text = String::new();
    let mut before_lower = false;
    for (at, letter) in name.chars().enumerate() {
        if at == 0 {
            text.extend(letter.to_uppercase());
        } else {
            if letter.is_uppercase() && before_lower {
                text.push(' ');
            }
            text.push(letter);
        }
        before_lower = letter.is_lowercase();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::oneagent::package::PACKAGE;
    use crate::api::schema;

    #[test]
    fn every_field_has_a_descriptor_with_a_description_and_no_widget_is_left_over() {
        let crd = schema::crd(&PACKAGE.kinds[0]).unwrap();
        let (spec, status) = (descriptors(&PACKAGE.texts, &crd, "spec"), descriptors(&PACKAGE.texts, &crd, "status"));
        for one in spec.iter().chain(&status) {
            assert!(one["description"].as_str().unwrap().len() > 5, "{one}");
        }
        for (path, _) in PACKAGE.texts.widgets {
            assert!(spec.iter().chain(&status).any(|d| d["path"] == *path), "{path}");
        }
        assert_eq!(title("trustedCAs"), "Trusted CAs");
    }
}
