//! Structural schemas: prune, default, validate; CRD checks; printer columns.

mod clock;
mod defaulting;
mod format;
mod gofmt;
mod parse;
mod path;
mod pattern;
mod prune;
mod structural;
mod validate;

pub use crate::{
    clock::{age, human_duration},
    defaulting::default,
    parse::SchemaError,
    prune::{Root, prune, prune_nulls},
    structural::{ListType, MapType, Rule, Structural, Type},
    validate::{blocks_rules, validate},
};
