//! Why a text is not JSON, in the words of Go's decoder.

use crate::gofmt::quote;

/// The text is not JSON, is nested too deeply, or holds a number that no float can hold.
///
/// The message is that of Go's `encoding/json`, which API servers pass on to clients.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct DecodeError {
    message: String,
    offset: usize,
}

impl DecodeError {
    pub(super) fn new(message: String, offset: usize) -> Self {
        Self { message, offset }
    }

    /// Complains about the byte at `offset`, or about the end of the text if it is there.
    pub(super) fn at(bytes: &[u8], offset: usize, context: &str) -> Self {
        let message = match bytes.get(offset) {
            None => "unexpected end of JSON input".to_owned(),
            Some(byte) => format!("invalid character {} {context}", quote_byte(*byte)),
        };
        Self { message, offset }
    }

    /// Where in the text the decoder stopped, in bytes.
    pub fn offset(&self) -> usize {
        self.offset
    }
}

fn quote_byte(byte: u8) -> String {
    match byte {
        b'\'' => r"'\''".to_owned(),
        b'"' => "'\"'".to_owned(),
        other => {
            let quoted = quote(&char::from(other).to_string());
            format!("'{}'", &quoted[1..quoted.len() - 1])
        }
    }
}
