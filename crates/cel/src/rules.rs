//! Validation rules of definitions (`x-kubernetes-validations`): checked when a definition is written, evaluated
//! with every write of its objects.
//!
//! [`validate_definition`] judges a definition, [`Rules`] hold the programs of one schema and judge its objects. Who
//! serves a definition compiles them when the first object comes: one without rules or objects need not pay for them.

mod check;
mod costs;
mod evaluate;

use std::sync::Arc;

use serde_json::Value;
use skopos_object::FieldError;
use skopos_schema::{Rule, Structural, blocks_rules, crd};

pub use self::check::validate_definition;

use crate::{CompileError, Decl, Env, Program, Root, Stage, Type};

/// The name of `self`'s type in messages.
const SELF_TYPE: &str = "selfType";

/// The compiled rules of a schema.
#[derive(Debug)]
pub struct Rules {
    schema: Arc<Structural>,
    root: Node,
}

/// The rules of one node of a schema and of those below it that have any.
#[derive(Debug)]
struct Node {
    rules: Box<[Compiled]>,
    properties: Box<[(Box<str>, Node)]>,
    items: Option<Box<Node>>,
    values: Option<Box<Node>>,
}

/// One rule. One that does not compile says why to every write.
#[derive(Debug)]
struct Compiled {
    program: Result<Program, String>,
    message: Option<Program>,
    uses_old: bool,
    /// The field that it blames, below the one it stands at; empty for that one.
    blames: Box<str>,
}

/// What the rules say of an object.
#[derive(Debug, Default)]
pub struct Verdict {
    /// What is wrong with it.
    pub errors: Vec<FieldError>,
    /// What is wrong, but was so before this write.
    pub warnings: Vec<String>,
}

impl Rules {
    /// Compiles the rules of a schema; nothing if it has none.
    pub fn compile(schema: &Arc<Structural>) -> Option<Rules> {
        schema.has_rules().then(|| Rules {
            schema: Arc::clone(schema),
            root: Node::compile(schema, Root::Resource),
        })
    }

    /// Evaluates all rules on an object as it would be stored, unless what was `found` wrong with it already forbids
    /// that. With `old` it is an update; else rules that ask for the old state are passed over.
    pub fn evaluate(&self, new: &Value, old: Option<&Value>, found: &[FieldError]) -> Verdict {
        match blocks_rules(found) {
            Some(error) => Verdict {
                errors: vec![error],
                warnings: Vec::new(),
            },
            None => evaluate::evaluate(&self.root, &self.schema, new, old),
        }
    }
}

impl Node {
    fn compile(schema: &Structural, root: Root) -> Node {
        let below = |schema: &Structural| {
            let root = root_of(schema);
            schema.has_rules().then(|| Node::compile(schema, root))
        };
        let boxed = |schema: Option<&Structural>| schema.and_then(below).map(Box::new);
        let properties = schema.properties();
        Node {
            rules: compile_all(schema, root)
                .map(|attempts| attempts.rules)
                .into_iter()
                .flatten()
                .zip(schema.rules())
                .map(|(attempt, rule)| Compiled::new(attempt, schema, rule))
                .collect(),
            properties: properties
                .filter_map(|(name, schema)| Some((name.into(), below(schema)?)))
                .collect(),
            items: boxed(schema.items()),
            values: boxed(schema.additional_properties()),
        }
    }
}

fn root_of(schema: &Structural) -> Root {
    match schema.is_embedded_resource() {
        true => Root::Resource,
        false => Root::Field,
    }
}

/// What came of the rules of one node.
#[derive(Debug, Default)]
struct Attempts {
    rules: Vec<Attempt>,
    /// How often the node can occur in an object that nothing but the size of a request bounds.
    max_occurrences: u64,
}

/// What came of one rule.
#[derive(Debug)]
struct Attempt {
    rule: Result<Program, String>,
    message: Option<Result<Program, String>>,
}

impl Compiled {
    fn new(attempt: Attempt, schema: &Structural, rule: &Rule) -> Compiled {
        let uses_old = attempt.rule.as_ref().is_ok_and(|program| program.uses("oldSelf"));
        Compiled {
            program: attempt.rule,
            message: attempt.message.and_then(Result::ok),
            uses_old,
            blames: crd::blamed_field(schema, &rule.field_path)
                .unwrap_or_default()
                .into(),
        }
    }
}

/// Compiles the rules of one node, in order; nothing if its schema says too little to name anything.
fn compile_all(schema: &Structural, root: Root) -> Option<Attempts> {
    if schema.rules().is_empty() {
        return Some(Attempts::default());
    }
    let decl = Decl::from_schema(schema, SELF_TYPE, root)?;
    let env = |optional: bool| {
        let env = Env::builder().variable("self", decl.clone());
        match optional {
            true => env.optional_variable("oldSelf", decl.clone()).build(),
            false => env.variable("oldSelf", decl.clone()).build(),
        }
    };
    let (plain, optional) = (env(false), env(true));
    let compile = |rule: &Rule| match rule.optional_old_self == Some(true) {
        true => attempt(rule, &optional),
        false => attempt(rule, &plain),
    };
    Some(Attempts {
        rules: schema.rules().iter().map(compile).collect(),
        max_occurrences: decl.max_occurrences(),
    })
}

fn attempt(rule: &Rule, env: &Env) -> Attempt {
    let program = compiled(env, &rule.rule, "").and_then(|program| match program.result_type() {
        Type::Bool => Ok(program),
        _ => Err("cel expression must evaluate to a bool".to_owned()),
    });
    let message = || {
        compiled(env, &rule.message_expression, "messageExpression ").and_then(|program| {
            match program.result_type() {
                Type::String => Ok(program),
                _ => Err("messageExpression must evaluate to a string".to_owned()),
            }
        })
    };
    Attempt {
        message: (program.is_ok() && !rule.message_expression.is_empty()).then(message),
        rule: program,
    }
}

fn compiled(env: &Env, source: &str, what: &str) -> Result<Program, String> {
    let why = |error: CompileError| match (error.stage(), what) {
        (Stage::Check, _) => format!("{what}compilation failed: {error}"),
        (Stage::Program, "") => format!("program instantiation failed: {error}"),
        (Stage::Program, _) => format!("{what}instantiation failed: {error}"),
    };
    env.compile(source).map_err(why)
}
