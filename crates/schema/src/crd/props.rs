//! A view of JSONSchemaProps as Go's typed decoder would see it: what is missing is zero.

use std::sync::LazyLock;

use serde_json::{Map, Value};

static NOTHING: LazyLock<Map<String, Value>> = LazyLock::new(Map::new);

/// A JSON object whose missing fields are zero values. Most often a schema.
#[derive(Debug, Clone, Copy)]
pub(super) struct Props<'a>(pub(super) &'a Map<String, Value>);

/// `items` of a schema.
pub(super) enum Items<'a> {
    None,
    One(Props<'a>),
    Many(&'a [Value]),
}

/// `additionalProperties` of a schema.
#[derive(Clone, Copy)]
pub(super) enum AdditionalProps<'a> {
    Unset,
    Bool(bool),
    Schema(Props<'a>),
}

impl<'a> Props<'a> {
    pub(super) fn of(value: Option<&'a Value>) -> Props<'a> {
        Props(value.and_then(Value::as_object).unwrap_or(&NOTHING))
    }

    /// The field, unless it is missing or null.
    pub(super) fn get(self, key: &str) -> Option<&'a Value> {
        self.0.get(key).filter(|value| !value.is_null())
    }

    pub(super) fn has(self, key: &str) -> bool {
        self.get(key).is_some()
    }

    pub(super) fn text(self, key: &str) -> &'a str {
        self.get(key).and_then(Value::as_str).unwrap_or_default()
    }

    /// Whether the field is given but zero: an empty text, an empty list, false.
    pub(super) fn is_zero(self, key: &str) -> bool {
        self.get(key).is_some_and(is_zero)
    }

    pub(super) fn flag(self, key: &str) -> bool {
        self.get(key).and_then(Value::as_bool).unwrap_or(false)
    }

    pub(super) fn list(self, key: &str) -> &'a [Value] {
        self.get(key).and_then(Value::as_array).map_or(&[], Vec::as_slice)
    }

    pub(super) fn texts(self, key: &str) -> impl Iterator<Item = &'a str> {
        self.list(key).iter().filter_map(Value::as_str)
    }

    pub(super) fn object(self, key: &str) -> Option<Props<'a>> {
        self.get(key).and_then(Value::as_object).map(Props)
    }

    /// The schemas in a list of schemas such as `allOf`.
    pub(super) fn schemas(self, key: &str) -> impl Iterator<Item = Props<'a>> {
        self.list(key).iter().map(|value| Props::of(Some(value)))
    }

    /// The schemas in a map of schemas such as `properties`, by name.
    pub(super) fn named(self, key: &str) -> impl Iterator<Item = (&'a str, Props<'a>)> {
        let map = self.object(key).map_or(&*NOTHING, |props| props.0);
        map.iter()
            .map(|(name, value)| (name.as_str(), Props::of(Some(value))))
    }

    pub(super) fn property(self, name: &str) -> Option<Props<'a>> {
        self.object("properties")?
            .0
            .get(name)
            .map(|value| Props::of(Some(value)))
    }

    pub(super) fn items(self) -> Items<'a> {
        match self.get("items") {
            None => Items::None,
            Some(Value::Array(list)) => Items::Many(list),
            Some(value) => Items::One(Props::of(Some(value))),
        }
    }

    pub(super) fn item(self) -> Option<Props<'a>> {
        match self.items() {
            Items::One(schema) => Some(schema),
            Items::None | Items::Many(_) => None,
        }
    }

    pub(super) fn additional(self) -> AdditionalProps<'a> {
        match self.get("additionalProperties") {
            None => AdditionalProps::Unset,
            Some(Value::Bool(allowed)) => AdditionalProps::Bool(*allowed),
            Some(value) => AdditionalProps::Schema(Props::of(Some(value))),
        }
    }

    pub(super) fn additional_schema(self) -> Option<Props<'a>> {
        match self.additional() {
            AdditionalProps::Schema(schema) => Some(schema),
            AdditionalProps::Unset | AdditionalProps::Bool(_) => None,
        }
    }

    /// Whether all fields but the named ones are zero values.
    pub(super) fn zero_except(self, keys: &[&str]) -> bool {
        self.0
            .iter()
            .all(|(key, value)| keys.contains(&key.as_str()) || is_zero(value))
    }

    /// Whether this schema or one inside it satisfies the predicate.
    pub(super) fn any(self, predicate: &mut impl FnMut(Props<'a>) -> bool) -> bool {
        if predicate(self) {
            return true;
        }
        let many = match self.items() {
            Items::None => Vec::new(),
            Items::One(schema) => vec![schema],
            Items::Many(list) => list.iter().map(|value| Props::of(Some(value))).collect(),
        };
        let mut children = many;
        for key in ["allOf", "anyOf", "oneOf"] {
            children.extend(self.schemas(key));
        }
        children.extend(self.object("not"));
        children.extend(self.named("properties").map(|(_, schema)| schema));
        children.extend(self.additional_schema());
        children.extend(self.named("patternProperties").map(|(_, schema)| schema));
        children.extend(self.object("additionalItems"));
        children.extend(self.named("definitions").map(|(_, schema)| schema));
        children.extend(self.named("dependencies").map(|(_, schema)| schema));
        children.into_iter().any(|child| child.any(predicate))
    }
}

fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(flag) => !flag,
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Number(_) | Value::Object(_) => false,
    }
}

/// Whether a value nests deeper than `limit`. Looks no deeper than that itself.
pub(super) fn nests_deeper_than(value: &Value, limit: usize) -> bool {
    let Some(below) = limit.checked_sub(1) else {
        return true;
    };
    match value {
        Value::Array(items) => items.iter().any(|item| nests_deeper_than(item, below)),
        Value::Object(map) => map.values().any(|item| nests_deeper_than(item, below)),
        _ => false,
    }
}
