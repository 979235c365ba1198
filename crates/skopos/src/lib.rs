//! Watch any custom resource: a dependable local copy, its changes, and a queue to work them off.
//!
#![doc = include_str!("docs/skopos.md")]

/// Everything of the client: connection, discovery, all verbs, raw lists and watches.
pub use skopos_client as client;
/// Controllers: reconcilers, manager, leader election, and their helpers.
pub use skopos_controller as controller;
/// Everything of the watch engine.
pub use skopos_informer as informer;
/// Everything of objects: names, versions, selectors, patches, diffs, and the traits of sources.
pub use skopos_object as object;
/// The work queue of controllers.
pub use skopos_queue as queue;

pub use skopos_client::{
    Api, Catalog, Client, ConnectError, DeleteParams, Discovery, Error, InCluster, Limits, ListParams, Patch,
    Pod, Propagation, Resource, Sources, TypedApi, WriteParams, connect, discover, from_object,
};
pub use skopos_informer::{
    Compression, Index, IndexReader, Informer, InformerConfig, InformerReport, Informers, InformersConfig,
    Lag, ListReason, Notification, Origin, Reflector, ReflectorConfig, Report, Selection, Snapshot, Stopped,
    Store, Subscription, Transform, Wanted,
};
pub use skopos_object::{
    Change, CollectionName, Collections, Content, FieldChange, FieldSelector, GroupVersionKind,
    LabelSelector, ListWatch, Object, ObjectKey, Op, ResourceVersion, diff,
};
pub use skopos_queue::{Outcome, Queue};
pub use tokio_util::sync::CancellationToken;

/// The traits whose methods are called by name: `use skopos::prelude::*` brings them in, and no names with them.
pub mod prelude {
    pub use skopos_object::{Collections as _, ListWatch as _};
}

/// The guides of the repository, so that their Rust is compiled with the tests.
#[cfg(doctest)]
mod guides {
    #[doc = include_str!("../../../README.md")]
    struct Readme;
    #[doc = include_str!("../../../docs/guide/watching.md")]
    struct Watching;
    #[doc = include_str!("../../../docs/guide/from-client-go.md")]
    struct FromClientGo;
    #[doc = include_str!("../../../docs/guide/from-kube-rs.md")]
    struct FromKubeRs;
    #[doc = include_str!("../../../docs/guide/first-controller.md")]
    struct FirstController;
    #[doc = include_str!("../../../docs/guide/finalizers.md")]
    struct Finalizers;
    #[doc = include_str!("../../../docs/guide/status.md")]
    struct Status;
    #[doc = include_str!("../../../docs/guide/from-controller-runtime.md")]
    struct FromControllerRuntime;
    #[doc = include_str!("../../../docs/guide/metrics.md")]
    struct Metrics;
    #[doc = include_str!("../../../docs/guide/queue.md")]
    struct TheQueue;
}
