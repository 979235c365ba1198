//! Definitions, and resources against them.

use serde_json::Value;
use skopos_control::schema;
use skopos_object::FieldPath;
use skopos_schema::{Root, Structural, crd, default, prune, prune_nulls, validate, validate_list_types};

use super::Report;
use crate::manifest::Manifest;
use crate::rule_files::RuleFiles;

/// Checks definitions as an API server would.
pub(super) fn definitions(files: &RuleFiles, report: &mut Report) {
    for manifest in &files.definitions {
        let mut definition = manifest.object.clone();
        crd::default_crd(&mut definition);
        for error in crd::validate_crd(&definition, None) {
            report.problem(&place(manifest), &title(&manifest.object), error.to_string());
        }
    }
}

/// Checks resources by the schema of their kind.
pub(super) fn resources(files: &RuleFiles, report: &mut Report) {
    for manifest in &files.others {
        match definition(files, &manifest.object) {
            Schema::Found(schema) => check(manifest, &schema, report),
            Schema::NoVersion(versions) => {
                let message = format!("its definition has no such version, but {}", versions.join(", "));
                report.problem(&place(manifest), &title(&manifest.object), message);
            }
            Schema::None => report.unchecked += 1,
        }
    }
}

enum Schema {
    Found(Box<Structural>),
    NoVersion(Vec<String>),
    None,
}

fn definition(files: &RuleFiles, object: &Value) -> Schema {
    let (group, version) = group_version(object);
    let is_kind = |one: &&Manifest| {
        let spec = &one.object["spec"];
        spec["group"] == group && spec["names"]["kind"] == object["kind"]
    };
    let Some(found) = files.definitions.iter().find(is_kind) else {
        return Schema::None;
    };
    match schema(&found.object, Some(version)) {
        Some(schema) => Schema::Found(Box::new(schema)),
        None => {
            let versions = found.object["spec"]["versions"].as_array().into_iter().flatten();
            let names = versions.filter_map(|one| one["name"].as_str().map(str::to_owned));
            let names: Vec<String> = names.collect();
            match names.iter().any(|name| name == version) {
                // Without a schema that can be read anything goes; what is wrong with it was said.
                true => Schema::None,
                false => Schema::NoVersion(names),
            }
        }
    }
}

fn group_version(object: &Value) -> (&str, &str) {
    let text = object["apiVersion"].as_str().unwrap_or_default();
    text.split_once('/').unwrap_or(("", text))
}

fn check(manifest: &Manifest, schema: &Structural, report: &mut Report) {
    let mut value = manifest.object.clone();
    let (place, title) = (place(manifest), title(&manifest.object));
    for path in prune(schema, &mut value, Root::Resource) {
        report.problem(&place, &title, format!("{path}: unknown field"));
    }
    prune_nulls(schema, &mut value);
    default(schema, &mut value);
    let mut errors = validate(schema, &FieldPath::root(), &value, None);
    errors.extend(validate_list_types(schema, &value, None));
    for error in errors {
        report.problem(&place, &title, error.to_string());
    }
}

fn place(manifest: &Manifest) -> String {
    format!("{}:{}", manifest.place.file, manifest.place.line)
}

fn title(object: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let namespace = object["metadata"]["namespace"].as_str();
    let namespace = namespace.map_or(String::new(), |namespace| format!("{namespace}/"));
    format!(
        "{} {namespace}{}",
        text(&object["kind"]),
        text(&object["metadata"]["name"])
    )
}
