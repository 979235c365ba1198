//! What an update is held to: nothing that the stored CRD already violates.

use super::props::Props;
use super::schema::{map_list_key_errors, non_atomic_set_item};
use super::view::Crd;
use super::{conversion, defaults, structural, version};
use crate::structural::Type;

/// Which checks apply. On create all do.
#[derive(Debug)]
pub(super) struct Options {
    pub(super) recognized_review_version: bool,
    pub(super) immutable_names: bool,
    pub(super) schema_required: bool,
    pub(super) valid_types: bool,
    pub(super) structural: bool,
    pub(super) pruned_defaults: bool,
    pub(super) atomic_set_items: bool,
    pub(super) map_list_keys: bool,
    /// A bad bundle is found out by its use before the CRD is established, and may stay if it was there.
    pub(super) valid_ca_bundle: bool,
    /// Versions that may keep too many selectable fields; the empty name is the top of the spec.
    pub(super) many_selectable_fields: Vec<String>,
}

impl Options {
    pub(super) fn create() -> Self {
        Options {
            recognized_review_version: true,
            immutable_names: false,
            schema_required: true,
            valid_types: true,
            structural: true,
            pruned_defaults: true,
            atomic_set_items: true,
            map_list_keys: true,
            valid_ca_bundle: false,
            many_selectable_fields: Vec::new(),
        }
    }

    pub(super) fn update(new: &Crd<'_>, old: &Crd<'_>) -> Self {
        Options {
            recognized_review_version: conversion::has_recognized_review_version(old),
            immutable_names: old.is_established(),
            schema_required: all_versions_have_schemas(old),
            valid_types: !old.any_schema(has_invalid_type),
            structural: !old.schemas().any(structural::is_broken),
            pruned_defaults: !old.schemas().any(defaults::has_unpruned),
            atomic_set_items: !old.any_schema(|schema| non_atomic_set_item(schema).is_some()),
            map_list_keys: !old.any_schema(has_bad_map_list_keys),
            valid_ca_bundle: old.is_established() && !conversion::has_bad_ca_bundle(old),
            many_selectable_fields: version::many_selectable_fields_allowed(new, old),
        }
    }
}

fn all_versions_have_schemas(crd: &Crd<'_>) -> bool {
    let shared = crd
        .validation
        .is_some_and(|validation| validation.schema.is_some());
    let own = |version: &super::view::Version<'_>| version.schema.is_some_and(|own| own.schema.is_some());
    shared || crd.versions.iter().all(own)
}

fn has_invalid_type(schema: Props<'_>) -> bool {
    let name = schema.text("type");
    !name.is_empty() && Type::parse(name).is_none()
}

fn has_bad_map_list_keys(schema: Props<'_>) -> bool {
    !map_list_key_errors(schema, &skopos_object::FieldPath::root()).is_empty()
}
