//! The table of types: OpenAPI's properties joined with the Go struct tags.
//!
//! One line per type, sorted by name: `name⇥field⇥field…`, a field being `json number type flag…`.
//! Flags: `*` pointer, `o` omitempty, `z` omitzero, `r` required, `l=` list type (`a`tomic, `s`et, `m:`keys), `m=` atomic or granular map,
//! `i=` struct inlined from,
//! `p=` patch strategy, `k=` merge key, `d=` default, `e=` enum. Named scalars, lists and maps: `name⇥=type`.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Result, bail};
use serde_json::Value;

use super::golang::{Decl, Packages};
use super::kinds::Served;

/// Types with an encoding of their own; the crate knows them by name.
const OPAQUE: &[&str] = &[
    "apiextensions.v1.JSON",
    "apiextensions.v1.JSONSchemaPropsOrArray",
    "apiextensions.v1.JSONSchemaPropsOrBool",
    "apiextensions.v1.JSONSchemaPropsOrStringArray",
    "intstr.IntOrString",
    "meta.v1.Duration",
    "meta.v1.FieldsV1",
    "meta.v1.MicroTime",
    "meta.v1.Time",
    "resource.Quantity",
    "runtime.RawExtension",
];

/// Wanted although no OpenAPI document names them.
const EXTRA: &[&str] = &[
    "meta.v1.List",
    "meta.v1.PartialObjectMetadata",
    "meta.v1.PartialObjectMetadataList",
];

/// `io.k8s.api.core.v1.Pod` as `core.v1.Pod`, `io.k8s.apimachinery.pkg.api.resource.Quantity` as `resource.Quantity`.
pub(super) fn short_name(openapi: &str) -> String {
    let parts: Vec<&str> = openapi.rsplitn(4, '.').collect();
    let versioned = parts
        .get(1)
        .is_some_and(|v| v.starts_with('v') && v[1..].starts_with(|c: char| c.is_ascii_digit()));
    let keep = if versioned { 3 } else { 2 };
    parts[..keep.min(parts.len())]
        .iter()
        .rev()
        .copied()
        .collect::<Vec<_>>()
        .join(".")
}

/// The whole of `types.txt`.
pub(super) fn table(served: &[Served], packages: &Packages) -> Result<String> {
    let mut schemas: BTreeMap<String, &Value> = BTreeMap::new();
    for one in served {
        for (name, schema) in one.openapi.as_object().into_iter().flatten() {
            schemas.insert(short_name(name), schema);
        }
    }
    let mut waiting: BTreeSet<String> = schemas.keys().cloned().collect();
    waiting.extend(EXTRA.iter().map(|&s| s.to_owned()));
    let mut lines = BTreeMap::new();
    while let Some(name) = waiting.pop_first() {
        let schema = schemas.get(&name).copied().unwrap_or(&Value::Null);
        let line = line(&name, schema, packages, &mut waiting)?;
        lines.insert(name, line);
        waiting.retain(|name| !lines.contains_key(name));
    }
    Ok(lines
        .into_iter()
        .map(|(name, line)| format!("{name}{line}\n"))
        .collect())
}

fn line(name: &str, schema: &Value, packages: &Packages, waiting: &mut BTreeSet<String>) -> Result<String> {
    if OPAQUE.contains(&name) {
        return Ok(format!("\t={}", name.rsplit('.').next().unwrap_or_default()));
    }
    match packages.get(name) {
        Some(Decl::Named(right)) => {
            reference(right, waiting);
            Ok(format!("\t={right}"))
        }
        Some(Decl::Struct(_)) => {
            let mut out = String::new();
            if schema["x-kubernetes-map-type"] == "atomic" {
                out.push_str("\t!atomic");
            }
            let mut fields = Vec::new();
            flatten(name, ("", ""), packages, &mut fields);
            for field in fields {
                reference(&field.ty, waiting);
                out.push('\t');
                out.push_str(&field.text(schema));
            }
            Ok(out)
        }
        None => bail!("no Go type for {name}"),
    }
}

fn reference(ty: &str, waiting: &mut BTreeSet<String>) {
    let base = ty
        .trim_start_matches("[]")
        .trim_start_matches("{}")
        .trim_start_matches("[]");
    if base.contains('.') {
        waiting.insert(base.to_owned());
    }
}

/// A field after inlined structs were dissolved; the number is then a path.
struct Flat {
    json: String,
    number: String,
    ty: String,
    pointer: bool,
    omitempty: bool,
    omitzero: bool,
    /// The inlined struct that the field comes from; Go names it in decoding errors.
    inlined: String,
}

fn flatten(name: &str, (prefix, inlined): (&str, &str), packages: &Packages, out: &mut Vec<Flat>) {
    let Some(Decl::Struct(fields)) = packages.get(name) else {
        return;
    };
    for field in fields {
        let number = if prefix.is_empty() {
            field.number.to_string()
        } else {
            format!("{prefix}/{}", field.number)
        };
        if field.json.is_empty() {
            // TypeMeta has no number: it travels in the envelope, not in the message.
            let inner = if field.number == 0 { "" } else { &number };
            let embedded = field.ty.rsplit('.').next().unwrap_or_default();
            let inlined = if inlined.is_empty() {
                embedded.to_owned()
            } else {
                format!("{inlined}.{embedded}")
            };
            flatten(&field.ty, (inner, &inlined), packages, out);
            continue;
        }
        let type_meta = name == "meta.v1.TypeMeta";
        out.push(Flat {
            json: field.json.clone(),
            number: if type_meta { "0".to_owned() } else { number },
            ty: field.ty.clone(),
            pointer: field.pointer,
            omitempty: field.omitempty,
            omitzero: field.omitzero,
            inlined: inlined.to_owned(),
        });
    }
}

impl Flat {
    fn text(&self, schema: &Value) -> String {
        let property = &schema["properties"][&self.json];
        let mut out = format!("{} {} {}", self.json, self.number, self.ty);
        let required = schema["required"]
            .as_array()
            .is_some_and(|r| r.iter().any(|n| n == self.json.as_str()));
        for (flag, on) in [
            ("*", self.pointer),
            ("o", self.omitempty),
            ("z", self.omitzero),
            ("r", required),
        ] {
            if on {
                out.push(' ');
                out.push_str(flag);
            }
        }
        if !self.inlined.is_empty() && self.inlined != "TypeMeta" {
            out.push_str(&format!(" i={}", self.inlined));
        }
        list_flags(property, &mut out);
        for (key, flag) in [
            ("x-kubernetes-patch-strategy", "p"),
            ("x-kubernetes-patch-merge-key", "k"),
        ] {
            if let Some(text) = property[key].as_str() {
                out.push_str(&format!(" {flag}={text}"));
            }
        }
        match property["x-kubernetes-map-type"].as_str() {
            Some("atomic") => out.push_str(" m=a"),
            Some("granular") => out.push_str(" m=g"),
            _ => {}
        }
        if let Some(default) = property.get("default") {
            out.push_str(&format!(" d={}", default.to_string().replace(' ', "\\s")));
        }
        let enums = [
            &property["enum"],
            &property["items"]["enum"],
            &property["additionalProperties"]["enum"],
        ]
        .into_iter()
        .find_map(Value::as_array);
        if let Some(values) = enums {
            let values: Vec<&str> = values.iter().filter_map(Value::as_str).collect();
            out.push_str(&format!(" e={}", values.join("|").replace(' ', "\\s")));
        }
        out
    }
}

fn list_flags(property: &Value, out: &mut String) {
    match property["x-kubernetes-list-type"].as_str() {
        Some("atomic") => out.push_str(" l=a"),
        Some("set") => out.push_str(" l=s"),
        Some("map") => {
            let keys = property["x-kubernetes-list-map-keys"]
                .as_array()
                .map(Vec::as_slice)
                .unwrap_or_default();
            let keys: Vec<&str> = keys.iter().filter_map(Value::as_str).collect();
            out.push_str(&format!(" l=m:{}", keys.join(",")));
        }
        _ => {}
    }
}
