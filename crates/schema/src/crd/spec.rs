//! Checks of a CRD's spec.

use serde_json::{Value, json};
use skopos_object::validation::dns1123_subdomain;
use skopos_object::{FieldError, FieldPath};

use super::names::{self, label_complaint};
use super::options::Options;
use super::view::Crd;
use super::{conversion, schema, version};
use crate::metadata::immutable;

/// Checks the spec. Subschemas, names, versions and conversion are checked in kube-apiserver's order.
pub(super) fn check(crd: &Crd<'_>, options: &Options, path: &FieldPath, errors: &mut Vec<FieldError>) {
    check_group(crd.spec.text("group"), &path.child("group"), errors);
    conversion::check_enum(
        &path.child("scope"),
        crd.spec.text("scope"),
        &["Cluster", "Namespaced"],
        errors,
    );
    check_schemas_present(crd, options, path, errors);
    let preserve = crd.preserve_unknown_fields();
    let has_defaults = crd.any_schema(|props| props.has("default"));
    if has_defaults && preserve {
        let why = "must be false in order to use defaults in the schema";
        errors.push(FieldError::invalid(
            &path.child("preserveUnknownFields"),
            true,
            why,
        ));
    }
    let structural =
        options.structural || !preserve || has_defaults || crd.any_schema(schema::has_kubernetes_extension);
    check_versions(crd, options, structural, path, errors);
    check_version_list(crd, path, errors);
    check_names(crd, path, errors);
    let shared = schema::Context {
        options,
        structural,
        status_enabled: any_status_enabled(crd),
    };
    if let Some(validation) = crd.validation {
        schema::check_validation(validation, &shared, &path.child("validation"), errors);
    }
    if let Some(subresources) = crd.subresources {
        version::check_subresources(subresources, &path.child("subresources"), errors);
    }
    version::check_columns(crd.columns, &path.child("additionalPrinterColumns"), errors);
    check_shared_selectable_fields(crd, options, path, errors);
    conversion::check(crd, options, &path.child("conversion"), errors);
}

fn check_group(group: &str, path: &FieldPath, errors: &mut Vec<FieldError>) {
    if group.is_empty() {
        return errors.push(FieldError::required(path, ""));
    }
    let complaints = dns1123_subdomain(group);
    if !complaints.is_empty() {
        let why = complaints
            .join(",")
            .replace("more than 253 bytes", "more than 253 characters");
        errors.push(FieldError::invalid(path, group, why));
    } else if !group.contains('.') {
        errors.push(FieldError::invalid(
            path,
            group,
            "should be a domain with at least one dot",
        ));
    }
}

fn check_schemas_present(crd: &Crd<'_>, options: &Options, path: &FieldPath, errors: &mut Vec<FieldError>) {
    if crd
        .validation
        .is_some_and(|validation| validation.schema.is_some())
    {
        return;
    }
    for (index, version) in crd.versions.iter().enumerate() {
        if version.schema.is_some_and(|own| own.schema.is_some()) {
            continue;
        }
        let at = path
            .child("versions")
            .index(index)
            .child("schema")
            .child("openAPIV3Schema");
        if options.schema_required {
            errors.push(FieldError::required(&at, ""));
        } else if !crd.preserve_unknown_fields() && version.raw.flag("served") {
            errors.push(FieldError::required(
                &at,
                "because otherwise all fields are pruned",
            ));
        }
    }
}

fn check_versions(
    crd: &Crd<'_>,
    options: &Options,
    structural: bool,
    path: &FieldPath,
    errors: &mut Vec<FieldError>,
) {
    let per_version = crd.versions.iter().any(|version| version.subresources.is_some());
    for (index, version) in crd.versions.iter().enumerate() {
        let path = path.child("versions").index(index);
        let name = version.raw.text("name");
        if let Some(why) = label_complaint(name) {
            errors.push(FieldError::invalid(&path.child("name"), name, why));
        }
        let subresources = if per_version {
            version.subresources
        } else {
            crd.subresources
        };
        let status_enabled = subresources.is_some_and(|subresources| subresources.has("status"));
        let context = schema::Context {
            options,
            structural,
            status_enabled,
        };
        version::check(version, &context, &path, errors);
    }
}

/// Checks the versions as a set. They are shown as the user wrote them.
fn check_version_list(crd: &Crd<'_>, path: &FieldPath, errors: &mut Vec<FieldError>) {
    let at = path.child("versions");
    let shown = || crd.spec.get("versions").cloned().unwrap_or(Value::Null);
    let mut names: Vec<&str> = crd
        .versions
        .iter()
        .map(|version| version.raw.text("name"))
        .collect();
    names.sort_unstable();
    if names.windows(2).any(|pair| pair[0] == pair[1]) {
        errors.push(FieldError::invalid(
            &at,
            shown(),
            "must contain unique version names",
        ));
    }
    if crd
        .versions
        .iter()
        .filter(|version| version.raw.flag("storage"))
        .count()
        != 1
    {
        let why = "must have exactly one version marked as storage version";
        errors.push(FieldError::invalid(&at, shown(), why));
    }
    let first = crd
        .versions
        .first()
        .map_or("", |version| version.raw.text("name"));
    if let Some(why) = label_complaint(first).filter(|_| !first.is_empty()) {
        errors.push(FieldError::invalid(&path.child("version"), first, why));
    }
}

fn check_names(crd: &Crd<'_>, path: &FieldPath, errors: &mut Vec<FieldError>) {
    let path = path.child("names");
    for key in ["plural", "singular", "kind", "listKind"] {
        if crd.names().text(key).is_empty() {
            errors.push(FieldError::required(&path.child(key), ""));
        }
    }
    names::check(&crd.names(), &path, errors);
}

fn any_status_enabled(crd: &Crd<'_>) -> bool {
    let own = crd.versions.iter().filter_map(|version| version.subresources);
    crd.subresources
        .into_iter()
        .chain(own)
        .any(|subresources| subresources.has("status"))
}

fn check_shared_selectable_fields(
    crd: &Crd<'_>,
    options: &Options,
    path: &FieldPath,
    errors: &mut Vec<FieldError>,
) {
    if crd.selectable_fields.is_empty() {
        return;
    }
    let at = path.child("selectableFields");
    match crd.validation {
        None => {
            let why = "may only be set when validations.schema is included";
            errors.push(FieldError::invalid(&at, "", why));
        }
        Some(validation) => {
            let allowed = options.many_selectable_fields.iter().any(String::is_empty);
            version::check_selectable_fields(crd.selectable_fields, validation.schema, allowed, &at, errors);
        }
    }
}

/// Checks what an update must not change.
pub(super) fn check_update(
    new: &Crd<'_>,
    old: &Crd<'_>,
    options: &Options,
    path: &FieldPath,
    errors: &mut Vec<FieldError>,
) {
    let mut fixed = |new: &str, old: &str, path: FieldPath| {
        errors.extend(immutable(new.into(), &old.into(), &path));
    };
    let names = path.child("names");
    if options.immutable_names {
        fixed(
            new.spec.text("scope"),
            old.spec.text("scope"),
            path.child("scope"),
        );
        fixed(
            new.names().text("kind"),
            old.names().text("kind"),
            names.child("kind"),
        );
    }
    fixed(
        new.spec.text("group"),
        old.spec.text("group"),
        path.child("group"),
    );
    fixed(
        new.names().text("plural"),
        old.names().text("plural"),
        names.child("plural"),
    );
}

/// Checks that stored versions exist, and that the storage version is one of them.
pub(super) fn check_stored_versions(crd: &Crd<'_>, path: &FieldPath, errors: &mut Vec<FieldError>) {
    let stored: Vec<&str> = crd.stored_versions().collect();
    if stored.is_empty() {
        let why = "must have at least one stored version";
        return errors.push(FieldError::invalid(path, Value::Null, why));
    }
    let mut missing: Vec<(usize, &str)> = Vec::new();
    for (index, name) in stored.iter().enumerate() {
        missing.retain(|(_, other)| other != name);
        missing.push((index, name));
    }
    for version in &crd.versions {
        let name = version.raw.text("name");
        let known = missing.iter().any(|(_, other)| *other == name);
        if version.raw.flag("storage") && !known {
            let why = format!("must have the storage version {name}");
            errors.push(FieldError::invalid(path, json!(stored), why));
        }
        missing.retain(|(_, other)| *other != name);
    }
    for (index, name) in missing {
        let why = format!(
            "missing from spec.versions; {name} was previously a storage version, and must remain in spec.versions until a storage migration ensures no data remains persisted in {name} and removes {name} from status.storedVersions"
        );
        errors.push(FieldError::invalid(&path.index(index), name, why));
    }
}
