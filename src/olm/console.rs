//! What the OpenShift console shows beside the bundle: samples, a tour, a link, a dashboard.
//!
//! Pure. Not in the bundle: the console is an optional part of OpenShift, and OLM refuses an installation with a kind
//! that the cluster does not have. Must not say anything that the package's row does not.

use base64::Engine as _;
use serde_json::{Value, json};

use super::csv::ICON;
use super::manifests::{Error, File, yaml};
use super::publisher::Publisher;
use crate::api::package::{Kind, Package, Panel, Sample, Step};

/// The files of a package: for the console, and the dashboard for Grafana.
pub fn console(package: &Package, publisher: &Publisher) -> Result<Vec<File>, Error> {
    let file = |name: &str, content: String| File { path: format!("config/{}/{name}", package.name), content };
    let mut objects: Vec<Value> =
        package.samples.iter().map(|sample| yaml_sample(package, sample)).collect::<Result<_, _>>()?;
    let docs = publisher.page(package.docs);
    objects.extend([tour(package, &docs), link(package, &docs), board(package)?]);
    let grafana = serde_json::to_string_pretty(&grafana(package))?;
    Ok(vec![file("console.yaml", yaml(&objects)?), file("grafana-dashboard.json", format!("{grafana}\n"))])
}

fn object(kind: &str, name: &str, spec: &Value) -> Value {
    json!({ "apiVersion": "console.openshift.io/v1", "kind": kind, "metadata": { "name": name }, "spec": spec })
}

/// A sample beside the YAML view. Its description is its own comment.
fn yaml_sample(package: &Package, sample: &Sample) -> Result<Value, Error> {
    let parsed: Value = serde_yaml::from_str(sample.yaml)?;
    let comment: Vec<&str> = sample.yaml.lines().map_while(|line| line.strip_prefix("# ")).collect();
    let about = comment.first().copied().unwrap_or(package.texts.sentence);
    let name = sample.file.trim_end_matches(".yaml");
    let target = json!({ "apiVersion": parsed["apiVersion"], "kind": parsed["kind"] });
    let spec = json!({ "targetResource": target, "title": sample.title, "description": about, "yaml": sample.yaml });
    Ok(object("ConsoleYAMLSample", name, &spec))
}

fn tour(package: &Package, docs: &str) -> Value {
    let texts = &package.texts;
    let kind: &Kind = &package.kinds[0];
    let task = |step: &Step| {
        json!({ "title": step.title, "description": step.how,
            "review": { "instructions": step.review, "failedTaskHelp": step.help },
            "summary": { "success": "Done.", "failed": "Try the step again." } })
    };
    let icon = base64::engine::general_purpose::STANDARD.encode(ICON);
    let spec = json!({
        "displayName": format!("Get started with {}", texts.title),
        "icon": format!("data:image/svg+xml;base64,{icon}"),
        "durationMinutes": 10,
        "description": texts.sentence,
        "introduction": texts.sentence,
        "tasks": texts.tour.iter().map(task).collect::<Vec<_>>(),
        "conclusion": format!("For more, see the [documentation]({docs})."),
        // Hidden from those who could not do it.
        "accessReviewResources": [{ "group": kind.group, "resource": kind.plural, "verb": "create" }],
    });
    object("ConsoleQuickStart", package.name, &spec)
}

fn link(package: &Package, docs: &str) -> Value {
    let spec = json!({ "text": format!("{} documentation", package.texts.title), "href": docs,
        "location": "HelpMenu" });
    object("ConsoleLink", package.name, &spec)
}

/// A dashboard as OpenShift's console reads it: rows and graphs, as Grafana had them before version 7.
fn board(package: &Package) -> Result<Value, Error> {
    let graph = |panel: &Panel| {
        json!({ "type": "graph", "title": panel.title, "span": 6,
            "yaxes": [{ "format": panel.unit }, {}],
            "targets": [{ "expr": panel.expr, "legendFormat": panel.legend, "refId": "A" }] })
    };
    let rows: Vec<Value> =
        package.panels.chunks(2).map(|pair| json!({ "panels": pair.iter().map(graph).collect::<Vec<_>>() })).collect();
    let text = json!({ "title": package.texts.title, "uid": package.name, "tags": [], "rows": rows,
        "templating": { "list": [] }, "time": { "from": "now-6h", "to": "now" } });
    Ok(json!({ "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": { "name": format!("{}-dashboard", package.name), "namespace": "openshift-config-managed",
            "labels": { "console.openshift.io/dashboard": "true" } },
        "data": { format!("{}.json", package.name): serde_json::to_string_pretty(&text)? } }))
}

/// The same for Grafana itself.
fn grafana(package: &Package) -> Value {
    let source = json!({ "type": "prometheus", "uid": "${datasource}" });
    let panel = |(at, panel): (usize, &Panel)| {
        json!({ "id": at + 1, "type": "timeseries", "title": panel.title, "datasource": source,
            "gridPos": { "h": 8, "w": 12, "x": 12 * (at % 2), "y": 8 * (at / 2) },
            "fieldConfig": { "defaults": { "unit": panel.unit, "min": 0 }, "overrides": [] },
            "targets": [{ "refId": "A", "datasource": source, "expr": panel.expr, "legendFormat": panel.legend }] })
    };
    json!({ "title": package.texts.title, "uid": package.name, "schemaVersion": 39, "tags": [],
        "time": { "from": "now-6h", "to": "now" }, "refresh": "1m",
        "templating": { "list": [{ "name": "datasource", "type": "datasource", "query": "prometheus" }] },
        "panels": package.panels.iter().enumerate().map(panel).collect::<Vec<_>>() })
}
