//! What lets traffic to the environment pass in an Istio mesh: a ServiceEntry for the API's host and each
//! communication endpoint, and a VirtualService for those that are names.
//!
//! Pure. Must not know whether there is a mesh.

use std::net::IpAddr;

use serde_json::{Value, json};
use url::{Host, Url};

use super::template::short_hash;
use crate::oneagent::resolve::Resolved;

/// More endpoints than any environment has: an end to a list that does not.
const AT_MOST: usize = 200;

#[derive(Debug, Clone, PartialEq, Eq)]
struct Endpoint {
    secure: bool,
    host: String,
    port: u16,
}

/// The objects for an environment's address and its endpoints, and the endpoints that are no addresses.
#[must_use]
pub fn objects(resolved: &Resolved, endpoints: &[String]) -> (Vec<Value>, Vec<String>) {
    let mut wrong = Vec::new();
    let mut objects: Vec<Value> = Vec::new();
    let mut seen: Vec<Endpoint> = Vec::new();
    let all =
        std::iter::once((&resolved.api_url, "api-url")).chain(endpoints.iter().map(|e| (e, "communication-endpoint")));
    for (text, role) in all {
        match parse(text) {
            None => wrong.push(text.chars().take(80).collect()),
            Some(endpoint) if seen.contains(&endpoint) || seen.len() > AT_MOST => {}
            Some(endpoint) => {
                objects.extend(of(resolved, &endpoint, role));
                seen.push(endpoint);
            }
        }
    }
    (objects, wrong)
}

/// An absolute http or https address.
fn parse(text: &str) -> Option<Endpoint> {
    let url = Url::parse(text.trim()).ok()?;
    let secure = match url.scheme() {
        "https" => true,
        "http" => false,
        _ => return None,
    };
    let is_anonymous = url.username().is_empty() && url.password().is_none();
    let port = url.port_or_known_default().filter(|port| *port > 0 && is_anonymous)?;
    // A URL's host may have an underscore, and Istio's may not.
    let label = |label: &str| label.len() < 64 && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
    let is_name = |name: &str| {
        name.len() < 254
            && name.split('.').all(|l| label(l) && !l.is_empty() && !l.starts_with('-') && !l.ends_with('-'))
    };
    let host = match url.host()? {
        Host::Domain(name) => Some(name.to_owned()).filter(|name| is_name(name))?,
        Host::Ipv4(address) => address.to_string(),
        Host::Ipv6(address) => address.to_string(),
    };
    Some(Endpoint { secure, host, port })
}

fn of(resolved: &Resolved, endpoint: &Endpoint, role: &str) -> Vec<Value> {
    let Endpoint { secure, host, port } = endpoint;
    let protocol = if *secure { "https" } else { "http" };
    let name = format!("{}-{}", resolved.name, short_hash(format!("{protocol}-{host}-{port}").as_bytes()));
    let object = |kind: &str, spec: Value| {
        json!({
            "kind": kind,
            "metadata": {
                "name": name, "namespace": resolved.namespace, "ownerReferences": [resolved.owner],
                "labels": { "dynatrace": "oneagent", "oneagent": resolved.name, "dynatrace-istio-role": role },
            },
            "spec": spec,
        })
    };
    let entry_port = |protocol: &str| {
        json!([{ "name": format!("{}-{port}", protocol.to_lowercase()), "number": port,
        "protocol": protocol }])
    };
    if let Ok(ip) = host.parse::<IpAddr>() {
        let network = format!("{ip}/{}", if ip.is_ipv4() { 32 } else { 128 });
        // A host must be named, and is not looked at: the address decides.
        let spec = json!({ "hosts": ["ignored.subdomain"], "addresses": [network], "ports": entry_port("TCP"),
            "location": "MESH_EXTERNAL", "resolution": "NONE" });
        return vec![object("ServiceEntry", spec)];
    }
    let entry = json!({ "hosts": [host], "ports": entry_port(&protocol.to_uppercase()), "location": "MESH_EXTERNAL",
        "resolution": "DNS" });
    let route = json!([{ "destination": { "host": host, "port": { "number": port } } }]);
    let service = if *secure {
        json!({ "hosts": [host], "tls": [{ "match": [{ "port": port, "sniHosts": [host] }], "route": route }] })
    } else {
        json!({ "hosts": [host], "http": [{ "match": [{ "port": port }], "route": route }] })
    };
    vec![object("ServiceEntry", entry), object("VirtualService", service)]
}

/// Labels that tell the family of a OneAgent, the original's too.
#[must_use]
pub fn selector(name: &str) -> String {
    format!("dynatrace=oneagent,oneagent={name},dynatrace-istio-role")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_are_told_from_nonsense() {
        let of = |text: &str| parse(text).map(|e| format!("{} {} {}", e.secure, e.host, e.port));
        for (text, wanted) in [
            ("https://Host.example/communication", Some("true host.example 443")),
            ("http://10.0.0.1:8080", Some("false 10.0.0.1 8080")),
            ("https://[2001:db8::1]:9999/x", Some("true 2001:db8::1 9999")),
            ("ftp://host", None),
            ("host.example:443", None),
            ("https://", None),
            ("https://a b", None),
            ("https://user@host", None),
            ("https://host:0", None),
            ("https://host:http", None),
        ] {
            assert_eq!(of(text).as_deref(), wanted, "{text}");
        }
    }
}
