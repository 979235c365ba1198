//! What the server warns of.

use http::{HeaderMap, header};

/// Extracts the texts of `Warning: 299 - "text"` headers.
pub(crate) fn warnings(headers: &HeaderMap) -> Vec<String> {
    let texts = headers
        .get_all(header::WARNING)
        .into_iter()
        .filter_map(|value| value.to_str().ok());
    texts.filter_map(warning_text).collect()
}

fn warning_text(header: &str) -> Option<String> {
    let quoted = header.split_once('"')?.1;
    let mut text = String::new();
    let mut chars = quoted.chars();
    loop {
        match chars.next()? {
            '"' => return Some(text),
            '\\' => text.push(chars.next()?),
            c => text.push(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warning_headers_give_their_text() {
        assert_eq!(
            warning_text(r#"299 - "unknown field \"spec.a\"""#).as_deref(),
            Some(r#"unknown field "spec.a""#)
        );
        assert_eq!(warning_text("299 - no quotes"), None);
        assert_eq!(warning_text(r#"299 - "no end"#), None);
    }
}
