//! JSON patch (RFC 6902) and JSON merge patch, with the corner cases of the API server's library.

mod apply;
mod merge;
mod operation;
mod pointer;

pub use self::{
    apply::{MAX_COPY_BYTES, json_patch},
    merge::{diff_merge, merge_patch},
    operation::{JsonPatch, MAX_OPERATIONS},
};
use crate::{GroupResource, Status, json::DecodeError};

/// A patch cannot be understood or cannot be applied. Never retryable as it is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatchError {
    /// The patch does not have the shape of a patch.
    #[error("error decoding patch: {0}")]
    Decode(String),
    /// A merge patch that is not an object.
    #[error("Invalid JSON Patch")]
    NotAnObject,
    /// The patch has more operations than [`MAX_OPERATIONS`].
    #[error("The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {0}")]
    TooManyOperations(usize),
    /// An operation does not apply to the object.
    #[error("{0}")]
    Apply(String),
}

impl From<DecodeError> for PatchError {
    fn from(error: DecodeError) -> Self {
        Self::Decode(error.to_string())
    }
}

impl From<PatchError> for Status {
    /// The status that the API server gives for the error.
    fn from(error: PatchError) -> Self {
        match &error {
            PatchError::Decode(_) | PatchError::NotAnObject => Self::bad_request(error.to_string()),
            PatchError::TooManyOperations(_) => Self::request_too_large(&error.to_string()),
            PatchError::Apply(message) => Self::generic(422, "", &GroupResource::default(), "", message),
        }
    }
}

/// The word Go uses for the type of a JSON value in its decoding errors.
fn go_type(value: &serde_json::Value) -> &'static str {
    match value {
        serde_json::Value::Null => "null",
        serde_json::Value::Bool(_) => "bool",
        serde_json::Value::Number(_) => "number",
        serde_json::Value::String(_) => "string",
        serde_json::Value::Array(_) => "array",
        serde_json::Value::Object(_) => "object",
    }
}
