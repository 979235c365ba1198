//! Facts about the built-in kinds: schemas, defaults, strategic merge, protobuf, printed columns.

mod base64;
mod codec;
mod kind;
mod openapi;
mod quantity;
mod structural;
mod time;
mod types;

pub use codec::{decode, decode_check, decode_type};
pub use kind::{Kind, Subresource, kind, kinds};
pub use openapi::{openapi_schema_name, openapi_schemas};
pub use structural::{schema, structural_json};
