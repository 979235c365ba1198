//! The paths of one resource and what can be done on them, for both OpenAPI versions.

use serde_json::{Map, Value, json};

use super::definitions::{self, Dialect};
use crate::registry::{Resource, Subresource};

/// A query parameter: name and type.
type Parameter = (&'static str, &'static str);

const PRETTY: Parameter = ("pretty", "string");
const READ: &[Parameter] = &[("resourceVersion", "string")];
const LIST: &[Parameter] = &[
    ("allowWatchBookmarks", "boolean"),
    ("continue", "string"),
    ("fieldSelector", "string"),
    ("labelSelector", "string"),
    ("limit", "integer"),
    ("resourceVersion", "string"),
    ("resourceVersionMatch", "string"),
    ("sendInitialEvents", "boolean"),
    ("timeoutSeconds", "integer"),
    ("watch", "boolean"),
];
// `kubectl` looks for `fieldValidation` and `dryRun` on the patch of a kind before it relies on the server.
const WRITE: &[Parameter] = &[
    ("dryRun", "string"),
    ("fieldManager", "string"),
    ("fieldValidation", "string"),
];
const PATCH: &[Parameter] = &[
    ("dryRun", "string"),
    ("fieldManager", "string"),
    ("fieldValidation", "string"),
    ("force", "boolean"),
];
const DELETE: &[Parameter] = &[
    ("dryRun", "string"),
    ("gracePeriodSeconds", "integer"),
    ("orphanDependents", "boolean"),
    ("propagationPolicy", "string"),
];
const DELETE_COLLECTION: &[Parameter] = &[
    ("continue", "string"),
    ("dryRun", "string"),
    ("fieldSelector", "string"),
    ("gracePeriodSeconds", "integer"),
    ("labelSelector", "string"),
    ("limit", "integer"),
    ("orphanDependents", "boolean"),
    ("propagationPolicy", "string"),
    ("resourceVersion", "string"),
    ("resourceVersionMatch", "string"),
    ("timeoutSeconds", "integer"),
];

const CUSTOM_TYPES: &[&str] = &["application/json", "application/yaml"];
const BUILT_IN_TYPES: &[&str] = &[
    "application/json",
    "application/yaml",
    "application/vnd.kubernetes.protobuf",
];
const STREAM_TYPES: &[&str] = &[
    "application/json;stream=watch",
    "application/vnd.kubernetes.protobuf;stream=watch",
];
const PATCH_TYPES: &[&str] = &[
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/apply-patch+yaml",
];
const STRATEGIC_PATCH_TYPE: &str = "application/strategic-merge-patch+json";

/// One path with its operations.
#[derive(Debug)]
pub(super) struct PathItem {
    pub(super) path: String,
    operations: Vec<Operation>,
}

/// One method on one path.
#[derive(Debug)]
struct Operation {
    method: &'static str,
    action: &'static str,
    id: String,
    tag: String,
    query: &'static [Parameter],
    consumes: Vec<&'static str>,
    produces: Vec<&'static str>,
    body: Option<String>,
    answer: String,
    codes: &'static [&'static str],
    kind: [String; 3],
}

/// A verb of discovery with all that follows from it.
struct Verb {
    verb: &'static str,
    method: &'static str,
    action: &'static str,
    /// First word of the operation's name.
    word: &'static str,
    query: &'static [Parameter],
    codes: &'static [&'static str],
}

const COLLECTION_VERBS: &[Verb] = &[
    Verb {
        verb: "list",
        method: "get",
        action: "list",
        word: "list",
        query: LIST,
        codes: &["200"],
    },
    Verb {
        verb: "create",
        method: "post",
        action: "post",
        word: "create",
        query: WRITE,
        codes: &["200", "201", "202"],
    },
    Verb {
        verb: "deletecollection",
        method: "delete",
        action: "deletecollection",
        word: "deletecollection",
        query: DELETE_COLLECTION,
        codes: &["200"],
    },
];
const ITEM_VERBS: &[Verb] = &[
    Verb {
        verb: "get",
        method: "get",
        action: "get",
        word: "read",
        query: READ,
        codes: &["200"],
    },
    Verb {
        verb: "update",
        method: "put",
        action: "put",
        word: "replace",
        query: WRITE,
        codes: &["200", "201"],
    },
    Verb {
        verb: "delete",
        method: "delete",
        action: "delete",
        word: "delete",
        query: DELETE,
        codes: &["200", "202"],
    },
    Verb {
        verb: "patch",
        method: "patch",
        action: "patch",
        word: "patch",
        query: PATCH,
        codes: &["200", "201"],
    },
    Verb {
        verb: "create",
        method: "post",
        action: "post",
        word: "create",
        query: WRITE,
        codes: &["200", "201", "202"],
    },
];

/// All paths of a resource and its subresources.
pub(super) fn paths(resource: &Resource) -> Vec<PathItem> {
    let prefix = if resource.group.is_empty() {
        "/api".to_owned()
    } else {
        format!("/apis/{}", resource.group)
    };
    let prefix = format!("{prefix}/{}", resource.version);
    let namespaced = if resource.namespaced {
        "/namespaces/{namespace}"
    } else {
        ""
    };
    let collection = format!("{prefix}{namespaced}/{}", resource.plural);
    let item = format!("{collection}/{{name}}");

    let mut found = Vec::new();
    if resource.namespaced && resource.allows("list") {
        let everywhere = Operation {
            id: all_namespaces_id(resource),
            ..own(resource, &COLLECTION_VERBS[0])
        };
        found.push(PathItem {
            path: format!("{prefix}/{}", resource.plural),
            operations: vec![everywhere],
        });
    }
    let of = |verbs: &'static [Verb]| {
        let verbs = verbs.iter().filter(|verb| resource.allows(verb.verb));
        verbs.map(|verb| own(resource, verb)).collect::<Vec<_>>()
    };
    found.push(PathItem {
        path: collection,
        operations: of(COLLECTION_VERBS),
    });
    // Objects are created in their collection, never by name.
    let item_operations = of(&ITEM_VERBS[..ITEM_VERBS.len() - 1]);
    for sub in resource.subresources.iter().filter(|sub| !is_connection(sub)) {
        let verbs = ITEM_VERBS.iter().filter(|verb| sub.verbs.contains(&verb.verb));
        let operations = verbs.map(|verb| of_subresource(resource, sub, verb)).collect();
        found.push(PathItem {
            path: format!("{item}/{}", sub.name),
            operations,
        });
    }
    found.push(PathItem {
        path: item,
        operations: item_operations,
    });
    found.retain(|item| !item.operations.is_empty());
    found
}

/// Subresources that open a stream to a container speak no object.
fn is_connection(sub: &Subresource) -> bool {
    sub.kind.ends_with("Options") || sub.name == "log"
}

fn own(resource: &Resource, verb: &Verb) -> Operation {
    let name = definitions::name(resource, &resource.kind);
    let answer = match verb.action {
        "list" => definitions::name(resource, &resource.list_kind),
        "delete" | "deletecollection" => definitions::meta("Status"),
        _ => name.clone(),
    };
    let body = match verb.action {
        "post" | "put" => Some(name),
        "patch" => Some(definitions::meta("Patch")),
        "delete" => Some(definitions::meta("DeleteOptions")),
        "deletecollection" if resource.built_in().is_some() => Some(definitions::meta("DeleteOptions")),
        _ => None,
    };
    let kind = [&resource.group, &resource.version, &resource.kind].map(Clone::clone);
    Operation {
        body,
        answer,
        kind,
        ..operation(resource, verb, "")
    }
}

fn of_subresource(resource: &Resource, sub: &Subresource, verb: &Verb) -> Operation {
    let is_own = sub.kind == resource.kind;
    let name = match is_own {
        true => definitions::name(resource, &resource.kind),
        false => definitions::foreign(&sub.group, &sub.version, &sub.kind),
    };
    let body = match verb.action {
        "post" | "put" => Some(name.clone()),
        "patch" => Some(definitions::meta("Patch")),
        _ => None,
    };
    // Custom resources name their own kind even on `scale`.
    let kind = match is_own || resource.custom().is_some() {
        true => [&resource.group, &resource.version, &resource.kind],
        false => [&sub.group, &sub.version, &sub.kind],
    };
    Operation {
        body,
        answer: name,
        kind: kind.map(Clone::clone),
        ..operation(resource, verb, &sub.name)
    }
}

/// What an operation has whatever it answers.
fn operation(resource: &Resource, verb: &Verb, subresource: &str) -> Operation {
    let types = if resource.built_in().is_some() {
        BUILT_IN_TYPES
    } else {
        CUSTOM_TYPES
    };
    let mut produces = types.to_vec();
    if verb.action == "list" && resource.built_in().is_some() {
        produces.extend(STREAM_TYPES);
    }
    let mut consumes = if verb.action == "patch" {
        PATCH_TYPES.to_vec()
    } else {
        types.to_vec()
    };
    if verb.action == "patch" && resource.built_in().is_some() {
        consumes.push(STRATEGIC_PATCH_TYPE);
    }
    Operation {
        method: verb.method,
        action: verb.action,
        id: operation_id(resource, verb.word, subresource),
        tag: tag(resource),
        // Only custom resources tell of the version a read may name.
        query: if verb.action == "get" && resource.built_in().is_some() {
            &[]
        } else {
            verb.query
        },
        consumes,
        produces,
        body: None,
        answer: String::new(),
        codes: verb.codes,
        kind: Default::default(),
    }
}

fn tag(resource: &Resource) -> String {
    let group = group_name(resource);
    let mut letters = group.chars();
    let first = letters.next().map(|c| c.to_ascii_lowercase());
    format!(
        "{}_{}",
        first.into_iter().chain(letters).collect::<String>(),
        resource.version
    )
}

/// `apps` as `Apps`, `stable.example.com` as `StableExampleCom`, the core group as `Core`.
fn group_name(resource: &Resource) -> String {
    let group = if resource.group.is_empty() {
        "core"
    } else {
        resource.group.trim_end_matches(".k8s.io")
    };
    group.split(['.', '-']).map(capitalized).collect()
}

fn capitalized(word: &str) -> String {
    let mut letters = word.chars();
    letters
        .next()
        .into_iter()
        .flat_map(char::to_uppercase)
        .chain(letters)
        .collect()
}

fn operation_id(resource: &Resource, word: &str, subresource: &str) -> String {
    let (word, collection) = if word == "deletecollection" {
        ("delete", "Collection")
    } else {
        (word, "")
    };
    let (group, version) = (group_name(resource), capitalized(&resource.version));
    let scope = if resource.namespaced { "Namespaced" } else { "" };
    format!(
        "{word}{group}{version}{collection}{scope}{}{}",
        resource.kind,
        capitalized(subresource)
    )
}

fn all_namespaces_id(resource: &Resource) -> String {
    format!(
        "list{}{}{}ForAllNamespaces",
        group_name(resource),
        capitalized(&resource.version),
        resource.kind
    )
}

impl PathItem {
    pub(super) fn json(&self, dialect: Dialect) -> Value {
        let mut item: Map<String, Value> = self
            .operations
            .iter()
            .map(|op| (op.method.to_owned(), op.json(dialect)))
            .collect();
        let in_path = ["name", "namespace"]
            .into_iter()
            .filter(|name| self.path.contains(&format!("{{{name}}}")));
        let mut parameters: Vec<Value> = in_path.map(|name| path_parameter(name, dialect)).collect();
        parameters.push(query_parameter(PRETTY, dialect));
        item.insert("parameters".to_owned(), parameters.into());
        Value::Object(item)
    }
}

impl Operation {
    fn json(&self, dialect: Dialect) -> Value {
        let mut parameters: Vec<Value> = self
            .query
            .iter()
            .map(|&parameter| query_parameter(parameter, dialect))
            .collect();
        let mut value = json!({
            "tags": [self.tag],
            "operationId": self.id,
            "responses": self.responses(dialect),
            "x-kubernetes-action": self.action,
            "x-kubernetes-group-version-kind":
                {"group": self.kind[0], "version": self.kind[1], "kind": self.kind[2]},
        });
        let is_required = !self.action.starts_with("delete");
        match (dialect, &self.body) {
            (Dialect::V3, Some(body)) => {
                value["requestBody"] = json!({
                    "content": content(&self.consumes, body), "required": is_required,
                });
            }
            (Dialect::V2, Some(body)) => parameters.push(json!({
                "name": "body", "in": "body", "required": is_required, "schema": dialect.reference(body),
            })),
            (_, None) => {}
        }
        if dialect == Dialect::V2 {
            value["consumes"] = self.consumes.clone().into();
            value["produces"] = self.produces.clone().into();
            value["schemes"] = json!(["https"]);
        }
        value["parameters"] = parameters.into();
        value
    }

    fn responses(&self, dialect: Dialect) -> Value {
        let mut found = Map::new();
        for &code in self.codes {
            let description = match code {
                "201" => "Created",
                "202" => "Accepted",
                _ => "OK",
            };
            let response = match dialect {
                Dialect::V3 => {
                    json!({"description": description, "content": content(&self.produces, &self.answer)})
                }
                Dialect::V2 => json!({"description": description, "schema": dialect.reference(&self.answer)}),
            };
            found.insert(code.to_owned(), response);
        }
        found.insert("401".to_owned(), json!({"description": "Unauthorized"}));
        Value::Object(found)
    }
}

fn content(media_types: &[&str], name: &str) -> Value {
    let schema = json!({"schema": Dialect::V3.reference(name)});
    media_types
        .iter()
        .map(|media| ((*media).to_owned(), schema.clone()))
        .collect::<Map<_, _>>()
        .into()
}

fn query_parameter((name, kind): Parameter, dialect: Dialect) -> Value {
    match dialect {
        Dialect::V3 => {
            json!({"name": name, "in": "query", "schema": {"type": kind, "uniqueItems": true}})
        }
        Dialect::V2 => json!({"name": name, "in": "query", "type": kind, "uniqueItems": true}),
    }
}

fn path_parameter(name: &str, dialect: Dialect) -> Value {
    match dialect {
        Dialect::V3 => json!({
            "name": name, "in": "path", "required": true, "schema": {"type": "string", "uniqueItems": true},
        }),
        Dialect::V2 => {
            json!({"name": name, "in": "path", "required": true, "type": "string", "uniqueItems": true})
        }
    }
}
