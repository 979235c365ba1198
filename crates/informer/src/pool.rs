//! Shared informers.

/// Keeps an informer running.
#[derive(Debug)]
pub(crate) struct Lease;
