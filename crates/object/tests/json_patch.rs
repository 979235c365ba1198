//! JSON patches: what they do, what the API server does differently from RFC 6902, and how they fail.

#![expect(clippy::unwrap_used, reason = "tests")]

use serde_json::{Value, json};
use skopos_object::{JsonPatch, MAX_COPY_BYTES, MAX_OPERATIONS, Reason, Status, json_patch};

fn parse(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

fn apply(document: &str, patch: &str) -> Result<Value, String> {
    let mut document = parse(document);
    let patch = JsonPatch::parse(&parse(patch)).map_err(|error| error.to_string())?;
    json_patch(&mut document, &patch).map_err(|error| error.to_string())?;
    Ok(document)
}

fn check(document: &str, operation: &str, expect: &str) {
    assert_eq!(
        apply(document, &format!("[{operation}]")),
        Ok(parse(expect)),
        "{operation}"
    );
}

#[test]
fn applies_operations() {
    check(
        r#"{"a":1}"#,
        r#"{"op":"add","path":"/b","value":2}"#,
        r#"{"a":1,"b":2}"#,
    );
    check(
        r#"{"a":1}"#,
        r#"{"op":"add","path":"/a","value":2}"#,
        r#"{"a":2}"#,
    );
    check(
        r#"{"a":[1,3]}"#,
        r#"{"op":"add","path":"/a/1","value":2}"#,
        r#"{"a":[1,2,3]}"#,
    );
    check(
        r#"{"a":[1]}"#,
        r#"{"op":"add","path":"/a/1","value":2}"#,
        r#"{"a":[1,2]}"#,
    );
    check(
        r#"{"a":[1]}"#,
        r#"{"op":"add","path":"/a/-","value":2}"#,
        r#"{"a":[1,2]}"#,
    );
    check(r#"{"a":1}"#, r#"{"op":"remove","path":"/a"}"#, "{}");
    check(
        r#"{"a":[1,2]}"#,
        r#"{"op":"remove","path":"/a/0"}"#,
        r#"{"a":[2]}"#,
    );
    check(
        r#"{"a":{"b":1}}"#,
        r#"{"op":"replace","path":"/a/b","value":2}"#,
        r#"{"a":{"b":2}}"#,
    );
    check(
        r#"{"a":1}"#,
        r#"{"op":"replace","path":"","value":{"b":1}}"#,
        r#"{"b":1}"#,
    );
    check(
        r#"{"a":1}"#,
        r#"{"op":"move","from":"/a","path":"/b"}"#,
        r#"{"b":1}"#,
    );
    check(
        r#"{"a":[1]}"#,
        r#"{"op":"copy","from":"/a","path":"/a/0"}"#,
        r#"{"a":[[1],1]}"#,
    );
    check(
        r#"{"a":[1]}"#,
        r#"{"op":"test","path":"/a","value":[1]}"#,
        r#"{"a":[1]}"#,
    );
    check(r#"{"a~/b":1}"#, r#"{"op":"remove","path":"/a~0~1b"}"#, "{}");
    check(r#"{"":{"":1}}"#, r#"{"op":"remove","path":"//"}"#, r#"{"":{}}"#);
    check(r#"{"a":1}"#, "", r#"{"a":1}"#);
    assert_eq!(apply("{}", "null"), Ok(json!({})));
}

#[test]
fn has_the_corner_cases_of_the_api_server() {
    check(
        r#"{"a":[1,2]}"#,
        r#"{"op":"replace","path":"/a/-1","value":3}"#,
        r#"{"a":[1,3]}"#,
    );
    check(
        r#"{"a":[1,2]}"#,
        r#"{"op":"add","path":"/a/-1","value":3}"#,
        r#"{"a":[1,2,3]}"#,
    );
    check("{}", r#"{"op":"replace","path":"/a","value":3}"#, r#"{"a":3}"#);
    check("{}", r#"{"op":"copy","from":"/a","path":"/b"}"#, r#"{"b":null}"#);
    check("{}", r#"{"op":"test","path":"/a","value":null}"#, "{}");
    check("{}", r#"{"op":"test","path":"/a"}"#, "{}");
    check("{}", r#"{"op":"add","path":"/a"}"#, r#"{"a":null}"#);
    check("{}", r#"{"op":"add","path":"ignored/a","value":1}"#, r#"{"a":1}"#);
}

fn refuse(operation: &str, expect: &str) {
    let document = r#"{"s":"t","l":[1,2],"o":{}}"#;
    assert_eq!(apply(document, &format!("[{operation}]")), Err(expect.to_owned()));
}

#[test]
fn explains_an_add_that_does_not_apply() {
    for path in ["/x/y", "/s/y", ""] {
        refuse(
            &format!(r#"{{"op":"add","path":"{path}","value":1}}"#),
            &format!("add operation does not apply: doc is missing path: \"{path}\": missing value"),
        );
    }
    refuse(
        r#"{"op":"add"}"#,
        "add operation failed to decode path: missing value",
    );
    refuse(
        r#"{"op":"add","path":"/l/3"}"#,
        "error in add for path: '/l/3': Unable to access invalid index: 3: invalid index referenced",
    );
    refuse(
        r#"{"op":"add","path":"/l/x"}"#,
        "error in add for path: '/l/x': value was not a proper array index: 'x': strconv.Atoi: parsing \"x\": invalid syntax",
    );
}

#[test]
fn explains_other_operations_that_do_not_apply() {
    refuse(
        r#"{"op":"remove","path":"/x"}"#,
        "error in remove for path: '/x': Unable to remove nonexistent key: x: missing value",
    );
    refuse(
        r#"{"op":"remove","path":"/l/-3"}"#,
        "error in remove for path: '/l/-3': Unable to access invalid index: -3: invalid index referenced",
    );
    refuse(
        r#"{"op":"replace","path":"/l/2","value":1}"#,
        "replace operation does not apply: doc is missing key: /l/2: missing value",
    );
    refuse(
        r#"{"op":"replace","path":"","value":1}"#,
        "replace operation value must be object or array",
    );
    refuse(
        r#"{"op":"move","from":"/x","path":"/y"}"#,
        "error in move for path: 'x': Unable to remove nonexistent key: x: missing value",
    );
    refuse(
        r#"{"op":"move","from":"/o","path":"/o/a"}"#,
        "move operation does not apply: doc is missing destination path: /o/a: missing value",
    );
    refuse(
        r#"{"op":"copy","from":"/l/9","path":"/y"}"#,
        "error in copy for from: '/l/9': Unable to access invalid index: 9: invalid index referenced",
    );
    refuse(
        r#"{"op":"test","path":"/s","value":"u"}"#,
        "testing value /s failed: test failed",
    );
    refuse(
        r#"{"op":"test","path":"","value":{}}"#,
        "testing value  failed: test failed",
    );
    refuse(r#"{"op":"jump","path":"/s"}"#, "Unexpected kind: jump");
    refuse("null", "Unexpected kind: unknown");
}

#[test]
fn explains_what_is_no_patch() {
    for (patch, expect) in [
        (json!({}), "object into Go value of type []handlers.jsonPatchOp"),
        (json!([1]), "number into Go value of type handlers.jsonPatchOp"),
        (
            json!([{"path": 3}]),
            "number into Go struct field jsonPatchOp.path of type string",
        ),
    ] {
        let status = Status::from(JsonPatch::parse(&patch).unwrap_err());
        assert_eq!(
            status.message,
            format!("error decoding patch: json: cannot unmarshal {expect}")
        );
        assert_eq!(status.code, 400);
    }
}

#[test]
fn answers_a_patch_that_does_not_apply_with_422() {
    let patch = JsonPatch::parse(&json!([{"op": "test", "path": "/a", "value": 1}])).unwrap();
    let status = Status::from(json_patch(&mut json!({}), &patch).unwrap_err());
    assert_eq!((status.code, status.reason), (422, Reason::Invalid));
    assert_eq!(
        status.message,
        "the server rejected our request due to an error in our request"
    );
}

#[test]
fn reports_unknown_fields_of_operations() {
    let patch = JsonPatch::parse(&json!([{"op": "add", "path": "/a", "extra": 1}])).unwrap();
    assert_eq!(patch.unknown_fields(), ["[0].extra"]);
}

#[test]
fn bounds_the_number_of_operations() {
    let many = Value::Array(vec![Value::Null; MAX_OPERATIONS + 1]);
    let status = Status::from(JsonPatch::parse(&many).unwrap_err());
    assert_eq!(status.reason, Reason::RequestEntityTooLarge);
    assert_eq!(
        status.message,
        "Request entity too large: The allowed maximum operations in a JSON patch is 10000, got 10001"
    );
}

#[test]
fn bounds_what_copies_add() {
    let document = json!({"l": ["x".repeat(MAX_COPY_BYTES / 4)]}).to_string();
    let copies = [r#"{"op":"copy","from":"/l/0","path":"/l/-"}"#; 4].join(",");
    let error = apply(&document, &format!("[{copies}]")).unwrap_err();
    assert!(error.starts_with("Unable to complete the copy"), "{error}");
}

#[test]
fn bounds_the_depth_that_copies_of_copies_reach() {
    let copies = [r#"{"op":"copy","from":"/a","path":"/a/a"}"#; 30].join(",");
    let error = apply(
        r#"{"a":{"b":{}}}"#,
        &format!("[{copies},{copies},{copies},{copies},{copies}]"),
    );
    assert_eq!(error, Err("exceeded max depth".to_owned()));
}
