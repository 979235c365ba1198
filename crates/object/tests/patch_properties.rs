//! JSON patches against a model that knows only the pointers of `serde_json`.

#![expect(clippy::unwrap_used, reason = "tests")]

mod support;

use proptest::{prelude::*, sample::Index};
use serde_json::{Value, json};
use skopos_object::{JsonPatch, json_patch};
use support::value;

/// Every place in the document except the document itself.
fn places(value: &Value, path: &str, out: &mut Vec<String>) {
    let children: Vec<(String, &Value)> = match value {
        Value::Object(map) => map
            .iter()
            .map(|(key, value)| (key.replace('~', "~0").replace('/', "~1"), value))
            .collect(),
        Value::Array(items) => items
            .iter()
            .enumerate()
            .map(|(i, item)| (i.to_string(), item))
            .collect(),
        _ => Vec::new(),
    };
    for (key, child) in children {
        let path = format!("{path}/{key}");
        places(child, &path, out);
        out.push(path);
    }
}

fn pick(document: &Value, index: Index) -> String {
    let mut all = Vec::new();
    places(document, "", &mut all);
    all.swap_remove(index.index(all.len()))
}

fn apply(document: &Value, patch: &Value) -> Result<Value, String> {
    let mut document = document.clone();
    json_patch(&mut document, &JsonPatch::parse(patch).unwrap()).map_err(|error| error.to_string())?;
    Ok(document)
}

/// Takes out what is at an existing place.
fn model_remove(document: &mut Value, path: &str) -> Value {
    let (parent, key) = path.rsplit_once('/').unwrap();
    match document.pointer_mut(parent).unwrap() {
        Value::Object(map) => map.remove(&key.replace("~1", "/").replace("~0", "~")).unwrap(),
        Value::Array(items) => items.remove(key.parse().unwrap()),
        _ => unreachable!("only lists and objects have places"),
    }
}

proptest! {
    #[test]
    fn replace_sets_an_existing_place(doc in value(), at in any::<Index>(), new in value()) {
        let doc = json!({"root": doc});
        let path = pick(&doc, at);
        let patched = apply(&doc, &json!([{"op": "replace", "path": path, "value": new}]));
        let mut expect = doc;
        *expect.pointer_mut(&path).unwrap() = new;
        prop_assert_eq!(patched, Ok(expect));
    }

    #[test]
    fn remove_takes_an_existing_place(doc in value(), at in any::<Index>()) {
        let doc = json!({"root": doc});
        let path = pick(&doc, at);
        let patched = apply(&doc, &json!([{"op": "remove", "path": path}]));
        let mut expect = doc;
        model_remove(&mut expect, &path);
        prop_assert_eq!(patched, Ok(expect));
    }

    #[test]
    fn test_compares_with_what_is_there(doc in value(), at in any::<Index>(), other in value()) {
        let doc = json!({"root": doc});
        let path = pick(&doc, at);
        let there = doc.pointer(&path).unwrap().clone();
        let same = apply(&doc, &json!([{"op": "test", "path": path, "value": there}]));
        prop_assert_eq!(same, Ok(doc.clone()));
        let differs = apply(&doc, &json!([{"op": "test", "path": path, "value": other}]));
        prop_assert_eq!(differs.is_ok(), there == other);
    }

    #[test]
    fn add_and_remove_cancel_in_lists(doc in value(), at in any::<Index>(), new in value()) {
        let doc = json!({"root": [doc]});
        let path = pick(&doc, at);
        let (parent, _) = path.rsplit_once('/').unwrap();
        prop_assume!(doc.pointer(parent).unwrap().is_array());
        let patch = json!([{"op": "add", "path": path, "value": new}, {"op": "test", "path": path, "value": new},
                           {"op": "remove", "path": path}]);
        prop_assert_eq!(apply(&doc, &patch), Ok(doc));
    }

    #[test]
    fn move_is_copy_to_the_side_and_remove(doc in value(), at in any::<Index>()) {
        let doc = json!({"root": doc});
        let path = pick(&doc, at);
        let moved = apply(&doc, &json!([{"op": "move", "from": path, "path": "/aside"}]));
        let copied = apply(&doc, &json!([{"op": "copy", "from": path, "path": "/aside"}, {"op": "remove", "path": path}]));
        let mut expect = doc;
        expect["aside"] = model_remove(&mut expect, &path);
        prop_assert_eq!(&moved, &Ok(expect));
        prop_assert_eq!(copied, moved);
    }
}
