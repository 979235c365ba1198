//! Checks of the OpenAPI schema of a version.

use serde_json::{Value, json};
use skopos_object::{FieldError, FieldPath};

use super::options::Options;
use super::props::{AdditionalProps, Items, Props};
use super::view::Validation;
use super::{defaults, rules, structural};
use crate::parse::SchemaError;
use crate::structural::{Structural, Type};

/// What the checks of one schema depend on.
pub(super) struct Context<'a> {
    pub(super) options: &'a Options,
    pub(super) structural: bool,
    pub(super) status_enabled: bool,
}

/// Checks a version's schema: root restrictions, structure, defaults, then keyword by keyword.
pub(super) fn check_validation(
    validation: Validation<'_>,
    context: &Context<'_>,
    path: &FieldPath,
    errors: &mut Vec<FieldError>,
) {
    let Some(schema) = validation.schema else { return };
    let start = errors.len();
    if context.status_enabled {
        check_root_with_status(schema, path, errors);
    }
    if schema.flag("nullable") {
        let at = path.child("openAPIV3Schema.nullable");
        errors.push(FieldError::forbidden(&at, "nullable cannot be true at the root"));
    }
    let path = path.child("openAPIV3Schema");
    let compiled = Structural::from_json(&Value::Object(schema.0.clone()));
    let mut unusable = None;
    if context.structural {
        match &compiled {
            Err(error) if !matches!(error, SchemaError::Malformed(_)) => unusable = Some(error.to_string()),
            _ => {
                let broken = structural::errors(schema, &path);
                if let (true, Ok(compiled)) = (broken.is_empty(), &compiled) {
                    errors.extend(defaults::errors(compiled, &path, context.options.pruned_defaults));
                }
                errors.extend(broken);
            }
        }
    }
    let site = Site {
        options: context.options,
        root: true,
        inside_meta: false,
        no_defaults: None,
    };
    check_schema(schema, &path, &site, errors);
    if let (true, Some(why)) = (errors.len() == start, unusable) {
        errors.push(FieldError::invalid(&path, "", why));
    }
    if let (true, Err(error)) = (errors.len() == start, &compiled) {
        errors.push(FieldError::invalid(&path, "", error.to_string()));
    }
}

/// What the root of a schema must not say if its status is taken out of it.
const FORBIDDEN_WITH_STATUS: [&str; 22] = [
    "id",
    "$schema",
    "$ref",
    "nullable",
    "default",
    "enum",
    "maxProperties",
    "minProperties",
    "allOf",
    "oneOf",
    "anyOf",
    "not",
    "additionalProperties",
    "patternProperties",
    "dependencies",
    "additionalItems",
    "definitions",
    "x-kubernetes-embedded-resource",
    "x-kubernetes-int-or-string",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-list-type",
    "x-kubernetes-map-type",
];

/// The root of a schema whose status is taken out of it may only say what is not lost that way.
fn check_root_with_status(schema: Props<'_>, path: &FieldPath, errors: &mut Vec<FieldError>) {
    let kind = schema.text("type");
    if !matches!(kind, "" | "object") {
        let why = "only \"object\" is allowed as the type at the root of the schema if the status subresource is enabled";
        return errors.push(FieldError::invalid(
            &path.child("openAPIV3Schema.type"),
            kind,
            why,
        ));
    }
    let set = |key: &&str| schema.has(key) && !schema.is_zero(key);
    if FORBIDDEN_WITH_STATUS.iter().any(set) {
        let why = "only [Description Type Format Title Maximum ExclusiveMaximum Minimum ExclusiveMinimum MaxLength MinLength Pattern MaxItems MinItems UniqueItems MultipleOf Required Items Properties ExternalDocs Example XPreserveUnknownFields XValidations] fields are allowed at the root of the schema if the status subresource is enabled";
        errors.push(FieldError::invalid(
            &path.child("openAPIV3Schema"),
            Value::Object(schema.0.clone()),
            why,
        ));
    }
}

/// Where in a schema a check stands.
#[derive(Clone, Copy)]
struct Site<'a> {
    options: &'a Options,
    root: bool,
    inside_meta: bool,
    /// Why defaults are not allowed here.
    no_defaults: Option<&'static str>,
}

fn check_schema(schema: Props<'_>, path: &FieldPath, site: &Site<'_>, errors: &mut Vec<FieldError>) {
    check_keywords(schema, path, site, errors);
    let inner = Site { root: false, ..*site };
    check_additional(schema, path, &inner, errors);
    check_properties(schema, path, site, errors);
    if let Some(not) = schema.object("not") {
        check_schema(not, &path.child("not"), &inner, errors);
    }
    for key in ["allOf", "oneOf", "anyOf"] {
        for (index, branch) in schema.schemas(key).enumerate() {
            check_schema(branch, &path.child(key).index(index), &inner, errors);
        }
    }
    for (name, definition) in schema.named("definitions") {
        check_schema(definition, &path.child("definitions").key(name), &inner, errors);
    }
    match schema.items() {
        Items::None => {}
        Items::One(item) => check_schema(item, &path.child("items"), &inner, errors),
        Items::Many(list) => {
            for (index, item) in list.iter().enumerate() {
                check_schema(
                    Props::of(Some(item)),
                    &path.child("items").index(index),
                    &inner,
                    errors,
                );
            }
        }
    }
    for (name, dependency) in schema.named("dependencies") {
        check_schema(dependency, &path.child("dependencies").key(name), &inner, errors);
    }
    check_extensions(schema, path, site.options, errors);
    rules::check(schema, path, errors);
}

fn check_keywords(schema: Props<'_>, path: &FieldPath, site: &Site<'_>, errors: &mut Vec<FieldError>) {
    let kind = schema.text("type");
    if site.options.valid_types && !kind.is_empty() && Type::parse(kind).is_none() {
        let types = ["array", "boolean", "integer", "number", "object", "string"];
        errors.push(FieldError::not_supported(&path.child("type"), kind, &types));
    }
    let mut forbid = |key: &str, why: &str| errors.push(FieldError::forbidden(&path.child(key), why));
    if let (true, Some(reason)) = (schema.has("default"), site.no_defaults) {
        forbid("default", &format!("must not be set {reason}"));
    }
    for key in unsupported(schema) {
        forbid(key, &format!("{key} is not supported"));
    }
    if kind == "null" {
        forbid(
            "type",
            "type cannot be set to null, use nullable as an alternative",
        );
    }
    if matches!(schema.items(), Items::Many(list) if !list.is_empty()) {
        forbid("items", "items must be a schema object and not an array");
    }
    if site.inside_meta && schema.flag("x-kubernetes-embedded-resource") {
        forbid(
            "x-kubernetes-embedded-resource",
            "must not be used inside of resource meta",
        );
    }
    if schema.flag("uniqueItems") {
        forbid(
            "uniqueItems",
            "uniqueItems cannot be set to true since the runtime complexity becomes quadratic",
        );
    }
}

/// The keywords in use that no CRD may use.
fn unsupported(schema: Props<'_>) -> impl Iterator<Item = &'static str> {
    let nonempty = |key: &str| schema.object(key).is_some_and(|map| !map.0.is_empty());
    [
        ("id", !schema.text("id").is_empty()),
        ("additionalItems", schema.has("additionalItems")),
        ("patternProperties", nonempty("patternProperties")),
        ("definitions", nonempty("definitions")),
        ("dependencies", schema.has("dependencies")),
        ("$ref", schema.has("$ref")),
    ]
    .into_iter()
    .filter_map(|(key, set)| set.then_some(key))
}

fn check_additional(schema: Props<'_>, path: &FieldPath, site: &Site<'_>, errors: &mut Vec<FieldError>) {
    let at = path.child("additionalProperties");
    let additional = schema.additional();
    let has_properties = schema.object("properties").is_some_and(|map| !map.0.is_empty());
    if has_properties && !matches!(additional, AdditionalProps::Unset | AdditionalProps::Bool(true)) {
        let why = "additionalProperties and properties are mutual exclusive";
        errors.push(FieldError::forbidden(&at, why));
    }
    if let AdditionalProps::Schema(values) = additional {
        let mut site = *site;
        if site.inside_meta {
            site.no_defaults = Some("inside additionalProperties applying to object metadata");
        }
        check_schema(values, &at, &site, errors);
    }
}

fn check_properties(schema: Props<'_>, path: &FieldPath, site: &Site<'_>, errors: &mut Vec<FieldError>) {
    for (name, property) in schema.named("properties") {
        let mut inner = Site { root: false, ..*site };
        let top_level = match name {
            "metadata" => "in top-level metadata",
            "kind" => "in top-level kind",
            "apiVersion" => "in top-level apiVersion",
            _ => "",
        };
        if !top_level.is_empty() && (site.root || schema.flag("x-kubernetes-embedded-resource")) {
            inner.inside_meta = true;
            if site.root {
                inner.no_defaults = Some(top_level);
            }
        }
        check_schema(property, &path.child("properties").key(name), &inner, errors);
    }
}

fn check_extensions(schema: Props<'_>, path: &FieldPath, options: &Options, errors: &mut Vec<FieldError>) {
    const PRESERVE: &str = "x-kubernetes-preserve-unknown-fields";
    if schema.get(PRESERVE) == Some(&Value::Bool(false)) {
        errors.push(FieldError::invalid(
            &path.child(PRESERVE),
            false,
            "must be true or undefined",
        ));
    }
    require_type(schema, "x-kubernetes-map-type", "object", path, errors);
    let map_type = schema.text("x-kubernetes-map-type");
    if !matches!(map_type, "" | "atomic" | "granular") {
        let at = path.child("x-kubernetes-map-type");
        errors.push(FieldError::not_supported(&at, map_type, &["atomic", "granular"]));
    }
    check_list_type(schema, path, options, errors);
    if options.map_list_keys {
        errors.extend(map_list_key_errors(schema, path));
    }
}

fn check_list_type(schema: Props<'_>, path: &FieldPath, options: &Options, errors: &mut Vec<FieldError>) {
    require_type(schema, "x-kubernetes-list-type", "array", path, errors);
    if let (true, "array", Some(key)) = (
        options.atomic_set_items,
        schema.text("type"),
        non_atomic_set_item(schema),
    ) {
        let item = schema.item().unwrap_or_else(|| Props::of(None));
        let value = item.get("x-kubernetes-list-type").cloned().unwrap_or(Value::Null);
        let why = "must be atomic as item of a list with x-kubernetes-list-type=set";
        errors.push(FieldError::invalid(&path.child("items").child(key), value, why));
    }
    let list_type = schema.text("x-kubernetes-list-type");
    let list_type_at = path.child("x-kubernetes-list-type");
    if !matches!(list_type, "" | "atomic" | "set" | "map") {
        errors.push(FieldError::not_supported(
            &list_type_at,
            list_type,
            &["atomic", "set", "map"],
        ));
    }
    if !schema.list("x-kubernetes-list-map-keys").is_empty() && list_type != "map" {
        let why = "must be map if x-kubernetes-list-map-keys is non-empty";
        errors.push(match list_type {
            "" => FieldError::required(&list_type_at, why),
            _ => FieldError::invalid(&list_type_at, list_type, why),
        });
    }
    if list_type == "map" {
        check_map_list(schema, path, errors);
    }
}

fn require_type(schema: Props<'_>, key: &str, wanted: &str, path: &FieldPath, errors: &mut Vec<FieldError>) {
    let kind = schema.text("type");
    if !schema.has(key) || kind == wanted {
        return;
    }
    let at = path.child("type");
    let why = format!("must be {wanted} if {key} is specified");
    errors.push(match kind {
        "" => FieldError::required(&at, why),
        _ => FieldError::invalid(&at, kind, why),
    });
}

/// The extension that an item of a set would need, if its items are not atomic.
pub(super) fn non_atomic_set_item(schema: Props<'_>) -> Option<&'static str> {
    let item = schema
        .item()
        .filter(|_| schema.text("x-kubernetes-list-type") == "set")?;
    match item.text("type") {
        "array" if !matches!(item.text("x-kubernetes-list-type"), "" | "atomic") => {
            Some("x-kubernetes-list-type")
        }
        "object" if item.text("x-kubernetes-map-type") != "atomic" => Some("x-kubernetes-map-type"),
        _ => None,
    }
}

fn check_map_list(schema: Props<'_>, path: &FieldPath, errors: &mut Vec<FieldError>) {
    let keys: Vec<&str> = schema.texts("x-kubernetes-list-map-keys").collect();
    let keys_at = path.child("x-kubernetes-list-map-keys");
    if keys.is_empty() {
        errors.push(FieldError::required(
            &keys_at,
            "must not be empty if x-kubernetes-list-type is map",
        ));
    }
    let items_at = path.child("items");
    let item = match schema.items() {
        Items::None => {
            let why = "must have a schema if x-kubernetes-list-type is map";
            return errors.push(FieldError::required(&items_at, why));
        }
        Items::Many(list) => {
            let why = "must only have a single schema if x-kubernetes-list-type is map";
            return errors.push(FieldError::invalid(&items_at, list.to_vec(), why));
        }
        Items::One(item) => item,
    };
    let kind = item.text("type");
    if kind != "object" {
        let why = "must be object if parent array's x-kubernetes-list-type is map";
        return errors.push(FieldError::invalid(&items_at.child("type"), kind, why));
    }
    check_map_keys(&keys, item, path, errors);
}

fn check_map_keys(keys: &[&str], item: Props<'_>, path: &FieldPath, errors: &mut Vec<FieldError>) {
    let (keys_at, items_at) = (path.child("x-kubernetes-list-map-keys"), path.child("items"));
    for (index, key) in keys.iter().enumerate() {
        match item.property(key) {
            Some(property) if matches!(property.text("type"), "array" | "object") => {
                let at = items_at.child("properties").key(key).child("type");
                let why = "must be a scalar type if parent array's x-kubernetes-list-type is map";
                errors.push(FieldError::invalid(&at, item.text("type"), why));
            }
            Some(_) => {}
            None => {
                let why = "entries must all be names of item properties";
                errors.push(FieldError::invalid(&keys_at, json!(keys), why));
            }
        }
        if keys[..index].contains(key) {
            errors.push(FieldError::invalid(
                &keys_at,
                json!(keys),
                "must not contain duplicate entries",
            ));
        }
    }
}

/// Complaints about items of sets and map lists that could be null or lack their keys.
pub(super) fn map_list_key_errors(schema: Props<'_>, path: &FieldPath) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let list_type = schema.text("x-kubernetes-list-type");
    let Some(item) = schema.item().filter(|_| matches!(list_type, "set" | "map")) else {
        return errors;
    };
    let items_at = path.child("items");
    if item.flag("nullable") {
        let why = format!("cannot be nullable when x-kubernetes-list-type is {list_type}");
        errors.push(FieldError::forbidden(&items_at.child("nullable"), why));
    }
    if list_type != "map" {
        return errors;
    }
    for key in schema.texts("x-kubernetes-list-map-keys") {
        let Some(property) = item.property(key) else {
            continue;
        };
        let at = items_at.child("properties").key(key);
        if !item.texts("required").any(|name| name == key) && !property.has("default") {
            let why = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property";
            errors.push(FieldError::required(&at.child("default"), why));
        }
        if property.flag("nullable") {
            let why = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable";
            errors.push(FieldError::forbidden(&at.child("nullable"), why));
        }
    }
    errors
}

/// Whether a schema node uses an extension that only structural schemas may use.
pub(super) fn has_kubernetes_extension(schema: Props<'_>) -> bool {
    schema.flag("x-kubernetes-embedded-resource")
        || schema.flag("x-kubernetes-int-or-string")
        || schema.has("x-kubernetes-preserve-unknown-fields")
        || schema.has("x-kubernetes-list-type")
        || !schema.list("x-kubernetes-list-map-keys").is_empty()
        || !schema.list("x-kubernetes-validations").is_empty()
}
