//! Sends what rules match: in order per object, at least once, across crashes and outages.
//!
//! [`Reactor`] reads the journal for all rules of a [`Plan`], keeps what is due on disk, and sends it to the sinks.
//! Which promises it keeps, and how, is in `docs/guide/delivery.md`.

mod board;
mod compiled;
mod dead;
mod entries;
mod error;
mod evaluator;
mod lanes;
mod look;
mod metrics;
mod plan;
mod reactor;
mod send;
mod shared;
mod store;
#[cfg(test)]
mod tests;

pub use self::{
    board::{ReplayState, RouteState, RuleState, SinkReport, Status},
    dead::{DeadLetter, Letters},
    error::Error,
    evaluator::{Evaluated, Evaluator, Outcome, Trigger},
    plan::{Plan, PlannedRule, PlannedSink},
    reactor::{Reactor, Replay},
    shared::Config,
};
