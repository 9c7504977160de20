//! What an environment is tried with where no cluster is asked: tokens, proxy and certificates of the same file, of
//! variables and of a file of certificates.
//!
//! Must not print a value.

use secrecy::SecretString;

use super::{Args, Findings, Given, Written};
use crate::oneagent::resolve::{ProxySource, Resolved};

/// What there is; what is not is skipped.
#[expect(clippy::disallowed_methods, reason = "the command line")]
pub(super) fn given(
    args: &Args,
    resolved: &Resolved,
    file: &Written,
    findings: &mut Findings,
) -> Result<Given, String> {
    let filled = |value: &String| !value.trim().is_empty();
    let variable = |name: &str| std::env::var(name).ok().filter(filled).map(SecretString::from);
    let secret = |name: &str, key: &str| file.value("Secret", name, key).filter(filled).map(SecretString::from);
    let trusted = match &args.trusted_cas {
        Some(file) => {
            Some(std::fs::read_to_string(file).map_err(|error| format!("cannot read {}: {error}", file.display()))?)
        }
        None => resolved.trusted_cas.as_ref().and_then(|name| file.value("ConfigMap", name, "certs")),
    };
    let given = Given {
        paas: secret(&resolved.tokens, "paasToken").or_else(|| variable("PAAS_TOKEN")),
        api: secret(&resolved.tokens, "apiToken").or_else(|| variable("API_TOKEN")),
        proxy: match &resolved.proxy {
            Some(ProxySource::Value(url, _)) => Some(url.clone()),
            Some(ProxySource::Secret(name)) => secret(name, "proxy").or_else(|| variable("PROXY")),
            None => None,
        },
        trusted,
        no_proxy: resolved.no_proxy.clone(),
    };
    let untried = [
        (
            given.paas.is_some(),
            "PAAS_TOKEN",
            "the newest version, the versions on offer, the environment's identity and the paasToken's scope",
        ),
        (given.api.is_some(), "API_TOKEN", "the host list and the apiToken's scope"),
    ];
    for (_, variable, what) in untried.into_iter().filter(|(there, ..)| !there) {
        findings.skip(
            &format!("variable {variable} is not set: {what} are not tried"),
            &format!("set it to the token, such as by: read -rs {variable} && export {variable}"),
        );
    }
    if matches!(resolved.proxy, Some(ProxySource::Secret(_))) && given.proxy.is_none() {
        findings.skip("the proxy is in a Secret, and variable PROXY is not set", "set PROXY to the proxy's URL");
    }
    if resolved.trusted_cas.is_some() && given.trusted.is_none() {
        findings.skip(
            "spec.trustedCAs names a ConfigMap, which cannot be read without a cluster",
            "name a file with its certificates in --trusted-cas",
        );
    }
    Ok(given)
}
