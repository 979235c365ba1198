//! Client certificates: asked for in every handshake, judged afterwards.
//!
//! The handshake accepts any certificate whose holder proves to have the key, as kube-apiserver's does, and
//! [`ClientAuthority`] decides whether it names a user. A stranger's certificate thus gives 401 with a Status
//! that clients can show, not a broken handshake.

use std::sync::Arc;

use jiff::Timestamp;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::WebPkiSupportedAlgorithms;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, RootCertStore, SignatureScheme};
use sha2::{Digest as _, Sha256};
use x509_parser::prelude::{FromDer as _, X509Certificate, X509Name};

use super::authenticate::authenticated;
use super::seam::User;

/// The authorities whose client certificates name users.
#[derive(Clone, Debug)]
pub(crate) struct ClientAuthority {
    verifier: Arc<dyn ClientCertVerifier>,
}

impl ClientAuthority {
    /// Trusts the certificates in `roots`.
    ///
    /// # Errors
    /// When `roots` is empty.
    pub(crate) fn new(roots: RootCertStore) -> Result<Self, rustls::server::VerifierBuilderError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build()?;
        Ok(Self { verifier })
    }

    /// What a TLS server asks its clients with.
    pub(super) fn handshake_verifier(&self) -> Arc<dyn ClientCertVerifier> {
        let algorithms = rustls::crypto::ring::default_provider().signature_verification_algorithms;
        Arc::new(AskOnly {
            hints: self.verifier.root_hint_subjects().to_vec(),
            algorithms,
        })
    }

    /// Whom the chain names, its end entity first.
    pub(super) fn identify(&self, chain: &[CertificateDer<'static>]) -> CertificateIdentity {
        let Some((leaf, intermediates)) = chain.split_first() else {
            return CertificateIdentity::Rejected("no certificate");
        };
        if let Err(error) = self
            .verifier
            .verify_client_cert(leaf, intermediates, UnixTime::now())
        {
            tracing::debug!(%error, "client certificate does not hold");
            return CertificateIdentity::Rejected("client certificate does not hold");
        }
        user_of(leaf)
    }
}

/// What a client certificate says.
#[derive(Clone, Debug)]
pub(super) enum CertificateIdentity {
    Known { user: Arc<User>, not_after: Timestamp },
    Rejected(&'static str),
}

impl CertificateIdentity {
    /// The user, as long as the certificate lives: a connection may outlast it.
    pub(super) fn user(&self) -> Result<Arc<User>, &'static str> {
        match self {
            Self::Known { user, not_after } if Timestamp::now() <= *not_after => Ok(Arc::clone(user)),
            Self::Known { .. } => Err("client certificate expired"),
            Self::Rejected(reason) => Err(reason),
        }
    }
}

/// The common name is the user, the organizations are the groups.
fn user_of(leaf: &CertificateDer<'_>) -> CertificateIdentity {
    let Ok((_, certificate)) = X509Certificate::from_der(leaf) else {
        return CertificateIdentity::Rejected("client certificate cannot be read");
    };
    let subject = certificate.subject();
    let Some(name) = text_of(subject.iter_common_name().last()) else {
        return CertificateIdentity::Rejected("client certificate without a common name");
    };
    let not_after = certificate.validity().not_after.timestamp();
    let user = User {
        name,
        groups: organizations(subject),
        extra: [(CREDENTIAL_ID.to_owned(), vec![credential_id(leaf)])].into(),
        ..User::default()
    };
    CertificateIdentity::Known {
        user: authenticated(user),
        not_after: Timestamp::from_second(not_after).unwrap_or(Timestamp::MAX),
    }
}

const CREDENTIAL_ID: &str = "authentication.kubernetes.io/credential-id";

fn credential_id(leaf: &CertificateDer<'_>) -> String {
    let hex: String = Sha256::digest(leaf)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    format!("X509SHA256={hex}")
}

fn organizations(subject: &X509Name<'_>) -> Vec<String> {
    subject
        .iter_organization()
        .filter_map(|attribute| text_of(Some(attribute)))
        .collect()
}

fn text_of(attribute: Option<&x509_parser::x509::AttributeTypeAndValue<'_>>) -> Option<String> {
    let text = attribute?.as_str().ok()?;
    (!text.is_empty()).then(|| text.to_owned())
}

/// Asks for a certificate, checks that the peer has its key, and accepts whatever it says.
///
/// Never decides who somebody is: that is [`ClientAuthority::identify`].
#[derive(Debug)]
struct AskOnly {
    hints: Vec<DistinguishedName>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl ClientCertVerifier for AskOnly {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &self.hints
    }

    fn verify_client_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls12_signature(message, certificate, signed, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls13_signature(message, certificate, signed, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
