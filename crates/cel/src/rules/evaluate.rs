//! Evaluates the rules of a schema on an object, in kube-apiserver's order and words.

use std::cell::OnceCell;

use serde_json::{Map, Value};
use skopos_object::{BadValue, FieldError, FieldErrorKind, FieldPath, quote};
use skopos_schema::{ListType, Rule, Structural, find_item, unchanged};

use super::{Compiled, Node, Verdict};
use crate::{Activation, EvalError, EvalErrorKind, Program, Root};

/// What all rules of one write may cost together.
const BUDGET: u64 = 10_000_000;
/// The longest text that a message expression may give.
const MAX_MESSAGE_BYTES: usize = 5 * 1024;

const OUT_OF_BUDGET: &str =
    "validation failed due to running out of cost budget, no further validation rules will be run";
const MESSAGE_OUT_OF_BUDGET: &str = "messageExpression evaluation failed due to running out of cost budget, no further validation rules will be run";

pub(super) fn evaluate(node: &Node, schema: &Structural, new: &Value, old: Option<&Value>) -> Verdict {
    let mut run = Run::new(BUDGET, Forgives::WhatIsUnchanged);
    // An end before the last rule has said so in an error.
    let _ = run.value(node, schema, &FieldPath::root(), new, old, None);
    run.verdict
}

/// What may still be spent on the defaults of a definition.
pub(super) struct Purse(u64);

impl Purse {
    pub(super) fn new() -> Purse {
        Purse(BUDGET)
    }

    /// Holds a default to the rules at and below its schema, as a value that stays and as a new one.
    pub(super) fn evaluate_default(
        &mut self,
        schema: &Structural,
        root: Root,
        at: &FieldPath,
        default: &Value,
    ) -> Result<(), Vec<FieldError>> {
        let node = Node::compile(schema, root);
        let mut left = self.0;
        for old in [Some(default), None] {
            let mut run = Run::new(self.0, Forgives::Nothing);
            let _ = run.value(&node, schema, at, default, old, None);
            if !run.verdict.errors.is_empty() {
                return Err(run.verdict.errors);
            }
            left = left.min(run.budget);
        }
        self.0 = left;
        Ok(())
    }
}

struct Run {
    budget: u64,
    forgives: Forgives,
    verdict: Verdict,
}

/// Whether what breaks a rule is only told of if it did so before.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Forgives {
    WhatIsUnchanged,
    Nothing,
}

/// No further rule is to be evaluated.
struct Stop;

/// One rule where it is evaluated.
struct Site<'a> {
    schema: &'a Structural,
    rule: &'a Rule,
    compiled: &'a Compiled,
    at: &'a FieldPath,
    new: &'a Value,
    old: Option<&'a Value>,
    past: Option<&'a Past<'a>>,
}

/// The innermost value around a rule, or its own, of which the old state is known.
struct Past<'a> {
    schema: &'a Structural,
    new: &'a Value,
    old: &'a Value,
    same: OnceCell<bool>,
}

impl Past<'_> {
    /// Many items of a list may ask, so it is compared once.
    fn is_unchanged(&self) -> bool {
        *self
            .same
            .get_or_init(|| unchanged(self.schema, self.new, self.old))
    }
}

impl Run {
    fn new(budget: u64, forgives: Forgives) -> Run {
        Run {
            budget,
            forgives,
            verdict: Verdict::default(),
        }
    }

    fn value(
        &mut self,
        node: &Node,
        schema: &Structural,
        at: &FieldPath,
        new: &Value,
        old: Option<&Value>,
        past: Option<&Past<'_>>,
    ) -> Result<(), Stop> {
        if new.is_null() {
            return Ok(());
        }
        let old = old.filter(|old| !old.is_null());
        let own = old.map(|old| Past {
            schema,
            new,
            old,
            same: OnceCell::new(),
        });
        let past = own.as_ref().or(past);
        for (rule, compiled) in schema.rules().iter().zip(&node.rules) {
            let site = Site {
                schema,
                rule,
                compiled,
                at,
                new,
                old,
                past,
            };
            self.rule(&site)?;
        }
        match new {
            Value::Array(items) => self.items(node, schema, at, items, old, past),
            Value::Object(fields) => self.fields(node, schema, at, fields, old, past),
            _ => Ok(()),
        }
    }

    /// Only items of map lists have an old value: nothing else tells which one it would be.
    fn items(
        &mut self,
        node: &Node,
        schema: &Structural,
        at: &FieldPath,
        items: &[Value],
        old: Option<&Value>,
        past: Option<&Past<'_>>,
    ) -> Result<(), Stop> {
        let (Some(node), Some(item_schema)) = (&node.items, schema.items()) else {
            return Ok(());
        };
        let old = old
            .filter(|_| schema.list_type() == Some(ListType::Map))
            .and_then(Value::as_array);
        for (index, item) in items.iter().enumerate() {
            let old = old.and_then(|old| find_item(schema, old, item));
            self.value(node, item_schema, &at.index(index), item, old, past)?;
        }
        Ok(())
    }

    fn fields(
        &mut self,
        node: &Node,
        schema: &Structural,
        at: &FieldPath,
        fields: &Map<String, Value>,
        old: Option<&Value>,
        past: Option<&Past<'_>>,
    ) -> Result<(), Stop> {
        let old = |name: &str| old.and_then(|old| old.get(name));
        if let (Some(node), Some(values)) = (&node.values, schema.additional_properties()) {
            for (name, field) in fields {
                self.value(node, values, &at.key(name), field, old(name), past)?;
            }
        }
        for (name, node) in &node.properties {
            if let (Some(field), Some(property)) = (fields.get(name.as_ref()), schema.property(name)) {
                self.value(node, property, &at.child(name), field, old(name), past)?;
            }
        }
        Ok(())
    }

    fn rule(&mut self, site: &Site<'_>) -> Result<(), Stop> {
        let optional = site.rule.optional_old_self == Some(true);
        if site.compiled.uses_old && site.old.is_none() && !optional {
            return Ok(());
        }
        let program = match &site.compiled.program {
            Ok(program) => program,
            Err(why) => {
                self.fail(site, format!("rule compile error: {why}"));
                return Ok(());
            }
        };
        let outcome = program.run(&site.variables(program));
        let holds = outcome.value.map(|value| value.as_bool() == Some(true));
        self.pay(site, outcome.cost)?;
        match holds {
            Ok(true) => Ok(()),
            Ok(false) => self.broken(site),
            Err(error) => self.failed(site, &error),
        }
    }

    fn pay(&mut self, site: &Site<'_>, cost: u64) -> Result<(), Stop> {
        match self.budget.checked_sub(cost) {
            Some(left) => self.budget = left,
            None => {
                self.fail(site, OUT_OF_BUDGET.to_owned());
                return Err(Stop);
            }
        }
        Ok(())
    }

    /// The rule could not be evaluated.
    fn failed(&mut self, site: &Site<'_>, error: &EvalError) -> Result<(), Stop> {
        let rule = match site.rule.message.trim() {
            "" => site.rule.rule.trim(),
            message => message,
        };
        if error.kind() == EvalErrorKind::Budget {
            let why = format!(
                "'{error}': no further validation rules will be run due to call cost exceeds limit for rule: {rule}"
            );
            self.fail(site, why);
            return Err(Stop);
        }
        let text = error.to_string();
        self.fail(
            site,
            match text.starts_with("no such overload") {
                true => format!(
                    "'no such overload': call arguments did not match a supported operator, function or macro signature for rule: {rule}"
                ),
                false => format!("{text} evaluating rule: {rule}"),
            },
        );
        Ok(())
    }

    fn fail(&mut self, site: &Site<'_>, why: String) {
        let error = FieldError::invalid(site.at, site.declared(), why);
        self.verdict.errors.push(error);
    }

    /// The rule does not hold.
    fn broken(&mut self, site: &Site<'_>) -> Result<(), Stop> {
        let message = self.message(site)?;
        self.blame(site, site.complaint(message));
        Ok(())
    }

    fn blame(&mut self, site: &Site<'_>, error: FieldError) {
        let was_so = self.forgives == Forgives::WhatIsUnchanged
            && !site.compiled.uses_old
            && !site.is_type()
            && site.past.is_some_and(Past::is_unchanged);
        match was_so {
            true => self.verdict.warnings.push(error.to_string()),
            false => self.verdict.errors.push(error),
        }
    }

    /// The text of the message expression if there is a usable one, else of the rule.
    fn message(&mut self, site: &Site<'_>) -> Result<String, Stop> {
        let given = match site.rule.message.trim() {
            "" => format!("failed rule: {}", site.rule.rule.trim()),
            message => message.to_owned(),
        };
        let Some(program) = &site.compiled.message else {
            return Ok(given);
        };
        // kube-apiserver gives messages no optional, so that one which asks for it fails.
        if site.rule.optional_old_self == Some(true) && program.uses("oldSelf") {
            return Ok(given);
        }
        let outcome = program.run(&site.variables(program));
        let Some(left) = self.budget.checked_sub(outcome.cost) else {
            return Err(self.no_message(site, MESSAGE_OUT_OF_BUDGET.to_owned()));
        };
        self.budget = left;
        let made = match outcome.value {
            Err(error) if error.kind() == EvalErrorKind::Budget => {
                let source = quote(&site.rule.message_expression);
                let why = format!(
                    "no further validation rules will be run due to call cost exceeds limit for messageExpression: {source}"
                );
                return Err(self.no_message(site, why));
            }
            made => made.ok(),
        };
        let made = made.and_then(|value| value.as_str().map(|text| text.trim().to_owned()));
        let usable =
            |text: &String| !text.is_empty() && text.len() <= MAX_MESSAGE_BYTES && !text.contains('\n');
        Ok(made.filter(usable).unwrap_or(given))
    }

    /// The message of a broken rule costs more than there is.
    fn no_message(&mut self, site: &Site<'_>, why: String) -> Stop {
        self.blame(site, FieldError::invalid(&site.blamed(), site.declared(), why));
        Stop
    }
}

impl<'a> Site<'a> {
    fn variables(&self, program: &'a Program) -> Activation<'a> {
        let variables = Activation::new(program).with_json("self", self.new);
        match self.old {
            Some(old) => variables.with_json("oldSelf", old),
            None => variables,
        }
    }

    /// Whether it is the version or the kind of the object. Both states are of those that were asked for, so nobody
    /// can tell whether they changed.
    fn is_type(&self) -> bool {
        matches!(self.at.to_string().as_str(), "apiVersion" | "kind")
    }

    fn declared(&self) -> &'static str {
        let declared = self.schema.declared_type();
        declared.map_or("", |declared| declared.as_str())
    }

    fn blamed(&self) -> FieldPath {
        match self.compiled.blames.as_ref() {
            "" => self.at.clone(),
            field => self.at.child(field),
        }
    }

    /// The error of a rule that does not hold. Only what fits into a line is shown of the value.
    fn complaint(&self, message: String) -> FieldError {
        let kind = match self.rule.reason.as_str() {
            "FieldValueForbidden" => FieldErrorKind::Forbidden,
            "FieldValueRequired" => FieldErrorKind::Required,
            "FieldValueDuplicate" => FieldErrorKind::Duplicate,
            _ => FieldErrorKind::Invalid,
        };
        FieldError {
            kind,
            field: self.blamed().to_string(),
            bad_value: match self.new {
                Value::Array(_) | Value::Object(_) => BadValue::Omitted,
                scalar => BadValue::Value(scalar.clone()),
            },
            detail: match kind {
                // A duplicate has no words of its own.
                FieldErrorKind::Duplicate => String::new(),
                _ => message,
            },
        }
    }
}
