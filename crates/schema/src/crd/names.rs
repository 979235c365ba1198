//! Checks of resource names.

use skopos_object::validation::dns1035_label;
use skopos_object::{FieldError, FieldPath};

use super::props::Props;

/// Complaints about a DNS-1035 label, joined as CRD errors join them.
pub(super) fn label_complaint(name: &str) -> Option<String> {
    let complaints = dns1035_label(name);
    // The object crate counts bytes, as most of kube-apiserver does; this check counts characters.
    (!complaints.is_empty()).then(|| {
        complaints
            .join(",")
            .replace("more than 63 bytes", "more than 63 characters")
    })
}

/// Checks names as in `spec.names` or `status.acceptedNames`. Missing names are fine here.
pub(super) fn check(names: &Props<'_>, path: &FieldPath, errors: &mut Vec<FieldError>) {
    for key in ["plural", "singular"] {
        let name = names.text(key);
        if let Some(why) = label_complaint(name).filter(|_| !name.is_empty()) {
            errors.push(FieldError::invalid(&path.child(key), name, why));
        }
    }
    for key in ["kind", "listKind"] {
        let name = names.text(key);
        if let Some(why) = label_complaint(&name.to_lowercase()).filter(|_| !name.is_empty()) {
            let why = format!("may have mixed case, but should otherwise match: {why}");
            errors.push(FieldError::invalid(&path.child(key), name, why));
        }
    }
    check_list(names, "shortNames", path, errors);
    let kind = names.text("kind");
    if !kind.is_empty() && kind == names.text("listKind") {
        let why = "kind and listKind may not be the same";
        errors.push(FieldError::invalid(&path.child("listKind"), kind, why));
    }
    check_list(names, "categories", path, errors);
}

fn check_list(names: &Props<'_>, key: &str, path: &FieldPath, errors: &mut Vec<FieldError>) {
    for (index, name) in names.texts(key).enumerate() {
        if let Some(why) = label_complaint(name) {
            errors.push(FieldError::invalid(&path.child(key).index(index), name, why));
        }
    }
}
