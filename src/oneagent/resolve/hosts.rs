//! Which hosts an agent can run on at all, by what it is installed from.
//!
//! Pure. Must not look at a node.

use std::collections::BTreeMap;

use super::Refusal;

/// Architectures that the installer's address is for where nothing pins another.
pub const INSTALLER_ARCHITECTURES: &[&str] = &["amd64"];
/// Architectures that the agent's image is for.
pub const IMAGE_ARCHITECTURES: &[&str] = &["amd64", "arm64"];

/// Labels of virtual nodes, on which no host agent can run: of the virtual kubelet and most of its providers (Azure,
/// Alibaba, Huawei, Admiralty), Fargate, Liqo, Azure's second kind, and Tencent's super nodes. Labels only: a taint
/// that a Pod tolerates is nothing that its affinity could leave out.
pub const VIRTUAL_NODES: &[(&str, &str)] = &[
    ("type", "virtual-kubelet"),
    ("eks.amazonaws.com/compute-type", "fargate"),
    ("liqo.io/type", "virtual-node"),
    ("virtualization", "virtualnode2"),
    ("node.kubernetes.io/instance-type", "eklet"),
];

/// The agent is for Linux.
pub(super) fn check_system(selector: &BTreeMap<String, String>, wrong: &mut Vec<Refusal>) {
    for key in ["kubernetes.io/os", "beta.kubernetes.io/os"] {
        if let Some(system) = selector.get(key).filter(|system| *system != "linux") {
            wrong.push(Refusal(format!(
                "spec.nodeSelector asks for {key}: {system}, for which there is no agent; remove it, for agents run \
                on Linux nodes only"
            )));
        }
    }
}

/// The vendor's name of the architecture that a node selector asks for.
pub(super) fn installer_arch(pinned: Option<&str>, wrong: &mut Vec<Refusal>) -> &'static str {
    match pinned {
        None | Some("amd64") => "x86",
        Some("arm64") => "arm",
        Some("s390x") => "s390",
        Some("ppc64le") => "ppcle",
        Some(other) => {
            wrong.push(Refusal(format!(
                "spec.nodeSelector asks for architecture {other:?}, for which there is no agent; use amd64, arm64, \
                s390x or ppc64le"
            )));
            "x86"
        }
    }
}
