//! Drift: whether a live object still is what we applied. Semantic: what the API server adds or writes another way
//! (defaults, `1.5Gi` as `1536Mi`) is no drift.
//!
//! Pure. Must not repair anything: it only says whether an apply is due.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
use serde_json::Value;

use super::ownership::{owns_more, take_over};
use super::quantity::quantity;

/// Annotation of an object of ours: hash of all that was applied, so that a removed field is noticed without a write.
pub const APPLIED_ANNOTATION: &str = "oneagent.dynatrace.com/applied";

/// Whether `live` is what `desired` asks for, no one else owns a part of it, and we own nothing that is not asked for.
#[must_use]
pub fn is_current(manager: &str, desired: &Value, live: &Value, entries: &[ManagedFieldsEntry]) -> bool {
    let api_version = desired["apiVersion"].as_str().unwrap_or_default();
    contains(live, desired, false)
        && take_over(manager, entries, api_version, desired).is_none()
        && !owns_more(manager, entries, desired)
}

/// Whether `live` has every field of `desired` with the same meaning. Lists must match item by item.
fn contains(live: &Value, desired: &Value, quantities: bool) -> bool {
    match (desired, live) {
        (Value::Object(desired), Value::Object(live)) => desired.iter().all(|(key, wanted)| {
            let quantities = quantities || key == "limits" || key == "requests";
            live.get(key).map_or_else(|| is_empty(wanted), |found| contains(found, wanted, quantities))
        }),
        (Value::Array(desired), Value::Array(live)) => {
            desired.len() == live.len()
                && desired.iter().zip(live).all(|(wanted, found)| contains(found, wanted, quantities))
        }
        (Value::String(desired), Value::String(live)) if quantities && desired != live => {
            match (quantity(desired), quantity(live)) {
                (Some(desired), Some(live)) => (desired - live).abs() <= desired.abs() * 1e-12,
                _ => false,
            }
        }
        _ => desired == live,
    }
}

/// What the API server leaves out when it is empty.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(value) => !value,
        Value::String(value) => value.is_empty(),
        Value::Array(value) => value.is_empty(),
        Value::Object(value) => value.values().all(is_empty),
        Value::Number(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn defaults_and_other_spellings_are_no_drift() {
        let desired = json!({"spec": {"limits": {"memory": "1.5Gi", "cpu": "0.3"}, "env": [{"name": "A", "value": ""}],
            "hostIPC": false}});
        let live =
            json!({"spec": {"limits": {"memory": "1536Mi", "cpu": "300m"}, "env": [{"name": "A"}], "default": 1}});
        assert!(is_current("us", &desired, &live, &[]));
    }

    /// The hand-over came, and the apply that should have removed it did not: a crash, or a conflict.
    #[test]
    fn what_was_taken_over_and_is_not_asked_for_is_drift() {
        let desired = json!({ "spec": { "strategy": { "type": "OnDelete" },
            "env": [{ "name": "A", "value": "1" }], "args": ["x"] } });
        let owned = |more: Value| {
            let mut fields = json!({ "f:spec": { "f:strategy": { "f:type": {} }, "f:args": {},
                "f:env": { "k:{\"name\":\"A\"}": { ".": {}, "f:name": {}, "f:value": {} } } } });
            for (key, value) in more.as_object().unwrap() {
                fields["f:spec"][key] = value.clone();
            }
            let entry = json!({ "manager": "us", "operation": "Apply", "fieldsType": "FieldsV1", "fieldsV1": fields });
            vec![serde_json::from_value::<ManagedFieldsEntry>(entry).unwrap()]
        };
        assert!(is_current("us", &desired, &desired, &owned(json!({}))));
        for more in [
            json!({ "f:strategy": { "f:type": {}, "f:rollingUpdate": { "f:maxSurge": {} } } }),
            json!({ "f:paused": {} }),
            json!({ "f:env": { "k:{\"name\":\"B\"}": { ".": {} } } }),
        ] {
            assert!(!is_current("us", &desired, &desired, &owned(more.clone())), "{more}");
        }
    }

    #[test]
    fn another_value_a_missing_one_and_an_extra_item_are() {
        let desired = json!({"env": [{"name": "A", "value": "1"}], "limits": {"cpu": "1"}});
        for live in [
            json!({"env": [{"name": "A", "value": "2"}], "limits": {"cpu": "1"}}),
            json!({"env": [], "limits": {"cpu": "1"}}),
            json!({"env": [{"name": "A", "value": "1"}, {"name": "B"}], "limits": {"cpu": "1"}}),
            json!({"env": [{"name": "A", "value": "1"}], "limits": {"cpu": "1001m"}}),
            json!({"env": [{"name": "A", "value": "1"}]}),
        ] {
            assert!(!is_current("us", &desired, &live, &[]), "{live}");
        }
    }
}
