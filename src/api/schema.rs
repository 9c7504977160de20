//! Makes a derived CRD fit for a cluster: what kube's derive leaves open is settled here, once, for all kinds.
//!
//! Must not change what a field means: only formats the API server does not know, the descriptions of foreign
//! types (a book), and the defaults of a CRD born as v1beta1.

use serde_json::{Map, Value};

use super::package::Kind;

/// Fields whose type is Kubernetes' own: their descriptions are in Kubernetes' documentation.
const FOREIGN: &[&str] = &["tolerations", "resources", "env"];

/// The CRD of a kind as it is installed.
pub fn crd(kind: &Kind) -> Result<Value, serde_json::Error> {
    let mut crd = serde_json::to_value((kind.crd)())?;
    // A CRD that was born as v1beta1 keeps `true` unless told otherwise, and stores typos in silence.
    crd["spec"]["preserveUnknownFields"] = Value::Bool(false);
    if let Some(versions) = crd["spec"]["versions"].as_array_mut() {
        for version in versions {
            tidy(&mut version["schema"]["openAPIV3Schema"], false);
        }
    }
    Ok(crd)
}

fn tidy(schema: &mut Value, foreign: bool) {
    let Value::Object(map) = schema else { return };
    if map.get("format").and_then(Value::as_str).is_some_and(|f| f.starts_with("uint") || f == "double") {
        map.remove("format");
    }
    for bound in ["minimum", "maximum"] {
        whole(map, bound);
    }
    if foreign {
        map.remove("description");
    }
    if let Some(Value::Object(properties)) = map.get_mut("properties") {
        for (name, property) in properties.iter_mut() {
            let described = property.get("description").cloned();
            let outer = FOREIGN.contains(&name.as_str());
            tidy(property, foreign || outer);
            if outer
                && !foreign
                && let (Some(text), Value::Object(map)) = (described, property)
            {
                map.insert("description".into(), text);
            }
        }
    }
    for key in ["items", "additionalProperties"] {
        if let Some(inner) = map.get_mut(key) {
            tidy(inner, foreign);
        }
    }
}

/// `0.0` as `0`: what the API server gives back, so that a comparison finds no difference.
fn whole(map: &mut Map<String, Value>, bound: &str) {
    if let Some(number) = map.get(bound).and_then(Value::as_f64)
        && number.fract() == 0.0
    {
        map.insert(bound.into(), Value::from(number as i64));
    }
}

/// A number or a text, as `maxUnavailable` has it.
pub(super) fn int_or_string(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({ "x-kubernetes-int-or-string": true, "maxLength": 10 })
}

/// Whatever its owner puts there.
pub(super) fn any_object(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true })
}
