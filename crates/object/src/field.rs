//! Validation errors that point at a field, worded as kube-apiserver words them.

mod path;

use std::{collections::HashSet, fmt};

use serde_json::Value;

pub use self::path::FieldPath;
use crate::gofmt;

/// What is wrong with a field. The order is that of the API server's documentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FieldErrorKind {
    /// The field names something that does not exist.
    NotFound,
    /// The field must be given.
    Required,
    /// The value must be unique and is not.
    Duplicate,
    /// The value is malformed or out of bounds.
    Invalid,
    /// The value is not one of those allowed.
    NotSupported,
    /// The value may not be given under these conditions.
    Forbidden,
    /// The text is too long. The value is left out of the message.
    TooLong,
    /// The text is too short. The value is left out of the message.
    TooShort,
    /// The list has too many items.
    TooMany,
    /// The list has too few items.
    TooFew,
    /// The check itself failed.
    InternalError,
    /// The value has the wrong type.
    TypeInvalid,
}

impl FieldErrorKind {
    /// The machine-readable name, as in the causes of a [`Status`](crate::Status).
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NotFound => "FieldValueNotFound",
            Self::Required => "FieldValueRequired",
            Self::Duplicate => "FieldValueDuplicate",
            Self::Invalid => "FieldValueInvalid",
            Self::NotSupported => "FieldValueNotSupported",
            Self::Forbidden => "FieldValueForbidden",
            Self::TooLong => "FieldValueTooLong",
            Self::TooShort => "FieldValueTooShort",
            Self::TooMany => "FieldValueTooMany",
            Self::TooFew => "FieldValueTooFew",
            Self::InternalError => "InternalError",
            Self::TypeInvalid => "FieldValueTypeInvalid",
        }
    }

    fn words(self) -> &'static str {
        match self {
            Self::NotFound => "Not found",
            Self::Required => "Required value",
            Self::Duplicate => "Duplicate value",
            Self::Invalid | Self::TypeInvalid => "Invalid value",
            Self::NotSupported => "Unsupported value",
            Self::Forbidden => "Forbidden",
            Self::TooLong => "Too long",
            Self::TooShort => "Too short",
            Self::TooMany => "Too many",
            Self::TooFew => "Too few",
            Self::InternalError => "Internal error",
        }
    }

    fn shows_value(self) -> bool {
        !matches!(
            self,
            Self::Required | Self::Forbidden | Self::TooLong | Self::TooShort | Self::InternalError
        )
    }
}

/// What a complaint shows of the value it is about.
#[derive(Clone, Debug, PartialEq)]
pub enum BadValue {
    /// The value.
    Value(Value),
    /// The value in words of somebody else.
    Text(String),
    /// Nothing.
    Omitted,
}

/// One complaint about one field.
///
/// ```
/// use skopos_object::{FieldError, FieldPath};
///
/// let path = FieldPath::root().child("spec").child("replicas");
/// let error = FieldError::invalid(&path, -1, "must be greater than or equal to 0");
/// assert_eq!(error.to_string(), "spec.replicas: Invalid value: -1: must be greater than or equal to 0");
/// ```
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{field}: {}", self.body())]
pub struct FieldError {
    /// What is wrong.
    pub kind: FieldErrorKind,
    /// Where, as a [`FieldPath`] prints it.
    pub field: String,
    /// The offending value. Not every kind shows it.
    pub bad_value: BadValue,
    /// More words, possibly none.
    pub detail: String,
}

impl FieldError {
    fn new(
        kind: FieldErrorKind,
        path: &FieldPath,
        value: impl Into<Value>,
        detail: impl Into<String>,
    ) -> Self {
        Self {
            kind,
            field: path.to_string(),
            bad_value: BadValue::Value(value.into()),
            detail: detail.into(),
        }
    }

    /// The field names something that does not exist.
    pub fn not_found(path: &FieldPath, value: impl Into<Value>) -> Self {
        Self::new(FieldErrorKind::NotFound, path, value, "")
    }

    /// The field must be given.
    pub fn required(path: &FieldPath, detail: impl Into<String>) -> Self {
        Self::new(FieldErrorKind::Required, path, "", detail)
    }

    /// The value must be unique and is not.
    pub fn duplicate(path: &FieldPath, value: impl Into<Value>) -> Self {
        Self::new(FieldErrorKind::Duplicate, path, value, "")
    }

    /// The value is malformed or out of bounds.
    pub fn invalid(path: &FieldPath, value: impl Into<Value>, detail: impl Into<String>) -> Self {
        Self::new(FieldErrorKind::Invalid, path, value, detail)
    }

    /// The value has the wrong type.
    pub fn type_invalid(path: &FieldPath, value: impl Into<Value>, detail: impl Into<String>) -> Self {
        Self::new(FieldErrorKind::TypeInvalid, path, value, detail)
    }

    /// The value is not one of `supported`, which are listed in the order given.
    pub fn not_supported<S: AsRef<str>>(path: &FieldPath, value: impl Into<Value>, supported: &[S]) -> Self {
        let mut detail = String::new();
        for (i, value) in supported.iter().enumerate() {
            detail.push_str(if i == 0 { "supported values: " } else { ", " });
            detail.push_str(&gofmt::quote(value.as_ref()));
        }
        Self::new(FieldErrorKind::NotSupported, path, value, detail)
    }

    /// The value may not be given under these conditions.
    pub fn forbidden(path: &FieldPath, detail: impl Into<String>) -> Self {
        Self::new(FieldErrorKind::Forbidden, path, "", detail)
    }

    /// The text is longer than `max_bytes`.
    pub fn too_long(path: &FieldPath, max_bytes: usize) -> Self {
        let unit = if max_bytes == 1 { "byte" } else { "bytes" };
        let detail = format!("may not be more than {max_bytes} {unit}");
        Self::new(FieldErrorKind::TooLong, path, "<value omitted>", detail)
    }

    /// The text is shorter than `min_characters`.
    pub fn too_short(path: &FieldPath, value: impl Into<Value>, min_characters: usize) -> Self {
        let unit = if min_characters == 1 {
            "character"
        } else {
            "characters"
        };
        Self::new(
            FieldErrorKind::TooShort,
            path,
            value,
            format!("must be at least {min_characters} {unit}"),
        )
    }

    /// The list has `actual` items and may have at most `max`.
    pub fn too_many(path: &FieldPath, actual: usize, max: usize) -> Self {
        let unit = if max == 1 { "item" } else { "items" };
        Self::new(
            FieldErrorKind::TooMany,
            path,
            actual,
            format!("must have at most {max} {unit}"),
        )
    }

    /// The list has `actual` items and must have at least `min`.
    pub fn too_few(path: &FieldPath, actual: usize, min: usize) -> Self {
        let unit = if min == 1 { "item" } else { "items" };
        Self::new(
            FieldErrorKind::TooFew,
            path,
            actual,
            format!("must have at least {min} {unit}"),
        )
    }

    /// The check itself failed.
    pub fn internal(path: &FieldPath, detail: impl Into<String>) -> Self {
        Self::new(FieldErrorKind::InternalError, path, Value::Null, detail)
    }

    /// The same complaint with another view of the value.
    #[must_use]
    pub fn showing(self, bad_value: BadValue) -> Self {
        Self { bad_value, ..self }
    }

    /// The message without the field name.
    pub fn body(&self) -> String {
        let mut text = self.kind.words().to_owned();
        let shown = match &self.bad_value {
            BadValue::Value(value) => Some(go_value(value)),
            BadValue::Text(text) => Some(text.clone()),
            BadValue::Omitted => None,
        };
        if let Some(shown) = shown.filter(|_| self.kind.shows_value()) {
            text.push_str(": ");
            text.push_str(&shown);
        }
        if !self.detail.is_empty() {
            text.push_str(": ");
            text.push_str(&self.detail);
        }
        text
    }
}

fn go_value(value: &Value) -> String {
    match value {
        Value::String(text) => gofmt::quote(text),
        Value::Number(number) => match number.as_f64() {
            Some(float) if number.is_f64() => gofmt::float(float),
            _ => number.to_string(),
        },
        other => crate::json::to_go_string(other),
    }
}

/// Shows a list of errors the way the API server aggregates them: one alone, several in brackets,
/// repetitions once.
#[derive(Clone, Copy, Debug)]
pub struct FieldErrors<'a>(pub &'a [FieldError]);

impl fmt::Display for FieldErrors<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut seen = HashSet::new();
        let mut messages: Vec<String> = self.0.iter().map(ToString::to_string).collect();
        messages.retain(|message| seen.insert(message.clone()));
        match messages.as_slice() {
            [one] => f.write_str(one),
            many => write!(f, "[{}]", many.join(", ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn path() -> FieldPath {
        FieldPath::root().child("f")
    }

    #[test]
    fn words_are_those_of_the_api_server() {
        let p = path();
        for (error, expect) in [
            (FieldError::not_found(&p, "v"), "f: Not found: \"v\""),
            (FieldError::required(&p, ""), "f: Required value"),
            (FieldError::required(&p, "d"), "f: Required value: d"),
            (FieldError::duplicate(&p, "v"), "f: Duplicate value: \"v\""),
            (FieldError::invalid(&p, "v", "d"), "f: Invalid value: \"v\": d"),
            (
                FieldError::type_invalid(&p, "v", "d"),
                "f: Invalid value: \"v\": d",
            ),
            (
                FieldError::not_supported(&p, "v", &["a", "b"]),
                "f: Unsupported value: \"v\": supported values: \"a\", \"b\"",
            ),
            (
                FieldError::not_supported::<&str>(&p, "v", &[]),
                "f: Unsupported value: \"v\"",
            ),
            (FieldError::forbidden(&p, "d"), "f: Forbidden: d"),
            (
                FieldError::too_long(&p, 63),
                "f: Too long: may not be more than 63 bytes",
            ),
            (
                FieldError::too_long(&p, 1),
                "f: Too long: may not be more than 1 byte",
            ),
            (
                FieldError::too_short(&p, "", 1),
                "f: Too short: must be at least 1 character",
            ),
            (
                FieldError::too_many(&p, 3, 2),
                "f: Too many: 3: must have at most 2 items",
            ),
            (
                FieldError::too_few(&p, 0, 1),
                "f: Too few: 0: must have at least 1 item",
            ),
            (FieldError::internal(&p, "d"), "f: Internal error: d"),
        ] {
            assert_eq!(error.to_string(), expect);
        }
    }

    #[test]
    fn values_look_as_in_go() {
        for (value, expect) in [
            (json!("a\n\"b\""), r#"f: Invalid value: "a\n\"b\"""#),
            (json!(12), "f: Invalid value: 12"),
            (json!(1.5), "f: Invalid value: 1.5"),
            (json!(true), "f: Invalid value: true"),
            (json!(null), "f: Invalid value: null"),
            (json!([1, "<"]), r#"f: Invalid value: [1,"\u003c"]"#),
            (
                json!({"b": {}, "a": null}),
                r#"f: Invalid value: {"a":null,"b":{}}"#,
            ),
        ] {
            assert_eq!(FieldError::invalid(&path(), value, "").to_string(), expect);
        }
    }

    #[test]
    fn lists_print_each_message_once() {
        let a = FieldError::required(&path(), "");
        let b = FieldError::forbidden(&path(), "no");
        assert_eq!(
            FieldErrors(std::slice::from_ref(&a)).to_string(),
            "f: Required value"
        );
        assert_eq!(
            FieldErrors(&[a.clone(), a.clone()]).to_string(),
            "f: Required value"
        );
        assert_eq!(
            FieldErrors(&[a.clone(), b, a]).to_string(),
            "[f: Required value, f: Forbidden: no]"
        );
    }
}
