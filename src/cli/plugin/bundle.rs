//! `support-bundle`: what helps others to help, in one archive.
//!
//! An allow-list of fields: what is not named here is not in it. No Secret is read; environment, arguments, proxy,
//! annotations and managed fields are left out; free text is redacted. Lists what it holds before it writes. Must not
//! send it.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;
use k8s_openapi::api::core::v1::{Event, Pod};
use kube::ResourceExt;
use kube::api::{Api, ListParams, LogParams};
use serde_json::{Map, Value, json};

use super::live::{Judged, listed};
use super::managed::Managed;
use super::object::{Object, objects};
use super::paint::note;
use super::redact::Redactor;
use super::{Cx, WELL, version};
use crate::cli::read::Reader;
use crate::fleet::cells::Cell;
use crate::kernel::{Reached, review};

/// Arguments of `support-bundle`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// File to write, or - for standard output. Default: oneagent-support.tar.gz.
    #[arg(short, long)]
    file: Option<PathBuf>,
    /// Replace the names of nodes and namespaces with other names.
    #[arg(long)]
    anonymize: bool,
    /// List the content, and write nothing.
    #[arg(long)]
    dry_run: bool,
}

/// So many nodes are explained, and so many lines of a log kept.
const NODES: usize = 200;
const LINES: i64 = 2_000;

/// Fields of a spec that hold no text of people's own. `blackouts` have a reason, which is redacted like all of it.
const SPEC: &[&str] = &[
    "nodeSelector",
    "tolerations",
    "waitReadySeconds",
    "agentVersion",
    "disableAgentUpdate",
    "useImmutableImage",
    "useUnprivilegedMode",
    "skipCertCheck",
    "enableIstio",
    "networkZone",
    "update",
    "rollout",
    "openshift",
    "daemonSet",
    "acceptOwner",
    "ignore",
    "debounceSeconds",
];
const STATUS: &[&str] = &[
    "observedGeneration",
    "operatorNamespace",
    "version",
    "desiredVersion",
    "versionSource",
    "lastGoodVersion",
    "rejectedVersions",
    "conditions",
    "nodes",
    "rollout",
    "daemonSet",
];
const METADATA: &[&str] = &["name", "namespace", "uid", "generation", "creationTimestamp", "deletionTimestamp"];

/// Some fields of an object.
fn some(of: &Value, fields: &[&str]) -> Value {
    let there = fields.iter().filter(|field| !of[**field].is_null());
    Value::Object(there.map(|field| ((*field).to_owned(), of[*field].clone())).collect::<Map<_, _>>())
}

/// A file of the archive.
type Part = (String, String);

pub(super) async fn bundle(cx: &Cx, args: &Args) -> Result<u8, String> {
    let reached = cx.reach().await?;
    let found = objects(cx, &reached, None).await?;
    let mut redactor = Redactor::default();
    let mut parts: Vec<Part> = Vec::new();
    let (mut nodes, mut namespaces) = (BTreeSet::new(), BTreeSet::new());
    for object in &found {
        namespaces.insert(object.namespace());
        redactor.hide(&serde_json::to_value(&object.whole).unwrap_or_default());
        parts.push(of_object(object)?);
        let fleet = listed(&reached, object).await?;
        nodes.extend(fleet.nodes.iter().map(ResourceExt::name_any));
        // Nodes that left are still named.
        nodes.extend(fleet.pods.iter().filter_map(|pod| pod.node().map(str::to_owned)));
        remembered(&object.whole.data["status"], &mut nodes);
        for set in &fleet.sets {
            redactor.hide(&serde_json::to_value(set).unwrap_or_default());
        }
        parts.extend(of_fleet(cx, object, &Judged::of(fleet, object)));
    }
    let kinds: BTreeSet<&str> = found.iter().map(|object| object.kind.operator()).collect();
    for operator in kinds {
        parts.push(of_operator(&reached, operator, &mut namespaces).await?);
    }
    for namespace in &namespaces {
        parts.push((format!("events/{namespace}/events.json"), events(&reached, namespace).await));
        parts.push((format!("rights/{namespace}/rights.json"), rights(&reached, namespace).await));
    }
    let operators = match version::operators(cx).await {
        Ok(operators) => {
            namespaces.extend(operators.iter().map(|operator| operator.namespace.clone()));
            json!(operators)
        }
        Err(why) => json!(format!("not collected: {why}")),
    };
    let versions = json!({ "client": env!("CARGO_PKG_VERSION"), "operators": operators });
    parts.push(("versions.json".to_owned(), pretty(&versions)));
    let names = found.iter().map(Object::name).chain(nodes.iter().cloned()).chain(namespaces.iter().cloned());
    let names: Vec<String> = names.collect();
    let kinds = [Managed::Oneagent, Managed::Daemonsetrollout, Managed::Configwatcher];
    redactor
        .keep(names.iter().map(String::as_str).chain(kinds.iter().flat_map(|kind| [kind.typed(), kind.operator()])));
    if args.anonymize {
        redactor.rename("node", nodes);
        redactor.rename("namespace", namespaces);
    }
    for (name, text) in &mut parts {
        (*name, *text) = (redactor.text(name), redactor.text(text));
    }
    parts.sort();
    let path = args.file.clone().unwrap_or_else(|| PathBuf::from("oneagent-support.tar.gz"));
    let is_stdout = path.as_os_str() == "-" && !args.dry_run;
    let mut content = String::new();
    for (name, text) in &parts {
        let _ = write!(content, "\n  {name} ({} bytes)", text.len());
    }
    if is_stdout {
        note(&format!("it holds:{content}"));
        let packed = packed(std::io::stdout().lock(), &parts);
        return packed.map(|_| WELL).map_err(|error| format!("cannot write to standard output: {error}"));
    }
    say!("it holds:{content}");
    if args.dry_run {
        return Ok(WELL);
    }
    written(&path, &parts).map_err(|error| format!("cannot write {}: {error}", path.display()))?;
    say!("written to {}; read it before you send it", path.display());
    Ok(WELL)
}

fn of_object(object: &Object) -> Result<Part, String> {
    let whole = serde_json::to_value(&object.whole).map_err(|error| error.to_string())?;
    let kept = json!({ "kind": object.kind.name(), "metadata": some(&whole["metadata"], METADATA),
        "spec": some(&whole["spec"], SPEC), "status": some(&whole["status"], STATUS) });
    let name = format!("objects/{}/{}/{}.json", object.kind.typed(), object.namespace(), object.name());
    Ok((name, pretty(&kept)))
}

/// Fields of a status that name nodes, in a list or as keys.
const NAMING: &[&str] =
    &["node", "nodes", "place", "places", "away", "closed", "broken", "lacking", "flapping", "examples"];

/// The nodes that a status names.
fn remembered(status: &Value, nodes: &mut BTreeSet<String>) {
    match status {
        Value::Array(all) => all.iter().for_each(|one| remembered(one, nodes)),
        Value::Object(fields) => {
            for (field, value) in fields {
                match value {
                    _ if !NAMING.contains(&&**field) => remembered(value, nodes),
                    Value::String(name) => _ = nodes.insert(name.clone()),
                    Value::Array(all) => {
                        nodes.extend(all.iter().filter_map(Value::as_str).map(str::to_owned));
                        remembered(value, nodes);
                    }
                    // Of each cause some.
                    Value::Object(all) if field == "examples" => {
                        let names = all.values().filter_map(Value::as_array).flatten().filter_map(Value::as_str);
                        // Some say the cause behind the name.
                        nodes.extend(names.filter_map(|name| name.split(" (").next()).map(str::to_owned));
                    }
                    // What `nodes` counts is no name.
                    Value::Object(_) if field == "nodes" => remembered(value, nodes),
                    Value::Object(all) => nodes.extend(all.keys().cloned()),
                    _ => {}
                }
            }
        }
        _ => {}
    }
}

/// Why each node has no Pod that has none.
fn of_fleet(cx: &Cx, object: &Object, judged: &Judged) -> Vec<Part> {
    let now = cx.clock.now();
    let looks = judged.looks(now);
    let mut text = String::new();
    let without = looks.iter().filter(|look| matches!(Cell::of(look), Cell::Failing | Cell::Missing | Cell::Starting));
    let left = without.clone().count().saturating_sub(NODES);
    for look in without.take(NODES) {
        if let Some(finding) = judged.node(&look.name, now) {
            let _ = writeln!(text, "{}: {}", look.name, finding.what);
        }
    }
    if left > 0 {
        let _ = writeln!(text, "and {left} more nodes");
    }
    let name = format!("explain/{}/{}/{}.txt", object.kind.typed(), object.namespace(), object.name());
    vec![(name, if text.is_empty() { "every node that can run a Pod has an available one\n".to_owned() } else { text })]
}

/// What the operator printed, as far as that may be read.
async fn of_operator(reached: &Reached, operator: &str, namespaces: &mut BTreeSet<String>) -> Result<Part, String> {
    let labelled = ListParams::default().labels(&format!("app.kubernetes.io/name={operator}"));
    let all: Api<Pod> = Api::all(reached.client.clone());
    let mut text = String::new();
    let pods = match all.list(&labelled).await {
        Ok(list) => list.items,
        Err(error) => {
            text = format!("not collected: {}\n", crate::kernel::chain(&error));
            Vec::new()
        }
    };
    for pod in pods {
        let namespace = pod.namespace().unwrap_or_default();
        let api: Api<Pod> = Api::namespaced(reached.client.clone(), &namespace);
        let params = LogParams { tail_lines: Some(LINES), ..LogParams::default() };
        let log = api.logs(&pod.name_any(), &params).await;
        text += &log.unwrap_or_else(|error| format!("not collected: {}\n", crate::kernel::chain(&error)));
        namespaces.insert(namespace);
    }
    Ok((format!("logs/{operator}.txt"), text))
}

/// The Events of a namespace about what we make.
async fn events(reached: &Reached, namespace: &str) -> String {
    let kinds = ["OneAgent", "DaemonSetRollout", "ConfigWatcher", "DaemonSet", "Pod"];
    let reader = Reader::of(reached, Managed::Oneagent.operator());
    let found = match reader.within::<Event>(Some(namespace), "events", "").await {
        Ok(found) => found,
        Err(why) => return format!("not collected: {why}\n"),
    };
    let is_ours = |event: &&Event| event.involved_object.kind.as_deref().is_some_and(|kind| kinds.contains(&kind));
    let kept = |event: &Event| {
        let about = &event.involved_object;
        json!({ "type": event.type_, "reason": event.reason, "message": event.message, "count": event.count,
            "last": event.last_timestamp, "at": event.event_time, "kind": about.kind, "name": about.name })
    };
    pretty(&Value::Array(found.iter().filter(is_ours).map(kept).collect()))
}

/// What the caller may do there.
async fn rights(reached: &Reached, namespace: &str) -> String {
    match review::rules(&reached.client, namespace).await {
        Ok(rules) => pretty(&rules),
        Err(error) => format!("not collected: {}\n", error.chain()),
    }
}

fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap_or_default() + "\n"
}

/// Writes a file that only its owner can read.
fn written(path: &Path, parts: &[Part]) -> std::io::Result<()> {
    let mut options = File::options();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let file = options.open(path)?;
    // One that was there keeps its mode otherwise.
    #[cfg(unix)]
    file.set_permissions(std::os::unix::fs::PermissionsExt::from_mode(0o600))?;
    packed(file, parts)?.sync_all()
}

fn packed<W: Write>(to: W, parts: &[Part]) -> std::io::Result<W> {
    let mut archive = tar::Builder::new(GzEncoder::new(to, Compression::default()));
    for (name, text) in parts {
        let mut header = tar::Header::new_gnu();
        header.set_size(text.len() as u64);
        header.set_mode(0o600);
        archive.append_data(&mut header, format!("oneagent-support/{name}"), text.as_bytes())?;
    }
    archive.into_inner()?.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_that_a_status_names_are_known_and_nothing_else() {
        let status = json!({
            "nodes": { "selected": 3, "examples": { "taint": ["a (key=value:NoSchedule)"] },
                "withoutAgent": [{ "node": "b", "cause": "x" }] },
            "rollout": { "state": "Failed", "failure": { "message": "m", "nodes": ["c"] },
                "memory": { "touched": { "away": { "d": 7 }, "broken": ["e"], "lacking": { "f": 1 } },
                    "back": { "place": "g" } } },
        });
        let mut nodes = BTreeSet::new();
        remembered(&status, &mut nodes);
        assert_eq!(nodes.into_iter().collect::<Vec<_>>(), ["a", "b", "c", "d", "e", "f", "g"]);
    }
}
