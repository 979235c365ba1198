//! Replays what kube-apiserver 1.36 said to values of custom resources.
//!
//! Each file in `recorded/` holds cases of one subject: the schema of `spec.v`, its value, and what the server
//! answered: the errors, or the value it stored, and the fields it did not know. Fields of one object come in
//! any order from the server, so messages are compared as a set.

#![expect(clippy::unwrap_used, reason = "tests")]

use serde_json::{Value, json};
use skopos_object::FieldPath;
use skopos_schema::{
    Invalid, Root, Structural, coerce_embedded, default, prune, prune_nulls, validate, validate_embedded,
    validate_list_types,
};

fn root_schema(schema: &Value) -> Structural {
    let spec = json!({"type": "object", "properties": {"v": schema}});
    Structural::from_json(&json!({"type": "object", "properties": {"spec": spec}})).unwrap()
}

fn object(value: &Value) -> Value {
    json!({"apiVersion": "g.example.com/v1", "kind": "Case", "metadata": {"name": "x"}, "spec": {"v": value}})
}

/// Runs the passes of a write and returns the errors and the unknown fields.
fn admit(schema: &Structural, object: &mut Value, old: Option<&Value>) -> (Vec<String>, Vec<String>) {
    let mut unknown = prune(schema, object, Root::Resource);
    prune_nulls(schema, object);
    match coerce_embedded(schema, object, Root::Plain, Invalid::Reject) {
        Ok(more) => unknown.extend(more),
        Err(error) => {
            let why = format!("400 Case in version \"v1\" cannot be handled as a Case: {error}");
            return (vec![why], unknown);
        }
    }
    default(schema, object);
    let mut errors = validate(schema, &FieldPath::root(), object, old);
    errors.extend(validate_embedded(schema, &FieldPath::root(), object, Root::Plain));
    errors.extend(validate_list_types(schema, object, old));
    (errors.iter().map(ToString::to_string).collect(), unknown)
}

fn sorted(list: &Value) -> Vec<String> {
    let mut texts: Vec<String> = list
        .as_array()
        .into_iter()
        .flatten()
        .map(|text| text.as_str().unwrap().to_owned())
        .collect();
    texts.sort();
    texts
}

fn check(case: &Value) -> Option<String> {
    let schema = root_schema(&case["schema"]);
    let mut new = object(&case["value"]);
    let old = case.get("old").map(|old| {
        // What is stored was pruned by the schema of today when it was read.
        let mut old = object(old);
        prune(&schema, &mut old, Root::Resource);
        old
    });
    let (mut errors, unknown) = admit(&schema, &mut new, old.as_ref());
    errors.sort();
    let name = &case["name"];
    let expected = sorted(&case["errors"]);
    if errors != expected {
        return Some(format!(
            "{name} {}:\n  said     {errors:#?}\n  expected {expected:#?}",
            case["value"]
        ));
    }
    if expected.is_empty()
        && new["spec"].get("v") != case.get("result").filter(|_| case.get("gone").is_none())
    {
        return Some(format!(
            "{name}: stored {}, expected {:?}",
            new["spec"],
            case.get("result")
        ));
    }
    // A server that could not decode the object does not list unknown fields.
    let decoded = !expected.iter().any(|error| error.starts_with("400 "));
    let expected = sorted(&case["unknown"]);
    if decoded && unknown != expected {
        return Some(format!("{name}: unknown {unknown:?}, expected {expected:?}"));
    }
    None
}

fn replay(cases: &str) {
    let cases: Vec<Value> = serde_json::from_str(cases).unwrap();
    assert!(!cases.is_empty());
    let failures: Vec<String> = cases.iter().filter_map(check).collect();
    assert!(
        failures.is_empty(),
        "{} of {} differ:\n{}",
        failures.len(),
        cases.len(),
        failures.join("\n")
    );
}

#[test]
fn types_are_checked_in_the_words_of_kube_apiserver() {
    replay(include_str!("recorded/types.json"));
}

#[test]
fn fields_nulls_and_property_counts_are_checked() {
    replay(include_str!("recorded/objects.json"));
}

#[test]
fn texts_are_checked_for_length_pattern_and_choice() {
    replay(include_str!("recorded/strings.json"));
}

#[test]
fn enumerations_compare_in_the_type_of_their_members() {
    replay(include_str!("recorded/enums.json"));
}

#[test]
fn numbers_are_checked_against_bounds_and_factors() {
    replay(include_str!("recorded/numbers.json"));
}

#[test]
fn lists_are_checked_for_count_and_uniqueness() {
    replay(include_str!("recorded/arrays.json"));
}

#[test]
fn junctors_report_the_closest_branch() {
    replay(include_str!("recorded/logic.json"));
}

#[test]
fn unknown_fields_are_pruned_and_listed() {
    replay(include_str!("recorded/pruning.json"));
}

#[test]
fn defaults_fill_missing_fields_and_nulls() {
    replay(include_str!("recorded/defaults.json"));
}

#[test]
fn embedded_resources_are_coerced_and_checked() {
    replay(include_str!("recorded/embedded.json"));
}

#[test]
fn text_formats_accept_what_go_accepts() {
    replay(include_str!("recorded/formats.json"));
}

#[test]
fn updates_forgive_what_they_do_not_change() {
    replay(include_str!("recorded/updates.json"));
}
