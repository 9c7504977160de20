//! Descriptors: what the OpenShift console shows for each field. Made from the CRD's own schema, so that no field is
//! forgotten and no description is written twice; only the widgets are chosen here.
//!
//! Pure. Must not describe a field that the CRD does not have: a test holds that.

use serde_json::{Value, json};

/// Widgets by path; every other field is plain text or edited as YAML.
const WIDGETS: &[(&str, &str)] = &[
    ("apiUrl", "com.tectonic.ui:text"),
    ("tokens", "io.kubernetes:Secret"),
    ("skipCertCheck", "com.tectonic.ui:booleanSwitch"),
    ("enableIstio", "com.tectonic.ui:booleanSwitch"),
    ("proxy.valueFrom", "io.kubernetes:Secret"),
    ("trustedCAs", "io.kubernetes:ConfigMap"),
    ("useImmutableImage", "com.tectonic.ui:booleanSwitch"),
    ("waitReadySeconds", "com.tectonic.ui:number"),
    ("resources", "com.tectonic.ui:resourceRequirements"),
    ("customPullSecret", "io.kubernetes:Secret"),
    ("webhookInjection", "com.tectonic.ui:booleanSwitch"),
    ("disableAgentUpdate", "com.tectonic.ui:booleanSwitch"),
    ("serviceAccountName", "io.kubernetes:ServiceAccount"),
    ("useUnprivilegedMode", "com.tectonic.ui:booleanSwitch"),
    ("update.allowDowngrade", "com.tectonic.ui:booleanSwitch"),
    ("rollout.minReadySeconds", "com.tectonic.ui:number"),
    ("rollout.paused", "com.tectonic.ui:booleanSwitch"),
    ("conditions", "io.kubernetes.conditions"),
    ("phase", "io.kubernetes.phase"),
];

/// Fields that the form shows at once; the others are behind "advanced".
const PLAIN: &[&str] = &["apiUrl", "tokens", "nodeSelector", "tolerations", "update", "rollout"];

/// Descriptors of a part (`spec` or `status`) of a CRD's first version: its fields, and the fields of small groups.
#[must_use]
pub fn descriptors(crd: &Value, part: &str) -> Vec<Value> {
    let schema = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"][part];
    let mut all = Vec::new();
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        all.push(descriptor(part, name, field));
        let is_group = part == "spec" && ["proxy", "update", "rollout"].contains(&name.as_str());
        for (inner, field) in field["properties"].as_object().into_iter().flatten().filter(|_| is_group) {
            all.push(descriptor(part, &format!("{name}.{inner}"), field));
        }
    }
    all
}

fn descriptor(part: &str, path: &str, field: &Value) -> Value {
    let mut widgets: Vec<String> = WIDGETS.iter().filter(|(p, _)| *p == path).map(|(_, w)| format!("urn:alm:descriptor:{w}")).collect();
    let top = path.split('.').next().unwrap_or(path);
    if part == "spec" && !PLAIN.contains(&top) {
        widgets.push("urn:alm:descriptor:com.tectonic.ui:advanced".into());
    }
    let mut value = json!({ "path": path, "displayName": title(path.rsplit('.').next().unwrap_or(path)), "description": field["description"].as_str().unwrap_or_default() });
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
    use crate::api::{KINDS, schema};

    #[test]
    fn every_field_has_a_descriptor_with_a_description_and_no_widget_is_left_over() {
        let crd = schema::crd(&KINDS[0]).unwrap();
        let (spec, status) = (descriptors(&crd, "spec"), descriptors(&crd, "status"));
        for one in spec.iter().chain(&status) {
            assert!(one["description"].as_str().unwrap().len() > 5, "{one}");
        }
        for (path, _) in WIDGETS {
            assert!(spec.iter().chain(&status).any(|d| d["path"] == *path), "{path}");
        }
        assert_eq!(title("trustedCAs"), "Trusted CAs");
    }
}
