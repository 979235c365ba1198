//! What a TLS server needs: certificates, key, and whom to ask for theirs.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{RootCertStore, ServerConfig};

use super::certificate::ClientAuthority;
use super::pki::{self, PkiError};

/// The certificate that a server shows, and its key.
pub(crate) struct ServingCertificate {
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
    pem: String,
    origin: String,
}

impl ServingCertificate {
    /// Reads a certificate chain and its key from PEM files given from outside.
    ///
    /// # Errors
    /// When a file cannot be read or does not hold what it should.
    pub(crate) fn from_files(certificate: &Path, key: &Path) -> Result<Self, PkiError> {
        let (chain_pem, key_pem) = (pki::read(certificate)?, pki::read(key)?);
        let chain = certificates(chain_pem.as_bytes(), certificate)?;
        let key_der = private_key(key_pem.as_bytes(), key)?;
        let origin = format!("{} and {}", certificate.display(), key.display());
        Ok(Self {
            chain,
            key: key_der,
            pem: chain_pem,
            origin,
        })
    }

    pub(super) fn from_pem(certificate: &str, key: &str, origin: &str) -> Result<Self, PkiError> {
        let path = PathBuf::from(origin);
        Ok(Self {
            chain: certificates(certificate.as_bytes(), &path)?,
            key: private_key(key.as_bytes(), &path)?,
            pem: certificate.to_owned(),
            origin: origin.to_owned(),
        })
    }

    /// The chain in PEM: what a kubeconfig trusts when there is no better authority to name.
    #[must_use]
    pub(crate) fn pem(&self) -> &str {
        &self.pem
    }

    /// TLS 1.2 and 1.3, HTTP/2 and HTTP/1.1, client certificates asked for but not demanded.
    ///
    /// # Errors
    /// When key and certificate do not belong together.
    pub(crate) fn server_config(self, authority: &ClientAuthority) -> Result<Arc<ServerConfig>, PkiError> {
        let Self {
            chain, key, origin, ..
        } = self;
        let failed = |source| PkiError::Tls {
            what: origin.clone(),
            source,
        };
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(failed)?
            .with_client_cert_verifier(authority.handshake_verifier())
            .with_single_cert(chain, key)
            .map_err(failed)?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }
}

impl fmt::Debug for ServingCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServingCertificate")
            .field("origin", &self.origin)
            .finish_non_exhaustive()
    }
}

/// The certificates in a PEM file, at least one.
pub(super) fn certificates(pem: &[u8], path: &Path) -> Result<Vec<CertificateDer<'static>>, PkiError> {
    let wrong = |reason: String| PkiError::Content {
        path: path.to_owned(),
        expected: "a certificate in PEM",
        reason,
    };
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let chain = chain.map_err(|error| wrong(error.to_string()))?;
    if chain.is_empty() {
        return Err(wrong("there is no certificate in it".to_owned()));
    }
    Ok(chain)
}

fn private_key(pem: &[u8], path: &Path) -> Result<PrivateKeyDer<'static>, PkiError> {
    PrivateKeyDer::from_pem_slice(pem).map_err(|error| PkiError::Content {
        path: path.to_owned(),
        expected: "a private key in PEM",
        reason: error.to_string(),
    })
}

/// Adds every certificate of a PEM file to what is trusted.
pub(super) fn add_roots(roots: &mut RootCertStore, pem: &[u8], path: &Path) -> Result<(), PkiError> {
    for certificate in certificates(pem, path)? {
        roots.add(certificate).map_err(|error| PkiError::Content {
            path: path.to_owned(),
            expected: "a certificate authority",
            reason: error.to_string(),
        })?;
    }
    Ok(())
}
