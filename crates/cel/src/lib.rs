//! CEL as Kubernetes uses it: parse, type-check against structural schemas, bound the cost, evaluate.
//!
//! An [`Env`] declares what expressions may name: variables, each with a [`Decl`] that may come from a
//! structural schema, and functions that a [`Host`] answers. [`Env::compile`] gives a [`Program`], which is
//! immutable and shared; an [`Activation`] holds the values of the variables for one evaluation. JSON is
//! borrowed, never copied as a whole. There is no clock: a `now` is a variable like others.
//!
//! [`rules`] are what definitions ask of their objects (`x-kubernetes-validations`).
//!
//! Messages are worded as cel-go words them; `tests/data` holds its answers. What is supported:
//! `docs/cel.md`.

mod ast;
mod check;
mod cost;
mod decl;
mod display;
mod env;
mod escape;
mod eval;
mod eval_error;
mod functions;
mod json;
mod lexer;
mod library;
mod macros;
mod opaque;
mod ops;
mod parser;
mod parts;
mod plan;
mod program;
mod regexes;
pub mod rules;
mod source;
mod time;
mod types;
mod unescape;
mod unify;
mod validate;
mod value;

pub use crate::{
    cost::CostEstimate,
    decl::{Decl, Object, Root},
    env::{Env, EnvBuilder},
    escape::escape,
    eval_error::{EvalError, EvalErrorKind},
    opaque::Opaque,
    program::{Activation, Argument, CallSite, DEFAULT_COST_LIMIT, Host, Outcome, Program},
    source::{CompileError, Issue, Location, Stage},
    types::Type,
    value::{List, Map, Str, Value},
};
