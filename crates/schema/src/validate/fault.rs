//! Errors while a validation runs, before they become field errors.

use std::collections::HashSet;

use serde_json::Value;
use skopos_object::{BadValue, FieldError, FieldErrorKind, FieldPath, json, quote};

use crate::path::At;

/// More errors than anyone reads. Further ones are counted, so that validity stays right, but not kept.
const MAX_FAULTS: usize = 1000;

#[derive(Debug)]
pub(super) struct Fault {
    kind: FieldErrorKind,
    /// `None` is an error on the whole value, which has no field of its own.
    path: Option<String>,
    value: Value,
    detail: String,
    /// What makes two errors the same.
    message: String,
}

impl Fault {
    fn new(kind: FieldErrorKind, path: String, value: Value, message: String) -> Self {
        Fault {
            kind,
            path: Some(path),
            value,
            detail: message.clone(),
            message,
        }
    }

    pub(super) fn wrong_type(at: &At<'_>, expected: &str, actual: &str) -> Self {
        let path = at.dotted();
        let message = format!("{path} in body must be of type {expected}: {}", quote(actual));
        Fault::new(FieldErrorKind::TypeInvalid, path, actual.into(), message)
    }

    pub(super) fn invalid(at: &At<'_>, value: Value, why: &str) -> Self {
        let path = at.dotted();
        let message = format!("{path} in body {why}");
        Fault::new(FieldErrorKind::Invalid, path, value, message)
    }

    /// An invalid value whose message does not start with the path.
    pub(super) fn invalid_as(at: &At<'_>, value: Value, message: impl FnOnce(&str) -> String) -> Self {
        let path = at.dotted();
        let message = message(&path);
        Fault::new(FieldErrorKind::Invalid, path, value, message)
    }

    pub(super) fn whole(message: String) -> Self {
        Fault {
            kind: FieldErrorKind::Invalid,
            path: None,
            value: "".into(),
            detail: message.clone(),
            message,
        }
    }

    pub(super) fn required(at: &At<'_>) -> Self {
        let path = at.dotted();
        let message = format!("{path} in body is required");
        Fault {
            detail: String::new(),
            ..Fault::new(FieldErrorKind::Required, path, "".into(), message)
        }
    }

    pub(super) fn forbidden_property(at: &At<'_>, name: &str) -> Self {
        Fault::invalid_as(at, name.into(), |path| {
            format!("{path}.{name} in body is a forbidden property")
        })
    }

    pub(super) fn too_long(at: &At<'_>, max: i64) -> Self {
        let path = at.dotted();
        let message = format!("{path} in body should be at most {max} chars long");
        let detail = FieldError::too_long(&FieldPath::root(), usize::try_from(max).unwrap_or(0)).detail;
        Fault {
            detail,
            ..Fault::new(FieldErrorKind::TooLong, path, "<value omitted>".into(), message)
        }
    }

    pub(super) fn too_many(at: &At<'_>, actual: i64, max: i64, what: &str) -> Self {
        let path = at.dotted();
        let message = format!("{path} in body should have at most {max} {what}");
        let detail = FieldError::too_many(&FieldPath::root(), 0, usize::try_from(max).unwrap_or(0)).detail;
        Fault {
            detail,
            ..Fault::new(FieldErrorKind::TooMany, path, actual.into(), message)
        }
    }

    pub(super) fn not_supported(at: &At<'_>, value: &Value, allowed: &[Value]) -> Self {
        let path = at.dotted();
        let words: Vec<String> = allowed
            .iter()
            .map(|value| {
                value
                    .as_str()
                    .map_or_else(|| json::to_go_string(value), str::to_owned)
            })
            .collect();
        let message = format!("{path} in body should be one of {words:?}");
        let detail = FieldError::not_supported(&FieldPath::root(), "", &words).detail;
        Fault {
            detail,
            ..Fault::new(FieldErrorKind::NotSupported, path, value.clone(), message)
        }
    }
}

/// A position in the list of errors, to come back to.
#[derive(Debug, Clone, Copy)]
pub(super) struct Mark {
    kept: usize,
    lost: usize,
}

/// Errors found so far. Empty and without allocation while the value is valid.
#[derive(Debug, Default)]
pub(super) struct Faults {
    kept: Vec<Fault>,
    /// Errors that are counted only.
    lost: usize,
    /// Whether errors are only counted: a branch of a junctor is tried before anyone wants its errors.
    quiet: bool,
}

impl Faults {
    pub(super) fn push(&mut self, fault: impl FnOnce() -> Fault) {
        match !self.quiet && self.kept.len() < MAX_FAULTS {
            true => self.kept.push(fault()),
            false => self.lost += 1,
        }
    }

    /// Starts or stops counting only. Returns how it was before.
    pub(super) fn hush(&mut self, quiet: bool) -> bool {
        std::mem::replace(&mut self.quiet, quiet)
    }

    pub(super) fn is_quiet(&self) -> bool {
        self.quiet
    }

    pub(super) fn mark(&self) -> Mark {
        Mark {
            kept: self.kept.len(),
            lost: self.lost,
        }
    }

    pub(super) fn any_since(&self, mark: Mark) -> bool {
        self.kept.len() > mark.kept || self.lost > mark.lost
    }

    pub(super) fn cut(&mut self, mark: Mark) {
        self.kept.truncate(mark.kept);
        self.lost = mark.lost;
    }

    /// Turns the errors into field errors below `prefix`, each message once.
    pub(super) fn into_field_errors(self, prefix: &FieldPath) -> Vec<FieldError> {
        let mut seen = HashSet::new();
        let mut errors = Vec::with_capacity(self.kept.len());
        for fault in self.kept {
            let field = match fault
                .path
                .as_deref()
                .map(|path| path.strip_prefix('.').unwrap_or(path))
            {
                None | Some("") => prefix.to_string(),
                Some(path) => prefix.child(path).to_string(),
            };
            if seen.insert(fault.message) {
                errors.push(FieldError {
                    kind: fault.kind,
                    field,
                    bad_value: BadValue::Value(fault.value),
                    detail: fault.detail,
                });
            }
        }
        errors
    }
}
