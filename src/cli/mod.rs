//! The command line: what can be typed, and every default in one place.
//!
//! One file per subcommand; those about one kind in a folder of its name. Errors are one sentence with the remedy. Must
//! not hold logic beyond wiring.

/// A line for the person who typed the command.
macro_rules! say {
    ($($text:tt)*) => { crate::cli::put(format_args!("{}\n", format_args!($($text)*))) };
}

mod asked;
mod commands;
mod daemonset_rollout;
mod duration;
mod explain;
mod jmx_attach;
mod oneagent;
mod plan;
mod plugin;
mod read;
mod run;
mod schema;
mod table;

use std::fmt::Arguments;
use std::io::{ErrorKind, Write as _};

use clap::{CommandFactory, Parser, Subcommand};
use oneagent::check;

use crate::kernel::Access;

/// Keeps a monitoring agent on the selected nodes at the desired version, and tells why a node lacks it.
#[derive(Debug, Parser)]
#[command(name = "oneagent-operator", version, about, long_about = None)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the operator: watch and reconcile the objects of one kind. The Deployment starts it.
    Run(Box<run::Args>),
    /// Try an environment as the operator would, and say what to fix. Changes nothing.
    Check(check::Args),
    /// Say why a node has no Pod, has an old one, or waits, or what an object waits for. Changes nothing.
    Explain(explain::Args),
    /// Say which Pods an edit would replace, when, in which order, and what holds it. Changes nothing.
    Plan(plan::Args),
    /// Check the table of a stack, and say what it says. Needs no cluster.
    Table(table::Args),
}

// What people type, and what only containers do.
/// Keeps a monitoring agent on the selected nodes at the desired version, and tells why a node lacks it.
#[derive(Debug, Parser)]
#[command(name = "oneagent-operator", version, about, long_about = None)]
struct Line {
    #[command(subcommand)]
    command: Any,
}

#[derive(Debug, Subcommand)]
enum Any {
    #[command(flatten)]
    People(Command),
    /// Have the JVM of this container serve metrics. An ephemeral container runs it.
    #[command(hide = true)]
    JmxAttach(jmx_attach::Args),
}

/// Why a command did not do what it should: a sentence for the person who typed it, and the exit code.
#[derive(Debug)]
pub struct Failed {
    pub sentence: String,
    pub code: u8,
}

impl Failed {
    fn of(sentence: String) -> Self {
        Self { sentence, code: 1 }
    }
}

/// Prints what was found, with its commands as they are to be typed.
fn put(text: Arguments<'_>) {
    put_data(&commands::typed(&text.to_string()));
}

/// Prints data. Where the reader reads no further (`| head`), printing ends.
fn put_data(text: &str) {
    match std::io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            eprintln!("oneagent-operator: cannot write what was found: {error}");
        }
        _ => {}
    }
}

pub use plugin::{command as plugin_command, main as plugin};

/// All that can be typed, for its reference page.
#[must_use]
pub fn command() -> clap::Command {
    Cli::command()
}

/// Parses the command line and does what it says; returns the exit code.
pub async fn main() -> Result<u8, Failed> {
    let command = match Line::parse().command {
        Any::People(command) => command,
        Any::JmxAttach(args) => return Box::pin(jmx_attach::attach(args)).await,
    };
    match command {
        Command::Run(args) => Box::pin(run::run(*args)).await.map(|()| 0).map_err(Failed::of),
        Command::Check(args) => match Box::pin(check::check(&args, &Access::default())).await {
            Ok((0, _)) => Ok(0),
            Ok((failed, all)) => Err(Failed::of(format!("{failed} of {all} checks failed"))),
            Err(sentence) => Err(Failed::of(sentence)),
        },
        Command::Explain(args) => {
            let must_act = Box::pin(explain::explain(&args)).await;
            must_act.map(u8::from).map_err(|sentence| Failed { sentence, code: 2 })
        }
        // As `kubectl diff`: 1 says that there is something.
        Command::Plan(args) => {
            let would = Box::pin(plan::plan(&args)).await;
            would.map(u8::from).map_err(|sentence| Failed { sentence, code: 2 })
        }
        Command::Table(args) => table::table(&args).map(|()| 0).map_err(|sentence| Failed { sentence, code: 2 }),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_command_line_is_sound() {
        super::command().debug_assert();
    }
}
