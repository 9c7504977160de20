//! Alerts: each fires for what it is for and for nothing beside it, as Prometheus' own promtool evaluates them; about
//! metrics that are really exposed, with a section in the runbooks. Dashboards: of queries that Prometheus takes, about
//! the same metrics.

use std::collections::BTreeSet;
use std::process::Command;

use olm_tests::cluster::{objects, repository};
use olm_tests::eventually;
use olm_tests::images::said;
use olm_tests::lab::{Lab, SOON, V1, V2};
use olm_tests::tools::tool;
use oneagent_operator::api::PACKAGES;
use serde_json::{Value, json};

fn groups(package: &str) -> Value {
    let all = objects(&format!("config/{package}/monitoring.yaml"));
    all.into_iter().find(|o| o["kind"] == "PrometheusRule").unwrap()["spec"].clone()
}

/// Names that begin as our metrics do.
fn metrics(text: &str) -> BTreeSet<String> {
    text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
        .filter(|word| {
            ["oneagent_", "configwatcher_", "prometheusjmxexporter_", "manager_", "daemonsetrollout_"]
                .iter()
                .any(|kind| word.starts_with(kind))
        })
        .map(str::to_owned)
        .collect()
}

/// A series of one value for thirty hours.
fn series(name: &str, value: u32) -> Value {
    json!({ "series": name, "values": format!("{value}x1800") })
}

/// The queries of both dashboards of a package, which must be the same.
fn queries(package: &str) -> Vec<String> {
    fn exprs(value: &Value, found: &mut Vec<String>) {
        match value {
            Value::Object(map) => {
                found.extend(map.get("expr").and_then(Value::as_str).map(str::to_owned));
                map.values().for_each(|inner| exprs(inner, found));
            }
            Value::Array(list) => list.iter().for_each(|inner| exprs(inner, found)),
            _ => {}
        }
    }
    let of = |text: &str| {
        let mut found = Vec::new();
        exprs(&serde_json::from_str(text).unwrap(), &mut found);
        found
    };
    let console = objects(&format!("config/{package}/console.yaml"));
    let board = console.iter().find(|object| object["kind"] == "ConfigMap").unwrap();
    let ours = of(board["data"][format!("{package}.json")].as_str().unwrap());
    let grafana = std::fs::read_to_string(repository(&format!("config/{package}/grafana-dashboard.json"))).unwrap();
    assert_eq!(ours, of(&grafana));
    ours
}

#[test]
fn prometheus_takes_every_query_of_the_dashboards() {
    for package in PACKAGES {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("rules.yaml");
        let check = |queries: Vec<String>| {
            let rule = |(at, expr): (usize, String)| json!({ "record": format!("panel:{at}"), "expr": expr });
            let rules: Vec<Value> = queries.into_iter().enumerate().map(rule).collect();
            std::fs::write(&file, json!({ "groups": [{ "name": "panels", "rules": rules }] }).to_string()).unwrap();
            Command::new(tool("promtool")).args(["check", "rules"]).arg(&file).output().unwrap().status.success()
        };
        assert!(check(queries(package.name)), "{}", package.name);
        assert!(!check(vec!["sum by (state (oneagent_nodes)".into()]), "promtool is really asked");
    }
}

/// Which alert each series fires, when it is all there is beside an operator that acts; none for what needs no action.
/// Series after a semicolon are there as well, with the value 1.
const CASES: &[(&str, u32, Option<&str>)] = &[
    (
        "oneagent_condition{C=\"Progressing\",status=\"False\",reason=\"RolloutFailed\"}",
        1,
        Some("OneAgentRolloutFailed"),
    ),
    ("oneagent_condition{C=\"Degraded\",status=\"True\",reason=\"RolloutFailed\"}", 1, Some("OneAgentRolloutFailed")),
    (
        "oneagent_condition{C=\"Progressing\",status=\"True\",reason=\"AwaitingPromotion\"}",
        1,
        Some("OneAgentPromotionAwaited"),
    ),
    (
        "oneagent_condition{C=\"Degraded\",status=\"True\",reason=\"EnvironmentUnreachable\"}",
        1,
        Some("OneAgentEnvironmentUnreachable"),
    ),
    ("oneagent_condition{C=\"Degraded\",status=\"True\",reason=\"PodsRefused\"}", 1, Some("OneAgentPodsRefused")),
    ("oneagent_condition{C=\"Degraded\",status=\"True\",reason=\"InvalidSpec\"}", 1, Some("OneAgentNeedsAttention")),
    // As OpenShift's monitoring of user projects renames it.
    (
        "oneagent_condition{C=\"Degraded\",status=\"True\",reason=\"PodsRefused\",exported_namespace=\"theirs\"}",
        1,
        Some("OneAgentPodsRefused"),
    ),
    ("oneagent_condition{C=\"Degraded\",status=\"False\",reason=\"AsExpected\"}", 1, None),
    ("oneagent_condition{C=\"Ready\",status=\"False\",reason=\"RollingOut\"}", 1, None),
    ("oneagent_nodes{N,state=\"crash\"}", 2, Some("OneAgentNodesWithoutAgent")),
    ("oneagent_nodes{N,state=\"overdue\"}", 1, Some("OneAgentNodesWithoutAgent")),
    ("oneagent_nodes{N,state=\"crash\"}", 0, None),
    ("oneagent_nodes{N,state=\"nodeNotReady\"}", 3, None),
    ("oneagent_nodes{N,state=\"untolerated\"}", 3, None),
    ("oneagent_leader", 0, Some("OneAgentOperatorAway")),
    (
        "configwatcher_condition{C=\"Degraded\",status=\"True\",reason=\"RolloutFailed\"}",
        1,
        Some("ConfigWatcherRolloutFailed"),
    ),
    (
        "configwatcher_condition{C=\"Degraded\",status=\"True\",reason=\"InvalidSpec\"}",
        1,
        Some("ConfigWatcherNeedsAttention"),
    ),
    ("configwatcher_pods{N,state=\"blocked\"}", 2, Some("ConfigWatcherBlocked")),
    ("configwatcher_pods{N,state=\"outdated\"}", 2, None),
    ("configwatcher_leader", 0, Some("ConfigWatcherOperatorAway")),
    (
        "prometheusjmxexporter_condition{C=\"Degraded\",status=\"True\",reason=\"AttachHarmful\"}",
        1,
        Some("JmxAttachHarmful"),
    ),
    (
        "prometheusjmxexporter_condition{C=\"Degraded\",status=\"True\",reason=\"InvalidSpec\"}",
        1,
        Some("JmxNeedsAttention"),
    ),
    ("prometheusjmxexporter_jvms{N,state=\"selected\"}", 2, Some("JmxNobodyExports")),
    ("prometheusjmxexporter_jvms{N,state=\"selected\"}", 0, None),
    ("prometheusjmxexporter_jvms{N,state=\"exporting\"}", 2, None),
    ("prometheusjmxexporter_leader", 0, Some("JmxExporterOperatorAway")),
    ("manager_condition{C=\"Ready\",status=\"False\",reason=\"StandingUp\"}", 1, Some("StackNotReady")),
    ("manager_condition{C=\"Ready\",status=\"False\",reason=\"Held\"}", 1, None),
    ("manager_condition{C=\"Degraded\",status=\"True\",reason=\"NoNodes\"}", 1, Some("StackNeedsAttention")),
    ("manager_components{N,state=\"waiting\"}", 2, None),
    ("manager_leader", 0, Some("StackOperatorAway")),
    (
        "daemonsetrollout_condition{C=\"Degraded\",status=\"True\",reason=\"RolloutFailed\"}",
        1,
        Some("DaemonSetRolloutFailed"),
    ),
    (
        "daemonsetrollout_condition{C=\"Degraded\",status=\"True\",reason=\"RollbackRefused\"}",
        1,
        Some("DaemonSetRolloutFailed"),
    ),
    (
        "daemonsetrollout_condition{C=\"Degraded\",status=\"True\",reason=\"RollbackUndone\"}",
        1,
        Some("DaemonSetRollbackUndone"),
    ),
    (
        "daemonsetrollout_condition{C=\"Degraded\",status=\"True\",reason=\"RolledBack\"}",
        1,
        Some("DaemonSetRolloutNeedsAttention"),
    ),
    (
        "daemonsetrollout_condition{C=\"Degraded\",status=\"True\",reason=\"NotOnDelete\"}",
        1,
        Some("DaemonSetRolloutNotOnDelete"),
    ),
    (
        "daemonsetrollout_condition{C=\"Degraded\",status=\"True\",reason=\"TemplateUnstable\"}",
        1,
        Some("DaemonSetTemplateUnstable"),
    ),
    (
        "daemonsetrollout_condition{C=\"Progressing\",status=\"True\",reason=\"AwaitingPromotion\"}",
        1,
        Some("DaemonSetPromotionAwaited"),
    ),
    (
        "daemonsetrollout_condition{C=\"Degraded\",status=\"True\",reason=\"Duplicate\"}",
        1,
        Some("DaemonSetRolloutNeedsAttention"),
    ),
    ("daemonsetrollout_nodes{N,state=\"outdated\"}", 3, Some("DaemonSetPodsOutdated")),
    (
        "daemonsetrollout_nodes{N,state=\"outdated\"};\
        daemonsetrollout_condition{C=\"Progressing\",status=\"False\",reason=\"Paused\"};\
        daemonsetrollout_condition{C=\"Ready\",status=\"False\",reason=\"PodsUnavailable\"}",
        3,
        None,
    ),
    (
        "daemonsetrollout_nodes{N,state=\"outdated\"};\
        daemonsetrollout_condition{C=\"Progressing\",status=\"False\",reason=\"Stopped\"}",
        3,
        None,
    ),
    // Of OpenShift's monitoring, two objects of one name: a pause of the other one is none of this one's.
    (
        "daemonsetrollout_nodes{N,state=\"outdated\",exported_namespace=\"theirs\"};\
        daemonsetrollout_condition{C=\"Progressing\",reason=\"Paused\",exported_namespace=\"others\"}",
        3,
        Some("DaemonSetPodsOutdated"),
    ),
    ("daemonsetrollout_nodes{N,state=\"starting\"}", 3, None),
    ("daemonsetrollout_leader", 0, Some("DaemonSetRolloutOperatorAway")),
];

#[test]
fn each_alert_fires_for_its_cause_after_its_time_and_for_no_other() {
    let runbooks = std::fs::read_to_string(repository("docs/runbooks.md")).unwrap();
    for package in PACKAGES {
        let prefix = package.kinds[0].name.to_lowercase();
        let groups = groups(package.name);
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("rules.yaml"), groups.to_string()).unwrap();
        said(Command::new(tool("promtool")).args(["check", "rules"]).arg(folder.path().join("rules.yaml")));
        let rules = groups["groups"][0]["rules"].as_array().unwrap();
        let tried: BTreeSet<&str> = CASES.iter().filter_map(|(_, _, alert)| *alert).collect();
        let mut tests = Vec::new();
        for (at, value, alert) in CASES.iter().filter(|(at, _, _)| at.starts_with(&prefix)) {
            let labels = "namespace=\"ns\",name=\"one\"";
            let at = at.replace("{N", &format!("{{{labels}")).replace("{C=", &format!("{{{labels},condition="));
            let (at, others) = at.split_once(';').unwrap_or((&at, ""));
            let mut input = vec![series(at, *value)];
            input.extend(others.split_terminator(';').map(|other| series(other, 1)));
            if !at.contains("_leader") {
                input.push(series(&format!("{prefix}_leader"), 1));
            }
            let mut expected = Vec::new();
            for rule in rules {
                let name = rule["alert"].as_str().unwrap();
                // Just before its time nothing fires; at the end only what should.
                let minutes = match rule["for"].as_str().unwrap() {
                    "5m" => 5,
                    "15m" => 15,
                    "30m" => 30,
                    "1h" => 60,
                    "2h" => 120,
                    "24h" => 24 * 60,
                    other => panic!("{other}"),
                };
                expected.push(json!({ "eval_time": format!("{}m", minutes - 1), "alertname": name, "exp_alerts": [] }));
                let fires = *alert == Some(name);
                expected.push(json!({ "eval_time": "30h", "alertname": name,
                    "exp_alerts": if fires { vec![fired_as(rule, at, *value)] } else { Vec::new() } }));
            }
            tests.push(json!({ "interval": "1m", "input_series": input, "alert_rule_test": expected }));
        }
        for rule in rules {
            let name = rule["alert"].as_str().unwrap();
            assert!(tried.contains(name), "{name} has no case");
            assert!(runbooks.contains(&format!("\n## {name}\n")), "{name} has no section in the runbooks");
        }
        let file = folder.path().join("tests.yaml");
        let all = json!({ "rule_files": ["rules.yaml"], "evaluation_interval": "1m", "tests": tests });
        std::fs::write(&file, all.to_string()).unwrap();
        said(Command::new(tool("promtool")).args(["test", "rules"]).arg(&file));
    }
}

/// An alert as it fires for a series: its labels, and its sentence filled in.
fn fired_as(rule: &Value, series: &str, value: u32) -> Value {
    let mut labels = rule["labels"].clone();
    let mut summary = rule["annotations"]["summary"].as_str().unwrap().replace("{{ $value }}", &value.to_string());
    let quoted = |name: &str| {
        let found = series.split_once(&format!(",{name}=\"")).or_else(|| series.split_once(&format!("{{{name}=\"")));
        found.and_then(|(_, rest)| rest.split('"').next())
    };
    let of = "{{ or $labels.exported_namespace $labels.namespace }}";
    summary = summary.replace(of, quoted("exported_namespace").or(quoted("namespace")).unwrap_or_default());
    let expr = rule["expr"].as_str().unwrap();
    for name in ["namespace", "exported_namespace", "name", "reason"] {
        let by = expr.split_once("by (").and_then(|(_, rest)| rest.split(')').next()).unwrap_or_default();
        if let Some(text) = quoted(name).filter(|_| by.split(", ").any(|label| label == name)) {
            labels[name] = text.into();
            summary = summary.replace(&format!("{{{{ $labels.{name} }}}}"), text);
        }
    }
    json!({ "exp_labels": labels,
        "exp_annotations": { "summary": summary, "runbook_url": rule["annotations"]["runbook_url"] } })
}

#[test]
fn every_query_is_about_metrics_that_are_exposed_and_values_that_they_can_have() {
    olm_tests::run(async {
        let lab = Lab::new("alerts", 2).await;
        lab.oneagent(&json!({}));
        lab.all_at("agent", V1, 2, SOON).await;
        let text = eventually("the conditions are exposed", SOON, || async {
            let (_, text) = lab.operators[0].get("/metrics").await.unwrap_or_default();
            let says = "condition=\"Ready\",status=\"True\",reason=\"AllUpdated\"} 1";
            if text.contains(says) { Ok(text) } else { Err(text) }
        })
        .await;
        let now = text.lines().filter(|line| line.contains("condition=\"Ready\"")).count();
        assert_eq!(now, 1, "what it said before is not said any more:\n{text}");
        let exposed = metrics(&text);
        let rules = groups("oneagent-operator");
        for rule in rules["groups"][0]["rules"].as_array().unwrap() {
            let expr = rule["expr"].as_str().unwrap();
            assert!(metrics(expr).is_subset(&exposed), "{expr}");
            let values = expr.split_once("state=~\"").and_then(|(_, rest)| rest.split('"').next()).unwrap_or_default();
            for state in values.split('|').filter(|state| !state.is_empty()) {
                assert!(text.contains(&format!("state=\"{state}\"")), "{state}");
            }
        }
        for expr in queries("oneagent-operator") {
            assert!(metrics(&expr).is_subset(&exposed), "{expr}");
        }
        lab.cluster.vendor.publish(&lab.name, V2);
        lab.all_at("agent", V2, 2, SOON).await;
        eventually("it was measured how long nodes were without an agent", SOON, || async {
            let (_, text) = lab.operators[0].get("/metrics").await.unwrap_or_default();
            let rollout = |state: &str, count: usize| {
                let labels = format!("namespace=\"alerts\",name=\"agent\",state=\"{state}\"");
                text.contains(&format!("oneagent_rollout_nodes{{{labels}}} {count}\n"))
            };
            let is_done = rollout("budget", 1) && rollout("inFlight", 0) && rollout("left", 0);
            if is_done && text.contains("oneagent_replacement_seconds_count 2\n") { Ok(()) } else { Err(text) }
        })
        .await;
        lab.agents().delete("agent", &kube::api::DeleteParams::default()).await.unwrap();
        eventually("it is forgotten", SOON, || async {
            let (_, text) = lab.operators[0].get("/metrics").await.unwrap_or_default();
            if text.contains("oneagent_condition{") { Err(text) } else { Ok(()) }
        })
        .await;
        lab.end().await;
    });
}
