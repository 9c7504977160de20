//! What the API server would refuse of an object in a file: by the CRD's own schema and rules, without a cluster.
//!
//! The structural part of a schema is read here; its CEL rules by kube. Must not know a kind.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::core::cel::{ErrorKind, Validator};
use regex::Regex;
use serde_json::Value;

use crate::api::nearest::nearest;
use crate::k8s::names::is_object_name;

/// Why the API server would refuse an object, each with its field; none: it would not.
pub(super) fn refusals(crd: &CustomResourceDefinition, object: &Value) -> Vec<String> {
    let (group, versions) = (&crd.spec.group, crd.spec.versions.iter().filter(|version| version.served));
    let written = object["apiVersion"].as_str().unwrap_or_default();
    let (mut served, mut schema) = (Vec::new(), None);
    for version in versions {
        let name = format!("{group}/{}", version.name);
        if name == written {
            schema = version.schema.as_ref().and_then(|schema| schema.open_api_v3_schema.as_ref());
        }
        served.push(name);
    }
    let Some(schema) = schema.and_then(|schema| serde_json::to_value(schema).ok()) else {
        return vec![format!("apiVersion is {written:?}; use {}", served.join(" or "))];
    };
    let spec = without_nulls(&object["spec"]);
    let mut wrong = Vec::new();
    compare(&schema["properties"]["spec"], &spec, "spec", &mut wrong);
    // Rules expect values of the types that the schema names.
    if wrong.is_empty()
        && let Err(errors) = Validator::new().validate(&schema["properties"]["spec"], &spec, None)
    {
        // kube's CEL cannot evaluate every rule, such as one with `type`: that is no verdict, and the operator's own
        // reading of the spec refuses what is wrong there.
        let refused = errors.into_vec().into_iter().filter(|error| error.kind == ErrorKind::ValidationFailure);
        wrong.extend(refused.map(|error| format!("spec.{}: {}", error.field_path, error.message)));
    }
    wrong.extend(unnamed(&object["metadata"]));
    wrong
}

/// Why the API server would store no object of such metadata.
fn unnamed(metadata: &Value) -> Option<String> {
    let such = "use lower-case letters, digits, dashes and dots";
    match (&metadata["name"], &metadata["generateName"]) {
        (Value::Null, Value::String(_)) => None,
        (Value::Null, _) => Some("metadata.name is missing".to_owned()),
        (Value::String(name), _) if is_object_name(name) => None,
        (name, _) => Some(format!("metadata.name is {name}, which is no name of an object: {such}")),
    }
}

/// What is null counts as absent.
fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let there = fields.iter().filter(|(_, value)| !value.is_null());
            there.map(|(key, value)| (key.clone(), without_nulls(value))).collect()
        }
        Value::Array(items) => items.iter().map(without_nulls).collect(),
        other => other.clone(),
    }
}

fn compare(schema: &Value, value: &Value, path: &str, wrong: &mut Vec<String>) {
    let either = schema["x-kubernetes-int-or-string"] == true;
    let expected = if either { "integer or string" } else { schema["type"].as_str().unwrap_or_default() };
    let fits = match expected {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "integer or string" => value.is_i64() || value.is_u64() || value.is_string(),
        _ => true,
    };
    if !fits {
        wrong.push(format!("{path} is {value}; its type is {expected}"));
        return;
    }
    if let Some(allowed) = schema["enum"].as_array()
        && !allowed.contains(value)
    {
        let names: Vec<&str> = allowed.iter().filter_map(Value::as_str).collect();
        let meant = nearest(value.as_str().unwrap_or_default(), &names);
        wrong.push(format!("{path} is {value}; use one of {}{meant}", names.join(", ")));
    }
    match value {
        Value::Object(fields) => object(schema, fields, path, wrong),
        Value::Array(items) => {
            bounded(schema, ("minItems", "maxItems"), items.len(), "items", path, wrong);
            for (number, item) in items.iter().enumerate() {
                compare(&schema["items"], item, &format!("{path}[{number}]"), wrong);
            }
        }
        Value::String(text) => {
            bounded(schema, ("minLength", "maxLength"), text.chars().count(), "characters", path, wrong);
            let pattern = schema["pattern"].as_str();
            if let Some(pattern) = pattern.filter(|pattern| Regex::new(pattern).is_ok_and(|like| !like.is_match(text)))
            {
                wrong.push(format!("{path} is {value}; it must match {pattern}"));
            }
            if schema["format"] == "date-time" && chrono::DateTime::parse_from_rfc3339(text).is_err() {
                wrong.push(format!("{path} is {value}; it must be a time such as 2026-01-31T22:00:00Z"));
            }
        }
        Value::Number(number) => {
            let at = |key: &str, none: f64| schema[key].as_f64().unwrap_or(none);
            let (least, most) = (at("minimum", f64::NEG_INFINITY), at("maximum", f64::INFINITY));
            if number.as_f64().is_some_and(|number| number < least || most < number) {
                wrong.push(format!("{path} is {value}; it must be from {least} to {most}"));
            }
        }
        _ => {}
    }
}

fn object(schema: &Value, fields: &serde_json::Map<String, Value>, path: &str, wrong: &mut Vec<String>) {
    let properties = schema["properties"].as_object();
    let names: Vec<&str> = properties.into_iter().flatten().map(|(name, _)| name.as_str()).collect();
    for (key, value) in fields {
        let path = format!("{path}.{key}");
        match (properties.and_then(|known| known.get(key)), &schema["additionalProperties"]) {
            (Some(known), _) | (None, known @ Value::Object(_)) => compare(known, value, &path, wrong),
            (None, Value::Bool(true)) => {}
            (None, _) if schema["x-kubernetes-preserve-unknown-fields"] == true => {}
            (None, _) => wrong.push(format!("unknown field {path}{}", nearest(key, &names))),
        }
    }
    let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
    wrong.extend(required.filter(|key| !fields.contains_key(*key)).map(|key| format!("{path}.{key} is missing")));
}

fn bounded(schema: &Value, (least, most): (&str, &str), count: usize, what: &str, path: &str, wrong: &mut Vec<String>) {
    let bound = |key: &str| schema[key].as_u64();
    let count = count as u64;
    if let Some(least) = bound(least).filter(|least| count < *least) {
        wrong.push(format!("{path} has {count} {what}; it needs at least {least}"));
    }
    if let Some(most) = bound(most).filter(|most| count > *most) {
        wrong.push(format!("{path} has {count} {what}; at most {most} are allowed"));
    }
}

#[cfg(test)]
mod tests {
    use kube::CustomResourceExt;
    use serde::Deserialize;

    use super::*;
    use crate::api::config_watcher::ConfigWatcher;
    use crate::api::oneagent::OneAgent;

    fn said(spec: &str) -> Vec<String> {
        let text = format!("apiVersion: dynatrace.com/v1alpha1\nkind: OneAgent\nmetadata: {{name: a}}\nspec: {spec}");
        refusals(&OneAgent::crd(), &serde_yaml::from_str(&text).unwrap())
    }

    #[test]
    fn each_refusal_names_its_field_and_what_may_have_been_meant() {
        for (spec, words) in [
            ("{apiUrl: x, nodeSelctor: {a: b}}", "unknown field spec.nodeSelctor; the nearest name is nodeSelector"),
            ("{apiUrl: x, env: [{name: A, valu: b}]}", "unknown field spec.env[0].valu; the nearest name is value"),
            (
                "{apiUrl: x, rollout: {maxUnavailable: [1]}}",
                "spec.rollout.maxUnavailable is [1]; its type is integer or",
            ),
            ("{apiUrl: x, rollout: {canary: {soak: 30 seconds}}}", "spec.rollout.canary.soak: soak must be hours"),
            (
                "{apiUrl: x, rollout: {canary: {nodes: 1, selector: {a: b}}}}",
                "spec.rollout.canary: name either a number",
            ),
            ("{apiUrl: x, rollout: {onFailure: Rolback}}", "spec.rollout.onFailure is \"Rolback\"; use one of"),
            ("{apiUrl: x, rollout: {maxFailures: 0}}", "spec.rollout.maxFailures is 0; it must be from 1 to 10000"),
            (
                "{apiUrl: x, rollout: {windows: [{start: '25:00'}]}}",
                "spec.rollout.windows[0].start is \"25:00\"; it must",
            ),
            (
                "{apiUrl: x, rollout: {windows: [{start: '5:00', days: [Sunday]}]}}",
                "spec.rollout.windows[0].days[0] is",
            ),
            (
                "{apiUrl: x, rollout: {blackouts: [{from: today, to: 2026-01-02T00:00:00Z}]}}",
                "blackouts[0].from is \"today\"",
            ),
            ("{apiUrl: x, tolerations: {key: a}}", "spec.tolerations is {\"key\":\"a\"}; its type is array"),
        ] {
            let said = said(spec);
            assert!(said.iter().any(|said| said.contains(words)), "{spec}: {said:#?}");
        }
        let old = serde_json::json!({ "apiVersion": "dynatrace.com/v1beta1", "kind": "OneAgent", "spec": {} });
        assert_eq!(
            refusals(&OneAgent::crd(), &old),
            ["apiVersion is \"dynatrace.com/v1beta1\"; use dynatrace.com/v1alpha1"]
        );
    }

    #[test]
    fn an_object_needs_a_name_that_the_server_takes() {
        let said = |metadata: &str| {
            let head = format!("apiVersion: dynatrace.com/v1alpha1\nkind: OneAgent\nmetadata: {metadata}\n");
            let text = format!("{head}spec: {{apiUrl: https://a.example/api}}");
            refusals(&OneAgent::crd(), &serde_yaml::from_str(&text).unwrap()).join("; ")
        };
        for none in ["{}", "null", "{namespace: n}", "{name: null}"] {
            assert_eq!(said(none), "metadata.name is missing", "{none}");
        }
        for wrong in ["{name: My_Agent}", "{name: ''}", "{name: 3}"] {
            assert!(said(wrong).contains("which is no name of an object: use lower-case letters"), "{wrong}");
        }
        assert_eq!((said("{name: a.b-1}"), said("{generateName: a-}")), (String::new(), String::new()));
    }

    #[test]
    fn what_no_rule_can_say_here_the_operator_refuses() {
        for (rollout, words) in [
            ("maxUnavailable: 0", "maxUnavailable"),
            ("blackouts: [{from: 2026-01-02T00:00:00Z, to: 2026-01-01T00:00:00Z}]", "blackouts"),
        ] {
            let spec = format!("{{apiUrl: https://a.example/api, rollout: {{{rollout}}}}}");
            assert_eq!(said(&spec), [""; 0]);
            let text =
                format!("apiVersion: dynatrace.com/v1alpha1\nkind: OneAgent\nmetadata: {{name: a}}\nspec: {spec}");
            let agent: OneAgent = serde_yaml::from_str(&text).unwrap();
            let refused = crate::oneagent::resolve::resolve(&agent).unwrap_err();
            assert!(refused[0].0.contains(words), "{}", refused[0].0);
        }
    }

    #[test]
    fn what_is_empty_is_no_refusal_and_neither_is_a_sample() {
        let empty = "{apiUrl: x, rollout: {windows: [], canary: null}, nodeSelector: {}, tolerations: []}";
        assert_eq!(said(empty), [""; 0]);
        for (crd, package) in [
            (OneAgent::crd(), &crate::api::oneagent::package::PACKAGE),
            (ConfigWatcher::crd(), &crate::api::config_watcher::package::PACKAGE),
        ] {
            for sample in package.samples {
                for document in serde_yaml::Deserializer::from_str(sample.yaml) {
                    let value = Value::deserialize(document).unwrap();
                    if value["kind"] == package.kinds[0].name {
                        assert_eq!(refusals(&crd, &value), [""; 0], "{}", sample.file);
                    }
                }
            }
        }
    }
}
