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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{MAX_OPERATIONS, Reason, Status};

    fn apply(document: Value, patch: &Value) -> Result<Value, String> {
        let mut document = document;
        let patch = JsonPatch::parse(patch).map_err(|error| error.to_string())?;
        json_patch(&mut document, &patch).map_err(|error| error.to_string())?;
        Ok(document)
    }

    fn check(document: Value, patch: Value, expect: Value) {
        assert_eq!(apply(document, &patch), Ok(expect), "{patch}");
    }

    #[test]
    fn applies_operations() {
        check(
            json!({"a": 1}),
            json!([{"op": "add", "path": "/b", "value": 2}]),
            json!({"a": 1, "b": 2}),
        );
        check(
            json!({"a": 1}),
            json!([{"op": "add", "path": "/a", "value": 2}]),
            json!({"a": 2}),
        );
        check(
            json!({"a": [1, 3]}),
            json!([{"op": "add", "path": "/a/1", "value": 2}]),
            json!({"a": [1, 2, 3]}),
        );
        check(
            json!({"a": [1]}),
            json!([{"op": "add", "path": "/a/1", "value": 2}]),
            json!({"a": [1, 2]}),
        );
        check(
            json!({"a": [1]}),
            json!([{"op": "add", "path": "/a/-", "value": 2}]),
            json!({"a": [1, 2]}),
        );
        check(
            json!({"a": 1}),
            json!([{"op": "remove", "path": "/a"}]),
            json!({}),
        );
        check(
            json!({"a": [1, 2]}),
            json!([{"op": "remove", "path": "/a/0"}]),
            json!({"a": [2]}),
        );
        check(
            json!({"a": {"b": 1}}),
            json!([{"op": "replace", "path": "/a/b", "value": 2}]),
            json!({"a": {"b": 2}}),
        );
        check(
            json!({"a": 1}),
            json!([{"op": "replace", "path": "", "value": {"b": 1}}]),
            json!({"b": 1}),
        );
        check(
            json!({"a": 1}),
            json!([{"op": "move", "from": "/a", "path": "/b"}]),
            json!({"b": 1}),
        );
        check(
            json!({"a": [1]}),
            json!([{"op": "copy", "from": "/a", "path": "/a/0"}]),
            json!({"a": [[1], 1]}),
        );
        check(
            json!({"a": [1]}),
            json!([{"op": "test", "path": "/a", "value": [1]}]),
            json!({"a": [1]}),
        );
        check(
            json!({"a~/b": 1}),
            json!([{"op": "remove", "path": "/a~0~1b"}]),
            json!({}),
        );
        check(
            json!({"": {"": 1}}),
            json!([{"op": "remove", "path": "//"}]),
            json!({"": {}}),
        );
        check(json!({"a": 1}), json!(null), json!({"a": 1}));
    }

    #[test]
    fn has_the_corner_cases_of_the_api_server() {
        check(
            json!({"a": [1, 2]}),
            json!([{"op": "replace", "path": "/a/-1", "value": 3}]),
            json!({"a": [1, 3]}),
        );
        check(
            json!({"a": [1, 2]}),
            json!([{"op": "add", "path": "/a/-1", "value": 3}]),
            json!({"a": [1, 2, 3]}),
        );
        check(
            json!({}),
            json!([{"op": "replace", "path": "/a", "value": 3}]),
            json!({"a": 3}),
        );
        check(
            json!({}),
            json!([{"op": "copy", "from": "/a", "path": "/b"}]),
            json!({"b": null}),
        );
        check(
            json!({}),
            json!([{"op": "test", "path": "/a", "value": null}]),
            json!({}),
        );
        check(json!({}), json!([{"op": "test", "path": "/a"}]), json!({}));
        check(
            json!({}),
            json!([{"op": "add", "path": "/a"}]),
            json!({"a": null}),
        );
        check(
            json!({}),
            json!([{"op": "add", "path": "ignored/a", "value": 1}]),
            json!({"a": 1}),
        );
    }

    #[test]
    fn explains_what_does_not_apply() {
        for (operation, expect) in [
            (
                json!({"op": "add", "path": "/x/y", "value": 1}),
                "add operation does not apply: doc is missing path: \"/x/y\": missing value",
            ),
            (
                json!({"op": "add", "path": "/s/y", "value": 1}),
                "add operation does not apply: doc is missing path: \"/s/y\": missing value",
            ),
            (
                json!({"op": "add", "path": "", "value": 1}),
                "add operation does not apply: doc is missing path: \"\": missing value",
            ),
            (
                json!({"op": "add", "value": 1}),
                "add operation failed to decode path: missing value",
            ),
            (
                json!({"op": "add", "path": "/l/3", "value": 1}),
                "error in add for path: '/l/3': Unable to access invalid index: 3: invalid index referenced",
            ),
            (
                json!({"op": "add", "path": "/l/x", "value": 1}),
                "error in add for path: '/l/x': value was not a proper array index: 'x': strconv.Atoi: parsing \"x\": invalid syntax",
            ),
            (
                json!({"op": "remove", "path": "/x"}),
                "error in remove for path: '/x': Unable to remove nonexistent key: x: missing value",
            ),
            (
                json!({"op": "remove", "path": "/l/-3"}),
                "error in remove for path: '/l/-3': Unable to access invalid index: -3: invalid index referenced",
            ),
            (
                json!({"op": "replace", "path": "/l/2", "value": 1}),
                "replace operation does not apply: doc is missing key: /l/2: missing value",
            ),
            (
                json!({"op": "replace", "path": "", "value": 1}),
                "replace operation value must be object or array",
            ),
            (
                json!({"op": "move", "from": "/x", "path": "/y"}),
                "error in move for path: 'x': Unable to remove nonexistent key: x: missing value",
            ),
            (
                json!({"op": "move", "from": "/o", "path": "/o/a"}),
                "move operation does not apply: doc is missing destination path: /o/a: missing value",
            ),
            (
                json!({"op": "copy", "from": "/l/9", "path": "/y"}),
                "error in copy for from: '/l/9': Unable to access invalid index: 9: invalid index referenced",
            ),
            (
                json!({"op": "test", "path": "/s", "value": "u"}),
                "testing value /s failed: test failed",
            ),
            (
                json!({"op": "test", "path": "", "value": {}}),
                "testing value  failed: test failed",
            ),
            (json!({"op": "jump", "path": "/s"}), "Unexpected kind: jump"),
            (json!(null), "Unexpected kind: unknown"),
        ] {
            let document = json!({"s": "t", "l": [1, 2], "o": {}});
            assert_eq!(apply(document, &json!([operation])), Err(expect.to_owned()));
        }
    }

    #[test]
    fn explains_what_is_no_patch() {
        for (patch, expect) in [
            (
                json!({}),
                "error decoding patch: json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp",
            ),
            (
                json!([1]),
                "error decoding patch: json: cannot unmarshal number into Go value of type handlers.jsonPatchOp",
            ),
            (
                json!([{"op": "add", "path": 3}]),
                "error decoding patch: json: cannot unmarshal number into Go struct field jsonPatchOp.path of type string",
            ),
        ] {
            assert_eq!(JsonPatch::parse(&patch).unwrap_err().to_string(), expect);
        }
        let patch = JsonPatch::parse(&json!([{"op": "add", "path": "/a", "extra": 1}])).unwrap();
        assert_eq!(patch.unknown_fields(), ["[0].extra"]);
    }

    #[test]
    fn bounds_operations_copies_and_depth() {
        let many = Value::Array(vec![Value::Null; MAX_OPERATIONS + 1]);
        let status = Status::from(JsonPatch::parse(&many).unwrap_err());
        assert_eq!(status.reason, Reason::RequestEntityTooLarge);
        assert_eq!(
            status.message,
            "Request entity too large: The allowed maximum operations in a JSON patch is 10000, got 10001"
        );

        let document = json!({"l": ["x".repeat(MAX_COPY_BYTES / 4)]});
        let copies = Value::Array(vec![json!({"op": "copy", "from": "/l/0", "path": "/l/-"}); 4]);
        let error = apply(document, &copies).unwrap_err();
        assert!(error.starts_with("Unable to complete the copy"), "{error}");

        let nest = Value::Array(vec![json!({"op": "copy", "from": "/a", "path": "/a/a"}); 30]);
        assert_eq!(
            apply(json!({"a": {}}), &nest),
            Err("exceeded max depth".to_owned())
        );
    }
}
