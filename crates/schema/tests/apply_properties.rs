//! Properties of server-side apply over any configuration.
//!
//! A failing run prints the seed and stores it beside this file, and the seed replays.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::sync::OnceLock;

use proptest::prelude::*;
use serde_json::{Map, Value, json};
use skopos_schema::{
    ApplyError, FieldSet, Manager, Structural, Target, apply, entries_after_scale, keep_times, scale_entries,
    track_update, write_fields,
};

const VERSION: &str = "ssa.skopos.test/v1";

fn schema() -> &'static Structural {
    static SCHEMA: OnceLock<Structural> = OnceLock::new();
    let text = include_str!("apply/schema.json");
    SCHEMA.get_or_init(|| Structural::from_json(&serde_json::from_str(text).unwrap()).unwrap())
}

fn target() -> Target<'static> {
    Target {
        kind: "Thing",
        schema: schema(),
        versions: &[],
        convert: None,
        empty: None,
        reset: None,
    }
}

fn manager(name: &str) -> Manager<'_> {
    Manager {
        name,
        api_version: VERSION,
        subresource: "",
        time: "2030-01-01T00:00:00Z",
    }
}

fn thing(spec: &Value) -> Value {
    let mut thing =
        json!({"apiVersion": VERSION, "kind": "Thing", "metadata": {"name": "x", "namespace": "y"}});
    // An empty object is a field too, which managers would share.
    if *spec != json!({}) {
        thing["spec"] = spec.clone();
    }
    thing
}

fn applied(live: Option<&Value>, who: &str, spec: &Value) -> Result<Value, ApplyError> {
    let mut new = apply(&target(), live, &thing(spec), &manager(who), false)?;
    if let Some(live) = live {
        keep_times(live, &mut new);
    }
    Ok(new)
}

fn text() -> impl Strategy<Value = String> {
    "[a-c]"
}

fn names(of: &'static [&'static str]) -> impl Strategy<Value = Vec<&'static str>> {
    prop::sample::subsequence(of, 0..=of.len()).prop_shuffle()
}

fn texts(of: &'static [&'static str]) -> impl Strategy<Value = Value> {
    names(of).prop_flat_map(|names| {
        prop::collection::vec(text(), names.len()).prop_map(move |values| {
            Value::Object(
                names
                    .iter()
                    .map(|name| (*name).to_owned())
                    .zip(values.into_iter().map(Value::from))
                    .collect(),
            )
        })
    })
}

/// Items with some of their fields. Nothing in them is empty.
fn items() -> impl Strategy<Value = Value> {
    names(&["m", "n", "o"]).prop_flat_map(|names| {
        let item = (
            prop::option::of(text().prop_map(Value::from)),
            texts(&["x", "y"]),
            names_of_tags(),
            ports(),
        );
        prop::collection::vec(item, names.len()).prop_map(move |items| {
            let item = |(name, (value, opts, tags, ports)): (&&str, (Option<Value>, Value, Value, Value))| {
                let all = [
                    ("value", value),
                    ("opts", Some(opts)),
                    ("tags", Some(tags)),
                    ("ports", Some(ports)),
                ];
                let mut item = given(all);
                item.insert("name".to_owned(), json!(name));
                Value::Object(item)
            };
            names.iter().zip(items).map(item).collect()
        })
    })
}

/// The fields that are given and not empty.
fn given<const N: usize>(all: [(&str, Option<Value>); N]) -> Map<String, Value> {
    all.into_iter()
        .filter_map(|(name, value)| Some((name.to_owned(), value?)))
        .filter(|(_, value)| !is_empty(value))
        .collect()
}

fn is_empty(value: &Value) -> bool {
    *value == json!({}) || *value == json!([])
}

fn names_of_tags() -> impl Strategy<Value = Value> {
    names(&["t1", "t2"]).prop_map(|tags| json!(tags))
}

/// A list whose second key has a default, which items may leave out.
fn ports() -> impl Strategy<Value = Value> {
    let ports = vec![
        json!({"port": 80}),
        json!({"port": 443, "protocol": "TCP"}),
        json!({"port": 80, "protocol": "UDP"}),
    ];
    prop::sample::subsequence(ports, 0..=3).prop_map(Value::from)
}

/// Fields of every kind. Nothing is empty that a smaller configuration would lack.
fn spec() -> impl Strategy<Value = Value> {
    let fields = (
        prop::option::of(text().prop_map(Value::from)),
        prop::option::of((0..3_i64).prop_map(Value::from)),
        prop::option::of(texts(&["a", "b", "c"])),
        prop::option::of(names(&["s1", "s2", "s3"]).prop_map(|set| json!(set))),
        prop::option::of(items()),
        prop::option::of(texts(&["a", "b"])),
        prop::option::of(texts(&["p", "q"])),
        prop::option::of(prop::collection::vec(text(), 1..3).prop_map(|list| json!(list))),
        prop::option::of(texts(&["a", "b"])),
        prop::option::of(texts(&["a", "b"])),
    );
    fields.prop_map(
        |(text, count, labels, set, list, nested, free, atomic, map, object)| {
            let all = [
                ("text", text),
                ("count", count),
                ("labels", labels),
                ("set", set),
                ("list", list),
                ("nested", nested),
                ("free", free),
                ("atomicList", atomic),
                ("atomicMap", map),
                ("atomicObj", object),
            ];
            Value::Object(given(all))
        },
    )
}

/// Divides a configuration in two that have no field in common but the keys of items.
fn divided(spec: &Value, mut choice: u64) -> (Value, Value) {
    let mut flip = || {
        choice = choice.rotate_right(1);
        choice & 1 == 0
    };
    let (left, right) = halves(spec, &mut flip);
    let or_empty = |half: Value| if half.is_null() { json!({}) } else { half };
    (or_empty(left), or_empty(right))
}

/// Both halves of a value; one with nothing in it is null.
fn halves(whole: &Value, flip: &mut dyn FnMut() -> bool) -> (Value, Value) {
    let (mut left, mut right) = (Map::new(), Map::new());
    let fields = whole
        .as_object()
        .unwrap()
        .iter()
        .filter(|(name, _)| *name != "name");
    for (name, value) in fields {
        let (one, other) = match value {
            Value::Object(_) if !name.starts_with("atomic") => halves(value, flip),
            Value::Array(items) if name == "list" => halves_of_items(items, flip),
            Value::Array(items) if !name.starts_with("atomic") => {
                let (one, other): (Vec<_>, Vec<_>) = items.iter().cloned().partition(|_| flip());
                (Value::Array(one), Value::Array(other))
            }
            whole if flip() => (whole.clone(), Value::Null),
            whole => (Value::Null, whole.clone()),
        };
        for (half, value) in [(&mut left, one), (&mut right, other)] {
            if !value.is_null() && !is_empty(&value) {
                half.insert(name.clone(), value);
            }
        }
    }
    let or_null = |half: Map<String, Value>| match half.is_empty() {
        true => Value::Null,
        false => Value::Object(half),
    };
    (or_null(left), or_null(right))
}

/// Items may be in both halves, each with fields of its own. One of a name alone is in one of them.
fn halves_of_items(items: &[Value], flip: &mut dyn FnMut() -> bool) -> (Value, Value) {
    let (mut left, mut right) = (Vec::new(), Vec::new());
    for item in items {
        let (mut one, mut other) = halves(item, flip);
        if one.is_null() && other.is_null() {
            *(if flip() { &mut one } else { &mut other }) = json!({});
        }
        for (half, mut part) in [(&mut left, one), (&mut right, other)] {
            if !part.is_null() {
                part["name"] = item["name"].clone();
                half.push(part);
            }
        }
    }
    (Value::Array(left), Value::Array(right))
}

/// The object with the items of lists in one order: theirs tells who came first.
fn unordered(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let in_order = |(name, value): (&String, &Value)| {
                let mut value = unordered(value);
                if let (false, Some(items)) = (name.starts_with("atomic"), value.as_array_mut()) {
                    items.sort_by_key(Value::to_string);
                }
                (name.clone(), value)
            };
            Value::Object(fields.iter().map(in_order).collect())
        }
        Value::Array(items) => items.iter().map(unordered).collect(),
        plain => plain.clone(),
    }
}

/// What is at a path of fields and items, as `field/key/field`; of items by their name, number and protocol, or text.
fn at<'a>(value: &'a Value, path: &str) -> Option<&'a Value> {
    path.split('/').try_fold(value, |value, step| match value {
        Value::Array(items) => items.iter().find(|item| match &item["port"] {
            Value::Null => *item == step || item["name"] == step,
            port => format!("{port}-{}", item["protocol"].as_str().unwrap_or("TCP")) == step,
        }),
        value => value.get(step),
    })
}

fn has(spec: &Value, path: &str) -> bool {
    at(spec, path).is_some()
}

const LEAVES: &[&str] = &[
    "text",
    "count",
    "labels/a",
    "labels/b",
    "labels/c",
    "set/s1",
    "set/s2",
    "set/s3",
    "list/m",
    "list/n",
    "list/o",
    "list/m/value",
    "list/m/opts/x",
    "list/m/opts/y",
    "list/m/tags/t1",
    "list/m/tags/t2",
    "list/m/ports/80-TCP",
    "list/m/ports/80-UDP",
    "list/m/ports/443-TCP",
    "list/n/value",
    "list/n/opts/x",
    "nested/a",
    "nested/b",
    "free/p",
    "free/q",
    "atomicList",
    "atomicMap",
    "atomicObj",
];

/// A `fieldsV1`, mostly sound.
fn fields() -> impl Strategy<Value = Value> {
    let element = prop::sample::select(vec![
        ".",
        "f:spec",
        "f:metadata",
        "f:labels",
        "f:list",
        "f:set",
        "f:text",
        "f:a",
        "f:free",
        "k:{\"name\":\"m\"}",
        "k:{\"name\":1,\"port\":80}",
        "v:\"s1\"",
        "v:3",
        "i:0",
    ]);
    let broken = prop::sample::select(vec!["k:[]", "v:{", "i:x", "f", "", "zz", "q:1", "é:"]);
    let element = prop_oneof![20 => element, 1 => broken].prop_map(str::to_owned);
    Just(json!({})).prop_recursive(4, 24, 4, move |inner| {
        prop::collection::btree_map(element.clone(), inner, 0..4)
            .prop_map(|map| Value::Object(map.into_iter().collect()))
    })
}

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".{0,3}".prop_map(Value::from),
    ];
    let names = vec![
        "spec", "metadata", "labels", "list", "set", "text", "name", "a", "free", "freer", "nested",
    ];
    leaf.prop_recursive(4, 32, 4, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::btree_map(
                prop::sample::select(names.clone()).prop_map(str::to_owned),
                inner,
                0..4
            )
            .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

fn entries() -> impl Strategy<Value = Value> {
    let entry = (
        prop::sample::select(vec!["a", "b", "kubectl", ""]),
        prop::sample::select(vec!["Apply", "Update", "Other"]),
        prop::sample::select(vec![VERSION, VERSION, "ssa.skopos.test/v0", ""]),
        prop_oneof![9 => fields(), 1 => any_value()],
    );
    let entry = entry.prop_map(|(manager, operation, version, fields)| {
        json!({"manager": manager, "operation": operation, "apiVersion": version, "fieldsType": "FieldsV1", "fieldsV1": fields})
    });
    prop_oneof![9 => prop::collection::vec(entry, 0..4).prop_map(Value::from), 1 => any_value()]
}

/// Spoils a value somewhere: an item twice, something empty, something of another type.
fn spoilt(mut spec: Value, choice: usize) -> Value {
    match choice % 8 {
        0 => spec["set"] = json!(["s1", "s2", "s1"]),
        1 => spec["list"] = json!([{"name": "m", "value": "a"}, {"name": "n"}, {"name": "m"}]),
        2 => spec["labels"] = json!({}),
        3 => spec["nested"] = json!(null),
        4 => spec["text"] = json!({"not": "text"}),
        5 => spec["unknown"] = json!(1),
        6 => spec["list"] = json!([{"value": "without a name"}]),
        _ => {}
    }
    spec
}

proptest! {
    #[test]
    fn a_create_owns_what_a_comparison_with_nothing_finds(
        spec in spec(), choice in 0..16_usize, labels in texts(&["a", "b"]), reset in 0..5_usize,
    ) {
        let mut created = thing(&spoilt(spec, choice));
        created["metadata"]["labels"] = labels;
        created["metadata"]["uid"] = json!("u");
        let resets: [&[&[&str]]; 4] = [&[&["spec"]], &[&["metadata"]], &[&["spec", "labels"], &["spec", "text"]], &[]];
        let reset = resets.get(reset).map(|paths| FieldSet::of_paths(paths));
        let target = Target { reset: reset.as_ref(), ..target() };
        let mut compared = created.clone();
        let nothing = json!({"apiVersion": VERSION, "kind": "Thing"});
        track_update(&target, Some(&nothing), &mut compared, &manager("a"));
        track_update(&target, None, &mut created, &manager("a"));
        prop_assert_eq!(created, compared);
    }

    #[test]
    fn applying_twice_changes_nothing(first in spec(), second in spec()) {
        let live = applied(None, "a", &first).unwrap();
        let target = target();
        let once = apply(&target, Some(&live), &thing(&second), &manager("b"), true).unwrap();
        let twice = applied(Some(&once), "b", &second).unwrap();
        prop_assert_eq!(once, twice);
    }

    #[test]
    fn managers_of_disjoint_fields_never_conflict_and_commute(spec in spec(), choice in any::<u64>()) {
        let (left, right) = divided(&spec, choice);
        let one = applied(Some(&applied(None, "a", &left).unwrap()), "b", &right).unwrap();
        let other = applied(Some(&applied(None, "b", &right).unwrap()), "a", &left).unwrap();
        prop_assert_eq!(unordered(&one), unordered(&other));
        prop_assert_eq!(unordered(&one).pointer("/spec").cloned(), unordered(&thing(&spec)).pointer("/spec").cloned());
    }

    #[test]
    fn giving_up_a_field_removes_it_exactly_when_nobody_else_owns_it(
        first in spec(), other in spec(), choice in any::<u64>(),
    ) {
        let (kept, _) = divided(&first, choice);
        let target = target();
        let live = applied(None, "a", &first).unwrap();
        let live = apply(&target, Some(&live), &thing(&other), &manager("b"), true).unwrap();
        let live = apply(&target, Some(&live), &thing(&kept), &manager("a"), true).unwrap();
        for leaf in LEAVES {
            let wanted = has(&kept, leaf) || has(&other, leaf);
            prop_assert_eq!(has(&live["spec"], leaf), wanted, "{} in {}", leaf, live);
        }
    }

    #[test]
    fn what_an_update_owns_stays_when_an_applier_gives_it_up(
        first in spec(), second in spec(), choice in any::<u64>(),
    ) {
        let (kept, _) = divided(&first, choice);
        let target = target();
        let live = applied(None, "a", &first).unwrap();
        let mut updated = live.clone();
        updated["spec"] = second.clone();
        track_update(&target, Some(&live), &mut updated, &manager("u"));
        let live = apply(&target, Some(&updated), &thing(&kept), &manager("a"), true).unwrap();
        // Not in items: upstream, one goes with its applier whatever an update owns in it.
        for leaf in LEAVES.iter().filter(|leaf| !leaf.starts_with("list/")) {
            let is_changed = has(&second, leaf) && at(&second, leaf) != at(&first, leaf);
            let is_there = has(&kept, leaf) || is_changed;
            prop_assert_eq!(has(&live["spec"], leaf), is_there, "{} in {}", leaf, live);
        }
    }

    #[test]
    fn several_managers_of_disjoint_fields_commute(
        spec in spec(), one in any::<u64>(), other in any::<u64>(), order in Just([0, 1, 2]).prop_shuffle(),
    ) {
        let (first, rest) = divided(&spec, one);
        let (second, third) = divided(&rest, other);
        let parts = [("a", first), ("b", second), ("c", third)];
        let in_order = |order: [usize; 3]| {
            let mut live = None;
            for index in order {
                let (who, part) = &parts[index];
                live = Some(applied(live.as_ref(), who, part).unwrap());
            }
            unordered(&live.unwrap())
        };
        prop_assert_eq!(in_order([0, 1, 2]), in_order(order));
    }

    #[test]
    fn an_update_owns_what_it_changes_and_nothing_else(first in spec(), second in spec()) {
        let live = applied(None, "a", &first).unwrap();
        let mut new = live.clone();
        new["spec"] = second.clone();
        track_update(&target(), Some(&live), &mut new, &manager("u"));
        // What the update left as it was still belongs to the applier: to apply the rest again is no conflict.
        let unchanged: Map<String, Value> = first.as_object().unwrap().iter()
            .filter(|(name, value)| second.get(name) == Some(*value))
            .map(|(name, value)| (name.clone(), value.clone())).collect();
        applied(Some(&new), "a", &Value::Object(unchanged)).unwrap();
        let mut again = new.clone();
        track_update(&target(), Some(&new), &mut again, &manager("v"));
        prop_assert_eq!(new, again);
    }

    #[test]
    fn survives_any_entries_and_values(
        live in any_value(), spec in any_value(), entries in entries(), force in any::<bool>(),
        name in prop::sample::select(vec!["a", "b", "kubectl"]),
    ) {
        let target = target();
        let mut live = thing(&live);
        live["metadata"]["managedFields"] = entries.clone();
        live["metadata"]["annotations"] =
            json!({"kubectl.kubernetes.io/last-applied-configuration": thing(&spec).to_string()});
        drop(apply(&target, Some(&live), &thing(&spec), &manager(name), force));
        drop(apply(&target, Some(&spec), &thing(&spec), &manager(name), force));
        let mut new = thing(&spec);
        track_update(&target, Some(&live), &mut new, &manager(name));
        let mut new = live.clone();
        track_update(&target, None, &mut new, &manager(name));
        let paths: [(&str, &[&str]); 1] = [(VERSION, &["spec", "text"])];
        let scale = scale_entries(Some(&entries), &paths);
        drop(entries_after_scale(Some(&entries), scale.as_ref(), VERSION, &paths));
    }

    #[test]
    fn field_sets_survive_writing_and_form_an_algebra(one in fields(), other in fields()) {
        let (Ok(one), Ok(other)) = (FieldSet::parse(&one), FieldSet::parse(&other)) else { return Ok(()) };
        prop_assert_eq!(&FieldSet::parse(&one.to_json()).unwrap(), &one);
        let mut text = Vec::new();
        write_fields(&one.to_json(), &mut text);
        prop_assert_eq!(&serde_json::from_slice::<Value>(&text).unwrap(), &one.to_json());
        let rest = one.clone().difference(&other);
        prop_assert_eq!(&one.intersection(&other).union(rest), &one);
        prop_assert!(one.clone().difference(&one).is_empty());
        prop_assert_eq!(one.clone().union(other.clone()), other.union(one));
    }
}

#[test]
fn refuses_what_is_nested_too_deep() {
    let mut deep = json!({});
    let mut fields = json!({});
    for _ in 0..300 {
        deep = json!({"a": deep});
        fields = json!({"f:a": fields});
    }
    let refused = applied(None, "a", &json!({"free": deep})).unwrap_err();
    assert!(refused.to_string().contains("nested too deep"));
    FieldSet::parse(&fields).unwrap_err();
    let mut new = thing(&json!({"free": deep}));
    track_update(&target(), None, &mut new, &manager("a"));
    assert!(new["metadata"].get("managedFields").is_none());
}

#[test]
fn refuses_configurations_for_another_kind() {
    let mut other = thing(&json!({}));
    other["kind"] = "Other".into();
    let refused = apply(&target(), None, &other, &manager("a"), false).unwrap_err();
    let text = "invalid object type: ssa.skopos.test/v1, Kind=Other";
    assert_eq!(refused, ApplyError::BadRequest(text.to_owned()));
}
