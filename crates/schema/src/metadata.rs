//! Object metadata: read it as Go's typed decoder would, and check it.

mod check;
mod coerce;
mod finalizers;
mod generated;

pub(crate) use self::check::immutable;
pub use self::check::{NameCheck, validate_object_meta, validate_object_meta_update};
pub use self::coerce::{Invalid, MetadataError, coerce_metadata};
pub use self::finalizers::{finalizer_warnings, is_qualified_finalizer};
pub use self::generated::generated_name;
