//! `kubectl oneagent`: sees and steers rollouts from a person's shell, with that person's rights.
//!
//! A program of its own, so that the operator does not grow: crypto provider, runtime, exit code; nothing else.

use std::process::ExitCode;

fn main() -> ExitCode {
    if rustls::crypto::ring::default_provider().install_default().is_err() {
        eprintln!("kubectl oneagent: a crypto provider is already installed");
        return ExitCode::from(2);
    }
    match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => ExitCode::from(runtime.block_on(oneagent_operator::cli::plugin())),
        Err(error) => {
            eprintln!("kubectl oneagent: cannot start: {error}");
            ExitCode::from(2)
        }
    }
}
