//! What a OneAgent is made into: one file per object. Pure; must not read the raw spec nor send anything.

pub mod daemonset;
pub mod istio;
pub mod pull_secret;
pub mod record;
pub mod template;

/// Istio's API group, as far as we write it.
pub const ISTIO: crate::k8s::api_group::Group = crate::k8s::api_group::Group {
    name: "networking.istio.io",
    versions: &["v1", "v1beta1", "v1alpha3"],
    kinds: &["ServiceEntry", "VirtualService"],
};
