//! A program of a stack, for the rig. By the name under which it is started it is
//!
//! - `ask FOLDER OWN ADDRESS PROTOCOL [WORD…]`: what a server answers to one who has the certificate of address OWN,
//!   which lies in FOLDER: `amqp USER PASSWORD [QUEUE]`, `cql ONE|ALL QUERY`, `dns`, `redis PASSWORD WORD…`, `tls`;
//! - `peer`: a server that connects to every peer of its own file;
//! - any other: a program of OpenSDN, which reads the file that it is given and connects to all that it names.
//!
//! The last two serve TLS, and are Ready once all have answered. They read their files once, at start, as most
//! programs do, and say each connection that was refused for a certificate. Must not forgive a certificate.

mod opensdn;
mod protocols;
mod server;

use std::fs;
use std::path::Path;
use std::time::Duration;

use protocols::{Ask, Failed, Identity};
use server::{PAUSE, stand};

/// Where its certificate is.
const CERTIFICATES: &str = "/run/certificates";
const PORT: u16 = 7443;
/// Once all have answered, those that are many on two cores ask so often.
const SELDOM: Duration = Duration::from_secs(5);

#[tokio::main]
async fn main() -> Result<(), Failed> {
    let words: Vec<String> = std::env::args().collect();
    let name = words.first().and_then(|path| Path::new(path).file_name()).unwrap_or_default().to_string_lossy();
    if name == "ask" {
        let [_, folder, own, address, protocol, words @ ..] = words.as_slice() else {
            return Err("usage: ask FOLDER OWN ADDRESS PROTOCOL [WORD…]".into());
        };
        let identity = Identity::read(folder, own)?;
        println!("{}", Ask::parse(protocol, words)?.of(&identity, address).await?);
        return Ok(());
    }
    let own = std::env::var("POD_IP")?;
    let identity = Identity::read(CERTIFICATES, &own)?;
    if name == "peer" {
        let peers = fs::read_to_string(format!("/run/stack/peers.{own}"))?;
        let asks = peers.lines().map(|peer| (format!("{peer}:{PORT}"), Ask::Tls)).collect();
        return stand(&identity, asks, vec![format!("{own}:{PORT}")], PAUSE).await;
    }
    let wants = opensdn::read(&name, &words[1..], &own)?;
    stand(&identity, wants.asks, wants.listens, SELDOM).await
}
