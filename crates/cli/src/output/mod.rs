//! How objects are shown.

mod format;
mod table;

pub(crate) use format::{Format, ObjectFormat, documents, manifests, without_managed_fields};
pub(crate) use table::{Table, WideColumns};
