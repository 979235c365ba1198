//! Fills in the defaults of a schema.

use serde_json::Value;

use crate::structural::{Cursor, Structural};

/// Sets defaults wherever a field is missing, or null without being nullable.
///
/// Defaults inside objects that are themselves missing apply only if that object has a default.
/// Subtrees without any default are not visited.
pub fn default(schema: &Structural, value: &mut Value) {
    if !schema.below.defaults {
        return;
    }
    match value {
        Value::Object(map) => {
            for (name, property) in &schema.properties {
                let Some(default) = &property.default else {
                    continue;
                };
                match map.get_mut(name.as_ref()) {
                    None => {
                        map.insert(name.to_string(), (**default).clone());
                    }
                    Some(field) if field.is_null() && !property.nullable => *field = (**default).clone(),
                    Some(_) => {}
                }
            }
            let mut cursor = Cursor::new(schema);
            for (name, field) in map.iter_mut() {
                if let Some(property) = cursor.seek(name) {
                    default(property, field);
                } else if let Some(values) = schema.additional_properties() {
                    replace_null(values, field);
                    default(values, field);
                }
            }
        }
        Value::Array(items) => {
            let Some(schema) = schema.items() else { return };
            for item in items {
                replace_null(schema, item);
                default(schema, item);
            }
        }
        _ => {}
    }
}

fn replace_null(schema: &Structural, value: &mut Value) {
    if let (true, false, Some(default)) = (value.is_null(), schema.nullable, &schema.default) {
        *value = (**default).clone();
    }
}
