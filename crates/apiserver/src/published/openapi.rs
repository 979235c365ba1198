//! Puts OpenAPI documents together, piece by piece and already compressed.
//!
//! A document is large and rarely asked for, so it is never held as a whole tree: each path and each schema is
//! made, written and dropped.

use std::collections::HashSet;
use std::io::{self, Write};

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha512};
use skopos_object::raw_path;

use super::definitions::{self, Dialect};
use super::{gnostic, operations};
use crate::registry::{Registry, Resource};

const TITLE: &str = "Skopos";
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// A document of one group version, OpenAPI v3 in JSON, packed with gzip.
pub(super) fn v3(registry: &Registry, group: &str, version: &str) -> io::Result<Vec<u8>> {
    let mut out = packer();
    write!(out, r#"{{"openapi":"3.0.0","info":{},"paths":{{"#, info())?;
    write_members(
        &mut out,
        paths(registry.of(group, version).map(AsRef::as_ref), Dialect::V3),
    )?;
    write!(out, r#"}},"components":{{"schemas":{{"#)?;
    write_members(&mut out, schemas(registry, group, version, Dialect::V3))?;
    write!(out, "}}}}}}")?;
    out.finish()
}

/// The document of everything, OpenAPI v2 in JSON, packed with gzip.
pub(super) fn v2(registry: &Registry) -> io::Result<Vec<u8>> {
    let mut out = packer();
    write!(out, r#"{{"swagger":"2.0","info":{},"paths":{{"#, info())?;
    write_members(
        &mut out,
        paths(registry.resources().iter().map(AsRef::as_ref), Dialect::V2),
    )?;
    write!(out, r#"}},"definitions":{{"#)?;
    write_members(&mut out, all_schemas(registry))?;
    write!(out, "}}}}")?;
    out.finish()
}

/// The document of everything, OpenAPI v2 in protobuf, packed with gzip.
pub(super) fn v2_protobuf(registry: &Registry) -> io::Result<Vec<u8>> {
    let resources = registry.resources().iter().map(AsRef::as_ref);
    let paths: Vec<u8> = paths(resources, Dialect::V2)
        .flat_map(|(path, item)| gnostic::named_path(&path, &item))
        .collect();
    let definitions: Vec<u8> = all_schemas(registry)
        .flat_map(|(name, schema)| gnostic::named_definition(&name, &schema))
        .collect();
    let mut out = packer();
    out.write_all(&gnostic::document(TITLE, VERSION, &paths, &definitions))?;
    out.finish()
}

/// Changes when the document of a group version does: a hash of all that goes into it.
pub(super) fn fingerprint(registry: &Registry, group: &str, version: &str) -> String {
    let mut hash = Sha512::new();
    let mut add = |piece: &[u8]| {
        hash.update((piece.len() as u64).to_le_bytes());
        hash.update(piece);
    };
    for piece in [VERSION, group, version] {
        add(piece.as_bytes());
    }
    for resource in registry.of(group, version) {
        add(resource.plural.as_bytes());
        add(resource.verbs.join(",").as_bytes());
        if let Some(definition) = resource.custom().and_then(|c| registry.definition(&c.definition)) {
            // The status changes often and is not published; without a spec the whole will do.
            add(raw_path(&definition.value, &["spec"]).unwrap_or(&definition.value));
        }
    }
    upper_hex(&hash.finalize())
}

/// A hash in the form upstream gives its tags.
pub(super) fn tag(bytes: &[u8]) -> String {
    upper_hex(&Sha512::digest(bytes))
}

fn upper_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02X}")).collect()
}

fn packer() -> GzEncoder<Vec<u8>> {
    GzEncoder::new(Vec::new(), Compression::new(4))
}

fn info() -> Value {
    serde_json::json!({"title": TITLE, "version": VERSION})
}

fn write_members(out: &mut impl Write, members: impl Iterator<Item = (String, Value)>) -> io::Result<()> {
    for (i, (name, value)) in members.enumerate() {
        if i > 0 {
            out.write_all(b",")?;
        }
        serde_json::to_writer(&mut *out, &name)?;
        out.write_all(b":")?;
        serde_json::to_writer(&mut *out, &value)?;
    }
    Ok(())
}

fn paths<'a>(
    resources: impl Iterator<Item = &'a Resource>,
    dialect: Dialect,
) -> impl Iterator<Item = (String, Value)> {
    let mut items: Vec<_> = resources.flat_map(operations::paths).collect();
    items.sort_by(|a, b| a.path.cmp(&b.path));
    items.dedup_by(|a, b| a.path == b.path);
    items.into_iter().map(move |item| {
        let value = item.json(dialect);
        (item.path, value)
    })
}

/// The schemas of one group version with all they refer to.
fn schemas(
    registry: &Registry,
    group: &str,
    version: &str,
    dialect: Dialect,
) -> impl Iterator<Item = (String, Value)> {
    let built_in = match skopos_builtin::openapi_schemas(group, version) {
        Value::Object(schemas) => schemas,
        _ => Map::new(),
    };
    let custom: Vec<&Resource> = registry
        .of(group, version)
        .map(AsRef::as_ref)
        .filter(|resource| resource.custom().is_some())
        .collect();
    let shared = if custom.is_empty() {
        Map::new()
    } else {
        definitions::shared(dialect)
    };
    let own = custom
        .into_iter()
        .flat_map(move |resource| custom_schemas(registry, resource, dialect));
    let mut seen = HashSet::new();
    let mut all: Vec<(String, Value)> = built_in
        .into_iter()
        .map(move |(name, schema)| {
            (
                name,
                if dialect == Dialect::V2 {
                    definitions::to_v2(schema)
                } else {
                    schema
                },
            )
        })
        .chain(shared)
        .chain(own)
        .filter(|(name, _)| seen.insert(name.clone()))
        .collect();
    all.sort_by(|a, b| a.0.cmp(&b.0));
    all.into_iter()
}

fn custom_schemas(registry: &Registry, resource: &Resource, dialect: Dialect) -> Vec<(String, Value)> {
    let definition = resource
        .custom()
        .and_then(|custom| registry.definition(&custom.definition));
    definitions::custom(resource, definition.map(AsRef::as_ref), dialect)
}

/// The schemas of all group versions for v2, each name once.
fn all_schemas(registry: &Registry) -> impl Iterator<Item = (String, Value)> {
    let mut seen = HashSet::new();
    registry
        .groups()
        .iter()
        .flat_map(|group| group.versions.iter().map(move |version| (&group.name, version)))
        .flat_map(|(group, version)| schemas(registry, group, version, Dialect::V2))
        .filter(move |(name, _)| seen.insert(name.clone()))
}
