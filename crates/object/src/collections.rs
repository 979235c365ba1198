//! Where collections are found by name, whether or not they exist yet.

use std::{error::Error, fmt, sync::Arc};

use futures_core::future::BoxFuture;

use crate::{GroupVersionKind, ListWatch, ManagedFields};

/// Opens collections by name: an API server, or anything else that has several kinds of objects.
///
/// What serves a name may come, change its version and go while a program runs. Then the name is opened
/// again; the [`ListWatch`] of before answers with errors or as it did.
pub trait Collections: Send + Sync + fmt::Debug {
    /// Finds what serves `name`, perhaps from memory.
    fn open<'a>(&'a self, name: &'a CollectionName) -> BoxFuture<'a, Result<Collection, OpenError>>;

    /// Finds what serves `name` now, because there is doubt about what is remembered. Who remembers nothing needs only
    /// [`open`](Self::open).
    fn reopen<'a>(&'a self, name: &'a CollectionName) -> BoxFuture<'a, Result<Collection, OpenError>> {
        self.open(name)
    }
}

/// The name of a collection, as a user knows it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CollectionName {
    /// The API group; empty for the core group.
    pub group: String,
    /// The version; nothing means the one that the server prefers.
    pub version: Option<String>,
    /// Plural, singular, short name or kind.
    pub resource: String,
    /// One namespace; nothing means all, or a kind without namespaces.
    pub namespace: Option<String>,
    /// How much of each object is wanted.
    pub content: Content,
}

/// How much of each object is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Content {
    /// All of it, with or without managed fields.
    Full(ManagedFields),
    /// Only its metadata.
    Metadata,
}

impl Default for Content {
    fn default() -> Self {
        Self::Full(ManagedFields::Drop)
    }
}

/// A collection that was found.
#[derive(Clone, Debug)]
pub struct Collection {
    /// What its objects are, in the version that was chosen.
    pub kind: GroupVersionKind,
    /// The plural, as in paths.
    pub plural: String,
    /// The name for one of them; empty if that is not known.
    pub singular: String,
    /// Abbreviations.
    pub short_names: Vec<String>,
    /// Whether its objects live in namespaces.
    pub namespaced: bool,
    /// How to read and follow it.
    pub source: Arc<dyn ListWatch>,
}

/// A collection was not opened. Only [`Unavailable`](Self::Unavailable) is retryable as it is; what is
/// missing now may be there later.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// There is certainly no such collection now.
    #[error("no resource is named {0}")]
    Missing(String),
    /// The name means several collections; the text says which.
    #[error("{0}")]
    Ambiguous(String),
    /// It could not be found out, for example because the group's server is away.
    #[error("what is served is not known now")]
    Unavailable(#[source] Box<dyn Error + Send + Sync>),
}

impl CollectionName {
    /// Names a collection over all namespaces by group and plural (or kind), in the preferred version.
    pub fn new(group: impl Into<String>, resource: impl Into<String>) -> Self {
        Self {
            group: group.into(),
            version: None,
            resource: resource.into(),
            namespace: None,
            content: Content::default(),
        }
    }

    /// The same in one namespace.
    #[must_use]
    pub fn within(self, namespace: impl Into<String>) -> Self {
        Self {
            namespace: Some(namespace.into()),
            ..self
        }
    }

    /// The same with another amount of each object.
    #[must_use]
    pub fn with_content(self, content: Content) -> Self {
        Self { content, ..self }
    }
}

impl From<&str> for CollectionName {
    /// Reads `plural.group`, such as `deployments.apps`, or `plural` for the core group.
    fn from(text: &str) -> Self {
        let (resource, group) = text.split_once('.').unwrap_or((text, ""));
        Self::new(group, resource)
    }
}

impl fmt::Display for CollectionName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.resource)?;
        match (&self.version, self.group.is_empty()) {
            (None, true) => Ok(()),
            (None, false) => write!(f, ".{}", self.group),
            (Some(version), true) => write!(f, ".{version}"),
            (Some(version), false) => write!(f, ".{version}.{}", self.group),
        }?;
        match &self.namespace {
            Some(namespace) => write!(f, " in {namespace}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_written_as_kubectl_takes_it() {
        let apps = CollectionName::new("skopos.dev", "applications");
        assert_eq!(apps.to_string(), "applications.skopos.dev");
        let pinned = CollectionName {
            version: Some("v1".into()),
            ..apps
        };
        assert_eq!(
            pinned.within("shop").to_string(),
            "applications.v1.skopos.dev in shop"
        );
        assert_eq!(CollectionName::new("", "pods").to_string(), "pods");
    }
}
