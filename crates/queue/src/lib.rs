//! The work queue of controllers: one entry per key, priorities, fairness, retries and dead letters.
//!
#![doc = include_str!("docs/queue.md")]

mod config;
mod intake;
mod list;
mod metrics;
mod moment;
mod queue;
mod shared;
mod sleepers;
mod state;
mod take;
mod tray;
mod work;

pub use crate::{
    config::{AddOptions, Backoff, Config, Debounce, Leftovers, Priority, RateLimit},
    metrics::Metrics,
    queue::{Queue, Unfinished},
    state::DeadLetter,
    take::Take,
    work::{Outcome, Work},
};
