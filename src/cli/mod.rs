//! The command line: what can be typed, and every default in one place.
//!
//! One file per subcommand. Errors are one sentence with the remedy. Must not hold logic beyond wiring.

mod check;
mod explain;
mod run;

use clap::{Parser, Subcommand};

/// Keeps a monitoring agent on the right nodes, at the right version, and can always say why.
#[derive(Debug, Parser)]
#[command(name = "oneagent-operator", version, about, long_about = None)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the operator: watch OneAgents and make them so. Started by the Deployment.
    Run(Box<run::Args>),
    /// Try an environment as the operator would, and say what to mend. Changes nothing.
    Check(check::Args),
    /// Say why a node has no agent, an old one, or waits; or what a OneAgent waits for. Changes nothing.
    Explain(explain::Args),
}

/// Parses the command line and does what it says. `Err` is a sentence for whoever typed it.
pub async fn main() -> Result<(), String> {
    match Cli::parse().command {
        Command::Run(args) => Box::pin(run::run(*args)).await,
        Command::Check(args) => Box::pin(check::check(&args)).await,
        Command::Explain(args) => Box::pin(explain::explain(&args)).await,
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_sound() {
        super::Cli::command().debug_assert();
    }
}
