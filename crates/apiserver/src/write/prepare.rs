//! The middle of the write path: defaults, what the server sets, admission, validation.
//!
//! The order is that of the real API server: default, mutating admission, prepare, validate, validating
//! admission. Webhooks and policies will hook in at [`Shared::admit`]; validation rules in CEL come after the schema.

use jiff::Timestamp;
use serde_json::{Value, json};
use skopos_cel::rules::validate_definition;
use skopos_object::{FieldError, FieldPath, GroupKind, Status};
use skopos_schema::{crd, finalizer_warnings, validate_resource};

use super::commit::storage_error;
use super::{ObjectExt as _, metadata};
use crate::call::Call;
use crate::definition;
use crate::registry::{Custom, Resource, Source};
use crate::services;
use crate::state::Shared;

/// What is about to happen to an object.
#[derive(Debug, Clone, Copy)]
pub(super) enum Operation<'a> {
    Create,
    Update { old: &'a Value },
    UpdateStatus { old: &'a Value },
}

/// Fills in the defaults of the resource's schema or kind.
pub(crate) fn default(resource: &Resource, object: &mut Value) {
    match &resource.source {
        Source::Custom(custom) => {
            skopos_schema::prune_nulls(&custom.schema, object);
            skopos_schema::default(&custom.schema, object);
        }
        Source::BuiltIn(kind) => {
            skopos_builtin::default(kind, object);
            if definition::is_definition(resource) {
                crd::default_crd(object);
            }
        }
    }
}

/// Drops owners that are given twice, and says so.
pub(super) fn drop_repeated_owners(call: &Call, object: &mut Value) {
    let repeated = metadata::drop_repeated_owners(object);
    if !repeated.is_empty() {
        call.warn(format!(
            ".metadata.ownerReferences contains duplicate entries; API server dedups owner references in 1.20+, and may reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: {}",
            repeated.join(", ")
        ));
    }
}

/// Makes a new object ready to be validated.
pub(super) fn prepare_create(shared: &Shared, call: &Call, object: &mut Value) -> Result<(), Status> {
    let resource = &call.resource;
    if !object.meta_str("resourceVersion").is_empty() {
        return Err(storage_error(
            "resourceVersion should not be set on objects to be created",
        ));
    }
    match_namespace(resource, object, &call.target.namespace)?;
    metadata::fill_for_create(object, shared.chance.uuid(), call.now);
    if tracks_generation(resource) {
        object.set_meta("generation", 1);
    }
    match &resource.source {
        Source::BuiltIn(kind) => skopos_builtin::prepare_create(kind, object),
        Source::Custom(custom) if custom.status => {
            object.as_object_mut().map(|root| root.remove("status"));
        }
        Source::Custom(_) => {}
    }
    if definition::is_definition(resource) {
        definition::prepare_create(object);
    }
    if resource.is("", "namespaces") {
        prepare_namespace(object);
    }
    Ok(())
}

fn prepare_namespace(object: &mut Value) {
    let name = object.name().to_owned();
    let labels = object.meta_mut().entry("labels").or_insert_with(|| json!({}));
    labels["kubernetes.io/metadata.name"] = name.into();
}

/// The namespace of the object must be that of the request; where it is missing it is filled in, and where
/// the resource has none it is dropped.
fn match_namespace(resource: &Resource, object: &mut Value, requested: &str) -> Result<(), Status> {
    let requested = if resource.namespaced { requested } else { "" };
    match object.namespace() {
        "" if !requested.is_empty() => object.set_meta("namespace", requested),
        found if found == requested => {}
        _ if requested.is_empty() => object.remove_meta("namespace"),
        _ => {
            return Err(Status::bad_request(
                "the namespace of the provided object does not match the namespace sent on the request",
            ));
        }
    }
    Ok(())
}

/// Makes an updated object ready to be validated: what the endpoint may not change comes from `old`.
pub(super) fn prepare_update(call: &Call, new: &mut Value, old: &Value) -> Result<(), Status> {
    let resource = &call.resource;
    match_namespace(resource, new, &call.target.namespace)?;
    metadata::fill_for_update(new, old);
    let raises_generation = match &resource.source {
        Source::BuiltIn(kind) => {
            skopos_builtin::prepare_update(kind, new, old);
            skopos_builtin::changes_generation(kind, new, old)
        }
        Source::Custom(custom) => {
            if custom.status {
                copy_field(new, old, "status");
            }
            content_differs(new, old)
        }
    };
    if definition::is_definition(resource) {
        definition::prepare_update(new);
    }
    if raises_generation {
        bump_generation(new, old);
    }
    Ok(())
}

/// Makes an object ready that came through `/status`: only the status may differ.
pub(super) fn prepare_status_update(call: &Call, new: &mut Value, old: &Value) -> Result<(), Status> {
    let resource = &call.resource;
    match_namespace(resource, new, &call.target.namespace)?;
    if let Some(kind) = resource.built_in() {
        metadata::fill_for_update(new, old);
        skopos_builtin::prepare_status_update(kind, new, old);
        return Ok(());
    }
    // Of a custom resource nothing but the status is taken, labels and annotations included.
    let mut merged = old.clone();
    copy_field(&mut merged, new, "status");
    if merged["status"].is_null() && old.get("status").is_none() {
        merged.as_object_mut().map(|root| root.remove("status"));
    }
    carry_over(&mut merged, new);
    *new = merged;
    Ok(())
}

/// Makes a namespace ready that came through `/finalize`: all but the status may differ.
pub(super) fn prepare_finalize(call: &Call, new: &mut Value, old: &Value) -> Result<(), Status> {
    match_namespace(&call.resource, new, &call.target.namespace)?;
    metadata::fill_for_update(new, old);
    copy_field(new, old, "status");
    Ok(())
}

/// What a write brings along besides the part of the object that it changes.
fn carry_over(merged: &mut Value, new: &Value) {
    let version = new.meta_str("resourceVersion").to_owned();
    merged.set_meta("resourceVersion", version);
    match new.meta("managedFields") {
        Some(entries) => merged.set_meta("managedFields", entries.clone()),
        None => merged.remove_meta("managedFields"),
    }
}

fn copy_field(new: &mut Value, old: &Value, field: &str) {
    let Some(root) = new.as_object_mut() else { return };
    match old.get(field) {
        Some(value) => {
            root.insert(field.to_owned(), value.clone());
        }
        None => {
            root.remove(field);
        }
    }
}

/// Does the server count the generations of this resource's objects?
pub(crate) fn tracks_generation(resource: &Resource) -> bool {
    match &resource.source {
        Source::Custom(_) => true,
        Source::BuiltIn(kind) => skopos_builtin::has_generation(kind),
    }
}

pub(super) fn bump_generation(new: &mut Value, old: &Value) {
    let generation = old.meta("generation").and_then(Value::as_i64).unwrap_or(0);
    new.set_meta("generation", generation + 1);
}

/// Anything but metadata differs. A status with an endpoint of its own has been made equal before.
fn content_differs(new: &Value, old: &Value) -> bool {
    let (Some(new), Some(old)) = (new.as_object(), old.as_object()) else {
        return true;
    };
    let counts = |field: &&String| !["metadata", "apiVersion", "kind"].contains(&field.as_str());
    new.keys()
        .chain(old.keys())
        .filter(counts)
        .any(|field| new.get(field) != old.get(field))
}

impl Shared {
    /// Must be held from [`Shared::admit`] until the write is done where admission hands out what is scarce.
    pub(super) async fn allocate(&self, resource: &Resource) -> Option<tokio::sync::MutexGuard<'_, ()>> {
        match resource.is("", "services") {
            true => Some(self.allocation.lock().await),
            false => None,
        }
    }

    /// Admission that needs the state of the cluster. Policies and webhooks will be asked here.
    pub(super) fn admit(
        &self,
        call: &Call,
        object: &mut Value,
        operation: Operation<'_>,
    ) -> Result<(), Status> {
        if let Operation::Create = operation {
            self.admit_create(call, object.name())?;
        }
        if call.resource.is("", "services") && !matches!(operation, Operation::UpdateStatus { .. }) {
            services::assign_addresses(&self.store, object)
                .map_err(|error| Status::invalid(&call.resource.group_kind(), object.name(), vec![error]))?;
            services::assign_node_ports(&self.store, object);
        }
        Ok(())
    }

    /// Whether an object may be created at all; one that has no name yet is known by what its name begins with.
    pub(super) fn admit_create(&self, call: &Call, name: &str) -> Result<(), Status> {
        let resource = &call.resource;
        if let Some(custom) = resource.custom()
            && custom.terminating
        {
            let why = "create not allowed while custom resource definition is terminating";
            return Err(Status::forbidden(&resource.group_resource(), name, why));
        }
        if !resource.namespaced {
            return Ok(());
        }
        let namespace = call.target.namespace.as_str();
        self.namespaces.admit_into(&self.store, resource, name, namespace)
    }
}

/// Checks the object as it would be stored.
pub(super) fn validate(call: &Call, object: &Value, operation: Operation<'_>) -> Result<(), Status> {
    let resource = &call.resource;
    let old = match operation {
        Operation::Create => None,
        Operation::Update { old } | Operation::UpdateStatus { old } => Some(old),
    };
    check_type_meta(resource, object)?;
    let mut errors = Vec::new();
    // The checks of a new definition include those of its metadata.
    if !definition::is_definition(resource) || old.is_some() {
        errors.extend(metadata::validate(object, resource));
    }
    if let Some(old) = old {
        // The real server checks this twice, once for every kind and once in each kind's own strategy.
        let unchanged = metadata::validate_update(object, old);
        let again = if definition::is_definition(resource) {
            &[][..]
        } else {
            &unchanged
        };
        errors.extend(again.iter().cloned());
        errors.extend(unchanged);
    }
    errors.extend(match operation {
        Operation::UpdateStatus { old } => validate_status(resource, object, old),
        Operation::Create | Operation::Update { .. } => validate_content(resource, object, old),
    });
    if let Some(rules) = resource.custom().and_then(Custom::rules) {
        let verdict = rules.evaluate(object, old, &errors);
        verdict.warnings.into_iter().for_each(|text| call.warn(text));
        errors.extend(verdict.errors);
    }
    if !errors.is_empty() {
        return Err(Status::invalid(&resource.group_kind(), object.name(), errors));
    }
    if definition::is_definition(resource) {
        crd::crd_warnings(object, old)
            .into_iter()
            .for_each(|text| call.warn(text));
    }
    for text in finalizer_warnings(object, old) {
        call.warn(text);
    }
    Ok(())
}

/// A patch may have changed what the object says it is.
fn check_type_meta(resource: &Resource, object: &Value) -> Result<(), Status> {
    let text = |field: &str| object.get(field).and_then(Value::as_str).unwrap_or("");
    let expected = [
        ("apiVersion", resource.api_version()),
        ("kind", resource.kind.clone()),
    ];
    let errors: Vec<FieldError> = expected
        .iter()
        .filter(|(field, wanted)| text(field) != wanted)
        .map(|(field, wanted)| {
            FieldError::invalid(
                &FieldPath::root().child(field),
                text(field),
                format!("must be {wanted}"),
            )
        })
        .collect();
    if errors.is_empty() {
        return Ok(());
    }
    let group = text("apiVersion").rsplit_once('/').map_or("", |(group, _)| group);
    Err(Status::invalid(
        &GroupKind::new(group, text("kind")),
        object.name(),
        errors,
    ))
}

/// Through its own endpoint only the status of a custom resource is checked, on its own.
fn validate_status(resource: &Resource, object: &Value, old: &Value) -> Vec<FieldError> {
    let Source::Custom(custom) = &resource.source else {
        return match definition::is_definition(resource) {
            true => crd::validate_crd_status(object, old),
            false => validate_content(resource, object, Some(old)),
        };
    };
    let path = FieldPath::root().child("status");
    // A null where nothing was is no change, and not held against the write.
    let is_new = |status: &&Value| !status.is_null() || old.get("status").is_some();
    let status = object.get("status").filter(is_new);
    let mut errors = match (custom.schema.property("status"), status) {
        (Some(schema), Some(status)) => skopos_schema::validate(schema, &path, status, old.get("status")),
        _ => Vec::new(),
    };
    if let Some(scale) = &custom.scale {
        errors.extend(scale.validate(skopos_schema::Replicas::Status, object));
    }
    errors.extend(skopos_schema::validate_list_types(
        &custom.schema,
        object,
        Some(old),
    ));
    errors
}

fn validate_content(resource: &Resource, object: &Value, old: Option<&Value>) -> Vec<FieldError> {
    match &resource.source {
        Source::Custom(custom) => validate_resource(&custom.schema, custom.scale.as_ref(), object, old),
        Source::BuiltIn(kind) => {
            let mut errors = skopos_builtin::validate(kind, object, old);
            if definition::is_definition(resource) {
                errors.extend(validate_definition(object, old));
            }
            errors
        }
    }
}

/// Marks an object as being deleted.
pub(super) fn mark_deleting(resource: &Resource, object: &mut Value, now: Timestamp, grace_seconds: i64) {
    object.set_meta("deletionTimestamp", metadata::rfc3339(now));
    object.set_meta("deletionGracePeriodSeconds", grace_seconds);
    // The real server gives definitions and namespaces no grace period and leaves their generation alone.
    if definition::is_definition(resource) || resource.is("", "namespaces") {
        object.remove_meta("deletionGracePeriodSeconds");
    } else if tracks_generation(resource) {
        let before = object.clone();
        bump_generation(object, &before);
    }
}
