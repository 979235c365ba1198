//! Values that a spec names but does not hold.

use std::{error::Error, fmt};

use futures_core::future::BoxFuture;
use http::{Uri, uri::PathAndQuery};
use skopos_api::{Auth, SecretKey, ValueSource};

use crate::connect::BadSink;

/// Where the values that a sink names are found.
///
/// Environment variables and files are those of the process, so only who started it may name them: a caller leaves
/// these methods out for sinks that others may write.
pub trait Secrets: Send + Sync {
    /// The value of a key of a Secret in the sink's namespace.
    fn secret<'a>(&'a self, key: &'a SecretKey) -> BoxFuture<'a, Result<Vec<u8>, SecretError>>;

    /// The value of an environment variable.
    fn env(&self, name: &str) -> Result<String, SecretError> {
        let _ = name;
        Err(SecretError::NotAllowed)
    }

    /// The content of a file.
    fn file<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<Vec<u8>, SecretError>> {
        let _ = path;
        Box::pin(std::future::ready(Err(SecretError::NotAllowed)))
    }
}

/// Why there is no value. The texts of sources must not hold the value.
#[derive(Debug, thiserror::Error)]
pub enum SecretError {
    /// There is no such Secret, key, variable or file.
    #[error("it does not exist")]
    Missing,
    /// Sinks of this origin may not name such a thing.
    #[error("only sinks from the directory of Skopos may use it; use a Secret")]
    NotAllowed,
    /// It could not be read now; later it may work.
    #[error("it cannot be read")]
    Unavailable(#[source] Box<dyn Error + Send + Sync>),
}

/// A value that is never shown.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Secret(Vec<u8>);

impl Secret {
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// The value as text, without the line end that files and many Secrets have.
    pub(crate) fn text(&self, field: &'static str) -> Result<String, BadSink> {
        let text = std::str::from_utf8(&self.0).map_err(|_| BadSink::Value {
            field,
            problem: "is not text in UTF-8".into(),
        })?;
        Ok(text.trim_end_matches(['\r', '\n']).to_owned())
    }
}

impl From<String> for Secret {
    fn from(text: String) -> Self {
        Self(text.into_bytes())
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("…")
    }
}

/// Text that is never shown.
#[derive(Clone, Default, PartialEq, Eq)]
pub(crate) struct Hidden(pub(crate) String);

impl fmt::Debug for Hidden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("…")
    }
}

/// A text of somebody else without what must stay hidden.
pub(crate) fn without<'a>(hidden: impl Iterator<Item = &'a Hidden>, text: &str) -> String {
    let mut hidden: Vec<&str> = hidden.map(|hidden| hidden.0.as_str()).collect();
    hidden.retain(|hidden| !hidden.is_empty());
    // The longest first: a part of one that was taken out before would leave the rest of it.
    hidden.sort_by_key(|hidden| std::cmp::Reverse(hidden.len()));
    hidden
        .into_iter()
        .fold(text.to_owned(), |text, hidden| text.replace(hidden, "…"))
}

/// A text that was cut, without the beginning of what must stay hidden at its end.
pub(crate) fn without_begun<'a>(hidden: impl Iterator<Item = &'a Hidden>, text: &str) -> String {
    // What was cut within a character ends with one that stands for that.
    let text = text.trim_end_matches(char::REPLACEMENT_CHARACTER);
    let begun = |hidden: &'a Hidden| {
        let beginnings = hidden.0.char_indices().map(|(end, _)| &hidden.0[..end]);
        let longest = beginnings.rev().find(|begun| text.ends_with(begun));
        longest.map_or(0, str::len)
    };
    match hidden.map(begun).max().unwrap_or(0) {
        0 => text.to_owned(),
        n => format!("{}…", &text[..text.len() - n]),
    }
}

/// What of an address must stay hidden if somebody repeats it: all behind the server, as it is and decoded, and whatever
/// in there may be a key, since it may be escaped in any way.
pub(crate) fn parts_of_address(uri: &Uri) -> Vec<Hidden> {
    /// Shorter words are no keys, and would tear texts apart.
    const LEAST_KEY: usize = 6;
    let path = uri.path();
    let wholes = [
        uri.path_and_query().map_or("", PathAndQuery::as_str),
        path,
        uri.query().unwrap_or_default(),
    ];
    let wholes = wholes.into_iter().filter(|whole| whole.len() > 1);
    let wholes: Vec<String> = wholes
        .flat_map(|whole| [whole.to_owned(), percent_decoded(whole)])
        .collect();
    let is_separator = |c: char| !(c.is_alphanumeric() || matches!(c, '-' | '_' | '.' | '~'));
    let keys = wholes.iter().flat_map(|whole| whole.split(is_separator));
    let keys = keys.filter(|key| key.len() >= LEAST_KEY).map(str::to_owned);
    keys.chain(wholes.iter().cloned()).map(Hidden).collect()
}

fn percent_decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let code = after.get(..2).filter(|_| *first == b'%');
        let code = code.and_then(|code| u8::from_str_radix(std::str::from_utf8(code).ok()?, 16).ok());
        bytes.push(code.unwrap_or(*first));
        rest = if code.is_some() { &after[2..] } else { after };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Who we say we are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Identity {
    Password { username: String, password: Hidden },
    Token(Hidden),
}

/// Finds the value that `source` names; `field` is where in the spec it stands.
pub(crate) async fn resolve(
    secrets: &dyn Secrets,
    field: &'static str,
    source: &ValueSource,
) -> Result<Secret, BadSink> {
    let ValueSource {
        value,
        secret,
        env,
        file,
    } = source;
    let (place, found) = match (value, secret, env, file) {
        (Some(value), None, None, None) => return Ok(Secret(value.clone().into_bytes())),
        (None, Some(key), None, None) => (
            format!("key {:?} of Secret {:?}", key.key, key.name),
            secrets.secret(key).await,
        ),
        (None, None, Some(name), None) => (
            format!("environment variable {name:?}"),
            secrets.env(name).map(String::into_bytes),
        ),
        (None, None, None, Some(path)) => (format!("file {path:?}"), secrets.file(path).await),
        _ => {
            return Err(BadSink::Value {
                field,
                problem: "must have exactly one of value, secret, env and file".into(),
            });
        }
    };
    found
        .map(Secret)
        .map_err(|source| BadSink::Secret { field, place, source })
}

/// Finds a text.
pub(crate) async fn text(
    secrets: &dyn Secrets,
    field: &'static str,
    source: &ValueSource,
) -> Result<Hidden, BadSink> {
    resolve(secrets, field, source).await?.text(field).map(Hidden)
}

/// Finds out who we are.
pub(crate) async fn identity(
    secrets: &dyn Secrets,
    auth: Option<&Auth>,
) -> Result<Option<Identity>, BadSink> {
    let Some(auth) = auth else { return Ok(None) };
    match (&auth.username, &auth.password, &auth.token) {
        (Some(username), Some(password), None) => Ok(Some(Identity::Password {
            username: username.clone(),
            password: text(secrets, "auth.password", password).await?,
        })),
        (None, None, Some(token)) => {
            let token = text(secrets, "auth.token", token).await?;
            Ok(Some(Identity::Token(token)))
        }
        _ => Err(BadSink::Value {
            field: "auth",
            problem: "must have username and password, or token alone".into(),
        }),
    }
}

/// Like [`identity`], for servers that know only users with passwords.
pub(crate) async fn user(
    secrets: &dyn Secrets,
    auth: Option<&Auth>,
) -> Result<Option<(String, Hidden)>, BadSink> {
    match identity(secrets, auth).await? {
        Some(Identity::Password { username, password }) => Ok(Some((username, password))),
        Some(Identity::Token(_)) => Err(BadSink::Value {
            field: "auth.token",
            problem: "does not work here: give username and password".into(),
        }),
        None => Ok(None),
    }
}
