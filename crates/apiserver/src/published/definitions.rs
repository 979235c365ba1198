//! Schemas as OpenAPI publishes them: their names, and the schemas of custom resources.
//!
//! A custom resource's schema is the one its author wrote, with the parts every object has put in. OpenAPI v2
//! knows less than v3, and old clients trip over what they do not know, so it is taken out there.

use serde_json::{Map, Value, json};
use skopos_store::Entry;

use crate::registry::{Resource, SelectableField};

const META_PREFIX: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.";
const V3_PREFIX: &str = "#/components/schemas/";
const V2_PREFIX: &str = "#/definitions/";
/// Deeper schemas are cut off; the definition's own checks keep real ones far below.
const MAX_DEPTH: usize = 128;
/// Keys of a schema that are never published.
const PRIVATE_KEYS: [&str; 5] = ["$schema", "$ref", "id", "example", "externalDocs"];

/// Types of the meta group that no custom resource refers to.
const UNSHARED_META_KINDS: [&str; 4] = ["APIResource", "APIResourceList", "MicroTime", "WatchEvent"];

/// The two versions of OpenAPI.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dialect {
    V2,
    V3,
}

impl Dialect {
    /// A reference to a published schema.
    pub(super) fn reference(self, name: &str) -> Value {
        let prefix = if self == Dialect::V3 { V3_PREFIX } else { V2_PREFIX };
        json!({"$ref": format!("{prefix}{name}")})
    }

    /// A reference with a description beside it, which v3 does not allow in one place.
    fn described_reference(self, name: &str, description: &str) -> Value {
        let mut value = match self {
            Dialect::V3 => json!({"allOf": [self.reference(name)]}),
            Dialect::V2 => self.reference(name),
        };
        value["description"] = description.into();
        value
    }
}

/// The published name of a schema in the resource's own group.
pub(super) fn name(resource: &Resource, kind: &str) -> String {
    match resource.built_in() {
        Some(own) => {
            let name = skopos_builtin::openapi_schema_name(own);
            match name.rsplit_once('.') {
                Some((package, _)) => format!("{package}.{kind}"),
                None => name,
            }
        }
        None => {
            let mut parts: Vec<&str> = resource.group.split('.').collect();
            parts.reverse();
            format!("{}.{}.{kind}", parts.join("."), resource.version)
        }
    }
}

/// The published name of a built-in kind of any group.
pub(super) fn foreign(group: &str, version: &str, kind: &str) -> String {
    if let Some(found) = skopos_builtin::kind(group, version, kind) {
        return skopos_builtin::openapi_schema_name(found);
    }
    let package = if group.is_empty() {
        "core"
    } else {
        group.split('.').next().unwrap_or_default()
    };
    format!("io.k8s.api.{package}.{version}.{kind}")
}

/// The published name of a type that all groups share.
pub(super) fn meta(kind: &str) -> String {
    format!("{META_PREFIX}{kind}")
}

/// The schemas that custom resources refer to.
pub(super) fn shared(dialect: Dialect) -> Map<String, Value> {
    let Value::Object(mut schemas) = skopos_builtin::openapi_schemas("coordination.k8s.io", "v1") else {
        return Map::new();
    };
    schemas.retain(|name, _| {
        name.strip_prefix(META_PREFIX)
            .is_some_and(|kind| !UNSHARED_META_KINDS.contains(&kind))
    });
    schemas.extend(scale());
    match dialect {
        Dialect::V3 => schemas,
        Dialect::V2 => schemas
            .into_iter()
            .map(|(name, schema)| (name, to_v2(schema)))
            .collect(),
    }
}

/// The schemas of the `scale` subresource.
fn scale() -> [(String, Value); 3] {
    let name = |kind| foreign("autoscaling", "v1", kind);
    let replicas = json!({"type": "integer", "format": "int32"});
    let scale = json!({
        "type": "object",
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": Dialect::V3.reference(&meta("ObjectMeta")),
            "spec": Dialect::V3.reference(&name("ScaleSpec")),
            "status": Dialect::V3.reference(&name("ScaleStatus")),
        },
        "x-kubernetes-group-version-kind": [{"group": "autoscaling", "version": "v1", "kind": "Scale"}],
    });
    let spec = json!({"type": "object", "properties": {"replicas": replicas}});
    let status = json!({
        "type": "object",
        "required": ["replicas"],
        "properties": {"replicas": replicas, "selector": {"type": "string"}},
    });
    [
        (name("Scale"), scale),
        (name("ScaleSpec"), spec),
        (name("ScaleStatus"), status),
    ]
}

/// A schema of a built-in kind, which is written for v3, for v2.
pub(super) fn to_v2(schema: Value) -> Value {
    match schema {
        Value::Object(object) => object_to_v2(object),
        Value::Array(items) => items.into_iter().map(to_v2).collect(),
        other => other,
    }
}

fn object_to_v2(mut object: Map<String, Value>) -> Value {
    if let Some(reference) = single_reference(&object) {
        return json!({"$ref": reference});
    }
    // The types with several forms are quantities and int-or-string: v2 calls them strings.
    if object.remove("oneOf").is_some() {
        object.insert("type".to_owned(), "string".into());
    }
    object.remove("default");
    object
        .into_iter()
        .map(|(name, value)| (name, to_v2(value)))
        .collect::<Map<_, _>>()
        .into()
}

/// The one thing a schema refers to, in the words of v2.
fn single_reference(object: &Map<String, Value>) -> Option<String> {
    let direct = object.get("$ref");
    let reference = direct
        .or_else(|| object.get("allOf")?.get(0)?.get("$ref"))?
        .as_str()?;
    Some(reference.replacen(V3_PREFIX, V2_PREFIX, 1))
}

/// The schemas of a custom resource and its list, by name.
pub(super) fn custom(
    resource: &Resource,
    definition: Option<&Entry>,
    dialect: Dialect,
) -> Vec<(String, Value)> {
    let kind_name = name(resource, &resource.kind);
    let mut own = kind_schema(resource, definition, dialect);
    let mut list = list_schema(resource, &kind_name, dialect);
    add_type(&mut own, resource, &resource.kind);
    add_type(&mut list, resource, &resource.list_kind);
    vec![(kind_name, own), (name(resource, &resource.list_kind), list)]
}

fn add_type(schema: &mut Value, resource: &Resource, kind: &str) {
    schema["x-kubernetes-group-version-kind"] =
        json!([{"group": resource.group, "version": resource.version, "kind": kind}]);
    let fields = resource
        .custom()
        .map_or(&[][..], |custom| custom.selectable_fields.as_slice());
    if !fields.is_empty() {
        let path = |field: &SelectableField| json!({"fieldPath": field.label});
        schema["x-kubernetes-selectable-fields"] = fields.iter().map(path).collect();
    }
}

fn kind_schema(resource: &Resource, definition: Option<&Entry>, dialect: Dialect) -> Value {
    let written = definition.and_then(|definition| written_schema(&resource.version, definition));
    let Some(mut schema) = written else {
        return json!({"type": "object"});
    };
    if dialect == Dialect::V2 && is_set(&schema, "x-kubernetes-preserve-unknown-fields") {
        return json!({"type": "object"});
    }
    publish(&mut schema, dialect, 0);
    add_object_properties(&mut schema, dialect);
    Value::Object(schema)
}

/// The schema its author wrote for a version.
fn written_schema(version: &str, definition: &Entry) -> Option<Map<String, Value>> {
    let definition: Value = serde_json::from_slice(&definition.value).ok()?;
    let versions = definition.pointer("/spec/versions")?.as_array()?;
    let found = versions
        .iter()
        .find(|v| v.get("name").is_some_and(|name| name == version))?;
    found.pointer("/schema/openAPIV3Schema")?.as_object().cloned()
}

fn list_schema(resource: &Resource, item: &str, dialect: Dialect) -> Value {
    let mut schema = Map::from_iter([
        (
            "description".to_owned(),
            format!("{} is a list of {}", resource.list_kind, resource.kind).into(),
        ),
        ("type".to_owned(), "object".into()),
        ("required".to_owned(), json!(["items"])),
    ]);
    add_object_properties(&mut schema, dialect);
    let mut schema = Value::Object(schema);
    schema["properties"]["metadata"] =
        dialect.described_reference(&meta("ListMeta"), "Metadata of the list.");
    schema["properties"]["items"] = json!({
        "description": format!("List of {}.", resource.plural),
        "type": "array",
        "items": dialect.reference(item),
    });
    schema
}

/// Puts in what every object has.
fn add_object_properties(schema: &mut Map<String, Value>, dialect: Dialect) {
    let properties = schema.entry("properties").or_insert_with(|| json!({}));
    let text = |description: &str| json!({"type": "string", "description": description});
    properties["apiVersion"] = text("Group and version of the schema this object is written in.");
    properties["kind"] = text("Name of the type of this object, in CamelCase.");
    properties["metadata"] = dialect.described_reference(
        &meta("ObjectMeta"),
        "Name, labels and the other metadata all objects have.",
    );
}

/// Turns a schema as written into a published one, in place.
fn publish(schema: &mut Map<String, Value>, dialect: Dialect, depth: usize) {
    if depth > MAX_DEPTH {
        schema.clear();
        return;
    }
    for key in PRIVATE_KEYS {
        schema.remove(key);
    }
    match dialect {
        Dialect::V2 => simplify(schema),
        Dialect::V3 => unfold_int_or_string(schema),
    }
    if let Some(Value::Object(properties)) = schema.get_mut("properties") {
        for property in properties.values_mut().filter_map(Value::as_object_mut) {
            publish(property, dialect, depth + 1);
        }
    }
    for key in ["items", "additionalProperties"] {
        if let Some(Value::Object(inner)) = schema.get_mut(key) {
            publish(inner, dialect, depth + 1);
        }
    }
    let is_open = dialect == Dialect::V2 && is_set(schema, "x-kubernetes-preserve-unknown-fields");
    if is_set(schema, "x-kubernetes-embedded-resource") && !is_open {
        add_object_properties(schema, dialect);
        require_types(schema);
    }
}

fn unfold_int_or_string(schema: &mut Map<String, Value>) {
    if is_set(schema, "x-kubernetes-int-or-string") && !schema.contains_key("anyOf") {
        schema.insert(
            "anyOf".to_owned(),
            json!([{"type": "integer"}, {"type": "string"}]),
        );
    }
}

/// Takes out what v2 has no words for.
fn simplify(schema: &mut Map<String, Value>) {
    // What may be null must not be required: a client that checks by v2 would refuse the null.
    if let Some(Value::Object(properties)) = schema.get("properties") {
        let nullable: Vec<String> = properties
            .iter()
            .filter(|(_, property)| property.as_object().is_some_and(|p| is_set(p, "nullable")))
            .map(|(name, _)| name.clone())
            .collect();
        drop_required(schema, &nullable);
    }
    let is_nullable = is_set(schema, "nullable");
    let is_open = is_set(schema, "x-kubernetes-preserve-unknown-fields");
    for key in [
        "allOf",
        "anyOf",
        "oneOf",
        "not",
        "nullable",
        "default",
        "x-kubernetes-validations",
    ] {
        schema.remove(key);
    }
    if is_nullable || is_open {
        schema.remove("items");
        schema.remove("properties");
    }
    let kind = schema.get("type").and_then(Value::as_str).unwrap_or("");
    let has_no_items = kind == "array" && !schema.contains_key("items");
    if is_nullable || has_no_items || (is_open && kind == "object") {
        schema.remove("type");
    }
}

fn drop_required(schema: &mut Map<String, Value>, names: &[String]) {
    let Some(Value::Array(required)) = schema.get_mut("required") else {
        return;
    };
    required.retain(|name| !names.iter().any(|dropped| name == dropped));
    if required.is_empty() {
        schema.remove("required");
    }
}

fn require_types(schema: &mut Map<String, Value>) {
    let required = schema.entry("required").or_insert_with(|| json!([]));
    let Value::Array(required) = required else { return };
    for name in ["kind", "apiVersion"] {
        if !required.iter().any(|found| found == name) {
            required.push(name.into());
        }
    }
}

fn is_set(schema: &Map<String, Value>, key: &str) -> bool {
    schema.get(key).is_some_and(|value| value == true)
}
