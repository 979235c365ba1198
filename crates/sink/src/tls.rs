//! Whom to trust, and who we are, for every destination that speaks TLS.

use std::sync::Arc;

use rustls::{
    ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
    client::{
        WebPkiServerVerifier,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    },
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime, pem::PemObject as _},
};
use skopos_api::Tls as TlsSpec;
use skopos_postgres::MakeTls;

use crate::{
    Secrets,
    connect::BadSink,
    secrets::{Secret, resolve},
};

/// How to speak TLS.
#[derive(Clone, Debug)]
pub(crate) struct Tls {
    /// It checks for `server_name`, whatever name the connection is made with.
    pub(crate) config: Arc<ClientConfig>,
    /// The name that the certificate must have, if not the one in the address.
    pub(crate) server_name: Option<ServerName<'static>>,
}

impl Tls {
    /// Follows a spec; without one, trusts the authorities of the system.
    pub(crate) async fn new(spec: Option<&TlsSpec>, secrets: &dyn Secrets) -> Result<Self, BadSink> {
        let none = TlsSpec::default();
        let spec = spec.unwrap_or(&none);
        let roots = match &spec.ca {
            Some(source) => authorities(&resolve(secrets, "tls.ca", source).await?)?,
            None => system_authorities()?,
        };
        let server_name = spec.server_name.as_deref().map(server_name).transpose()?;
        let provider = Arc::new(ring::default_provider());
        let verifier = Verifier {
            inner: WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider))
                .build()
                .map_err(|error| BadSink::value("tls.ca", format!("cannot be used: {error}")))?,
            name: server_name.clone(),
        };
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("ring speaks TLS 1.2 and 1.3")
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier));
        let config = match (&spec.cert, &spec.key) {
            (None, None) => builder.with_no_client_auth(),
            (Some(cert), Some(key)) => {
                let cert = resolve(secrets, "tls.cert", cert).await?;
                let key = resolve(secrets, "tls.key", key).await?;
                builder
                    .with_client_auth_cert(certificates("tls.cert", &cert)?, private_key(&key)?)
                    .map_err(|error| BadSink::value("tls.key", format!("does not fit tls.cert: {error}")))?
            }
            (Some(_), None) => return Err(BadSink::value("tls.key", "is missing: tls.cert needs it")),
            (None, Some(_)) => return Err(BadSink::value("tls.cert", "is missing: tls.key needs it")),
        };
        let config = Arc::new(config);
        Ok(Self { config, server_name })
    }

    /// Trusts nobody: for connections that are not meant to use TLS.
    pub(crate) fn trusting_nobody() -> Self {
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("ring speaks TLS 1.2 and 1.3")
            .with_root_certificates(RootCertStore::empty())
            .with_no_client_auth();
        Self {
            config: Arc::new(config),
            server_name: None,
        }
    }

    /// The name to ask for at an address.
    pub(crate) fn name_for(
        &self,
        host: &str,
    ) -> Result<ServerName<'static>, rustls::pki_types::InvalidDnsNameError> {
        match &self.server_name {
            Some(name) => Ok(name.clone()),
            None => ServerName::try_from(host.trim_matches(['[', ']']).to_owned()),
        }
    }

    /// How connections to PostgreSQL are secured.
    pub(crate) fn for_postgres(&self) -> MakeTls {
        MakeTls::new(self.config.clone()).with_name(self.server_name.clone())
    }
}

fn server_name(name: &str) -> Result<ServerName<'static>, BadSink> {
    ServerName::try_from(name.to_owned()).map_err(|_| {
        BadSink::value(
            "tls.serverName",
            format!("{name:?} is neither a DNS name nor an IP address"),
        )
    })
}

fn authorities(pem: &Secret) -> Result<RootCertStore, BadSink> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates("tls.ca", pem)? {
        roots.add(certificate).map_err(|error| {
            BadSink::value("tls.ca", format!("has a certificate that is not one: {error}"))
        })?;
    }
    Ok(roots)
}

fn system_authorities() -> Result<RootCertStore, BadSink> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if roots.is_empty() {
        let problem = "is needed: the system has no authorities to trust (package ca-certificates)";
        return Err(BadSink::value("tls.ca", problem));
    }
    Ok(roots)
}

fn certificates(field: &'static str, pem: &Secret) -> Result<Vec<CertificateDer<'static>>, BadSink> {
    let bad = |error: &dyn std::fmt::Display| {
        BadSink::value(field, format!("is not a certificate in PEM: {error}"))
    };
    let found = CertificateDer::pem_slice_iter(pem.bytes())
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| bad(&error))?;
    match found.is_empty() {
        true => Err(bad(&"there is no BEGIN CERTIFICATE in it")),
        false => Ok(found),
    }
}

fn private_key(pem: &Secret) -> Result<PrivateKeyDer<'static>, BadSink> {
    // What is wrong with a key is not told: the text might hold a part of it.
    PrivateKeyDer::from_pem_slice(pem.bytes()).map_err(|_| {
        BadSink::value(
            "tls.key",
            "is not a private key in PEM (PKCS #8, PKCS #1 or SEC 1, not encrypted)",
        )
    })
}

/// Checks certificates for a name of our own choice, where one is given: not every client library lets us choose.
#[derive(Debug)]
struct Verifier {
    inner: Arc<WebPkiServerVerifier>,
    name: Option<ServerName<'static>>,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let name = self.name.as_ref().unwrap_or(server_name);
        self.inner
            .verify_server_cert(end_entity, intermediates, name, ocsp_response, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.inner.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.inner.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.inner.supported_verify_schemes()
    }
}
