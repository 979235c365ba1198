//! The rules that make a schema structural.

use serde_json::Value;
use skopos_object::{FieldError, FieldPath};

use super::props::{AdditionalProps, Props};
use crate::pattern;
use crate::structural::Structural;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Level {
    Root,
    Item,
    Field,
}

/// All violations, in order of their messages.
pub(super) fn errors(schema: Props<'_>, path: &FieldPath) -> Vec<FieldError> {
    let mut errors = Vec::new();
    invariants(schema, Level::Root, path, &mut errors);
    complete_values(schema, Some(schema), path, path, &mut errors);
    errors.sort_by_cached_key(ToString::to_string);
    errors
}

/// Whether a stored schema is not structural, so that an update may leave it so.
pub(super) fn is_broken(schema: Props<'_>) -> bool {
    Structural::from_json(&Value::Object(schema.0.clone())).is_err()
        || !errors(schema, &FieldPath::root()).is_empty()
}

fn invariants(schema: Props<'_>, level: Level, path: &FieldPath, errors: &mut Vec<FieldError>) {
    let item = schema.item();
    if schema.text("type") == "array" && item.is_none() {
        errors.push(FieldError::required(&path.child("items"), "must be specified"));
    }
    if let Some(item) = item {
        invariants(item, Level::Item, &path.child("items"), errors);
    }
    for (name, property) in schema.named("properties") {
        invariants(
            property,
            Level::Field,
            &path.child("properties").key(name),
            errors,
        );
    }
    let at = path.child("additionalProperties");
    if level == Level::Root && schema.has("additionalProperties") {
        errors.push(FieldError::forbidden(&at, "must not be used at the root"));
    }
    if let AdditionalProps::Schema(values) = schema.additional() {
        invariants(values, Level::Field, &at, errors);
    }
    extensions(schema, path, errors);
    let skip = Skip {
        any_of: is_int_or_string(schema),
        first_all_of: starts_with_int_or_string(schema),
    };
    values(schema, skip, path, errors);
    type_and_metadata(schema, level, path, errors);
}

fn extensions(schema: Props<'_>, path: &FieldPath, errors: &mut Vec<FieldError>) {
    if !schema.flag("x-kubernetes-int-or-string") {
        return;
    }
    for key in [
        "x-kubernetes-preserve-unknown-fields",
        "x-kubernetes-embedded-resource",
    ] {
        if schema.flag(key) {
            let why = "must be false if x-kubernetes-int-or-string is true";
            errors.push(FieldError::invalid(&path.child(key), true, why));
        }
    }
}

fn type_and_metadata(schema: Props<'_>, level: Level, path: &FieldPath, errors: &mut Vec<FieldError>) {
    let kind = schema.text("type");
    let embedded = schema.flag("x-kubernetes-embedded-resource");
    let preserve = schema.flag("x-kubernetes-preserve-unknown-fields");
    let at = path.child("type");
    if embedded && kind != "object" {
        let why = "must be object if x-kubernetes-embedded-resource is true";
        errors.push(match kind {
            "" => FieldError::required(&at, why),
            _ => FieldError::invalid(&at, kind, why),
        });
    } else if kind.is_empty() && !schema.flag("x-kubernetes-int-or-string") && !preserve {
        let why = match level {
            Level::Root => "must not be empty at the root",
            Level::Item => "must not be empty for specified array items",
            Level::Field => "must not be empty for specified object fields",
        };
        errors.push(FieldError::required(&at, why));
    }
    if embedded && schema.has("additionalProperties") {
        let why = "must not be used if x-kubernetes-embedded-resource is set";
        errors.push(FieldError::forbidden(&path.child("additionalProperties"), why));
    }
    if level == Level::Root && !matches!(kind, "" | "object") {
        errors.push(FieldError::invalid(&at, kind, "must be object at the root"));
    }
    metadata(schema, level, path, errors);
    let no_properties = schema.object("properties").is_none_or(|map| map.0.is_empty());
    if embedded && !preserve && no_properties {
        let why = "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields";
        errors.push(FieldError::required(&path.child("properties"), why));
    }
}

fn metadata(schema: Props<'_>, level: Level, path: &FieldPath, errors: &mut Vec<FieldError>) {
    let resource = level == Level::Root || schema.flag("x-kubernetes-embedded-resource");
    let properties = path.child("properties");
    for key in ["kind", "apiVersion"] {
        if let Some(property) = schema.property(key).filter(|_| resource)
            && property.text("type") != "string"
        {
            let at = properties.key(key).child("type");
            errors.push(FieldError::invalid(&at, property.text("type"), "must be string"));
        }
    }
    let Some(metadata) = schema.property("metadata") else {
        return;
    };
    let at = properties.key("metadata");
    if resource && metadata.text("type") != "object" {
        errors.push(FieldError::invalid(
            &at.child("type"),
            metadata.text("type"),
            "must be object",
        ));
    }
    if level != Level::Root {
        return;
    }
    let only_names = metadata
        .named("properties")
        .all(|(name, _)| matches!(name, "name" | "generateName"));
    if !only_names || !metadata.zero_except(&["type", "default", "properties"]) {
        let why = "must not specify anything other than name and generateName, but metadata is implicitly specified";
        errors.push(FieldError::forbidden(&at, why));
    }
}

/// Which branches may name types because they spell int-or-string.
#[derive(Debug, Clone, Copy, Default)]
struct Skip {
    any_of: bool,
    first_all_of: bool,
}

fn is_int_or_string(schema: Props<'_>) -> bool {
    let mut branches = schema.schemas("anyOf");
    let types = [branches.next(), branches.next()];
    let spelled = types.iter().zip(["integer", "string"]).all(|(branch, kind)| {
        branch.is_some_and(|branch| branch.text("type") == kind && branch.zero_except(&["type"]))
    });
    spelled && branches.next().is_none()
}

fn starts_with_int_or_string(schema: Props<'_>) -> bool {
    schema.schemas("allOf").next().is_some_and(is_int_or_string)
}

fn values(schema: Props<'_>, skip: Skip, path: &FieldPath, errors: &mut Vec<FieldError>) {
    if !skip.any_of {
        for (index, branch) in schema.schemas("anyOf").enumerate() {
            nested(branch, Skip::default(), &path.child("anyOf").index(index), errors);
        }
    }
    for (index, branch) in schema.schemas("allOf").enumerate() {
        let skip = Skip {
            any_of: skip.first_all_of && index == 0,
            first_all_of: false,
        };
        nested(branch, skip, &path.child("allOf").index(index), errors);
    }
    for (index, branch) in schema.schemas("oneOf").enumerate() {
        nested(branch, Skip::default(), &path.child("oneOf").index(index), errors);
    }
    if let Some(not) = schema.object("not") {
        nested(not, Skip::default(), &path.child("not"), errors);
    }
    let source = schema.text("pattern");
    if !source.is_empty()
        && let Err(error) = pattern::check(source)
    {
        let why = format!("must be a valid regular expression, but isn't: {error}");
        errors.push(FieldError::invalid(&path.child("pattern"), source, why));
    }
}

/// Checks a schema under a logical junctor: it may constrain values but not shape them.
fn nested(schema: Props<'_>, skip: Skip, path: &FieldPath, errors: &mut Vec<FieldError>) {
    values(schema, skip, path, errors);
    if let Some(item) = schema.item() {
        nested(item, Skip::default(), &path.child("items"), errors);
    }
    for (name, property) in schema.named("properties") {
        nested(
            property,
            Skip::default(),
            &path.child("properties").key(name),
            errors,
        );
    }
    forbid_shape(schema, path, errors);
    if schema.property("metadata").is_some() {
        let at = path.child("properties").key("metadata");
        errors.push(FieldError::forbidden(
            &at,
            "must not be specified in a nested context",
        ));
    }
}

/// Forbids the keywords that shape a value.
fn forbid_shape(schema: Props<'_>, path: &FieldPath, errors: &mut Vec<FieldError>) {
    const EMPTY: &str = "must be empty to be structural";
    const UNDEFINED: &str = "must be undefined to be structural";
    const FALSE: &str = "must be false to be structural";
    let mut forbid = |key: &str, why: &str| errors.push(FieldError::forbidden(&path.child(key), why));
    if !matches!(
        schema.additional(),
        AdditionalProps::Unset | AdditionalProps::Bool(false)
    ) {
        forbid("additionalProperties", UNDEFINED);
    }
    for (key, why) in [
        ("type", EMPTY),
        ("default", UNDEFINED),
        ("title", EMPTY),
        ("description", EMPTY),
        ("nullable", FALSE),
        ("x-kubernetes-preserve-unknown-fields", FALSE),
        ("x-kubernetes-embedded-resource", FALSE),
        ("x-kubernetes-int-or-string", FALSE),
        ("x-kubernetes-list-map-keys", EMPTY),
        ("x-kubernetes-list-type", UNDEFINED),
        ("x-kubernetes-map-type", UNDEFINED),
        ("x-kubernetes-validations", EMPTY),
    ] {
        // A default of false or "" is still a default.
        if schema.has(key) && (key == "default" || !schema.is_zero(key)) {
            forbid(key, why);
        }
    }
}

/// Checks that everything that `values` constrains is also specified in `schema`.
fn complete_values(
    values: Props<'_>,
    schema: Option<Props<'_>>,
    schema_path: &FieldPath,
    path: &FieldPath,
    errors: &mut Vec<FieldError>,
) {
    if let Some(not) = values.object("not") {
        complete_nested(not, schema, schema_path, &path.child("not"), errors);
    }
    for key in ["allOf", "anyOf", "oneOf"] {
        for (index, branch) in values.schemas(key).enumerate() {
            complete_nested(branch, schema, schema_path, &path.child(key).index(index), errors);
        }
    }
}

fn complete_nested(
    values: Props<'_>,
    schema: Option<Props<'_>>,
    schema_path: &FieldPath,
    path: &FieldPath,
    errors: &mut Vec<FieldError>,
) {
    let missing = |at: &FieldPath, path: &FieldPath| {
        FieldError::required(at, format!("because it is defined in {path}"))
    };
    let Some(specified) = schema else {
        return errors.push(missing(schema_path, path));
    };
    complete_values(values, schema, schema_path, path, errors);
    if let Some(item) = values.item() {
        let (schema_path, path) = (schema_path.child("items"), path.child("items"));
        complete_nested(item, specified.item(), &schema_path, &path, errors);
    }
    for (name, property) in values.named("properties") {
        let path = path.child("properties").key(name);
        let schema_path = schema_path.child("properties").key(name);
        match specified.property(name) {
            None => errors.push(missing(&schema_path, &path)),
            found => complete_nested(property, found, &schema_path, &path, errors),
        }
    }
}
