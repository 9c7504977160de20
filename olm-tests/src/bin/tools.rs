//! Builds the tools of the rig, so that the first test does not seem to hang.

use std::process::ExitCode;

fn main() -> ExitCode {
    match olm_tests::tools::prepare(&[]) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("tools: {why}");
            ExitCode::FAILURE
        }
    }
}
