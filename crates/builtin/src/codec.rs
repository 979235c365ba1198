//! Reads an object as Go's typed decoder does, and leaves it as Go's encoder would write it.
//!
//! Unknown fields go, types are checked, quantities and times become canonical, empty optional fields
//! vanish and mandatory ones appear. The result is what kube-apiserver would store and send back.

mod zero;

pub(crate) use zero::absent;

use serde_json::{Map, Value};

use crate::kind::Kind;
use crate::quantity::Quantity;
use crate::time::{self, Precision};
use crate::types::{self, Field, Id, Ty, Type};

/// Decodes an object of a built-in kind in place and returns the paths of its unknown fields.
///
/// The error is the part after `cannot be handled as a <Kind>: ` in the server's answer. The paths are for
/// strict decoding: `unknown field "spec.foo"`. Decoding a decoded object changes nothing.
pub fn decode(kind: &Kind, object: &mut Value) -> Result<Vec<String>, String> {
    decode_as(
        kind.ty,
        object,
        kind.is("apiextensions.k8s.io", "CustomResourceDefinition"),
    )
}

/// Checks the JSON types of an object without changing it.
pub fn decode_check(kind: &Kind, object: &Value) -> Result<(), String> {
    decode(kind, &mut object.clone()).map(drop)
}

/// Like [`decode`], for a type by its name in the table, `autoscaling.v1.Scale` or `meta.v1.DeleteOptions`.
///
/// None when there is no such type.
pub fn decode_type(name: &str, object: &mut Value) -> Option<Result<Vec<String>, String>> {
    Some(decode_as(types::find(name)?, object, false))
}

/// `keep_empty` keeps empty mandatory lists: resource definitions are stored as JSON, which tells an empty
/// list from none; everything else passes through protobuf, which does not.
pub(crate) fn decode_as(id: Id, object: &mut Value, keep_empty: bool) -> Result<Vec<String>, String> {
    let mut decoder = Decoder {
        unknown: Vec::new(),
        error: None,
        path: Vec::new(),
        quiet: 0,
        keep_empty,
    };
    let ty = id.get();
    match object {
        Value::Object(map) => decoder.fields(ty, map),
        other => {
            return Err(format!(
                "json: cannot unmarshal {} into Go value of type {}",
                word(other),
                go_type(ty.name)
            ));
        }
    }
    match decoder.error {
        Some(error) => Err(error),
        None => Ok(decoder.unknown),
    }
}

/// One step of a path: Go's errors name fields and inlined structs, strict errors fields, keys and indices.
enum Step {
    Field(&'static str, &'static str),
    Key(String),
    Index(usize),
}

struct Decoder {
    unknown: Vec<String>,
    /// Go goes on after a type error but reports only the first.
    error: Option<String>,
    path: Vec<Step>,
    /// Above zero inside types that decode themselves: unknown fields there are dropped without a word.
    quiet: u32,
    keep_empty: bool,
}

impl Decoder {
    fn fields(&mut self, ty: &'static Type, map: &mut Map<String, Value>) {
        let unknown: Vec<String> = map.keys().filter(|k| ty.field(k).is_none()).cloned().collect();
        for key in unknown {
            map.remove(&key);
            if self.quiet == 0 {
                let path = self.strict_path(&key);
                self.unknown.push(path);
            }
        }
        for field in &ty.fields {
            if let Some(value) = map.get_mut(field.name)
                && !value.is_null()
            {
                self.path.push(Step::Field(field.name, field.inlined));
                self.value(
                    &field.ty,
                    Context {
                        owner: ty,
                        declared: field.declared,
                    },
                    value,
                );
                self.path.pop();
            }
        }
        for field in &ty.fields {
            self.settle(field, map);
        }
    }

    /// Applies the rules of `omitempty` to a field that was decoded or is absent.
    fn settle(&self, field: &'static Field, map: &mut Map<String, Value>) {
        match map.get(field.name) {
            None | Some(Value::Null) => match absent(field) {
                Some(value) => drop(map.insert(field.name.to_owned(), value)),
                None => drop(map.remove(field.name)),
            },
            Some(value) if !field.pointer && zero::is_empty(&field.ty, value) => {
                if field.omitempty {
                    map.remove(field.name);
                } else if matches!(field.ty, Ty::List(_) | Ty::Map(_)) && !self.keep_empty {
                    map.insert(field.name.to_owned(), Value::Null);
                }
            }
            Some(_) => {}
        }
    }

    fn value(&mut self, ty: &Ty, context: Context, value: &mut Value) {
        if value.is_null() {
            *value = zero::of(ty);
            return;
        }
        match ty {
            Ty::Object(id) => match value {
                Value::Object(map) => self.fields(id.get(), map),
                other => self.wrong_type(other, context),
            },
            Ty::List(item) => self.list(item, context, value),
            Ty::Map(item) => self.map(item, context, value),
            Ty::String | Ty::Duration if value.is_string() => {}
            Ty::Bool if value.is_boolean() => {}
            Ty::Int32 | Ty::Int64 | Ty::Float => self.number(ty, context, value),
            Ty::Bytes => self.bytes(context, value),
            Ty::Time => self.time(Precision::Seconds, context, value),
            Ty::MicroTime => self.time(Precision::Micros, context, value),
            Ty::Quantity => self.quantity(value),
            Ty::IntOrString => self.int_or_string(context, value),
            Ty::RawExtension | Ty::FieldsV1 | Ty::Json => {}
            Ty::SchemaOrArray | Ty::SchemaOrBool | Ty::SchemaOrStrings => self.schema(ty, value),
            Ty::String | Ty::Duration | Ty::Bool => self.wrong_type(value, context),
        }
    }

    fn list(&mut self, item: &Ty, context: Context, value: &mut Value) {
        let Value::Array(items) = value else {
            return self.wrong_type(value, context);
        };
        let inner = Context {
            declared: item_of(context.declared, "[]"),
            ..context
        };
        for (index, value) in items.iter_mut().enumerate() {
            self.path.push(Step::Index(index));
            self.value(item, inner, value);
            self.path.pop();
        }
    }

    fn map(&mut self, item: &Ty, context: Context, value: &mut Value) {
        let Value::Object(map) = value else {
            return self.wrong_type(value, context);
        };
        let inner = Context {
            declared: item_of(context.declared, "{}"),
            ..context
        };
        for (key, value) in map {
            if matches!(item, Ty::String) && value.is_string() {
                continue;
            }
            self.path.push(Step::Key(key.clone()));
            self.value(item, inner, value);
            self.path.pop();
        }
    }

    fn number(&mut self, ty: &Ty, context: Context, value: &mut Value) {
        let Value::Number(number) = value else {
            return self.wrong_type(value, context);
        };
        let fits = match ty {
            Ty::Int32 => number.as_i64().is_some_and(|n| i32::try_from(n).is_ok()),
            Ty::Int64 => number.as_i64().is_some(),
            _ => true,
        };
        if !fits {
            let what = format!("number {number}");
            self.mismatch(&what, context, &go_type(context.declared));
        }
    }

    fn bytes(&mut self, context: Context, value: &mut Value) {
        match value.as_str() {
            None => self.wrong_type(value, context),
            Some(text) => {
                if let Err(error) = crate::base64::decode(text) {
                    self.fail(|| error.to_string());
                }
            }
        }
    }

    fn time(&mut self, precision: Precision, context: Context, value: &mut Value) {
        let Some(text) = value.as_str() else {
            let what = word(value);
            return self.mismatch(what, context, "string");
        };
        match time::parse(text, precision) {
            Ok(moment) => *value = time::format(moment, precision).into(),
            Err(error) => self.fail(|| error),
        }
    }

    fn quantity(&mut self, value: &mut Value) {
        let text = match &*value {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        match Quantity::parse(&text) {
            Ok(quantity) => *value = quantity.canonical().into(),
            Err(error) => self.fail(|| error.to_owned()),
        }
    }

    fn int_or_string(&mut self, context: Context, value: &mut Value) {
        match value {
            Value::String(_) => {}
            Value::Number(number) if number.as_i64().is_some_and(|n| i32::try_from(n).is_ok()) => {}
            Value::Number(number) => {
                let what = format!("number {number}");
                self.mismatch(&what, context, "int32");
            }
            other => {
                let what = word(other);
                self.mismatch(what, context, "int32");
            }
        }
    }

    /// The parts of a JSON schema that may be one thing or another; what is neither is dropped.
    fn schema(&mut self, ty: &Ty, value: &mut Value) {
        let Some(id) = types::find("apiextensions.v1.JSONSchemaProps") else {
            return;
        };
        self.quiet += 1;
        match value {
            Value::Object(map) => self.fields(id.get(), map),
            Value::Array(items) if *ty == Ty::SchemaOrArray => {
                for map in items.iter_mut().filter_map(Value::as_object_mut) {
                    self.fields(id.get(), map);
                }
            }
            Value::Array(_) if *ty == Ty::SchemaOrStrings => {}
            Value::Bool(_) if *ty == Ty::SchemaOrBool => {}
            other => *other = Value::Null,
        }
        self.quiet -= 1;
    }

    fn wrong_type(&mut self, value: &Value, context: Context) {
        self.mismatch(word(value), context, &go_type(context.declared));
    }

    fn mismatch(&mut self, what: &str, context: Context, target: &str) {
        let field = self.field_path();
        let owner = context.owner.short_name();
        self.fail(|| {
            format!("json: cannot unmarshal {what} into Go struct field {owner}.{field} of type {target}")
        });
    }

    fn fail(&mut self, error: impl FnOnce() -> String) {
        if self.error.is_none() {
            self.error = Some(error());
        }
    }

    /// Fields only, as Go's decoding errors have them.
    fn field_path(&self) -> String {
        let mut out = String::new();
        for step in &self.path {
            let Step::Field(name, inlined) = step else {
                continue;
            };
            for part in [inlined, name].into_iter().filter(|p| !p.is_empty()) {
                if !out.is_empty() {
                    out.push('.');
                }
                out.push_str(part);
            }
        }
        out
    }

    /// Fields, keys and indices, as strict decoding errors have them.
    fn strict_path(&self, last: &str) -> String {
        let mut out = String::new();
        for step in &self.path {
            match step {
                Step::Index(index) => out.push_str(&format!("[{index}]")),
                Step::Field(name, _) => push_name(&mut out, name),
                Step::Key(name) => push_name(&mut out, name),
            }
        }
        push_name(&mut out, last);
        out
    }
}

fn push_name(out: &mut String, name: &str) {
    if !out.is_empty() {
        out.push('.');
    }
    out.push_str(name);
}

#[derive(Clone, Copy)]
struct Context {
    owner: &'static Type,
    declared: &'static str,
}

/// The declaration of a list's or map's items; behind a name such as `ResourceList` it is looked up.
fn item_of(declared: &'static str, prefix: &str) -> &'static str {
    match declared.strip_prefix(prefix) {
        Some(item) => item,
        None => types::alias(declared)
            .and_then(|target| target.strip_prefix(prefix))
            .unwrap_or("string"),
    }
}

/// What Go calls a JSON value in its errors.
fn word(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// `[]core.v1.Container` as Go prints it: `[]v1.Container`.
fn go_type(declared: &str) -> String {
    if let Some(item) = declared.strip_prefix("[]") {
        return format!("[]{}", go_type(item));
    }
    if let Some(item) = declared.strip_prefix("{}") {
        return format!("map[string]{}", go_type(item));
    }
    if declared == "bytes" {
        return "[]uint8".to_owned();
    }
    match declared.rsplitn(3, '.').collect::<Vec<_>>().as_slice() {
        [name, package, ..] => format!("{package}.{name}"),
        _ => declared.to_owned(),
    }
}

#[cfg(test)]
mod tests;
