//! Checks of `x-kubernetes-validations` that need no evaluation of expressions.

use skopos_object::{FieldError, FieldPath};

use super::field_path::{self, Notation};
use super::props::Props;

const REASONS: [&str; 4] = [
    "FieldValueDuplicate",
    "FieldValueForbidden",
    "FieldValueInvalid",
    "FieldValueRequired",
];

/// Checks the form of a node's rules. Compiling and costing them comes after these checks.
pub(super) fn check(schema: Props<'_>, path: &FieldPath, errors: &mut Vec<FieldError>) {
    for (index, rule) in schema.schemas("x-kubernetes-validations").enumerate() {
        let at = path.child("x-kubernetes-validations").index(index);
        check_texts(rule, &at, errors);
        let reason = rule.text("reason");
        if rule.has("reason") && !REASONS.contains(&reason) {
            errors.push(FieldError::not_supported(&at.child("reason"), reason, &REASONS));
        }
        check_field_path(rule.text("fieldPath"), schema, &at.child("fieldPath"), errors);
    }
}

fn check_texts(rule: Props<'_>, at: &FieldPath, errors: &mut Vec<FieldError>) {
    let (expression, message) = (rule.text("rule").trim(), rule.text("message"));
    let error = if expression.is_empty() {
        Some(FieldError::required(&at.child("rule"), "rule is not specified"))
    } else if !message.is_empty() && message.trim().is_empty() {
        Some(FieldError::invalid(
            &at.child("message"),
            message,
            "must be non-empty if specified",
        ))
    } else if has_newline(message.trim()) {
        Some(FieldError::invalid(
            &at.child("message"),
            message,
            "must not contain line breaks",
        ))
    } else if has_newline(expression) && message.trim().is_empty() {
        let why = "message must be specified if rule contains line breaks";
        Some(FieldError::required(&at.child("message"), why))
    } else {
        None
    };
    errors.extend(error);
    let message_expression = rule.text("messageExpression");
    if !message_expression.is_empty() && message_expression.trim().is_empty() {
        let why = "messageExpression must be non-empty if specified";
        errors.push(FieldError::required(&at.child("messageExpression"), why));
    }
}

fn check_field_path(value: &str, schema: Props<'_>, at: &FieldPath, errors: &mut Vec<FieldError>) {
    if value.is_empty() {
        return;
    }
    if value.trim().is_empty() {
        errors.push(FieldError::invalid(at, value, "must be non-empty if specified"));
    }
    if has_newline(value) {
        errors.push(FieldError::invalid(at, value, "must not contain line breaks"));
    }
    if field_path::find(value, schema, Notation::DotsAndBrackets).is_err() {
        errors.push(FieldError::invalid(at, value, "must be a valid path"));
    }
}

fn has_newline(text: &str) -> bool {
    text.contains(['\n', '\r'])
}
