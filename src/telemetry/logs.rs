//! Logs: one line an event, as text or JSON, on standard output, so that a platform does not take them for errors.
//!
//! Must not be used for what belongs into a status: a log is for those who read code.

use clap::ValueEnum;
use tracing_subscriber::filter::{LevelFilter, Targets};
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
    let filter = filter(level)?;
    let registry = tracing_subscriber::registry().with(filter);
    let layer = || tracing_subscriber::fmt::layer().with_writer(std::io::stdout);
    let started = match format {
        LogFormat::Text => registry.with(layer().with_ansi(false)).try_init(),
        LogFormat::Json => registry.with(layer().json().with_current_span(false).with_span_list(false)).try_init(),
    };
    started.map_err(|error| format!("logging is already started: {error}"))
}

/// What is logged. Of the client library nothing but errors, whatever was asked for: it logs bodies that do not decode,
/// and a body may be a list of Secrets.
fn filter(level: &str) -> Result<Targets, String> {
    let filter: Targets = level.parse().map_err(|error| {
        format!("log level {level:?} is not understood ({error}); use error, warn, info, debug or trace")
    })?;
    Ok(filter.with_target("kube_client::client", LevelFilter::ERROR))
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::{Arc, Mutex};

    use k8s_openapi::api::core::v1::Secret;
    use kube::api::{Api, ListParams};
    use tracing_subscriber::Layer;

    use super::*;

    #[derive(Clone, Default)]
    struct Page(Arc<Mutex<Vec<u8>>>);

    impl Write for Page {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    /// Lists Secrets from a server whose answer does not decode, and returns what was logged.
    fn logged(filter: Targets) -> String {
        let page = Page::default();
        let writer = page.clone();
        let layer = tracing_subscriber::fmt::layer().with_writer(move || writer.clone()).with_filter(filter);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), || {
            runtime.block_on(async {
                let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
                let address = listener.local_addr().unwrap();
                let app = axum::Router::new().fallback(|| async {
                    r#"{"kind":"SecretList","metadata":{},"items":[{"metadata":5,"data":{"k":"SECRETBODY"}}]}"#
                });
                tokio::spawn(axum::serve(listener, app).into_future());
                let _ = rustls::crypto::ring::default_provider().install_default();
                let config = kube::Config::new(format!("http://{address}").parse().unwrap());
                let client = crate::kernel::connect(&config, &crate::clock::Clock::default()).unwrap();
                let secrets: Api<Secret> = Api::all(client);
                assert!(secrets.list(&ListParams::default()).await.is_err());
            });
        });
        String::from_utf8(page.0.lock().unwrap().clone()).unwrap()
    }

    #[test]
    fn a_list_of_secrets_that_does_not_decode_is_not_logged() {
        assert!(logged("trace".parse().unwrap()).contains("SECRETBODY"), "the library would log it");
        assert!(!logged(filter("trace").unwrap()).contains("SECRETBODY"));
        assert!(!logged(filter("info,kube_client::client=trace").unwrap()).contains("SECRETBODY"), "nor on request");
    }
}
