//! Reflector, mirror cache, indexes, subscriptions: a local copy of collections, kept in step.
//!
//! This crate sees only [`ListWatch`](skopos_object::ListWatch), [`Collections`](skopos_object::Collections)
//! and [`Change`](skopos_object::Change); where objects live it never asks.
//!
//! Reading order: [`Reflector`] (one collection as an exact stream of reports, for those who must not miss
//! anything), [`Informer`] (that stream as a [`Store`] with indexes and [`Subscription`]s), [`Informers`]
//! (many of them, shared, which come and go with their kinds).

mod config;
mod event;
mod informer;
mod machine;
mod metrics;
mod pool;
mod reflector;
mod report;
mod store;

pub use crate::{
    config::{FirstList, ReflectorConfig, Selection},
    informer::{
        Informer, InformerConfig, InformerReport, Lag, Notification, Origin, Quarantined, Stopped,
        Subscription, SyncWatch, Transform,
    },
    pool::{Informers, InformersConfig, Wanted},
    reflector::Reflector,
    report::{ListReason, ReflectorError, Report},
    store::{Compression, Index, IndexReader, Snapshot, Store},
};
