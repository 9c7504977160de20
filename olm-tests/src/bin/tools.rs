//! Builds the tools of the rig, so that the first test does not seem to hang.

use std::process::ExitCode;

fn main() -> ExitCode {
    match olm_tests::tools::prepare(&[]).and_then(|()| olm_tests::debian::rabbitmq()) {
        Ok(_) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("tools: {why}");
            ExitCode::FAILURE
        }
    }
}
