//! Facts about the built-in kinds: schemas, defaults, strategic merge, protobuf, printed columns.

mod base64;
mod codec;
mod fields;
mod kind;
mod openapi;
pub mod protobuf;
mod quantity;
mod strategic;
mod structural;
mod time;
mod types;

pub use codec::{decode, decode_check, decode_type};
pub use fields::{field_label_error, field_labels, field_value};
pub use kind::{Kind, Subresource, kind, kinds};
pub use openapi::{openapi_schema_name, openapi_schemas};
pub use strategic::{MergeError, strategic_merge};
pub use structural::{schema, structural_json};
