//! Ownership of replicas seen through the scale subresource, where they have another path and version.

use std::sync::OnceLock;

use serde_json::{Value, json};

use super::element::Element;
use super::managed::Managed;
use super::set::FieldSet;
use crate::structural::Structural;

const SCALE_VERSION: &str = "autoscaling/v1";
const REPLICAS: [&str; 2] = ["spec", "replicas"];

/// Where each served version of a kind keeps its replicas, by apiVersion.
///
/// A version without scale subresource has an empty path. Entries of versions that are not here are dropped.
pub type ReplicasPaths<'a> = [(&'a str, &'a [&'a str])];

/// The schema of a `Scale`, for [`apply()`](super::apply) and [`track_update`](super::track_update) through
/// the scale subresource.
#[must_use]
pub fn scale_schema() -> &'static Structural {
    static SCHEMA: OnceLock<Structural> = OnceLock::new();
    SCHEMA.get_or_init(|| Structural::from_json(&scale_json()).unwrap_or_default())
}

fn scale_json() -> Value {
    let replicas = json!({"type": "integer"});
    json!({"type": "object", "properties": {
        "spec": {"type": "object", "properties": {"replicas": replicas}},
        "status": {"type": "object", "properties": {"replicas": replicas, "selector": {"type": "string"}}},
    }})
}

/// The managedFields of a `Scale`: those entries of its object that own the replicas.
#[must_use]
pub fn scale_entries(entries: Option<&Value>, paths: &ReplicasPaths<'_>) -> Option<Value> {
    let mut managed = Managed::parse(entries)?;
    managed.owners.retain(|_, owner| {
        let owns = path(paths, &owner.api_version).is_some_and(|path| owner.set.has(&path));
        owner.set = FieldSet::of_paths(&[&REPLICAS]);
        SCALE_VERSION.clone_into(&mut owner.api_version);
        owns
    });
    managed.to_json()
}

/// The managedFields of an object of `api_version` after its `Scale` was written and got `scale` as its entries.
#[must_use]
pub fn entries_after_scale(
    entries: Option<&Value>,
    scale: Option<&Value>,
    api_version: &str,
    paths: &ReplicasPaths<'_>,
) -> Option<Value> {
    let (mut managed, mut scale) = (Managed::parse(entries)?, Managed::parse(scale)?);
    managed.owners.retain(|id, owner| {
        let Some(path) = path(paths, &owner.api_version) else {
            return false;
        };
        if path.is_empty() || !owner.set.has(&path) || scale.owners.remove(id).is_some() {
            return true;
        }
        // Its replicas were taken through the scale.
        let mut replicas = FieldSet::default();
        replicas.insert(&path);
        owner.set = std::mem::take(&mut owner.set).difference(&replicas);
        !owner.set.is_empty()
    });
    let own_path = path(paths, api_version).unwrap_or_default();
    for (id, mut owner) in scale.owners {
        if !owner.set.has(&steps(&REPLICAS)) {
            continue;
        }
        owner.set = FieldSet::default();
        owner.set.insert(&own_path);
        api_version.clone_into(&mut owner.api_version);
        managed.owners.insert(id, owner);
    }
    managed.to_json()
}

fn path(paths: &ReplicasPaths<'_>, api_version: &str) -> Option<Vec<Element>> {
    let (_, path) = paths.iter().find(|(version, _)| *version == api_version)?;
    Some(steps(path))
}

fn steps(path: &[&str]) -> Vec<Element> {
    path.iter().map(|name| Element::field(name)).collect()
}
