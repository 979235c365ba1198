//! The compact object: one buffer of JSON and where in it the interesting parts stand.

mod header;
mod reader;
mod scan;

use std::{borrow::Cow, fmt};

use bytes::Bytes;
use serde_json::Value;

use self::header::Header;
pub use self::{header::OwnerReference, reader::ObjectReader};
use crate::{GroupVersionKind, LabelSelector, ObjectKey, ResourceVersion, raw};

/// One version of one object: its JSON text, unchanged, plus positions of what is asked for often.
///
/// Cloning shares the text. Besides the text an object costs about 150 bytes, so fifty thousand
/// objects of 1.1 KB take some 65 MB. Fields are read by path without building a tree; a whole
/// [`to_value`](Self::to_value) is the caller's choice.
///
/// An object keeps the whole buffer alive that its text is a slice of. For a cache use
/// [`parse_owned`](Self::parse_owned), which copies the text.
///
/// ```
/// use skopos_object::Object;
///
/// let json = br#"{"kind":"Pod","metadata":{"name":"a","namespace":"b"},"spec":{"nodeName":"n1"}}"#;
/// let object = Object::parse(json.to_vec().into())?;
/// assert_eq!(object.key().to_string(), "b/a");
/// assert_eq!(object.get(&["spec", "nodeName"]), Some("n1".into()));
/// # Ok::<(), skopos_object::ObjectError>(())
/// ```
#[derive(Clone)]
pub struct Object {
    bytes: Bytes,
    header: Header,
}

/// Whether `metadata.managedFields` is kept. It is often a third of an object and seldom read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum ManagedFields {
    /// Leave it out.
    #[default]
    Drop,
    /// Keep it.
    Keep,
}

/// The text is not an object of the Kubernetes kind.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ObjectError {
    /// The text is not JSON.
    #[error("object is not JSON: {0}")]
    NotJson(String),
    /// The text is JSON, but not an object.
    #[error("expected a JSON object")]
    NotAnObject,
    /// The text is larger than positions can say.
    #[error("object of {0} bytes is too large")]
    TooLarge(usize),
    /// A field that must be a plain string is something else, or contains escapes.
    #[error("{0} is not a plain string")]
    Field(&'static str),
}

impl Object {
    /// Takes a text over as it is, after checking that it is JSON.
    pub fn parse(bytes: Bytes) -> Result<Self, ObjectError> {
        let header = Header::of(&bytes, &scan::scan_whole(&bytes, ManagedFields::Keep)?)?;
        Ok(Self { bytes, header })
    }

    /// Copies a text into a buffer of its own, with or without managed fields. See [`ObjectReader`].
    pub fn parse_owned(text: &[u8], managed_fields: ManagedFields) -> Result<Self, ObjectError> {
        ObjectReader::new(managed_fields).read(text)
    }

    /// Makes an object from a tree.
    pub fn from_value(value: &Value) -> Result<Self, ObjectError> {
        Self::parse(value.to_string().into())
    }

    /// The JSON text.
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// `apiVersion`; empty if there is none.
    pub fn api_version(&self) -> &str {
        self.text(self.header.api_version)
    }

    /// `kind`; empty if there is none.
    pub fn kind(&self) -> &str {
        self.text(self.header.kind)
    }

    /// Group, version and kind. An `apiVersion` that has no such form counts as a version.
    pub fn group_version_kind(&self) -> GroupVersionKind {
        GroupVersionKind::from_api_version(self.api_version(), self.kind())
            .unwrap_or_else(|_| GroupVersionKind::new("", self.api_version(), self.kind()))
    }

    /// `metadata.namespace`; empty for cluster-scoped objects.
    pub fn namespace(&self) -> &str {
        self.text(self.header.namespace)
    }

    /// `metadata.name`.
    pub fn name(&self) -> &str {
        self.text(self.header.name)
    }

    /// Namespace and name.
    pub fn key(&self) -> ObjectKey {
        ObjectKey::namespaced(self.namespace(), self.name())
    }

    /// `metadata.uid`; empty if there is none.
    pub fn uid(&self) -> &str {
        self.text(self.header.uid)
    }

    /// `metadata.resourceVersion`; empty if there is none.
    pub fn resource_version(&self) -> ResourceVersion {
        ResourceVersion::from(self.text(self.header.resource_version))
    }

    /// `metadata.generation`; 0 if there is none.
    pub fn generation(&self) -> i64 {
        self.header.generation
    }

    /// Whether `metadata.deletionTimestamp` is set.
    pub fn is_deleting(&self) -> bool {
        self.header.deleting
    }

    /// The labels, in the order of the text.
    pub fn labels(&self) -> impl Iterator<Item = (Cow<'_, str>, Cow<'_, str>)> {
        let members = raw::Members::new(&self.bytes, self.header.labels.start());
        members.filter_map(|member| {
            let key = raw::unescape(&self.bytes[member.key])?;
            Some((key, raw::string_at(&self.bytes, member.value)?))
        })
    }

    /// The value of one label.
    pub fn label(&self, key: &str) -> Option<Cow<'_, str>> {
        self.labels()
            .find(|(label, _)| label == key)
            .map(|(_, value)| value)
    }

    /// Whether the labels meet `selector`.
    pub fn is_selected_by(&self, selector: &LabelSelector) -> bool {
        if selector.is_everything() {
            return true;
        }
        let labels: Vec<_> = self.labels().collect();
        selector.matches(|key| {
            labels
                .iter()
                .find(|(label, _)| label == key)
                .map(|(_, value)| &**value)
        })
    }

    /// The finalizers, in the order of the text.
    pub fn finalizers(&self) -> impl Iterator<Item = Cow<'_, str>> {
        let items = raw::Items::new(&self.bytes, self.header.finalizers.start());
        items.filter_map(|item| raw::string_at(&self.bytes, item))
    }

    /// The owner references, in the order of the text.
    pub fn owners(&self) -> impl Iterator<Item = OwnerReference> {
        let items = raw::Items::new(&self.bytes, self.header.owners.start());
        items.map(|item| OwnerReference::read(&self.bytes[item]))
    }

    /// The value at `path`, as a tree. Numbers in the path index lists.
    pub fn get(&self, path: &[&str]) -> Option<Value> {
        crate::json::decode(self.raw(path)?)
            .ok()
            .map(|decoded| decoded.value)
    }

    /// The JSON text at `path`. Numbers in the path index lists.
    pub fn raw(&self, path: &[&str]) -> Option<&[u8]> {
        raw::raw_path(&self.bytes, path)
    }

    /// The whole object as a tree.
    pub fn to_value(&self) -> Value {
        // The text was found to be JSON when the object was made; only its depth may be beyond us.
        crate::json::decode(&self.bytes)
            .map(|decoded| decoded.value)
            .unwrap_or_default()
    }

    fn text(&self, span: header::Span) -> &str {
        self.bytes
            .get(span.range())
            .and_then(|raw| std::str::from_utf8(raw).ok())
            .unwrap_or_default()
    }
}

impl PartialEq for Object {
    /// Whether the texts are the same, byte by byte.
    fn eq(&self, other: &Self) -> bool {
        self.bytes == other.bytes
    }
}

impl Eq for Object {}

impl fmt::Debug for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Object({} {} @{})",
            self.kind(),
            self.key(),
            self.resource_version()
        )
    }
}
