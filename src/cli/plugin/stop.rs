//! `pause --all` and `resume --all`: the ConfigMap by which an operator replaces nothing.
//!
//! Writes only through `kernel`. Must not touch another key of it.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt;
use kube::api::{Api, ListParams};
use serde_json::json;

use super::managed::Managed;
use super::paint::note;
use super::steer::{How, MANAGER, asked};
use super::{Cx, WELL};
use crate::cli::read::Reader;
use crate::k8s::source::source;
use crate::kernel::apply::{create, merge};
use crate::kernel::named::stops;
use crate::kernel::{Error, Reached};

const KEY: &str = "stop";

/// Stops everything, or ends the stop.
pub(super) async fn stop(cx: &Cx, how: &How, is_stop: bool) -> Result<u8, String> {
    let kind = cx.flags.kind.unwrap_or(Managed::Oneagent);
    let name = kind.operator();
    let reached = cx.reach().await?;
    let namespace = home(cx, &reached, kind).await?;
    let api: Api<ConfigMap> = Api::namespaced(reached.client.clone(), &namespace);
    let place = format!("ConfigMap {namespace}/{name}");
    let reader = Reader::of(&reached, name);
    // No role of the operator's has them: the ConfigMap is in its own namespace.
    let rights = format!("a Role in namespace {namespace} with get, create and patch of configmaps");
    let live = api.get_opt(name).await.map_err(|error| reader.failed(&format!("get {place}"), &error, &rights))?;
    let stopping = stopping(live.as_ref());
    if stopping.is_empty() != is_stop {
        say!("{place} says so already: nothing to do");
        return Ok(WELL);
    }
    let stop = BTreeMap::from([(KEY, Some("true"))]);
    let data = if is_stop { stop } else { stopping.into_iter().map(|key| (key, None)).collect() };
    let mut patch = json!({ "data": data });
    match live {
        None => say!("kubectl -n {namespace} create configmap {name} --from-literal={KEY}=true"),
        Some(_) => say!("kubectl -n {namespace} patch configmap {name} --type=merge -p '{patch}'"),
    }
    if let Some(source) = live.as_ref().and_then(|live| source(&live.metadata)) {
        note(&format!("note: {source} manages {place} and may revert this: change it there, too"));
    }
    if how.dry_run {
        return Ok(WELL);
    }
    if !is_stop && !asked("Pods that wait are replaced as soon as the operator continues", how)? {
        say!("nothing was changed");
        return Ok(WELL);
    }
    let new = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name, "namespace": namespace },
        "data": { KEY: "true" } });
    // Of exactly the object that was read.
    if let Some(live) = &live {
        patch["metadata"] = json!({ "resourceVersion": live.metadata.resource_version });
    }
    let made = if live.is_none() { create(MANAGER, &api, &new).await } else { Ok(None) };
    let written = match made {
        Ok(None) => merge(MANAGER, &api, name, &patch).await.map(|_| ()),
        made => made.map(|_| ()),
    };
    written.map_err(|error| match error {
        error if error.is_conflict() => format!("{place} was changed meanwhile: repeat the verb"),
        Error::Api { source, .. } => reader.failed(&format!("write {place}"), &source, &rights),
        error => error.chain(),
    })?;
    say!("{place} was changed: {name} {}", if is_stop { "replaces nothing" } else { "continues" });
    Ok(WELL)
}

/// The keys by which a ConfigMap stops everything, as the operator reads them: any value but false, however either is
/// spelled.
fn stopping(map: Option<&ConfigMap>) -> Vec<&str> {
    let data = map.and_then(|map| map.data.as_ref()).into_iter().flatten();
    data.filter(|(key, value)| stops(key, value)).map(|(key, _)| key.as_str()).collect()
}

/// The namespace of the operator: that of its Lease.
async fn home(cx: &Cx, reached: &Reached, kind: Managed) -> Result<String, String> {
    let name = kind.operator();
    let leases: Api<Lease> = Api::all(reached.client.clone());
    let found = leases.list(&ListParams::default().fields(&format!("metadata.name={name}"))).await;
    let found = found.map_err(|error| Reader::of(reached, name).unanswered("list leases", &error))?;
    let homes: BTreeSet<String> = found.items.iter().filter_map(ResourceExt::namespace).collect();
    let all: Vec<String> = homes.into_iter().collect();
    if let Some(named) = &cx.flags.namespace {
        let is_home = all.contains(named);
        return if is_home { Ok(named.clone()) } else { Err(format!("no {name} runs in {named}: {}", known(&all))) };
    }
    match all.as_slice() {
        [one] => Ok(one.clone()),
        [] => Err(format!("no {name} was found in the cluster: its Lease is in no namespace")),
        several => Err(format!("{name} runs in {}: name one with -n", several.join(" and "))),
    }
}

/// Where there is an operator.
fn known(homes: &[String]) -> String {
    if homes.is_empty() {
        "its Lease is in no namespace".to_owned()
    } else {
        format!("it runs in {}", homes.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stops_the_operator_is_what_is_removed() {
        let data = [("stop", "yes"), ("STOP", "1"), ("Stop", " False "), ("other", "true")];
        let data = data.map(|(key, value)| (key.to_owned(), value.to_owned()));
        let map = ConfigMap { data: Some(data.into()), ..ConfigMap::default() };
        assert_eq!(stopping(Some(&map)), ["STOP", "stop"]);
        assert_eq!(stopping(None), [] as [&str; 0]);
    }
}
