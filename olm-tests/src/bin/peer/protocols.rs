//! As much of a server's protocol as it takes to learn that it serves one who has a certificate, a name and a password.
//!
//! Must not forgive a certificate.

use std::fmt;
use std::io;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

pub type Failed = Box<dyn std::error::Error + Send + Sync>;

/// A certificate and its key, and who is trusted.
pub struct Identity {
    pub chain: Vec<CertificateDer<'static>>,
    pub key: PrivateKeyDer<'static>,
    pub trusted: Arc<RootCertStore>,
}

impl Identity {
    pub fn read(folder: &str, own: &str) -> Result<Self, Failed> {
        let chain = CertificateDer::pem_file_iter(format!("{folder}/server-{own}.crt"))?.collect::<Result<_, _>>()?;
        let key = PrivateKeyDer::from_pem_file(format!("{folder}/server-key-{own}.pem"))?;
        let mut trusted = RootCertStore::empty();
        for one in CertificateDer::pem_file_iter(format!("{folder}/ca-bundle.crt"))? {
            trusted.add(one?)?;
        }
        Ok(Self { chain, key, trusted: Arc::new(trusted) })
    }

    async fn connect(&self, address: &str) -> Result<TlsStream<TcpStream>, Failed> {
        let client = ClientConfig::builder()
            .with_root_certificates(self.trusted.clone())
            .with_client_auth_cert(self.chain.clone(), self.key.clone_key())?;
        let stream = TcpStream::connect(address).await?;
        let (host, _) = address.rsplit_once(':').ok_or("an address needs a port")?;
        let name = ServerName::try_from(host.to_owned())?;
        Ok(TlsConnector::from(Arc::new(client)).connect(name, stream).await?)
    }
}

/// Whether a connection failed for a certificate; that a peer is unreachable is not.
pub fn is_certificate(why: &io::Error) -> bool {
    why.get_ref().is_some_and(<dyn std::error::Error + Send + Sync>::is::<rustls::Error>)
}

/// How many of Cassandra's replicas must answer, as its protocol numbers it.
pub const ONE: u8 = 1;
const ALL: u8 = 5;

/// What is asked of a server.
#[derive(Debug, Clone)]
pub enum Ask {
    /// A stand-in's greeting.
    Tls,
    Amqp {
        user: String,
        password: String,
        /// A queue that outlives the server, and that is to be there.
        queue: Option<String>,
    },
    Cql {
        consistency: u8,
        query: String,
    },
    Dns,
    /// In clear where the last is false.
    Redis {
        password: String,
        words: Vec<String>,
        is_tls: bool,
    },
    ZooKeeper,
}

impl fmt::Display for Ask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tls => "tls",
            Self::Amqp { .. } => "amqp",
            Self::Cql { .. } => "cql",
            Self::Dns => "dns",
            Self::Redis { .. } => "redis",
            Self::ZooKeeper => "zookeeper",
        })
    }
}

impl Ask {
    pub fn parse(protocol: &str, words: &[String]) -> Result<Self, Failed> {
        Ok(match (protocol, words) {
            ("tls", []) => Self::Tls,
            ("amqp", [user, password, queue @ ..]) => {
                Self::Amqp { user: user.clone(), password: password.clone(), queue: queue.first().cloned() }
            }
            ("cql", [at, query]) => {
                let consistency = if at == "ONE" { ONE } else { ALL };
                Self::Cql { consistency, query: query.clone() }
            }
            ("dns", []) => Self::Dns,
            ("redis", [password, words @ ..]) => {
                Self::Redis { password: password.clone(), words: words.to_vec(), is_tls: true }
            }
            _ => return Err(format!("there is no {protocol} with these words").into()),
        })
    }

    /// What the server says.
    pub async fn of(&self, identity: &Identity, address: &str) -> Result<String, Failed> {
        match self {
            Self::Tls => {
                identity.connect(address).await?.read_exact(&mut [0]).await?;
                Ok("!".to_owned())
            }
            Self::Amqp { user, password, queue } => {
                amqp(identity.connect(address).await?, (user, password), queue.as_deref()).await
            }
            Self::Cql { consistency, query } => cql(identity.connect(address).await?, *consistency, query).await,
            Self::Dns => dns(TcpStream::connect(address).await?).await,
            Self::Redis { password, words, is_tls: true } => {
                redis(identity.connect(address).await?, password, words).await
            }
            Self::Redis { password, words, is_tls: false } => {
                redis(TcpStream::connect(address).await?, password, words).await
            }
            Self::ZooKeeper => {
                let mut stream = TcpStream::connect(address).await?;
                stream.write_all(b"srvr").await?;
                let mut said = String::new();
                stream.read_to_string(&mut said).await?;
                if said.contains("Mode:") { Ok(said) } else { Err(format!("it says {said:?}").into()) }
            }
        }
    }
}

/// A frame of AMQP 0-9-1: its payload.
async fn frame(stream: &mut (impl AsyncRead + Unpin)) -> Result<Vec<u8>, Failed> {
    let mut head = [0; 7];
    stream.read_exact(&mut head).await?;
    let length = u32::from_be_bytes([head[3], head[4], head[5], head[6]]);
    let mut payload = vec![0; usize::try_from(length)? + 1];
    stream.read_exact(&mut payload).await?;
    payload.pop();
    Ok(payload)
}

/// A method of AMQP on a channel, as its class and number, and what it says.
async fn method(
    stream: &mut (impl AsyncWrite + Unpin),
    channel: u8,
    (class, number): (u8, u8),
    words: &[u8],
) -> Result<(), Failed> {
    let mut message = vec![1, 0, channel];
    message.extend(u32::try_from(words.len() + 4)?.to_be_bytes());
    message.extend([0, class, 0, number]);
    message.extend(words);
    message.push(0xCE);
    Ok(stream.write_all(&message).await?)
}

/// Logs in, has a queue be there, and returns what the server said of itself.
async fn amqp(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    (user, password): (&str, &str),
    queue: Option<&str>,
) -> Result<String, Failed> {
    stream.write_all(b"AMQP\x00\x00\x09\x01").await?;
    let start = frame(&mut stream).await?;
    let response = format!("\0{user}\0{password}");
    // No properties, mechanism, response, locale.
    let mut login = vec![0, 0, 0, 0, 5];
    login.extend(b"PLAIN");
    login.extend(u32::try_from(response.len())?.to_be_bytes());
    login.extend(response.as_bytes());
    login.extend(b"\x05en_US");
    method(&mut stream, 0, (10, 11), &login).await?;
    // It closes the connection of a client that it rejects.
    let tune = frame(&mut stream).await.unwrap_or_default();
    if !tune.starts_with(&[0, 10, 0, 30]) {
        return Err(format!("it refuses the login of {user}").into());
    }
    if let Some(queue) = queue {
        // What it proposes is accepted; then its host "/" is opened, and a channel.
        method(&mut stream, 0, (10, 31), &tune[4..]).await?;
        method(&mut stream, 0, (10, 40), b"\x01/\0\0").await?;
        frame(&mut stream).await?;
        method(&mut stream, 1, (20, 10), b"\0").await?;
        frame(&mut stream).await?;
        let name = [&[0, 0, u8::try_from(queue.len())?][..], queue.as_bytes(), &[2, 0, 0, 0, 0]].concat();
        method(&mut stream, 1, (50, 10), &name).await?;
        let declared = frame(&mut stream).await?;
        if !declared.starts_with(&[0, 50, 0, 11]) {
            return Err(format!("it refuses queue {queue}").into());
        }
    }
    Ok(String::from_utf8_lossy(&start).into_owned())
}

/// What a query of version 4 of the protocol comes to; the text that is in it.
async fn cql(mut stream: impl AsyncRead + AsyncWrite + Unpin, consistency: u8, query: &str) -> Result<String, Failed> {
    let mut startup = vec![0, 1, 0, 11];
    startup.extend(b"CQL_VERSION");
    startup.extend([0, 5]);
    startup.extend(b"3.4.5");
    let mut asked = u32::try_from(query.len())?.to_be_bytes().to_vec();
    asked.extend(query.as_bytes());
    asked.extend([0, consistency, 0]);
    let mut said = String::new();
    for (opcode, body) in [(1, startup), (7, asked)] {
        let mut message = vec![4, 0, 0, 0, opcode];
        message.extend(u32::try_from(body.len())?.to_be_bytes());
        message.extend(body);
        stream.write_all(&message).await?;
        let mut head = [0; 9];
        stream.read_exact(&mut head).await?;
        let mut body = vec![0; usize::try_from(u32::from_be_bytes([head[5], head[6], head[7], head[8]]))?];
        stream.read_exact(&mut body).await?;
        said = String::from_utf8_lossy(&body).into_owned();
        if head[4] == 0 {
            return Err(format!("it refuses that: {said:?}").into());
        }
    }
    Ok(said)
}

/// Who has zone "a.test"; any answer to that is one.
async fn dns(mut stream: impl AsyncRead + AsyncWrite + Unpin) -> Result<String, Failed> {
    let question = b"\x00\x18\x12\x34\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x01a\x04test\x00\x00\x06\x00\x01";
    stream.write_all(question).await?;
    let mut head = [0; 4];
    stream.read_exact(&mut head).await?;
    if head[2..] == question[2..4] { Ok("it answers".to_owned()) } else { Err("no answer to that".into()) }
}

async fn redis(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    password: &str,
    words: &[String],
) -> Result<String, Failed> {
    let (mut reads, mut writes) = tokio::io::split(stream);
    let login = ["AUTH".to_owned(), password.to_owned()];
    let mut said = String::new();
    for command in [&login[..], words] {
        let parts = command.iter().map(|word| format!("${}\r\n{word}\r\n", word.len()));
        let message: String = [format!("*{}\r\n", command.len())].into_iter().chain(parts).collect();
        writes.write_all(message.as_bytes()).await?;
        let mut answer = vec![0; 4096];
        let length = reads.read(&mut answer).await?;
        said = String::from_utf8_lossy(&answer[..length]).into_owned();
        if length == 0 || said.starts_with('-') {
            return Err(format!("it refuses {}: {}", command[0], said.trim()).into());
        }
    }
    Ok(said)
}
