//! Builds the tools of the rig, so that the first test does not seem to hang.

use std::process::ExitCode;

fn main() -> ExitCode {
    let debian = || olm_tests::debian::ALL.iter().try_for_each(|program| program.programs().map(drop));
    match olm_tests::tools::prepare(&[]).and_then(|()| debian()).and_then(|()| olm_tests::browser::prepare()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("tools: {why}");
            ExitCode::FAILURE
        }
    }
}
