//! `lint`: what the API server and the operators would refuse of files, and what looks wrong in them. Needs no cluster.
//!
//! Reads files only. Must not know what a field means: that is said by the schema and by each kind's `resolve`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use chrono::TimeDelta;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{ACT, Cx, WELL};
use crate::api::PACKAGES;
use crate::api::nearest::nearest;
use crate::cli::read::objects;
use crate::cli::schema;
use crate::rollout::{Calendar, Policy, Share};
use crate::{config_watcher, daemonset_rollout, jmx_exporter, manager, oneagent};

/// What was found.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Finding {
    file: String,
    object: String,
    /// error: it would be refused; warning: it looks wrong.
    level: &'static str,
    message: String,
}

pub(super) fn lint(cx: &Cx, paths: &[PathBuf]) -> Result<u8, String> {
    let mut files = Vec::new();
    for path in paths {
        let is_input = path.as_os_str() == "-";
        if let Some(error) = path.metadata().err().filter(|_| !is_input) {
            return Err(format!("cannot read {}: {error}", path.display()));
        }
        gather(path, &mut files)?;
    }
    let mut kinds = BTreeSet::new();
    let mut found = Vec::new();
    let mut selectors = Vec::new();
    let mut checked = 0;
    for file in &files {
        match objects(file) {
            Ok(all) => {
                for object in all {
                    kinds.extend(object["kind"].as_str().map(str::to_owned));
                    checked += usize::from(of_object(file, &object, &mut found, &mut selectors));
                }
            }
            // The others are read all the same.
            Err(message) => {
                let file = file.display().to_string();
                found.push(Finding { file, object: "the file".to_owned(), level: "error", message });
            }
        }
    }
    if checked == 0 && found.is_empty() {
        let kinds: Vec<String> = kinds.into_iter().collect();
        let found = if kinds.is_empty() { "no object".to_owned() } else { kinds.join(", ") };
        let ours: Vec<&str> = PACKAGES.iter().flat_map(|package| package.kinds).map(|kind| kind.name).collect();
        return Err(format!("found {found} in {} files, and no {}", files.len(), ours.join(", ")));
    }
    overlaps(&selectors, &mut found);
    if !cx.data(&found)? {
        for Finding { file, object, level, message } in &found {
            say!("{file}: {level}: {object}: {message}");
        }
        let errors = found.iter().filter(|finding| finding.level == "error").count();
        say!("{checked} objects, {errors} errors, {} warnings", found.len() - errors);
    }
    Ok(if found.iter().any(|finding| finding.level == "error") { ACT } else { WELL })
}

/// The files below a path, by name.
fn gather(path: &Path, files: &mut Vec<PathBuf>) -> Result<(), String> {
    if !path.is_dir() {
        files.push(path.to_owned());
        return Ok(());
    }
    let unread = |error: std::io::Error| format!("cannot read {}: {error}", path.display());
    let entries: Result<Vec<PathBuf>, _> =
        std::fs::read_dir(path).map_err(unread)?.map(|entry| entry.map(|entry| entry.path())).collect();
    let mut entries = entries.map_err(unread)?;
    entries.sort();
    for entry in entries {
        let is_read = entry.extension().is_some_and(|end| ["yaml", "yml", "json"].iter().any(|known| end == *known));
        if entry.is_dir() || is_read {
            gather(&entry, files)?;
        }
    }
    Ok(())
}

/// So many objects are named in one warning.
const NAMED: usize = 2;

/// Where a OneAgent is, and what it selects.
type Selector = (String, String, BTreeMap<String, String>);

/// What there is to say of an object; returns whether it is one of ours.
fn of_object(file: &Path, object: &Value, found: &mut Vec<Finding>, selectors: &mut Vec<Selector>) -> bool {
    let kind = object["kind"].as_str().unwrap_or_default();
    let group = object["apiVersion"].as_str().unwrap_or_default().split('/').next().unwrap_or_default();
    let mut kinds = PACKAGES.iter().flat_map(|package| package.kinds);
    let file = file.display().to_string();
    let Some(known) = kinds.find(|known| known.name == kind && known.group == group) else {
        let of_group = PACKAGES.iter().flat_map(|package| package.kinds).filter(|known| known.group == group);
        let names: Vec<&str> = of_group.map(|known| known.name).collect();
        if !names.is_empty() {
            let message = format!("{group} has no kind {kind}{}", nearest(kind, &names));
            found.push(Finding { file, object: kind.to_owned(), level: "error", message });
        }
        return !names.is_empty();
    };
    let crd = (known.crd)();
    let metadata = &object["metadata"];
    let place = metadata["namespace"].as_str().map(|namespace| format!("{namespace}/")).unwrap_or_default();
    let name = format!("{kind} {place}{}", metadata["name"].as_str().unwrap_or("without a name"));
    let mut say = |level: &'static str, message: String| {
        found.push(Finding { file: file.clone(), object: name.clone(), level, message });
    };
    let (errors, policy) = read(&crd, object);
    for error in errors {
        say("error", error);
    }
    if let Some(policy) = policy {
        for warning in warnings(&policy, object) {
            say("warning", warning);
        }
    }
    if kind == "OneAgent" {
        let selector = serde_json::from_value(object["spec"]["nodeSelector"].clone()).unwrap_or_default();
        selectors.push((file, name, selector));
    }
    true
}

/// Why an object would be refused; and its policy, if it has one that makes sense.
fn read(crd: &CustomResourceDefinition, object: &Value) -> (Vec<String>, Option<Policy>) {
    let refusals = schema::refusals(crd, object);
    if !refusals.is_empty() {
        return (refusals, None);
    }
    let resolved = match crd.spec.names.kind.as_str() {
        "OneAgent" => {
            let resolved = typed(object).and_then(|agent| {
                let refusals = |all: Vec<oneagent::resolve::Refusal>| {
                    all.into_iter().map(|one| one.0).collect::<Vec<_>>().join("; ")
                };
                oneagent::resolve::resolve(&agent).map_err(refusals)
            });
            resolved.map(|resolved| Some(resolved.policy))
        }
        "DaemonSetRollout" => typed(object)
            .and_then(|rollout| daemonset_rollout::resolve::resolve(&rollout))
            .map(|resolved| Some(resolved.policy)),
        "ConfigWatcher" => typed(object).and_then(|watcher| config_watcher::resolve::resolve(&watcher)).map(|_| None),
        "PrometheusJmxExporter" => typed(object).and_then(|one| jmx_exporter::resolve::resolve(&one)).map(|_| None),
        _ => typed(object).and_then(|one| manager::resolve::resolve(&one)).map(|_| None),
    };
    match resolved {
        Ok(policy) => (Vec::new(), policy),
        Err(why) => (vec![why], None),
    }
}

fn typed<K: DeserializeOwned>(object: &Value) -> Result<K, String> {
    serde_json::from_value(object.clone()).map_err(|error| error.to_string())
}

/// Consequences of a policy that are rarely intended.
fn warnings(policy: &Policy, object: &Value) -> Vec<String> {
    let mut said = Vec::new();
    let longest = longest(&object["spec"]["rollout"]["windows"]);
    if let Some(longest) = longest.filter(|longest| *longest < policy.wait_ready) {
        said.push(format!(
            "spec.rollout.windows: no window is as long as one replacement may take ({} min of waitReadySeconds {})",
            longest.num_minutes(),
            policy.wait_ready.num_seconds()
        ));
    }
    let soak = policy.canary.as_ref().map(|canary| canary.soak);
    if let (Some(longest), Some(soak)) = (longest, soak.filter(|soak| longest.is_some_and(|longest| *soak >= longest)))
    {
        said.push(format!(
            "spec.rollout.canary.soak: {} min are longer than every window ({} min): others follow in a later one",
            soak.num_minutes(),
            longest.num_minutes()
        ));
    }
    if matches!(policy.budget, Share::Percent(100)) {
        said.push("spec.rollout.maxUnavailable: 100% lets every node be without an agent at once".to_owned());
    }
    if policy.calendar != Calendar::default() && policy.hold.is_some() {
        said.push("spec.rollout.paused: while it is true no window opens".to_owned());
    }
    said
}

/// How long the longest window is.
fn longest(windows: &Value) -> Option<TimeDelta> {
    let length = |window: &Value| {
        let text = window["duration"].as_str()?;
        let (mut minutes, mut digits) = (0, String::new());
        for c in text.chars() {
            match c {
                'h' => minutes += 60 * std::mem::take(&mut digits).parse::<i64>().ok()?,
                'm' => minutes += std::mem::take(&mut digits).parse::<i64>().ok()?,
                digit => digits.push(digit),
            }
        }
        TimeDelta::try_minutes(minutes)
    };
    windows.as_array()?.iter().filter_map(length).max()
}

/// OneAgents whose node selectors contradict one another in nothing: of each, those before it.
fn overlaps(selectors: &[Selector], found: &mut Vec<Finding>) {
    for (at, (file, name, selector)) in selectors.iter().enumerate() {
        let is_apart = |others: &BTreeMap<String, String>| {
            selector.iter().any(|(key, value)| others.get(key).is_some_and(|other| other != value))
        };
        let met = selectors[..at].iter().filter(|(_, other, others)| !is_apart(others) && name != other);
        let met: Vec<&str> = met.map(|(_, other, _)| other.as_str()).collect();
        if met.is_empty() {
            continue;
        }
        let more = if met.len() > NAMED { format!(" and of {} more", met.len() - NAMED) } else { String::new() };
        let named = met[..met.len().min(NAMED)].join(", of ");
        let message = format!(
            "spec.nodeSelector may select nodes of {named}{more}, too: of those that select a node the oldest keeps it"
        );
        found.push(Finding { file: file.clone(), object: name.clone(), level: "warning", message });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn said(objects: &[Value]) -> Vec<(&'static str, String)> {
        let (mut found, mut selectors) = (Vec::new(), Vec::new());
        for object in objects {
            assert!(of_object(Path::new("f.yaml"), object, &mut found, &mut selectors));
        }
        overlaps(&selectors, &mut found);
        found.into_iter().map(|finding| (finding.level, finding.message)).collect()
    }

    fn agent(name: &str, spec: &Value) -> Value {
        let mut whole = json!({ "apiUrl": "https://x.example/api" });
        for (key, value) in spec.as_object().unwrap() {
            whole[key] = value.clone();
        }
        let metadata = json!({ "name": name });
        json!({ "apiVersion": "dynatrace.com/v1alpha1", "kind": "OneAgent", "metadata": metadata, "spec": whole })
    }

    #[test]
    fn what_would_be_refused_and_what_looks_wrong_is_said_with_its_field() {
        assert_eq!(said(&[agent("a", &json!({}))]), []);
        let one = |spec: Value| said(&[agent("a", &spec)]).into_iter().next().unwrap();
        let (level, message) = one(json!({ "nodeSelectr": {} }));
        assert!(level == "error" && message.contains("nodeSelectr"), "{message}");
        let window = json!([{ "start": "02:00", "duration": "4m" }]);
        let (level, message) = one(json!({ "rollout": { "windows": window } }));
        assert!(level == "warning" && message.contains("no window is as long as one replacement"), "{message}");
        let window = json!([{ "start": "02:00", "duration": "4h" }]);
        let (level, message) = one(json!({ "rollout": { "windows": window, "canary": { "soak": "24h" } } }));
        assert!(level == "warning" && message.contains("1440 min are longer than every window (240 min)"), "{message}");
        let (level, message) = one(json!({ "rollout": { "maxUnavailable": "100%" } }));
        assert!(level == "warning" && message.contains("every node"), "{message}");
    }

    #[test]
    fn selectors_that_may_meet_are_said_and_those_that_cannot_are_not() {
        let with = |name: &str, labels: Value| agent(name, &json!({ "nodeSelector": labels }));
        let apart = [with("a", json!({ "pool": "x" })), with("b", json!({ "pool": "y" }))];
        assert_eq!(said(&apart), []);
        let meet = said(&[with("a", json!({ "pool": "x" })), with("b", json!({ "disk": "ssd" }))]);
        assert!(meet.len() == 1 && meet[0].1.contains("may select nodes of OneAgent a, too"), "{meet:?}");
    }
}
