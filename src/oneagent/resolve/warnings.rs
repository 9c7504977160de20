//! What a spec may say, and should not.
//!
//! Pure. Must not refuse anything.

use super::{Wish, text};
use crate::api::name::VersionWish;
use crate::api::oneagent::OneAgentSpec;

/// What is allowed but unwise.
pub(super) fn warnings(spec: &OneAgentSpec, wait: i64, wish: Wish) -> Vec<String> {
    let mut warnings = Vec::new();
    let mut names: Vec<&str> = spec.env.iter().flatten().map(|entry| entry.name.as_str()).collect();
    names.sort_unstable();
    if let Some((twice, _)) = names.iter().zip(names.iter().skip(1)).find(|(one, next)| one == next) {
        warnings.push(format!("spec.env names {twice} twice: the last one counts; remove the other"));
    }
    if spec.use_immutable_image != Some(true)
        && let Some(text) = text(spec.agent_version.as_ref()).filter(|text| text.parse::<VersionWish>().is_err())
    {
        warnings.push(format!(
            "spec.agentVersion is {text:?}, which is no version, and is ignored, as the original did; use \
            major.minor.revision or all four parts"
        ));
    }
    if spec.webhook_injection == Some(true) {
        warnings.push(
            "spec.webhookInjection switches the agent's own injection into containers off, and this operator has no \
            webhook that would do it instead: processes in containers are not monitored unless another injects; set \
            it to false"
                .to_owned(),
        );
    }
    let cluster = spec.openshift.clone().unwrap_or_default();
    if cluster.cluster_proxy == Some(true)
        && spec.proxy.as_ref().is_some_and(|proxy| text(proxy.value.as_ref().or(proxy.value_from.as_ref())).is_some())
    {
        warnings.push("spec.openshift.clusterProxy does nothing beside spec.proxy: remove one of them".to_owned());
    }
    if cluster.cluster_cas == Some(true) && text(spec.trusted_cas.as_ref()).is_some() {
        warnings.push("spec.openshift.clusterCAs does nothing beside spec.trustedCAs: remove one of them".to_owned());
    }
    if (1..90).contains(&wait) {
        warnings.push(format!(
            "spec.waitReadySeconds is {wait}: the agent's readiness is first looked at after 30 s, so below 90 good \
            agents may count as failed"
        ));
    }
    if spec.update.as_ref().is_some_and(|update| update.allow_downgrade == Some(true))
        && !matches!(wish, Wish::Pin { .. } | Wish::Image { .. })
    {
        warnings.push(
            "spec.update.allowDowngrade does nothing without spec.update.version or an image of your own: name \
                what to go back to"
                .to_owned(),
        );
    }
    warnings
}
