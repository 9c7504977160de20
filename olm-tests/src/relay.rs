//! A relay before an API server: what a client sees of it can be cut and joined again, while others see it as before.
//!
//! Must not read what it carries.

use std::net::{Ipv4Addr, SocketAddr};

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// It ends with this.
#[derive(Debug)]
pub struct Relay {
    pub port: u16,
    cut: watch::Sender<bool>,
}

impl Relay {
    /// Before what listens on this port of loopback.
    pub async fn before(port: u16) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port");
        let (cut, is_cut) = watch::channel(false);
        let own = listener.local_addr().expect("an address").port();
        let mut ended = is_cut.clone();
        tokio::spawn(async move {
            loop {
                let accepted = tokio::select! {
                    accepted = listener.accept() => accepted,
                    () = gone(&mut ended) => return,
                };
                let Ok((client, _)) = accepted else { continue };
                tokio::spawn(carry(client, SocketAddr::from((Ipv4Addr::LOCALHOST, port)), is_cut.clone()));
            }
        });
        Self { port: own, cut }
    }

    /// Ends what is open, and refuses what comes; or carries again.
    pub fn cut(&self, is_cut: bool) {
        self.cut.send_replace(is_cut);
    }
}

/// Waits until no client holds the relay any more.
async fn gone(cut: &mut watch::Receiver<bool>) {
    while cut.changed().await.is_ok() {}
}

async fn carry(mut client: TcpStream, to: SocketAddr, mut cut: watch::Receiver<bool>) {
    if *cut.borrow() {
        return;
    }
    let Ok(mut server) = TcpStream::connect(to).await else { return };
    tokio::select! {
        _ = copy_bidirectional(&mut client, &mut server) => {}
        _ = cut.wait_for(|is_cut| *is_cut) => {}
    }
}
