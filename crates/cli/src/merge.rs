//! What `apply` sends: the difference between what was applied last, what is wanted, and what there is.

use serde_json::{Map, Value};

/// Where the last applied configuration is remembered, shared with `kubectl apply`.
pub(crate) const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Returns the object with the annotation that remembers it.
pub(crate) fn with_last_applied(object: &Value) -> Value {
    let mut remembered = object.clone();
    if let Some(annotations) = remembered
        .pointer_mut("/metadata/annotations")
        .and_then(Value::as_object_mut)
    {
        annotations.remove(LAST_APPLIED);
    }
    // kubectl writes an empty map where there is none; without it the next `kubectl apply` would see a change.
    let mut object = remembered.clone();
    ensure_annotations(&mut remembered);
    ensure_annotations(&mut object);
    // kubectl ends it with a line break.
    object["metadata"]["annotations"][LAST_APPLIED] = Value::String(format!("{remembered}\n"));
    object
}

fn ensure_annotations(object: &mut Value) {
    let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else {
        return;
    };
    let annotations = metadata.entry("annotations").or_insert(Value::Null);
    if annotations.is_null() {
        *annotations = Value::Object(Map::new());
    }
}

/// Reads the configuration that was applied last, if it is there and readable.
pub(crate) fn last_applied(live: &Value) -> Option<Value> {
    let text = live["metadata"]["annotations"][LAST_APPLIED].as_str()?;
    serde_json::from_str(text).ok()
}

/// Computes the merge patch that brings `live` to `wanted`.
///
/// Fields that were applied last and are no longer wanted are removed; fields that others set are left alone.
/// `None` means that nothing is to be done.
pub(crate) fn three_way(last: &Value, wanted: &Value, live: &Value) -> Option<Value> {
    let empty = Map::new();
    let fields = |value: &Value| value.as_object().cloned().unwrap_or_else(|| empty.clone());
    let patch = objects(&fields(last), &fields(wanted), &fields(live));
    (!patch.is_empty()).then_some(Value::Object(patch))
}

fn objects(
    last: &Map<String, Value>,
    wanted: &Map<String, Value>,
    live: &Map<String, Value>,
) -> Map<String, Value> {
    let empty = Map::new();
    let mut patch = Map::new();
    for (name, want) in wanted.iter().filter(|(_, want)| !want.is_null()) {
        match (want, live.get(name)) {
            (Value::Object(want), Some(Value::Object(have))) => {
                let before = last.get(name).and_then(Value::as_object).unwrap_or(&empty);
                let inner = objects(before, want, have);
                if !inner.is_empty() {
                    patch.insert(name.clone(), Value::Object(inner));
                }
            }
            (want, Some(have)) if want == have => {}
            (want, _) => {
                patch.insert(name.clone(), want.clone());
            }
        }
    }
    for name in last.keys() {
        let unwanted = wanted.get(name).is_none_or(Value::is_null);
        if unwanted && live.contains_key(name) {
            patch.insert(name.clone(), Value::Null);
        }
    }
    patch
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check([last, wanted, live, expect]: [Value; 4]) {
        let patch = three_way(&last, &wanted, &live).unwrap_or(Value::Null);
        assert_eq!(patch, expect, "last {last} wanted {wanted} live {live}");
    }

    #[test]
    fn changes_and_additions_are_sent() {
        check([
            json!({"a": 1}),
            json!({"a": 2, "b": 3}),
            json!({"a": 1}),
            json!({"a": 2, "b": 3}),
        ]);
        check([
            json!({}),
            json!({"s": {"x": 1}}),
            json!({"s": {"y": 2}}),
            json!({"s": {"x": 1}}),
        ]);
    }

    #[test]
    fn what_is_no_longer_wanted_is_removed() {
        check([
            json!({"a": 1, "b": 1}),
            json!({"a": 1}),
            json!({"a": 1, "b": 1}),
            json!({"b": null}),
        ]);
        check([
            json!({"s": {"x": 1}}),
            json!({"s": {}}),
            json!({"s": {"x": 1, "y": 2}}),
            json!({"s": {"x": null}}),
        ]);
        check([
            json!({"s": {"x": 1}}),
            json!({}),
            json!({"s": {"x": 1, "y": 2}}),
            json!({"s": null}),
        ]);
        check([
            json!({"a": 1}),
            json!({"a": null}),
            json!({"a": 1}),
            json!({"a": null}),
        ]);
    }

    #[test]
    fn what_others_set_is_left_alone() {
        check([
            json!({"a": 1}),
            json!({"a": 1}),
            json!({"a": 1, "status": {"ready": true}}),
            Value::Null,
        ]);
    }

    #[test]
    fn what_others_changed_is_set_back() {
        check([json!({"a": 1}), json!({"a": 1}), json!({"a": 9}), json!({"a": 1})]);
        check([
            json!({"a": {"b": 1}}),
            json!({"a": {"b": 1}}),
            json!({"a": "text"}),
            json!({"a": {"b": 1}}),
        ]);
    }

    #[test]
    fn lists_are_replaced_whole() {
        check([
            json!({"l": [1, 2]}),
            json!({"l": [1]}),
            json!({"l": [1, 2]}),
            json!({"l": [1]}),
        ]);
        check([
            json!({"l": [1]}),
            json!({"l": [1]}),
            json!({"l": [1]}),
            Value::Null,
        ]);
    }

    #[test]
    fn removal_of_what_is_gone_already_is_not_sent() {
        check([json!({"b": 1}), json!({}), json!({}), Value::Null]);
    }

    #[test]
    fn annotation_remembers_the_object_without_itself() {
        let object = json!({"kind": "A", "metadata": {"name": "n", "annotations": {LAST_APPLIED: "old"}}});
        let applied = with_last_applied(&object);
        let expect = "{\"kind\":\"A\",\"metadata\":{\"annotations\":{},\"name\":\"n\"}}\n";
        assert_eq!(applied["metadata"]["annotations"][LAST_APPLIED], expect);
        assert_eq!(last_applied(&applied).unwrap()["metadata"]["name"], "n");
        assert_eq!(with_last_applied(&applied), applied);
    }

    #[test]
    fn unreadable_annotation_counts_as_none() {
        assert_eq!(
            last_applied(&json!({"metadata": {"annotations": {LAST_APPLIED: "{"}}})),
            None
        );
        assert_eq!(last_applied(&json!({})), None);
    }
}
