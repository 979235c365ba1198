//! What is wrong with the rules of a definition.

use serde_json::Value;
use skopos_object::{BadValue, FieldError, FieldPath, json};
use skopos_schema::{ListType, Rule, Structural, crd};

use super::evaluate::Purse;
use super::{Attempt, compile_all, root_of};
use crate::Root;

/// Checks a definition as [`crd::validate_crd`] does, its rules included: whether they compile, may ask for the old
/// state where they stand, and hold of the defaults beside them.
pub fn validate_definition(new: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let faults = crd::validate_crd(new, old);
    // Rules can be judged by a schema only if it is one.
    match faults.is_empty() {
        true => check_rules(new),
        false => faults,
    }
}

fn check_rules(definition: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    // Most definitions have none, and are not to wait for another reading of their schemas.
    if !has_rules(&definition["spec"]["versions"]) {
        return errors;
    }
    for (path, schema) in crd::schemas(definition) {
        let Ok(schema) = Structural::from_json(&schema) else {
            continue;
        };
        match check_defaults(&schema, Root::Resource, &path, &mut Purse::new()) {
            faults if faults.is_empty() => check(&schema, Root::Resource, &path, None, &mut errors),
            faults => errors.extend(faults),
        }
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

/// `uncorrelatable` is where the schema stops to tell which old value belongs to a new one.
fn check(
    schema: &Structural,
    root: Root,
    path: &FieldPath,
    uncorrelatable: Option<&FieldPath>,
    errors: &mut Vec<FieldError>,
) {
    if !schema.has_rules() {
        return;
    }
    check_node(
        schema,
        root,
        &path.child("x-kubernetes-validations"),
        uncorrelatable,
        errors,
    );
    let in_items = uncorrelatable.or((schema.list_type() != Some(ListType::Map)).then_some(path));
    if let Some(values) = schema.additional_properties() {
        let at = path.child("additionalProperties");
        check(values, root_of(values), &at, uncorrelatable, errors);
    }
    for (name, property) in schema.properties() {
        let at = path.child("properties").key(name);
        check(property, root_of(property), &at, uncorrelatable, errors);
    }
    if let Some(items) = schema.items() {
        check(items, root_of(items), &path.child("items"), in_items, errors);
    }
}

fn check_node(
    schema: &Structural,
    root: Root,
    path: &FieldPath,
    uncorrelatable: Option<&FieldPath>,
    errors: &mut Vec<FieldError>,
) {
    let Some(attempts) = compile_all(schema, root) else {
        let why = "internal error: failed to construct type information for x-kubernetes-validations rules: unable to convert structural schema to CEL declarations";
        return errors.push(FieldError::internal(path, why));
    };
    for (index, (rule, attempt)) in schema.rules().iter().zip(attempts).enumerate() {
        check_rule(rule, &attempt, &path.index(index), uncorrelatable, errors);
    }
}

fn check_rule(
    rule: &Rule,
    attempt: &Attempt,
    at: &FieldPath,
    uncorrelatable: Option<&FieldPath>,
    errors: &mut Vec<FieldError>,
) {
    let mut blame = |field: &str, why: &str| {
        let error = FieldError::invalid(&at.child(field), "", why);
        errors.push(error.showing(BadValue::Text(shown(rule))));
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
            let why =
                format!("oldSelf cannot be used on the uncorrelatable portion of the schema within {within}");
            errors.push(FieldError::invalid(&at.child("rule"), rule.rule.as_str(), why));
        }
        (false, _, Some(given)) => {
            let why = "may not be set if oldSelf is not used in rule";
            errors.push(FieldError::invalid(&at.child("optionalOldSelf"), given, why));
        }
        _ => {}
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
