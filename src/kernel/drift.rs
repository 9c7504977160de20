//! Drift: whether a live object still is what we applied. Semantic: what the API server adds or writes another way
//! (defaults, `1.5Gi` as `1536Mi`) is no drift.
//!
//! Pure. Must not repair anything: it only says whether an apply is due.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
use serde_json::Value;

use super::ownership::take_over;

/// Annotation of an object of ours: hash of all that was applied, so that a removed field is noticed without a write.
pub const APPLIED_ANNOTATION: &str = "oneagent.dynatrace.com/applied";

/// Whether `live` is what `desired` asks for and nobody else owns a part of it.
#[must_use]
pub fn is_current(desired: &Value, live: &Value, managed: &[ManagedFieldsEntry]) -> bool {
    let api_version = desired["apiVersion"].as_str().unwrap_or_default();
    contains(live, desired, false) && take_over(managed, api_version, desired).is_none()
}

/// Whether `live` has every field of `desired` with the same meaning. Lists must match item by item.
fn contains(live: &Value, desired: &Value, quantities: bool) -> bool {
    match (desired, live) {
        (Value::Object(desired), Value::Object(live)) => desired.iter().all(|(key, wanted)| {
            let quantities = quantities || key == "limits" || key == "requests";
            live.get(key).map_or_else(|| is_empty(wanted), |found| contains(found, wanted, quantities))
        }),
        (Value::Array(desired), Value::Array(live)) => {
            desired.len() == live.len() && desired.iter().zip(live).all(|(wanted, found)| contains(found, wanted, quantities))
        }
        (Value::String(desired), Value::String(live)) if quantities && desired != live => match (quantity(desired), quantity(live)) {
            (Some(desired), Some(live)) => (desired - live).abs() <= desired.abs() * 1e-12,
            _ => false,
        },
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

/// A Kubernetes quantity as a number; `None` when it is none.
#[must_use]
pub fn quantity(text: &str) -> Option<f64> {
    let split = text.find(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | '+' | '-')));
    let (number, suffix) = match split {
        // 1e3, 1E3: an exponent; a bare E is exa.
        Some(at) if text[at..].starts_with(['e', 'E']) && text.len() > at + 1 => (text, ""),
        Some(at) => text.split_at(at),
        None => (text, ""),
    };
    let number: f64 = number.parse().ok().filter(|n: &f64| n.is_finite())?;
    let factor = match suffix {
        "" => 1.0,
        "n" => 1e-9,
        "u" => 1e-6,
        "m" => 1e-3,
        "k" => 1e3,
        "M" => 1e6,
        "G" => 1e9,
        "T" => 1e12,
        "P" => 1e15,
        "E" => 1e18,
        "Ki" => 1024.0,
        "Mi" => 1024.0_f64.powi(2),
        "Gi" => 1024.0_f64.powi(3),
        "Ti" => 1024.0_f64.powi(4),
        "Pi" => 1024.0_f64.powi(5),
        "Ei" => 1024.0_f64.powi(6),
        _ => return None,
    };
    Some(number * factor)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn defaults_and_other_spellings_are_no_drift() {
        let desired = json!({"spec": {"limits": {"memory": "1.5Gi", "cpu": "0.3"}, "env": [{"name": "A", "value": ""}], "hostIPC": false}});
        let live = json!({"spec": {"limits": {"memory": "1536Mi", "cpu": "300m"}, "env": [{"name": "A"}], "default": 1}});
        assert!(is_current(&desired, &live, &[]));
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
            assert!(!is_current(&desired, &live, &[]), "{live}");
        }
    }

    #[test]
    fn quantities_read_as_kubernetes_reads_them() {
        for (text, value) in
            [("1", 1.0), ("100m", 0.1), ("1Ki", 1024.0), ("1e3", 1000.0), ("1E", 1e18), ("2.5Gi", 2.5 * 1024.0 * 1024.0 * 1024.0), ("-1", -1.0)]
        {
            assert!((quantity(text).unwrap() - value).abs() < 1e-6, "{text}");
        }
        for text in ["", "x", "1x", "1.5.2", "Gi", "1 Gi", "inf", "NaN"] {
            assert_eq!(quantity(text), None, "{text}");
        }
    }
}
