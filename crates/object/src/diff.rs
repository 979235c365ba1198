//! Field-level differences between two versions of an object.

use std::{
    borrow::Cow,
    collections::{BTreeMap, HashSet},
};

use serde_json::{Map, Value};

/// One field that differs.
#[derive(Clone, Debug, PartialEq)]
pub struct FieldChange {
    /// Where: `spec.replicas`, `spec.containers[name=web].image`, `metadata.labels[example.com/app]`.
    pub path: String,
    /// The value before; nothing if the field was added.
    pub old: Option<Value>,
    /// The value after; nothing if the field was removed.
    pub new: Option<Value>,
}

/// Lists the fields that differ, in the order of their paths in the object.
///
/// What was added or removed whole is one change. Items of lists are compared by their `name` or
/// `type` if every item of both lists has one and it is unique; otherwise by position. If such a list
/// differs in order only, the whole list is the change.
///
/// ```
/// use serde_json::json;
///
/// let old = json!({"spec": {"containers": [{"name": "a", "image": "x"}, {"name": "b"}]}});
/// let new = json!({"spec": {"containers": [{"name": "a", "image": "y"}, {"name": "b"}]}});
/// let changes = skopos_object::diff(&old, &new);
/// assert_eq!(changes.len(), 1);
/// assert_eq!(changes[0].path, "spec.containers[name=a].image");
/// ```
pub fn diff(old: &Value, new: &Value) -> Vec<FieldChange> {
    let mut differ = Differ {
        path: String::new(),
        changes: Vec::new(),
    };
    differ.values(old, new);
    differ.changes
}

/// Fields by which items of a list may be told apart, the better one first.
const ITEM_KEYS: [&str; 2] = ["name", "type"];

struct Differ {
    path: String,
    changes: Vec<FieldChange>,
}

impl Differ {
    fn values(&mut self, old: &Value, new: &Value) {
        match (old, new) {
            _ if old == new => {}
            (Value::Object(old), Value::Object(new)) => self.objects(old, new),
            (Value::Array(old), Value::Array(new)) => self.lists(old, new),
            _ => self.change(Some(old), Some(new)),
        }
    }

    fn objects(&mut self, old: &Map<String, Value>, new: &Map<String, Value>) {
        for key in merged_keys(old.keys(), new.keys()) {
            self.at_field(key, |differ| differ.optional(old.get(key), new.get(key)));
        }
    }

    fn optional(&mut self, old: Option<&Value>, new: Option<&Value>) {
        match (old, new) {
            (Some(old), Some(new)) => self.values(old, new),
            _ => self.change(old, new),
        }
    }

    fn lists(&mut self, old: &[Value], new: &[Value]) {
        let keyed = ITEM_KEYS
            .into_iter()
            .find_map(|key| Some((key, by_key(old, key)?, by_key(new, key)?)));
        let Some((key, old_items, new_items)) = keyed else {
            return self.positions(old, new);
        };
        let before = self.changes.len();
        let gone = old_items
            .keys()
            .filter(|id| !new_items.contains_key(*id))
            .copied();
        // Removed items first, then the list in its new order.
        for id in gone.chain(ids(new, key)) {
            self.at_part(&format!("[{key}={}]", bracketed(id)), |differ| {
                differ.optional(old_items.get(id).copied(), new_items.get(id).copied());
            });
        }
        if self.changes.len() == before {
            self.change_lists(old, new);
        }
    }

    fn positions(&mut self, old: &[Value], new: &[Value]) {
        for i in 0..old.len().max(new.len()) {
            self.at_part(&format!("[{i}]"), |differ| {
                differ.optional(old.get(i), new.get(i));
            });
        }
    }

    fn change_lists(&mut self, old: &[Value], new: &[Value]) {
        self.change(
            Some(&Value::Array(old.to_vec())),
            Some(&Value::Array(new.to_vec())),
        );
    }

    fn change(&mut self, old: Option<&Value>, new: Option<&Value>) {
        self.changes.push(FieldChange {
            path: self.path.clone(),
            old: old.cloned(),
            new: new.cloned(),
        });
    }

    fn at_field(&mut self, key: &str, visit: impl FnOnce(&mut Self)) {
        let simple = !key.is_empty()
            && key
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
        match (simple, self.path.is_empty()) {
            (true, true) => self.at_part(key, visit),
            (true, false) => self.at_part(&format!(".{key}"), visit),
            (false, _) => self.at_part(&format!("[{}]", bracketed(key)), visit),
        }
    }

    fn at_part(&mut self, part: &str, visit: impl FnOnce(&mut Self)) {
        let length = self.path.len();
        self.path.push_str(part);
        visit(self);
        self.path.truncate(length);
    }
}

/// A key as it stands in brackets: in quotes if it could be taken for something else.
fn bracketed(key: &str) -> Cow<'_, str> {
    if key.is_empty() || key.contains(['[', ']', '"']) {
        return Value::from(key).to_string().into();
    }
    key.into()
}

/// The keys of both, sorted, each once.
fn merged_keys<'a>(
    a: impl Iterator<Item = &'a String>,
    b: impl Iterator<Item = &'a String>,
) -> Vec<&'a String> {
    let mut keys: Vec<&String> = a.chain(b).collect();
    keys.sort_unstable();
    keys.dedup();
    keys
}

/// The items by the value of `key`, if each has one that is unique and not empty.
fn by_key<'a>(items: &'a [Value], key: &str) -> Option<BTreeMap<&'a str, &'a Value>> {
    let mut map = BTreeMap::new();
    for item in items {
        let id = item.get(key)?.as_str().filter(|id| !id.is_empty())?;
        if map.insert(id, item).is_some() {
            return None;
        }
    }
    Some(map)
}

fn ids<'a>(items: &'a [Value], key: &str) -> Vec<&'a str> {
    let mut seen = HashSet::new();
    items
        .iter()
        .filter_map(|item| item.get(key)?.as_str())
        .filter(|id| seen.insert(*id))
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(old: &Value, new: &Value, expect: &[(&str, Option<Value>, Option<Value>)]) {
        let expect: Vec<FieldChange> = expect
            .iter()
            .map(|(path, old, new)| FieldChange {
                path: (*path).to_owned(),
                old: old.clone(),
                new: new.clone(),
            })
            .collect();
        assert_eq!(diff(old, new), expect);
    }

    #[test]
    fn lists_changed_added_and_removed_fields() {
        check(
            &json!({"a": 1, "b": {"c": [1, 2], "d": null}, "same": {}}),
            &json!({"a": 2, "b": {"c": [1], "e": {}}, "same": {}}),
            &[
                ("a", Some(json!(1)), Some(json!(2))),
                ("b.c[1]", Some(json!(2)), None),
                ("b.d", Some(json!(null)), None),
                ("b.e", None, Some(json!({}))),
            ],
        );
    }

    #[test]
    fn writes_odd_keys_in_brackets() {
        check(
            &json!({"labels": {}}),
            &json!({"labels": {"example.com/a": "1", "[b]": 2}}),
            &[
                ("labels[\"[b]\"]", None, Some(json!(2))),
                ("labels[example.com/a]", None, Some(json!("1"))),
            ],
        );
    }

    #[test]
    fn follows_items_by_name_or_type() {
        check(
            &json!([{"name": "a", "v": 1}, {"name": "b"}]),
            &json!([{"name": "c"}, {"name": "a", "v": 2}]),
            &[
                ("[name=b]", Some(json!({"name": "b"})), None),
                ("[name=c]", None, Some(json!({"name": "c"}))),
                ("[name=a].v", Some(json!(1)), Some(json!(2))),
            ],
        );
        check(
            &json!({"conditions": [{"type": "Ready", "status": "False"}]}),
            &json!({"conditions": [{"type": "Ready", "status": "True"}]}),
            &[(
                "conditions[type=Ready].status",
                Some(json!("False")),
                Some(json!("True")),
            )],
        );
    }

    #[test]
    fn reports_a_mere_reordering_as_the_whole_list() {
        let (a, b) = (json!({"name": "a"}), json!({"name": "b"}));
        check(
            &json!({"l": [a, b]}),
            &json!({"l": [b, a]}),
            &[("l", Some(json!([a, b])), Some(json!([b, a])))],
        );
    }
}
