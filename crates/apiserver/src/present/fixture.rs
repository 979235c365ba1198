//! A small registry for tests: config maps, deployments, and two custom resources.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use serde_json::{Value, json};
use skopos_schema::{Column, JsonPath, Scale, Structural};
use skopos_store::{Entry, Revision};
use tokio_util::sync::CancellationToken;

use crate::registry::{
    ALL_VERBS, Custom, Registry, Resource, SelectableField, Shape, Source, Subresource, space_of,
};

/// The definition behind [`widget`].
pub(crate) fn widget_definition() -> Value {
    let schema = json!({
        "type": "object",
        "description": "A widget.",
        "required": ["spec"],
        "properties": {
            "spec": {
                "type": "object",
                "description": "What is wanted.",
                "required": ["color", "size"],
                "properties": {
                    "color": {"type": "string", "description": "Its colour.", "enum": ["red", "blue"]},
                    "size": {"type": "integer", "minimum": 0, "default": 1, "nullable": true},
                    "port": {"x-kubernetes-int-or-string": true},
                    "blob": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
                    "template": {"type": "object", "x-kubernetes-embedded-resource": true},
                    "choice": {"type": "object", "properties": {"a": {"type": "string"}},
                        "oneOf": [{"required": ["a"]}]},
                },
            },
        },
    });
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.pubs.example.com"},
        "spec": {"group": "pubs.example.com", "versions": [{"name": "v1", "schema": {"openAPIV3Schema": schema}}]},
    })
}

pub(crate) fn built_in(group: &str, version: &str, kind: &str) -> Arc<Resource> {
    let kind = skopos_builtin::kind(group, version, kind).expect("a built-in kind");
    let texts = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<String>>();
    let subresource = |sub: &skopos_builtin::Subresource| Subresource {
        name: sub.name.to_owned(),
        group: sub.group.to_owned(),
        version: sub.version.to_owned(),
        kind: sub.kind.to_owned(),
        verbs: sub.verbs.to_vec(),
    };
    Arc::new(Resource {
        group: group.to_owned(),
        version: version.to_owned(),
        plural: kind.plural.to_owned(),
        singular: kind.singular.to_owned(),
        kind: kind.kind.to_owned(),
        list_kind: kind.list_kind.to_owned(),
        short_names: texts(kind.short_names),
        categories: texts(kind.categories),
        namespaced: kind.namespaced,
        verbs: kind.verbs.to_vec(),
        subresources: kind.subresources.iter().map(subresource).collect(),
        storage_version: version.to_owned(),
        storage_group: group.to_owned(),
        space: space_of(group, kind.plural),
        source: Source::BuiltIn(kind),
        tracking: OnceLock::new(),
    })
}

/// A namespaced custom resource with columns, status, scale and a selectable field.
pub(crate) fn widget() -> Arc<Resource> {
    let column = |name: &str, kind: &str, path: &str, priority: i32| {
        Column::from_json(&json!({"name": name, "type": kind, "jsonPath": path, "priority": priority}))
            .unwrap()
    };
    let own = ["pubs.example.com", "v1", "Widget"].map(str::to_owned);
    let scale = ["autoscaling", "v1", "Scale"].map(str::to_owned);
    let mut resource = custom("pubs.example.com", "widgets", "Widget");
    resource.namespaced = true;
    resource.short_names = vec!["wd".to_owned()];
    resource.categories = vec!["all".to_owned(), "pubs".to_owned()];
    resource.subresources = vec![subresource("status", own), subresource("scale", scale)];
    if let Source::Custom(custom) = &mut resource.source {
        custom.status = true;
        custom.scale = Scale::from_json(
            &json!({"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"}),
        );
        custom.columns = vec![
            column("Color", "string", ".spec.color", 0),
            column("Size", "integer", ".spec.size", 1),
            column("Age", "date", ".metadata.creationTimestamp", 0),
        ];
        let path = JsonPath::parse(".spec.color").unwrap();
        custom.selectable_fields = vec![SelectableField {
            label: "spec.color".to_owned(),
            path,
        }];
    }
    Arc::new(resource)
}

/// A cluster-scoped custom resource with nothing special.
pub(crate) fn gizmo() -> Arc<Resource> {
    Arc::new(custom("pubs.example.com", "gizmos", "Gizmo"))
}

fn subresource(name: &str, [group, version, kind]: [String; 3]) -> Subresource {
    Subresource {
        name: name.to_owned(),
        group,
        version,
        kind,
        verbs: vec!["get", "patch", "update"],
    }
}

fn custom(group: &str, plural: &str, kind: &str) -> Resource {
    let schema = Arc::new(Structural::from_json(&json!({"type": "object"})).unwrap());
    Resource {
        group: group.to_owned(),
        version: "v1".to_owned(),
        plural: plural.to_owned(),
        singular: kind.to_lowercase(),
        kind: kind.to_owned(),
        list_kind: format!("{kind}List"),
        short_names: Vec::new(),
        categories: Vec::new(),
        namespaced: false,
        verbs: ALL_VERBS.to_vec(),
        subresources: Vec::new(),
        storage_version: "v1".to_owned(),
        storage_group: group.to_owned(),
        space: space_of(group, plural),
        source: Source::Custom(Box::new(Custom {
            definition: format!("{plural}.{group}"),
            schema: Arc::clone(&schema),
            schemas: Arc::new(BTreeMap::from([("v1".to_owned(), schema)])),
            rules: OnceLock::new(),
            status: false,
            scale: None,
            replicas_paths: Arc::default(),
            columns: Vec::new(),
            selectable_fields: Vec::new(),
            deprecation: None,
            terminating: false,
            shape: Arc::new(Shape::new(Revision(0))),
            gone: CancellationToken::new(),
        })),
        tracking: OnceLock::new(),
    }
}

/// All of the above, with `definition` stored for the widgets.
pub(crate) fn registry(definition: &Value, serial: u64) -> Registry {
    let resources = vec![
        built_in("", "v1", "ConfigMap"),
        built_in("apps", "v1", "Deployment"),
        widget(),
        gizmo(),
    ];
    let name = "widgets.pubs.example.com";
    let entry = Entry {
        key: name.into(),
        value: definition.to_string().into(),
        created: Revision(1),
        modified: Revision(serial),
    };
    Registry::new(
        resources,
        BTreeMap::from([(name.to_owned(), Arc::new(entry))]),
        serial,
    )
}
