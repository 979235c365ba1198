//! Embedded resources: whole Kubernetes objects inside a custom resource.

use serde_json::{Map, Value};
use skopos_object::validation::dns1035_label;
use skopos_object::{FieldError, FieldPath};

use crate::metadata::{Invalid, NameCheck, coerce_metadata, validate_object_meta};
use crate::path::At;
use crate::prune::Root;
use crate::structural::{Cursor, Structural};

/// Brings the type and metadata of embedded resources into form, as decoding a typed object would.
///
/// Unknown metadata fields are dropped; their paths are returned in order, for strict requests.
/// [`Root::Resource`] also treats the value itself as a resource.
///
/// # Errors
/// With [`Invalid::Reject`], fails on the first type or metadata field of the wrong type.
pub fn coerce_embedded(
    schema: &Structural,
    value: &mut Value,
    root: Root,
    invalid: Invalid,
) -> Result<Vec<String>, FieldError> {
    let mut walk = Coercion {
        invalid,
        unknown: Vec::new(),
    };
    if schema.below.embedded || root == Root::Resource {
        walk.value(
            schema,
            schema.embedded || root == Root::Resource,
            &At::Root,
            value,
        )?;
    }
    walk.unknown.sort_unstable();
    Ok(walk.unknown)
}

struct Coercion {
    invalid: Invalid,
    unknown: Vec<String>,
}

impl Coercion {
    fn value(
        &mut self,
        schema: &Structural,
        resource: bool,
        at: &At<'_>,
        value: &mut Value,
    ) -> Result<(), FieldError> {
        if !resource && !schema.below.embedded {
            return Ok(());
        }
        match value {
            Value::Object(map) => {
                if resource {
                    self.resource(at, map)?;
                }
                let mut cursor = Cursor::new(schema);
                for (name, field) in map.iter_mut() {
                    match (cursor.seek(name), schema.additional_properties()) {
                        (Some(property), _) => {
                            self.value(property, property.embedded, &At::Field(at, name), field)?;
                        }
                        (None, Some(values)) => {
                            self.value(values, values.embedded, &At::Key(at, name), field)?;
                        }
                        (None, None) => {}
                    }
                }
            }
            Value::Array(items) => {
                let Some(schema) = schema.items() else {
                    return Ok(());
                };
                for (index, item) in items.iter_mut().enumerate() {
                    self.value(schema, schema.embedded, &At::Index(at, index), item)?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn resource(&mut self, at: &At<'_>, map: &mut Map<String, Value>) -> Result<(), FieldError> {
        for name in ["apiVersion", "kind"] {
            match map.get(name) {
                None | Some(Value::String(_)) => {}
                Some(_) if self.invalid == Invalid::Drop => {
                    map.remove(name);
                }
                Some(value) => {
                    let path = field_path(&At::Field(at, name));
                    return Err(FieldError::invalid(&path, value.clone(), "must be a string"));
                }
            }
        }
        let Some(metadata) = map.get_mut("metadata") else {
            return Ok(());
        };
        // Kept for the error message: a failed decode leaves the metadata half done.
        let before = metadata.clone();
        let here = At::Field(at, "metadata");
        match coerce_metadata(metadata, self.invalid) {
            Ok(unknown) => {
                let prefix = here.bracketed();
                self.unknown
                    .extend(unknown.into_iter().map(|path| format!("{prefix}.{path}")));
                Ok(())
            }
            Err(_) if self.invalid == Invalid::Drop => Ok(()),
            Err(error) => {
                *metadata = before.clone();
                Err(FieldError::invalid(&field_path(&here), before, error.to_string()))
            }
        }
    }
}

/// Checks type and metadata of embedded resources.
///
/// [`Root::Resource`] also checks the value itself.
pub fn validate_embedded(
    schema: &Structural,
    path: &FieldPath,
    value: &Value,
    root: Root,
) -> Vec<FieldError> {
    let mut walk = Check {
        prefix: path,
        errors: Vec::new(),
    };
    walk.value(
        schema,
        schema.embedded || root == Root::Resource,
        &At::Root,
        value,
    );
    walk.errors
}

struct Check<'p> {
    prefix: &'p FieldPath,
    errors: Vec<FieldError>,
}

impl Check<'_> {
    fn value(&mut self, schema: &Structural, resource: bool, at: &At<'_>, value: &Value) {
        if !resource && !schema.below.embedded {
            return;
        }
        match value {
            Value::Object(map) => {
                if resource {
                    check_resource(&join(self.prefix, at), map, &mut self.errors);
                }
                let mut cursor = Cursor::new(schema);
                for (name, field) in map {
                    match (cursor.seek(name), schema.additional_properties()) {
                        (Some(property), _) => {
                            self.value(property, property.embedded, &At::Field(at, name), field);
                        }
                        (None, Some(values)) => {
                            self.value(values, values.embedded, &At::Key(at, name), field);
                        }
                        (None, None) => {}
                    }
                }
            }
            Value::Array(items) => {
                let Some(schema) = schema.items() else { return };
                for (index, item) in items.iter().enumerate() {
                    self.value(schema, schema.embedded, &At::Index(at, index), item);
                }
            }
            _ => {}
        }
    }
}

fn check_resource(path: &FieldPath, map: &Map<String, Value>, errors: &mut Vec<FieldError>) {
    for name in ["apiVersion", "kind"] {
        if !map.contains_key(name) {
            errors.push(FieldError::required(&path.child(name), ""));
        }
    }
    if let Some(value) = map.get("apiVersion") {
        errors.extend(check_api_version(&path.child("apiVersion"), value));
    }
    if let Some(value) = map.get("kind") {
        errors.extend(check_kind(&path.child("kind"), value));
    }
    let Some(metadata) = map.get("metadata") else {
        return;
    };
    let path = path.child("metadata");
    let mut typed = metadata.clone();
    match coerce_metadata(&mut typed, Invalid::Reject) {
        Err(error) => errors.push(FieldError::invalid(&path, metadata.clone(), error.to_string())),
        Ok(_) => {
            let namespaced = typed.get("namespace").is_some();
            if let Some(map) = typed.as_object_mut() {
                // The name of an embedded object may be left out, so any name will do here.
                map.entry("name").or_insert_with(|| "fakename".into());
            }
            errors.extend(validate_object_meta(&typed, namespaced, path_segment, &path));
        }
    }
}

fn check_api_version(path: &FieldPath, value: &Value) -> Option<FieldError> {
    let Some(version) = value.as_str() else {
        return Some(FieldError::invalid(path, value.clone(), "must be a string"));
    };
    if version.is_empty() {
        return Some(FieldError::invalid(path, version, "must not be empty"));
    }
    let odd = version.matches('/').count() > 1;
    odd.then(|| {
        FieldError::invalid(
            path,
            version,
            format!("unexpected GroupVersion string: {version}"),
        )
    })
}

fn check_kind(path: &FieldPath, value: &Value) -> Option<FieldError> {
    let Some(kind) = value.as_str() else {
        return Some(FieldError::invalid(path, value.clone(), "must be a string"));
    };
    if kind.is_empty() {
        return Some(FieldError::invalid(path, kind, "must not be empty"));
    }
    let complaints = dns1035_label(&kind.to_lowercase());
    (!complaints.is_empty()).then(|| {
        let why = format!(
            "may have mixed case, but should otherwise match: {}",
            complaints.join(",")
        );
        FieldError::invalid(path, kind, why)
    })
}

fn path_segment(name: &str, check: NameCheck) -> Vec<String> {
    if check == NameCheck::Whole && matches!(name, "." | "..") {
        return vec![format!("may not be '{name}'")];
    }
    ["/", "%"]
        .iter()
        .filter(|part| name.contains(**part))
        .map(|part| format!("may not contain '{part}'"))
        .collect()
}

fn field_path(at: &At<'_>) -> FieldPath {
    join(&FieldPath::root(), at)
}

fn join(prefix: &FieldPath, at: &At<'_>) -> FieldPath {
    match at {
        At::Root => prefix.clone(),
        _ => prefix.child(&at.bracketed()),
    }
}
