//! Ownership hand-over: what server-side apply alone does not do.
//!
//! A forced apply over an object that another client wrote leaves that client's extra fields in place. So before
//! applying, the fields that others own in what is ours are handed to our manager (`metadata.managedFields` is data
//! like any other), and the apply that follows removes what we do not want. Pure; must not send anything.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{FieldsV1, ManagedFieldsEntry};
use serde_json::{Map, Value};

/// Whether an entry is the one that our own applies make.
fn is_ours(manager: &str, entry: &ManagedFieldsEntry) -> bool {
    entry.manager.as_deref() == Some(manager)
        && entry.operation.as_deref() == Some("Apply")
        && entry.subresource.is_none()
}

/// Whether we have ever applied this object.
#[must_use]
pub fn is_adopted(manager: &str, entries: &[ManagedFieldsEntry]) -> bool {
    entries.iter().any(|entry| is_ours(manager, entry))
}

/// Whether an annotation is as our last apply wrote it. A client that changes its value takes it from us.
#[must_use]
pub fn owns_annotation(manager: &str, entries: &[ManagedFieldsEntry], key: &str) -> bool {
    let field = format!("f:{key}");
    let fields = entries.iter().filter(|entry| is_ours(manager, entry)).filter_map(|entry| entry.fields_v1.as_ref());
    fields.map(|fields| &fields.0["f:metadata"]["f:annotations"]).any(|all| all.get(&field).is_some())
}

/// The managed fields after the hand-over; `None` when no one else owns anything that is ours.
///
/// On adoption all but the subresources is taken; later only spec, owner references, and the labels and annotations
/// that `ours` itself has: tools may put their own labels on our objects.
#[must_use]
pub fn take_over(
    manager: &str,
    entries: &[ManagedFieldsEntry],
    api_version: &str,
    ours: &Value,
) -> Option<Vec<ManagedFieldsEntry>> {
    let adopting = !is_adopted(manager, entries);
    let mut kept = Vec::new();
    let mut mine = Map::new();
    let mut taken = false;
    for entry in entries {
        let Some(FieldsV1(Value::Object(fields))) = &entry.fields_v1 else {
            kept.push(entry.clone());
            continue;
        };
        if is_ours(manager, entry) {
            merge(&mut mine, fields.clone());
            continue;
        }
        if entry.subresource.is_some() {
            kept.push(entry.clone());
            continue;
        }
        let (take, leave) = split(fields, adopting, ours);
        taken |= !take.is_empty();
        merge(&mut mine, take);
        if !leave.is_empty() {
            kept.push(ManagedFieldsEntry { fields_v1: Some(FieldsV1(Value::Object(leave))), ..entry.clone() });
        }
    }
    if !taken {
        return None;
    }
    kept.push(ManagedFieldsEntry {
        manager: Some(manager.to_owned()),
        operation: Some("Apply".to_owned()),
        api_version: Some(api_version.to_owned()),
        fields_type: Some("FieldsV1".to_owned()),
        fields_v1: Some(FieldsV1(Value::Object(mine))),
        subresource: None,
        time: None,
    });
    Some(kept)
}

/// Whether our manager owns a field that `ours` does not have: a hand-over whose apply never came left it, and only an
/// apply removes it.
#[must_use]
pub fn owns_more(manager: &str, entries: &[ManagedFieldsEntry], ours: &Value) -> bool {
    let entries = entries.iter().filter(|entry| is_ours(manager, entry));
    entries.filter_map(|entry| entry.fields_v1.as_ref()).any(|fields| !has_all(ours, &fields.0))
}

/// Whether `value` has every field of a field set.
fn has_all(value: &Value, fields: &Value) -> bool {
    let Value::Object(fields) = fields else { return true };
    fields.iter().all(|(key, inner)| match key.split_once(':') {
        Some(("f", name)) => value.get(name).is_some_and(|value| has_all(value, inner)),
        Some(("k", key)) => item(value, key).is_some_and(|item| has_all(item, inner)),
        // Items of sets and of lists by number: their list is there, and `contains` compares what is in it.
        _ => true,
    })
}

/// The item of a list that has these keys. A key that an item leaves out has its default.
fn item<'v>(list: &'v Value, keys: &str) -> Option<&'v Value> {
    let keys: Map<String, Value> = serde_json::from_str(keys).ok()?;
    let is_it = |item: &&Value| keys.iter().all(|(key, wanted)| item.get(key).is_none_or(|value| value == wanted));
    list.as_array()?.iter().find(is_it)
}

fn split(fields: &Map<String, Value>, adopting: bool, ours: &Value) -> (Map<String, Value>, Map<String, Value>) {
    let (mut take, mut leave) = (Map::new(), Map::new());
    for (key, value) in fields {
        match key.as_str() {
            "f:spec" => drop(take.insert(key.clone(), value.clone())),
            "f:metadata" => {
                let (ours, theirs) = split_metadata(value, adopting, ours);
                for (target, map) in [(&mut take, ours), (&mut leave, theirs)] {
                    if !map.is_empty() {
                        target.insert(key.clone(), Value::Object(map));
                    }
                }
            }
            _ => drop(leave.insert(key.clone(), value.clone())),
        }
    }
    (take, leave)
}

fn split_metadata(metadata: &Value, adopting: bool, ours: &Value) -> (Map<String, Value>, Map<String, Value>) {
    let (mut take, mut leave) = (Map::new(), Map::new());
    let Value::Object(fields) = metadata else { return (take, leave) };
    for (key, value) in fields {
        let name = key.trim_start_matches("f:");
        match (name, value) {
            ("ownerReferences", _) => drop(take.insert(key.clone(), value.clone())),
            ("labels" | "annotations", Value::Object(entries)) => {
                let is_mine = |entry: &str| {
                    let entry = entry.trim_start_matches("f:");
                    adopting || ours["metadata"][name].get(entry).is_some()
                };
                let (mine, theirs): (Map<_, _>, Map<_, _>) =
                    entries.clone().into_iter().partition(|(entry, _)| is_mine(entry));
                if !mine.is_empty() {
                    take.insert(key.clone(), Value::Object(mine));
                }
                if theirs.keys().any(|entry| entry != ".") {
                    leave.insert(key.clone(), Value::Object(theirs));
                }
            }
            _ => drop(leave.insert(key.clone(), value.clone())),
        }
    }
    (take, leave)
}

/// The union of two field sets.
fn merge(into: &mut Map<String, Value>, from: Map<String, Value>) {
    for (key, value) in from {
        match (into.get_mut(&key), value) {
            (Some(Value::Object(there)), Value::Object(here)) => merge(there, here),
            (None, value) => drop(into.insert(key, value)),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MANAGER: &str = "us";
    use serde_json::json;

    fn entry(manager: &str, operation: &str, subresource: Option<&str>, fields: Value) -> ManagedFieldsEntry {
        ManagedFieldsEntry {
            manager: Some(manager.into()),
            operation: Some(operation.into()),
            subresource: subresource.map(str::to_owned),
            fields_v1: Some(FieldsV1(fields)),
            ..ManagedFieldsEntry::default()
        }
    }

    #[test]
    fn adoption_takes_all_that_others_wrote_and_leaves_the_controllers_status() {
        let before = [
            entry(
                "dynatrace-oneagent-operator",
                "Update",
                None,
                json!({"f:metadata": {"f:labels": {".": {}, "f:x": {}}}, "f:spec": {"f:a": {}}}),
            ),
            entry("kubectl", "Update", None, json!({"f:spec": {"f:b": {}}})),
            entry("kube-controller-manager", "Update", Some("status"), json!({"f:status": {"f:n": {}}})),
        ];
        let after = take_over(MANAGER, &before, "apps/v1", &json!({})).unwrap();
        assert_eq!(after.len(), 2);
        assert_eq!(after[0].manager.as_deref(), Some("kube-controller-manager"));
        assert_eq!(
            after[1].fields_v1.clone().unwrap().0,
            json!({"f:metadata": {"f:labels": {".": {}, "f:x": {}}}, "f:spec": {"f:a": {}, "f:b": {}}})
        );
        assert_eq!(take_over(MANAGER, &after, "apps/v1", &json!({})), None, "a second look finds nothing");
    }

    #[test]
    fn later_a_tools_own_label_stays_the_tools() {
        let ours = json!({"metadata": {"labels": {"oneagent": "a"}}});
        let before = [
            entry(MANAGER, "Apply", None, json!({"f:spec": {"f:a": {}}})),
            entry("argocd", "Update", None, json!({"f:metadata": {"f:labels": {"f:argo": {}}}})),
        ];
        assert_eq!(take_over(MANAGER, &before, "apps/v1", &ours), None);
        let before = [
            before[0].clone(),
            entry("kubectl", "Update", None, json!({"f:metadata": {"f:labels": {"f:argo": {}, "f:oneagent": {}}}})),
        ];
        let after = take_over(MANAGER, &before, "apps/v1", &ours).unwrap();
        assert_eq!(after[0].fields_v1.clone().unwrap().0, json!({"f:metadata": {"f:labels": {"f:argo": {}}}}));
        assert_eq!(
            after[1].fields_v1.clone().unwrap().0,
            json!({"f:metadata": {"f:labels": {"f:oneagent": {}}}, "f:spec": {"f:a": {}}})
        );
    }
}
