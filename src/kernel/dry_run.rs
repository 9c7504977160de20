//! Dry runs: what the API server would make of an object of a file, defaults and admission included.
//!
//! Here because only the kernel sends what could be a write. Must not send anything without `dryRun`.

use std::fmt::Debug;

use kube::Resource;
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// What `live` would become by this object: `applier` is the field manager that applies it server-side, so that what
/// the object lacks is removed; without one, the object takes the place of the live one.
#[expect(clippy::disallowed_methods, reason = "a dry run, of which the API server stores nothing")]
pub async fn dry_run<K>(api: &Api<K>, live: &K, wanted: &Value, applier: Option<&str>) -> Result<K, kube::Error>
where
    K: Resource + Serialize + DeserializeOwned + Clone + Debug,
{
    let (name, version) = (live.meta().name.clone().unwrap_or_default(), live.meta().resource_version.clone());
    if let Some(manager) = applier {
        let params = PatchParams { dry_run: true, ..PatchParams::apply(manager).force() };
        return api.patch(&name, &params, &Patch::Apply(wanted)).await;
    }
    let mut object: K = serde_json::from_value(wanted.clone()).map_err(kube::Error::SerdeError)?;
    object.meta_mut().resource_version = version;
    api.replace(&name, &PostParams { dry_run: true, ..PostParams::default() }, &object).await
}
