//! Shows what changed in an object, field by field.

use std::fmt::Write as _;

use serde_json::{Map, Value, json};
use skopos_object::{FieldChange, diff};

use crate::merge::LAST_APPLIED;
use crate::terminal::{ADDED, CHANGED, DELETED, FAINT};

/// The longest value shown.
const MAX_SHOWN_CHARS: usize = 160;

/// Compares two states and leaves out what says nothing: field owners and the version itself.
pub(crate) fn changes(old: &Value, new: &Value) -> Vec<FieldChange> {
    diff(&plain(old), &plain(new))
}

fn plain(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
        metadata.remove("resourceVersion");
    }
    object
}

/// Leaves out what a person does not want to read either, because it follows from the rest.
fn readable(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("generation");
        let annotations = metadata.get_mut("annotations").and_then(Value::as_object_mut);
        if let Some(annotations) = annotations {
            annotations.remove(LAST_APPLIED);
            if annotations.is_empty() {
                metadata.remove("annotations");
            }
        }
    }
    object
}

/// One line per field that differs.
pub(crate) fn updated(old: &Value, new: &Value) -> String {
    let mut out = String::new();
    for change in changes(&readable(old), &readable(new)) {
        match (&change.old, &change.new) {
            (Some(old), Some(new)) => {
                let (old, new) = (short(old), short(new));
                let _ = writeln!(out, "    {CHANGED}~ {}: {old} -> {new}{CHANGED:#}", change.path);
            }
            (None, Some(new)) => fields(&mut out, ADDED, '+', &change.path, new),
            (Some(old), None) => fields(&mut out, DELETED, '-', &change.path, old),
            (None, None) => {}
        }
    }
    if out.is_empty() {
        let _ = writeln!(out, "    {FAINT}(only bookkeeping fields changed){FAINT:#}");
    }
    out
}

/// All fields of a new object but those that every object has.
pub(crate) fn created(new: &Value) -> String {
    whole(new, ADDED, '+')
}

/// All fields of an object that is gone but those that every object has.
pub(crate) fn deleted(old: &Value) -> String {
    whole(old, DELETED, '-')
}

fn whole(object: &Value, style: anstyle::Style, sign: char) -> String {
    let mut shown = readable(object);
    if let Some(top) = shown.as_object_mut() {
        top.remove("apiVersion");
        top.remove("kind");
    }
    let keep = [
        "labels",
        "annotations",
        "finalizers",
        "ownerReferences",
        "deletionTimestamp",
    ];
    let metadata: Map<String, Value> = shown["metadata"]
        .as_object()
        .into_iter()
        .flatten()
        .filter(|(name, _)| keep.contains(&name.as_str()))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    shown["metadata"] = Value::Object(metadata);
    let mut out = String::new();
    for change in diff(&json!({}), &shown) {
        if let Some(value) = &change.new {
            fields(&mut out, style, sign, &change.path, value);
        }
    }
    out
}

/// Writes a value that came or went: objects field by field, everything else on one line.
fn fields(out: &mut String, style: anstyle::Style, sign: char, path: &str, value: &Value) {
    match value {
        Value::Object(map) if !map.is_empty() => {
            for (name, value) in map {
                let simple = name
                    .chars()
                    .all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
                let inner = if simple {
                    format!("{path}.{name}")
                } else {
                    format!("{path}[{name}]")
                };
                fields(out, style, sign, &inner, value);
            }
        }
        // An empty object says nothing.
        Value::Object(_) if path == "metadata" => {}
        value => {
            let _ = writeln!(out, "    {style}{sign} {path}: {}{style:#}", short(value));
        }
    }
}

/// A value on one line, cut if it is long.
fn short(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(MAX_SHOWN_CHARS) {
        None => text,
        Some((end, _)) => format!("{}… ({} bytes)", &text[..end], text.len()),
    }
}
