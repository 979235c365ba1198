//! JSON text in and out, by the rules of the Kubernetes API.

mod decode;
mod duplicates;
mod error;
pub(crate) mod number;
mod text;

pub(crate) use self::duplicates::Duplicates;
pub use self::{
    decode::{Decoded, MAX_DEPTH, decode},
    duplicates::MAX_DUPLICATES,
    error::DecodeError,
};
use crate::gofmt;

/// Prints a value as Go's `json.Marshal` does: `<`, `>` and `&` escaped, floats in Go's form.
pub fn to_go_string(value: &serde_json::Value) -> String {
    String::from_utf8(gofmt::json_bytes(value)).unwrap_or_default()
}
