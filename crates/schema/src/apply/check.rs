//! Whether a value has the type that its schema gives it, in the words of kube-apiserver.

use std::collections::BTreeSet;

use serde_json::Value;
use skopos_object::json::MAX_DEPTH;
use skopos_object::quote;

use super::element::Element;
use super::types::{Form, List, Map, Scalar, Type};
use crate::gofmt;

/// Whether a set or map list may hold an item twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Duplicates {
    Allowed,
    Forbidden,
}

/// At most so many faults are told of.
const MAX_FAULTS: usize = 100;

/// Checks a value and returns all faults in one text.
pub(super) fn check(ty: Type<'_>, value: &Value, duplicates: Duplicates) -> Result<(), String> {
    let mut check = Check {
        duplicates,
        faults: Vec::new(),
        path: Vec::new(),
    };
    check.value(ty, value);
    match check.faults.as_slice() {
        [] => Ok(()),
        [one] => Err(one.clone()),
        many => Err(format!("errors:\n  {}", many.join("\n  "))),
    }
}

struct Check<'v> {
    duplicates: Duplicates,
    faults: Vec<String>,
    path: Vec<Step<'v>>,
}

/// A step of the path to the value at hand, without a copy of its name: most values have no fault.
enum Step<'v> {
    Field(&'v str),
    Item(Element),
    Index(usize),
}

impl std::fmt::Display for Step<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Step::Field(name) => write!(f, ".{name}"),
            Step::Item(element) => element.fmt(f),
            Step::Index(index) => write!(f, "[{index}]"),
        }
    }
}

impl<'v> Check<'v> {
    fn fault(&mut self, why: &str) {
        if self.faults.len() >= MAX_FAULTS {
            return;
        }
        let path: String = self.path.iter().map(ToString::to_string).collect();
        self.faults.push(match path.as_str() {
            "" => why.to_owned(),
            path => format!("{path}: {why}"),
        });
    }

    fn value(&mut self, ty: Type<'_>, value: &'v Value) {
        if self.path.len() > MAX_DEPTH {
            return self.fault("nested too deep");
        }
        match ty.atom().of(Some(value)).form() {
            None => self.fault("schema error: invalid atom: inlined"),
            Some(Form::Map(map)) => self.map(&map, value),
            Some(Form::List(list)) => self.list(&list, value),
            Some(Form::Scalar(scalar)) => {
                if let Err(why) = check_scalar(scalar, Some(value), "") {
                    self.fault(&why);
                }
            }
        }
    }

    fn map(&mut self, map: &Map<'_>, value: &'v Value) {
        let fields = match value {
            Value::Object(fields) => fields,
            Value::Null => return,
            _ => return self.fault(&format!("expected map, got &{{{}}}", printed(value))),
        };
        for (name, value) in fields {
            let ty = map.field_type(name);
            self.path.push(Step::Field(name));
            if matches!(ty, Type::Undeclared) {
                self.fault("field not declared in schema");
                self.path.pop();
                return;
            }
            self.value(ty, value);
            self.path.pop();
        }
    }

    fn list(&mut self, list: &List<'_>, value: &'v Value) {
        let items = match value {
            Value::Array(items) => items,
            Value::Null => return,
            _ => return self.fault(&format!("expected list, got &{{{}}}", printed(value))),
        };
        let mut seen = BTreeSet::new();
        for (index, item) in items.iter().enumerate() {
            let step = if list.is_atomic() {
                Step::Index(index)
            } else {
                match list.identity(item) {
                    Ok(element) => Step::Item(element),
                    Err(why) => return self.fault(&format!("element {index}: {why}")),
                }
            };
            if let Step::Item(element) = &step
                && !seen.insert(element.clone())
                && self.duplicates == Duplicates::Forbidden
            {
                self.fault(&format!("duplicate entries for key {element}"));
            }
            self.path.push(step);
            self.value(list.element, item);
            self.path.pop();
        }
    }
}

/// Checks a scalar; null and absence are values of every type.
pub(super) fn check_scalar(scalar: Scalar, value: Option<&Value>, prefix: &str) -> Result<(), String> {
    let Some(value) = value else { return Ok(()) };
    match (scalar, value) {
        (_, Value::Null)
        | (Scalar::Numeric, Value::Number(_))
        | (Scalar::Text, Value::String(_))
        | (Scalar::Boolean, Value::Bool(_))
        | (Scalar::Any, Value::Bool(_) | Value::Number(_) | Value::String(_)) => Ok(()),
        (Scalar::Numeric, _) => Err(format!(
            "{prefix}expected numeric (int or float), got {}",
            type_name(value)
        )),
        (Scalar::Text, _) => {
            let value = literal(value);
            Err(format!(
                "{prefix}expected string, got &value.valueUnstructured{{Value:{value}}}"
            ))
        }
        (Scalar::Boolean, _) => Err(format!("{prefix}expected boolean, got &{{{}}}", printed(value))),
        (Scalar::Any, _) => Err(format!(
            "{prefix}expected any scalar, got &{{{}}}",
            printed(value)
        )),
    }
}

fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

/// A value as Go's `%v`.
fn printed(value: &Value) -> String {
    match value {
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(printed).collect();
            format!("[{}]", items.join(" "))
        }
        Value::Object(map) => {
            let fields: Vec<String> = map
                .iter()
                .map(|(name, value)| format!("{name}:{}", printed(value)))
                .collect();
            format!("map[{}]", fields.join(" "))
        }
        scalar => gofmt::plain(scalar),
    }
}

/// A value as Go's `%#v`.
fn literal(value: &Value) -> String {
    match value {
        Value::Null => "interface {}(nil)".to_owned(),
        Value::String(text) => quote(text),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(literal).collect();
            format!("[]interface {{}}{{{}}}", items.join(", "))
        }
        Value::Object(map) => {
            let fields: Vec<String> = map
                .iter()
                .map(|(name, value)| format!("{}:{}", quote(name), literal(value)))
                .collect();
            format!("map[string]interface {{}}{{{}}}", fields.join(", "))
        }
        Value::Bool(_) | Value::Number(_) => gofmt::plain(value),
    }
}
