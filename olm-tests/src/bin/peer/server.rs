//! What such a program does: asks all that it needs, again and again, and serves TLS.
//!
//! Must not know what it is a stand-in for.

use std::collections::BTreeMap;
use std::fs;
use std::sync::Arc;
use std::time::Duration;

use rustls::ServerConfig;
use rustls::server::WebPkiClientVerifier;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpListener;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;

use crate::protocols::{Ask, Failed, Identity, is_certificate};

/// The rig's sign that a container is not Ready; it is there from the start.
const UNREADY: &str = "/tmp/unready";
pub const PAUSE: Duration = Duration::from_millis(200);
const WITHIN: Duration = Duration::from_secs(5);

/// Serves, and is Ready once all have answered. They are asked again after a time.
pub async fn stand(
    identity: &Identity,
    asks: Vec<(String, Ask)>,
    listens: Vec<String>,
    again: Duration,
) -> Result<(), Failed> {
    let verifier = WebPkiClientVerifier::builder(identity.trusted.clone()).build()?;
    let server = ServerConfig::builder()
        .with_client_cert_verifier(verifier)
        .with_single_cert(identity.chain.clone(), identity.key.clone_key())?;
    let acceptor = TlsAcceptor::from(Arc::new(server));
    for address in &listens {
        let (listener, acceptor) = (TcpListener::bind(address).await?, acceptor.clone());
        tokio::spawn(async move {
            while let Ok((stream, from)) = listener.accept().await {
                let acceptor = acceptor.clone();
                tokio::spawn(async move {
                    match acceptor.accept(stream).await {
                        Ok(mut stream) => drop(stream.write_all(b"!").await),
                        Err(why) if is_certificate(&why) => println!("refused {}: {why}", from.ip()),
                        // A probe, or one that went away.
                        Err(_) => {}
                    }
                });
            }
        });
    }
    let mut before: BTreeMap<String, String> = BTreeMap::new();
    loop {
        let mut missing = BTreeMap::new();
        for (address, ask) in &asks {
            let why = match timeout(WITHIN, ask.of(identity, address)).await {
                Ok(Ok(_)) => continue,
                Ok(Err(why)) => {
                    if why.downcast_ref().is_some_and(is_certificate) {
                        println!("refused {}: {why}", address.split(':').next().unwrap_or_default());
                    }
                    why.to_string()
                }
                Err(_) => "no answer".to_owned(),
            };
            missing.insert(format!("{ask} {address}"), why);
        }
        if missing != before {
            println!("{} of {} have answered; missing: {missing:?}", asks.len() - missing.len(), asks.len());
        }
        if missing.is_empty() {
            let _ = fs::remove_file(UNREADY);
        }
        let has_all = missing.is_empty();
        before = missing;
        sleep(if has_all { again } else { PAUSE }).await;
    }
}
