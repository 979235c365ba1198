//! What rules do with changes.

#![expect(clippy::unwrap_used, reason = "tests")]

mod compiling;
mod edges;
mod explaining;
mod guarding;
mod guide;
mod matching;
mod sending;
mod testing;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use skopos_api::RuleSpec;
use skopos_journal::{Entry, Observed, Seq};
use skopos_object::{GroupVersionKind, Object, ObjectKey, Op, ResourceVersion};
use skopos_react::rule::{CompiledRule, Evaluation, Origin, Subject};

/// The specification of a rule, written as its user would; `do` may be left out.
fn spec(yaml: &str) -> RuleSpec {
    let mut value = skopos_object::yaml::decode(yaml.as_bytes()).unwrap().value;
    if value.get("do").is_none() {
        value["do"] = json!([{"sink": "out"}]);
    }
    serde_json::from_value(value).unwrap()
}

fn rule(yaml: &str) -> CompiledRule {
    let compiled = CompiledRule::compile(Origin::file("ops", "test"), &spec(yaml), None);
    compiled.unwrap_or_else(|problems| panic!("{problems:?}"))
}

/// A rule on widgets with a condition.
fn when(expression: &str) -> CompiledRule {
    let watch = json!({"watch": {"group": "example.com", "kind": "Widget"}, "when": expression});
    rule(&watch.to_string())
}

fn widget(content: &Value) -> Value {
    let mut object = json!({
        "apiVersion": "example.com/v1", "kind": "Widget",
        "metadata": {"name": "a", "namespace": "team", "uid": "u1", "resourceVersion": "7"},
    });
    merge(&mut object, content);
    object
}

fn merge(into: &mut Value, from: &Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (key, value) in from {
                merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (into, from) => *into = from.clone(),
    }
}

fn at(second: i64) -> Timestamp {
    "2026-01-01T00:00:00Z".parse::<Timestamp>().unwrap() + SignedDuration::from_secs(second)
}

/// A change of a widget at a second.
fn change(second: i64, before: Option<&Value>, after: Option<&Value>) -> Entry {
    let object = |content: &Value| Object::from_value(&widget(content)).unwrap();
    let (before, after) = (before.map(object), after.map(object));
    let newest = after.as_ref().or(before.as_ref()).unwrap();
    Entry {
        seq: Seq(u64::try_from(second).unwrap() + 1),
        at: at(second),
        op: match (&before, &after) {
            (None, _) => Op::Created,
            (_, None) => Op::Deleted,
            _ => Op::Updated,
        },
        source: "prod".to_owned(),
        kind: GroupVersionKind::new("example.com", "v1", "Widget"),
        plural: "widgets".to_owned(),
        key: ObjectKey::namespaced("team", newest.name()),
        uid: newest.uid().to_owned(),
        version: ResourceVersion::from(newest.resource_version().to_string().as_str()),
        observed: Observed::Live,
        by: Vec::new(),
        before,
        after,
    }
}

fn evaluate(rule: &CompiledRule, entry: &Entry) -> Evaluation {
    rule.evaluate(&Subject::new(entry), None)
}

fn matches(rule: &CompiledRule, before: Option<&Value>, after: Option<&Value>) -> bool {
    let found = evaluate(rule, &change(1, before, after));
    assert_eq!(found.error, None);
    found.matched
}
