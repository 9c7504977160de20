//! Selectors: labels, all of which a Pod must have, as users write them as a map.
//!
//! Pure. Every refusal names the field and the remedy.

use std::collections::BTreeMap;

use crate::k8s::names::{is_label_key, is_label_value};

/// Whether something with these labels is meant.
#[must_use]
pub fn selects(selector: &BTreeMap<String, String>, labels: &BTreeMap<String, String>) -> bool {
    selector.iter().all(|(key, value)| labels.get(key) == Some(value))
}

/// Checks a selector. What is wrong is added to `wrong`. `example`: a label that helps.
pub fn check(field: &str, selector: &BTreeMap<String, String>, example: &str, wrong: &mut Vec<String>) {
    if selector.is_empty() {
        wrong.push(format!("{field} is empty: name at least one label, such as {example}"));
    }
    for (key, value) in selector {
        if !is_label_key(key) || !is_label_value(value) {
            wrong.push(format!(
                "{field} has {key:?}: {value:?}, which no label can be: at most 63 letters, digits, dashes, dots and \
                underscores, letters or digits at both ends, the key perhaps with a domain and a slash before"
            ));
        }
    }
}
