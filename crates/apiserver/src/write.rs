//! The write path: decode, prune, default, prepare, validate, store, in the order of the real API server.

mod apply;
mod body;
mod commit;
mod create;
mod delete;
mod metadata;
mod object;
mod ownership;
mod patch;
mod prepare;
mod update;

pub(crate) use apply::Configuration;
pub(crate) use commit::{encode_unsaved, storage_failed};
pub(crate) use create::create;
pub(crate) use delete::{delete, delete_collection, delete_entry, is_held};
pub(crate) use metadata::rfc3339;
pub(crate) use object::ObjectExt;
use ownership::{Author, track};
pub(crate) use ownership::{OwnWrite, Tracking, manager_of_agent, refusal, track_own};
pub(crate) use patch::{Patch, no_object, patch};
pub(crate) use update::{Change, check_uid, modify, update};
