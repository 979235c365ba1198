//! Structural schemas of the built-in kinds: the types with their references unfolded.

use std::sync::{Arc, OnceLock};

use serde_json::{Map, Value, json};
use skopos_schema::Structural;

use crate::kind::{Kind, kinds};
use crate::types::{Field, Id, ListType, MapType, Ty};

/// The structural schema of a kind, compiled when it is first asked for and kept.
pub fn schema(kind: &Kind) -> Arc<Structural> {
    static COMPILED: OnceLock<Box<[OnceLock<Arc<Structural>>]>> = OnceLock::new();
    let slots = COMPILED.get_or_init(|| kinds().iter().map(|_| OnceLock::new()).collect());
    let at = kinds().iter().position(|k| std::ptr::eq(k, kind)).unwrap_or(0);
    let compile =
        || Arc::new(Structural::from_json(&structural_json(kind)).unwrap_or_else(|_| open_object()));
    slots[at].get_or_init(compile).clone()
}

/// Keeps everything; stands in only if a schema of the table could not be compiled, which a test excludes.
fn open_object() -> Structural {
    let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    Structural::from_json(&open).expect("an open object is a schema")
}

/// The structural schema of a kind as JSON: names, types and list types, without values to validate.
///
/// Null is allowed everywhere, as the Go decoder allows it. Types that contain themselves end in an
/// object that keeps unknown fields.
pub fn structural_json(kind: &Kind) -> Value {
    let mut open = Vec::new();
    object(kind.ty, &mut open)
}

fn object(id: Id, open: &mut Vec<Id>) -> Value {
    if open.contains(&id) {
        return json!({"type": "object", "nullable": true, "x-kubernetes-preserve-unknown-fields": true});
    }
    open.push(id);
    let ty = id.get();
    let properties: Map<String, Value> = ty
        .fields
        .iter()
        .map(|field| (field.name.to_owned(), property(field, open)))
        .collect();
    open.pop();
    let mut schema = with(
        json!({"type": "object", "nullable": true}),
        "properties",
        Value::Object(properties),
    );
    if ty.atomic {
        schema["x-kubernetes-map-type"] = "atomic".into();
    }
    schema
}

fn property(field: &Field, open: &mut Vec<Id>) -> Value {
    let mut schema = value(&field.ty, open);
    match field.list {
        ListType::Unset => {}
        ListType::Atomic => schema["x-kubernetes-list-type"] = "atomic".into(),
        ListType::Set => schema["x-kubernetes-list-type"] = "set".into(),
        ListType::Map(keys) => {
            schema["x-kubernetes-list-type"] = "map".into();
            schema["x-kubernetes-list-map-keys"] = keys.split(',').collect::<Vec<_>>().into();
        }
    }
    match field.map {
        MapType::Unset => {}
        MapType::Atomic => schema["x-kubernetes-map-type"] = "atomic".into(),
        MapType::Granular => schema["x-kubernetes-map-type"] = "granular".into(),
    }
    // Zero values are published as defaults too, but the server never writes them.
    if let Some(default) = field.default
        && !matches!(default, "{}" | "\"\"" | "0" | "false")
        && let Ok(default) = serde_json::from_str(&default.replace("\\s", " "))
    {
        schema["default"] = default;
    }
    schema
}

fn value(ty: &Ty, open: &mut Vec<Id>) -> Value {
    match ty {
        Ty::String | Ty::Duration => json!({"type": "string", "nullable": true}),
        Ty::Time | Ty::MicroTime => json!({"type": "string", "format": "date-time", "nullable": true}),
        Ty::Bytes => json!({"type": "string", "format": "byte", "nullable": true}),
        Ty::Bool => json!({"type": "boolean", "nullable": true}),
        Ty::Int32 => json!({"type": "integer", "format": "int32", "nullable": true}),
        Ty::Int64 => json!({"type": "integer", "format": "int64", "nullable": true}),
        Ty::Float => json!({"type": "number", "nullable": true}),
        Ty::Quantity | Ty::IntOrString => json!({"x-kubernetes-int-or-string": true, "nullable": true}),
        Ty::RawExtension | Ty::FieldsV1 => {
            json!({"type": "object", "nullable": true, "x-kubernetes-preserve-unknown-fields": true})
        }
        Ty::Json | Ty::SchemaOrArray | Ty::SchemaOrBool | Ty::SchemaOrStrings => {
            json!({"nullable": true, "x-kubernetes-preserve-unknown-fields": true})
        }
        Ty::List(item) => {
            let schema = json!({"type": "array", "nullable": true});
            with(schema, "items", value(item, open))
        }
        Ty::Map(item) => {
            let schema = json!({"type": "object", "nullable": true});
            with(schema, "additionalProperties", value(item, open))
        }
        Ty::Object(id) => object(*id, open),
    }
}

/// Adds a part. `json!` would copy it, and on every level again what lies below.
fn with(mut schema: Value, name: &str, part: Value) -> Value {
    schema[name] = part;
    schema
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_a_schema_that_compiles() {
        for kind in kinds() {
            Structural::from_json(&structural_json(kind)).unwrap();
            assert!(
                schema(kind).property("metadata").is_some() || kind.verbs == ["create"],
                "{}",
                kind.plural
            );
        }
    }

    #[test]
    fn unfolds_references_and_stops_at_types_that_contain_themselves() {
        let deployment = structural_json(crate::kind("apps", "v1", "Deployment").unwrap());
        let containers = &deployment["properties"]["spec"]["properties"]["template"]["properties"]["spec"]["properties"]
            ["containers"];
        assert_eq!(containers["x-kubernetes-list-map-keys"], json!(["name"]));
        let port = &containers["items"]["properties"]["ports"]["items"]["properties"]["protocol"];
        assert_eq!(port["default"], "TCP");
        let crd = crate::kind("apiextensions.k8s.io", "v1", "CustomResourceDefinition").unwrap();
        assert!(structural_json(crd).to_string().contains("openAPIV3Schema"));
    }
}
