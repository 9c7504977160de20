//! Errors with all their causes in one line, as people read them.
//!
//! Here because kube's own text of a refusal is Rust's debug form of the whole answer. Must not say what helps.

use std::error::Error;

/// An error with all its causes, in one line; what the API server says in its own words.
pub(crate) fn chain(error: &(dyn Error + 'static)) -> String {
    let mut said: Vec<String> = Vec::new();
    let mut next = Some(error);
    while let Some(cause) = next {
        next = cause.source();
        // Many errors repeat what their cause says.
        let (text, own) = (words(cause), cause.to_string());
        if let Some(last) = said.last_mut()
            && let Some(before) = last.strip_suffix(&own)
        {
            *last = before.trim_end_matches([':', ' ']).to_owned();
        }
        said.push(text);
        if matches!(kubes(cause), Some(kube::Error::Api(_))) {
            break;
        }
    }
    said.retain(|text| !text.is_empty());
    said.join(": ")
}

fn kubes<'c>(cause: &'c (dyn Error + 'static)) -> Option<&'c kube::Error> {
    cause.downcast_ref::<kube::Error>().or_else(|| cause.downcast_ref::<Box<kube::Error>>().map(AsRef::as_ref))
}

fn words(cause: &(dyn Error + 'static)) -> String {
    match kubes(cause) {
        Some(kube::Error::Api(status)) if status.message.is_empty() => status.reason.clone(),
        Some(kube::Error::Api(status)) => status.message.clone(),
        // What it wraps says it.
        Some(kube::Error::Service(_) | kube::Error::HyperError(_)) => String::new(),
        _ => cause.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel;
    use kube::core::Status;

    #[test]
    fn a_refusal_is_told_in_the_api_servers_words_and_nothing_is_told_twice() {
        let forbidden =
            r#"nodes is forbidden: User "me" cannot list resource "nodes" in API group "" at the cluster scope"#;
        let status = Status::failure(forbidden, "Forbidden").with_code(403).boxed();
        let error = kernel::Error::Api { action: "list Nodes".into(), source: kube::Error::Api(status).into() };
        assert_eq!(chain(&error), format!("cannot list Nodes: {forbidden}"));
        let refused = std::io::Error::new(std::io::ErrorKind::ConnectionRefused, "tcp connect error");
        let error =
            kernel::Error::Api { action: "list Nodes".into(), source: kube::Error::Service(refused.into()).into() };
        assert_eq!(chain(&error), "cannot list Nodes: tcp connect error");
        let watch = kube::runtime::watcher::Error::InitialListFailed(kube::Error::Api(
            Status::failure(forbidden, "Forbidden").with_code(403).boxed(),
        ));
        assert!(chain(&watch).ends_with(forbidden) && !chain(&watch).contains("Status {"), "{}", chain(&watch));
    }
}
