//! Writes the kubeconfig with which clients reach this control plane.

use std::fmt;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

use super::pki::{self, Pki, PkiError};

/// A kubeconfig of one cluster, one user and one context, with everything embedded.
///
/// The user is known by a token alone: not every client reads the elliptic curve key of a certificate.
#[derive(Clone)]
pub struct Kubeconfig {
    /// `https://host:port`
    pub server: String,
    /// What the client trusts, in PEM.
    pub ca_pem: String,
    /// The user's bearer token.
    pub token: String,
}

impl Kubeconfig {
    /// The administrator's, for a server that shows a certificate of our own authority.
    #[must_use]
    pub(crate) fn admin(server: impl Into<String>, pki: &Pki) -> Self {
        Self {
            server: server.into(),
            ca_pem: pki.ca_pem().to_owned(),
            token: pki.token().to_owned(),
        }
    }

    /// The file's text.
    #[must_use]
    pub fn to_yaml(&self) -> String {
        // A JSON string is a YAML string.
        let (server, token) = (json!(self.server), json!(self.token));
        let ca = STANDARD.encode(&self.ca_pem);
        format!(
            "apiVersion: v1
kind: Config
current-context: skopos
clusters:
- name: skopos
  cluster:
    server: {server}
    certificate-authority-data: {ca}
contexts:
- name: skopos
  context:
    cluster: skopos
    user: kubernetes-admin
    namespace: default
users:
- name: kubernetes-admin
  user:
    token: {token}
"
        )
    }

    /// Writes the file for this user only; a reader sees the old one or the new one.
    ///
    /// # Errors
    /// When the place cannot be written.
    pub fn write(&self, path: &Path) -> Result<(), PkiError> {
        pki::write_private(path, self.to_yaml().as_bytes())
    }
}

impl fmt::Debug for Kubeconfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kubeconfig")
            .field("server", &self.server)
            .finish_non_exhaustive()
    }
}
