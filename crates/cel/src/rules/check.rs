//! What is wrong with the rules of a definition.

use serde_json::Value;
use skopos_object::{BadValue, FieldError, FieldPath, json};
use skopos_schema::crd::{self, VersionSchema};
use skopos_schema::{ListType, Rule, Structural};

use super::costs::{Costs, Limit};
use super::evaluate::Purse;
use super::{Attempt, compile_all, root_of};
use crate::{Program, Root};

/// Checks a definition as [`crd::validate_crd`] does, its rules included: whether they compile, may ask for the old
/// state where they stand, can be afforded, and hold of the defaults beside them.
pub fn validate_definition(new: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let faults = crd::validate_crd(new, old);
    // Rules can be judged by a schema only if it is one.
    match faults.is_empty() {
        true => check_rules(new, old),
        false => faults,
    }
}

fn check_rules(definition: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    // Most definitions have none, and are not to wait for another reading of their schemas.
    if !has_rules(&definition["spec"]["versions"]) {
        return errors;
    }
    let before = old.map(crd::schemas).unwrap_or_default();
    for VersionSchema {
        version,
        path,
        schema,
    } in crd::schemas(definition)
    {
        let Ok(structural) = Structural::from_json(&schema) else {
            continue;
        };
        let faults = check_defaults(&structural, Root::Resource, &path, &mut Purse::new());
        if !faults.is_empty() {
            errors.extend(faults);
            continue;
        }
        let is_as_before = before
            .iter()
            .any(|before| before.version == version && before.schema == schema);
        let mut check = Check {
            costs: Costs::new(if is_as_before {
                Limit::Total
            } else {
                Limit::EachAndTotal
            }),
            errors: Vec::new(),
        };
        check.schema(&structural, Root::Resource, &path, Below::default());
        errors.extend(check.errors);
        errors.extend(check.costs.too_much(&path));
    }
    errors
}

/// What rules say of the defaults of a schema.
fn check_defaults(schema: &Structural, root: Root, path: &FieldPath, purse: &mut Purse) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if !schema.has_rules() {
        return errors;
    }
    if let Some(default) = schema.default_value() {
        let outcome = purse.evaluate_default(schema, root, &path.child("default"), default);
        errors.extend(outcome.err().into_iter().flatten());
    }
    if let Some(items) = schema.items() {
        errors.extend(check_defaults(items, root_of(items), &path.child("items"), purse));
    }
    for (name, property) in schema.properties() {
        let at = path.child("properties").key(name);
        errors.extend(check_defaults(property, root_of(property), &at, purse));
    }
    errors
}

fn has_rules(value: &Value) -> bool {
    match value {
        Value::Object(fields) => {
            fields.contains_key("x-kubernetes-validations") || fields.values().any(has_rules)
        }
        Value::Array(items) => items.iter().any(has_rules),
        _ => false,
    }
}

/// What a schema knows of those above it.
#[derive(Debug, Clone, Copy)]
struct Below<'a> {
    /// Where the schema stops to tell which old value belongs to a new one.
    uncorrelatable: Option<&'a FieldPath>,
    /// How often it can occur in one object, if all lists and maps above have limits.
    max_occurrences: Option<u64>,
}

impl Default for Below<'_> {
    fn default() -> Self {
        Below {
            uncorrelatable: None,
            max_occurrences: Some(1),
        }
    }
}

impl Below<'_> {
    /// Below a list or map of at most so many.
    fn many(self, limit: Option<u64>) -> Self {
        let product = self.max_occurrences.zip(limit);
        Below {
            max_occurrences: product.map(|(outer, inner)| outer.saturating_mul(inner)),
            ..self
        }
    }
}

/// What was found so far.
struct Check {
    costs: Costs,
    errors: Vec<FieldError>,
}

impl Check {
    fn schema(&mut self, schema: &Structural, root: Root, path: &FieldPath, below: Below<'_>) {
        if !schema.has_rules() {
            return;
        }
        if let Some(values) = schema.additional_properties() {
            let at = path.child("additionalProperties");
            self.schema(values, root_of(values), &at, below.many(schema.max_properties()));
        }
        for (name, property) in schema.properties() {
            let at = path.child("properties").key(name);
            self.schema(property, root_of(property), &at, below);
        }
        if let Some(items) = schema.items() {
            let stops_here = (schema.list_type() != Some(ListType::Map)).then_some(path);
            let below = Below {
                uncorrelatable: below.uncorrelatable.or(stops_here),
                ..below.many(schema.max_items())
            };
            self.schema(items, root_of(items), &path.child("items"), below);
        }
        self.node(schema, root, &path.child("x-kubernetes-validations"), below);
    }

    fn node(&mut self, schema: &Structural, root: Root, path: &FieldPath, below: Below<'_>) {
        let Some(attempts) = compile_all(schema, root) else {
            let why = "internal error: failed to construct type information for x-kubernetes-validations rules: unable to convert structural schema to CEL declarations";
            return self.errors.push(FieldError::internal(path, why));
        };
        let max_occurrences = below.max_occurrences.unwrap_or(attempts.max_occurrences);
        for (index, (rule, attempt)) in schema.rules().iter().zip(attempts.rules).enumerate() {
            let at = path.index(index);
            self.affordable(&attempt, &at, max_occurrences);
            self.rule(rule, &attempt, &at, below.uncorrelatable);
        }
    }

    /// The message is made once, for the first object that breaks the rule.
    fn affordable(&mut self, attempt: &Attempt, at: &FieldPath, max_occurrences: u64) {
        let cost = |program: &Program| program.cost_estimate().max;
        if let Ok(rule) = &attempt.rule {
            let cost = cost(rule).saturating_mul(max_occurrences);
            let error = self.costs.add(&at.child("rule"), "rule", cost);
            self.errors.extend(error);
        }
        if let Some(Ok(message)) = &attempt.message {
            let at = at.child("messageExpression");
            let error = self.costs.add(&at, "messageExpression", cost(message));
            self.errors.extend(error);
        }
    }

    fn rule(&mut self, rule: &Rule, attempt: &Attempt, at: &FieldPath, uncorrelatable: Option<&FieldPath>) {
        let mut blame = |field: &str, why: &str| {
            let error = FieldError::invalid(&at.child(field), "", why);
            self.errors.push(error.showing(BadValue::Text(shown(rule))));
        };
        if let Some(Err(why)) = &attempt.message {
            blame("messageExpression", why);
        }
        let program = match &attempt.rule {
            Ok(program) => program,
            Err(why) => return blame("rule", why),
        };
        match (program.uses("oldSelf"), uncorrelatable, rule.optional_old_self) {
            (true, Some(within), _) => {
                let why = format!(
                    "oldSelf cannot be used on the uncorrelatable portion of the schema within {within}"
                );
                let at = at.child("rule");
                self.errors
                    .push(FieldError::invalid(&at, rule.rule.as_str(), why));
            }
            (false, _, Some(given)) => {
                let why = "may not be set if oldSelf is not used in rule";
                let at = at.child("optionalOldSelf");
                self.errors.push(FieldError::invalid(&at, given, why));
            }
            _ => {}
        }
    }
}

/// The rule as kube-apiserver shows it: in the form and the order of its own structure.
fn shown(rule: &Rule) -> String {
    let text = |text: &str| json::to_go_string(&text.into());
    let reason = match rule.reason.as_str() {
        "" => "null".to_owned(),
        reason => text(reason),
    };
    let optional = rule
        .optional_old_self
        .map_or_else(|| "null".to_owned(), |given| given.to_string());
    format!(
        r#"{{"Rule":{},"Message":{},"MessageExpression":{},"Reason":{reason},"FieldPath":{},"OptionalOldSelf":{optional}}}"#,
        text(&rule.rule),
        text(&rule.message),
        text(&rule.message_expression),
        text(&rule.field_path),
    )
}
