//! What a program of OpenSDN would do with its file: which servers it connects to, with which name and password, and
//! where it listens.
//!
//! Each form is read by a parser of it. Must not open connections.

use std::collections::HashMap;
use std::fs;

use configparser::ini::Ini;
use serde_json::Value;

use crate::protocols::{Ask, Failed, ONE};

/// What a file has a program do.
#[derive(Default)]
pub struct Wants {
    pub asks: Vec<(String, Ask)>,
    pub listens: Vec<String>,
}

/// What the file of a program has it do.
pub fn read(name: &str, words: &[String], own: &str) -> Result<Wants, Failed> {
    let file = words.last().ok_or("it is given no file")?;
    let text = fs::read_to_string(file).map_err(|why| format!("{name}: {file}: {why}"))?;
    match name {
        "node" => script(&text, words[0].contains("webServer"), own),
        "provisioner" => registrar(&text),
        _ => configuration(&text),
    }
}

/// What a cluster of Cassandra is called.
fn its_name() -> Ask {
    Ask::Cql { consistency: ONE, query: "SELECT cluster_name FROM system.local".to_owned() }
}

/// A section's entries.
type Section = HashMap<String, Option<String>>;

/// A file of sections.
fn configuration(text: &str) -> Result<Wants, Failed> {
    let mut ini = Ini::new();
    ini.set_comment_symbols(&['#']);
    let sections: HashMap<String, Section> = ini.read(text.to_owned())?;
    let mut wants = Wants::default();
    for (name, section) in &sections {
        let get = |key: &str| section.get(key).cloned().flatten();
        let need = |key: &str| get(key).ok_or_else(|| format!("section {name} lacks {key}"));
        for (key, value) in section {
            let Some(value) = value else { continue };
            let servers = || value.split([',', ' ']).filter(|one| !one.is_empty()).map(str::to_owned);
            let with_port = |port: String| servers().map(move |server| format!("{server}:{port}"));
            match (&**name, &**key) {
                (_, "cassandra_server_list" | "config_db_server_list") => {
                    // Cassandra has no Thrift since version 4.
                    let spoken = servers().map(|server| server.replace(":9160", ":9042"));
                    wants.asks.extend(spoken.map(|server| (server, its_name())));
                }
                (_, "zk_server_ip" | "zookeeper_server_list" | "zk_list") => {
                    wants.asks.extend(servers().map(|server| (server, Ask::ZooKeeper)));
                }
                (_, "rabbit_server" | "rabbitmq_server_list") => {
                    let prefix = key.split_once('_').map_or("", |(prefix, _)| prefix);
                    let user = need(&format!("{prefix}_user"))?;
                    let password = need(&format!("{prefix}_password"))?;
                    let ask = Ask::Amqp { user, password, queue: None };
                    wants.asks.extend(servers().map(|server| (server, ask.clone())));
                }
                (_, "collectors") | ("control-node", "servers") => {
                    wants.asks.extend(servers().map(|server| (server, Ask::Tls)));
                }
                ("dns", "servers") => wants.asks.extend(servers().map(|server| (server, Ask::Dns))),
                (_, "api_server_ip") => {
                    wants.asks.extend(with_port(need("api_server_port")?).map(|server| (server, Ask::Tls)));
                }
                (_, "vnc_endpoint_ip") => {
                    wants.asks.extend(with_port(need("vnc_endpoint_port")?).map(|server| (server, Ask::Tls)));
                }
                ("redis", "redis_uve_list" | "server_list" | "server") => {
                    let password = get("redis_password").or_else(|| get("password")).ok_or("no password of Redis")?;
                    let ask = Ask::Redis { password, words: vec!["PING".to_owned()], is_tls: false };
                    let servers: Vec<String> = match &**key {
                        "server" => with_port(need("port")?).collect(),
                        _ => servers().collect(),
                    };
                    wants.asks.extend(servers.into_iter().map(|server| (server, ask.clone())));
                }
                (_, "listen_port") => wants.listens.push(format!("{}:{value}", need("listen_ip_addr")?)),
                (_, "rest_api_port") => wants.listens.push(format!("{}:{value}", need("rest_api_ip")?)),
                (_, "xmpp_server_port") => wants.listens.push(format!("{}:{value}", need("hostip")?)),
                ("collector", "port") => wants.listens.push(format!("{}:{value}", need("server")?)),
                _ => {}
            }
        }
    }
    Ok(wants)
}

/// The web UI's: assignments of JSON.
fn script(text: &str, is_web: bool, own: &str) -> Result<Wants, Failed> {
    let mut wants = Wants::default();
    let mut all: HashMap<&str, Value> = HashMap::new();
    for statement in text.split(";\n") {
        let Some((name, value)) = statement.trim().strip_prefix("config.").and_then(|one| one.split_once('=')) else {
            continue;
        };
        all.insert(name.trim(), serde_json::from_str(value.trim()).map_err(|why| format!("{name}: {why}"))?);
    }
    let each = |name: &str, key: &str, ask: &Ask| -> Vec<(String, Ask)> {
        let servers = all[name][key].as_array().cloned().unwrap_or_default();
        let port = &all[name]["server_port"];
        servers.iter().filter_map(Value::as_str).map(|server| (format!("{server}:{port}"), ask.clone())).collect()
    };
    wants.asks.extend(each("cnfg", "server_ip", &Ask::Tls));
    wants.asks.extend(each("analytics", "server_ip", &Ask::Tls));
    wants.asks.extend(each("cassandra", "server_ips", &its_name()));
    let password = all["redis_password"].as_str().unwrap_or_default().to_owned();
    let redis = Ask::Redis { password, words: vec!["PING".to_owned()], is_tls: false };
    wants.asks.push((format!("127.0.0.1:{}", all["redis_server_port"]), redis));
    if is_web {
        wants.listens.push(format!("{own}:{}", all["https_port"]));
    }
    Ok(wants)
}

/// What registers the others with the API.
fn registrar(text: &str) -> Result<Wants, Failed> {
    let all: Value = serde_yaml::from_str(text)?;
    let port = all["apiPort"].as_str().ok_or("no apiPort")?;
    let servers = all["apiServerList"].as_array().ok_or("no apiServerList")?;
    let servers = servers.iter().filter_map(Value::as_str).map(|server| (format!("{server}:{port}"), Ask::Tls));
    Ok(Wants { asks: servers.collect(), listens: Vec::new() })
}
