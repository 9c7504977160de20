//! Names and labels as the API server takes them.
//!
//! Here so that a typo is named before a request is refused, or matches nothing. Must not know what is named.

/// Whether a text can be an object's name: parts of lower-case letters, digits and dashes, joined by dots.
#[must_use]
pub fn is_object_name(text: &str) -> bool {
    let is_part = |part: &str| {
        let lower = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        has_edges(part, lower) && part.bytes().all(|byte| lower(byte) || byte == b'-')
    };
    text.len() <= 253 && text.split('.').all(is_part)
}

/// Whether a text can be a label's key: a name, perhaps with a domain and a slash before.
#[must_use]
pub fn is_label_key(text: &str) -> bool {
    match text.split_once('/') {
        Some((domain, name)) => is_object_name(domain) && !name.is_empty() && is_label_value(name),
        None => !text.is_empty() && is_label_value(text),
    }
}

/// Whether a text can be a label's value.
#[must_use]
pub fn is_label_value(text: &str) -> bool {
    let alphanumeric = |byte: u8| byte.is_ascii_alphanumeric();
    let inner = |byte: u8| alphanumeric(byte) || b"-_.".contains(&byte);
    text.is_empty() || (text.len() <= 63 && has_edges(text, alphanumeric) && text.bytes().all(inner))
}

fn has_edges(text: &str, is_edge: impl Fn(u8) -> bool) -> bool {
    let bytes = text.as_bytes();
    bytes.first().is_some_and(|byte| is_edge(*byte)) && bytes.last().is_some_and(|byte| is_edge(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_labels_are_told_from_what_the_api_server_refuses() {
        for good in ["a", "webapp-config", "kube-root-ca.crt", "1.2"] {
            assert!(is_object_name(good), "{good}");
        }
        for bad in ["", "-a", "a-", "A", "a_b", "a..b", &"a".repeat(254)] {
            assert!(!is_object_name(bad), "{bad}");
        }
        for good in ["app", "app.kubernetes.io/name", "A_b.c-d"] {
            assert!(is_label_key(good), "{good}");
        }
        for bad in ["", "/app", "example.com/", "a b", "a/b/c", "Example.com/a"] {
            assert!(!is_label_key(bad), "{bad}");
        }
        assert!(is_label_value("") && is_label_value("v1.2_3") && !is_label_value("-a") && !is_label_value("a:b"));
        assert!(!is_label_value(&"a".repeat(64)));
    }
}
