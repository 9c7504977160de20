//! The Pod template without its version and without placement: what, when it changes, must restart agents.
//!
//! Pure. Follows the original's template, so that adoption changes nothing that matters. Must not contain the
//! operator's version or the image that it chooses (an operator's upgrade restarts no agent), nor a token.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    AppArmorProfile, Capabilities, Container, EnvVar, EnvVarSource, ExecAction, HostPathVolumeSource,
    LocalObjectReference, ObjectFieldSelector, PodSpec, PodTemplateSpec, Probe, SecretKeySelector, SecurityContext,
    Volume, VolumeMount,
};
use kube::api::ObjectMeta;
use sha2::{Digest, Sha256};

use crate::api::oneagent::DEFAULT_IMAGE;
use crate::k8s::hex::hex;
use crate::oneagent::from_cluster::{certificates, mount};
use crate::oneagent::resolve::{FromImage, PodShape, ProxySource, Resolved, SCRIPT_URL, Wish};

/// Placeholder of the version until a template is rendered.
const VERSION: &str = "{agent-version}";
/// Placeholder of its first three parts.
const SHORT: &str = "{agent-version-short}";
/// The place of the version in the address that is ours. What a user writes himself is left as he wrote it.
const AT_VERSION: &str =
    "/deployment/installer/agent/unix/default/version/{agent-version}?Api-Token=$(ONEAGENT_INSTALLER_TOKEN)";
/// Placeholder of the release's installer image.
pub const IMAGE: &str = "{default-image}";
const CONTAINER: &str = "dynatrace-oneagent";
/// Name of the variable with the token that the installer is fetched with: a template that has it installs.
pub const TOKEN: &str = "ONEAGENT_INSTALLER_TOKEN";

/// What the template needs beside the spec.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Surroundings {
    /// UID of Namespace kube-system.
    pub cluster_id: String,
    /// Mark of the proxy in its Secret: a change of it must reach the agents.
    pub proxy: Option<String>,
    /// Mark of the certificates.
    pub trusted: Option<String>,
}

/// Annotations of Pods that change with what the Pods read from elsewhere, and what releases up to 0.2.0 had in their
/// place: resourceVersions, which change with every touch.
const MARKS: [(&str, &str); 2] = [
    ("oneagent.dynatrace.com/proxy-hash", "oneagent.dynatrace.com/proxy-version"),
    ("oneagent.dynatrace.com/trusted-cas-hash", "oneagent.dynatrace.com/trusted-cas-version"),
];

/// The marks that a base template has: of the proxy, and of the certificates.
#[must_use]
pub fn marks(base: &PodTemplateSpec) -> [Option<String>; 2] {
    let annotations = base.metadata.as_ref().and_then(|metadata| metadata.annotations.as_ref());
    MARKS.map(|(key, _)| annotations.and_then(|annotations| annotations.get(key)).cloned())
}

/// The base template.
#[must_use]
pub fn base(resolved: &Resolved, around: &Surroundings) -> PodTemplateSpec {
    let pod = &resolved.pod;
    let ours = MARKS.iter().zip([&around.proxy, &around.trusted]);
    let ours = ours.filter_map(|((key, _), mark)| Some(((*key).to_owned(), mark.clone()?)));
    let annotations: BTreeMap<String, String> = pod.annotations.clone().into_iter().chain(ours).collect();
    let own_image = match &resolved.from_image {
        Some(FromImage { registry: Some(registry), tag, .. }) => {
            format!("{registry}/linux/oneagent:{}", tag.as_deref().unwrap_or(SHORT))
        }
        _ => IMAGE.to_owned(),
    };
    let pull_secrets = resolved
        .from_image
        .as_ref()
        .and_then(|image| image.secret(&resolved.name))
        .map(|name| vec![LocalObjectReference { name }]);
    let mut volumes = vec![Volume {
        name: "host-root".into(),
        host_path: Some(HostPathVolumeSource { path: "/".into(), type_: None }),
        ..Volume::default()
    }];
    let mut mounts =
        vec![VolumeMount { name: "host-root".into(), mount_path: "/mnt/root".into(), ..VolumeMount::default() }];
    if let Some(config_map) = &resolved.trusted_cas {
        volumes.push(certificates(config_map, "certs"));
        mounts.push(mount());
    }
    let container = Container {
        name: CONTAINER.into(),
        image: Some(pod.image.clone().unwrap_or(own_image)),
        image_pull_policy: Some("Always".into()),
        args: Some(args(resolved)).filter(|args| !args.is_empty()),
        env: Some(env(resolved, around)),
        readiness_probe: Some(readiness()),
        resources: Some(pod.resources.clone()),
        security_context: Some(security(pod.unprivileged)),
        volume_mounts: Some(mounts),
        ..Container::default()
    };
    PodTemplateSpec {
        metadata: Some(ObjectMeta {
            labels: Some(labels(&resolved.name, pod)),
            annotations: (!annotations.is_empty()).then_some(annotations),
            ..ObjectMeta::default()
        }),
        spec: Some(PodSpec {
            containers: vec![container],
            dns_policy: pod.dns_policy.clone(),
            host_ipc: Some(true),
            host_network: Some(true),
            host_pid: Some(true),
            image_pull_secrets: pull_secrets,
            priority_class_name: pod.priority_class.clone(),
            service_account_name: Some(pod.service_account.clone()),
            volumes: Some(volumes),
            ..PodSpec::default()
        }),
    }
}

/// Hash of a base template: 16 hexadecimal digits of its SHA-256. As if the release's image were the one that the first
/// releases had, so that theirs stay valid.
pub fn hash(base: &PodTemplateSpec) -> Result<String, serde_json::Error> {
    Ok(short_hash(&serde_json::to_vec(&with_image(base, DEFAULT_IMAGE))?))
}

/// A template with the release's image in its place.
#[must_use]
pub fn with_image(base: &PodTemplateSpec, image: &str) -> PodTemplateSpec {
    replace_image(base, &[IMAGE], image)
}

/// Puts a version in its places in a container: the installer's address and the image that are ours.
pub fn at_version(container: &mut Container, version: &str, short: &str) {
    if let Some(name) = container.image.as_deref().and_then(|image| image.strip_suffix(SHORT)) {
        container.image = Some(format!("{name}{short}"));
    }
    let addresses = container
        .env
        .iter_mut()
        .flatten()
        .filter(|variable| variable.name == SCRIPT_URL)
        .filter_map(|variable| variable.value.as_mut());
    for address in addresses.filter(|address| address.contains(AT_VERSION)) {
        *address = address.replace(VERSION, version);
    }
}

fn replace_image(template: &PodTemplateSpec, these: &[&str], by: &str) -> PodTemplateSpec {
    let mut template = template.clone();
    let images =
        template.spec.iter_mut().flat_map(|spec| &mut spec.containers).filter_map(|container| container.image.as_mut());
    for image in images.filter(|image| these.contains(&image.as_str())) {
        by.clone_into(image);
    }
    template
}

/// Whether a template that an earlier release noted asks for what `base` does: what the operator chose itself, or wrote
/// down in another way, is no difference. `image` is the release's.
#[must_use]
pub fn asks_for_the_same(noted: &PodTemplateSpec, base: &PodTemplateSpec, image: &str) -> bool {
    let annotations =
        |template: &PodTemplateSpec| template.metadata.as_ref().and_then(|m| m.annotations.clone()).unwrap_or_default();
    let before = annotations(noted);
    let normal = |template: &PodTemplateSpec| {
        let mut plain = replace_image(template, &[image, DEFAULT_IMAGE], IMAGE);
        let mut kept = annotations(template);
        for (mark, version) in MARKS.iter().filter(|(_, version)| before.contains_key(*version)) {
            kept.remove(*mark);
            kept.remove(*version);
        }
        plain.metadata.get_or_insert_default().annotations = (!kept.is_empty()).then_some(kept);
        plain
    };
    normal(noted) == normal(base)
}

/// 16 hexadecimal digits of a SHA-256.
pub(crate) fn short_hash(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes)[..8])
}

/// Labels that the selector asks for.
#[must_use]
pub fn selector(name: &str) -> BTreeMap<String, String> {
    [("dynatrace".to_owned(), "oneagent".to_owned()), ("oneagent".to_owned(), name.to_owned())].into()
}

/// The user's labels, with the selector's on top.
#[must_use]
pub fn labels(name: &str, pod: &PodShape) -> BTreeMap<String, String> {
    let mut labels = pod.labels.clone();
    labels.extend(selector(name));
    labels
}

fn args(resolved: &Resolved) -> Vec<String> {
    let mut args = resolved.pod.args.clone();
    if resolved.proxy.is_some() {
        args.push("--set-proxy=$(https_proxy)".into());
    }
    if let Some(zone) = &resolved.network_zone {
        args.push(format!("--set-network-zone={zone}"));
    }
    if resolved.pod.webhook_injection {
        args.push("--set-host-id-source=k8s-node-name".into());
    }
    args
}

/// Ours first; a user's entry of the same name takes the place of ours, the others follow in their order.
fn env(resolved: &Resolved, around: &Surroundings) -> Vec<EnvVar> {
    let plain = |name: &str, value: String| EnvVar { name: name.into(), value: Some(value), value_from: None };
    let secret = |name: &str, secret: &str, key: &str| EnvVar {
        name: name.into(),
        value: None,
        value_from: Some(EnvVarSource {
            secret_key_ref: Some(SecretKeySelector { name: secret.into(), key: key.into(), optional: None }),
            ..EnvVarSource::default()
        }),
    };
    let node_name = EnvVarSource {
        field_ref: Some(ObjectFieldSelector { field_path: "spec.nodeName".into(), api_version: None }),
        ..EnvVarSource::default()
    };
    let mut ours = vec![
        EnvVar { name: "DT_K8S_NODE_NAME".into(), value: None, value_from: Some(node_name) },
        plain("DT_K8S_CLUSTER_ID", around.cluster_id.clone()),
    ];
    if resolved.pod.webhook_injection {
        ours.push(plain("ONEAGENT_DISABLE_CONTAINER_INJECTION", "true".into()));
    }
    if resolved.from_image.is_none() {
        ours.push(secret(TOKEN, &resolved.tokens, "paasToken"));
        if resolved.wish != Wish::UserUrl {
            // The kubelet puts the token in; the Pod's spec holds only the reference.
            let zone = resolved.network_zone.as_ref().map(|zone| format!("&networkZone={zone}")).unwrap_or_default();
            let url = format!(
                "{}/v1{AT_VERSION}&arch={}&flavor=default{zone}",
                resolved.api_url, resolved.pod.installer_arch
            );
            ours.push(plain(SCRIPT_URL, url));
        }
        ours.push(plain("ONEAGENT_INSTALLER_SKIP_CERT_CHECK", resolved.skip_cert_check.to_string()));
    }
    match &resolved.proxy {
        Some(ProxySource::Value(_, url)) => ours.push(plain("https_proxy", url.clone())),
        Some(ProxySource::Secret(name)) => ours.push(secret("https_proxy", name, "proxy")),
        None => {}
    }
    if let Some(hosts) = &resolved.no_proxy {
        ours.push(plain("no_proxy", hosts.clone()));
    }
    let mut theirs = resolved.pod.env.clone();
    for entry in &mut ours {
        if let Some(at) = theirs.iter().position(|other| other.name == entry.name) {
            *entry = theirs.remove(at);
        }
    }
    ours.extend(theirs);
    ours
}

/// The agent's watchdog, by the name that the kernel cuts at 15 characters.
fn readiness() -> Probe {
    let command = ["/bin/sh", "-c", "grep -q oneagentwatchdo /proc/[0-9]*/stat"];
    Probe {
        exec: Some(ExecAction { command: Some(command.map(str::to_owned).to_vec()) }),
        initial_delay_seconds: Some(30),
        period_seconds: Some(30),
        timeout_seconds: Some(1),
        ..Probe::default()
    }
}

/// Capabilities of unprivileged mode.
const ADD: [&str; 15] = [
    "CHOWN",
    "DAC_OVERRIDE",
    "DAC_READ_SEARCH",
    "FOWNER",
    "FSETID",
    "KILL",
    "NET_ADMIN",
    "NET_RAW",
    "SETFCAP",
    "SETGID",
    "SETUID",
    "SYS_ADMIN",
    "SYS_CHROOT",
    "SYS_PTRACE",
    "SYS_RESOURCE",
];

fn security(unprivileged: bool) -> SecurityContext {
    if !unprivileged {
        return SecurityContext { privileged: Some(true), ..SecurityContext::default() };
    }
    SecurityContext {
        app_armor_profile: Some(AppArmorProfile { type_: "Unconfined".into(), localhost_profile: None }),
        capabilities: Some(Capabilities { add: Some(ADD.map(str::to_owned).to_vec()), drop: Some(vec!["ALL".into()]) }),
        ..SecurityContext::default()
    }
}
