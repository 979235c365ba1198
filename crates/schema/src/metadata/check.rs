//! Checks of object metadata, with kube-apiserver's complaints.

use std::borrow::Cow;

use serde_json::{Map, Value};
use skopos_object::validation::{dns1123_label, label_key, label_value};
use skopos_object::{FieldError, FieldPath};

const MAX_ANNOTATION_BYTES: usize = 256 << 10;
const MAX_MANAGER_BYTES: usize = 128;
const MAX_SUBRESOURCE_BYTES: usize = 256;

/// What is checked: a whole name, or the prefix of a generated one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NameCheck {
    /// `metadata.name`.
    Whole,
    /// `metadata.generateName`.
    Prefix,
}

impl NameCheck {
    /// The name to look at: a generated one goes on after its prefix, which may end in what a name may not.
    #[must_use]
    pub fn completed(self, name: &str) -> Cow<'_, str> {
        match (self, name.strip_suffix('-')) {
            (NameCheck::Prefix, Some(stem)) => format!("{stem}a").into(),
            _ => name.into(),
        }
    }
}

/// Checks the metadata of an object to be created, after its name was generated.
///
/// `name` words the complaints about a name; `namespaced` is whether the kind lives in namespaces.
pub fn validate_object_meta(
    metadata: &Value,
    namespaced: bool,
    name: impl Fn(&str, NameCheck) -> Vec<String>,
    path: &FieldPath,
) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let generate_name = text(metadata, "generateName");
    if !generate_name.is_empty() {
        let at = path.child("generateName");
        let why = name(generate_name, NameCheck::Prefix);
        errors.extend(
            why.into_iter()
                .map(|why| FieldError::invalid(&at, generate_name, why)),
        );
    }
    let own_name = text(metadata, "name");
    let at = path.child("name");
    if own_name.is_empty() {
        errors.push(FieldError::required(&at, "name or generateName is required"));
    } else {
        let why = name(own_name, NameCheck::Whole);
        errors.extend(why.into_iter().map(|why| FieldError::invalid(&at, own_name, why)));
    }
    errors.extend(namespace(metadata, namespaced, &path.child("namespace")));
    let generation = metadata.get("generation").and_then(Value::as_i64).unwrap_or(0);
    if generation < 0 {
        let why = "must be greater than or equal to 0";
        errors.push(FieldError::invalid(&path.child("generation"), generation, why));
    }
    labels_annotations_owners(metadata, path, &mut errors);
    finalizers(metadata, &path.child("finalizers"), &mut errors);
    managed_fields(metadata, &path.child("managedFields"), &mut errors);
    errors
}

/// Checks the metadata of an object to be updated.
pub fn validate_object_meta_update(new: &Value, old: &Value, path: &FieldPath) -> Vec<FieldError> {
    let mut errors = Vec::new();
    errors.extend(new_finalizers(new, old, path));
    if text(new, "resourceVersion").is_empty() {
        let why = "must be specified for an update";
        errors.push(FieldError::invalid(&path.child("resourceVersion"), "", why));
    }
    let generation = |metadata: &Value| metadata.get("generation").and_then(Value::as_i64).unwrap_or(0);
    if generation(new) < generation(old) {
        let at = path.child("generation");
        errors.push(FieldError::invalid(
            &at,
            generation(new),
            "must not be decremented",
        ));
    }
    for name in ["name", "namespace", "uid"] {
        errors.extend(immutable(
            text(new, name).into(),
            &text(old, name).into(),
            &path.child(name),
        ));
    }
    for name in [
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
    ] {
        let value = |metadata: &Value| metadata.get(name).cloned().unwrap_or(Value::Null);
        errors.extend(immutable(value(new), &value(old), &path.child(name)));
    }
    labels_annotations_owners(new, path, &mut errors);
    managed_fields(new, &path.child("managedFields"), &mut errors);
    errors
}

/// Complains about finalizers added to an object that is going away.
fn new_finalizers(new: &Value, old: &Value, path: &FieldPath) -> Option<FieldError> {
    if text(old, "deletionTimestamp").is_empty() {
        return None;
    }
    let had: Vec<&str> = texts(old, "finalizers").collect();
    let mut added: Vec<&str> = texts(new, "finalizers")
        .filter(|name| !had.contains(name))
        .collect();
    added.sort_unstable();
    added.dedup();
    let list: Vec<String> = added.into_iter().map(skopos_object::quote).collect();
    (!list.is_empty()).then(|| {
        let why = format!(
            "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
            list.join(", ")
        );
        FieldError::forbidden(&path.child("finalizers"), why)
    })
}

/// Complains if a field changed.
pub(crate) fn immutable(new: Value, old: &Value, path: &FieldPath) -> Option<FieldError> {
    (new != *old).then(|| FieldError::invalid(path, new, "field is immutable"))
}

fn namespace(metadata: &Value, namespaced: bool, path: &FieldPath) -> Vec<FieldError> {
    match (namespaced, text(metadata, "namespace")) {
        (true, "") => vec![FieldError::required(path, "")],
        (true, name) => dns1123_label(name)
            .into_iter()
            .map(|why| FieldError::invalid(path, name, why))
            .collect(),
        (false, "") => Vec::new(),
        (false, _) => vec![FieldError::forbidden(path, "not allowed on this type")],
    }
}

fn labels_annotations_owners(metadata: &Value, path: &FieldPath, errors: &mut Vec<FieldError>) {
    let labels = path.child("labels");
    for (key, value) in map(metadata, "labels") {
        errors.extend(
            label_key(key)
                .into_iter()
                .map(|why| FieldError::invalid(&labels, key.as_str(), why)),
        );
        let value = value.as_str().unwrap_or_default();
        errors.extend(
            label_value(value)
                .into_iter()
                .map(|why| FieldError::invalid(&labels, value, why)),
        );
    }
    let annotations = path.child("annotations");
    let mut bytes = 0;
    for (key, value) in map(metadata, "annotations") {
        bytes += key.len() + value.as_str().map_or(0, str::len);
        let complaints = label_key(&key.to_lowercase());
        errors.extend(
            complaints
                .into_iter()
                .map(|why| FieldError::invalid(&annotations, key.as_str(), why)),
        );
    }
    if bytes > MAX_ANNOTATION_BYTES {
        errors.push(FieldError::too_long(&annotations, MAX_ANNOTATION_BYTES));
    }
    owners(metadata, &path.child("ownerReferences"), errors);
}

fn owners(metadata: &Value, path: &FieldPath, errors: &mut Vec<FieldError>) {
    let mut controller: Option<String> = None;
    for reference in list(metadata, "ownerReferences") {
        let get = |name: &str| text(reference, name);
        let parts: Vec<&str> = get("apiVersion").split('/').collect();
        let version = match parts.as_slice() {
            [version] | [_, version] => version,
            _ => "",
        };
        for (name, value, why) in [
            ("apiVersion", version, "version must not be empty"),
            ("kind", get("kind"), "must not be empty"),
            ("name", get("name"), "must not be empty"),
            ("uid", get("uid"), "must not be empty"),
        ] {
            if value.is_empty() {
                errors.push(FieldError::invalid(&path.child(name), get(name), why));
            }
        }
        if (get("apiVersion"), get("kind")) == ("v1", "Event") {
            let why = "/v1, Kind=Event is disallowed from being an owner";
            errors.push(FieldError::invalid(path, reference.clone(), why));
        }
        if reference.get("controller") == Some(&Value::Bool(true)) {
            let current = format!("{}/{}", get("kind"), get("name"));
            match &controller {
                None => controller = Some(current),
                Some(first) => {
                    let why = format!(
                        "Only one reference can have Controller set to true. Found \"true\" in references for {first} and {current}"
                    );
                    let all = metadata.get("ownerReferences").cloned().unwrap_or_default();
                    errors.push(FieldError::invalid(path, all, why));
                }
            }
        }
    }
}

fn finalizers(metadata: &Value, path: &FieldPath, errors: &mut Vec<FieldError>) {
    for name in texts(metadata, "finalizers") {
        errors.extend(
            label_key(name)
                .into_iter()
                .map(|why| FieldError::invalid(path, name, why)),
        );
    }
    let has = |wanted: &str| texts(metadata, "finalizers").any(|name| name == wanted);
    if has("orphan") && has("foregroundDeletion") {
        let all = metadata.get("finalizers").cloned().unwrap_or_default();
        let why = "finalizer orphan and foregroundDeletion cannot be both set";
        errors.push(FieldError::invalid(path, all, why));
    }
}

fn managed_fields(metadata: &Value, path: &FieldPath, errors: &mut Vec<FieldError>) {
    for (index, entry) in list(metadata, "managedFields").iter().enumerate() {
        let path = path.index(index);
        let operation = text(entry, "operation");
        if !matches!(operation, "Apply" | "Update") {
            errors.push(FieldError::invalid(
                &path.child("operation"),
                operation,
                "must be `Apply` or `Update`",
            ));
        }
        let fields_type = text(entry, "fieldsType");
        if !matches!(fields_type, "" | "FieldsV1") {
            errors.push(FieldError::invalid(
                &path.child("fieldsType"),
                fields_type,
                "must be `FieldsV1`",
            ));
        }
        if text(entry, "manager").len() > MAX_MANAGER_BYTES {
            errors.push(FieldError::too_long(&path.child("manager"), MAX_MANAGER_BYTES));
        }
        if text(entry, "subresource").len() > MAX_SUBRESOURCE_BYTES {
            errors.push(FieldError::too_long(
                &path.child("subresource"),
                MAX_SUBRESOURCE_BYTES,
            ));
        }
    }
}

fn text<'v>(metadata: &'v Value, name: &str) -> &'v str {
    metadata.get(name).and_then(Value::as_str).unwrap_or_default()
}

fn list<'v>(metadata: &'v Value, name: &str) -> &'v [Value] {
    metadata
        .get(name)
        .and_then(Value::as_array)
        .map_or(&[], Vec::as_slice)
}

fn texts<'v>(metadata: &'v Value, name: &str) -> impl Iterator<Item = &'v str> {
    list(metadata, name).iter().filter_map(Value::as_str)
}

fn map<'v>(metadata: &'v Value, name: &str) -> impl Iterator<Item = (&'v String, &'v Value)> {
    metadata
        .get(name)
        .and_then(Value::as_object)
        .into_iter()
        .flat_map(Map::iter)
}
