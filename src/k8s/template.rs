//! How two Pod templates differ, in the words of the person who wrote one of them.
//!
//! Pure. Values are shown of images, numbers and switches alone: any other may be a secret. Must not say what follows.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::PodTemplateSpec;
use serde_json::Value;

/// So many differences are named.
const NAMED: usize = 8;

/// What differs, field by field; of labels and annotations whether they are ignored.
#[must_use]
pub fn differences(before: &PodTemplateSpec, after: &PodTemplateSpec, ignore: &[String]) -> Vec<String> {
    let (before, after) = (leaves(before), leaves(after));
    let mut found = Vec::new();
    for (path, new) in &after {
        match before.get(path) {
            None => found.push(format!("{path} is added")),
            Some(old) if old != new => found.push(format!("{path}{}", values(path, old, new))),
            Some(_) => {}
        }
    }
    found.extend(before.keys().filter(|path| !after.contains_key(*path)).map(|path| format!("{path} is removed")));
    for said in &mut found {
        let is_ignored = |key: &String| {
            let of = |what: &str| said.strip_prefix(what).and_then(|rest| rest.split(' ').next());
            of("annotation ").or_else(|| of("label ")) == Some(key)
        };
        if ignore.iter().any(is_ignored) {
            said.push_str(" (ignored)");
        }
    }
    let more = found.len().saturating_sub(NAMED);
    found.truncate(NAMED);
    if more > 0 {
        found.push(format!("{more} more fields"));
    }
    found
}

/// What is shown of two values.
fn values(path: &str, old: &Value, new: &Value) -> String {
    match (old, new) {
        (Value::String(old), Value::String(new)) if path.rsplit('.').next() == Some("image") => {
            let tags = old.rsplit_once(':').zip(new.rsplit_once(':'));
            // A digest says nothing to people, and a port is no tag.
            let tags = tags.filter(|(old, new)| old.0 == new.0 && !new.0.ends_with("sha256") && !new.1.contains('/'));
            tags.map_or_else(|| format!(" {old} → {new}"), |(old, new)| format!(" {} → {}", old.1, new.1))
        }
        (Value::Bool(_) | Value::Number(_), Value::Bool(_) | Value::Number(_)) => format!(" {old} → {new}"),
        _ => String::new(),
    }
}

/// Every field with its value.
fn leaves(template: &PodTemplateSpec) -> BTreeMap<String, Value> {
    let mut found = BTreeMap::new();
    let metadata = template.metadata.clone().unwrap_or_default();
    for (what, map) in [("label", metadata.labels), ("annotation", metadata.annotations)] {
        for (key, value) in map.into_iter().flatten() {
            found.insert(format!("{what} {key}"), Value::String(value));
        }
    }
    flatten("", &serde_json::to_value(&template.spec).unwrap_or_default(), &mut found);
    found
}

fn flatten(path: &str, value: &Value, found: &mut BTreeMap<String, Value>) {
    let name = |item: &Value| item.get("name").and_then(Value::as_str).map(str::to_owned);
    match value {
        // A variable is one thing, wherever its value comes from.
        _ if path.ends_with(']') && path.rsplit('.').next().is_some_and(|last| last.starts_with("env[")) => {
            found.insert(path.to_owned(), value.clone());
        }
        Value::Object(fields) if !fields.is_empty() => {
            for (key, value) in fields {
                let dot = if path.is_empty() { "" } else { "." };
                flatten(&format!("{path}{dot}{key}"), value, found);
            }
        }
        Value::Array(items) if items.first().and_then(name).is_some() => {
            for (index, item) in items.iter().enumerate() {
                let name = name(item).unwrap_or_else(|| index.to_string());
                flatten(&format!("{path}[{name}]"), item, found);
            }
        }
        _ => {
            found.insert(path.to_owned(), value.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn template(spec: &Value, annotations: &Value) -> PodTemplateSpec {
        serde_json::from_value(json!({ "metadata": { "annotations": annotations }, "spec": spec })).unwrap()
    }

    #[test]
    fn a_difference_is_named_and_only_what_cannot_be_a_secret_is_shown() {
        let agent = |image: &str, password: &str, port: i32| {
            json!({ "hostNetwork": port == 2, "containers": [{ "name": "agent", "image": image,
                "args": ["--password", password], "env": [{ "name": "PASSWORD", "value": password }],
                "ports": [{ "containerPort": port }],
                "resources": { "limits": { "memory": format!("{port}Gi") } } }] })
        };
        let before = template(&agent("r.example:5000/a:7.60.0", "old", 1), &json!({ "checksum/install_info": "1" }));
        let after = template(&agent("r.example:5000/a:7.61.1", "new", 2), &json!({ "checksum/install_info": "2" }));
        let said = differences(&before, &after, &["checksum/install_info".to_owned()]);
        assert_eq!(
            said,
            [
                "annotation checksum/install_info (ignored)",
                "containers[agent].args",
                "containers[agent].env[PASSWORD]",
                "containers[agent].image 7.60.0 → 7.61.1",
                "containers[agent].ports",
                "containers[agent].resources.limits.memory",
                "hostNetwork false → true",
            ]
        );
        assert!(differences(&after, &after, &[]).is_empty());
        let moved = template(&agent("other.example/a:7.61.1", "new", 2), &Value::Null);
        let said = differences(&after, &moved, &[]).join("; ");
        assert!(said.contains("image r.example:5000/a:7.61.1 → other.example/a:7.61.1"), "{said}");
        assert!(said.contains("annotation checksum/install_info is removed"), "{said}");
    }
}
