//! The annotation of client-side apply: taken over by, and kept in step with, server-side apply of kubectl.

use serde_json::{Map, Value, json};
use skopos_object::json as text;

use super::check::{Duplicates, check};
use super::compare::compare;
use super::set::FieldSet;
use super::types::Type;
use super::walk::fields_of;

const ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// What kube-apiserver allows all annotations of an object to need.
const MAX_ANNOTATIONS_BYTES: usize = 256 << 10;

/// The fields that client-side apply set and that still have its values: taking them over is no conflict.
pub(super) fn fields(ty: Type<'_>, api_version: &str, live: &Value) -> Option<FieldSet> {
    let last = annotations(live)?
        .get(ANNOTATION)?
        .as_str()
        .filter(|last| !last.is_empty())?;
    let last = text::decode(last.as_bytes()).ok()?.value;
    if last.get("apiVersion")?.as_str()? != api_version || last.get("kind").is_none() {
        return None;
    }
    check(ty, live, Duplicates::Forbidden).ok()?;
    check(ty, &last, Duplicates::Forbidden).ok()?;
    let changed = compare(ty, &last, live).ok()?;
    Some(
        fields_of(ty, &last)
            .difference(&changed.written)
            .difference(&changed.removed),
    )
}

/// Writes what was applied into the annotation, if there is one.
pub(super) fn refresh(object: &mut Value, applied: &Value) {
    let exists = annotations(object)
        .and_then(|known| known.get(ANNOTATION)?.as_str())
        .is_some_and(|last| !last.is_empty());
    if !exists {
        return;
    }
    let mut last = applied.clone();
    if let Some(known) = last
        .pointer_mut("/metadata/annotations")
        .and_then(Value::as_object_mut)
    {
        known.remove(ANNOTATION);
    }
    let last = format!("{}\n", text::to_go_string(&last));
    let Some(known) = object
        .pointer_mut("/metadata/annotations")
        .and_then(Value::as_object_mut)
    else {
        return;
    };
    known.insert(ANNOTATION.to_owned(), json!(last));
    let size: usize = known
        .iter()
        .map(|(name, value)| name.len() + value.as_str().map_or(0, str::len))
        .sum();
    if size > MAX_ANNOTATIONS_BYTES {
        known.remove(ANNOTATION);
    }
}

fn annotations(object: &Value) -> Option<&Map<String, Value>> {
    object.pointer("/metadata/annotations")?.as_object()
}
