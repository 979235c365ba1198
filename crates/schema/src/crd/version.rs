//! Checks of one version: deprecation, subresources, columns, selectable fields.

use serde_json::Value;
use skopos_object::{FieldError, FieldPath};

use super::field_path::{self, Notation};
use super::props::Props;
use super::schema::{Context, check_validation};
use super::view::{Crd, Version};
use crate::parse::SchemaError;
use crate::structural::Structural;

const MAX_SELECTABLE_FIELDS: usize = 8;

pub(super) fn check(
    version: &Version<'_>,
    context: &Context<'_>,
    path: &FieldPath,
    errors: &mut Vec<FieldError>,
) {
    check_deprecation(version.raw, &path.child("deprecationWarning"), errors);
    if let Some(validation) = version.schema {
        check_validation(validation, context, &path.child("schema"), errors);
    }
    if let Some(subresources) = version.subresources {
        check_subresources(subresources, &path.child("subresources"), errors);
    }
    check_columns(version.columns, &path.child("additionalPrinterColumns"), errors);
    if version.selectable_fields.is_empty() {
        return;
    }
    let at = path.child("selectableFields");
    match version.schema.and_then(|validation| validation.schema) {
        None => {
            let why = "may only be set when `version.schema.openAPIV3Schema` is not included";
            errors.push(FieldError::invalid(&at, "", why));
        }
        Some(schema) => {
            let name = version.raw.text("name");
            let allowed = context
                .options
                .many_selectable_fields
                .iter()
                .any(|other| other == name);
            check_selectable_fields(version.selectable_fields, Some(schema), allowed, &at, errors);
        }
    }
}

fn check_deprecation(version: Props<'_>, path: &FieldPath, errors: &mut Vec<FieldError>) {
    let Some(warning) = version.get("deprecationWarning").and_then(Value::as_str) else {
        return;
    };
    let mut complain = |why: String| errors.push(FieldError::invalid(path, warning, why));
    if !version.flag("deprecated") {
        return complain("can only be set for deprecated versions".to_owned());
    }
    if warning.len() > 256 {
        complain("must be <= 256 characters long".to_owned());
    }
    if warning.is_empty() {
        complain("must not be an empty string".to_owned());
    }
    let unprintable = |c: char| c != ' ' && (c.is_control() || c.is_whitespace());
    if let Some((index, _)) = warning.char_indices().find(|(_, c)| unprintable(*c)) {
        complain(format!(
            "must only contain printable UTF-8 characters; non-printable character found at index {index}"
        ));
    }
}

pub(super) fn check_subresources(subresources: Props<'_>, path: &FieldPath, errors: &mut Vec<FieldError>) {
    let Some(scale) = subresources.object("scale") else {
        return;
    };
    for (key, root) in [("specReplicasPath", ".spec"), ("statusReplicasPath", ".status")] {
        let at = path.child(&format!("scale.{key}"));
        let value = scale.text(key);
        if value.is_empty() {
            errors.push(FieldError::required(&at, ""));
        } else if let Some(error) = simple_json_path(value, &at) {
            errors.push(error);
        } else if !value.starts_with(&format!("{root}.")) {
            let why = format!("should be a json path under {root}");
            errors.push(FieldError::invalid(&at, value, why));
        }
    }
    let selector = scale.text("labelSelectorPath");
    if selector.is_empty() {
        return;
    }
    let at = path.child("scale.labelSelectorPath");
    if let Some(error) = simple_json_path(selector, &at) {
        errors.push(error);
    } else if !selector.starts_with(".spec.") && !selector.starts_with(".status.") {
        let why = "should be a json path under either .spec or .status";
        errors.push(FieldError::invalid(&at, selector, why));
    }
}

fn simple_json_path(value: &str, path: &FieldPath) -> Option<FieldError> {
    (!value.starts_with('.'))
        .then(|| FieldError::invalid(path, value, "must be a simple json path starting with ."))
}

pub(super) fn check_columns(columns: &[Value], path: &FieldPath, errors: &mut Vec<FieldError>) {
    const TYPES: [&str; 5] = ["boolean", "date", "integer", "number", "string"];
    const FORMATS: [&str; 8] = [
        "byte",
        "date",
        "date-time",
        "double",
        "float",
        "int32",
        "int64",
        "password",
    ];
    for (index, column) in columns.iter().enumerate() {
        let column = Props::of(Some(column));
        let path = path.index(index);
        if column.text("name").is_empty() {
            errors.push(FieldError::required(&path.child("name"), ""));
        }
        let kind = column.text("type");
        let one_of = || format!("must be one of {}", TYPES.join(","));
        if kind.is_empty() {
            errors.push(FieldError::required(&path.child("type"), one_of()));
        } else if !TYPES.contains(&kind) {
            errors.push(FieldError::invalid(&path.child("type"), kind, one_of()));
        }
        let format = column.text("format");
        if !format.is_empty() && !FORMATS.contains(&format) {
            let why = format!("must be one of {}", FORMATS.join(","));
            errors.push(FieldError::invalid(&path.child("format"), format, why));
        }
        let json_path = column.text("jsonPath");
        let at = path.child("JSONPath");
        if json_path.is_empty() {
            errors.push(FieldError::required(&at, ""));
        } else {
            errors.extend(simple_json_path(json_path, &at));
        }
    }
}

pub(super) fn check_selectable_fields(
    fields: &[Value],
    schema: Option<Props<'_>>,
    any_number: bool,
    path: &FieldPath,
    errors: &mut Vec<FieldError>,
) {
    if let Some(error) = schema.and_then(compile_error) {
        let at = FieldPath::root().child("spec").child("schema.openAPIV3Schema");
        errors.push(FieldError::invalid(&at, "", error.to_string()));
    }
    let schema = schema.unwrap_or_else(|| Props::of(None));
    let mut seen: Vec<String> = Vec::new();
    for (index, field) in fields.iter().enumerate() {
        let at = path.index(index).child("jsonPath");
        check_selectable_field(
            Props::of(Some(field)).text("jsonPath"),
            schema,
            &mut seen,
            &at,
            errors,
        );
    }
    if seen.len() > MAX_SELECTABLE_FIELDS && !any_number {
        errors.push(FieldError::too_many(path, seen.len(), MAX_SELECTABLE_FIELDS));
    }
}

fn check_selectable_field(
    json_path: &str,
    schema: Props<'_>,
    seen: &mut Vec<String>,
    at: &FieldPath,
    errors: &mut Vec<FieldError>,
) {
    if json_path.is_empty() {
        return errors.push(FieldError::required(at, ""));
    }
    let mut complain = |why: &str| errors.push(FieldError::invalid(at, json_path, why));
    let found = match field_path::find(json_path, schema, Notation::DotsOnly) {
        Ok(found) => found,
        Err(why) => return complain(&format!("is an invalid path: {why}")),
    };
    if found.root == "metadata" {
        complain("must not point to fields in metadata");
    }
    if !matches!(found.schema.text("type"), "string" | "boolean" | "integer") {
        complain(
            "must point to a field of type string, boolean or integer. Enum string fields and strings with formats are allowed.",
        );
    }
    if seen.contains(&found.path) {
        errors.push(FieldError::duplicate(at, json_path));
    } else {
        seen.push(found.path);
    }
}

fn compile_error(schema: Props<'_>) -> Option<SchemaError> {
    match Structural::from_json(&Value::Object(schema.0.clone())) {
        Err(SchemaError::Malformed(_)) | Ok(_) => None,
        Err(error) => Some(error),
    }
}

/// Which versions had too many selectable fields before and leave them as they are.
pub(super) fn many_selectable_fields_allowed(new: &Crd<'_>, old: &Crd<'_>) -> Vec<String> {
    let unchanged = |new: &[Value], old: &[Value]| old.len() > MAX_SELECTABLE_FIELDS && new == old;
    let mut allowed = Vec::new();
    if unchanged(new.selectable_fields, old.selectable_fields) {
        allowed.push(String::new());
    }
    for version in &new.versions {
        let name = version.raw.text("name");
        let before = old.versions.iter().find(|other| other.raw.text("name") == name);
        if before.is_some_and(|before| unchanged(version.selectable_fields, before.selectable_fields)) {
            allowed.push(name.to_owned());
        }
    }
    allowed
}
