//! How objects are shown.

mod format;
mod table;

pub(crate) use format::{ObjectFormat, documents, without_managed_fields};
pub(crate) use table::{Table, WideColumns};
