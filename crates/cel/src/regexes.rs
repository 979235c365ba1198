//! Patterns: RE2's syntax by the `regex` crate, which has the same guarantees.

use regex::{Regex, RegexBuilder};

/// How large a compiled pattern may become.
const MAX_COMPILED_BYTES: usize = 1 << 20;

/// Compiles a pattern, or says what is wrong with it.
pub(crate) fn compile(pattern: &str) -> Result<Regex, String> {
    RegexBuilder::new(pattern)
        .size_limit(MAX_COMPILED_BYTES)
        .dfa_size_limit(MAX_COMPILED_BYTES)
        .build()
        .map_err(|error| describe(pattern, &error.to_string()))
}

/// The reason in Go's words, for the common ones.
fn describe(pattern: &str, error: &str) -> String {
    let from = |c: char| pattern.rfind(c).map_or(pattern, |at| &pattern[at..]);
    let (reason, part) = match error {
        e if e.contains("unclosed character class") => ("missing closing ]", from('[')),
        e if e.contains("unclosed group") => ("missing closing )", pattern),
        e if e.contains("unopened group") => ("unexpected )", pattern),
        e if e.contains("missing expression") => ("missing argument to repetition operator", from('*')),
        e if e.contains("size limit") => ("expression too large", pattern),
        _ => ("invalid pattern", pattern),
    };
    format!("error parsing regexp: {reason}: `{part}`")
}
