//! A program of a stack, for the rig: it serves TLS with its certificate, connects to every peer with it, and is Ready
//! once all have answered. It says each connection that was refused for a certificate, on either side. With arguments
//! FOLDER ADDRESS PORT it greets a RabbitMQ server instead, with the certificate that it finds there.
//!
//! Reads its files once, at start, as most programs do. Must not do anything else, nor forgive a certificate.

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{sleep, timeout};
use tokio_rustls::{TlsAcceptor, TlsConnector};

const PORT: u16 = 7443;
const CERTIFICATES: &str = "/run/certificates";
const UNREADY: &str = "/tmp/unready";
const PAUSE: Duration = Duration::from_millis(200);
const WITHIN: Duration = Duration::from_secs(5);

type Failed = Box<dyn std::error::Error + Send + Sync>;

#[tokio::main]
async fn main() -> Result<(), Failed> {
    if let [_, folder, own, port] = std::env::args().collect::<Vec<_>>().as_slice() {
        return greet(folder, own, port.parse()?).await;
    }
    fs::write(UNREADY, "")?;
    let own = std::env::var("POD_IP")?;
    let peers = fs::read_to_string(format!("/run/stack/peers.{own}"))?;
    let Own { chain, key, trusted } = Own::read(CERTIFICATES, &own)?;
    let verifier = WebPkiClientVerifier::builder(trusted.clone()).build()?;
    let server =
        ServerConfig::builder().with_client_cert_verifier(verifier).with_single_cert(chain.clone(), key.clone_key())?;
    let client = ClientConfig::builder().with_root_certificates(trusted).with_client_auth_cert(chain, key)?;
    let listener = TcpListener::bind((own.as_str(), PORT)).await?;
    let acceptor = TlsAcceptor::from(Arc::new(server));
    tokio::spawn(async move {
        while let Ok((stream, from)) = listener.accept().await {
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                match acceptor.accept(stream).await {
                    Ok(mut stream) => drop(stream.write_all(b"!").await),
                    Err(why) => said(&from.ip().to_string(), &why),
                }
            });
        }
    });
    let connector = TlsConnector::from(Arc::new(client));
    loop {
        let mut answered = 0;
        for peer in peers.lines() {
            match timeout(WITHIN, ask(&connector, peer)).await {
                Ok(Ok(())) => answered += 1,
                Ok(Err(why)) => said(peer, &why),
                Err(_) => {}
            }
        }
        if answered == peers.lines().count() {
            let _ = fs::remove_file(UNREADY);
        }
        sleep(PAUSE).await;
    }
}

/// Connects to a RabbitMQ server as one of its peers, whose certificates are in a folder, and says what it answers.
async fn greet(folder: &str, own: &str, port: u16) -> Result<(), Failed> {
    let Own { chain, key, trusted } = Own::read(folder, own)?;
    let client = ClientConfig::builder().with_root_certificates(trusted).with_client_auth_cert(chain, key)?;
    let stream = TcpStream::connect((own, port)).await?;
    let name = ServerName::try_from(own.to_owned())?;
    let mut stream = TlsConnector::from(Arc::new(client)).connect(name, stream).await?;
    stream.write_all(b"AMQP\x00\x00\x09\x01").await?;
    let mut answer = [0; 4096];
    let length = stream.read(&mut answer).await?;
    println!("{}", String::from_utf8_lossy(&answer[..length]));
    Ok(())
}

/// A server's certificate and key, and whom it trusts.
struct Own {
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
    trusted: Arc<RootCertStore>,
}

impl Own {
    fn read(folder: &str, own: &str) -> Result<Self, Failed> {
        let chain = CertificateDer::pem_file_iter(format!("{folder}/server-{own}.crt"))?.collect::<Result<_, _>>()?;
        let key = PrivateKeyDer::from_pem_file(format!("{folder}/server-key-{own}.pem"))?;
        let mut trusted = RootCertStore::empty();
        for one in CertificateDer::pem_file_iter(format!("{folder}/ca-bundle.crt"))? {
            trusted.add(one?)?;
        }
        Ok(Self { chain, key, trusted: Arc::new(trusted) })
    }
}

async fn ask(connector: &TlsConnector, peer: &str) -> std::io::Result<()> {
    let stream = TcpStream::connect((peer, PORT)).await?;
    let name = ServerName::try_from(peer.to_owned()).map_err(std::io::Error::other)?;
    connector.connect(name, stream).await?.read_exact(&mut [0]).await.map(drop)
}

/// Says what is the fault of a certificate; that somebody is away is not.
fn said(peer: &str, why: &std::io::Error) {
    let is_certificate = why.get_ref().is_some_and(<dyn std::error::Error + Send + Sync>::is::<rustls::Error>);
    if is_certificate {
        println!("refused {peer}: {why}");
    }
}
