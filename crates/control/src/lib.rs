//! What is in force: our kinds from a cluster or from files become plans, their status is written back, and people can
//! ask.
//!
//! [`Engine`] is the whole of it: it follows what rules and records ask for, writes every change down, and delivers
//! what matches. [`Admin`] answers what commands and the console ask, in process or over HTTP.

mod access;
mod admin;
mod caches;
mod conditions;
mod definitions;
mod engine;
mod events;
mod in_force;
mod kept;
mod kinds;
mod metrics;
mod planner;
mod secrets;
mod status;
mod verdict;

pub use crate::{
    access::Forbidden,
    admin::{
        ADMIN_FILE, Admin, AdminServer, Backtest, BacktestReport, BindError, CancelReplay, CaptureView,
        ChangeName, ChangePage, ChangeView, Changes, CollectionView, CollectionViews, Collections, Damaged,
        DeadLetters, Done, Door, DoorError, Explain, Explained, ExplanationView, FieldDiff, GivenRule,
        HoleView, HoleViews, Holes, JournalView, LetterPage, LetterView, ObjectAt, ObjectState, Observation,
        Part, PayloadView, Place, Presence, Question, Reason, RecordView, Refusal, ReplayView, Resolve,
        Resolved, ResumeRule, ResumedRule, RouteView, RuleProvider, RuleView, ShowChange, ShowLetter,
        SinkView, StartReplay, StartedReplay, Status, StatusView, StepView, TakeLetters, Taken, Then,
        Uncertain, WhichLetters, WholeLetter, WriterView,
    },
    conditions::ConditionView,
    definitions::{captured_version, is_definition_of, schema},
    engine::{Engine, EngineConfig, EngineError, StopError},
    kinds::{Given, Kinds, yaml_files},
    verdict::{RecordVerdict, RuleVerdict, SinkVerdict, Verdicts},
};
