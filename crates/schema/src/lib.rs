//! Structural schemas: prune, default, validate; CRD checks; printer columns.
//!
//! A [`Structural`] is compiled once from a CRD version's OpenAPI schema. A write of a custom resource then goes
//! through, in this order: [`sanitise_resource`], [`default`]; and, when it is complete, [`validate_resource_meta`] and
//! [`validate_resource`]. Their parts can be had one by one, such as [`prune()`] and [`validate()`]. CRDs themselves
//! are defaulted and checked in [`crd`].
//! [`apply()`] and [`track_update`] are server-side apply.
//! [`Column`] makes the cells of tables, [`Scale`] reads and writes replicas.
//!
//! All messages are worded as kube-apiserver words them; `tests/recorded*` hold its answers.

mod apply;
mod clock;
mod column;
pub mod crd;
mod defaulting;
mod embedded;
mod format;
mod gofmt;
mod jsonpath;
mod listtype;
mod metadata;
mod node;
mod parse;
mod path;
mod pattern;
mod prune;
mod resource;
mod scale;
mod structural;
mod validate;

pub use crate::{
    apply::{
        ApplyError, Conflict, FieldSet, FieldSetError, Manager, ReplicasPaths, Target, apply,
        entries_after_scale, keep_times, scale_entries, scale_schema, track_update, write_fields,
    },
    clock::{age, format_rfc3339, human_duration},
    column::{Column, ColumnError, ColumnType, selectable_value},
    defaulting::default,
    embedded::{coerce_embedded, validate_embedded},
    jsonpath::{JsonPath, JsonPathError},
    listtype::validate_list_types,
    metadata::{
        Invalid, MetadataError, NameCheck, coerce_metadata, finalizer_warnings, generated_name,
        is_qualified_finalizer, validate_object_meta, validate_object_meta_update,
    },
    node::Node,
    parse::SchemaError,
    prune::{Root, prune, prune_nulls},
    resource::{sanitise_resource, validate_resource, validate_resource_meta},
    scale::{Replicas, Scale, ScalePathError},
    structural::{ListType, MapType, Rule, Structural, Type},
    validate::{blocks_rules, find_item, unchanged, validate},
};
