//! JSON text in and out, by the rules of the Kubernetes API.

mod decode;
mod error;
mod number;
mod text;

pub use self::{
    decode::{Decoded, MAX_DEPTH, MAX_DUPLICATES, decode},
    error::DecodeError,
};
use crate::gofmt;

/// Prints a value as Go's `json.Marshal` does: `<`, `>` and `&` escaped, floats in Go's form.
pub fn to_go_string(value: &serde_json::Value) -> String {
    String::from_utf8(gofmt::json_bytes(value)).unwrap_or_default()
}
