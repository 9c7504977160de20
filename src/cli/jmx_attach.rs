//! `jmx-attach`: what an ephemeral container beside a JVM runs.
//!
//! The operator calls it, not a user. Prints one line of JSON, which is the termination message, too. Must not judge
//! anything itself.

use std::path::PathBuf;
use std::time::Duration;

use chrono::{DateTime, Utc};

use super::Failed;
use super::duration::duration;
use crate::attach::{self, Order};
use crate::clock::Clock;
use crate::k8s::quantity::quantity;

/// Arguments of `jmx-attach`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Port on which the JVM serves metrics.
    #[arg(long)]
    port: u16,
    /// The exporter's configuration.
    #[arg(long, env = "JMX_CONFIG", hide_env_values = true)]
    config: String,
    /// Its SHA-256, as hexadecimal digits.
    #[arg(long)]
    sha256: String,
    /// The exporter's jar.
    #[arg(long, env = "JMX_JAR", default_value = "/jmx_prometheus_javaagent.jar")]
    jar: PathBuf,
    /// ID of the JVM's container.
    #[arg(long)]
    container: Option<String>,
    /// Time after which nothing is done any more.
    #[arg(long)]
    valid_until: DateTime<Utc>,
    /// Memory that the container must have left. 0: no minimum.
    #[arg(long, default_value = "96Mi")]
    min_free_memory: String,
    /// How long a JVM is awaited.
    #[arg(long, default_value = "60s", value_parser = duration)]
    comes_within: Duration,
    /// Only give a JVM that exports another configuration.
    #[arg(long)]
    rewrite: bool,
    /// Where the result is written to.
    #[arg(long, default_value = "/dev/termination-log")]
    termination_log: PathBuf,
    /// Where the process table is.
    #[arg(long, default_value = "/proc")]
    proc: PathBuf,
}

/// Does it; the exit code says whether the JVM exports.
#[expect(clippy::disallowed_methods, reason = "the command line names the file")]
pub(super) async fn attach(args: Args) -> Result<u8, Failed> {
    let bytes = quantity(&args.min_free_memory).filter(|bytes| *bytes >= 0.0);
    let Some(bytes) = bytes else {
        let sentence = format!("--min-free-memory is {:?}; use a quantity such as 96Mi", args.min_free_memory);
        return Err(Failed { sentence, code: 2 });
    };
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "no machine has more")]
    let min_free_memory = bytes as u64;
    let Args { port, config, sha256, jar, container, valid_until, comes_within, proc, .. } = args;
    let order = Order { port, config, sha256, jar, container, valid_until, min_free_memory, comes_within, proc };
    let now = Clock::default().now();
    // Where the JVM is process 1, the kernel ends this one with it: what was written by then is its last word.
    let says = |text: &str| std::fs::write(&args.termination_log, text);
    let _ = says(&attach::untouched());
    let touches = || drop(says(""));
    let done = if args.rewrite {
        attach::rewrite(&order, now, touches).await
    } else {
        attach::attach(&order, now, touches).await
    };
    let line = done.as_ref().map_or_else(attach::Refusal::line, attach::Done::line);
    if let Err(error) = says(&line) {
        eprintln!("oneagent-operator: {} cannot be written: {error}", args.termination_log.display());
    }
    say!("{line}");
    Ok(u8::from(done.is_err()))
}
