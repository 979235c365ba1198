//! Properties of the passes over any schema and any value.
//!
//! A failing run prints the seed and stores it beside this file, and the seed replays.

use proptest::prelude::*;
use serde_json::{Map, Value, json};
use skopos_object::FieldPath;
use skopos_schema::crd::{crd_warnings, default_crd, prepare_crd, validate_crd};
use skopos_schema::{
    Invalid, JsonPath, Root, Structural, coerce_embedded, default, prune, prune_nulls, validate,
    validate_embedded, validate_list_types,
};

/// Few names, so that values and schemas meet.
fn name() -> impl Strategy<Value = String> {
    prop::sample::select(vec!["a", "b", "c", "kind", "apiVersion", "metadata", "spec"])
        .prop_map(str::to_owned)
}

fn scalar() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-5..5_i64).prop_map(Value::from),
        (-2.0..2.0_f64).prop_map(Value::from),
        "[a-c]{0,3}".prop_map(Value::from),
    ]
}

fn value() -> impl Strategy<Value = Value> {
    scalar().prop_recursive(4, 32, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(name(), inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

fn merged(parts: Vec<Value>) -> Value {
    let mut map = Map::new();
    for part in parts {
        if let Value::Object(part) = part {
            map.extend(part);
        }
    }
    Value::Object(map)
}

/// One keyword or another with a value that fits it.
fn keyword() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(json!({"nullable": true})),
        Just(json!({"maxLength": 2})),
        Just(json!({"minimum": 1})),
        Just(json!({"multipleOf": 2})),
        Just(json!({"pattern": "^[ab]+$"})),
        Just(json!({"enum": ["a", 1, null, {"a": 1}]})),
        Just(json!({"required": ["a"]})),
        Just(json!({"maxItems": 1})),
        Just(json!({"maxProperties": 1})),
        Just(json!({"format": "date"})),
        Just(json!({"x-kubernetes-preserve-unknown-fields": true})),
        Just(json!({"x-kubernetes-int-or-string": true})),
        Just(json!({"x-kubernetes-embedded-resource": true})),
        Just(json!({"x-kubernetes-list-type": "set"})),
        Just(json!({"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["a"]})),
        Just(json!({"additionalProperties": false})),
    ]
}

fn leaf() -> impl Strategy<Value = Value> {
    let kind = prop::sample::select(vec!["object", "array", "string", "integer", "number", "boolean"]);
    (kind, prop::collection::vec(keyword(), 0..3)).prop_map(|(kind, mut parts)| {
        parts.push(json!({"type": kind}));
        merged(parts)
    })
}

fn schema() -> impl Strategy<Value = Value> {
    leaf().prop_recursive(4, 24, 4, |inner| {
        let children = prop_oneof![
            prop::collection::btree_map(name(), inner.clone(), 0..4)
                .prop_map(|map| json!({"type": "object", "properties": map})),
            inner
                .clone()
                .prop_map(|items| json!({"type": "array", "items": items})),
            inner
                .clone()
                .prop_map(|values| json!({"type": "object", "additionalProperties": values})),
            prop::collection::vec(inner.clone(), 1..3).prop_map(|branches| json!({"anyOf": branches})),
            prop::collection::vec(inner.clone(), 1..3).prop_map(|branches| json!({"oneOf": branches})),
            inner.prop_map(|not| json!({"not": not})),
        ];
        (leaf(), children, prop::option::of(value())).prop_map(|(leaf, children, default)| {
            let default = default.map_or(Value::Null, |default| json!({"default": default}));
            merged(vec![leaf, children, default])
        })
    })
}

/// Any JSON under the keywords of schemas, most of it nonsense.
fn nonsense_schema() -> impl Strategy<Value = Value> {
    let key = prop::sample::select(vec![
        "type",
        "properties",
        "items",
        "additionalProperties",
        "anyOf",
        "allOf",
        "not",
        "default",
        "enum",
        "pattern",
        "required",
        "format",
        "minimum",
        "maxLength",
        "x-kubernetes-list-type",
        "x-kubernetes-list-map-keys",
        "x-kubernetes-validations",
        "x-kubernetes-embedded-resource",
        "$ref",
        "definitions",
        "dependencies",
        "nullable",
    ]);
    scalar().prop_recursive(5, 40, 5, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(
                prop_oneof![key.clone().prop_map(str::to_owned), name()],
                inner,
                0..5
            )
            .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

fn crd(schema: &Value) -> Value {
    json!({
        "metadata": {"name": "foos.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"plural": "foos", "kind": "Foo"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
        },
    })
}

/// The reading passes of a write: what is stored has gone through them.
fn settle(schema: &Structural, value: &mut Value) {
    prune(schema, value, Root::Plain);
    prune_nulls(schema, value);
    let _ = coerce_embedded(schema, value, Root::Plain, Invalid::Drop);
    default(schema, value);
}

fn messages(schema: &Structural, value: &Value) -> Vec<String> {
    let mut errors = validate(schema, &FieldPath::root(), value, None);
    errors.extend(validate_embedded(schema, &FieldPath::root(), value, Root::Plain));
    errors.extend(validate_list_types(schema, value, None));
    errors.iter().map(ToString::to_string).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn pruning_twice_is_pruning_once(schema in schema(), value in value()) {
        let Ok(schema) = Structural::from_json(&schema) else { return Ok(()) };
        let mut once = value;
        prune(&schema, &mut once, Root::Plain);
        let mut twice = once.clone();
        prop_assert!(prune(&schema, &mut twice, Root::Plain).is_empty());
        prop_assert_eq!(once, twice);
    }

    #[test]
    fn pruning_reports_a_path_whenever_it_changes_something(schema in schema(), value in value()) {
        let Ok(schema) = Structural::from_json(&schema) else { return Ok(()) };
        let mut pruned = value.clone();
        let paths = prune(&schema, &mut pruned, Root::Resource);
        prop_assert_eq!(paths.is_empty(), pruned == value);
        prop_assert!(paths.is_sorted());
    }

    #[test]
    fn defaulting_twice_is_defaulting_once(schema in schema(), value in value()) {
        let Ok(schema) = Structural::from_json(&schema) else { return Ok(()) };
        let mut once = value;
        default(&schema, &mut once);
        let mut twice = once.clone();
        default(&schema, &mut twice);
        prop_assert_eq!(once, twice);
    }

    #[test]
    fn a_settled_value_validates_alike_every_time(schema in schema(), value in value()) {
        let Ok(schema) = Structural::from_json(&schema) else { return Ok(()) };
        let mut value = value;
        settle(&schema, &mut value);
        prop_assert_eq!(messages(&schema, &value), messages(&schema, &value));
    }

    #[test]
    fn an_update_says_nothing_that_a_create_would_not(schema in schema(), new in value(), old in value()) {
        let Ok(schema) = Structural::from_json(&schema) else { return Ok(()) };
        let create = validate(&schema, &FieldPath::root(), &new, None);
        let update = validate(&schema, &FieldPath::root(), &new, Some(&old));
        prop_assert!(update.iter().all(|error| create.contains(error)));
    }

    #[test]
    fn no_schema_and_no_value_panics(schema in nonsense_schema(), value in value()) {
        let mut definition = crd(&schema);
        default_crd(&mut definition);
        prepare_crd(&mut definition, None);
        let errors = validate_crd(&definition, None);
        let _ = validate_crd(&definition, Some(&definition));
        let _ = crd_warnings(&definition, None);
        let compiled = Structural::from_json(&schema);
        prop_assert!(compiled.is_ok() || !errors.is_empty(), "accepted a schema that does not compile");
        if let Ok(schema) = compiled {
            let mut value = value;
            settle(&schema, &mut value);
            let _ = messages(&schema, &value);
        }
    }

    #[test]
    fn no_definition_panics(definition in value()) {
        let mut definition = definition;
        default_crd(&mut definition);
        let old = definition.clone();
        prepare_crd(&mut definition, Some(&old));
        let _ = validate_crd(&definition, Some(&old));
    }

    #[test]
    fn no_path_panics(path in r#"[.\[\]'"?(@)*:,a-c0-9 ={}\\-]{0,20}"#, value in value()) {
        if let Ok(path) = JsonPath::parse(&path) {
            prop_assert_eq!(path.first(&value), path.eval(&value).first().copied());
        }
    }

    #[test]
    fn no_pattern_panics(pattern in r"[a-c\\()\[\]{}*+?|^$.0-9,:PQE<>i-]{0,16}", text in "[a-c0-9]{0,4}") {
        let schema = json!({"type": "string", "pattern": pattern});
        let schema = Structural::from_json(&schema).unwrap();
        let _ = validate(&schema, &FieldPath::root(), &text.into(), None);
    }
}

fn object(field: &str, value: Value) -> Value {
    // Not the json macro: it copies what it is given, by recursion.
    Value::Object(Map::from_iter([(field.to_owned(), value)]))
}

fn nested(levels: usize, leaf: Value, wrap: impl Fn(Value) -> Value) -> Value {
    (0..levels).fold(leaf, |value, _| wrap(value))
}

/// Takes a deep value apart without recursion, which its own drop would need.
fn dismantle(value: Value) {
    let mut stack = vec![value];
    while let Some(value) = stack.pop() {
        match value {
            Value::Array(items) => stack.extend(items),
            Value::Object(map) => stack.extend(map.into_iter().map(|(_, value)| value)),
            _ => {}
        }
    }
}

#[test]
fn refuses_schemas_that_nest_too_deeply() {
    let deep = || nested(5000, json!({"type": "string"}), |inner| object("items", inner));
    let schema = deep();
    assert!(Structural::from_json(&schema).is_err());
    dismantle(schema);
    let version = object("schema", object("openAPIV3Schema", deep()));
    let definition = object("spec", object("versions", Value::Array(vec![version])));
    assert!(!validate_crd(&definition, None).is_empty());
    assert!(crd_warnings(&definition, None).is_empty());
    dismantle(definition);
}

/// The JSON decoder stops at 120 levels; the passes must stand more than that.
#[test]
fn deep_values_do_not_overflow_the_stack() {
    let schema = Structural::from_json(&json!({"type": "object", "properties": {
        "a": {"type": "string"}, "l": {"type": "array", "items": {"type": "string"}},
        "p": {"x-kubernetes-preserve-unknown-fields": true},
    }}))
    .unwrap();
    for field in ["a", "l", "p", "x"] {
        for wrap in [
            |inner: Value| Value::Array(vec![inner]),
            |inner: Value| object("a", inner),
        ] {
            let mut value = object(field, nested(400, json!(1), wrap));
            settle(&schema, &mut value);
            let _ = messages(&schema, &value);
            dismantle(value);
        }
    }
}
