//! The program: crypto provider, runtime, exit code; nothing else.

use std::process::ExitCode;

fn main() -> ExitCode {
    // What a panic leaves behind is half done, and nothing may be decided from that: the kubelet restarts us.
    let print = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        print(panic);
        std::process::abort();
    }));
    if rustls::crypto::ring::default_provider().install_default().is_err() {
        eprintln!("oneagent-operator: a crypto provider is already installed");
        return ExitCode::FAILURE;
    }
    let runtime = match tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .max_blocking_threads(4)
        .enable_all()
        .build()
    {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("oneagent-operator: cannot start: {error}");
            return ExitCode::FAILURE;
        }
    };
    match runtime.block_on(oneagent_operator::cli::main()) {
        Ok(code) => ExitCode::from(code),
        Err(failed) => {
            eprintln!("oneagent-operator: {}", failed.sentence);
            ExitCode::from(failed.code)
        }
    }
}
