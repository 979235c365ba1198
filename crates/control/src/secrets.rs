//! The values that sinks name.

use std::{
    collections::hash_map::RandomState,
    fmt,
    hash::BuildHasher as _,
    sync::{Mutex, PoisonError},
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use futures_core::future::BoxFuture;
use skopos_api::SecretKey;
use skopos_client::{Api, Client, Resource};
use skopos_object::GroupVersionKind;
use skopos_sink::{SecretError, Secrets};

/// Secrets of a namespace, and for sinks from files also the environment and files. Notes what was asked for.
#[derive(Debug)]
pub(crate) struct Values<'a> {
    pub(crate) client: Option<&'a Client>,
    pub(crate) namespace: &'a str,
    pub(crate) is_from_file: bool,
    /// Reads an environment variable.
    pub(crate) env: fn(&str) -> Option<String>,
    /// By which values are compared, so that they need not be kept.
    pub(crate) hasher: &'a RandomState,
    pub(crate) named: Mutex<Vec<Named>>,
}

/// A value that was asked for, and what it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Named {
    pub(crate) what: What,
    hash: u64,
}

/// Where a value comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum What {
    Secret(SecretKey),
    Env(String),
    File(String),
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Secret(key) => write!(f, "key {} of the Secret {}", key.key, key.name),
            Self::Env(name) => write!(f, "the variable {name}"),
            Self::File(path) => write!(f, "the file {path}"),
        }
    }
}

impl Values<'_> {
    /// What was asked for.
    pub(crate) fn into_named(self) -> Vec<Named> {
        self.named.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a value is there and another one than before.
    pub(crate) async fn has_changed(&self, named: &Named) -> bool {
        let value = match &named.what {
            What::Secret(key) => self.read_secret(key).await,
            What::Env(name) => self.read_env(name).map(String::into_bytes),
            What::File(path) => self.read_file(path).await,
        };
        value.is_ok_and(|value| self.hasher.hash_one(&value) != named.hash)
    }

    fn note(&self, what: What, value: &[u8]) {
        let hash = self.hasher.hash_one(value);
        let mut named = self.named.lock().unwrap_or_else(PoisonError::into_inner);
        named.push(Named { what, hash });
    }

    async fn read_secret(&self, key: &SecretKey) -> Result<Vec<u8>, SecretError> {
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
    }

    fn read_env(&self, name: &str) -> Result<String, SecretError> {
        match self.is_from_file {
            true => (self.env)(name).ok_or(SecretError::Missing),
            false => Err(SecretError::NotAllowed),
        }
    }

    async fn read_file(&self, path: &str) -> Result<Vec<u8>, SecretError> {
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
    }
}

impl Secrets for Values<'_> {
    fn secret<'a>(&'a self, key: &'a SecretKey) -> BoxFuture<'a, Result<Vec<u8>, SecretError>> {
        Box::pin(async move {
            let value = self.read_secret(key).await?;
            self.note(What::Secret(key.clone()), &value);
            Ok(value)
        })
    }

    fn env(&self, name: &str) -> Result<String, SecretError> {
        let value = self.read_env(name)?;
        self.note(What::Env(name.to_owned()), value.as_bytes());
        Ok(value)
    }

    fn file<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<Vec<u8>, SecretError>> {
        Box::pin(async move {
            let value = self.read_file(path).await?;
            self.note(What::File(path.to_owned()), &value);
            Ok(value)
        })
    }
}
