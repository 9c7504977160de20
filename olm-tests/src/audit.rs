//! What the API server's audit log says the operator did.
//!
//! Only requests of an operator's ServiceAccount count; the log has no others that matter. Must not be edited to fit.

use std::path::Path;

use serde_json::Value;

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Request {
    pub verb: String,
    /// API group.
    pub group: String,
    /// Resource with its subresource.
    pub resource: String,
    /// Namespace; empty for the cluster's.
    pub namespace: String,
    /// Name, where the request has one.
    pub name: String,
    /// Response code.
    pub code: u64,
    /// When it was received, RFC 3339.
    pub at: String,
    /// When it was answered, RFC 3339 as well.
    pub answered: String,
    /// Address that was asked for.
    pub uri: String,
    /// What the API server said of a request that it refused.
    pub refused: String,
}

impl Request {
    /// Whether it writes.
    #[must_use]
    pub fn writes(&self) -> bool {
        matches!(self.verb.as_str(), "create" | "update" | "patch" | "delete" | "deletecollection")
    }
}

/// The requests of a package's operator in a namespace, in order; watches once, when they began.
#[must_use]
pub fn requests(log: &Path, namespace: &str, package: &str) -> Vec<Request> {
    let user = format!("system:serviceaccount:{namespace}:{package}");
    let text = std::fs::read_to_string(log).unwrap_or_default();
    text.lines()
        .filter(|line| line.contains(&user))
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .filter(|event| event["user"]["username"] == user.as_str())
        .filter(|event| {
            if event["verb"] == "watch" {
                event["stage"] == "ResponseStarted"
            } else {
                event["stage"] == "ResponseComplete"
            }
        })
        .map(|event| {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let object = &event["objectRef"];
            let subresource = object["subresource"].as_str().map(|s| format!("/{s}")).unwrap_or_default();
            Request {
                verb: text(&event["verb"]),
                group: text(&object["apiGroup"]),
                resource: text(&object["resource"]) + &subresource,
                namespace: text(&object["namespace"]),
                name: text(&object["name"]),
                code: event["responseStatus"]["code"].as_u64().unwrap_or_default(),
                at: text(&event["requestReceivedTimestamp"]),
                answered: text(&event["stageTimestamp"]),
                uri: text(&event["requestURI"]),
                refused: text(&event["responseStatus"]["message"]),
            }
        })
        .collect()
}

/// The requests without first lists that were forbidden and allowed later: of several target namespaces OLM starts the
/// operator before its roles have come to all. A right that never comes is found all the same.
#[must_use]
pub fn once_rights_came(requests: Vec<Request>) -> Vec<Request> {
    let what = |r: &Request| (r.group.clone(), r.resource.clone(), r.namespace.clone());
    let lists = |code: u64| requests.iter().enumerate().filter(move |(_, r)| r.verb == "list" && r.code == code);
    let allowed: Vec<_> = lists(200).map(|(at, r)| (at, what(r))).collect();
    let early: Vec<usize> = lists(403)
        .filter(|(at, r)| {
            let before = allowed.iter().any(|(when, same)| when < at && *same == what(r));
            !before && allowed.iter().any(|(when, same)| when > at && *same == what(r))
        })
        .map(|(at, _)| at)
        .collect();
    requests.into_iter().enumerate().filter(|(at, _)| !early.contains(at)).map(|(_, request)| request).collect()
}

/// Requests that were forbidden, a line each. Not those that came while the resource's own CRD was going: that is a
/// 403, too, but no right was missing, and it cannot be known before asking.
#[must_use]
pub fn forbidden(requests: &[Request]) -> Vec<String> {
    let going = "not allowed while custom resource definition is terminating";
    let lacked_a_right = |r: &&Request| r.code == 403 && !r.refused.contains(going);
    requests
        .iter()
        .filter(lacked_a_right)
        .map(|r| format!("{} {} {}/{}: {}", r.verb, r.resource, r.namespace, r.name, r.refused))
        .collect()
}
