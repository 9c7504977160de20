//! What a OneAgent is made into: one file per object. Pure; must not read the raw spec nor send anything.

pub mod daemonset;
pub mod istio;
pub mod pull_secret;
pub mod template;

/// Istio's API group, as far as we write it.
pub const ISTIO: crate::kernel::family::Group = crate::kernel::family::Group {
    name: "networking.istio.io",
    versions: &["v1", "v1beta1", "v1alpha3"],
    kinds: &["ServiceEntry", "VirtualService"],
};

/// Architectures that the installer's address is for where nothing pins another.
pub const INSTALLER_ARCHITECTURES: &[&str] = &["amd64"];
/// Architectures that the agent's image is for.
pub const IMAGE_ARCHITECTURES: &[&str] = &["amd64", "arm64"];

/// Labels of virtual nodes, on which no host agent can run.
pub const VIRTUAL_NODES: &[(&str, &str)] = &[("type", "virtual-kubelet"), ("eks.amazonaws.com/compute-type", "fargate")];
