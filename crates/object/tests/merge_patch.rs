//! JSON merge patches, and making them.

#![expect(clippy::unwrap_used, reason = "tests")]

use serde_json::{Value, json};
use skopos_object::{diff_merge, merge_patch};

fn parse(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

fn check(document: &str, patch: &str, expect: &str) {
    let mut merged = parse(document);
    merge_patch(&mut merged, &parse(patch)).unwrap();
    assert_eq!(merged, parse(expect), "{document} with {patch}");
}

#[test]
fn merges_objects_and_replaces_the_rest() {
    check(r#"{"a":1}"#, r#"{"a":2}"#, r#"{"a":2}"#);
    check(r#"{"a":1}"#, r#"{"b":2}"#, r#"{"a":1,"b":2}"#);
    check(r#"{"a":1,"b":2}"#, r#"{"a":null}"#, r#"{"b":2}"#);
    check(
        r#"{"a":{"b":1,"c":2}}"#,
        r#"{"a":{"b":null,"d":{"e":null}}}"#,
        r#"{"a":{"c":2,"d":{}}}"#,
    );
    check(r#"{"a":[1,2]}"#, r#"{"a":[3]}"#, r#"{"a":[3]}"#);
    check(r#"{"a":1}"#, r#"{"a":{"b":null,"c":1}}"#, r#"{"a":{"c":1}}"#);
    check(r#"{"a":null}"#, r#"{"a":{"b":null}}"#, r#"{"a":{}}"#);
    check(r#"{"a":1}"#, "{}", r#"{"a":1}"#);
}

#[test]
fn drops_nulls_in_lists_unless_an_object_was_there() {
    let list = r#"{"a":[{"x":null,"y":1},null]}"#;
    check("{}", list, r#"{"a":[{"y":1},null]}"#);
    check(r#"{"a":[1]}"#, list, r#"{"a":[{"y":1},null]}"#);
    check(r#"{"a":{}}"#, list, list);
}

#[test]
fn refuses_what_is_not_an_object() {
    let error = merge_patch(&mut json!({}), &json!([])).unwrap_err();
    assert_eq!(
        error.to_string(),
        "error decoding patch: json: cannot unmarshal array into Go value of type map[string]interface {}"
    );
    assert_eq!(
        merge_patch(&mut json!({}), &json!(null)).unwrap_err().to_string(),
        "Invalid JSON Patch"
    );
}

#[test]
fn makes_the_smallest_patch() {
    for (old, new, expect) in [
        (
            r#"{"a":1,"b":{"c":1,"d":2}}"#,
            r#"{"a":1,"b":{"c":2,"d":2}}"#,
            r#"{"b":{"c":2}}"#,
        ),
        (r#"{"a":1}"#, "{}", r#"{"a":null}"#),
        (r#"{"a":[1]}"#, r#"{"a":[1,2]}"#, r#"{"a":[1,2]}"#),
        (r#"{"a":{}}"#, r#"{"a":1}"#, r#"{"a":1}"#),
        (r#"{"a":{"b":1}}"#, r#"{"a":{"b":1}}"#, "{}"),
    ] {
        assert_eq!(diff_merge(&parse(old), &parse(new)), parse(expect));
    }
}
