//! Names of finalizers: whose they are should be seen.

use serde_json::Value;

/// The finalizers that need no domain: they are Kubernetes' own.
const STANDARD: [&str; 3] = ["orphan", "foregroundDeletion", "kubernetes"];

/// Whether a finalizer is one of Kubernetes' own, or says by its domain whose it is.
#[must_use]
pub fn is_qualified_finalizer(name: &str) -> bool {
    name.contains('/') || STANDARD.contains(&name)
}

/// Warnings for finalizers of an object that could collide with those of others. With `old`, only for new ones.
#[must_use]
pub fn finalizer_warnings(new: &Value, old: Option<&Value>) -> Vec<String> {
    let known: Vec<&str> = old.into_iter().flat_map(finalizers).collect();
    let new = finalizers(new).filter(|name| !is_qualified_finalizer(name) && !known.contains(name));
    new.map(warning).collect()
}

fn warning(name: &str) -> String {
    let path = match name.contains('.') {
        true => " including a path (/)",
        false => "",
    };
    format!(
        "metadata.finalizers: {name:?}: prefer a domain-qualified finalizer name{path} to avoid accidental conflicts with other finalizer writers"
    )
}

fn finalizers(object: &Value) -> impl Iterator<Item = &str> {
    let list = object.pointer("/metadata/finalizers").and_then(Value::as_array);
    list.into_iter().flatten().filter_map(Value::as_str)
}
