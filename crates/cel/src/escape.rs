//! Property names as CEL can write them.

use crate::parser::RESERVED;

/// The name under which a property can be selected: `foo-bar` is `foo__dash__bar`, `namespace` is
/// `__namespace__`. Absent for names that CEL cannot reach.
#[must_use]
pub fn escape(name: &str) -> Option<String> {
    if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    if RESERVED.contains(&name) {
        return Some(format!("__{name}__"));
    }
    let mut escaped = String::with_capacity(name.len());
    let mut rest = name;
    while let Some(c) = rest.chars().next() {
        if let Some(after) = rest.strip_prefix("__") {
            escaped.push_str("__underscores__");
            rest = after;
            continue;
        }
        match c {
            '.' => escaped.push_str("__dot__"),
            '-' => escaped.push_str("__dash__"),
            '/' => escaped.push_str("__slash__"),
            c if c.is_ascii_alphanumeric() || c == '_' => escaped.push(c),
            _ => return None,
        }
        rest = &rest[c.len_utf8()..];
    }
    Some(escaped)
}

#[cfg(test)]
mod tests {
    use super::escape;

    #[test]
    fn escapes_as_kubernetes_does() {
        let cases = [
            ("plain", Some("plain")),
            ("foo-bar", Some("foo__dash__bar")),
            ("a.b/c", Some("a__dot__b__slash__c")),
            ("a__b", Some("a__underscores__b")),
            ("a___b", Some("a__underscores___b")),
            ("_a_", Some("_a_")),
            ("namespace", Some("__namespace__")),
            ("$ref", None),
            ("1st", None),
            ("", None),
        ];
        for (name, expected) in cases {
            assert_eq!(escape(name).as_deref(), expected, "{name}");
        }
    }
}
