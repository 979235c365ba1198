//! What is in force: our kinds from a cluster or from files become plans, their status is written back, and people can
//! ask.
//!
//! [`Engine`] is the whole of it: it follows what rules and records ask for, writes every change down, and delivers
//! what matches. [`Admin`] answers what commands and the console ask, in process or over HTTP.

mod admin;
mod definitions;
mod engine;
mod in_force;
mod kinds;
mod planner;
mod secrets;
mod status;
mod verdict;

pub use crate::{
    admin::{
        ADMIN_FILE, Admin, AdminServer, BindError, ChangePage, ChangeView, Changes, CollectionView,
        CollectionViews, Collections, Damaged, Door, DoorError, FieldDiff, HoleView, HoleViews, Holes,
        ObjectAt, ObjectState, Observation, Part, Presence, Question, Reason, Refusal, Resolve, Resolved,
        ShowChange, Uncertain,
    },
    engine::{Engine, EngineConfig, EngineError},
    kinds::{Given, Kinds},
    verdict::{RecordVerdict, RuleVerdict, SinkVerdict, Verdicts},
};
