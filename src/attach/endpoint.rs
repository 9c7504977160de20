//! The endpoint: whether it is the JVM's own that answers, and how often the exporter took a configuration.
//!
//! On a host's network another exporter may answer there. Must not change anything.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::jvm::Jvm;
use super::proc::Proc;
use super::{ANSWERS_WITHIN, PAUSE, Reason, Refusal};

/// How often a configuration was taken, and refused.
const TAKEN: &str = "jmx_config_reload_success_total";
const REFUSED: &str = "jmx_config_reload_failure_total";

/// Answers that take too long are waited for as long as so many would take, all together: a helper must end.
const SLOW: u32 = 9;

/// How often the exporter took and refused a configuration so far.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reloads {
    pub(super) taken: f64,
    pub(super) refused: f64,
}

/// Where a JVM serves its metrics.
#[derive(Debug)]
pub(super) struct Endpoint {
    port: u16,
    /// An answer takes at most so long.
    within: Duration,
    /// Until then one that takes longer is waited for again.
    patient_until: Instant,
    client: Result<reqwest::Client, String>,
}

impl Endpoint {
    pub(super) fn new(port: u16) -> Self {
        Self::that_answers(port, ANSWERS_WITHIN)
    }

    pub(super) fn that_answers(port: u16, within: Duration) -> Self {
        // Without TLS, no certificate needs to be read.
        let client = reqwest::Client::builder().no_proxy().tls_certs_only([]).timeout(within).build();
        let patient_until = Instant::now() + within * SLOW;
        Self { port, within, patient_until, client: client.map_err(|error| error.to_string()) }
    }

    /// What the JVM's own endpoint answers, for which it waits; why not, when it does not in time. A JVM that is short
    /// of processor time may be slow at first, and another helper would cost its Pod one more container.
    pub(super) async fn answers(&self, proc: &Proc, jvm: &Jvm) -> Result<String, String> {
        let end = Instant::now() + self.within;
        loop {
            let Silent { why, is_slow } = match self.scrape(proc, jvm).await {
                Ok(metrics) => return Ok(metrics),
                Err(silent) => silent,
            };
            let end = if is_slow { end.max(self.patient_until) } else { end };
            if Instant::now() >= end || !jvm.is_there(proc) {
                return Err(why);
            }
            sleep(PAUSE).await;
        }
    }

    /// How often the exporter took and refused a configuration, as a scrape says.
    pub(super) async fn reloads(&self, proc: &Proc, jvm: &Jvm) -> Result<Reloads, Refusal> {
        let metrics = self.answers(proc, jvm).await.map_err(|why| Refusal::of(Reason::ScrapeFailed, why))?;
        let count = |name: &str| {
            let rows = metrics.lines().filter_map(|line| line.strip_prefix(name));
            rows.filter_map(|row| row.trim().parse::<f64>().ok()).next_back().unwrap_or_default()
        };
        Ok(Reloads { taken: count(TAKEN), refused: count(REFUSED) })
    }

    /// Whether the JVM listens there.
    pub(super) fn is_open(&self, proc: &Proc, jvm: &Jvm) -> bool {
        let sockets = proc.listening(jvm.pid, self.port);
        let is_its = |target: &str| sockets.iter().any(|inode| target == format!("socket:[{inode}]"));
        proc.open(jvm.pid).iter().any(|(_, target)| is_its(&target.to_string_lossy()))
    }

    /// What the endpoint answers, if it is the JVM's.
    async fn scrape(&self, proc: &Proc, jvm: &Jvm) -> Result<String, Silent> {
        let port = self.port;
        let silent = |why: String| Silent { why, is_slow: false };
        if !self.is_open(proc, jvm) {
            return Err(silent(if proc.listening(jvm.pid, port).is_empty() {
                format!("no process listens on port {port}")
            } else {
                format!("another process listens on port {port}")
            }));
        }
        let client = self.client.as_ref().map_err(|why| silent(why.clone()))?;
        let asked = client.get(format!("http://127.0.0.1:{port}/metrics")).send();
        let answer = async { asked.await?.error_for_status()?.text().await }.await;
        answer.map_err(|error| Silent {
            is_slow: error.is_timeout(),
            why: format!("port {port} does not answer as an exporter does: {}", error.without_url()),
        })
    }
}

/// Why there are no metrics.
struct Silent {
    why: String,
    /// No answer came in time.
    is_slow: bool,
}
