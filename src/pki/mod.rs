//! Certificates: an authority's, and those that it issues to servers; made and read.
//!
//! Here so that keys are handled in one place, by libraries. Knows no Kubernetes. Must not decide when one is made, nor
//! say a key.

use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
    PublicKeyData as _, SanType,
};
use secrecy::{ExposeSecret as _, SecretString};
use sha2::{Digest as _, Sha256};
use x509_parser::certificate::X509Certificate;
use x509_parser::pem::parse_x509_pem;
use x509_parser::time::ASN1Time;

use crate::k8s::hex::hex;

/// When a certificate holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Period {
    pub from: DateTime<Utc>,
    pub to: DateTime<Utc>,
}

impl Period {
    /// A period that begins a while before now, for nodes whose clocks are behind.
    #[must_use]
    pub fn of(lifetime: TimeDelta, now: DateTime<Utc>) -> Self {
        Self { from: now - TimeDelta::hours(1).min(lifetime / 10), to: now + lifetime }
    }

    /// When the next certificate must exist.
    #[must_use]
    pub fn renews_at(self) -> DateTime<Utc> {
        self.from + (self.to - self.from) * 2 / 3
    }

    /// Whether it lasts longer than another one.
    #[must_use]
    pub fn is_longer_than(self, other: Self) -> bool {
        self.to - self.from > other.to - other.from
    }

    /// When a human must know that there is none.
    #[must_use]
    pub fn is_late_at(self) -> DateTime<Utc> {
        self.to - (self.to - self.from) / 6
    }
}

/// An authority's certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Certificate {
    /// Tells it from all others.
    pub id: String,
    /// The common name of its subject.
    pub name: String,
    pub pem: String,
    pub period: Period,
}

/// An authority: its certificate, and the key with which it signs.
#[derive(Clone)]
pub struct Authority {
    pub certificate: Certificate,
    pub key: SecretString,
}

impl fmt::Debug for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authority").field("id", &self.certificate.id).finish_non_exhaustive()
    }
}

/// An authority that signs: its key is read once for all.
pub struct Signer(Issuer<'static, KeyPair>);

/// A certificate that was made, and its key, as PEM.
pub struct Made {
    pub certificate: String,
    pub key: SecretString,
}

impl Certificate {
    /// Reads one that may issue others, or says what is wrong with it.
    pub fn read(pem: &str) -> Result<Self, String> {
        Self::parse(pem, |_| Ok(()))
    }

    /// The same, with more that must hold.
    fn parse(pem: &str, check: impl FnOnce(&X509Certificate<'_>) -> Result<(), String>) -> Result<Self, String> {
        let (_, parsed) = parse_x509_pem(pem.as_bytes()).map_err(|why| format!("it is no PEM: {why}"))?;
        let parsed = parsed.parse_x509().map_err(|why| format!("it is no certificate: {why}"))?;
        check(&parsed)?;
        if !parsed.is_ca() {
            return Err("it is not the certificate of an authority".to_owned());
        }
        let time = |at: ASN1Time| DateTime::from_timestamp(at.timestamp(), 0).unwrap_or_default();
        let period = Period { from: time(parsed.validity().not_before), to: time(parsed.validity().not_after) };
        let id = hex(&Sha256::digest(parsed.as_raw())[..8]);
        let name = parsed.subject().iter_common_name().find_map(|name| name.as_str().ok()).unwrap_or_default();
        Ok(Self { id, name: name.to_owned(), pem: format!("{}\n", pem.trim()), period })
    }
}

impl Authority {
    /// Reads one, or says what is wrong with it.
    pub fn read(certificate: &str, key: SecretString) -> Result<Self, String> {
        let pair = KeyPair::from_pem(key.expose_secret()).map_err(|_| "its key cannot be read".to_owned())?;
        let certificate = Certificate::parse(certificate, |parsed| {
            let is_its = *parsed.public_key().raw == *pair.subject_public_key_info();
            if is_its { Ok(()) } else { Err("its key is another one's".to_owned()) }
        })?;
        Ok(Self { certificate, key })
    }

    /// Makes a new one.
    pub fn make(name: &str, period: Period) -> Result<Made, String> {
        let key = KeyPair::generate().map_err(said)?;
        let mut params = params(name, period);
        // Two of one name are told apart by those that verify.
        params.distinguished_name.push(DnType::OrganizationalUnitName, period.from.format("%FT%TZ").to_string());
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let certificate = params.self_signed(&key).map_err(said)?;
        Ok(Made { certificate: certificate.pem(), key: key.serialize_pem().into() })
    }

    /// What it signs with.
    pub fn signer(&self) -> Result<Signer, String> {
        let key = KeyPair::from_pem(self.key.expose_secret()).map_err(said)?;
        Ok(Signer(Issuer::from_ca_cert_pem(&self.certificate.pem, key).map_err(said)?))
    }
}

impl Signer {
    /// Issues a certificate to a server, which is a client of others, too.
    pub fn issue(&self, name: &str, address: IpAddr, hosts: &[String], period: Period) -> Result<Made, String> {
        let key = KeyPair::generate().map_err(said)?;
        let mut params = params(name, period);
        params.subject_alt_names.push(SanType::IpAddress(address));
        for host in hosts {
            params.subject_alt_names.push(SanType::DnsName(host.as_str().try_into().map_err(said)?));
        }
        params.use_authority_key_identifier_extension = true;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let certificate = params.signed_by(&key, &self.0).map_err(said)?;
        Ok(Made { certificate: certificate.pem(), key: key.serialize_pem().into() })
    }
}

fn params(name: &str, period: Period) -> CertificateParams {
    let time = |at: DateTime<Utc>| {
        rcgen::date_time_ymd(1970, 1, 1) + Duration::from_secs(u64::try_from(at.timestamp()).unwrap_or_default())
    };
    let mut params = CertificateParams::default();
    params.distinguished_name.remove(DnType::CommonName);
    params.distinguished_name.push(DnType::CommonName, name);
    (params.not_before, params.not_after) = (time(period.from), time(period.to));
    params
}

#[expect(clippy::needless_pass_by_value, reason = "as map_err gives it")]
fn said(why: rcgen::Error) -> String {
    format!("a certificate cannot be made: {why}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn period(from: i64, to: i64) -> Period {
        let time = |at| DateTime::from_timestamp(at, 0).unwrap();
        Period { from: time(from), to: time(to) }
    }

    #[test]
    fn an_authority_that_was_made_is_read_and_issues_what_it_signed() {
        let made = Authority::make("stack", period(1_000, 2_000)).unwrap();
        let authority = Authority::read(&made.certificate, made.key).unwrap();
        assert_eq!(authority.certificate.period, period(1_000, 2_000));
        let leaf = authority
            .signer()
            .unwrap()
            .issue("one", [10, 0, 0, 1].into(), &["one.svc".to_owned()], period(1_100, 1_900))
            .unwrap();
        let (_, leaf) = parse_x509_pem(leaf.certificate.as_bytes()).unwrap();
        let (_, root) = parse_x509_pem(authority.certificate.pem.as_bytes()).unwrap();
        let (leaf, root) = (leaf.parse_x509().unwrap(), root.parse_x509().unwrap());
        leaf.verify_signature(Some(root.public_key())).unwrap();
        assert_eq!(leaf.issuer(), root.subject());
        let names = leaf.subject_alternative_name().unwrap().unwrap();
        assert_eq!(format!("{:?}", names.value.general_names), "[IPAddress([10, 0, 0, 1]), DNSName(\"one.svc\")]");
        assert_eq!(leaf.validity().not_after.timestamp(), 1_900);
    }

    #[test]
    fn what_is_no_authority_is_named_and_no_key_is_said() {
        let (one, other) = (Authority::make("a", period(1, 9)).unwrap(), Authority::make("b", period(1, 9)).unwrap());
        assert_eq!(Authority::read(&one.certificate, other.key).unwrap_err(), "its key is another one's");
        assert_eq!(Authority::read(&one.certificate, "key".into()).unwrap_err(), "its key cannot be read");
        assert!(Certificate::read("text").unwrap_err().starts_with("it is no PEM"));
        let authority = Authority::read(&one.certificate, one.key).unwrap();
        let leaf = authority.signer().unwrap().issue("one", [10, 0, 0, 1].into(), &[], period(1, 9)).unwrap();
        assert_eq!(Certificate::read(&leaf.certificate).unwrap_err(), "it is not the certificate of an authority");
        assert!(!format!("{authority:?}").contains("PRIVATE"));
    }
}
