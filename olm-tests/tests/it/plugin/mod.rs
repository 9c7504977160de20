//! `kubectl oneagent`, as a person types it, with no more rights than that person has.
//!
//! Must not try again what `explain` and `plan` are tried with: the words are theirs.

mod browsed;
mod drawn;
mod others;
mod paged;
mod rights;
mod seen;
mod shells;
mod steered;
mod viewed;
mod waited;

use std::process::{Command, Stdio};
use std::time::Duration;

use olm_tests::audit::{self, Request};
use olm_tests::lab::Lab;
use olm_tests::operator::beside;
use olm_tests::relay::Relay;
use serde_json::{Value, json};

use crate::explain::on_call_with;

/// A person at a shell, in the namespace of a test.
pub struct Person<'l> {
    pub lab: &'l Lab<'l>,
    pub kubeconfig: String,
}

/// What came of a command.
pub struct Came {
    pub code: Option<i32>,
    /// What it printed,
    pub said: String,
    /// and what it said beside that.
    pub noted: String,
}

impl<'l> Person<'l> {
    /// A user who may read what ClusterRole `observe` has.
    pub async fn who_observes(lab: &'l Lab<'l>) -> Self {
        let nothing = json!({ "apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["versions"],
            "verbs": ["get"] });
        Self { lab, kubeconfig: on_call_with(lab, "oneagent-operator", nothing).await }
    }

    /// A user who may change OneAgents, too.
    pub async fn who_steers(lab: &'l Lab<'l>) -> Self {
        let patches = json!({ "apiGroups": ["dynatrace.com"], "resources": ["oneagents"], "verbs": ["patch"] });
        Self { lab, kubeconfig: on_call_with(lab, "oneagent-operator", patches).await }
    }

    /// The same person behind a relay.
    pub async fn behind_a_relay(&mut self) -> Relay {
        let file = std::fs::read_to_string(&self.kubeconfig).unwrap();
        let server = file.lines().find_map(|line| line.trim().strip_prefix("server: ")).unwrap().to_owned();
        let (host, port) = server.rsplit_once(':').unwrap();
        let relay = Relay::before(port.trim_matches(['"', '/']).parse().unwrap()).await;
        self.kubeconfig += ".relay";
        std::fs::write(&self.kubeconfig, file.replace(&server, &format!("{host}:{}", relay.port))).unwrap();
        relay
    }

    /// Types it; no one answers a question.
    pub fn types(&self, words: &[&str]) -> Came {
        self.typing(words).ended()
    }

    /// The same, without waiting for the end.
    pub fn typing(&self, words: &[&str]) -> Typing {
        let mut command = Command::new(beside("kubectl-oneagent"));
        command.args(words).args(["-n", &self.lab.name]).env("KUBECONFIG", &self.kubeconfig).env("LANG", "C.UTF-8");
        command.env_remove("LC_ALL").env_remove("COLUMNS").env("TZ", "UTC");
        let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        Typing(child)
    }

    /// What a command said that had to end with this code.
    pub fn says(&self, code: i32, words: &[&str]) -> String {
        let Came { code: came, said, noted } = self.types(words);
        assert_eq!(came, Some(code), "{words:?}: {said}{noted}");
        said
    }

    /// What this person wrote so far.
    pub fn wrote(&self) -> Vec<Request> {
        let all = audit::requests(&self.lab.cluster.path("audit.log"), &self.lab.name, "on-call");
        // A question that the API server takes as an object is stored nowhere.
        all.into_iter().filter(|one| one.writes() && !one.resource.ends_with("reviews")).collect()
    }

    /// How many watches of OneAgents this person began so far.
    pub fn watches(&self) -> usize {
        let all = audit::requests(&self.lab.cluster.path("audit.log"), &self.lab.name, "on-call");
        all.iter().filter(|one| one.verb == "watch" && one.resource == "oneagents").count()
    }

    /// The spec of OneAgent `agent`.
    pub async fn spec(&self) -> Value {
        serde_json::to_value(self.lab.agents().get("agent").await.unwrap().spec).unwrap()
    }
}

/// A command that keeps running.
pub struct Typing(std::process::Child);

impl Typing {
    /// What comes of it, once it ends; others go on meanwhile.
    pub async fn wait(mut self) -> Came {
        while self.goes_on() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        self.ended()
    }

    fn ended(self) -> Came {
        let output = self.0.wait_with_output().unwrap();
        let [said, noted] = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
        Came { code: output.status.code(), said, noted }
    }

    /// Whether it keeps running.
    pub fn goes_on(&mut self) -> bool {
        self.0.try_wait().unwrap().is_none()
    }
}
