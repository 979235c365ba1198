//! Rules and deliveries: which changes match, what is sent where, in order and at least once.

pub mod rule;

mod delivery;

pub use crate::delivery::{
    Config, DeadLetter, Error, Evaluated, Evaluator, Letters, Outcome, Plan, PlannedRule, PlannedSink,
    Reactor, Replay, ReplayState, RouteState, RuleState, SinkReport, Status, Trigger,
};
