//! The values that sinks name.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use futures_core::future::BoxFuture;
use skopos_api::SecretKey;
use skopos_client::{Api, Client, Resource};
use skopos_object::GroupVersionKind;
use skopos_sink::{SecretError, Secrets};

/// Secrets of a namespace, and for sinks from files also the environment and files.
#[derive(Debug)]
pub(crate) struct Values<'a> {
    pub(crate) client: Option<&'a Client>,
    pub(crate) namespace: &'a str,
    pub(crate) is_from_file: bool,
    /// Reads an environment variable.
    pub(crate) env: fn(&str) -> Option<String>,
}

impl Secrets for Values<'_> {
    fn secret<'a>(&'a self, key: &'a SecretKey) -> BoxFuture<'a, Result<Vec<u8>, SecretError>> {
        Box::pin(async move {
            let client = self.client.ok_or(SecretError::Missing)?;
            let resource = Resource::known(&GroupVersionKind::new("", "v1", "Secret"), "secrets", true);
            let api = Api::namespaced(client, &resource, self.namespace);
            let found = api.find(&key.name).await;
            let secret = found.map_err(|error| SecretError::Unavailable(error.into()))?;
            let data = secret
                .as_ref()
                .and_then(|secret| secret.get("data")?.get(&key.key)?.as_str());
            let decoded = STANDARD.decode(data.ok_or(SecretError::Missing)?);
            decoded.map_err(|error| SecretError::Unavailable(error.into()))
        })
    }

    fn env(&self, name: &str) -> Result<String, SecretError> {
        match self.is_from_file {
            true => (self.env)(name).ok_or(SecretError::Missing),
            false => Err(SecretError::NotAllowed),
        }
    }

    fn file<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<Vec<u8>, SecretError>> {
        Box::pin(async move {
            if !self.is_from_file {
                return Err(SecretError::NotAllowed);
            }
            let path = path.to_owned();
            let read = tokio::task::spawn_blocking(move || std::fs::read(path)).await;
            match read {
                Ok(Ok(bytes)) => Ok(bytes),
                Ok(Err(error)) if error.kind() == std::io::ErrorKind::NotFound => Err(SecretError::Missing),
                Ok(Err(error)) => Err(SecretError::Unavailable(error.into())),
                Err(error) => Err(SecretError::Unavailable(error.into())),
            }
        })
    }
}
