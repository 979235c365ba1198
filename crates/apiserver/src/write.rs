//! The write path: decode, prune, default, prepare, validate, store, in the order of the real API server.

mod body;
mod commit;
mod create;
mod delete;
mod metadata;
mod object;
mod patch;
mod prepare;
mod update;

pub(crate) use commit::storage_failed;
pub(crate) use create::create;
pub(crate) use delete::{delete, delete_collection, delete_entry};
pub(crate) use metadata::rfc3339;
pub(crate) use object::ObjectExt;
pub(crate) use patch::{Patch, patch};
pub(crate) use update::{Change, modify, update};
