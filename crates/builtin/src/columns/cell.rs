//! Pieces that many cells are made of.

use serde_json::Value;

use crate::time;

/// The age of a timestamp as a cell.
pub(super) fn age(since: &Value, now: i64) -> Value {
    time::age(since, now).into()
}

/// The age of an object.
pub(super) fn age_of(object: &Value, now: i64) -> Value {
    age(&object["metadata"]["creationTimestamp"], now)
}

/// The name of an object as a cell.
pub(super) fn name_of(object: &Value) -> Value {
    text(&object["metadata"]["name"]).into()
}

/// A string member, empty when absent.
pub(super) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// A string member, or a word for none.
pub(super) fn text_or<'a>(value: &'a Value, none: &'a str) -> &'a str {
    value.as_str().filter(|t| !t.is_empty()).unwrap_or(none)
}

/// A number member, zero when absent.
pub(super) fn number(value: &Value) -> i64 {
    value.as_i64().unwrap_or(0)
}

/// The items of a list member.
pub(super) fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

/// How many members a map or list has.
pub(super) fn count(value: &Value) -> usize {
    value
        .as_object()
        .map(serde_json::Map::len)
        .or(value.as_array().map(Vec::len))
        .unwrap_or(0)
}

/// An integer or string as text.
pub(super) fn display(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Joins the strings that a function finds in list items.
pub(super) fn join<'a>(items: &'a [Value], separator: &str, part: impl Fn(&'a Value) -> &'a str) -> String {
    items.iter().map(part).collect::<Vec<_>>().join(separator)
}

/// Names and images of containers.
pub(super) fn containers(spec: &Value) -> [Value; 2] {
    let containers = list(&spec["containers"]);
    [
        join(containers, ",", |c| text(&c["name"])).into(),
        join(containers, ",", |c| text(&c["image"])).into(),
    ]
}

/// `a=b,c=d`, or `<none>`.
pub(super) fn labels(labels: &Value) -> String {
    let Some(map) = labels.as_object().filter(|map| !map.is_empty()) else {
        return "<none>".to_owned();
    };
    map.iter()
        .map(|(key, value)| format!("{key}={}", text(value)))
        .collect::<Vec<_>>()
        .join(",")
}

/// A label selector in its short form; `<none>` when it selects everything.
pub(super) fn selector(selector: &Value) -> String {
    if selector.is_null() {
        return "<none>".to_owned();
    }
    // Requirements print sorted by key, labels among expressions.
    let mut parts: Vec<(String, String)> = Vec::new();
    for (key, value) in selector["matchLabels"].as_object().into_iter().flatten() {
        parts.push((key.clone(), format!("{key}={}", text(value))));
    }
    for expression in list(&selector["matchExpressions"]) {
        let key = text(&expression["key"]);
        let mut values: Vec<&str> = list(&expression["values"]).iter().map(text).collect();
        values.sort_unstable();
        let values = values.join(",");
        let shown = match text(&expression["operator"]) {
            "In" => format!("{key} in ({values})"),
            "NotIn" => format!("{key} notin ({values})"),
            "Exists" => key.to_owned(),
            "DoesNotExist" => format!("!{key}"),
            _ => return "<error>".to_owned(),
        };
        parts.push((key.to_owned(), shown));
    }
    if parts.is_empty() {
        return "<none>".to_owned();
    }
    parts.sort_by(|a, b| a.0.cmp(&b.0));
    parts
        .into_iter()
        .map(|(_, shown)| shown)
        .collect::<Vec<_>>()
        .join(",")
}

/// At most three items, then how many more there are.
pub(super) fn first_three(items: &[String], none: &str) -> String {
    if items.len() > 3 {
        return format!("{} + {} more...", items[..3].join(","), items.len() - 3);
    }
    let all = items.join(",");
    if all.is_empty() { none.to_owned() } else { all }
}
