//! Properties that hold for all inputs, tried on random ones.

#[path = "support/difference.rs"]
mod difference;
mod support;

use std::collections::BTreeMap;

use difference::{apply_changes, as_sets, without_nulls};
use proptest::{collection, prelude::*, sample};
use serde_json::{Map, Value, json};
use skopos_object::{
    FieldSelector, LabelSelector, Object, diff, diff_merge, json, merge_patch, raw_path, yaml,
};
use support::value;

/// Names that collide often, and some that need care.
fn key() -> impl Strategy<Value = String> {
    prop_oneof![
        3 => sample::select(vec!["a", "b", "name", "type", "x"]).prop_map(str::to_owned),
        1 => ".{0,6}",
    ]
}

proptest! {
    #[test]
    fn json_decodes_as_serde_json_does(value in value()) {
        let text = value.to_string();
        let decoded = json::decode(text.as_bytes()).unwrap();
        prop_assert_eq!(&decoded.value, &serde_json::from_str::<Value>(&text).unwrap());
        prop_assert!(decoded.duplicates.is_empty());
        let pretty = serde_json::to_string_pretty(&value).unwrap();
        prop_assert_eq!(json::decode(pretty.as_bytes()).unwrap().value, decoded.value);
    }

    #[test]
    fn json_accepts_the_texts_that_serde_json_accepts(text in r#"[\[\]{}",:0-9eE.truefalsn \\u-]{0,20}"#) {
        let ours = json::decode(text.as_bytes());
        match serde_json::from_str::<Value>(&text) {
            Ok(_) => prop_assert!(ours.is_ok(), "{:?}", ours),
            // Half of a surrogate pair and too large a number are judged differently.
            Err(error) if error.to_string().contains("surrogate") || error.to_string().contains("hex escape") => {}
            Err(_) => prop_assert!(ours.is_err(), "{:?}", ours),
        }
    }

    #[test]
    fn go_form_of_json_reads_back(value in value()) {
        let text = json::to_go_string(&value);
        prop_assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), value);
    }

    #[test]
    fn yaml_written_reads_back(value in value()) {
        let text = yaml::encode(&value);
        let decoded = yaml::decode(text.as_bytes());
        prop_assert!(decoded.is_ok(), "{:?} of\n{}", decoded, text);
        prop_assert_eq!(decoded.unwrap().value, value, "{}", text);
    }

    #[test]
    fn yaml_reads_json(value in value()) {
        let text = escape_what_yaml_forbids(&value.to_string());
        let decoded = yaml::decode(text.as_bytes());
        prop_assert!(decoded.is_ok(), "{:?} of {}", decoded, text);
        prop_assert_eq!(decoded.unwrap().value, value);
    }

    #[test]
    fn merge_patch_made_from_two_objects_turns_one_into_the_other(old in value(), new in value()) {
        let old = json!({"o": old, "same": 1});
        let new = without_nulls(&json!({"o": new, "same": 1}));
        let mut patched = old.clone();
        merge_patch(&mut patched, &diff_merge(&old, &new)).unwrap();
        prop_assert_eq!(patched, new);
    }

    #[test]
    fn differences_applied_to_the_old_give_the_new(old in value(), new in value()) {
        let changes = diff(&old, &new);
        prop_assert_eq!(changes.is_empty(), old == new);
        let patched = apply_changes(old, &changes);
        prop_assert_eq!(as_sets(&patched), as_sets(&new));
    }

    #[test]
    fn raw_path_finds_what_the_tree_has(value in value(), path in collection::vec(key(), 0..4)) {
        let text = serde_json::to_vec_pretty(&value).unwrap();
        let parts: Vec<&str> = path.iter().map(String::as_str).collect();
        let in_tree = parts.iter().try_fold(&value, |value, part| match value {
            Value::Array(items) => items.get(part.parse::<usize>().ok()?),
            other => other.get(part),
        });
        let found = raw_path(&text, &parts).map(|raw| serde_json::from_slice::<Value>(raw).unwrap());
        prop_assert_eq!(found.as_ref(), in_tree);
    }

    #[test]
    fn raw_path_never_fails(text in ".{0,40}", path in collection::vec("[a0]", 0..3)) {
        let parts: Vec<&str> = path.iter().map(String::as_str).collect();
        let _ = raw_path(text.as_bytes(), &parts);
    }

    #[test]
    fn header_says_what_the_tree_says(
        name in "[a-z.-]{0,8}", namespace in "[a-z]{0,4}", labels in collection::btree_map(key(), key(), 0..4),
        finalizers in collection::vec(key(), 0..3), generation in any::<i64>(), extra in value(),
    ) {
        let labels: Map<String, Value> = labels.into_iter().map(|(key, value)| (key, value.into())).collect();
        let value = json!({
            "kind": "K", "extra": extra, "spec": {"name": "no"},
            "metadata": {"name": name, "namespace": namespace, "labels": labels, "finalizers": finalizers,
                         "generation": generation, "annotations": {"name": "no"}},
        });
        let object = Object::from_value(&value).unwrap();
        prop_assert_eq!((object.name(), object.namespace(), object.generation()), (&*name, &*namespace, generation));
        let found: Map<String, Value> =
            object.labels().map(|(key, value)| (key.into_owned(), Value::String(value.into_owned()))).collect();
        prop_assert_eq!(found, labels);
        prop_assert_eq!(object.finalizers().collect::<Vec<_>>(), finalizers);
        prop_assert_eq!(object.to_value(), value);
    }

    #[test]
    fn label_selectors_print_what_they_parse(text in selector(), labels in labels()) {
        let parsed = LabelSelector::parse(&text).unwrap();
        let again = LabelSelector::parse(&parsed.to_string()).unwrap();
        prop_assert_eq!(&again.to_string(), &parsed.to_string());
        let lookup = |key: &str| labels.get(key).map(String::as_str);
        prop_assert_eq!(again.matches(lookup), parsed.matches(lookup));
    }

    #[test]
    fn label_selectors_never_fail_hard(text in r"[a-b!=(),<>\s\x00in/.-]{0,24}") {
        if let Ok(selector) = LabelSelector::parse(&text) {
            prop_assert!(LabelSelector::parse(&selector.to_string()).is_ok());
        }
    }

    #[test]
    fn field_selectors_print_what_they_parse(text in r"([a-c.]{0,3}(=|==|!=)[a-c\\,=é]{0,4},?){0,3}") {
        if let Ok(selector) = FieldSelector::parse(&text) {
            let mut again = FieldSelector::parse(&selector.to_string()).unwrap().requirements().to_vec();
            let mut requirements = selector.requirements().to_vec();
            for list in [&mut again, &mut requirements] {
                list.sort_by(|a, b| (&a.path, &a.value, a.op as u8).cmp(&(&b.path, &b.value, b.op as u8)));
            }
            prop_assert_eq!(again, requirements);
        }
    }
}

/// JSON may contain some characters raw that YAML wants escaped.
fn escape_what_yaml_forbids(text: &str) -> String {
    let forbidden = |c: char| c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}' | '\u{feff}');
    let escape = |c: char| {
        if forbidden(c) {
            format!("\\u{:04x}", u32::from(c))
        } else {
            c.to_string()
        }
    };
    text.chars().map(escape).collect()
}

fn labels() -> impl Strategy<Value = BTreeMap<String, String>> {
    collection::btree_map("[ab]", "[ab1-3]?", 0..3)
}

fn selector() -> impl Strategy<Value = String> {
    let requirement = prop_oneof![
        "!?[ab]",
        "[ab] ?(=|==|!=) ?[ab1]?",
        "[ab] ?[<>] ?[1-3]",
        r"[ab] (in|notin) \([ab1]?(,[ab1]?){0,2}\)",
    ];
    collection::vec(requirement, 0..4).prop_map(|parts| parts.join(" , "))
}
