//! A merge patch, carried out here: what an edit makes of an object is planned, or played, before anything is sent.
//!
//! Pure. Must not send it.

use serde_json::{Value, json};

/// Merges a patch into an object, as the API server does (RFC 7386); one that is null changes nothing.
pub fn merged(into: &mut Value, patch: &Value) {
    let Value::Object(fields) = patch else {
        if !patch.is_null() {
            *into = patch.clone();
        }
        return;
    };
    if !into.is_object() {
        *into = json!({});
    }
    for (key, value) in fields {
        if value.is_null() {
            into.as_object_mut().map(|object| object.remove(key));
        } else {
            merged(&mut into[key], value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_patch_is_merged_as_the_api_server_does() {
        let mut object = json!({ "spec": { "rollout": { "paused": true, "retry": "a" }, "apiUrl": "u" } });
        merged(&mut object, &json!({ "spec": { "rollout": { "paused": null }, "update": { "version": "v" } } }));
        let expected = json!({ "apiUrl": "u", "rollout": { "retry": "a" }, "update": { "version": "v" } });
        assert_eq!(object["spec"], expected);
    }
}
