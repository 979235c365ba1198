//! Label and field selectors.

mod field;
mod label;
mod lexer;
mod parser;
mod requirement;

pub use self::{
    field::{FieldOperator, FieldRequirement, FieldSelector},
    label::LabelSelector,
    requirement::{LabelOperator, LabelRequirement},
};

/// The text of a selector cannot be understood. Worded as the API server words it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SelectorError(pub(crate) String);
