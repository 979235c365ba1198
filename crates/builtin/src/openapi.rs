//! Schemas of the built-in kinds as OpenAPI v3 components.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use crate::kind::{Kind, kinds};
use crate::types::{Field, ListType, MapType, Ty, Type, find};

/// The `components.schemas` of one group version: its kinds, their lists and all that they refer to.
///
/// There are no descriptions. Empty when the group version has no built-in kinds.
pub fn openapi_schemas(group: &str, version: &str) -> Value {
    let mut waiting: BTreeSet<&'static str> = BTreeSet::new();
    for kind in kinds()
        .iter()
        .filter(|k| k.group == group && k.version == version)
    {
        let name = kind.ty.get().name;
        waiting.insert(name);
        waiting.extend(crate::types::names().filter(|n| n.strip_suffix("List") == Some(name)));
        waiting.extend(
            kind.subresources
                .iter()
                .filter_map(|s| subresource_type(s.group, s.version, s.kind)),
        );
    }
    if waiting.is_empty() {
        return json!({});
    }
    waiting.extend([
        "meta.v1.DeleteOptions",
        "meta.v1.Status",
        "meta.v1.WatchEvent",
        "meta.v1.APIResourceList",
    ]);
    waiting.extend(["meta.v1.Patch"]);
    let mut schemas = Map::new();
    while let Some(name) = waiting.pop_first() {
        let full = openapi_name(name);
        if !schemas.contains_key(&full) {
            let schema = named_schema(name, (group, version), &mut waiting);
            schemas.insert(full, schema);
        }
    }
    Value::Object(schemas)
}

/// The OpenAPI name of a kind's schema, `io.k8s.api.apps.v1.Deployment`.
pub fn openapi_schema_name(kind: &Kind) -> String {
    openapi_name(kind.ty.get().name)
}

fn subresource_type(group: &str, version: &str, kind: &str) -> Option<&'static str> {
    let package = match group {
        "" => "core",
        other => other.split('.').next().unwrap_or_default(),
    };
    find(&format!("{package}.{version}.{kind}")).map(|id| id.get().name)
}

fn openapi_name(name: &str) -> String {
    match name.split('.').next().unwrap_or_default() {
        "meta" => format!("io.k8s.apimachinery.pkg.apis.{name}"),
        "apiextensions" => format!("io.k8s.apiextensions-apiserver.pkg.apis.{name}"),
        "apiregistration" => format!("io.k8s.kube-aggregator.pkg.apis.{name}"),
        "resource" if name == "resource.Quantity" => format!("io.k8s.apimachinery.pkg.api.{name}"),
        "intstr" => format!("io.k8s.apimachinery.pkg.util.{name}"),
        "runtime" => format!("io.k8s.apimachinery.pkg.{name}"),
        _ => format!("io.k8s.api.{name}"),
    }
}

fn named_schema(name: &'static str, served: (&str, &str), waiting: &mut BTreeSet<&'static str>) -> Value {
    if let Some(schema) = opaque(name) {
        return schema;
    }
    match find(name) {
        Some(id) => struct_schema(id.get(), served, waiting),
        None => json!({}),
    }
}

/// The schema of a type that encodes itself.
fn opaque(name: &str) -> Option<Value> {
    Some(match name {
        "resource.Quantity" => json!({"oneOf": [{"type": "string"}, {"type": "number"}]}),
        "intstr.IntOrString" => {
            json!({"format": "int-or-string", "oneOf": [{"type": "integer"}, {"type": "string"}]})
        }
        "meta.v1.Time" | "meta.v1.MicroTime" => json!({"type": "string", "format": "date-time"}),
        "meta.v1.Duration" => json!({"type": "string"}),
        "meta.v1.FieldsV1" | "runtime.RawExtension" | "meta.v1.Patch" => json!({"type": "object"}),
        "apiextensions.v1.JSON"
        | "apiextensions.v1.JSONSchemaPropsOrArray"
        | "apiextensions.v1.JSONSchemaPropsOrBool"
        | "apiextensions.v1.JSONSchemaPropsOrStringArray" => json!({}),
        _ => return None,
    })
}

fn struct_schema(ty: &'static Type, served: (&str, &str), waiting: &mut BTreeSet<&'static str>) -> Value {
    let mut schema = Map::new();
    schema.insert("type".into(), "object".into());
    let properties: Map<String, Value> = ty
        .fields
        .iter()
        .map(|f| (f.name.to_owned(), property(f, waiting)))
        .collect();
    if !properties.is_empty() {
        schema.insert("properties".into(), Value::Object(properties));
    }
    let required: Vec<Value> = ty
        .fields
        .iter()
        .filter(|f| f.required)
        .map(|f| f.name.into())
        .collect();
    if !required.is_empty() {
        schema.insert("required".into(), Value::Array(required));
    }
    if ty.atomic {
        schema.insert("x-kubernetes-map-type".into(), "atomic".into());
    }
    let gvks = group_version_kinds(ty, served);
    if !gvks.is_empty() {
        schema.insert("x-kubernetes-group-version-kind".into(), Value::Array(gvks));
    }
    Value::Object(schema)
}

fn property(field: &'static Field, waiting: &mut BTreeSet<&'static str>) -> Value {
    let mut out = schema_of(&field.ty, field.declared, waiting);
    if let Some(default) = field.default.and_then(parse_default) {
        out.insert("default".into(), default);
    }
    if let Some(values) = field.enums {
        let values: Vec<Value> = values.split('|').map(|v| v.replace("\\s", " ").into()).collect();
        let inner = if out.contains_key("items") {
            "items"
        } else {
            "additionalProperties"
        };
        match out.get_mut(inner).and_then(Value::as_object_mut) {
            Some(inner) => inner.insert("enum".into(), Value::Array(values)),
            None => out.insert("enum".into(), Value::Array(values)),
        };
    }
    add_merge_facts(field, &mut out);
    // A reference may have no members beside it.
    if out.len() > 1
        && let Some(reference) = out.remove("$ref")
    {
        out.insert("allOf".into(), json!([{"$ref": reference}]));
    }
    Value::Object(out)
}

fn add_merge_facts(field: &Field, out: &mut Map<String, Value>) {
    let mut put = |key: &str, value: Value| out.insert(key.to_owned(), value);
    match field.list {
        ListType::Unset => {}
        ListType::Atomic => drop(put("x-kubernetes-list-type", "atomic".into())),
        ListType::Set => drop(put("x-kubernetes-list-type", "set".into())),
        ListType::Map(keys) => {
            put("x-kubernetes-list-type", "map".into());
            put(
                "x-kubernetes-list-map-keys",
                keys.split(',').collect::<Vec<_>>().into(),
            );
        }
    }
    match field.map {
        MapType::Unset => {}
        MapType::Atomic => drop(put("x-kubernetes-map-type", "atomic".into())),
        MapType::Granular => drop(put("x-kubernetes-map-type", "granular".into())),
    }
    if !field.patch_strategy.is_empty() {
        put("x-kubernetes-patch-strategy", field.patch_strategy.into());
    }
    if !field.merge_key.is_empty() {
        put("x-kubernetes-patch-merge-key", field.merge_key.into());
    }
}

fn parse_default(text: &str) -> Option<Value> {
    serde_json::from_str(&text.replace("\\s", " ")).ok()
}

fn schema_of(ty: &Ty, declared: &'static str, waiting: &mut BTreeSet<&'static str>) -> Map<String, Value> {
    let mut out = Map::new();
    match ty {
        Ty::List(item) => {
            out.insert("type".into(), "array".into());
            out.insert("items".into(), item_schema(item, inner(declared, "[]"), waiting));
        }
        Ty::Map(item) => {
            out.insert("type".into(), "object".into());
            out.insert(
                "additionalProperties".into(),
                item_schema(item, inner(declared, "{}"), waiting),
            );
        }
        Ty::String => drop(out.insert("type".into(), "string".into())),
        Ty::Bool => drop(out.insert("type".into(), "boolean".into())),
        Ty::Int32 | Ty::Int64 | Ty::Float | Ty::Bytes => {
            let (name, format) = match ty {
                Ty::Int32 => ("integer", "int32"),
                Ty::Int64 => ("integer", "int64"),
                Ty::Float => ("number", "double"),
                _ => ("string", "byte"),
            };
            out.insert("type".into(), name.into());
            out.insert("format".into(), format.into());
        }
        _ => {
            let name = follow(declared);
            waiting.insert(name);
            out.insert(
                "$ref".into(),
                format!("#/components/schemas/{}", openapi_name(name)).into(),
            );
        }
    }
    out
}

/// The declaration of the items of a list or map, also behind a name such as `core.v1.ResourceList`.
fn inner(declared: &'static str, prefix: &str) -> &'static str {
    follow(declared)
        .strip_prefix(prefix)
        .unwrap_or("apiextensions.v1.JSON")
}

/// Follows the names of lists and maps, but keeps the names of types that have a schema.
fn follow(declared: &'static str) -> &'static str {
    if opaque(declared).is_some() {
        return declared;
    }
    match crate::types::alias(declared) {
        Some(target) => follow(target),
        None => declared,
    }
}

fn item_schema(ty: &Ty, declared: &'static str, waiting: &mut BTreeSet<&'static str>) -> Value {
    let mut schema = schema_of(ty, declared, waiting);
    match ty {
        Ty::Object(_) => {
            if let Some(reference) = schema.remove("$ref") {
                schema.insert("allOf".into(), json!([{"$ref": reference}]));
                schema.insert("default".into(), json!({}));
            }
        }
        Ty::String => drop(schema.insert("default".into(), "".into())),
        Ty::Bool => drop(schema.insert("default".into(), false.into())),
        Ty::Int32 | Ty::Int64 => drop(schema.insert("default".into(), 0.into())),
        _ => {}
    }
    Value::Object(schema)
}

/// Kinds, lists and the few types that belong to every group name their group, version and kind.
fn group_version_kinds(ty: &Type, (group, version): (&str, &str)) -> Vec<Value> {
    let gvk =
        |group: &str, version: &str, kind: &str| json!({"group": group, "version": version, "kind": kind});
    if matches!(
        ty.name,
        "meta.v1.DeleteOptions" | "meta.v1.WatchEvent" | "meta.v1.Status"
    ) {
        let kind = ty.short_name();
        let mut all = vec![gvk("", "v1", kind)];
        if kind != "Status" && !group.is_empty() {
            all.push(gvk(group, version, kind));
        }
        return all;
    }
    if ty.name == "meta.v1.APIResourceList" {
        return vec![gvk("", "v1", "APIResourceList")];
    }
    let own = |k: &&Kind| k.ty.get().name == ty.name || ty.name.strip_suffix("List") == Some(k.ty.get().name);
    if let Some(kind) = kinds().iter().find(own) {
        return vec![gvk(kind.group, kind.version, ty.short_name())];
    }
    let spoken = kinds().iter().flat_map(|k| k.subresources);
    spoken
        .filter(|s| subresource_type(s.group, s.version, s.kind) == Some(ty.name))
        .map(|s| gvk(s.group, s.version, s.kind))
        .take(1)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reference_has_a_schema() {
        let versions: BTreeSet<_> = kinds().iter().map(|k| (k.group, k.version)).collect();
        for (group, version) in versions {
            let schemas = openapi_schemas(group, version);
            let text = schemas.to_string();
            for part in text.split("#/components/schemas/").skip(1) {
                let name = part.split('"').next().unwrap();
                assert!(schemas.get(name).is_some(), "{group}/{version} lacks {name}");
            }
        }
    }

    #[test]
    fn lists_carry_merge_keys_and_kinds_carry_their_names() {
        let schemas = openapi_schemas("apps", "v1");
        let spec = &schemas["io.k8s.api.core.v1.PodSpec"];
        assert_eq!(spec["required"], json!(["containers"]));
        assert_eq!(
            spec["properties"]["containers"]["x-kubernetes-list-map-keys"],
            json!(["name"])
        );
        let deployment = &schemas["io.k8s.api.apps.v1.Deployment"];
        assert_eq!(
            deployment["x-kubernetes-group-version-kind"],
            json!([{"group": "apps", "version": "v1", "kind": "Deployment"}])
        );
        assert!(
            schemas
                .get("io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions")
                .is_some()
        );
    }

    #[test]
    fn a_group_without_built_in_kinds_has_no_schemas() {
        assert_eq!(openapi_schemas("example.com", "v1"), json!({}));
    }
}
