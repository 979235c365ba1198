//! Object metadata: read it as Go's typed decoder would, and check it.

mod check;
mod coerce;

pub(crate) use self::check::immutable;
pub use self::check::{NameCheck, validate_object_meta, validate_object_meta_update};
pub use self::coerce::{Invalid, MetadataError, coerce_metadata};
