//! Reconcilers, manager, leader election, finalizers, conditions, events.

mod controller;
mod predicate;
mod source;

mod manager;
mod run;

mod action;
mod context;
mod error;

mod apply;
mod edit;
mod finalizer;
mod owner;
mod status;

mod fence;
mod leader;

mod dead_letters;
mod deaths;
mod events;
mod health;
mod metrics;
mod outstanding;
mod panics;
mod records;

pub use crate::{
    action::{Action, Failure},
    context::Context,
    controller::{Builder, Controller, ControllerConfig, wanted},
    error::Error,
    events::{EventKind, Events, EventsConfig, Recorder, Regarding},
    fence::{Fence, FenceKeeper, NotLeading},
    health::{Health, HealthServer},
    leader::{ClockSkew, Elector, Holder, LeaderConfig, LeaderConfigError, Release, Resigned},
    manager::{Manager, ManagerConfig},
    metrics::Metrics,
    owner::{controller_of, controller_reference},
    predicate::Predicate,
    run::ControllerQueue,
    status::{Holds, StatusEdit},
};

/// The guide, so that its Rust is compiled with the tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/guide/leadership.md")]
struct Leadership;

/// The same.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/guide/traces.md")]
struct Traces;
