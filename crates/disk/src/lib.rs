//! A flat directory of append-only files, so that tests can put a failing one in its place.
//!
//! [`Directory`] is a real one, locked against a second process; [`Frozen`] is one that is only read. With the feature
//! `sim` there is also one in memory that fails, fills up and crashes on demand.

mod directory;
mod frozen;
#[cfg(feature = "sim")]
mod sim;

#[cfg(feature = "sim")]
pub use crate::sim::{Faults, SimDisk};
pub use crate::{
    directory::{Directory, Disk, DiskFile, ReadAt, TakeError, is_no_space, write_all},
    frozen::Frozen,
};
