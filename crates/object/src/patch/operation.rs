//! The operations of a JSON patch.

use serde_json::{Map, Value};

use super::{PatchError, go_type};
use crate::json::MAX_DUPLICATES;

/// How many operations a JSON patch may have.
pub const MAX_OPERATIONS: usize = 10_000;

/// A JSON patch: operations that are applied one after the other.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct JsonPatch {
    pub(super) operations: Vec<Operation>,
    unknown_fields: Vec<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Operation {
    pub(super) op: String,
    pub(super) path: Option<String>,
    pub(super) from: Option<String>,
    pub(super) value: Option<Value>,
}

impl JsonPatch {
    /// Reads a patch from its JSON form.
    ///
    /// Operations are checked when they are applied, as the API server does; here only their types
    /// and their number are.
    pub fn parse(patch: &Value) -> Result<Self, PatchError> {
        let items = match patch {
            Value::Array(items) => items.as_slice(),
            Value::Null => &[],
            other => return Err(wrong_type(other, "Go value of type []handlers.jsonPatchOp")),
        };
        let mut parsed = Self::default();
        for (i, item) in items.iter().enumerate() {
            let operation = match item {
                Value::Object(fields) => {
                    parsed.note_unknown(i, fields);
                    Operation::parse(fields)?
                }
                Value::Null => Operation::parse(&Map::new())?,
                other => return Err(wrong_type(other, "Go value of type handlers.jsonPatchOp")),
            };
            parsed.operations.push(operation);
        }
        if parsed.operations.len() > MAX_OPERATIONS {
            return Err(PatchError::TooManyOperations(parsed.operations.len()));
        }
        Ok(parsed)
    }

    /// How many operations the patch has.
    pub fn len(&self) -> usize {
        self.operations.len()
    }

    /// Whether the patch does nothing.
    pub fn is_empty(&self) -> bool {
        self.operations.is_empty()
    }

    /// The paths of fields that no operation has, such as `[0].extra`, for strict decoding.
    pub fn unknown_fields(&self) -> &[String] {
        &self.unknown_fields
    }

    fn note_unknown(&mut self, index: usize, fields: &Map<String, Value>) {
        for key in fields
            .keys()
            .filter(|key| !matches!(key.as_str(), "op" | "path" | "from" | "value"))
        {
            if self.unknown_fields.len() < MAX_DUPLICATES {
                self.unknown_fields.push(format!("[{index}].{key}"));
            }
        }
    }
}

impl Operation {
    fn parse(fields: &Map<String, Value>) -> Result<Self, PatchError> {
        let text = |key: &str| match fields.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone())),
            Some(other) => Err(wrong_type(
                other,
                &format!("Go struct field jsonPatchOp.{key} of type string"),
            )),
        };
        Ok(Self {
            op: text("op")?.unwrap_or_else(|| "unknown".to_owned()),
            path: text("path")?,
            from: text("from")?,
            value: fields.get("value").cloned(),
        })
    }
}

fn wrong_type(value: &Value, target: &str) -> PatchError {
    PatchError::Decode(format!("json: cannot unmarshal {} into {target}", go_type(value)))
}
