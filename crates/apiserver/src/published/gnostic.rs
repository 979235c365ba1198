//! Writes OpenAPI v2 as protobuf, in the messages of `gnostic` that Go clients ask for.
//!
//! Only what our own documents hold is written. Values without a message of their own travel as YAML text, for
//! which JSON does.

use serde_json::{Map, Value};

use crate::present::Message;

/// A whole document from its parts: `paths` and `definitions` as [`named`] wrote them.
pub(super) fn document(title: &str, version: &str, paths: &[u8], definitions: &[u8]) -> Vec<u8> {
    Message::new()
        .string(1, "2.0")
        .message(2, Message::new().string(1, title).string(2, version))
        .bytes(8, paths)
        .bytes(9, definitions)
        .finish()
}

/// One path for the message `Paths`.
pub(super) fn named_path(path: &str, item: &Value) -> Vec<u8> {
    Message::new().message(2, named(path, path_item(item))).finish()
}

/// One schema for the message `Definitions`.
pub(super) fn named_definition(name: &str, value: &Value) -> Vec<u8> {
    Message::new().message(1, named(name, schema(value))).finish()
}

fn named(name: &str, value: Message) -> Message {
    Message::new().string(1, name).message(2, value)
}

fn path_item(item: &Value) -> Message {
    let mut message = Message::new();
    for (field, method) in [(2, "get"), (3, "put"), (4, "post"), (5, "delete"), (8, "patch")] {
        if let Some(found) = item.get(method) {
            message = message.message(field, operation(found));
        }
    }
    array(item, "parameters")
        .iter()
        .fold(message, |message, found| message.message(9, parameter(found)))
}

fn operation(value: &Value) -> Message {
    let mut message = Message::new()
        .strings(1, strings(value, "tags"))
        .string(5, text(value, "operationId"))
        .strings(6, strings(value, "produces"))
        .strings(7, strings(value, "consumes"));
    for found in array(value, "parameters") {
        message = message.message(8, parameter(found));
    }
    message = message
        .message(9, responses(value.get("responses")))
        .strings(10, strings(value, "schemes"));
    extensions(message, 13, value)
}

fn responses(value: Option<&Value>) -> Message {
    entries(value).fold(Message::new(), |message, (code, response)| {
        let mut found = Message::new().string(1, text(response, "description"));
        if let Some(answer) = response.get("schema") {
            found = found.message(2, Message::new().message(1, schema(answer)));
        }
        message.message(1, named(code, Message::new().message(1, found)))
    })
}

/// A `ParametersItem`.
fn parameter(value: &Value) -> Message {
    let name = text(value, "name");
    let required = value.get("required").is_some_and(|required| required == true);
    let inner = if text(value, "in") == "body" {
        let mut body = Message::new().string(2, name).string(3, "body").flag(4, required);
        if let Some(found) = value.get("schema") {
            body = body.message(5, schema(found));
        }
        Message::new().message(1, body)
    } else {
        Message::new().message(2, plain_parameter(value, name, required))
    };
    Message::new().message(1, inner)
}

/// A `NonBodyParameter`: in the query or in the path, whose messages number their fields differently.
fn plain_parameter(value: &Value, name: &str, required: bool) -> Message {
    let place = text(value, "in");
    let common = Message::new().flag(1, required).string(2, place).string(4, name);
    let kind = text(value, "type");
    match place {
        "path" => Message::new().message(4, common.string(5, kind).flag(19, true)),
        _ => Message::new().message(3, common.string(6, kind).flag(20, true)),
    }
}

fn schema(value: &Value) -> Message {
    let mut message = Message::new();
    for (field, key) in [
        (1, "$ref"),
        (2, "format"),
        (3, "title"),
        (4, "description"),
        (13, "pattern"),
    ] {
        if let Some(found) = value.get(key).and_then(Value::as_str) {
            message = message.string(field, found);
        }
    }
    for (field, key) in [(6, "multipleOf"), (7, "maximum"), (9, "minimum")] {
        if let Some(found) = value.get(key).and_then(Value::as_f64) {
            message = message.double(field, found);
        }
    }
    message = whole_numbers_and_flags(message, value);
    message = message.strings(19, strings(value, "required"));
    for found in array(value, "enum") {
        message = message.message(20, any(found));
    }
    extensions(nested_schemas(message, value), 31, value)
}

fn whole_numbers_and_flags(mut message: Message, value: &Value) -> Message {
    for (field, key) in [
        (11, "maxLength"),
        (12, "minLength"),
        (14, "maxItems"),
        (15, "minItems"),
        (17, "maxProperties"),
        (18, "minProperties"),
    ] {
        if let Some(found) = value.get(key).and_then(Value::as_i64) {
            message = message.number(field, found);
        }
    }
    for (field, key) in [
        (8, "exclusiveMaximum"),
        (10, "exclusiveMinimum"),
        (16, "uniqueItems"),
    ] {
        if let Some(found) = value.get(key).and_then(Value::as_bool) {
            message = message.flag(field, found);
        }
    }
    message
}

fn nested_schemas(mut message: Message, value: &Value) -> Message {
    match value.get("additionalProperties") {
        Some(Value::Bool(allowed)) => message = message.message(21, Message::new().flag(2, *allowed)),
        Some(found) => message = message.message(21, Message::new().message(1, schema(found))),
        None => {}
    }
    if let Some(kind) = value.get("type").and_then(Value::as_str) {
        message = message.message(22, Message::new().string(1, kind));
    }
    if let Some(items) = value.get("items") {
        message = message.message(23, Message::new().message(1, schema(items)));
    }
    if let Some(properties) = value.get("properties") {
        let start = Message::new();
        let all = entries(Some(properties)).fold(start, |all, (name, property)| {
            all.message(1, named(name, schema(property)))
        });
        message = message.message(25, all);
    }
    message
}

fn extensions(message: Message, field: u32, value: &Value) -> Message {
    let found = entries(Some(value)).filter(|(name, _)| name.starts_with("x-"));
    found.fold(message, |message, (name, value)| {
        message.message(field, named(name, any(value)))
    })
}

fn any(value: &Value) -> Message {
    Message::new().string(2, &format!("{value}\n"))
}

fn entries(value: Option<&Value>) -> impl Iterator<Item = (&String, &Value)> {
    value.and_then(Value::as_object).into_iter().flat_map(Map::iter)
}

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value.get(name).and_then(Value::as_str).unwrap_or("")
}

fn array<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    value
        .get(name)
        .and_then(Value::as_array)
        .map_or(&[], Vec::as_slice)
}

fn strings<'a>(value: &'a Value, name: &str) -> impl Iterator<Item = &'a str> {
    array(value, name).iter().filter_map(Value::as_str)
}
