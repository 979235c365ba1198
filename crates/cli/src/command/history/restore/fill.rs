//! What stands in for values that were redacted: what is there now, as far as it is surely of the same thing.

use std::collections::BTreeMap;

use serde_json::{Map, Value};
use skopos_journal::REDACTED;

/// An old state in which redacted values are filled in.
#[derive(Debug, Default)]
pub(super) struct Filled {
    /// The fields whose old values are not known.
    pub(super) redacted: Vec<String>,
    /// Those of them that have no value now either, or whose item of a list cannot be told from others.
    pub(super) left_out: Vec<String>,
}

/// Fields by which items of a list may be told apart, the better one first, as a diff does.
const ITEM_KEYS: [&str; 2] = ["name", "type"];

impl Filled {
    /// Forgets other fields.
    pub(super) fn retain(&mut self, is_meant: impl Fn(&str) -> bool) {
        self.redacted.retain(|path| is_meant(path));
        self.left_out.retain(|path| is_meant(path));
    }

    /// Puts the present values where old ones were redacted, and leaves out what has none.
    pub(super) fn fill(&mut self, old: Value, live: Option<&Value>, path: &str) -> Option<Value> {
        match old {
            Value::String(text) if text == REDACTED => {
                self.redacted.push(path.to_owned());
                if live.is_none() {
                    self.left_out.push(path.to_owned());
                }
                live.cloned()
            }
            Value::Object(fields) => {
                let mut filled = Map::new();
                for (name, value) in fields {
                    let inner = match path.is_empty() {
                        true => name.clone(),
                        false => format!("{path}.{name}"),
                    };
                    let live = live.and_then(|live| live.get(&name));
                    filled.extend(self.fill(value, live, &inner).map(|value| (name, value)));
                }
                Some(Value::Object(filled))
            }
            Value::Array(items) => {
                let live = live.and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
                let counterparts = counterparts(&items, live);
                let both = items.into_iter().zip(counterparts).enumerate();
                let filled =
                    both.filter_map(|(n, (item, live))| self.fill(item, live, &format!("{path}[{n}]")));
                Some(Value::Array(filled.collect()))
            }
            other => Some(other),
        }
    }
}

/// The items of now that are the same as the old ones, as far as that is sure: what is secret of one must never become
/// that of another.
fn counterparts<'a>(old: &[Value], live: &'a [Value]) -> Vec<Option<&'a Value>> {
    let keyed = ITEM_KEYS
        .into_iter()
        .find_map(|key| Some((ids(old, key)?, by_id(live, key)?)));
    if let Some((ids, live)) = keyed {
        return ids.into_iter().map(|id| live.get(id).copied()).collect();
    }
    if are_alike(old, live) {
        return live.iter().map(Some).collect();
    }
    let only = |item: &Value| {
        // One of which nothing is known may be any.
        let is_same = |one: &&Value| item != REDACTED && is_alike(item, one);
        let mut found = live.iter().filter(is_same);
        let one = found.next().filter(|_| found.next().is_none())?;
        // Of several old ones nobody knows which of them it is.
        let n_claims = old.iter().filter(|item| is_alike(item, one)).count();
        (n_claims == 1).then_some(one)
    };
    old.iter().map(only).collect()
}

/// What each item is called, if each is, and no two the same.
fn ids<'a>(items: &'a [Value], key: &str) -> Option<Vec<&'a str>> {
    let id = |item: &'a Value| item.get(key)?.as_str();
    let ids: Option<Vec<&str>> = items.iter().map(id).collect();
    ids.filter(|_| by_id(items, key).is_some())
}

fn by_id<'a>(items: &'a [Value], key: &str) -> Option<BTreeMap<&'a str, &'a Value>> {
    let mut found = BTreeMap::new();
    for item in items {
        let id = item.get(key)?.as_str();
        let id = id.filter(|id| !id.is_empty() && *id != REDACTED)?;
        if found.insert(id, item).is_some() {
            return None;
        }
    }
    Some(found)
}

/// Whether lists are equal, item by item, but for what was redacted of the old one.
fn are_alike(old: &[Value], live: &[Value]) -> bool {
    old.len() == live.len() && old.iter().zip(live).all(|(old, live)| is_alike(old, live))
}

/// Whether values are equal but for what was redacted of the old one.
fn is_alike(old: &Value, live: &Value) -> bool {
    match (old, live) {
        (Value::String(text), _) if text == REDACTED => true,
        (Value::Object(old), Value::Object(live)) => {
            let is_redacted = |value: &Value| value == REDACTED;
            let is_there = |(name, value): (&String, &Value)| {
                live.get(name)
                    .map_or(is_redacted(value), |live| is_alike(value, live))
            };
            old.iter().all(is_there) && live.keys().all(|name| old.contains_key(name))
        }
        (Value::Array(old), Value::Array(live)) => are_alike(old, live),
        _ => old == live,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// What becomes of an old list beside the present one, and which paths are left out.
    fn check(old: Value, live: &Value, expected: Value, left_out: &[&str]) {
        let mut filled = Filled::default();
        assert_eq!(filled.fill(old, Some(live), "users"), Some(expected));
        assert_eq!(filled.left_out, left_out);
    }

    #[test]
    fn the_secret_of_one_item_never_becomes_that_of_another() {
        let user = |name: &str, token: &str| json!({"name": name, "token": token});
        check(
            json!([user("alice", REDACTED), user("bob", REDACTED)]),
            &json!([user("bob", "b")]),
            json!([{"name": "alice"}, user("bob", "b")]),
            &["users[0].token"],
        );
        let port = |port: u16, token: &str| json!({"port": port, "token": token});
        check(
            json!([port(1, REDACTED), port(2, REDACTED)]),
            &json!([port(2, "b"), port(3, "c")]),
            json!([{"port": 1}, port(2, "b")]),
            &["users[0].token"],
        );
        check(
            json!([port(1, REDACTED), port(1, REDACTED)]),
            &json!([port(1, "b")]),
            json!([{"port": 1}, {"port": 1}]),
            &["users[0].token", "users[1].token"],
        );
        check(
            json!([port(1, REDACTED)]),
            &json!([port(1, "a"), port(1, "b")]),
            json!([{"port": 1}]),
            &["users[0].token"],
        );
        check(json!(["a", REDACTED]), &json!(["b"]), json!(["a"]), &["users[1]"]);
    }

    #[test]
    fn secrets_stay_in_items_that_are_told_by_name_or_are_all_as_before() {
        let user = |name: &str, size: u16, token: &str| json!({"type": name, "size": size, "token": token});
        check(
            json!([user("alice", 1, REDACTED), user("bob", 1, REDACTED)]),
            &json!([user("bob", 2, "b"), user("alice", 2, "a")]),
            json!([user("alice", 1, "a"), user("bob", 1, "b")]),
            &[],
        );
        check(
            json!(["--token", REDACTED]),
            &json!(["--token", "t"]),
            json!(["--token", "t"]),
            &[],
        );
    }
}
