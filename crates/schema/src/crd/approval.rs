//! The approval that CRDs in the community's own groups need.

use skopos_object::{FieldError, FieldPath};

use super::view::Crd;

const ANNOTATION: &str = "api-approved.kubernetes.io";

#[derive(Debug, PartialEq, Eq)]
enum Approval {
    Invalid,
    Approved,
    Bypassed,
    Missing,
}

/// Checks the approval annotation, unless the update leaves it as it was.
pub(super) fn check(new: &Crd<'_>, old: Option<&Crd<'_>>, errors: &mut Vec<FieldError>) {
    if !is_protected(new.spec.text("group")) {
        return;
    }
    let annotation = new.annotation(ANNOTATION);
    let state = approval(annotation);
    if old.is_some_and(|old| approval(old.annotation(ANNOTATION)) == state) {
        return;
    }
    let path = FieldPath::root()
        .child("metadata")
        .child("annotations")
        .key(ANNOTATION);
    let needed = "protected groups must have approval annotation \"api-approved.kubernetes.io\"";
    let more = "see https://github.com/kubernetes/enhancements/pull/1111";
    match state {
        Approval::Approved | Approval::Bypassed => {}
        Approval::Missing => errors.push(FieldError::required(&path, format!("{needed}, {more}"))),
        Approval::Invalid => {
            let why = format!("{needed} with either a URL or a reason starting with \"unapproved\", {more}");
            errors.push(FieldError::invalid(&path, annotation, why));
        }
    }
}

fn is_protected(group: &str) -> bool {
    ["k8s.io", "kubernetes.io"].into_iter().any(|domain| {
        group
            .strip_suffix(domain)
            .is_some_and(|head| head.is_empty() || head.ends_with('.'))
    })
}

fn approval(annotation: &str) -> Approval {
    if annotation.is_empty() {
        return Approval::Missing;
    }
    if annotation.starts_with("unapproved") {
        return Approval::Bypassed;
    }
    let host = annotation.split_once("://").filter(|(scheme, _)| {
        scheme.starts_with(|c: char| c.is_ascii_alphabetic())
            && scheme
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c))
    });
    match host {
        Some((_, rest)) if !rest.is_empty() && !rest.starts_with(['/', '?', '#']) => Approval::Approved,
        _ => Approval::Invalid,
    }
}
