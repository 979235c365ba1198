//! Positions of the parts of an object that are asked for often.

use std::ops::Range;

use super::ObjectError;
use super::scan::Parts;
use crate::raw::{Members, string_at};

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
        // [`Header::of`] has checked that positions fit.
        Self {
            start: range.start as u32,
            end: range.end as u32,
        }
    }

    fn shift(&mut self, from: u32, by: u32) {
        if self.start >= from {
            self.start -= by;
            self.end -= by;
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
    /// Notes where the parts of an object's text stand.
    pub(super) fn of(json: &[u8], parts: &Parts) -> Result<Self, ObjectError> {
        if u32::try_from(json.len()).is_err() {
            return Err(ObjectError::TooLarge(json.len()));
        }
        let metadata = &parts.metadata;
        let span = |part: &Option<Range<usize>>| part.as_ref().map(Span::of).unwrap_or_default();
        Ok(Self {
            api_version: plain(json, &parts.api_version, "apiVersion")?,
            kind: plain(json, &parts.kind, "kind")?,
            namespace: plain(json, &metadata.namespace, "metadata.namespace")?,
            name: plain(json, &metadata.name, "metadata.name")?,
            uid: plain(json, &metadata.uid, "metadata.uid")?,
            resource_version: plain(json, &metadata.resource_version, "metadata.resourceVersion")?,
            labels: span(&metadata.labels),
            owners: span(&metadata.owners),
            finalizers: span(&metadata.finalizers),
            generation: metadata
                .generation
                .clone()
                .and_then(|at| std::str::from_utf8(&json[at]).ok()?.parse().ok())
                .unwrap_or(0),
            deleting: metadata
                .deletion_timestamp
                .clone()
                .is_some_and(|at| &json[at] != b"null"),
        })
    }

    /// Moves everything from a position on so many bytes towards the beginning.
    pub(super) fn shift(&mut self, from: usize, by: usize) {
        // Positions within a text fit, which [`Header::of`] has checked.
        let (from, by) = (from as u32, by as u32);
        for span in [
            &mut self.api_version,
            &mut self.kind,
            &mut self.namespace,
            &mut self.name,
            &mut self.uid,
            &mut self.resource_version,
            &mut self.labels,
            &mut self.owners,
            &mut self.finalizers,
        ] {
            span.shift(from, by);
        }
    }
}

/// The inside of a string literal without escapes; null counts as empty.
fn plain(json: &[u8], value: &Option<Range<usize>>, field: &'static str) -> Result<Span, ObjectError> {
    let Some(value) = value else {
        return Ok(Span::default());
    };
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
