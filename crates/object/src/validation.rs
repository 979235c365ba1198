//! Checks of names, label keys and label values, with the API server's complaints.
//!
//! Each function gives one message per complaint, none if the text is valid.

use std::fmt::Write as _;

const LABEL_KEY: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";
const DNS_LABEL: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";
const KEY_RULE: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character";

/// Checks a label or annotation key: `name` or `dns.subdomain/name`.
pub fn label_key(key: &str) -> Vec<String> {
    let mut errors = Vec::new();
    let parts: Vec<&str> = key.splitn(3, '/').collect();
    let name = match parts.as_slice() {
        [name] => *name,
        [prefix, name] => {
            if prefix.is_empty() {
                errors.push("prefix part must be non-empty".to_owned());
            } else {
                let complaints = subdomain_errors(prefix, too_long(253));
                errors.extend(complaints.into_iter().map(|e| format!("prefix part {e}")));
            }
            *name
        }
        _ => {
            let rule = pattern_error(KEY_RULE, LABEL_KEY, &["MyName", "my.name", "123-abc"]);
            return vec![format!(
                "a valid label key {rule} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
            )];
        }
    };
    if name.is_empty() {
        errors.push("name part must be non-empty".to_owned());
    } else if name.len() > 63 {
        errors.push(format!("name part {}", too_long(63)));
    }
    if !is_label_name(name) {
        let rule = pattern_error(KEY_RULE, LABEL_KEY, &["MyName", "my.name", "123-abc"]);
        errors.push(format!("name part {rule}"));
    }
    errors
}

/// Checks a label value: empty, or up to 63 letters, digits, `-`, `_` and `.`.
pub fn label_value(value: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if value.len() > 63 {
        errors.push(too_long(63));
    }
    if !value.is_empty() && !is_label_name(value) {
        let message = format!(
            "a valid label must be an empty string or {}",
            &KEY_RULE["must ".len()..]
        );
        errors.push(pattern_error(
            &message,
            &format!("({LABEL_KEY})?"),
            &["MyValue", "my_value", "12345"],
        ));
    }
    errors
}

/// Checks a lower-case DNS label (RFC 1123), such as a namespace name.
pub fn dns1123_label(value: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if value.len() > 63 {
        errors.push(name_too_long(63));
    }
    if !is_dns_label(value) {
        errors.push(if is_dns_subdomain(value) {
            "must not contain dots".to_owned()
        } else {
            let rule = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character";
            pattern_error(rule, DNS_LABEL, &["my-name", "123-abc"])
        });
    }
    errors
}

/// Checks a lower-case DNS subdomain (RFC 1123), such as the name of most objects.
pub fn dns1123_subdomain(value: &str) -> Vec<String> {
    subdomain_errors(value, name_too_long(253))
}

fn subdomain_errors(value: &str, too_long: String) -> Vec<String> {
    let mut errors = Vec::new();
    if value.len() > 253 {
        errors.push(too_long);
    }
    if !is_dns_subdomain(value) {
        let rule = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character";
        errors.push(pattern_error(
            rule,
            &format!("{DNS_LABEL}(\\.{DNS_LABEL})*"),
            &["example.com"],
        ));
    }
    errors
}

/// Checks a DNS label that starts with a letter (RFC 1035), such as a service name.
pub fn dns1035_label(value: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if value.len() > 63 {
        errors.push(name_too_long(63));
    }
    if !is_dns_label(value) || !value.starts_with(|c: char| c.is_ascii_lowercase()) {
        let rule = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character";
        errors.push(pattern_error(
            rule,
            "[a-z]([-a-z0-9]*[a-z0-9])?",
            &["my-name", "abc-123"],
        ));
    }
    errors
}

/// Words a complaint about a text that does not match a pattern, with examples of ones that do.
pub fn pattern_error(rule: &str, pattern: &str, examples: &[&str]) -> String {
    let mut message = format!("{rule} (");
    for (i, example) in examples.iter().enumerate() {
        message.push_str(if i == 0 { "e.g. " } else { " or " });
        // Writing to a String cannot fail.
        let _ = write!(message, "'{example}', ");
    }
    let _ = write!(message, "regex used for validation is '{pattern}')");
    message
}

/// Words a complaint about a name of more than `max` bytes; the server says characters there.
fn name_too_long(max: usize) -> String {
    format!("must be no more than {max} characters")
}

/// Words a complaint about a text of more than `max` bytes.
pub fn too_long(max: usize) -> String {
    format!("must be no more than {max} bytes")
}

fn is_label_name(name: &str) -> bool {
    let inner = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    name.bytes().all(inner) && ends_are(name, |b| b.is_ascii_alphanumeric())
}

fn is_dns_label(label: &str) -> bool {
    let letter = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    label.bytes().all(|b| letter(b) || b == b'-') && ends_are(label, letter)
}

fn is_dns_subdomain(value: &str) -> bool {
    value.split('.').all(is_dns_label)
}

fn ends_are(text: &str, accept: impl Fn(u8) -> bool) -> bool {
    match text.as_bytes() {
        [] => false,
        [only] => accept(*only),
        [first, .., last] => accept(*first) && accept(*last),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepts_valid_names() {
        for key in ["a", "A.b_c-9", "example.com/Name", "a.b/c", &"x".repeat(63)] {
            assert_eq!(label_key(key), Vec::<String>::new(), "{key}");
        }
        for value in ["", "a", "A.b_c-9", &"x".repeat(63)] {
            assert_eq!(label_value(value), Vec::<String>::new(), "{value}");
        }
        for name in ["a", "a.b-c.d", "1.2.3", &"x".repeat(253)] {
            assert_eq!(dns1123_subdomain(name), Vec::<String>::new(), "{name}");
        }
    }

    #[test]
    fn explains_invalid_names() {
        assert_eq!(label_key("")[0], "name part must be non-empty");
        assert_eq!(label_key("").len(), 2);
        assert_eq!(label_key("/a"), ["prefix part must be non-empty"]);
        assert!(label_key("a/b/c")[0].starts_with("a valid label key must consist of"));
        assert_eq!(
            label_key("-a"),
            [
                "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
            ]
        );
        assert_eq!(
            label_value("a "),
            [
                "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
            ]
        );
        assert_eq!(label_value(&"x".repeat(64)), ["must be no more than 63 bytes"]);
        assert_eq!(
            dns1123_subdomain("A"),
            [
                "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
            ]
        );
        assert_eq!(dns1123_label("a.b"), ["must not contain dots"]);
        assert_eq!(dns1035_label("1a").len(), 1);
    }
}
