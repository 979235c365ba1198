//! What the server serves: one entry per kind, from the discovery documents.

use anyhow::{Context as _, Result};
use serde_json::Value;

use super::get;

/// How many tab-separated columns a line of `kinds.txt` has.
pub(super) const COLUMNS: usize = 10;

/// One API group version and its discovery document.
pub(super) struct Served {
    pub(super) group: String,
    pub(super) version: String,
    resources: Vec<Value>,
    pub(super) openapi: Value,
}

/// Reads all group versions that are generally available.
pub(super) fn read() -> Result<Vec<Served>> {
    let mut served = vec![read_one("", "v1")?];
    let groups = get("/apis")?;
    for group in groups["groups"].as_array().context("/apis has no groups")? {
        let name = group["name"].as_str().context("group without name")?;
        for version in group["versions"].as_array().context("group without versions")? {
            let version = version["version"].as_str().unwrap_or_default();
            // "v1", "v2": no alpha and no beta.
            let stable = version
                .trim_start_matches('v')
                .bytes()
                .all(|b| b.is_ascii_digit());
            if stable && builtin(name) {
                served.push(read_one(name, version)?);
            }
        }
    }
    Ok(served)
}

/// Leaves out groups that custom resource definitions on the server may have added.
fn builtin(group: &str) -> bool {
    !group.contains('.') || group.ends_with(".k8s.io")
}

fn read_one(group: &str, version: &str) -> Result<Served> {
    let path = if group.is_empty() {
        format!("api/{version}")
    } else {
        format!("apis/{group}/{version}")
    };
    let document = get(&format!("/{path}"))?;
    let resources = document["resources"].as_array().cloned().unwrap_or_default();
    let openapi = get(&format!("/openapi/v3/{path}"))?["components"]["schemas"].take();
    Ok(Served {
        group: group.to_owned(),
        version: version.to_owned(),
        resources,
        openapi,
    })
}

/// Writes the lines: type, group, version, kind, plural, singular, short names, categories, scope and verbs,
/// subresources.
pub(super) fn table(served: &[Served]) -> String {
    let mut out = String::new();
    for one in served {
        for resource in one.resources.iter().filter(|r| !text(r, "name").contains('/')) {
            out.push_str(&line(one, resource));
            out.push('\n');
        }
    }
    out
}

fn line(served: &Served, resource: &Value) -> String {
    let plural = text(resource, "name");
    let kind = text(resource, "kind");
    let mut scope = if resource["namespaced"] == true { "n" } else { "-" }.to_owned();
    scope.push_str(&verbs(resource));
    let subresources: Vec<String> = served
        .resources
        .iter()
        .filter_map(|other| subresource(served, plural, other))
        .collect();
    [
        type_of(served, kind),
        served.group.clone(),
        served.version.clone(),
        kind.to_owned(),
        plural.to_owned(),
        text(resource, "singularName").to_owned(),
        list(resource, "shortNames"),
        list(resource, "categories"),
        scope,
        subresources.join(" "),
    ]
    .join("\t")
}

fn subresource(served: &Served, plural: &str, other: &Value) -> Option<String> {
    let name = text(other, "name").strip_prefix(plural)?.strip_prefix('/')?;
    let or = |key: &str, default: &str| {
        let own = text(other, key);
        if own.is_empty() {
            default.to_owned()
        } else {
            own.to_owned()
        }
    };
    let group = if other["version"].is_string() {
        text(other, "group").to_owned()
    } else {
        served.group.clone()
    };
    let version = or("version", &served.version);
    Some(format!(
        "{name}:{group}:{version}:{}:{}",
        text(other, "kind"),
        verbs(other)
    ))
}

/// One letter per verb, in the order of the document.
fn verbs(resource: &Value) -> String {
    let verbs = resource["verbs"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    verbs.iter().filter_map(Value::as_str).map(letter).collect()
}

fn letter(verb: &str) -> char {
    match verb {
        "deletecollection" => 'D',
        other => other.chars().next().unwrap_or('?'),
    }
}

fn list(resource: &Value, key: &str) -> String {
    let items = resource[key].as_array().map(Vec::as_slice).unwrap_or_default();
    items
        .iter()
        .filter_map(Value::as_str)
        .collect::<Vec<_>>()
        .join(",")
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

/// The type behind a kind, found by its `x-kubernetes-group-version-kind`.
fn type_of(served: &Served, kind: &str) -> String {
    let schemas = served.openapi.as_object().into_iter().flatten();
    for (name, schema) in schemas {
        let gvks = schema["x-kubernetes-group-version-kind"]
            .as_array()
            .map(Vec::as_slice)
            .unwrap_or_default();
        let hit = gvks.iter().any(|gvk| {
            gvk["group"] == *served.group && gvk["version"] == *served.version && gvk["kind"] == kind
        });
        if hit {
            return super::types::short_name(name);
        }
    }
    String::new()
}
