//! Whom to trust, and who we are.

use std::{fmt::Display, path::Path, sync::Arc};

use rustls::{
    ClientConfig, ConfigBuilder, RootCertStore,
    client::WantsClientCert,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
};

use crate::{ConfigError, TlsFiles};

/// Trusts the authorities of a file, or those of the system.
pub(crate) fn client_config(files: &TlsFiles) -> Result<ClientConfig, ConfigError> {
    let mut roots = RootCertStore::empty();
    match &files.ca {
        Some(path) => {
            for certificate in certificates("the certificate of an authority", path)? {
                roots
                    .add(certificate)
                    .map_err(|error| bad("the certificate of an authority", path, &error))?;
            }
        }
        None => {
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            if roots.is_empty() {
                return Err(ConfigError::NoAuthorities);
            }
        }
    }
    let builder = trusting(roots);
    let Some((certificate, key)) = &files.identity else {
        return Ok(builder.with_no_client_auth());
    };
    let chain = certificates("the client certificate", certificate)?;
    // What is wrong with a key is not told: the text might hold a part of it.
    let key = PrivateKeyDer::from_pem_file(key)
        .map_err(|_| bad("the client key", key, &"there is no private key in PEM in it"))?;
    builder
        .with_client_auth_cert(chain, key)
        .map_err(ConfigError::Identity)
}

/// For connections that are not meant to use TLS.
pub(crate) fn trusting_nobody() -> ClientConfig {
    trusting(RootCertStore::empty()).with_no_client_auth()
}

fn trusting(roots: RootCertStore) -> ConfigBuilder<ClientConfig, WantsClientCert> {
    ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("ring speaks TLS 1.2 and 1.3")
        .with_root_certificates(roots)
}

fn certificates(what: &'static str, path: &Path) -> Result<Vec<CertificateDer<'static>>, ConfigError> {
    let found = CertificateDer::pem_file_iter(path)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| bad(what, path, &error))?;
    match found.is_empty() {
        true => Err(bad(what, path, &"there is no certificate in PEM in it")),
        false => Ok(found),
    }
}

fn bad(what: &'static str, path: &Path, problem: &dyn Display) -> ConfigError {
    ConfigError::Pem {
        what,
        path: path.into(),
        problem: problem.to_string(),
    }
}
