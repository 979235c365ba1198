//! What can be told of a text that should have been an object.

use bytes::Bytes;
use skopos_object::{Malformed, Object, ObjectKey, ObjectReader, ResourceVersion, raw_path};

/// How much of the text is kept for people to look at.
const MAX_TEXT_BYTES: usize = 16 << 10;

/// Reads an object, which must have a name.
#[expect(clippy::result_large_err, reason = "an object is as large")]
pub(crate) fn read(reader: &ObjectReader, text: &[u8]) -> Result<Object, Malformed> {
    match reader.read(text) {
        Ok(object) => named(object),
        Err(error) => Err(malformed(text, error.to_string())),
    }
}

/// Without a name there is nothing to know an object by.
#[expect(clippy::result_large_err, reason = "an object is as large")]
pub(crate) fn named(object: Object) -> Result<Object, Malformed> {
    if object.name().is_empty() {
        return Err(malformed(object.bytes(), "it has no name".to_owned()));
    }
    Ok(object)
}

/// Tells what it can. The text may be anything, also the beginning of something larger.
pub(crate) fn malformed(text: &[u8], reason: String) -> Malformed {
    let name = string(text, "name").unwrap_or_default();
    let namespace = string(text, "namespace").unwrap_or_default();
    Malformed {
        key: (!name.is_empty()).then(|| ObjectKey::namespaced(&namespace, &name)),
        resource_version: ResourceVersion::new(string(text, "resourceVersion").unwrap_or_default()),
        text: Bytes::copy_from_slice(&text[..text.len().min(MAX_TEXT_BYTES)]),
        reason,
    }
}

fn string(text: &[u8], field: &str) -> Option<String> {
    let raw = raw_path(text, &["metadata", field])?;
    serde_json::from_slice(raw).ok()
}
