//! What an update may leave as it is, and the order and place of errors.

use serde_json::{Value, json};
use skopos_object::FieldPath;
use skopos_schema::crd::{default_crd, prepare_crd, validate_crd};
use skopos_schema::{Structural, validate};

fn crd(spec: &Value) -> Value {
    let mut crd = json!({
        "metadata": {"name": "foos.example.com", "resourceVersion": "1"},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"plural": "foos", "kind": "Foo"},
            "versions": [{"name": "v1", "served": true, "storage": true}],
        },
    });
    for (key, value) in spec.as_object().into_iter().flatten() {
        match key.as_str() {
            "schema" => crd["spec"]["versions"][0]["schema"] = json!({"openAPIV3Schema": value}),
            "selectableFields" => crd["spec"]["versions"][0]["selectableFields"] = value.clone(),
            _ => crd["spec"][key] = value.clone(),
        }
    }
    default_crd(&mut crd);
    crd
}

/// Updates a stored CRD and compares the messages. The stored one is taken as it is, however wrong.
fn check(old: &Value, new: &Value, expected: &[&str]) {
    let mut old = crd(old);
    prepare_crd(&mut old, None);
    old["status"]["conditions"] = json!([{"type": "Established", "status": "True"}]);
    let mut new = crd(new);
    prepare_crd(&mut new, Some(&old));
    let errors: Vec<String> = validate_crd(&new, Some(&old))
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(errors, expected);
}

fn with(property: &Value) -> Value {
    json!({"schema": {"type": "object", "properties": {"x": property}}})
}

#[test]
fn a_missing_schema_may_stay_missing_where_nothing_is_served() {
    check(
        &json!({}),
        &json!({}),
        &["spec.versions[0].schema.openAPIV3Schema: Required value: because otherwise all fields are pruned"],
    );
    let hidden = json!({"versions": [{"name": "v1", "served": false, "storage": true}]});
    check(&hidden, &hidden, &[]);
}

/// Stricter than kube-apiserver, which has CRDs from before this was checked; this server never had any.
#[test]
fn an_unknown_type_is_refused_even_if_it_was_there() {
    check(
        &with(&json!({"type": "text"})),
        &with(&json!({"type": "text", "maxLength": 3})),
        &[
            "spec.validation.openAPIV3Schema: Invalid value: \"\": schema field \"type\" has an unusable value",
        ],
    );
}

#[test]
fn unknown_fields_in_defaults_may_stay() {
    let property = |default: Value| {
        with(&json!({"type": "object", "properties": {"a": {"type": "string"}}, "default": default}))
    };
    check(&property(json!({"b": 1})), &property(json!({"b": 2})), &[]);
    check(
        &property(json!({"a": "x"})),
        &property(json!({"b": 2})),
        &[
            "spec.validation.openAPIV3Schema.properties[x].default: Invalid value: {\"b\":2}: must not have unknown fields",
        ],
    );
}

#[test]
fn sets_of_objects_may_stay() {
    let set = |extra: &str| {
        with(
            &json!({"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "object"}, "title": extra}),
        )
    };
    check(&set("a"), &set("b"), &[]);
}

#[test]
fn map_lists_with_optional_keys_may_stay() {
    let list = |extra: &str| {
        with(&json!({
            "type": "array", "title": extra,
            "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["a"],
            "items": {"type": "object", "properties": {"a": {"type": "string"}}},
        }))
    };
    check(&list("a"), &list("b"), &[]);
}

#[test]
fn too_many_selectable_fields_may_stay_unchanged() {
    let properties: serde_json::Map<String, Value> = (0..10)
        .map(|index| (format!("f{index}"), json!({"type": "string"})))
        .collect();
    let spec = |count: usize| {
        let fields: Vec<Value> = (0..count)
            .map(|index| json!({"jsonPath": format!(".f{index}")}))
            .collect();
        json!({"schema": {"type": "object", "properties": properties}, "selectableFields": fields})
    };
    check(&spec(9), &spec(9), &[]);
    check(
        &spec(9),
        &spec(10),
        &["spec.selectableFields: Too many: 10: must have at most 8 items"],
    );
}

#[test]
fn unrecognized_review_versions_may_stay() {
    let spec = |versions: Value| {
        let webhook = json!({"clientConfig": {"url": "https://a"}, "conversionReviewVersions": versions});
        json!({"schema": {"type": "object"}, "conversion": {"strategy": "Webhook", "webhook": webhook}})
    };
    check(&spec(json!(["v2"])), &spec(json!(["v3"])), &[]);
    check(
        &spec(json!(["v1"])),
        &spec(json!(["v3"])),
        &[
            "spec.conversion.conversionReviewVersions: Invalid value: [\"v3\"]: must include at least one of v1, v1beta1",
        ],
    );
}

#[test]
fn a_bad_certificate_bundle_is_refused_once_established() {
    let spec = |bundle: &str| {
        let webhook = json!({
            "clientConfig": {"url": "https://a", "caBundle": bundle}, "conversionReviewVersions": ["v1"],
        });
        json!({"schema": {"type": "object"}, "conversion": {"strategy": "Webhook", "webhook": webhook}})
    };
    check(
        &spec(""),
        &spec("aGk="),
        &[
            "spec.conversion.webhookClientConfig.caBundle: Invalid value: \"aGk=\": unable to load root certificates: unable to parse bytes as PEM block",
        ],
    );
    check(&spec("eA=="), &spec("aGk="), &[]);
}

#[test]
fn errors_come_in_the_order_of_the_checks() {
    let schema = Structural::from_json(&json!({
        "type": "object", "minProperties": 9, "required": ["z"],
        "anyOf": [{"required": ["y"]}],
        "properties": {
            "a": {"type": "string", "enum": ["q"], "maxLength": 1},
            "b": {"type": "array", "minItems": 5, "items": {"type": "integer", "minimum": 3, "multipleOf": 2}},
        },
    }))
    .unwrap();
    let value = json!({"a": "long", "b": [1, "x"]});
    let errors: Vec<String> = validate(&schema, &FieldPath::root(), &value, None)
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(
        errors,
        [
            "<nil>: Invalid value: \"\": \"\" must validate at least one schema (anyOf)",
            "y: Required value",
            "<nil>: Invalid value: 2:  in body should have at least 9 properties",
            "a: Too long: may not be more than 1 byte",
            "a: Unsupported value: \"long\": supported values: \"q\"",
            "b[0]: Invalid value: 1: b[0] in body should be a multiple of 2",
            "b[0]: Invalid value: 1: b[0] in body should be greater than or equal to 3",
            "b[1]: Invalid value: \"string\": b[1] in body must be of type integer: \"string\"",
            "b: Invalid value: 2: b in body should have at least 5 items",
            "z: Required value",
        ]
    );
}

#[test]
fn status_errors_are_placed_below_status_and_worded_from_there() {
    let schema = Structural::from_json(&json!({
        "type": "object",
        "properties": {
            "i": {"type": "integer"}, "m": {"type": "object", "additionalProperties": {"type": "integer"}},
            "o": {"type": "object", "oneOf": [{"required": ["x"]}], "properties": {"x": {"type": "string"}}},
        },
    }))
    .unwrap();
    for (status, expected) in [
        (
            json!({"i": "x"}),
            vec!["status.i: Invalid value: \"string\": i in body must be of type integer: \"string\""],
        ),
        (
            json!({"m": {"k": "x"}}),
            vec!["status.m.k: Invalid value: \"string\": m.k in body must be of type integer: \"string\""],
        ),
        (
            json!({"o": {}}),
            vec![
                "status: Invalid value: \"\": \"o\" must validate one and only one schema (oneOf). Found none valid",
                "status.o.x: Required value",
            ],
        ),
        (
            json!(5),
            vec!["status: Invalid value: \"integer\":  in body must be of type object: \"integer\""],
        ),
    ] {
        let path = FieldPath::root().child("status");
        let errors: Vec<String> = validate(&schema, &path, &status, None)
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(errors, expected);
    }
}
