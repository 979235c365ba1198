//! Facts about the built-in kinds: schemas, defaults, strategic merge, protobuf, printed columns.

mod kind;
mod types;

pub use kind::{Kind, Subresource, kind, kinds};
