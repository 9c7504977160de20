//! Which version a spec asks for.
//!
//! Pure. Must not know which versions there are.

use chrono::TimeDelta;
use k8s_openapi::api::core::v1::EnvVar;

use super::image::FromImage;
use super::{Refusal, SCRIPT_URL, Wish, text};
use crate::api::name::{Version, VersionWish};
use crate::api::oneagent::{OneAgentSpec, VersionSource};
use crate::fleet::policy::duration;
use crate::rollout::Policy;

pub(super) fn wish(
    spec: &OneAgentSpec,
    from_image: Option<&FromImage>,
    env: &[EnvVar],
    wrong: &mut Vec<Refusal>,
) -> Wish {
    let update = spec.update.clone().unwrap_or_default();
    let allow_downgrade = update.allow_downgrade == Some(true);
    let pin = text(update.version.as_ref()).map(|text| text.parse::<Version>());
    if let Some(image) = from_image.filter(|image| image.registry.is_none() || image.tag.is_some()) {
        return Wish::Image { version: image.tag.as_deref().and_then(|tag| tag.parse().ok()), allow_downgrade };
    }
    let agent_version = text(spec.agent_version.as_ref()).map(|text| text.parse::<VersionWish>());
    if let Some(Err(error)) = &pin {
        wrong.push(Refusal(format!("spec.update.version: {error}")));
    }
    let (pin, agent_version) = (pin.and_then(Result::ok), agent_version.and_then(Result::ok));
    match (pin, agent_version) {
        _ if from_image.is_none() && env.iter().any(|entry| entry.name == SCRIPT_URL) => Wish::UserUrl,
        (Some(version), Some(wish)) if !wish.admits(&version) => {
            wrong.push(Refusal(format!(
                "spec.update.version is {version} and spec.agentVersion contradicts it; remove spec.agentVersion"
            )));
            Wish::Newest
        }
        (Some(version), _) => Wish::Pin { version, allow_downgrade },
        (None, Some(wish)) => Wish::AgentVersion(wish),
        (None, None) => Wish::Newest,
    }
}

/// The ConfigMap that lists the versions, and its key; `None`: the environment says which there are.
pub(super) fn list(
    spec: &OneAgentSpec,
    from_image: Option<&FromImage>,
    wrong: &mut Vec<Refusal>,
) -> Option<(String, String)> {
    let update = spec.update.as_ref().filter(|update| update.source == Some(VersionSource::ConfigMap))?;
    let Some(name) = update.config_map.as_ref().and_then(|list| text(Some(&list.name))) else {
        wrong.push(Refusal("spec.update.source is ConfigMap; name it in spec.update.configMap.name".to_owned()));
        return None;
    };
    if from_image.is_some_and(|image| image.own_secret("").is_some()) {
        wrong.push(Refusal(
            "spec.update.source is ConfigMap, so the environment is not asked, and the pull secret of its registry \
            cannot be made: name one in spec.customPullSecret"
                .to_owned(),
        ));
    }
    let key = update.config_map.as_ref().and_then(|list| text(list.key.as_ref()));
    Some((name, key.unwrap_or_else(|| "versions".to_owned())))
}

/// Hours, minutes and seconds; the CRD admits nothing else.
pub(super) fn minimum_age(spec: &OneAgentSpec, wrong: &mut Vec<Refusal>) -> TimeDelta {
    let written = spec.update.as_ref().and_then(|update| text(update.minimum_age.as_ref()));
    let Some(written) = written else { return TimeDelta::zero() };
    duration(&written).unwrap_or_else(|| {
        wrong.push(Refusal(format!(
            "spec.update.minimumAge is {written:?}; use hours, minutes and seconds, such as 48h or 1h30m"
        )));
        TimeDelta::zero()
    })
}

/// The version that a field of the rollout names.
pub(super) fn named(field: &str, written: Option<&String>, wrong: &mut Vec<Refusal>) -> Option<Version> {
    text(written)?.parse().map_err(|error| wrong.push(Refusal(format!("spec.rollout.{field}: {error}")))).ok()
}

/// Canaries that wait for a person who cannot name what they run.
pub(super) fn unnameable(wish: Wish, policy: &Policy) -> Option<Refusal> {
    let has_no_version = matches!(wish, Wish::UserUrl | Wish::Image { version: None, .. });
    let waits = policy.canary.is_some_and(|canary| canary.by_hand);
    (has_no_version && waits).then(|| {
        Refusal(
            "spec.rollout.canary.promotion is Manual, and neither the image's tag nor the installer's address names a \
            version that spec.rollout.promote could name: use a tag such as 1.301.72.20250601-101010, or promotion \
            Automatic"
                .to_owned(),
        )
    })
}
