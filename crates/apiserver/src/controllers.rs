//! The few controllers a control plane is not usable without: namespaces, garbage collection, expiry.

mod expiry;
mod garbage;
mod namespaces;

pub(crate) use expiry::expire;
pub(crate) use garbage::{Garbage, Note};
pub(crate) use namespaces::{Namespaces, create_if_absent};

/// How long what has failed, because the disk is full for instance, waits to be tried again.
pub(crate) const RETRY_AFTER: std::time::Duration = std::time::Duration::from_secs(5);
