//! What may change in a claim that exists: once its volume, and of a bound claim how much it asks for.

use std::cmp::Ordering;

use serde_json::Value;
use skopos_object::FieldPath;

use crate::quantity::Quantity;
use crate::validate::check::{Check, IMMUTABLE, text};

const CLASS_ANNOTATION: &str = "volume.beta.kubernetes.io/storage-class";

pub(super) fn claim(check: &mut Check, new: &Value, old: &Value) {
    let path = FieldPath::root().child("spec");
    if fixed(new, new, old) != fixed(old, new, old) {
        check.forbidden(
            &path,
            "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims",
        );
    }
    let capacity = &old["status"]["capacity"]["storage"];
    if compare_sizes(asked(new), asked(old)).is_lt() && compare_sizes(asked(new), capacity).is_le() {
        let path = path.child("resources").child("requests").child("storage");
        check.forbidden(&path, "field can not be less than status.capacity");
    }
    let mode = |claim: &Value| claim["spec"]["volumeMode"].clone();
    if mode(new) != mode(old) {
        check.invalid(&FieldPath::root().child("volumeMode"), mode(new), IMMUTABLE);
    }
    attributes(check, &path.child("volumeAttributesClassName"), new, old);
}

/// Whether a volume claim asks for more than before: the server lets only some grow.
pub fn grows(new: &Value, old: &Value) -> bool {
    compare_sizes(asked(new), asked(old)).is_gt()
}

fn asked(claim: &Value) -> &Value {
    &claim["spec"]["resources"]["requests"]["storage"]
}

/// No size is none at all. What is no size was refused when it was read.
fn compare_sizes(a: &Value, b: &Value) -> Ordering {
    match (Quantity::parse(text(a)), Quantity::parse(text(b))) {
        (Ok(a), Ok(b)) => a.cmp(b),
        _ => Ordering::Equal,
    }
}

/// The spec of one of both without what may differ between them.
fn fixed(claim: &Value, new: &Value, old: &Value) -> Value {
    let mut spec = claim["spec"].clone();
    let Value::Object(map) = &mut spec else {
        return spec;
    };
    if text(&old["spec"]["volumeName"]).is_empty() {
        map.remove("volumeName");
    }
    if gets_class(new, old) {
        map.remove("storageClassName");
    }
    if new["status"]["phase"] == "Bound" {
        map.remove("volumeAttributesClassName");
        if let Some(Value::Object(requests)) = spec.pointer_mut("/resources/requests") {
            requests.remove("storage");
        }
    }
    spec
}

/// A claim that was made before there was a default class may be given one later.
fn gets_class(new: &Value, old: &Value) -> bool {
    let class = &new["spec"]["storageClassName"];
    let annotated = &old["metadata"]["annotations"][CLASS_ANNOTATION];
    old["spec"]["storageClassName"].is_null()
        && class.is_string()
        && (annotated.is_null() || annotated == class)
}

/// The class of attributes that a volume has cannot be taken from it without another.
fn attributes(check: &mut Check, path: &FieldPath, new: &Value, old: &Value) {
    let class = |claim: &Value| claim["spec"]["volumeAttributesClassName"].clone();
    if class(new) == class(old) || old["status"]["currentVolumeAttributesClassName"].is_null() {
        return;
    }
    let to = match class(new).as_str() {
        None => "nil",
        Some("") => "empty string",
        Some(_) => return,
    };
    let detail =
        format!("update to {to} is forbidden when status.currentVolumeAttributesClassName is not nil");
    check.forbidden(path, detail);
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn bound(size: &str, volume: &str) -> Value {
        json!({"spec": {"resources": {"requests": {"storage": size}}, "volumeName": volume},
            "status": {"phase": "Bound", "capacity": {"storage": "1Gi"}}})
    }

    /// The paths that an update of a claim is refused for.
    fn check(new: &Value, old: &Value, paths: &[&str]) {
        let mut check = Check::default();
        claim(&mut check, new, old);
        let refused: Vec<String> = check.into_errors().into_iter().map(|error| error.field).collect();
        assert_eq!(refused, paths);
    }

    #[test]
    fn a_bound_claim_may_ask_for_more_and_for_less_than_that() {
        check(&bound("3Gi", "v"), &bound("1Gi", "v"), &[]);
        check(&bound("2Gi", "v"), &bound("3Gi", "v"), &[]);
        check(
            &bound("1Gi", "v"),
            &bound("3Gi", "v"),
            &["spec.resources.requests.storage"],
        );
        let pending = |mut claim: Value| {
            claim["status"] = json!({"phase": "Pending"});
            claim
        };
        check(
            &pending(bound("3Gi", "v")),
            &pending(bound("1Gi", "v")),
            &["spec"],
        );
    }

    #[test]
    fn a_claim_gets_its_volume_and_its_class_once() {
        check(&bound("1Gi", "v"), &bound("1Gi", ""), &[]);
        check(&bound("1Gi", "w"), &bound("1Gi", "v"), &["spec"]);
        let of_class = |class: &str| {
            let mut claim = bound("1Gi", "v");
            claim["spec"]["storageClassName"] = class.into();
            claim
        };
        check(&of_class("a"), &bound("1Gi", "v"), &[]);
        check(&of_class("b"), &of_class("a"), &["spec"]);
    }
}
