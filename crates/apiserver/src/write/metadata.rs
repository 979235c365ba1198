//! Object metadata: reads it strictly, fills in what the server owns, checks what the user may set.

use jiff::Timestamp;
use serde_json::{Map, Value};
use skopos_object::validation::{dns1123_label, label_key, label_value};
use skopos_object::{FieldError, FieldPath};

use super::ObjectExt as _;
use crate::registry::Resource;
use crate::strategy::name_errors;

/// All fields of ObjectMeta with the JSON type each must have.
const FIELDS: [(&str, FieldType); 15] = [
    ("annotations", FieldType::Strings),
    ("creationTimestamp", FieldType::Time),
    ("deletionGracePeriodSeconds", FieldType::Integer),
    ("deletionTimestamp", FieldType::Time),
    ("finalizers", FieldType::StringList),
    ("generateName", FieldType::String),
    ("generation", FieldType::Integer),
    ("labels", FieldType::Strings),
    ("managedFields", FieldType::List),
    ("name", FieldType::String),
    ("namespace", FieldType::String),
    ("ownerReferences", FieldType::List),
    ("resourceVersion", FieldType::String),
    ("selfLink", FieldType::String),
    ("uid", FieldType::String),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FieldType {
    String,
    Integer,
    Time,
    Strings,
    StringList,
    List,
}

/// Checks the types of all metadata fields and drops unknown ones; returns the paths of those dropped.
///
/// # Errors
/// The text the real server gives when metadata cannot be read into its type.
pub(super) fn coerce(object: &mut Value) -> Result<Vec<String>, String> {
    let Some(metadata) = object.get_mut("metadata") else {
        return Ok(Vec::new());
    };
    if metadata.is_null() {
        *metadata = Value::Object(Map::new());
    }
    let Value::Object(fields) = metadata else {
        return Err(unmarshal_error(metadata, "value of type v1.ObjectMeta"));
    };
    fields.retain(|_, value| !value.is_null());
    for (name, value) in fields.iter_mut() {
        if let Ok(found) = FIELDS.binary_search_by_key(&name.as_str(), |field| field.0) {
            check_type(name, value, FIELDS[found].1)?;
        }
    }
    let is_known = |name: &String| {
        FIELDS
            .binary_search_by_key(&name.as_str(), |field| field.0)
            .is_ok()
    };
    let unknown: Vec<String> = fields
        .keys()
        .filter(|n| !is_known(n))
        .map(|n| format!("metadata.{n}"))
        .collect();
    fields.retain(|name, value| is_known(name) && !is_empty(value));
    Ok(unknown)
}

/// Empty maps, lists and strings are not kept: the typed metadata of the real server omits them.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Object(map) => map.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::String(text) => text.is_empty(),
        Value::Number(number) => number.as_i64() == Some(0),
        _ => false,
    }
}

fn check_type(name: &str, value: &Value, expected: FieldType) -> Result<(), String> {
    let fails = |value: &Value, go_type: &str| {
        Err(unmarshal_error(
            value,
            &format!("struct field ObjectMeta.{name} of type {go_type}"),
        ))
    };
    match (expected, value) {
        (FieldType::String, Value::String(_)) => Ok(()),
        (FieldType::String, other) => fails(other, "string"),
        (FieldType::Integer, Value::Number(n)) if n.is_i64() => Ok(()),
        (FieldType::Integer, other) => fails(other, "int64"),
        (FieldType::Time, Value::String(text)) => match text.parse::<Timestamp>() {
            Ok(_) => Ok(()),
            Err(_) => Err(format!(
                "parsing time {text:?} as \"2006-01-02T15:04:05Z07:00\": cannot parse {text:?} as \"2006\""
            )),
        },
        (FieldType::Time, other) => fails(other, "string"),
        (FieldType::Strings, Value::Object(map)) => {
            match map.values().find(|v| !v.is_string() && !v.is_null()) {
                Some(other) => fails(other, "string"),
                None => Ok(()),
            }
        }
        (FieldType::Strings, other) => fails(other, "map[string]string"),
        (FieldType::StringList, Value::Array(list)) => match list.iter().find(|v| !v.is_string()) {
            Some(other) => fails(other, "string"),
            None => Ok(()),
        },
        (FieldType::StringList, other) => fails(other, "[]string"),
        (FieldType::List, Value::Array(list)) => match list.iter().find(|v| !v.is_object()) {
            Some(other) => fails(other, go_item_type(name)),
            None => Ok(()),
        },
        (FieldType::List, other) => fails(other, &format!("[]{}", go_item_type(name))),
    }
}

fn go_item_type(name: &str) -> &'static str {
    if name == "ownerReferences" {
        "v1.OwnerReference"
    } else {
        "v1.ManagedFieldsEntry"
    }
}

fn unmarshal_error(value: &Value, target: &str) -> String {
    let found = match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    format!("json: cannot unmarshal {found} into Go {target}")
}

/// Sets what the server owns on a new object.
pub(super) fn fill_for_create(object: &mut Value, now: Timestamp) {
    for field in [
        "selfLink",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "managedFields",
        "generation",
    ] {
        object.remove_meta(field);
    }
    object.set_meta("creationTimestamp", rfc3339(now));
    object.set_meta("uid", uuid::Uuid::new_v4().to_string());
}

/// Carries over from the stored object what an update may not change and need not repeat.
pub(super) fn fill_for_update(new: &mut Value, old: &Value) {
    new.remove_meta("selfLink");
    new.remove_meta("managedFields");
    for field in ["generation", "creationTimestamp", "deletionTimestamp"] {
        match old.meta(field) {
            Some(value) => new.set_meta(field, value.clone()),
            None if field == "generation" => new.remove_meta(field),
            None => {}
        }
    }
    for field in ["uid", "deletionGracePeriodSeconds"] {
        if let (None, Some(value)) = (new.meta(field), old.meta(field)) {
            let value = value.clone();
            new.set_meta(field, value);
        }
    }
    if let Some(managed) = old.meta("managedFields") {
        let managed = managed.clone();
        new.set_meta("managedFields", managed);
    }
}

/// Seconds, as metav1.Time is written.
pub(crate) fn rfc3339(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// How large all annotations of an object may be together.
const ANNOTATIONS_MAX_BYTES: usize = 256 * 1024;

/// Checks metadata as it would be stored.
pub(super) fn validate(object: &Value, resource: &Resource) -> Vec<FieldError> {
    let path = FieldPath::root().child("metadata");
    let mut errors = Vec::new();
    let generate_name = object.meta_str("generateName");
    if !generate_name.is_empty() {
        // A prefix may end in what a name may not end in.
        let masked = generate_name
            .strip_suffix('-')
            .map_or_else(|| generate_name.into(), |p| format!("{p}a"));
        for message in name_errors(resource, &masked) {
            errors.push(FieldError::invalid(
                &path.child("generateName"),
                generate_name,
                message,
            ));
        }
    }
    match object.name() {
        "" => errors.push(FieldError::required(
            &path.child("name"),
            "name or generateName is required",
        )),
        name => {
            for message in name_errors(resource, name) {
                errors.push(FieldError::invalid(&path.child("name"), name, message));
            }
        }
    }
    validate_namespace(object, resource.namespaced, &path, &mut errors);
    validate_labels(object, &path.child("labels"), &mut errors);
    validate_annotations(object, &path.child("annotations"), &mut errors);
    validate_owners(object, &path.child("ownerReferences"), &mut errors);
    validate_finalizers(object, &path.child("finalizers"), &mut errors);
    errors
}

fn validate_namespace(object: &Value, namespaced: bool, path: &FieldPath, errors: &mut Vec<FieldError>) {
    let path = path.child("namespace");
    let namespace = object.namespace();
    match (namespaced, namespace.is_empty()) {
        (true, true) => errors.push(FieldError::required(&path, "")),
        (true, false) => {
            for message in dns1123_label(namespace) {
                errors.push(FieldError::invalid(&path, namespace, message));
            }
        }
        (false, false) => errors.push(FieldError::forbidden(&path, "not allowed on this type")),
        (false, true) => {}
    }
}

fn string_map<'a>(object: &'a Value, field: &str) -> impl Iterator<Item = (&'a str, &'a str)> {
    let map = object.meta(field).and_then(Value::as_object);
    map.into_iter()
        .flatten()
        .map(|(key, value)| (key.as_str(), value.as_str().unwrap_or("")))
}

fn validate_labels(object: &Value, path: &FieldPath, errors: &mut Vec<FieldError>) {
    for (key, value) in string_map(object, "labels") {
        for message in label_key(key) {
            errors.push(FieldError::invalid(path, key, message));
        }
        for message in label_value(value) {
            errors.push(FieldError::invalid(path, value, message));
        }
    }
}

fn validate_annotations(object: &Value, path: &FieldPath, errors: &mut Vec<FieldError>) {
    let mut n_bytes = 0;
    for (key, value) in string_map(object, "annotations") {
        n_bytes += key.len() + value.len();
        for message in label_key(&key.to_lowercase()) {
            errors.push(FieldError::invalid(path, key, message));
        }
    }
    if n_bytes > ANNOTATIONS_MAX_BYTES {
        errors.push(FieldError::too_long(path, ANNOTATIONS_MAX_BYTES));
    }
}

fn validate_owners(object: &Value, path: &FieldPath, errors: &mut Vec<FieldError>) {
    let owners = object
        .meta("ownerReferences")
        .and_then(Value::as_array)
        .map_or(&[][..], Vec::as_slice);
    let mut controller: Option<String> = None;
    for owner in owners {
        let text = |field: &str| owner.get(field).and_then(Value::as_str).unwrap_or("");
        if text("apiVersion").is_empty() {
            errors.push(FieldError::invalid(
                &path.child("apiVersion"),
                "",
                "version must not be empty",
            ));
        }
        for field in ["kind", "name", "uid"] {
            if text(field).is_empty() {
                errors.push(FieldError::invalid(&path.child(field), "", "must not be empty"));
            }
        }
        if owner.get("controller").and_then(Value::as_bool) != Some(true) {
            continue;
        }
        let current = format!("{}/{}", text("kind"), text("name"));
        match &controller {
            Some(first) => {
                let detail = format!(
                    "Only one reference can have Controller set to true. Found \"true\" in references for {first} and {current}"
                );
                errors.push(FieldError::invalid(path, Value::from(owners.to_vec()), detail));
            }
            None => controller = Some(current),
        }
    }
}

fn validate_finalizers(object: &Value, path: &FieldPath, errors: &mut Vec<FieldError>) {
    let finalizers = object.finalizers();
    for finalizer in &finalizers {
        for message in label_key(finalizer) {
            errors.push(FieldError::invalid(path, *finalizer, message));
        }
    }
    if finalizers.contains(&"orphan") && finalizers.contains(&"foregroundDeletion") {
        let detail = "finalizer orphan and foregroundDeletion cannot be both set";
        errors.push(FieldError::invalid(path, Value::from(finalizers), detail));
    }
}

/// Checks what an update may not change.
pub(super) fn validate_update(new: &Value, old: &Value) -> Vec<FieldError> {
    let path = FieldPath::root().child("metadata");
    let mut errors = Vec::new();
    if old.is_deleting() {
        let before = old.finalizers();
        let mut added: Vec<&str> = new
            .finalizers()
            .into_iter()
            .filter(|f| !before.contains(f))
            .collect();
        added.sort_unstable();
        added.dedup();
        if !added.is_empty() {
            let shown = added
                .iter()
                .map(|f| format!("{f:?}"))
                .collect::<Vec<_>>()
                .join(", ");
            let detail = format!(
                "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{shown}}}"
            );
            errors.push(FieldError::forbidden(&path.child("finalizers"), detail));
        }
    }
    let immutable = [
        "name",
        "namespace",
        "uid",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
    ];
    for field in immutable {
        if new.meta(field) != old.meta(field) {
            let value = new.meta(field).cloned().unwrap_or(Value::Null);
            errors.push(FieldError::invalid(
                &path.child(field),
                value,
                "field is immutable",
            ));
        }
    }
    validate_labels(new, &path.child("labels"), &mut errors);
    validate_annotations(new, &path.child("annotations"), &mut errors);
    validate_owners(new, &path.child("ownerReferences"), &mut errors);
    errors
}

/// Warnings for new finalizers that could collide with those of others.
pub(super) fn finalizer_warnings(object: &Value, old: Option<&Value>) -> Vec<String> {
    let standard = ["orphan", "foregroundDeletion", "kubernetes"];
    let known = old.map(|old| old.finalizers()).unwrap_or_default();
    let unqualified = |f: &&str| !f.contains('/') && !standard.contains(f) && !known.contains(f);
    let warn = |f: &str| {
        let path = if f.contains('.') {
            " including a path (/)"
        } else {
            ""
        };
        format!(
            "metadata.finalizers: {f:?}: prefer a domain-qualified finalizer name{path} to avoid accidental conflicts with other finalizer writers"
        )
    };
    object
        .finalizers()
        .into_iter()
        .filter(unqualified)
        .map(warn)
        .collect()
}
