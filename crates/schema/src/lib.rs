//! Structural schemas: prune, default, validate; CRD checks; printer columns.

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
mod parse;
mod path;
mod pattern;
mod prune;
mod scale;
mod structural;
mod validate;

pub use crate::{
    clock::{age, human_duration},
    column::{Column, ColumnError, ColumnType, selectable_value},
    defaulting::default,
    embedded::{coerce_embedded, validate_embedded},
    jsonpath::{JsonPath, JsonPathError},
    listtype::validate_list_types,
    metadata::{
        Invalid, MetadataError, NameCheck, coerce_metadata, validate_object_meta, validate_object_meta_update,
    },
    parse::SchemaError,
    prune::{Root, prune, prune_nulls},
    scale::{Replicas, Scale, ScalePathError},
    structural::{ListType, MapType, Rule, Structural, Type},
    validate::{blocks_rules, validate},
};
