//! Positions of the parts of an object that are asked for often.

use std::ops::Range;

use super::ObjectError;
use crate::raw::{Members, range_of, string_at};

/// Where something stands in the text. Empty at 0 if it is not there.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Span {
    start: u32,
    end: u32,
}

impl Span {
    pub(super) fn range(self) -> Range<usize> {
        self.start as usize..self.end as usize
    }

    /// Where it starts. What is not there starts at the end of all texts, where nothing is read.
    pub(super) fn start(self) -> usize {
        if self.end == 0 {
            usize::MAX
        } else {
            self.start as usize
        }
    }

    fn of(range: &Range<usize>) -> Self {
        // Header::read has checked that positions fit.
        Self {
            start: range.start as u32,
            end: range.end as u32,
        }
    }
}

#[derive(Clone, Debug, Default)]
pub(super) struct Header {
    pub(super) api_version: Span,
    pub(super) kind: Span,
    pub(super) namespace: Span,
    pub(super) name: Span,
    pub(super) uid: Span,
    pub(super) resource_version: Span,
    pub(super) labels: Span,
    pub(super) owners: Span,
    pub(super) finalizers: Span,
    pub(super) generation: i64,
    pub(super) deleting: bool,
}

impl Header {
    /// Finds the parts of an object's text, which must be JSON.
    pub(super) fn read(json: &[u8]) -> Result<Self, ObjectError> {
        if u32::try_from(json.len()).is_err() {
            return Err(ObjectError::TooLarge(json.len()));
        }
        let whole = range_of(json, &[]).filter(|whole| json[whole.start] == b'{');
        let whole = whole.ok_or(ObjectError::NotAnObject)?;
        let mut header = Self::default();
        for member in Members::new(json, whole.start) {
            match &json[member.key] {
                b"apiVersion" => header.api_version = plain(json, &member.value, "apiVersion")?,
                b"kind" => header.kind = plain(json, &member.value, "kind")?,
                b"metadata" => header.read_metadata(json, member.value.start)?,
                _ => {}
            }
        }
        Ok(header)
    }

    fn read_metadata(&mut self, json: &[u8], at: usize) -> Result<(), ObjectError> {
        for member in Members::new(json, at) {
            let value = member.value;
            match &json[member.key] {
                b"namespace" => self.namespace = plain(json, &value, "metadata.namespace")?,
                b"name" => self.name = plain(json, &value, "metadata.name")?,
                b"uid" => self.uid = plain(json, &value, "metadata.uid")?,
                b"resourceVersion" => {
                    self.resource_version = plain(json, &value, "metadata.resourceVersion")?;
                }
                b"labels" => self.labels = Span::of(&value),
                b"ownerReferences" => self.owners = Span::of(&value),
                b"finalizers" => self.finalizers = Span::of(&value),
                b"generation" => {
                    let text = std::str::from_utf8(&json[value]).unwrap_or_default();
                    self.generation = text.parse().unwrap_or(0);
                }
                b"deletionTimestamp" => self.deleting = &json[value] != b"null",
                _ => {}
            }
        }
        Ok(())
    }
}

/// The inside of a string literal without escapes; null counts as empty.
fn plain(json: &[u8], value: &Range<usize>, field: &'static str) -> Result<Span, ObjectError> {
    match &json[value.clone()] {
        b"null" => Ok(Span::default()),
        [b'"', inside @ .., b'"'] if !inside.contains(&b'\\') => {
            Ok(Span::of(&(value.start + 1..value.end - 1)))
        }
        _ => Err(ObjectError::Field(field)),
    }
}

/// Who an object belongs to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwnerReference {
    /// The owner's `apiVersion`.
    pub api_version: String,
    /// The owner's kind.
    pub kind: String,
    /// The owner's name.
    pub name: String,
    /// The owner's UID.
    pub uid: String,
    /// Whether the owner is the controller that manages the object.
    pub controller: bool,
    /// Whether the owner cannot be deleted in the foreground before the object is gone.
    pub block_owner_deletion: bool,
}

impl OwnerReference {
    /// Reads a reference from its text. What is not there, or of the wrong type, stays empty.
    pub(super) fn read(json: &[u8]) -> Self {
        let mut owner = Self::default();
        for member in Members::new(json, 0) {
            let is_true = &json[member.value.clone()] == b"true";
            let text = || {
                string_at(json, member.value.clone())
                    .unwrap_or_default()
                    .into_owned()
            };
            match &json[member.key.clone()] {
                b"apiVersion" => owner.api_version = text(),
                b"kind" => owner.kind = text(),
                b"name" => owner.name = text(),
                b"uid" => owner.uid = text(),
                b"controller" => owner.controller = is_true,
                b"blockOwnerDeletion" => owner.block_owner_deletion = is_true,
                _ => {}
            }
        }
        owner
    }
}
