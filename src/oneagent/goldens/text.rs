//! Texts of scripts and logs: versions without their dates, and merge patches.
//!
//! Must not know a world.

use serde_json::{Value, json};

use crate::api::name::Version;

/// A version as scripts have it.
pub(super) fn full(version: &str) -> String {
    version.parse::<Version>().map_or_else(|_| version.to_owned(), |version| version.to_string())
}

/// A version without its date.
pub(super) fn short(version: &str) -> String {
    version.split('.').take(3).collect::<Vec<_>>().join(".")
}

/// A sentence, with its versions without their dates.
pub(super) fn shortened(text: &str) -> String {
    text.split(' ')
        .map(|word| if word.matches('.').count() >= 3 { without_date(word) } else { word.to_owned() })
        .collect::<Vec<_>>()
        .join(" ")
}

fn without_date(word: &str) -> String {
    let parts: Vec<&str> = word.splitn(4, '.').collect();
    let is_version = parts[..3].iter().all(|part| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()));
    let date: String = parts[3].chars().take_while(|c| c.is_ascii_digit() || *c == '-').collect();
    if is_version { format!("{}{}", parts[..3].join("."), &parts[3][date.len()..]) } else { word.to_owned() }
}

/// A merge patch.
pub(super) fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(fields) = patch else {
        if !patch.is_null() {
            *target = patch.clone();
        }
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    for (name, value) in fields {
        if value.is_null() {
            target.as_object_mut().map(|target| target.remove(name));
        } else {
            merge(&mut target[name], value);
        }
    }
}
