//! Why a text is not YAML, or not YAML that JSON can express.

use granit_parser::ScanError;

/// The text is not YAML, says something JSON cannot express, or goes beyond a bound.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("yaml: line {line}: {message}")]
pub struct YamlError {
    line: usize,
    message: String,
}

impl YamlError {
    pub(super) fn new(line: usize, message: impl Into<String>) -> Self {
        Self {
            line,
            message: message.into(),
        }
    }

    /// The line where reading stopped, counted from 1.
    pub fn line(&self) -> usize {
        self.line
    }
}

impl From<ScanError> for YamlError {
    fn from(error: ScanError) -> Self {
        Self::new(error.marker().line(), error.info())
    }
}
