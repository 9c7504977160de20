//! Certificates for a control plane that lives for minutes: one CA, signed at start, kept in its folder only.

use std::net::{IpAddr, Ipv4Addr};

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, CustomExtension, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose, SanType,
};

/// A certificate and its key, as PEM.
#[derive(Debug, Clone)]
pub struct Pair {
    /// Certificate.
    pub cert: String,
    pub key: String,
}

pub struct Ca {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

impl Ca {
    #[must_use]
    pub fn new(name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages =
            vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate().expect("a key");
        Self { issuer: CertifiedIssuer::self_signed(params, key).expect("a certificate") }
    }

    /// An authority below this one, whose certificate has critical policies: some TLS libraries do not support those.
    #[must_use]
    pub fn with_critical_policies(&self, name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        // certificatePolicies: anyPolicy.
        let any = [0x30, 0x08, 0x30, 0x06, 0x06, 0x04, 0x55, 0x1d, 0x20, 0x00];
        let mut policies = CustomExtension::from_oid_content(&[2, 5, 29, 32], any.to_vec());
        policies.set_criticality(true);
        params.custom_extensions.push(policies);
        let key = KeyPair::generate().expect("a key");
        Self { issuer: CertifiedIssuer::signed_by(params, key, &self.issuer).expect("a certificate") }
    }

    /// Its certificate.
    #[must_use]
    pub fn pem(&self) -> String {
        self.issuer.pem()
    }

    /// A client's certificate: user and groups as Kubernetes reads them.
    #[must_use]
    pub fn client(&self, user: &str, group: Option<&str>) -> Pair {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, user);
        if let Some(group) = group {
            params.distinguished_name.push(DnType::OrganizationName, group);
        }
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        self.sign(&params)
    }

    /// A server's certificate for names and 127.0.0.1.
    #[must_use]
    pub fn server(&self, names: &[&str], loopback: bool) -> Pair {
        let mut params =
            CertificateParams::new(names.iter().map(|n| (*n).to_owned()).collect::<Vec<_>>()).expect("names");
        if loopback {
            params.subject_alt_names.push(SanType::IpAddress(IpAddr::V4(Ipv4Addr::LOCALHOST)));
            params.subject_alt_names.push(SanType::IpAddress(IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1))));
        }
        params.distinguished_name.push(DnType::CommonName, names.first().copied().unwrap_or("server"));
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        self.sign(&params)
    }

    fn sign(&self, params: &CertificateParams) -> Pair {
        let key = KeyPair::generate().expect("a key");
        let cert = params.signed_by(&key, &self.issuer).expect("a certificate");
        Pair { cert: cert.pem(), key: key.serialize_pem() }
    }
}

/// TLS for axum.
pub(crate) struct TlsListener {
    inner: tokio::net::TcpListener,
    acceptor: tokio_rustls::TlsAcceptor,
}

impl TlsListener {
    pub(crate) fn new(inner: tokio::net::TcpListener, pair: &Pair) -> Self {
        use rustls::pki_types::pem::PemObject;
        let certs = rustls::pki_types::CertificateDer::pem_slice_iter(pair.cert.as_bytes())
            .map(|c| c.expect("a certificate"))
            .collect();
        let key = rustls::pki_types::PrivateKeyDer::from_pem_slice(pair.key.as_bytes()).expect("a key");
        let config = rustls::ServerConfig::builder()
            .with_no_client_auth()
            .with_single_cert(certs, key)
            .expect("a TLS configuration");
        Self { inner, acceptor: std::sync::Arc::new(config).into() }
    }
}

impl axum::serve::Listener for TlsListener {
    type Io = tokio_rustls::server::TlsStream<tokio::net::TcpStream>;
    type Addr = std::net::SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        loop {
            if let Ok((stream, address)) = self.inner.accept().await
                && let Ok(stream) = self.acceptor.accept(stream).await
            {
                return (stream, address);
            }
        }
    }

    fn local_addr(&self) -> std::io::Result<Self::Addr> {
        self.inner.local_addr()
    }
}
