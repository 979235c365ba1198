//! Short ways to read and set the metadata of an untyped object.

use serde_json::{Map, Value};

/// Metadata access on a JSON object; anything missing or of the wrong type reads as empty.
pub(crate) trait ObjectExt {
    fn meta(&self, field: &str) -> Option<&Value>;
    fn meta_str(&self, field: &str) -> &str;
    fn meta_mut(&mut self) -> &mut Map<String, Value>;
    fn set_meta(&mut self, field: &str, value: impl Into<Value>);
    fn remove_meta(&mut self, field: &str);

    fn name(&self) -> &str {
        self.meta_str("name")
    }

    fn namespace(&self) -> &str {
        self.meta_str("namespace")
    }

    fn uid(&self) -> &str {
        self.meta_str("uid")
    }

    fn is_deleting(&self) -> bool {
        self.meta("deletionTimestamp").is_some_and(|v| !v.is_null())
    }

    fn finalizers(&self) -> Vec<&str> {
        self.meta("finalizers")
            .and_then(Value::as_array)
            .map(|list| list.iter().filter_map(Value::as_str).collect())
            .unwrap_or_default()
    }

    fn set_finalizers(&mut self, finalizers: &[String]) {
        match finalizers.is_empty() {
            true => self.remove_meta("finalizers"),
            false => self.set_meta("finalizers", finalizers),
        }
    }
}

impl ObjectExt for Value {
    fn meta(&self, field: &str) -> Option<&Value> {
        self.get("metadata")?.get(field)
    }

    fn meta_str(&self, field: &str) -> &str {
        self.meta(field).and_then(Value::as_str).unwrap_or("")
    }

    fn meta_mut(&mut self) -> &mut Map<String, Value> {
        if !self.is_object() {
            *self = Value::Object(Map::new());
        }
        let root = self.as_object_mut().expect("made an object above");
        let metadata = root
            .entry("metadata")
            .or_insert_with(|| Value::Object(Map::new()));
        if !metadata.is_object() {
            *metadata = Value::Object(Map::new());
        }
        metadata.as_object_mut().expect("made an object above")
    }

    fn set_meta(&mut self, field: &str, value: impl Into<Value>) {
        self.meta_mut().insert(field.to_owned(), value.into());
    }

    fn remove_meta(&mut self, field: &str) {
        self.meta_mut().remove(field);
    }
}
