//! Facts about the built-in kinds: schemas, defaults, strategic merge, protobuf, printed columns.

mod base64;
mod codec;
mod columns;
mod defaults;
mod fields;
mod kind;
mod openapi;
mod prepare;
pub mod protobuf;
mod quantity;
mod reset;
mod strategic;
mod structural;
mod time;
mod types;
mod validate;

pub use codec::{decode, decode_check, decode_type};
pub use columns::{ColumnDefinition, cells, columns, row_conditions};
pub use defaults::default;
pub use fields::{field_label_error, field_labels, field_value};
pub use kind::{Kind, Subresource, kind, kinds};
pub use openapi::{openapi_schema_name, openapi_schemas};
pub use prepare::{
    changes_generation, has_generation, prepare_create, prepare_status_update, prepare_update,
};
pub use reset::reset_fields;
pub use strategic::{MergeError, strategic_merge};
pub use structural::schema;
pub use validate::{claim_grows, name_errors, validate};
