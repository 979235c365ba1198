//! What differs between two answers, field by field.

use serde_json::Value;

/// One field that the two servers answered differently.
#[derive(Debug, Clone, PartialEq)]
pub struct Difference {
    /// The scenario.
    pub scenario: String,
    /// The request's name.
    pub request: String,
    /// Method and path.
    pub sent: String,
    /// Which part of the answer: `code`, `header.warning`, `body.spec.x`, `events[0].type`.
    pub part: String,
    /// What kube-apiserver said; nothing if it left the part out.
    pub real: Option<Value>,
    /// What the embedded server said.
    pub embedded: Option<Value>,
}

impl std::fmt::Display for Difference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(f, "{}: {} ({})", self.scenario, self.request, self.sent)?;
        writeln!(f, "  {}", self.part)?;
        writeln!(f, "    kube-apiserver  {}", shown(self.real.as_ref()))?;
        write!(f, "    embedded        {}", shown(self.embedded.as_ref()))
    }
}

/// A value in one line; long ones are cut.
fn shown(value: Option<&Value>) -> String {
    const LIMIT: usize = 700;
    let text = value.map_or_else(|| "(nothing)".to_owned(), Value::to_string);
    match text.char_indices().nth(LIMIT) {
        Some((end, _)) => format!("{}… ({} bytes)", &text[..end], text.len()),
        None => text,
    }
}

/// The parts that differ, each with both values. Answers with different codes differ in nothing else.
pub(super) fn differences(real: &Value, embedded: &Value) -> Vec<(String, Option<Value>, Option<Value>)> {
    let mut found = Vec::new();
    if real["code"] != embedded["code"] {
        return vec![("code".to_owned(), Some(summary(real)), Some(summary(embedded)))];
    }
    walk(String::new(), Some(real), Some(embedded), &mut found);
    found
}

/// The code and what the server said of it.
fn summary(answer: &Value) -> Value {
    let body = match answer.get("events") {
        Some(events) => &events[0],
        None => &answer["body"],
    };
    let said = body.get("message").unwrap_or(body);
    format!("{} {said}", answer["code"]).into()
}

type Found = Vec<(String, Option<Value>, Option<Value>)>;

fn walk(path: String, real: Option<&Value>, embedded: Option<&Value>, found: &mut Found) {
    match (real, embedded) {
        (Some(Value::Object(a)), Some(Value::Object(b))) => {
            let mut keys: Vec<&String> = a.keys().chain(b.keys()).collect();
            keys.sort();
            keys.dedup();
            for key in keys {
                walk(joined(&path, key), a.get(key), b.get(key), found);
            }
        }
        // Lists of one length are compared item by item; others are shown whole.
        (Some(Value::Array(a)), Some(Value::Array(b))) if a.len() == b.len() => {
            for (index, (a, b)) in a.iter().zip(b).enumerate() {
                walk(format!("{path}[{index}]"), Some(a), Some(b), found);
            }
        }
        (real, embedded) if real != embedded => found.push((path, real.cloned(), embedded.cloned())),
        _ => {}
    }
}

fn joined(path: &str, key: &str) -> String {
    match (path.is_empty(), key.contains(['.', '/', ' '])) {
        (_, true) => format!("{path}[{key:?}]"),
        (true, false) => key.to_owned(),
        (false, false) => format!("{path}.{key}"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn names_each_part_that_differs() {
        let real = json!({"code": 200, "body": {"items": [{"kind": "A"}], "x": 1, "a/b": 1}});
        let ours = json!({"code": 200, "body": {"items": [{}], "x": 1, "a/b": 2}});
        let parts: Vec<String> = differences(&real, &ours)
            .into_iter()
            .map(|found| found.0)
            .collect();
        assert_eq!(parts, [r#"body["a/b"]"#, "body.items[0].kind"]);
    }
}
