//! Compiled expressions and how they are run.

use std::fmt;

use serde_json::Value as Json;

use crate::{
    cost::CostEstimate,
    env::Env,
    eval::Ctx,
    eval_error::{Eval, EvalError},
    plan::Node,
    source::Location,
    types::Type,
    value::Value,
};

/// What kube-apiserver lets one expression cost.
pub const DEFAULT_COST_LIMIT: u64 = 1_000_000;
/// The most bytes that the values made by one evaluation may take.
const MAX_MADE_BYTES: u64 = 64 << 20;

/// A compiled expression: immutable, to be shared between threads.
#[derive(Debug)]
pub struct Program {
    pub(crate) env: Env,
    pub(crate) node: Node,
    pub(crate) result: Type,
    pub(crate) sites: Vec<CallSite>,
    pub(crate) estimate: CostEstimate,
    pub(crate) variables_used: Vec<bool>,
}

/// One call of a host function in an expression.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallSite {
    /// Number of the call in its expression, from 0.
    pub index: usize,
    /// The function.
    pub function: Box<str>,
    /// The arguments as they are written.
    pub args: Box<[Argument]>,
}

/// An argument of a call as it is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Argument {
    /// Where it begins.
    pub location: Location,
    /// Its text.
    pub text: Box<str>,
}

/// Answers the functions that [`EnvBuilder::function`](crate::EnvBuilder::function) declares.
pub trait Host {
    /// Returns the value of a call.
    ///
    /// # Errors
    /// Why there is none; `&&` and `||` may absorb it.
    fn call<'a>(&self, site: &CallSite, args: &[Value<'a>]) -> Result<Value<'a>, EvalError>;
}

/// The values of the variables for one evaluation.
pub struct Activation<'a> {
    program: &'a Program,
    pub(crate) values: Vec<Option<Input<'a>>>,
    pub(crate) host: Option<&'a dyn Host>,
    cost_limit: u64,
}

/// A variable's value, read only if the expression asks for it.
#[derive(Debug, Clone)]
pub(crate) enum Input<'a> {
    Json(&'a Json),
    Value(Value<'a>),
}

/// A value and what it cost.
#[derive(Debug, Clone)]
pub struct Outcome<'a> {
    /// The value, or why there is none.
    pub value: Result<Value<'a>, EvalError>,
    /// The cost in the units of cel-go.
    pub cost: u64,
}

impl Program {
    /// The type of the result as far as it is known.
    #[must_use]
    pub fn result_type(&self) -> &Type {
        &self.result
    }

    /// The calls of host functions, by [`CallSite::index`].
    #[must_use]
    pub fn call_sites(&self) -> &[CallSite] {
        &self.sites
    }

    /// What an evaluation costs at least and at most, by the bounds that the schema sets.
    #[must_use]
    pub fn cost_estimate(&self) -> CostEstimate {
        self.estimate
    }

    /// Whether the expression names a variable, such as `oldSelf`.
    #[must_use]
    pub fn uses(&self, variable: &str) -> bool {
        let slot = self.env.variable(variable);
        slot.is_some_and(|(slot, _)| self.variables_used[slot])
    }

    /// Evaluates.
    ///
    /// # Errors
    /// What the data does not allow, or that the budget is used up.
    pub fn eval<'a>(&'a self, vars: &Activation<'a>) -> Result<Value<'a>, EvalError> {
        self.run(vars).value
    }

    /// Evaluates and tells the cost.
    #[must_use]
    pub fn run<'a>(&'a self, vars: &Activation<'a>) -> Outcome<'a> {
        let mut ctx = Ctx::new(self, vars, vars.cost_limit, MAX_MADE_BYTES);
        let value = ctx.eval(&self.node);
        Outcome {
            value,
            cost: ctx.cost(),
        }
    }
}

impl<'a> Activation<'a> {
    /// No variables yet, and kube-apiserver's cost limit.
    #[must_use]
    pub fn new(program: &'a Program) -> Activation<'a> {
        Activation {
            program,
            values: vec![None; program.env.variables().len()],
            host: None,
            cost_limit: DEFAULT_COST_LIMIT,
        }
    }

    /// Gives JSON for a variable, read by its declaration. A name that is not declared is ignored.
    #[must_use]
    pub fn with_json(self, name: &str, json: &'a Json) -> Activation<'a> {
        self.with_input(name, Input::Json(json))
    }

    /// Gives a value for a variable. A name that is not declared is ignored.
    #[must_use]
    pub fn with(self, name: &str, value: Value<'a>) -> Activation<'a> {
        self.with_input(name, Input::Value(value))
    }

    fn with_input(mut self, name: &str, input: Input<'a>) -> Activation<'a> {
        if let Some((slot, _)) = self.program.env.variable(name) {
            self.values[slot] = Some(input);
        }
        self
    }

    /// Who answers the host functions.
    #[must_use]
    pub fn with_host(mut self, host: &'a dyn Host) -> Activation<'a> {
        self.host = Some(host);
        self
    }

    /// What the evaluation may cost at most.
    #[must_use]
    pub fn with_cost_limit(mut self, cost_limit: u64) -> Activation<'a> {
        self.cost_limit = cost_limit;
        self
    }

    /// The value of a variable slot.
    pub(crate) fn get(&self, slot: usize) -> Eval<Value<'a>> {
        let variable = &self.program.env.variables()[slot];
        let value = match &self.values[slot] {
            Some(Input::Value(value)) => return Ok(value.clone()),
            Some(Input::Json(json)) => Some(Value::declared(json, &variable.decl)?),
            None => None,
        };
        match (variable.is_optional, value) {
            (true, Some(Value::Null) | None) => Ok(Value::Optional(None)),
            (true, Some(value)) => Ok(Value::some(value)),
            (false, Some(value)) => Ok(value),
            (false, None) => {
                let message = format!("no such attribute(s): {}", variable.name);
                Err(EvalError::missing(message))
            }
        }
    }
}

impl fmt::Debug for Activation<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Activation")
            .field("values", &self.values)
            .field("cost_limit", &self.cost_limit)
            .finish_non_exhaustive()
    }
}
