//! `check`: tries an environment as the operator would, from an administrator's shell, and says what to fix.
//!
//! Reads only. Must not print or take a token on the command line, where a process list would show it.

mod admission;
mod olm;
mod shell;

use std::collections::HashMap;
use std::path::PathBuf;
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::{Api, DynamicObject};
use kube::core::{ApiResource, GroupVersionKind};
use secrecy::SecretString;

use super::read::{Written, written};
use crate::api::oneagent::{OneAgent, OneAgentSpec};
use crate::clock::Clock;
use crate::dynatrace::types::zone_key;
use crate::dynatrace::{Client, Error, Transport};
use crate::kernel::{self, Access, chain};
use crate::oneagent::from_cluster::bundle_name;
use crate::oneagent::resolve::{ProxySource, Resolved, Wish, resolve};
use crate::openshift::cluster::BUNDLE;
use crate::openshift::proxy::ClusterProxy;

/// Longest time for one call.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Arguments of `check`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Without a cluster it takes the tokens from the Secret in the same file, or from the variables \
        PAAS_TOKEN and API_TOKEN. It takes the proxy of a Secret from the same file, or from PROXY.\nExit code: 0 when \
        nothing that was tried fails, 1 when something would fail in the cluster."
)]
#[command(group(clap::ArgGroup::new("what").required(true).args(["name", "file", "api_url"])))]
pub(in crate::cli) struct Args {
    /// Name of a OneAgent in the cluster. The objects that it refers to are read from there, with your rights.
    pub(in crate::cli) name: Option<String>,
    /// Namespace of that OneAgent.
    #[arg(short, long, default_value = "dynatrace")]
    pub(in crate::cli) namespace: String,
    /// File with a OneAgent, or - for standard input. Needs no cluster.
    #[arg(short, long)]
    pub(in crate::cli) file: Option<PathBuf>,
    /// Address of an environment, without a OneAgent. Needs no cluster.
    #[arg(long, value_name = "URL")]
    pub(in crate::cli) api_url: Option<String>,
    /// File with PEM certificates, in place of the ConfigMap in spec.trustedCAs. Not for a OneAgent in the cluster.
    #[arg(long, value_name = "FILE", conflicts_with = "name")]
    pub(in crate::cli) trusted_cas: Option<PathBuf>,
}

/// What an environment is tried with.
#[derive(Default)]
struct Given {
    paas: Option<SecretString>,
    api: Option<SecretString>,
    proxy: Option<SecretString>,
    trusted: Option<String>,
    /// What is reached without the proxy.
    no_proxy: Option<String>,
}

/// What was found, line by line.
#[derive(Default)]
struct Findings {
    all: usize,
    failed: usize,
    skipped: usize,
}

impl Findings {
    fn good(&mut self, what: &str) {
        self.all += 1;
        say!("ok    {what}");
    }

    fn bad(&mut self, what: &str, remedy: &str) {
        self.all += 1;
        self.failed += 1;
        say!("FAIL  {what}\n      {remedy}");
    }

    /// What cannot be tried here; no failure.
    fn skip(&mut self, what: &str, remedy: &str) {
        self.skipped += 1;
        say!("skip  {what}\n      {remedy}");
    }

    fn tell<T>(&mut self, what: &str, outcome: &Result<T, Error>, good: impl FnOnce(&T) -> String) {
        match outcome {
            Ok(answer) => self.good(&format!("{what}: {}", good(answer))),
            Err(error) => self.bad(&format!("{what}: {error}"), remedy(error)),
        }
    }
}

/// Says how many checks failed, of how many.
pub(in crate::cli) async fn check(args: &Args, access: &Access) -> Result<(usize, usize), String> {
    let mut findings = Findings::default();
    let (object, file) = object(args, access).await?;
    match resolve(&object) {
        Err(refusals) => {
            for refusal in &refusals {
                findings.bad(&refusal.0, "correct the field: see kubectl explain oneagent.spec");
            }
        }
        Ok(resolved) => {
            findings.good("the spec makes sense");
            for warning in &resolved.warnings {
                say!("note  {warning}");
            }
            let given = if args.name.is_some() {
                from_cluster(access, &resolved, &mut findings).await?
            } else {
                shell::given(args, &resolved, &file, &mut findings)?
            };
            environment(&resolved, &given, &mut findings).await;
        }
    }
    if findings.skipped > 0 {
        say!("note  {} checks were skipped", findings.skipped);
    }
    Ok((findings.failed, findings.all))
}

/// The OneAgent to try, and the file that it is in.
async fn object(args: &Args, access: &Access) -> Result<(OneAgent, Written), String> {
    if let Some(name) = &args.name {
        let api: Api<OneAgent> = Api::namespaced(client(access).await?, &args.namespace);
        let found = api
            .get_opt(name)
            .await
            .map_err(|error| format!("cannot get OneAgent {}/{name}: {}", args.namespace, chain(&error)))?;
        let found = found.ok_or_else(|| {
            format!("there is no OneAgent {name} in namespace {}; name its namespace with -n", args.namespace)
        })?;
        return Ok((found, Written::default()));
    }
    if let Some(file) = &args.file {
        let mut all = written(file)?;
        let one = all.agents.pop().filter(|_| all.agents.is_empty());
        let several = || format!("{} holds more than one OneAgent; check one at a time", file.display());
        return Ok((one.ok_or_else(several)?, all));
    }
    let spec = OneAgentSpec { api_url: args.api_url.clone().unwrap_or_default(), ..OneAgentSpec::default() };
    Ok((OneAgent::new("oneagent", spec), Written::default()))
}

async fn client(access: &Access) -> Result<kube::Client, String> {
    Ok(kernel::reach(access, &Clock::default()).await?.client)
}

async fn from_cluster(access: &Access, resolved: &Resolved, findings: &mut Findings) -> Result<Given, String> {
    let client = client(access).await?;
    let namespace = &resolved.namespace;
    let secrets: Api<Secret> = Api::namespaced(client.clone(), namespace);
    let value = async |name: &str, key: &str, findings: &mut Findings| {
        let found = secrets
            .get_opt(name)
            .await
            .map_err(|error| format!("cannot get Secret {namespace}/{name}: {}", chain(&error)))?;
        let Some(secret) = found else {
            let keys = if name == resolved.tokens { "apiToken=… --from-literal=paasToken" } else { key };
            let remedy = format!("kubectl -n {namespace} create secret generic {name} --from-literal={keys}=…");
            findings.bad(&format!("Secret {namespace}/{name} does not exist"), &remedy);
            return Ok::<_, String>(None);
        };
        let text = secret
            .data
            .as_ref()
            .and_then(|data| data.get(key))
            .and_then(|bytes| String::from_utf8(bytes.0.clone()).ok());
        let text = text.filter(|text| !text.trim().is_empty());
        if text.as_ref().is_some_and(|text| text.trim().len() != text.len()) {
            findings.bad(
                &format!("key {key} of Secret {namespace}/{name} has blanks around it"),
                "agents would use them too: put the value in without",
            );
        }
        if text.is_none() {
            findings.bad(&format!("Secret {namespace}/{name} has no key {key}"), "add the key");
        }
        Ok(text.map(|text| SecretString::from(text.trim().to_owned())))
    };
    let paas = value(&resolved.tokens, "paasToken", findings).await?;
    let api = value(&resolved.tokens, "apiToken", findings).await?;
    let proxy = match &resolved.proxy {
        Some(ProxySource::Value(url, _)) => Some(url.clone()),
        Some(ProxySource::Secret(name)) => value(name, "proxy", findings).await?,
        None => None,
    };
    let (proxy, no_proxy) = match proxy {
        None if resolved.cluster.proxy => cluster_proxy(&client, resolved, findings).await,
        proxy => (proxy, resolved.no_proxy.clone()),
    };
    admission::admission(&client, resolved, findings).await;
    olm::operator_groups(&client, namespace, findings).await;
    let mut trusted = None;
    // Made by the operator, which may not have been here yet.
    if resolved.cluster.certificates {
        let (maps, name) = (Api::<ConfigMap>::namespaced(client.clone(), namespace), bundle_name(&resolved.name));
        trusted = maps.get_opt(&name).await.ok().flatten().and_then(|map| map.data?.remove(BUNDLE));
        if trusted.is_none() {
            say!(
                "note  ConfigMap {namespace}/{name} has no key {BUNDLE} yet: the environment is tried without the \
                cluster's certificates"
            );
        }
    }
    if let Some(name) = &resolved.trusted_cas {
        let maps: Api<ConfigMap> = Api::namespaced(client, namespace);
        let found = maps
            .get_opt(name)
            .await
            .map_err(|error| format!("cannot get ConfigMap {namespace}/{name}: {}", chain(&error)))?;
        trusted = found.and_then(|map| map.data?.remove("certs"));
        if trusted.is_none() {
            let remedy = format!("kubectl -n {namespace} create configmap {name} --from-file=certs=FILE.pem");
            findings.bad(&format!("ConfigMap {namespace}/{name} with key certs does not exist"), &remedy);
        }
    }
    Ok(Given { paas, api, proxy, trusted, no_proxy })
}

/// The cluster's proxy, and what is reached without it.
async fn cluster_proxy(
    client: &kube::Client,
    resolved: &Resolved,
    findings: &mut Findings,
) -> (Option<SecretString>, Option<String>) {
    let kind = GroupVersionKind::gvk("config.openshift.io", "v1", "Proxy");
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &ApiResource::from_gvk_with_plural(&kind, "proxies"));
    match api.get("cluster").await {
        Ok(object) => match ClusterProxy::of(&object.data) {
            Some(proxy) => {
                let without = proxy.without(resolved.no_proxy.as_deref());
                (Some(proxy.url.into()), Some(without).filter(|hosts| !hosts.is_empty()))
            }
            None => (None, resolved.no_proxy.clone()),
        },
        Err(error) => {
            findings.bad(
                &format!(
                    "spec.openshift.clusterProxy: Proxy cluster (config.openshift.io) cannot be read: {}",
                    chain(&error)
                ),
                "elsewhere than on OpenShift name a proxy in spec.proxy; there, ask somebody who may read it",
            );
            (None, resolved.no_proxy.clone())
        }
    }
}

/// Asks what the operator will ask.
async fn environment(resolved: &Resolved, given: &Given, findings: &mut Findings) {
    let transport = Transport {
        proxy: given.proxy.clone(),
        trusted: given.trusted.clone(),
        no_proxy: given.no_proxy.clone(),
        skip_cert_check: resolved.skip_cert_check,
        timeout: TIMEOUT,
    };
    let client = match Client::new(&resolved.api_url, &transport) {
        Ok(client) => client,
        Err(error) => return findings.bad(&format!("no client can be made: {error}"), remedy(&error)),
    };
    if resolved.skip_cert_check {
        say!("note  certificates are not verified (spec.skipCertCheck)");
    }
    if given.paas.is_none() {
        // Name, connection, TLS and proxy can be tried without any token: who refuses one is there.
        let nobody = SecretString::from("none");
        match client.latest(given.api.as_ref().unwrap_or(&nobody)).await {
            Ok(_) | Err(Error::Unauthorized(_) | Error::Forbidden(_)) => {
                findings.good(&format!("the environment answers at {}", resolved.api_url));
            }
            Err(error) => {
                return findings.bad(&format!("the environment at {}: {error}", resolved.api_url), remedy(&error));
            }
        }
    }
    if let Some(paas) = &given.paas {
        let latest = client.latest(paas).await;
        findings.tell(&format!("newest version at {}", resolved.api_url), &latest, ToString::to_string);
        let nobody = |error: &Error| {
            matches!(error, Error::Connect(_) | Error::Tls { .. } | Error::Timeout(_) | Error::NotJson(_))
                || matches!(error, Error::Redirect(_))
        };
        if latest.as_ref().is_err_and(nobody) {
            // Everything else would say the same again.
            return;
        }
        let _ = scope(&client, paas, "paasToken", "InstallerDownload", findings).await;
        findings.tell(
            "the environment says who it is",
            &client.connection(paas, resolved.network_zone.as_deref()).await,
            |(id, endpoints)| format!("{id}, {} communication endpoints", endpoints.as_ref().map_or(0, Vec::len)),
        );
        let offered = client.offered(paas).await;
        findings.tell("versions on offer", &offered, |versions| versions.len().to_string());
        if let (Ok(offered), Wish::Pin { version, .. }) = (&offered, resolved.wish)
            && !offered.contains(&version)
        {
            findings.bad(&format!("spec.update.version {version} is not offered"), "pin a version that is, or none");
        }
    }
    if let Some(api) = &given.api {
        let scopes = scope(&client, api, "apiToken", "DataExport", findings).await;
        if scopes.is_ok_and(|scopes| !scopes.iter().any(|scope| scope == "events.ingest")) {
            say!(
                "note  apiToken: without scope events.ingest the environment hears of nodes that go by its older \
                API, which the vendor calls deprecated"
            );
        }
        let zone = resolved.network_zone.as_deref();
        let hosts = client.hosts(api, &[zone_key(zone)].into()).await;
        findings.tell("hosts that report an agent, in the network zone", &hosts, |hosts| {
            hosts.of(zone).map_or(0, HashMap::len).to_string()
        });
    }
}

async fn scope(
    client: &Client,
    token: &SecretString,
    key: &str,
    scope: &str,
    findings: &mut Findings,
) -> Result<Vec<String>, Error> {
    let scopes = client.scopes(token).await;
    match &scopes {
        Ok(scopes) if !scopes.iter().any(|s| s == scope) => {
            findings.bad(
                &format!("{key} lacks scope {scope}; it has {}", scopes.join(", ")),
                "create a token with that scope and put it into the Secret",
            );
        }
        _ => findings.tell(key, &scopes, |_| format!("accepted, has scope {scope}")),
    }
    scopes
}

fn remedy(error: &Error) -> &'static str {
    match error {
        Error::Unauthorized(_) => "put a token into the Secret that is of this environment, valid and not expired",
        Error::Forbidden(_) => "the paasToken needs scope InstallerDownload, the apiToken DataExport",
        Error::Throttled { .. } => "try again later; the operator retries automatically",
        Error::NotJson(_) | Error::Lacks(_) | Error::TooLarge(_) | Error::TooMany(_) | Error::Status { .. } => {
            "check that spec.apiUrl is the API of the environment (…/api), and that no other server answers there"
        }
        Error::Timeout(_) | Error::Connect(_) => {
            "look at name resolution, firewalls and spec.proxy from the operator's node"
        }
        Error::Tls { .. } => "the operator's connections fail in the same way: correct that first",
        Error::Redirect(_) => "use the address that it redirects to, if that is the environment's",
        Error::Setup(_) => "correct the proxy or the certificates",
    }
}
