//! Rules: which changes match, and what is sent for them. Pure: no IO, no clock, no state of its own.
//!
//! [`CompiledRule::compile`] checks a specification and everything written in it. [`CompiledRule::evaluate`] looks at one
//! [`Subject`], a change of the journal, and says whether it matches; what must be remembered of an object until its
//! next change is in the [`EdgeState`] that it takes and gives. [`CompiledRule::event`] makes what is sent,
//! [`CompiledRule::explain`] says why. The same arguments always give the same answers.
//!
//! The guide is `docs/guide/rules.md`, the names in expressions are in `docs/cel.md`.

mod problem;

mod path;
mod subject;

mod condition;
mod edge;
mod names;

mod scope;

mod compile;
mod evaluate;
mod explain;

mod payload;
mod template;

mod budget;
mod loops;

mod testing;

pub use self::{
    budget::{Admission, Budget},
    compile::{CompiledRule, Origin, SYSTEM_NAMESPACE},
    edge::EdgeState,
    evaluate::Evaluation,
    explain::{Explanation, Step},
    loops::LoopGuard,
    path::{BadPath, FieldPattern},
    payload::{Cause, RenderError},
    problem::Problem,
    scope::KindNames,
    subject::Subject,
    testing::{CaseResult, TestError, run_test},
};
