//! `dashboard`: the page and its events, as a browser asks for them, beside a rollout; and what it refuses.
//!
//! Must not judge how it looks.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use olm_tests::lab::{LONG, Lab, V1, V2};
use olm_tests::operator::beside;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::Person;

/// A dashboard that runs.
pub(super) struct Dashboard {
    pub(super) child: Child,
    pub(super) port: u16,
    token: String,
}

impl Drop for Dashboard {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Dashboard {
    pub(super) fn start(person: &Person<'_>) -> Self {
        let mut command = Command::new(beside("kubectl-oneagent"));
        command.args(["dashboard", "-n", &person.lab.name]).env("KUBECONFIG", &person.kubeconfig);
        let mut child = command.stdout(Stdio::piped()).spawn().expect("the plugin");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("its output")).read_line(&mut line).expect("an address");
        let (address, token) = line.trim().split_once("/?token=").unwrap_or_else(|| panic!("an address: {line}"));
        let port = address.strip_prefix("http://127.0.0.1:").and_then(|port| port.parse().ok()).expect("a port");
        Self { child, port, token: token.to_owned() }
    }

    /// What opens its page.
    pub(super) fn address(&self) -> String {
        format!("http://127.0.0.1:{}/?token={}", self.port, self.token)
    }

    fn cookie(&self) -> String {
        format!("Cookie: oneagent-dashboard-1=other; oneagent-dashboard-{}={}\r\n", self.port, self.token)
    }

    async fn open(&self, request: &str, host: &str, headers: &str) -> TcpStream {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).await.expect("a connection");
        let text = format!("{request} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{headers}\r\n");
        stream.write_all(text.as_bytes()).await.expect("a request");
        stream
    }

    /// What is answered, as a whole.
    async fn ask(&self, request: &str, headers: &str) -> String {
        self.ask_as(request, &format!("127.0.0.1:{}", self.port), headers).await
    }

    async fn ask_as(&self, request: &str, host: &str, headers: &str) -> String {
        let mut text = String::new();
        self.open(request, host, headers).await.read_to_string(&mut text).await.expect("an answer");
        text
    }
}

/// What a page knows after some events.
#[derive(Default)]
struct Page {
    names: Vec<String>,
    cells: BTreeMap<String, Value>,
    whole: Value,
    /// Whether a node was ever anything but new.
    moved: bool,
}

impl Page {
    fn take(&mut self, change: &Value) {
        for node in change["nodes"].as_array().into_iter().flatten() {
            self.names.push(node[0].as_str().expect("a name").to_owned());
        }
        for frame in change["frames"].as_array().into_iter().flatten() {
            for cell in frame[1].as_array().into_iter().flatten() {
                let name = &self.names[cell[0].as_u64().expect("a number") as usize];
                self.moved |= cell[1] != 0;
                self.cells.insert(name.clone(), cell[1].clone());
            }
        }
        if let Some(whole) = change["wholes"].as_array().and_then(|all| all.last()) {
            self.whole = whole[1].clone();
        }
    }

    fn is_complete(&self, version: &str) -> bool {
        self.whole["state"] == "Complete" && self.whole["to"] == version && self.cells.values().all(|cell| *cell == 0)
    }
}

/// Reads events until the page is as wanted.
async fn follow(stream: &mut TcpStream, page: &mut Page, is_wanted: impl Fn(&Page) -> bool) {
    let (mut text, mut bytes) = (Vec::new(), vec![0_u8; 65_536]);
    let read = async {
        loop {
            let count = stream.read(&mut bytes).await.expect("events");
            assert!(count > 0, "the events end: {}", String::from_utf8_lossy(&text));
            text.extend_from_slice(&bytes[..count]);
            while let Some(end) = text.windows(2).position(|two| two == b"\n\n") {
                let event: Vec<u8> = text.drain(..end + 2).collect();
                let event = String::from_utf8_lossy(&event).into_owned();
                // A chunk may begin or end within what is asked for: its size has a line of its own.
                let data: String = event.lines().filter_map(|line| line.strip_prefix("data: ")).collect();
                let Ok(value) = serde_json::from_str::<Value>(&data) else { continue };
                match event.lines().find_map(|line| line.strip_prefix("event: ")) {
                    Some("picture") => page.take(&value["objects"][0]),
                    Some("change") => page.take(&value),
                    _ => {}
                }
                if is_wanted(page) {
                    return;
                }
            }
        }
    };
    tokio::time::timeout(LONG, read).await.expect("what is wanted");
}

#[test]
fn the_page_shows_each_node_of_a_rollout_and_answers_its_own_browser_alone() {
    olm_tests::run(async {
        let lab = Lab::new("plugin-page", 6).await;
        lab.oneagent(&json!({ "rollout": { "maxUnavailable": 2 } }));
        lab.all_at("agent", V1, 6, LONG).await;
        lab.condition("agent", "Ready", "True", "AllUpdated").await;
        let person = Person::who_observes(&lab).await;
        let mut dashboard = Dashboard::start(&person);
        let cookie = dashboard.cookie();

        for path in ["/", "/page.js", "/events", "/explain?node=x", "/?token=", "/?token=00"] {
            let answer = dashboard.ask(&format!("GET {path}"), "").await;
            assert!(answer.starts_with("HTTP/1.1 403") && !answer.contains(&lab.nodes[0]), "{path}: {answer}");
        }
        let foreign = dashboard.ask_as("GET /", "evil.example", &cookie).await;
        assert!(foreign.starts_with("HTTP/1.1 403"), "{foreign}");
        for method in ["POST", "PUT", "DELETE", "OPTIONS"] {
            let answer = dashboard.ask(&format!("{method} /"), &cookie).await;
            assert!(answer.starts_with("HTTP/1.1 405"), "{answer}");
        }
        let opened = dashboard.ask(&format!("GET /?token={}", dashboard.token), "").await;
        assert!(opened.starts_with("HTTP/1.1 303") && opened.contains("HttpOnly; SameSite=Strict"), "{opened}");
        let page = dashboard.ask("GET /", &cookie).await;
        assert!(page.starts_with("HTTP/1.1 200") && page.contains("default-src 'none'"), "{page}");
        assert!(!page.contains("<style") && !page.contains(&dashboard.token), "nothing inline, no token: {page}");
        assert!(dashboard.ask("GET /page.js", &cookie).await.contains("EventSource"));

        let host = format!("127.0.0.1:{}", dashboard.port);
        let mut stream = dashboard.open("GET /events", &host, &cookie).await;
        let mut shown = Page::default();
        follow(&mut stream, &mut shown, |page| page.names.len() == 6 && page.is_complete(V1)).await;
        let mut names = shown.names.clone();
        names.sort();
        let mut nodes = lab.nodes.clone();
        nodes.sort();
        assert_eq!(names, nodes, "node by node what the API has");
        shown.moved = false;
        lab.cluster.vendor.publish(&lab.name, V2);
        follow(&mut stream, &mut shown, |page| page.is_complete(V2)).await;
        assert!(shown.moved, "the rollout itself was seen");
        let said = dashboard.ask(&format!("GET /explain?object=0&node={}", lab.nodes[0]), &cookie).await;
        assert!(said.contains(&format!("runs agent {V2} as desired")), "{said}");
        assert!(dashboard.ask("GET /explain?object=7&node=x", &cookie).await.starts_with("HTTP/1.1 404"));

        let id = dashboard.child.id().to_string();
        assert!(Command::new("kill").args(["-INT", &id]).status().expect("kill").success());
        assert_eq!(dashboard.child.wait().expect("its end").code(), Some(0));
        assert!(person.wrote().is_empty(), "{:?}", person.wrote());
        lab.end().await;
    });
}
