//! A whole custom resource: from what was sent to what may be stored.

use serde_json::Value;
use skopos_object::validation::dns1123_subdomain;
use skopos_object::{FieldError, FieldPath};

use crate::embedded::{coerce_embedded, validate_embedded};
use crate::listtype::validate_list_types;
use crate::metadata::{Invalid, NameCheck, coerce_metadata, validate_object_meta};
use crate::prune::{Root, prune, prune_nulls};
use crate::scale::{Replicas, Scale};
use crate::structural::Structural;
use crate::validate::validate;

/// Brings a custom resource into the form of its schema. Returns the paths of what was dropped, its metadata's
/// first: a strict request reports each as `unknown field "spec.list[0].foo"`.
///
/// # Errors
/// Why the object cannot be read as one of its kind.
pub fn sanitise_resource(schema: &Structural, object: &mut Value) -> Result<Vec<String>, String> {
    let mut unknown = Vec::new();
    if let Some(metadata) = object.get_mut("metadata") {
        let dropped = coerce_metadata(metadata, Invalid::Reject).map_err(|error| error.to_string())?;
        unknown.extend(dropped.into_iter().map(|path| format!("metadata.{path}")));
    }
    unknown.extend(prune(schema, object, Root::Resource));
    prune_nulls(schema, object);
    let dropped =
        coerce_embedded(schema, object, Root::Plain, Invalid::Reject).map_err(|error| error.to_string())?;
    unknown.extend(dropped);
    Ok(unknown)
}

/// Checks the metadata of a custom resource to be stored, after its name was generated.
pub fn validate_resource_meta(object: &Value, namespaced: bool) -> Vec<FieldError> {
    let check_name = |name: &str, check: NameCheck| dns1123_subdomain(&check.completed(name));
    let path = FieldPath::root().child("metadata");
    validate_object_meta(&object["metadata"], namespaced, check_name, &path)
}

/// Checks all of a custom resource but its metadata, its status by itself and its rules, in this order: schema
/// ([`validate()`]), scale paths, embedded metadata, list types. With `old` it is an update.
pub fn validate_resource(
    schema: &Structural,
    scale: Option<&Scale>,
    object: &Value,
    old: Option<&Value>,
) -> Vec<FieldError> {
    let root = FieldPath::root();
    let mut errors = validate(schema, &root, object, old);
    if let Some(scale) = scale {
        errors.extend(scale.validate(Replicas::Spec, object));
    }
    errors.extend(validate_embedded(schema, &root, object, Root::Plain));
    errors.extend(validate_list_types(schema, object, old));
    errors
}
