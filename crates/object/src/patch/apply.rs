//! Applying a JSON patch.

use std::io;

use serde_json::Value;

use super::{
    PatchError,
    operation::{JsonPatch, Operation},
    pointer::{depth, find},
};
use crate::json::MAX_DEPTH;

/// How many bytes of JSON the `copy` operations of one patch may add up to.
pub const MAX_COPY_BYTES: usize = 3 * 1024 * 1024;

/// Applies a JSON patch the way the API server does.
///
/// Where that differs from RFC 6902: negative indexes count from the end of a list, `replace` sets a
/// key that an object lacks, and `copy` from such a key copies null. If an operation fails the
/// document keeps the changes of those before it; patch a copy if you still need it.
pub fn json_patch(document: &mut Value, patch: &JsonPatch) -> Result<(), PatchError> {
    let mut copied_bytes = 0;
    for operation in &patch.operations {
        operation
            .apply(document, &mut copied_bytes)
            .map_err(PatchError::Apply)?;
    }
    Ok(())
}

impl Operation {
    fn apply(&self, document: &mut Value, copied_bytes: &mut usize) -> Result<(), String> {
        match self.op.as_str() {
            "add" => self.add(document),
            "remove" => self.remove(document),
            "replace" => self.replace(document),
            "move" => self.relocate(document),
            "test" => self.test(document),
            "copy" => self.copy(document, copied_bytes),
            other => Err(format!("Unexpected kind: {other}")),
        }
    }

    fn add(&self, document: &mut Value) -> Result<(), String> {
        let path = self.path_or("add operation failed to decode path: missing value")?;
        let value = self.value.clone().unwrap_or_default();
        check_depth(path, &value)?;
        let place = find(document, path).ok_or_else(|| {
            format!("add operation does not apply: doc is missing path: \"{path}\": missing value")
        })?;
        place
            .add(value)
            .map_err(|error| format!("error in add for path: '{path}': {error}"))
    }

    fn remove(&self, document: &mut Value) -> Result<(), String> {
        let path = self.path_or("remove operation failed to decode path: missing value")?;
        let place = find(document, path).ok_or_else(|| {
            format!("remove operation does not apply: doc is missing path: \"{path}\": missing value")
        })?;
        place
            .remove()
            .map_err(|error| format!("error in remove for path: '{path}': {error}"))?;
        Ok(())
    }

    fn replace(&self, document: &mut Value) -> Result<(), String> {
        let path = self.path_or(
            "replace operation failed to decode path: operation missing path field: missing value",
        )?;
        let value = self.value.clone().unwrap_or_default();
        check_depth(path, &value)?;
        if path.is_empty() {
            if !matches!(value, Value::Object(_) | Value::Array(_)) {
                return Err("replace operation value must be object or array".to_owned());
            }
            *document = value;
            return Ok(());
        }
        let place = find(document, path).ok_or_else(|| {
            format!("replace operation does not apply: doc is missing path: {path}: missing value")
        })?;
        if place.get().is_err() {
            return Err(format!(
                "replace operation does not apply: doc is missing key: {path}: missing value"
            ));
        }
        place
            .set(value)
            .map_err(|error| format!("error in remove for path: '{path}': {error}"))
    }

    fn relocate(&self, document: &mut Value) -> Result<(), String> {
        let from = self.source_or(
            "move operation failed to decode from: operation, missing from field: missing value",
        )?;
        let source = find(document, from).ok_or_else(|| {
            format!("move operation does not apply: doc is missing from path: {from}: missing value")
        })?;
        let key = source.key.clone();
        let value = source
            .remove()
            .map_err(|error| format!("error in move for path: '{key}': {error}"))?;
        let path = self
            .path_or("move operation failed to decode path: operation missing path field: missing value")?;
        check_depth(path, &value)?;
        let place = find(document, path).ok_or_else(|| {
            format!("move operation does not apply: doc is missing destination path: {path}: missing value")
        })?;
        place
            .add(value)
            .map_err(|error| format!("error in move for path: '{path}': {error}"))
    }

    fn test(&self, document: &mut Value) -> Result<(), String> {
        let path = self
            .path_or("test operation failed to decode path: operation missing path field: missing value")?;
        let expected = self.value.as_ref().unwrap_or(&Value::Null);
        let same = if path.is_empty() {
            *document == *expected
        } else {
            let place = find(document, path).ok_or_else(|| {
                format!("test operation does not apply: is missing path: {path}: missing value")
            })?;
            let found = place
                .get()
                .map_err(|error| format!("error in test for path: '{path}': {error}"))?;
            found.unwrap_or(&Value::Null) == expected
        };
        if same {
            Ok(())
        } else {
            Err(format!("testing value {path} failed: test failed"))
        }
    }

    fn copy(&self, document: &mut Value, copied_bytes: &mut usize) -> Result<(), String> {
        let from = self.source_or(
            "copy operation failed to decode from: operation, missing from field: missing value",
        )?;
        let source = find(document, from).ok_or_else(|| {
            format!("copy operation does not apply: doc is missing from path: {from}: missing value")
        })?;
        let found = source
            .get()
            .map_err(|error| format!("error in copy for from: '{from}': {error}"))?;
        let value = found.cloned();
        let path = self.path_or("copy operation failed to decode path: missing value")?;
        if let Some(value) = &value {
            check_depth(path, value)?;
            *copied_bytes += size(value);
        }
        if *copied_bytes > MAX_COPY_BYTES {
            return Err(format!(
                "Unable to complete the copy, the accumulated size increase of copy is {copied_bytes}, exceeding the limit {MAX_COPY_BYTES}"
            ));
        }
        let place = find(document, path).ok_or_else(|| {
            format!("copy operation does not apply: doc is missing destination path: {path}: missing value")
        })?;
        place
            .add(value.unwrap_or_default())
            .map_err(|error| format!("error while adding value during copy: {error}"))
    }

    fn path_or(&self, complaint: &str) -> Result<&str, String> {
        self.path.as_deref().ok_or_else(|| complaint.to_owned())
    }

    fn source_or(&self, complaint: &str) -> Result<&str, String> {
        self.from.as_deref().ok_or_else(|| complaint.to_owned())
    }
}

/// Keeps the document within [`MAX_DEPTH`]: copies into copies double its depth each time.
fn check_depth(path: &str, value: &Value) -> Result<(), String> {
    if depth(path) + nesting(value) > MAX_DEPTH {
        return Err("exceeded max depth".to_owned());
    }
    Ok(())
}

fn nesting(value: &Value) -> usize {
    match value {
        Value::Object(map) => 1 + map.values().map(nesting).max().unwrap_or(0),
        Value::Array(items) => 1 + items.iter().map(nesting).max().unwrap_or(0),
        _ => 0,
    }
}

/// The length of the value's JSON text.
fn size(value: &Value) -> usize {
    struct Counter(usize);
    impl io::Write for Counter {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut counter = Counter(0);
    // A Value serializes without errors and the counter accepts everything.
    let _ = serde_json::to_writer(&mut counter, value);
    counter.0
}
