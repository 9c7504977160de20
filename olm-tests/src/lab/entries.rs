//! Entries of a Manager's spec whose programs the rig has.
//!
//! Data. Must not apply anything.

use serde_json::{Value, json};

/// What the rig runs for a container, and with which command where its own, or the table's, would not do.
fn program(name: &str, is_cassandra: bool) -> (&'static str, Option<Value>) {
    match name {
        "init2" | "cassandra" if is_cassandra => ("rig/cassandra:5.0", None),
        "zookeeper" => ("rig/zookeeper:3.9.5", None),
        "rabbitmq" => ("rig/rabbitmq:3.10", None),
        "redis" => ("rig/redis:7.0", None),
        "named" => ("rig/named:9.18", None),
        "dnsmasq" => ("rig/dnsmasq:2.90", None),
        "init" | "conf-init" => ("rig/shell:1", None),
        "init2" | "nodeinit" | "vrouterkernelinit" => ("rig/shell:1", Some(json!(["true"]))),
        "statusmonitor" => ("rig/shell:1", Some(json!(["sleep", "infinity"]))),
        "provisioner" => ("rig/opensdn:1", Some(json!(["provisioner", "/run/stack/provisioner.$(POD_IP)"]))),
        _ => ("rig/opensdn:1", None),
    }
}

fn containers(names: &[&str]) -> Value {
    let is_cassandra = names.contains(&"cassandra");
    names.iter().map(|name| json!({ "name": name, "image": program(name, is_cassandra).0 })).collect()
}

/// Containers of a ZooKeeper that the rig runs.
#[must_use]
pub fn real_zookeeper() -> Value {
    containers(&["init", "conf-init", "zookeeper"])
}

/// The same, of a RabbitMQ.
#[must_use]
pub fn real_rabbitmq() -> Value {
    containers(&["init", "rabbitmq"])
}

/// The same, of a Cassandra.
#[must_use]
pub fn real_cassandra() -> Value {
    containers(&["init", "init2", "cassandra"])
}

/// An entry of the spec.
#[must_use]
pub fn service(name: &str, containers: &Value) -> Value {
    json!({ "metadata": { "name": name }, "spec": { "serviceConfiguration": { "containers": containers } } })
}

/// Has a whole stack run programs of the rig: its stores, Redis, BIND and dnsmasq are real, the others stand-ins.
pub fn has_real_programs(stack: &mut Value) {
    for service in stack["spec"]["services"].as_object_mut().expect("services").values_mut() {
        let entries = match service {
            Value::Array(all) => all.iter_mut().collect(),
            one => vec![one],
        };
        for entry in entries {
            let configuration = &mut entry["spec"]["serviceConfiguration"];
            configuration["maxHeapSize"] = "384M".into();
            for container in configuration["containers"].as_array_mut().into_iter().flatten() {
                let name = container["name"].as_str().unwrap_or_default().to_owned();
                let is_cassandra = container["image"].as_str().is_some_and(|image| image.starts_with("cassandra"));
                let (image, command) = program(&name, is_cassandra);
                container["image"] = image.into();
                container.as_object_mut().expect("a container").remove("command");
                if let Some(command) = command {
                    container["command"] = command;
                }
            }
        }
    }
}
