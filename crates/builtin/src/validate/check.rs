//! Collects field errors, and holds the checks that many kinds share.

use serde_json::Value;
use skopos_object::validation::{self, label_key, label_value, pattern_error};
use skopos_object::{FieldError, FieldPath, LabelSelector};

use crate::quantity::Quantity;

pub(super) const NOT_NEGATIVE: &str = "must be greater than or equal to 0";
pub(super) const PORT_RANGE: &str = "must be between 1 and 65535, inclusive";
pub(super) const IMMUTABLE: &str = "field is immutable";

/// The errors found so far.
#[derive(Default)]
pub(super) struct Check(Vec<FieldError>);

impl Check {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn into_errors(self) -> Vec<FieldError> {
        self.0
    }

    pub(super) fn required(&mut self, path: &FieldPath, detail: &str) {
        self.0.push(FieldError::required(path, detail));
    }

    pub(super) fn invalid(&mut self, path: &FieldPath, value: impl Into<Value>, detail: impl Into<String>) {
        self.0.push(FieldError::invalid(path, value, detail));
    }

    pub(super) fn forbidden(&mut self, path: &FieldPath, detail: impl Into<String>) {
        self.0.push(FieldError::forbidden(path, detail));
    }

    pub(super) fn duplicate(&mut self, path: &FieldPath, value: impl Into<Value>) {
        self.0.push(FieldError::duplicate(path, value));
    }

    pub(super) fn not_found(&mut self, path: &FieldPath, value: impl Into<Value>) {
        self.0.push(FieldError::not_found(path, value));
    }

    pub(super) fn unsupported(&mut self, path: &FieldPath, value: impl Into<Value>, supported: &[&str]) {
        self.0.push(FieldError::not_supported(path, value, supported));
    }

    pub(super) fn too_long(&mut self, path: &FieldPath, max: usize) {
        self.0.push(FieldError::too_long(path, max));
    }

    /// One error per complaint about a text.
    pub(super) fn complaints(&mut self, path: &FieldPath, value: &str, complaints: Vec<String>) {
        for complaint in complaints {
            self.invalid(path, value, complaint);
        }
    }

    /// A member that, when given, is one of these.
    pub(super) fn one_of(&mut self, path: &FieldPath, object: &Value, key: &str, supported: &[&str]) {
        let text = text(&object[key]);
        if !text.is_empty() && !supported.contains(&text) {
            self.unsupported(&path.child(key), text, supported);
        }
    }

    /// A number that, when given, is not negative.
    pub(super) fn not_negative(&mut self, path: &FieldPath, object: &Value, key: &str) {
        if let Some(number) = object[key].as_i64().filter(|n| *n < 0) {
            self.invalid(&path.child(key), number, NOT_NEGATIVE);
        }
    }

    /// A text that must be given; says whether it is.
    pub(super) fn present(&mut self, path: &FieldPath, object: &Value, key: &str) -> bool {
        let given = !text(&object[key]).is_empty();
        if !given {
            self.required(&path.child(key), "");
        }
        given
    }

    pub(super) fn dns_label(&mut self, path: &FieldPath, value: &str) {
        self.complaints(path, value, dns1123_label(value));
    }

    pub(super) fn dns_subdomain(&mut self, path: &FieldPath, value: &str) {
        self.complaints(path, value, dns1123_subdomain(value));
    }

    /// Labels: every key and every value.
    pub(super) fn labels(&mut self, path: &FieldPath, labels: &Value) {
        for (key, value) in labels.as_object().into_iter().flatten() {
            self.complaints(path, key, label_key(key));
            let value = text(value);
            self.complaints(path, value, label_value(value));
        }
    }

    /// A port by number or name.
    pub(super) fn port(&mut self, path: &FieldPath, value: &Value) {
        match value {
            Value::String(name) => self.complaints(path, name, port_name(name)),
            other => self.port_number(path, other),
        }
    }

    pub(super) fn port_number(&mut self, path: &FieldPath, value: &Value) {
        let number = value.as_i64().unwrap_or(0);
        if !(1..=65_535).contains(&number) {
            self.invalid(path, number, PORT_RANGE);
        }
    }

    /// A count or a percentage.
    pub(super) fn count_or_percent(&mut self, path: &FieldPath, value: &Value) {
        match value {
            Value::String(percent) if !is_percent(percent) => {
                let rule = "a valid percent string must be a numeric string followed by an ending '%'";
                self.invalid(
                    path,
                    percent.as_str(),
                    pattern_error(rule, "[0-9]+%", &["1%", "93%"]),
                );
            }
            Value::Number(number) if number.as_i64().is_some_and(|n| n < 0) => {
                self.invalid(path, value.clone(), NOT_NEGATIVE);
            }
            _ => {}
        }
    }

    /// A percentage of at most a hundred; counts pass.
    pub(super) fn at_most_all(&mut self, path: &FieldPath, value: &Value) {
        let percent = value
            .as_str()
            .filter(|t| is_percent(t))
            .and_then(|t| t.trim_end_matches('%').parse::<i64>().ok());
        if percent.is_some_and(|percent| percent > 100) {
            self.invalid(path, value.clone(), "must not be greater than 100%");
        }
    }

    /// A label selector; says whether it can be used.
    pub(super) fn selector(&mut self, path: &FieldPath, selector: &Value) -> bool {
        let before = self.0.len();
        self.labels(&path.child("matchLabels"), &selector["matchLabels"]);
        for (at, expression) in list(&selector["matchExpressions"]).iter().enumerate() {
            let path = path.child("matchExpressions").index(at);
            let values = list(&expression["values"]);
            match text(&expression["operator"]) {
                "In" | "NotIn" if values.is_empty() => {
                    self.required(
                        &path.child("values"),
                        "must be specified when `operator` is 'In' or 'NotIn'",
                    );
                }
                "Exists" | "DoesNotExist" if !values.is_empty() => self.forbidden(
                    &path.child("values"),
                    "may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
                ),
                "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
                other => self.invalid(&path.child("operator"), other, "not a valid selector operator"),
            }
            let key = text(&expression["key"]);
            self.complaints(&path.child("key"), key, label_key(key));
            for (at, value) in values.iter().enumerate() {
                let value = text(value);
                self.complaints(&path.child("values").index(at), value, label_value(value));
            }
        }
        self.0.len() == before
    }

    /// An amount that is not negative, and whole when the resource cannot be split.
    pub(super) fn amount(&mut self, path: &FieldPath, value: &Value, whole: bool) {
        let Ok(quantity) = Quantity::parse(text(value)) else {
            return;
        };
        if quantity.negative() {
            self.invalid(path, value.clone(), NOT_NEGATIVE);
        }
        if whole && text(value).ends_with(['m', 'u', 'n']) {
            self.invalid(path, value.clone(), "must be an integer");
        }
    }
}

/// Complaints about a DNS label.
pub(super) fn dns1123_label(value: &str) -> Vec<String> {
    in_characters(validation::dns1123_label(value))
}

/// Complaints about a DNS subdomain.
pub(super) fn dns1123_subdomain(value: &str) -> Vec<String> {
    in_characters(validation::dns1123_subdomain(value))
}

/// The server counts labels in bytes and DNS names in characters.
fn in_characters(complaints: Vec<String>) -> Vec<String> {
    complaints
        .into_iter()
        .map(|text| text.replace(" bytes", " characters"))
        .collect()
}

/// Whether a selector matches a map of labels.
pub(super) fn selects(selector: &Value, labels: &Value) -> bool {
    LabelSelector::from_match(selector)
        .is_ok_and(|s| s.matches(|key| labels.get(key).and_then(Value::as_str)))
}

/// A string member, empty when absent.
pub(super) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// The items of a list member.
pub(super) fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

/// Whether a member is given and not null.
pub(super) fn has(object: &Value, key: &str) -> bool {
    object.get(key).is_some_and(|value| !value.is_null())
}

fn is_percent(text: &str) -> bool {
    text.strip_suffix('%')
        .is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()))
}

/// Complaints about the name of a port.
pub(super) fn port_name(name: &str) -> Vec<String> {
    let mut complaints = Vec::new();
    if name.len() > 15 {
        complaints.push("must be no more than 15 characters".to_owned());
    }
    if !name
        .bytes()
        .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
    {
        complaints.push("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)".to_owned());
    }
    if !name.bytes().any(|b| b.is_ascii_lowercase()) {
        complaints.push("must contain at least one letter (a-z)".to_owned());
    }
    if name.contains("--") {
        complaints.push("must not contain consecutive hyphens".to_owned());
    }
    if name.starts_with('-') || name.ends_with('-') {
        complaints.push("must not begin or end with a hyphen".to_owned());
    }
    complaints
}

/// Complaints about a text that must be an address.
pub(super) fn address(value: &str) -> Option<&'static str> {
    let ok = value.parse::<std::net::IpAddr>().is_ok();
    (!ok).then_some("must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)")
}

/// Complaints about a text that must be a range of addresses.
pub(super) fn cidr(value: &str) -> Option<&'static str> {
    let ok = value.split_once('/').is_some_and(|(ip, bits)| {
        let max = match ip.parse::<std::net::IpAddr>() {
            Ok(std::net::IpAddr::V4(_)) => 32,
            Ok(std::net::IpAddr::V6(_)) => 128,
            Err(_) => return false,
        };
        bits.parse::<u8>().is_ok_and(|bits| bits <= max)
    });
    (!ok).then_some("must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)")
}
