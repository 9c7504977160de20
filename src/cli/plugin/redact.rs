//! Redaction: what others wrote (logs, Events, messages), without what may be secret in it; and without names, where
//! that is asked for.
//!
//! Values that stand where people put secrets (environment, arguments, proxy, labels, annotations) are removed wherever
//! they are found, as they are, in base64 and URL-encoded; so is what looks like a credential. Must not read anything.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use base64::Engine;
use base64::prelude::{BASE64_STANDARD, BASE64_STANDARD_NO_PAD, BASE64_URL_SAFE_NO_PAD};
use regex::{Captures, Regex};
use serde_json::Value;

const GONE: &str = "[redacted]";
/// Labels and annotations that the operator, Kubernetes and its tools write: their values are versions, hashes, names.
const OURS: &[&str] = &[
    "oneagent.dynatrace.com/",
    "oneagent-operator.github.io/",
    "app.kubernetes.io/",
    "kubernetes.io/",
    "helm.sh/",
    "meta.helm.sh/",
    "deprecated.daemonset.template.generation",
];
/// Shorter values are words that stand everywhere.
const SHORTEST: usize = 6;

/// A setting whose name says that its value is one.
const SETTING: &str = concat!(
    r"(?i)((?:token|password|passwd|secret|apikey|api_key|authorization)",
    r#"[a-z_-]*["']?\s*[:=]\s*["']?)[^\s"',;&}]+"#
);

/// What looks like a credential, and what is left of it.
const LOOKS: &[(&str, &str)] = &[
    (r"dt0[a-z][0-9]{2}\.[A-Za-z0-9]+(\.[A-Za-z0-9]+)?", GONE),
    (r"eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*", GONE),
    (r"(?s)-----BEGIN [A-Z ]+-----.*?-----END [A-Z ]+-----", GONE),
    (r"(?i)\b(bearer|basic|api-token)\s+[A-Za-z0-9+/=._~-]{6,}", "$1 [redacted]"),
    (SETTING, "$1[redacted]"),
    (r"://[^/\s@]+@", "://[redacted]@"),
];

static PATTERNS: LazyLock<Vec<(Regex, &str)>> =
    LazyLock::new(|| LOOKS.iter().filter_map(|(pattern, left)| Some((Regex::new(pattern).ok()?, *left))).collect());
static NAME: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?").ok());

/// What is removed.
#[derive(Debug, Default)]
pub(super) struct Redactor {
    /// Values, and as what they may be written.
    values: BTreeSet<String>,
    /// Names, and what takes their place.
    names: BTreeMap<String, String>,
}

impl Redactor {
    /// Removes this value from now on.
    fn learn(&mut self, value: &str) {
        let value = value.trim();
        if value.len() < SHORTEST {
            return;
        }
        let encoded: String = url::form_urlencoded::byte_serialize(value.as_bytes()).collect();
        let percent = encoded.replace('+', "%20");
        let line = format!("{value}\n");
        // As a text in JSON has it.
        let escaped = serde_json::to_string(value).unwrap_or_default().trim_matches('"').to_owned();
        let forms = [
            escaped,
            value.to_owned(),
            BASE64_STANDARD.encode(value),
            BASE64_STANDARD_NO_PAD.encode(value),
            BASE64_URL_SAFE_NO_PAD.encode(value),
            BASE64_STANDARD_NO_PAD.encode(&line).trim_end_matches("Cg").to_owned(),
            encoded,
            percent.clone(),
            percent.to_lowercase(),
        ];
        self.values.extend(forms);
    }

    /// Removes what an object may hide: environment, arguments, proxy, labels and annotations, wherever they stand.
    pub(super) fn hide(&mut self, object: &Value) {
        match object {
            Value::Object(fields) => {
                for (key, value) in fields {
                    match key.as_str() {
                        "env" | "args" | "command" | "proxy" | "annotations" | "labels" => self.all(value),
                        _ => self.hide(value),
                    }
                }
            }
            Value::Array(items) => items.iter().for_each(|item| self.hide(item)),
            _ => {}
        }
    }

    /// Every text in a value.
    fn all(&mut self, value: &Value) {
        match value {
            Value::String(text) => {
                self.learn(text);
                // `--flag=value`, and what kubectl noted of the last apply.
                if let Some((_, value)) = text.split_once('=') {
                    self.learn(value);
                }
                if let Ok(inner @ Value::Object(_)) = serde_json::from_str::<Value>(text) {
                    self.hide(&inner);
                }
            }
            Value::Array(items) => items.iter().for_each(|item| self.all(item)),
            Value::Object(fields) => {
                // The name of a variable is no secret.
                let is_ours = |key: &str| OURS.iter().any(|ours| key.starts_with(ours));
                let is_text = |key: &str| key != "name" && key != "key" && !is_ours(key);
                fields.iter().filter(|(key, _)| is_text(key)).for_each(|(_, value)| self.all(value));
            }
            _ => {}
        }
    }

    /// These names are no secrets, wherever they occur.
    pub(super) fn keep<'n>(&mut self, names: impl IntoIterator<Item = &'n str>) {
        for name in names {
            self.values.remove(name);
        }
    }

    /// Has others take the place of these names.
    pub(super) fn rename(&mut self, what: &str, names: impl IntoIterator<Item = String>) {
        let names: BTreeSet<String> = names.into_iter().collect();
        for (number, name) in names.into_iter().enumerate() {
            self.names.insert(name, format!("{what}-{}", number + 1));
        }
    }

    /// A text without all that.
    pub(super) fn text(&self, text: &str) -> String {
        let mut text = text.to_owned();
        let mut values: Vec<&String> = self.values.iter().collect();
        // Of two of which one holds the other, the longer first.
        values.sort_by_key(|value| std::cmp::Reverse(value.len()));
        for value in values {
            if text.contains(value.as_str()) {
                text = text.replace(value.as_str(), GONE);
            }
        }
        for (pattern, left) in PATTERNS.iter() {
            text = pattern.replace_all(&text, *left).into_owned();
        }
        match NAME.as_ref().filter(|_| !self.names.is_empty()) {
            Some(name) => name.replace_all(&text, |found: &Captures<'_>| self.renamed(&found[0])).into_owned(),
            None => text,
        }
    }

    fn renamed(&self, name: &str) -> String {
        self.names.get(name).cloned().unwrap_or_else(|| name.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn every_pattern_is_one() {
        assert_eq!(PATTERNS.len(), LOOKS.len());
        assert!(NAME.is_some());
    }

    #[test]
    fn secrets_are_removed_from_where_people_put_them_in_every_form() {
        let mut redactor = Redactor::default();
        let applied = json!({ "spec": { "env": [{ "name": "E", "value": "an old secret" }] } }).to_string();
        redactor.hide(&json!({ "metadata": { "annotations": { "team.example/x": "hunter2-annotation",
            "kubectl.kubernetes.io/last-applied-configuration": applied }, "labels": { "l": "hunter2-label" } },
            "spec": { "env": [{ "name": "NAME_OF_IT", "value": "p@ss word/1" }], "args": ["--key=hunter2-arg"],
                "proxy": { "value": "http://u:hunter2-proxy@p.example" } } }));
        for secret in ["hunter2-annotation", "hunter2-label", "p@ss word/1", "hunter2-arg", "an old secret"] {
            let url: String = url::form_urlencoded::byte_serialize(secret.as_bytes()).collect();
            let forms = [
                secret.to_owned(),
                BASE64_STANDARD.encode(secret),
                BASE64_STANDARD.encode(format!("{secret}\n")),
                url.clone(),
                url.replace('+', "%20"),
            ];
            for form in forms {
                let text = redactor.text(&format!("before {form} after"));
                assert!(!text.contains(&form) && text.contains("before") && text.contains("after"), "{form}: {text}");
            }
        }
        assert!(redactor.text("NAME_OF_IT is not set").contains("NAME_OF_IT"));
    }

    #[test]
    fn what_looks_like_a_credential_is_removed() {
        let redactor = Redactor::default();
        for text in [
            "Api-Token dt0c01.ABCDEFGH.SECRETPART",
            "Authorization: Bearer abcdefghij",
            "token=abcdefgh&x=1",
            r#"{"password": "hunter2hunter2"}"#,
            "https://user:pass@host/path",
            "-----BEGIN PRIVATE KEY-----\nabc\n-----END PRIVATE KEY-----",
        ] {
            let said = redactor.text(text);
            let gone = ["SECRETPART", "abcdefgh", "hunter2", "pass@", "abc\n"];
            assert!(said.contains(GONE) && gone.iter().all(|word| !said.contains(word)), "{said}");
        }
        let plain = "node-1: not Ready yet: CrashLoopBackOff, exit code 3";
        assert_eq!(redactor.text(plain), plain);
    }

    #[test]
    fn names_are_replaced_as_a_whole_and_always_by_the_same() {
        let mut redactor = Redactor::default();
        redactor.rename("node", ["worker-10.example".to_owned(), "worker-1".to_owned()]);
        let said = redactor.text("worker-1, worker-10.example: worker-1. worker-100");
        assert_eq!(said, "node-1, node-2: node-1. worker-100");
    }
}
