//! Logs: one line an event, as text or JSON, on standard output, so that a platform does not take them for errors.
//!
//! Must not be used for what belongs into a status: a log is for those who read code.

use clap::ValueEnum;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

/// How a line looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// For people.
    Text,
    /// For machines.
    Json,
}

/// Starts logging. `level` is a level or a list of `module=level`.
pub fn start(level: &str, format: LogFormat) -> Result<(), String> {
    let filter: Targets =
        level.parse().map_err(|error| format!("log level {level:?} is not understood ({error}); use error, warn, info, debug or trace"))?;
    let registry = tracing_subscriber::registry().with(filter);
    let layer = || tracing_subscriber::fmt::layer().with_writer(std::io::stdout);
    let started = match format {
        LogFormat::Text => registry.with(layer().with_ansi(false)).try_init(),
        LogFormat::Json => registry.with(layer().json().with_current_span(false).with_span_list(false)).try_init(),
    };
    started.map_err(|error| format!("logging is already started: {error}"))
}
