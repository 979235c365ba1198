//! From a received text to an object with a buffer of its own, in one pass and one copy.

use std::ops::Range;

use super::header::Header;
use super::scan::{Parts, scan, scan_whole};
use super::{ManagedFields, Object, ObjectError};
use crate::GroupVersionKind;

/// Makes objects out of texts that belong to someone else, such as the buffers of a connection.
///
/// The text is scanned once and copied once, without what is not wanted, into a buffer of exactly the size of what
/// is left.
///
/// ```
/// use skopos_object::{GroupVersionKind, ManagedFields, ObjectReader};
///
/// let reader = ObjectReader::new(ManagedFields::Drop).with_kind_if_missing(&GroupVersionKind::new("", "v1", "Pod"));
/// let pod = reader.read(br#"{"metadata":{"managedFields":[],"name":"a"}}"#)?;
/// assert_eq!(pod.bytes(), r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"}}"#);
/// # Ok::<(), skopos_object::ObjectError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct ObjectReader {
    managed_fields: ManagedFields,
    kind: KindRule,
}

/// What to do with `apiVersion` and `kind`.
#[derive(Clone, Debug, Default)]
enum KindRule {
    #[default]
    AsSent,
    IfMissing(QuotedKind),
    Always(QuotedKind),
}

/// As JSON strings.
#[derive(Clone, Debug)]
struct QuotedKind {
    api_version: Box<str>,
    kind: Box<str>,
}

/// A part of the text that is replaced.
#[derive(Debug)]
struct Edit {
    at: Range<usize>,
    by: String,
}

impl Edit {
    fn drop(at: Range<usize>) -> Self {
        let by = String::new();
        Self { at, by }
    }
}

impl ObjectReader {
    /// Keeps or drops managed fields and leaves everything else as it is.
    pub fn new(managed_fields: ManagedFields) -> Self {
        Self {
            managed_fields,
            kind: KindRule::AsSent,
        }
    }

    /// Completes `apiVersion` and `kind` where they are missing, as in the items of many lists.
    #[must_use]
    pub fn with_kind_if_missing(mut self, kind: &GroupVersionKind) -> Self {
        self.kind = KindRule::IfMissing(QuotedKind::new(kind));
        self
    }

    /// Sets `apiVersion` and `kind` whatever was sent, as for metadata that comes as `PartialObjectMetadata`.
    #[must_use]
    pub fn with_kind(mut self, kind: &GroupVersionKind) -> Self {
        self.kind = KindRule::Always(QuotedKind::new(kind));
        self
    }

    /// Reads a text that is one object.
    pub fn read(&self, text: &[u8]) -> Result<Object, ObjectError> {
        self.make(text, &scan_whole(text, self.managed_fields)?)
    }

    /// Reads the object that a text begins with, and says where it ends. `None` if the text ends before.
    pub fn read_prefix(&self, text: &[u8]) -> Result<Option<(Object, usize)>, ObjectError> {
        let Some((parts, end)) = scan(text, self.managed_fields)? else {
            return Ok(None);
        };
        Ok(Some((self.make(&text[..end], &parts)?, end)))
    }

    fn make(&self, text: &[u8], parts: &Parts) -> Result<Object, ObjectError> {
        let dropped = match self.managed_fields {
            ManagedFields::Drop => parts.metadata.managed_fields.clone(),
            ManagedFields::Keep => None,
        };
        let mut edits = self.edits(parts);
        if !edits.is_empty() {
            edits.extend(dropped.map(Edit::drop));
            return Object::parse(apply(text, &mut edits).into());
        }
        // The usual case: the positions that are known only move.
        let mut header = Header::of(text, parts)?;
        let dropped = dropped.unwrap_or(0..0);
        header.shift(dropped.end, dropped.len());
        let mut bytes = Vec::with_capacity(text.len() - dropped.len());
        bytes.extend_from_slice(&text[..dropped.start]);
        bytes.extend_from_slice(&text[dropped.end..]);
        let bytes = bytes.into();
        Ok(Object { bytes, header })
    }

    /// What to change of `apiVersion` and `kind`.
    fn edits(&self, parts: &Parts) -> Vec<Edit> {
        let mut edits = Vec::new();
        match &self.kind {
            KindRule::AsSent => {}
            KindRule::IfMissing(kind) => kind.complete(parts, &mut edits),
            KindRule::Always(kind) => {
                kind.replace(parts, &mut edits);
                kind.complete(parts, &mut edits);
            }
        }
        edits
    }
}

impl QuotedKind {
    fn new(kind: &GroupVersionKind) -> Self {
        Self {
            api_version: quoted(&kind.api_version()),
            kind: quoted(&kind.kind),
        }
    }

    /// Inserts what is missing behind the opening brace.
    fn complete(&self, parts: &Parts, edits: &mut Vec<Edit>) {
        let mut missing = Vec::new();
        if parts.api_version.is_none() {
            missing.push(format!("\"apiVersion\":{}", self.api_version));
        }
        if parts.kind.is_none() {
            missing.push(format!("\"kind\":{}", self.kind));
        }
        if missing.is_empty() {
            return;
        }
        let comma = if parts.has_members { "," } else { "" };
        edits.push(Edit {
            at: parts.start..parts.start,
            by: missing.join(",") + comma,
        });
    }

    fn replace(&self, parts: &Parts, edits: &mut Vec<Edit>) {
        for (part, by) in [(&parts.api_version, &self.api_version), (&parts.kind, &self.kind)] {
            edits.extend(part.iter().map(|at| Edit {
                at: at.clone(),
                by: by.to_string(),
            }));
        }
    }
}

fn quoted(text: &str) -> Box<str> {
    serde_json::Value::from(text).to_string().into()
}

fn apply(text: &[u8], edits: &mut [Edit]) -> Vec<u8> {
    edits.sort_by_key(|edit| edit.at.start);
    let removed: usize = edits.iter().map(|edit| edit.at.len()).sum();
    let added: usize = edits.iter().map(|edit| edit.by.len()).sum();
    let mut out = Vec::with_capacity(text.len() + added - removed);
    let mut done = 0;
    for edit in edits {
        out.extend_from_slice(&text[done..edit.at.start]);
        out.extend_from_slice(edit.by.as_bytes());
        done = edit.at.end;
    }
    out.extend_from_slice(&text[done..]);
    out
}
