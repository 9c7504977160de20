//! Which hosts an agent can run on at all, by what it is installed from.
//!
//! Pure. Must not look at a node.

/// Architectures that the installer's address is for where nothing pins another.
pub const INSTALLER_ARCHITECTURES: &[&str] = &["amd64"];
/// Architectures that the agent's image is for.
pub const IMAGE_ARCHITECTURES: &[&str] = &["amd64", "arm64"];

/// Labels of virtual nodes, on which no host agent can run.
pub const VIRTUAL_NODES: &[(&str, &str)] =
    &[("type", "virtual-kubelet"), ("eks.amazonaws.com/compute-type", "fargate")];
