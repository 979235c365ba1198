//! Checks a value against a schema, with kube-apiserver's errors in kube-apiserver's order.

mod fault;
mod logic;
mod number;
mod ratchet;

use serde_json::Value;
use skopos_object::{FieldError, FieldErrorKind, FieldPath};

pub use self::ratchet::{find_item, unchanged};

use self::fault::{Fault, Faults};
use crate::format::FormatKind;
use crate::path::At;
use crate::structural::{Additional, Checks, Cursor, ListType, Structural, Type};

/// Checks `new` against the schema and returns what is wrong with it.
///
/// `path` is where the value stands in its object: the root, or `status` for a status update. With `old`,
/// errors of parts that the update leaves unchanged are not reported (ratcheting), as far as old and new
/// parts can be matched: fields by name, items of map lists by their keys, items of other lists not at all.
///
/// The order of all checks of a custom resource is: type (the caller's), object metadata
/// ([`crate::validate_resource_meta`]), this function and those beside it in [`crate::validate_resource`], and last
/// `x-kubernetes-validations`. Rules are not evaluated here; who evaluates them starts from [`Structural::rules`] and
/// skips them when [`blocks_rules`] says so.
///
/// # Examples
/// ```
/// use skopos_object::FieldPath;
/// use skopos_schema::{Structural, validate};
/// use serde_json::json;
/// let schema = Structural::from_json(&json!({
///     "type": "object", "properties": {"size": {"type": "integer", "minimum": 1}},
/// }))?;
/// let errors = validate(&schema, &FieldPath::root(), &json!({"size": 0}), None);
/// assert_eq!(
///     errors[0].to_string(),
///     "size: Invalid value: 0: size in body should be greater than or equal to 1",
/// );
/// # Ok::<(), skopos_schema::SchemaError>(())
/// ```
pub fn validate(schema: &Structural, path: &FieldPath, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut run = Run {
        faults: Faults::default(),
        types: Types::Served,
    };
    run.value(schema, &At::Root, new, old);
    run.faults.into_field_errors(path)
}

/// Checks the default of a schema node. Int-or-string is not a type there, as in kube-apiserver.
pub(crate) fn validate_default(schema: &Structural, path: &FieldPath, value: &Value) -> Vec<FieldError> {
    let mut run = Run {
        faults: Faults::default(),
        types: Types::Declared,
    };
    run.value(schema, &At::Root, value, None);
    run.faults.into_field_errors(path)
}

/// Whether these errors keep `x-kubernetes-validations` from being evaluated, and the error that says so.
pub fn blocks_rules(errors: &[FieldError]) -> Option<FieldError> {
    let blocking = errors.iter().any(|error| {
        matches!(
            error.kind,
            FieldErrorKind::NotSupported
                | FieldErrorKind::Required
                | FieldErrorKind::TooLong
                | FieldErrorKind::TooMany
                | FieldErrorKind::TypeInvalid
        )
    });
    blocking.then(|| {
        let why = "some validation rules were not checked because the object was invalid; correct the existing errors to complete validation";
        FieldError::invalid(&FieldPath::root(), Value::Null, why)
    })
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Types {
    /// Int-or-string means type integer or string.
    Served,
    /// Only the declared type counts.
    Declared,
}

/// One validation in progress.
///
/// Methods return how many checks matched: `anyOf` and `oneOf` report the errors of the branch that came
/// closest, and closeness is this count.
struct Run {
    faults: Faults,
    types: Types,
}

impl Run {
    /// Validates a value that may have an old counterpart, forgiving errors of unchanged values.
    fn value(&mut self, schema: &Structural, at: &At<'_>, new: &Value, old: Option<&Value>) -> u32 {
        let mark = self.faults.mark();
        let matched = self.node(schema, at, new, old);
        if let Some(old) = old
            && self.faults.any_since(mark)
            && unchanged(schema, new, old)
        {
            self.faults.cut(mark);
        }
        matched
    }

    fn node(&mut self, schema: &Structural, at: &At<'_>, value: &Value, old: Option<&Value>) -> u32 {
        let checks = schema.checks.as_deref();
        let format = checks.and_then(|checks| checks.format.as_ref());
        let mut matched = 0;
        let typed = self.declared(schema) != (None, None);
        if typed || format.is_some() || value.is_null() {
            matched += self.kind(schema, at, value);
        }
        if value.is_null() {
            self.enumeration(checks, at, value);
            return matched;
        }
        // Every validator that applies counts one, and so does the node itself.
        let applied = u32::from(typed || format.is_some());
        matched += 3 + applied + self.logic(checks, at, value);
        match value {
            Value::String(text) => {
                self.text(checks, at, text);
                matched += 1 + u32::from(matches!(format.map(|f| f.kind), Some(FormatKind::Text(_))));
            }
            Value::Number(number) => {
                self.number(schema, checks, at, number);
                matched += 2;
            }
            Value::Array(items) => {
                matched += 2 + self.items(schema, checks, at, items, old);
            }
            _ => {}
        }
        self.enumeration(checks, at, value);
        if let Value::Object(map) = value {
            matched += 1 + self.fields(schema, checks, at, map, old);
        }
        matched
    }

    fn declared(&self, schema: &Structural) -> (Option<Type>, Option<Type>) {
        match schema.int_or_string && self.types == Types::Served {
            true => (Some(Type::Integer), Some(Type::String)),
            false => (schema.declared, None),
        }
    }

    /// The type check. Returns how much it matched.
    fn kind(&mut self, schema: &Structural, at: &At<'_>, value: &Value) -> u32 {
        let (first, second) = self.declared(schema);
        let contains = |wanted: Type| first == Some(wanted) || second == Some(wanted);
        let names = || match (first, second) {
            (Some(first), Some(second)) => format!("{},{}", first.as_str(), second.as_str()),
            (Some(only), None) => only.as_str().to_owned(),
            _ => String::new(),
        };
        if value.is_null() {
            if first.is_some() && !schema.nullable {
                self.faults.push(|| Fault::wrong_type(at, &names(), "null"));
                return 0;
            }
            return 1;
        }
        let (actual, actual_format) = kind_of(value);
        let float_as_integer = actual == Type::Number
            && contains(Type::Integer)
            && value.as_f64().is_some_and(number::is_json_integer);
        let integer_as_number = actual == Type::Integer && contains(Type::Number);
        let fits = contains(actual) || float_as_integer || integer_as_number;
        let sequence = matches!(actual, Type::String | Type::Array);
        if let Some(format) = schema.checks.as_ref().and_then(|checks| checks.format.as_ref()) {
            if !sequence && !fits && actual_format != &*format.name {
                self.faults
                    .push(|| Fault::wrong_type(at, &format.name, actual_format));
                return 0;
            }
            // A text format takes lists for texts: so does kube-apiserver.
            if sequence && !contains(Type::Number) && !contains(Type::Integer) {
                return 1;
            }
        }
        if !fits {
            self.faults
                .push(|| Fault::wrong_type(at, &names(), actual.as_str()));
            return 0;
        }
        1
    }

    /// Length, pattern and format of a text. The first of length and pattern that fails ends that check.
    fn text(&mut self, checks: Option<&Checks>, at: &At<'_>, text: &str) {
        let Some(checks) = checks else { return };
        self.length_and_pattern(checks, at, text);
        if let Some(format) = &checks.format
            && let FormatKind::Text(kind) = format.kind
            && !kind.accepts(text)
        {
            self.faults.push(|| Fault::wrong_type(at, &format.name, text));
        }
    }

    fn length_and_pattern(&mut self, checks: &Checks, at: &At<'_>, text: &str) {
        if let Some(limits) = &checks.limits {
            let length = i64::try_from(text.chars().count()).unwrap_or(i64::MAX);
            if let Some(max) = limits.max_length.filter(|max| length > *max) {
                return self.faults.push(|| Fault::too_long(at, max));
            }
            if let Some(min) = limits.min_length.filter(|min| length < *min) {
                let why = format!("should be at least {min} chars long");
                return self.faults.push(|| Fault::invalid(at, text.into(), &why));
            }
        }
        let Some(pattern) = &checks.pattern else { return };
        match pattern.matches(text) {
            Ok(true) => {}
            Ok(false) => {
                let why = || format!("should match '{}'", pattern.source());
                self.faults.push(|| Fault::invalid(at, text.into(), &why()));
            }
            Err(error) => {
                let why = || {
                    format!(
                        "should match '{}, but pattern is invalid: {error}'",
                        pattern.source()
                    )
                };
                self.faults.push(|| Fault::invalid(at, text.into(), &why()));
            }
        }
    }

    fn items(
        &mut self,
        schema: &Structural,
        checks: Option<&Checks>,
        at: &At<'_>,
        items: &[Value],
        old: Option<&Value>,
    ) -> u32 {
        let mut matched = 0;
        if let Some(item_schema) = schema.items() {
            let by_key = old
                .and_then(Value::as_array)
                .filter(|_| schema.list_type == Some(ListType::Map));
            for (index, item) in items.iter().enumerate() {
                let old_item = by_key.and_then(|old| find_item(schema, old, item));
                matched += self.value(item_schema, &At::Index(at, index), item, old_item);
            }
        }
        let Some(limits) = checks.and_then(|checks| checks.limits.as_deref()) else {
            return matched;
        };
        let size = i64::try_from(items.len()).unwrap_or(i64::MAX);
        if let Some(min) = limits.min_items.filter(|min| size < *min) {
            self.faults
                .push(|| Fault::invalid(at, size.into(), &format!("should have at least {min} items")));
        }
        if let Some(max) = limits.max_items.filter(|max| size > *max) {
            self.faults.push(|| Fault::too_many(at, size, max, "items"));
        }
        if limits.unique_items && has_repetition(items) {
            self.faults
                .push(|| Fault::invalid(at, "".into(), "shouldn't contain duplicates"));
        }
        matched
    }

    fn fields(
        &mut self,
        schema: &Structural,
        checks: Option<&Checks>,
        at: &At<'_>,
        map: &serde_json::Map<String, Value>,
        old: Option<&Value>,
    ) -> u32 {
        self.property_count(checks, at, map.len());
        let old = old.and_then(Value::as_object);
        let mut matched = self.additional_fields(schema, at, map, old);
        let mut cursor = Cursor::new(schema);
        for (name, field) in map {
            let Some(property) = cursor.seek(name) else {
                continue;
            };
            // A version change is not visible in old and new, so the root's type is never forgiven.
            let type_meta = matches!(at, At::Root) && matches!(name.as_str(), "apiVersion" | "kind");
            let old_field = old.filter(|_| !type_meta).and_then(|old| old.get(name));
            matched += self.value(property, &At::Field(at, name), field, old_field);
        }
        for name in checks.map_or(&[][..], |checks| &checks.required) {
            if !map.contains_key(name.as_ref()) {
                self.faults.push(|| Fault::required(&At::Key(at, name)));
            }
        }
        matched
    }

    fn additional_fields(
        &mut self,
        schema: &Structural,
        at: &At<'_>,
        map: &serde_json::Map<String, Value>,
        old: Option<&serde_json::Map<String, Value>>,
    ) -> u32 {
        let mut matched = 0;
        let mut cursor = Cursor::new(schema);
        match &schema.additional {
            Additional::Unset | Additional::Bool(true) => {}
            Additional::Bool(false) => {
                for name in map.keys().filter(|name| cursor.seek(name).is_none()) {
                    self.faults.push(|| Fault::forbidden_property(at, name));
                }
            }
            Additional::Schema(values) => {
                for (name, field) in map {
                    if cursor.seek(name).is_none() {
                        let old_field = old.and_then(|old| old.get(name));
                        matched += self.value(values, &At::Key(at, name), field, old_field);
                    }
                }
            }
        }
        matched
    }

    fn property_count(&mut self, checks: Option<&Checks>, at: &At<'_>, size: usize) {
        let Some(limits) = checks.and_then(|checks| checks.limits.as_deref()) else {
            return;
        };
        let size = i64::try_from(size).unwrap_or(i64::MAX);
        if let Some(min) = limits.min_properties.filter(|min| size < *min) {
            let why = format!("should have at least {min} properties");
            self.faults.push(|| Fault::invalid(at, size.into(), &why));
        }
        if let Some(max) = limits.max_properties.filter(|max| size > *max) {
            self.faults.push(|| Fault::too_many(at, size, max, "properties"));
        }
    }

    fn enumeration(&mut self, checks: Option<&Checks>, at: &At<'_>, value: &Value) {
        let Some(checks) = checks.filter(|checks| !checks.enumeration.is_empty()) else {
            return;
        };
        if !checks
            .enumeration
            .iter()
            .any(|allowed| number::equal_when_converted(value, allowed))
        {
            self.faults
                .push(|| Fault::not_supported(at, value, &checks.enumeration));
        }
    }
}

/// The JSON type of a value and the format that goes with it.
fn kind_of(value: &Value) -> (Type, &'static str) {
    match value {
        Value::Bool(_) => (Type::Boolean, ""),
        Value::Number(number) if number.is_i64() => (Type::Integer, "int64"),
        Value::Number(_) => (Type::Number, "float64"),
        Value::String(_) => (Type::String, ""),
        Value::Array(_) => (Type::Array, ""),
        // Null is handled before anyone asks.
        Value::Object(_) | Value::Null => (Type::Object, ""),
    }
}

fn has_repetition(items: &[Value]) -> bool {
    let mut seen = std::collections::HashSet::with_capacity(items.len());
    items.iter().any(|item| !seen.insert(item.to_string()))
}
