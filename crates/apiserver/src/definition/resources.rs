//! Makes served resources: from the table of built-in kinds and from stored definitions.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use serde_json::{Value, json};
use skopos_schema::{Column, JsonPath, Scale, SchemaError, Structural, crd};
use skopos_store::Revision;
use tokio_util::sync::CancellationToken;

use super::is_condition_true;
use crate::registry::{
    ALL_VERBS, Custom, Resource, SelectableField, Shape, Source, Subresource, TERMINATING_VERBS, space_of,
};

/// The resources that are always there.
pub(crate) fn built_in_resources() -> Vec<Arc<Resource>> {
    skopos_builtin::kinds()
        .iter()
        .map(|kind| Arc::new(built_in(kind)))
        .collect()
}

fn built_in(kind: &'static skopos_builtin::Kind) -> Resource {
    let owned = |names: &[&str]| names.iter().map(|n| (*n).to_owned()).collect();
    let (storage_group, storage_version) = stored_as(kind);
    Resource {
        group: kind.group.into(),
        version: kind.version.into(),
        plural: kind.plural.into(),
        singular: kind.singular.into(),
        kind: kind.kind.into(),
        list_kind: kind.list_kind.into(),
        short_names: owned(kind.short_names),
        categories: owned(kind.categories),
        namespaced: kind.namespaced,
        verbs: kind.verbs.to_vec(),
        subresources: kind
            .subresources
            .iter()
            .filter(|s| is_served(s))
            .map(built_in_subresource)
            .collect(),
        space: space_of(storage_group, kind.plural),
        storage_group: storage_group.into(),
        storage_version: storage_version.into(),
        source: Source::BuiltIn(kind),
        tracking: OnceLock::new(),
    }
}

/// Events are kept in the core group, autoscalers in their newest version.
fn stored_as(kind: &skopos_builtin::Kind) -> (&'static str, &'static str) {
    match (kind.group, kind.kind) {
        ("events.k8s.io", "Event") => ("", "v1"),
        ("autoscaling", "HorizontalPodAutoscaler") => ("autoscaling", "v2"),
        _ => (kind.group, kind.version),
    }
}

/// The same objects in other versions of their group.
pub(crate) fn other_versions(
    kind: &'static skopos_builtin::Kind,
) -> impl Iterator<Item = &'static skopos_builtin::Kind> {
    let is_other = move |other: &&skopos_builtin::Kind| {
        other.group == kind.group
            && other.plural == kind.plural
            && stored_as(other) == stored_as(kind)
            && !std::ptr::eq(*other, kind)
    };
    skopos_builtin::kinds().iter().filter(is_other)
}

/// What needs a kubelet or a proxy behind it is not served, and not shown in discovery either.
fn is_served(subresource: &skopos_builtin::Subresource) -> bool {
    ["status", "scale", "finalize", "approval"].contains(&subresource.name)
}

fn built_in_subresource(subresource: &skopos_builtin::Subresource) -> Subresource {
    Subresource {
        name: subresource.name.into(),
        group: subresource.group.into(),
        version: subresource.version.into(),
        kind: subresource.kind.into(),
        verbs: subresource.verbs.to_vec(),
    }
}

/// The resources of one definition, one per served version.
///
/// # Errors
/// A schema that cannot be read: such a definition is stored but not served.
pub(super) fn of_definition(
    definition: &Value,
    shape: Shape,
    gone: &CancellationToken,
) -> Result<Vec<Arc<Resource>>, SchemaError> {
    let spec = &definition["spec"];
    let versions = spec["versions"].as_array().map_or(&[][..], Vec::as_slice);
    let Some(storage) = versions.iter().find(|v| v["storage"] == true) else {
        return Ok(Vec::new());
    };
    let mut schemas = BTreeMap::new();
    for version in versions {
        schemas.insert(text(&version["name"]), Arc::new(schema_of(version)?));
    }
    let (schemas, shape) = (Arc::new(schemas), Arc::new(shape));
    let replicas_paths = Arc::new(replicas_paths(definition, versions));
    let mut resources = Vec::new();
    for version in versions.iter().filter(|v| v["served"] == true) {
        let custom = custom(definition, version, &schemas, &replicas_paths, &shape, gone);
        resources.push(Arc::new(resource(definition, version, storage, custom)));
    }
    Ok(resources)
}

/// The resource of a definition in its storage version, which need not be served: for cleaning up.
pub(super) fn of_storage(definition: &Value) -> Option<Arc<Resource>> {
    if !is_condition_true(definition, "Established") {
        return None;
    }
    let mut definition = definition.clone();
    for version in definition["spec"]["versions"].as_array_mut()? {
        version["served"] = version["storage"].clone();
    }
    let (shape, gone) = (Shape::new(Revision(u64::MAX)), CancellationToken::new());
    of_definition(&definition, shape, &gone).ok()?.pop()
}

fn schema_of(version: &Value) -> Result<Structural, SchemaError> {
    let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    Structural::from_json(version.pointer("/schema/openAPIV3Schema").unwrap_or(&open))
}

fn custom(
    definition: &Value,
    version: &Value,
    schemas: &Arc<BTreeMap<String, Arc<Structural>>>,
    replicas_paths: &Arc<Vec<(String, Vec<String>)>>,
    shape: &Arc<Shape>,
    gone: &CancellationToken,
) -> Custom {
    let columns = version["additionalPrinterColumns"]
        .as_array()
        .map_or(&[][..], Vec::as_slice);
    let columns: Vec<Column> = match columns {
        [] => vec![Column::age()],
        columns => columns.iter().filter_map(|c| Column::from_json(c).ok()).collect(),
    };
    Custom {
        definition: text(&definition["metadata"]["name"]),
        schema: Arc::clone(&schemas[version["name"].as_str().unwrap_or("")]),
        rules: OnceLock::new(),
        schemas: Arc::clone(schemas),
        status: version
            .pointer("/subresources/status")
            .is_some_and(|s| !s.is_null()),
        scale: version.pointer("/subresources/scale").and_then(Scale::from_json),
        replicas_paths: Arc::clone(replicas_paths),
        columns,
        selectable_fields: selectable_fields(version),
        deprecation: crd::deprecation(definition, version),
        terminating: !definition["metadata"]["deletionTimestamp"].is_null(),
        shape: Arc::clone(shape),
        gone: gone.clone(),
    }
}

fn replicas_paths(definition: &Value, versions: &[Value]) -> Vec<(String, Vec<String>)> {
    let group = text(&definition["spec"]["group"]);
    let path_of = |version: &Value| {
        let path = version.pointer("/subresources/scale/specReplicasPath");
        let path = path.and_then(Value::as_str).unwrap_or("").trim_start_matches('.');
        match path {
            "" => Vec::new(),
            path => path.split('.').map(str::to_owned).collect(),
        }
    };
    versions
        .iter()
        .map(|version| (format!("{group}/{}", text(&version["name"])), path_of(version)))
        .collect()
}

fn selectable_fields(version: &Value) -> Vec<SelectableField> {
    let fields = version["selectableFields"]
        .as_array()
        .map_or(&[][..], Vec::as_slice);
    let parse = |field: &Value| {
        let path = field["jsonPath"].as_str()?;
        let label = path.trim_start_matches('.').to_owned();
        Some(SelectableField {
            label,
            path: JsonPath::parse(path).ok()?,
        })
    };
    fields.iter().filter_map(parse).collect()
}

fn resource(definition: &Value, version: &Value, storage: &Value, custom: Custom) -> Resource {
    let spec = &definition["spec"];
    let names = &definition["status"]["acceptedNames"];
    let (group, version) = (text(&spec["group"]), text(&version["name"]));
    let plural = text(&names["plural"]);
    let kind = text(&names["kind"]);
    let mut subresources = Vec::new();
    let of_subresource = |name: &str, group: &str, version: &str, kind: &str| Subresource {
        name: name.into(),
        group: group.into(),
        version: version.into(),
        kind: kind.into(),
        verbs: vec!["get", "patch", "update"],
    };
    if custom.status {
        subresources.push(of_subresource("status", &group, &version, &kind));
    }
    if custom.scale.is_some() {
        subresources.push(of_subresource("scale", "autoscaling", "v1", "Scale"));
    }
    Resource {
        singular: text(&names["singular"]),
        list_kind: text(&names["listKind"]),
        short_names: texts(&names["shortNames"]),
        categories: texts(&names["categories"]),
        namespaced: spec["scope"] == "Namespaced",
        verbs: if custom.terminating {
            TERMINATING_VERBS.to_vec()
        } else {
            ALL_VERBS.to_vec()
        },
        subresources,
        storage_version: text(&storage["name"]),
        storage_group: group.clone(),
        space: space_of(&group, &plural),
        source: Source::Custom(Box::new(custom)),
        tracking: OnceLock::new(),
        group,
        version,
        plural,
        kind,
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or("").to_owned()
}

fn texts(value: &Value) -> Vec<String> {
    value
        .as_array()
        .map_or(&[][..], Vec::as_slice)
        .iter()
        .map(text)
        .collect()
}
