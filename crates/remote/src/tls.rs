//! Whom to trust.

use std::{path::Path, sync::Arc};

use rustls::{
    ClientConfig, RootCertStore,
    crypto::ring,
    pki_types::{CertificateDer, pem::PemObject as _},
};

use crate::BlocksError;

/// Trusts the authorities of a file, or those of the system.
pub(crate) fn client_config(root_cert: Option<&Path>) -> Result<ClientConfig, BlocksError> {
    let roots = match root_cert {
        Some(path) => authorities(path)?,
        None => {
            let mut roots = RootCertStore::empty();
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            roots
        }
    };
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("ring speaks TLS 1.2 and 1.3")
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(config)
}

fn authorities(path: &Path) -> Result<RootCertStore, BlocksError> {
    let bad = |what: &dyn std::fmt::Display| {
        BlocksError::Unavailable(format!(
            "sslrootcert {} cannot be used: {what}; it must hold certificates in PEM",
            path.display()
        ))
    };
    let mut roots = RootCertStore::empty();
    let found = CertificateDer::pem_file_iter(path).map_err(|error| bad(&error))?;
    for certificate in found {
        let certificate = certificate.map_err(|error| bad(&error))?;
        roots.add(certificate).map_err(|error| bad(&error))?;
    }
    match roots.is_empty() {
        true => Err(bad(&"there is no certificate in it")),
        false => Ok(roots),
    }
}
