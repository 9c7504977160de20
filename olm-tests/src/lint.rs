//! What no sentence of the operator may be, whatever the situation: Rust's debug form, a list without an entry, one
//! part twice, longer than an Event takes, or against the object's own counts.
//!
//! Held at the end of every lab, for all that was told. Must not know a situation.

use std::collections::HashSet;

use serde_json::Value;

/// Traces of Rust's debug forms.
const DEBUG: [&str; 8] = ["Some(", "None,", "Ok(", "Err(", "Status {", "ApiError", "ListMeta", "ServiceError"];
/// Traces of a list without an entry.
const EMPTY: [&str; 7] = [": ;", ": ,", "()", ", ,", "; ;", ": .", "[]"];
/// An Event's message is no longer.
const LONGEST: usize = 1_000;
/// Shorter parts may well be there twice.
const SENTENCE: usize = 30;

/// What is wrong with a sentence.
#[must_use]
pub fn faults(text: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let traces = DEBUG.iter().chain(&EMPTY).filter(|trace| text.contains(**trace));
    found.extend(traces.map(|trace| format!("{trace:?} in {text:?}")));
    if text.trim_end().ends_with([':', ';', ',']) || text.contains("  ") {
        found.push(format!("a gap in {text:?}"));
    }
    let mut parts = HashSet::new();
    let twice = text.split("; ").filter(|part| part.len() > SENTENCE).find(|part| !parts.insert(*part));
    found.extend(twice.map(|part| format!("{part:?} twice in {text:?}")));
    found
}

/// What is wrong with an Event's message.
#[must_use]
pub fn of_event(text: &str) -> Vec<String> {
    let mut found = faults(text);
    if text.len() >= LONGEST {
        found.push(format!("{} bytes: {text:?}", text.len()));
    }
    found
}

/// What is wrong with a status of either kind.
#[must_use]
pub fn of_status(status: &Value) -> Vec<String> {
    let texts = |of: &Value, key: Option<&str>| -> Vec<String> {
        let text = |value: &Value| key.map_or(value, |key| &value[key]).as_str().map(ToOwned::to_owned);
        of.as_array().into_iter().flatten().filter_map(text).collect()
    };
    let conditions = texts(&status["conditions"], Some("message"));
    let rollout = &status["rollout"];
    let others = [texts(&rollout["waitingOn"], None), texts(&rollout["history"], Some("message"))];
    let all = others.concat().into_iter().chain(conditions.clone());
    let mut found: Vec<String> = all.flat_map(|text| faults(&text)).collect();
    let nodes = &status["nodes"];
    let counted = format!("agents run on {} of {} selected nodes", nodes["running"], nodes["selected"]);
    let said = conditions.iter().find(|text| text.starts_with("agents run on "));
    found.extend(said.filter(|said| **said != counted).map(|said| format!("{said:?}, and {counted:?} is counted")));
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_wrong_with_a_sentence_is_found() {
        assert_eq!(faults("2 of at most 5 nodes are without an available agent"), Vec::<String>::new());
        for wrong in [
            "cannot list nodes: ApiError: forbidden",
            "Forbidden (Status { code: 403 })",
            "0 of 3 nodes run the desired agent; waiting: ",
            "nodes : , none",
            "no node is selected by any field at all; no node is selected by any field at all",
        ] {
            assert!(!faults(wrong).is_empty(), "{wrong}");
        }
        assert!(!of_event(&"a".repeat(1_000)).is_empty());
        let status = json!({ "conditions": [{ "message": "agents run on 2 of 3 selected nodes" }],
            "nodes": { "running": 1, "selected": 3 } });
        assert_eq!(of_status(&status).len(), 1);
    }
}
