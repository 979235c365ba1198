//! Object metadata: fills in what the server owns, checks what the user may set.

use std::collections::HashSet;

use jiff::Timestamp;
use serde_json::Value;
use skopos_builtin::name_errors;
use skopos_object::{FieldError, FieldPath};
use skopos_schema::{
    NameCheck, is_qualified_finalizer, validate_object_meta, validate_object_meta_update,
    validate_resource_meta,
};
use uuid::Uuid;

use super::ObjectExt as _;
use crate::definition;
use crate::registry::{Resource, Source};

/// Takes out what a client cannot give a new object.
pub(super) fn wipe_for_create(object: &mut Value) {
    for field in [
        "creationTimestamp",
        "uid",
        "selfLink",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
    ] {
        object.remove_meta(field);
    }
}

/// Sets what the server owns on a new object.
pub(super) fn fill_for_create(object: &mut Value, uid: Uuid, now: Timestamp) {
    wipe_for_create(object);
    object.remove_meta("generation");
    object.set_meta("creationTimestamp", rfc3339(now));
    object.set_meta("uid", uid.to_string());
}

/// Carries over from the stored object what an update may not change and need not repeat.
pub(super) fn fill_for_update(new: &mut Value, old: &Value) {
    new.remove_meta("selfLink");
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
}

/// Seconds, as metav1.Time is written.
pub(crate) fn rfc3339(time: Timestamp) -> String {
    skopos_schema::format_rfc3339(time.as_second())
}

/// Checks metadata as it would be stored.
pub(super) fn validate(object: &Value, resource: &Resource) -> Vec<FieldError> {
    let kind = match &resource.source {
        Source::Custom(_) => return validate_resource_meta(object, resource.namespaced),
        Source::BuiltIn(kind) => kind,
    };
    let check_name = |name: &str, check: NameCheck| name_errors(kind, &check.completed(name));
    let mut errors = validate_object_meta(&object["metadata"], resource.namespaced, check_name, &path());
    if !definition::is_definition(resource) {
        errors.extend(unqualified_finalizers(object));
    }
    errors
}

/// Only custom resources and definitions may have finalizers of names without a domain.
fn unqualified_finalizers(object: &Value) -> Vec<FieldError> {
    let finalizers = object.finalizers().into_iter().enumerate();
    finalizers
        .filter(|(_, name)| !is_qualified_finalizer(name))
        .map(|(index, name)| {
            let why = "name is neither a standard finalizer name nor is it fully qualified";
            FieldError::invalid(&path().child("finalizers").index(index), name, why)
        })
        .collect()
}

/// Takes out owners that are given twice. Returns the uids of those it took out.
pub(super) fn drop_repeated_owners(object: &mut Value) -> Vec<String> {
    let owners = object.pointer_mut("/metadata/ownerReferences");
    let Some(owners) = owners.and_then(Value::as_array_mut) else {
        return Vec::new();
    };
    let mut seen = HashSet::with_capacity(owners.len());
    let first: Vec<bool> = owners.iter().map(|owner| seen.insert(owner)).collect();
    let (mut first, mut repeated) = (first.into_iter(), Vec::new());
    owners.retain(|owner| {
        let keep = first.next() == Some(true);
        if !keep {
            repeated.push(owner["uid"].as_str().unwrap_or("").to_owned());
        }
        keep
    });
    repeated
}

/// Checks what an update may not change.
pub(super) fn validate_update(new: &Value, old: &Value) -> Vec<FieldError> {
    validate_object_meta_update(&new["metadata"], &old["metadata"], &path())
}

fn path() -> FieldPath {
    FieldPath::root().child("metadata")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_in_whole_seconds_of_utc() {
        let time: Timestamp = "2026-01-05T09:03:07.987654321+02:00".parse().unwrap();
        assert_eq!(rfc3339(time), "2026-01-05T07:03:07Z");
    }
}
