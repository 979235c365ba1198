//! Kinds, keys, versions, the compact object, selectors, patches, field diffs, changes and the ListWatch trait.
//!
//! This crate is pure: it does no IO, has no runtime and never panics on input. What clients of
//! an API server can see (status messages, validation errors, parse errors) is worded exactly as
//! kube-apiserver words it, because clients match on it.
//!
//! Reading order: names ([`GroupVersionKind`], [`ObjectKey`], [`ResourceVersion`]), errors
//! ([`Status`], [`FieldError`]), text in and out ([`json`], [`yaml`]), selectors ([`LabelSelector`],
//! [`FieldSelector`]), patches ([`json_patch`], [`merge_patch`]) and [`diff()`], then the compact
//! [`Object`], [`Change`], [`ListWatch`] and [`Collections`].

mod change;
mod collections;
mod diff;
mod field;
mod gofmt;
pub mod json;
mod list_watch;
mod names;
mod object;
mod patch;
mod raw;
mod resource_version;
mod selector;
mod status;
pub mod validation;
pub mod yaml;

pub use crate::{
    change::{Change, Op},
    collections::{Collection, CollectionName, Collections, Content, OpenError},
    diff::{FieldChange, diff},
    field::{BadValue, FieldError, FieldErrorKind, FieldErrors, FieldPath},
    gofmt::quote,
    list_watch::{
        HistoryId, ListEnd, ListItem, ListRequest, ListStream, ListWatch, ListWatchError, Malformed,
        VersionMatch, WatchEvent, WatchRequest, WatchStream,
    },
    names::{
        GroupKind, GroupResource, GroupVersion, GroupVersionKind, GroupVersionResource, ObjectKey,
        ParseGroupVersionError, compare_versions,
    },
    object::{ManagedFields, Object, ObjectError, ObjectReader, OwnerReference},
    patch::{JsonPatch, MAX_COPY_BYTES, MAX_OPERATIONS, PatchError, diff_merge, json_patch, merge_patch},
    raw::raw_path,
    resource_version::ResourceVersion,
    selector::{
        FieldOperator, FieldRequirement, FieldSelector, LabelOperator, LabelRequirement, LabelSelector,
        SelectorError,
    },
    status::{Cause, Details, Reason, Status},
};
