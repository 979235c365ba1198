//! Makes keys and certificates, and reads what matters from existing ones.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::path::Path;

use jiff::{SignedDuration, Timestamp, tz::TimeZone};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose, PKCS_ECDSA_P256_SHA256, PublicKeyData as _,
};
use x509_parser::extensions::{GeneralName, ParsedExtension};
use x509_parser::prelude::{FromDer as _, X509Certificate};

use super::super::tls;
use super::PkiError;

const AUTHORITY_LIFE: SignedDuration = SignedDuration::from_hours(10 * 365 * 24);
const LEAF_LIFE: SignedDuration = SignedDuration::from_hours(365 * 24);
/// Clocks differ: certificates are valid from a day before they were made.
const BACKDATE: SignedDuration = SignedDuration::from_hours(24);

/// A certificate and its key, in PEM.
pub(super) struct Pair {
    pub(super) certificate: String,
    pub(super) key: String,
}

/// What is read from a certificate on file.
pub(super) struct Facts {
    pub(super) not_after: Timestamp,
    pub(super) names: BTreeSet<String>,
    pub(super) key_fits: bool,
    authority_key_id: Option<Vec<u8>>,
}

impl Facts {
    pub(super) fn of(pair: &Pair, certificate_path: &Path, key_path: &Path) -> Result<Self, PkiError> {
        let wrong = |path: &Path, expected, reason: String| PkiError::Content {
            path: path.to_owned(),
            expected,
            reason,
        };
        let chain = tls::certificates(pair.certificate.as_bytes(), certificate_path)?;
        let key = KeyPair::from_pem(&pair.key)
            .map_err(|error| wrong(key_path, "a private key", error.to_string()))?;
        let Some(Ok((_, certificate))) = chain.first().map(|der| X509Certificate::from_der(der)) else {
            return Err(wrong(
                certificate_path,
                "a certificate",
                "it cannot be read".to_owned(),
            ));
        };
        let not_after = certificate.validity().not_after.timestamp();
        Ok(Self {
            not_after: Timestamp::from_second(not_after).unwrap_or(Timestamp::MIN),
            names: names_of(&certificate),
            key_fits: certificate.public_key().raw == key.subject_public_key_info(),
            authority_key_id: authority_key_id(&certificate),
        })
    }
}

fn names_of(certificate: &X509Certificate<'_>) -> BTreeSet<String> {
    let Ok(Some(extension)) = certificate.subject_alternative_name() else {
        return BTreeSet::new();
    };
    let names = extension.value.general_names.iter();
    names
        .filter_map(|name| match name {
            GeneralName::DNSName(name) => Some((*name).to_owned()),
            GeneralName::IPAddress(bytes) => ip(bytes).map(|ip| ip.to_string()),
            _ => None,
        })
        .collect()
}

fn ip(bytes: &[u8]) -> Option<IpAddr> {
    if let Ok(v4) = <[u8; 4]>::try_from(bytes) {
        return Some(v4.into());
    }
    <[u8; 16]>::try_from(bytes).ok().map(IpAddr::from)
}

fn authority_key_id(certificate: &X509Certificate<'_>) -> Option<Vec<u8>> {
    certificate
        .extensions()
        .iter()
        .find_map(|extension| match extension.parsed_extension() {
            ParsedExtension::AuthorityKeyIdentifier(id) => id.key_identifier.as_ref().map(|id| id.0.to_vec()),
            _ => None,
        })
}

/// IP addresses in one spelling, so that sets of names can be compared.
pub(super) fn canonical_name(name: &str) -> String {
    name.parse::<IpAddr>()
        .map_or_else(|_| name.to_ascii_lowercase(), |ip| ip.to_string())
}

/// A new certificate authority.
pub(super) fn authority(now: Timestamp) -> Result<Pair, PkiError> {
    let failed = |source| PkiError::Make {
        what: "the certificate authority",
        source,
    };
    let key = key_pair().map_err(failed)?;
    let mut params = params(now, AUTHORITY_LIFE, "skopos-ca", None);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![
        KeyUsagePurpose::DigitalSignature,
        KeyUsagePurpose::KeyCertSign,
        KeyUsagePurpose::CrlSign,
    ];
    let certificate = params.self_signed(&key).map_err(failed)?;
    Ok(Pair {
        certificate: certificate.pem(),
        key: key.serialize_pem(),
    })
}

/// An authority ready to sign.
pub(super) struct Issuer {
    inner: rcgen::Issuer<'static, KeyPair>,
    subject_key_id: Option<Vec<u8>>,
    now: Timestamp,
}

impl Issuer {
    pub(super) fn new(authority: &Pair, now: Timestamp) -> Result<Self, PkiError> {
        let failed = |source| PkiError::Make {
            what: "a signer from the certificate authority",
            source,
        };
        let key = KeyPair::from_pem(&authority.key).map_err(failed)?;
        let inner = rcgen::Issuer::from_ca_cert_pem(&authority.certificate, key).map_err(failed)?;
        let chain = tls::certificates(authority.certificate.as_bytes(), Path::new("ca.crt"))?;
        let parsed = chain.first().and_then(|der| X509Certificate::from_der(der).ok());
        let subject_key_id = parsed.and_then(|(_, certificate)| subject_key_id(&certificate));
        Ok(Self {
            inner,
            subject_key_id,
            now,
        })
    }

    /// Whether a certificate names this authority as its issuer.
    pub(super) fn has_signed(&self, facts: &Facts) -> bool {
        self.subject_key_id.is_some() && facts.authority_key_id == self.subject_key_id
    }

    pub(super) fn serving(&self, names: &BTreeSet<String>) -> Result<Pair, PkiError> {
        let mut params = params(self.now, LEAF_LIFE, "kube-apiserver", None);
        for name in names {
            let named = CertificateParams::new([name.clone()]).map_err(|source| PkiError::Name {
                name: name.clone(),
                source,
            })?;
            params.subject_alt_names.extend(named.subject_alt_names);
        }
        self.sign(
            params,
            ExtendedKeyUsagePurpose::ServerAuth,
            "the serving certificate",
        )
    }

    pub(super) fn admin(&self) -> Result<Pair, PkiError> {
        let params = params(self.now, LEAF_LIFE, "kubernetes-admin", Some("system:masters"));
        self.sign(
            params,
            ExtendedKeyUsagePurpose::ClientAuth,
            "the administrator's certificate",
        )
    }

    fn sign(
        &self,
        mut params: CertificateParams,
        purpose: ExtendedKeyUsagePurpose,
        what: &'static str,
    ) -> Result<Pair, PkiError> {
        let failed = |source| PkiError::Make { what, source };
        params.use_authority_key_identifier_extension = true;
        params.key_usages = vec![
            KeyUsagePurpose::DigitalSignature,
            KeyUsagePurpose::KeyEncipherment,
        ];
        params.extended_key_usages = vec![purpose];
        let key = key_pair().map_err(failed)?;
        let certificate = params.signed_by(&key, &self.inner).map_err(failed)?;
        Ok(Pair {
            certificate: certificate.pem(),
            key: key.serialize_pem(),
        })
    }
}

fn subject_key_id(certificate: &X509Certificate<'_>) -> Option<Vec<u8>> {
    certificate
        .extensions()
        .iter()
        .find_map(|extension| match extension.parsed_extension() {
            ParsedExtension::SubjectKeyIdentifier(id) => Some(id.0.to_vec()),
            _ => None,
        })
}

fn key_pair() -> Result<KeyPair, rcgen::Error> {
    KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)
}

fn params(now: Timestamp, life: SignedDuration, name: &str, group: Option<&str>) -> CertificateParams {
    let mut params = CertificateParams::default();
    let mut subject = DistinguishedName::new();
    if let Some(group) = group {
        subject.push(DnType::OrganizationName, group);
    }
    subject.push(DnType::CommonName, name);
    params.distinguished_name = subject;
    let day = |moment: Timestamp| {
        let date = moment.to_zoned(TimeZone::UTC).date();
        rcgen::date_time_ymd(
            date.year().into(),
            date.month().unsigned_abs(),
            date.day().unsigned_abs(),
        )
    };
    params.not_before = day(now.checked_sub(BACKDATE).unwrap_or(now));
    params.not_after = day(now.checked_add(life).unwrap_or(now));
    params
}

/// A new private key for signing tokens, in PEM.
pub(super) fn new_key() -> Result<String, PkiError> {
    let key = key_pair().map_err(|source| PkiError::Make {
        what: "the service account key",
        source,
    })?;
    Ok(key.serialize_pem())
}

pub(super) fn check_key(text: &str) -> Result<(), String> {
    KeyPair::from_pem(text)
        .map(|_| ())
        .map_err(|error| error.to_string())
}

pub(super) fn check_token(text: &str) -> Result<(), String> {
    let token = text.trim();
    match token.len() >= 16 && token.chars().all(|c| c.is_ascii_graphic()) {
        true => Ok(()),
        false => Err("it must be at least 16 printable characters without spaces".to_owned()),
    }
}

/// So many random bytes, in hexadecimal.
pub(in super::super) fn random_hex(n_bytes: usize) -> Result<String, PkiError> {
    let mut bytes = vec![0; n_bytes];
    let provider = rustls::crypto::ring::default_provider();
    provider
        .secure_random
        .fill(&mut bytes)
        .map_err(|_| PkiError::Random)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
