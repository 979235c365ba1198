//! Reads the structs of the Kubernetes Go modules: field types, JSON names, protobuf numbers.
//!
//! Only the subset of Go that `types.go` files use: structs with one field per line, named types, imports.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context as _, Result};

use super::MODULES;

/// The packages to read: short name, module and folder.
const PACKAGES: &[(&str, &str, &str)] = &[
    (
        "apiextensions.v1",
        "apiextensions-apiserver",
        "pkg/apis/apiextensions/v1",
    ),
    (
        "apiregistration.v1",
        "kube-aggregator",
        "pkg/apis/apiregistration/v1",
    ),
    ("meta.v1", "apimachinery", "pkg/apis/meta/v1"),
];

/// A declared Go type.
#[derive(Debug, Clone)]
pub(super) enum Decl {
    Struct(Vec<Field>),
    /// `type Protocol string`, `type ResourceList map[…]…`: the resolved right side.
    Named(String),
}

/// One field of a struct.
#[derive(Debug, Clone)]
pub(super) struct Field {
    /// The JSON name; empty for an inlined struct.
    pub(super) json: String,
    /// The protobuf number; 0 when the field has none.
    pub(super) number: u32,
    /// The resolved type: `string`, `[]core.v1.Container`, `{}string`, …
    pub(super) ty: String,
    pub(super) pointer: bool,
    pub(super) omitempty: bool,
    pub(super) omitzero: bool,
}

/// All declarations, by `<package>.<Name>`.
pub(super) struct Packages(BTreeMap<String, Decl>);

impl Packages {
    /// Reads the packages of the API groups and the few others that they use.
    pub(super) fn read(cache: &Path) -> Result<Self> {
        let modules = cache.join("k8s.io");
        let mut packages = Self(BTreeMap::new());
        for (name, module, folder) in PACKAGES {
            packages.read_folder(name, &modules.join(format!("{module}@{MODULES}")).join(folder))?;
        }
        let api = modules.join(format!("api@{MODULES}"));
        for group in std::fs::read_dir(&api).with_context(|| format!("read {}", api.display()))? {
            let group = group?;
            for version in ["v1", "v2"] {
                let folder = group.path().join(version);
                if folder.join("types.go").exists() {
                    let name = format!("{}.{version}", group.file_name().to_string_lossy());
                    packages.read_folder(&name, &folder)?;
                }
            }
        }
        Ok(packages)
    }

    /// The declaration of `core.v1.Pod` and the like.
    pub(super) fn get(&self, name: &str) -> Option<&Decl> {
        self.0.get(name)
    }

    fn read_folder(&mut self, package: &str, folder: &Path) -> Result<()> {
        for file in std::fs::read_dir(folder).with_context(|| format!("read {}", folder.display()))? {
            let file = file?.path();
            let name = file
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            let skip = name.ends_with("_test.go") || name.contains("generated");
            if name.ends_with(".go") && !skip {
                self.read_source(package, &std::fs::read_to_string(&file)?);
            }
        }
        Ok(())
    }

    fn read_source(&mut self, package: &str, source: &str) {
        let imports = imports(source);
        let mut open: Option<(String, Vec<Field>)> = None;
        for line in source.lines() {
            if let Some((name, fields)) = &mut open {
                if line.starts_with('}') {
                    self.0
                        .insert(std::mem::take(name), Decl::Struct(std::mem::take(fields)));
                    open = None;
                } else if let Some(field) = field(line, package, &imports) {
                    fields.push(field);
                }
                continue;
            }
            let Some(rest) = line.strip_prefix("type ") else {
                continue;
            };
            let Some((name, right)) = rest.split_once(' ') else {
                continue;
            };
            let right = right
                .split("//")
                .next()
                .unwrap_or_default()
                .trim()
                .trim_start_matches("= ");
            if right == "struct {" {
                open = Some((format!("{package}.{name}"), Vec::new()));
            } else if right == "struct{}" {
                self.0
                    .insert(format!("{package}.{name}"), Decl::Struct(Vec::new()));
            } else if !right.starts_with("interface") && !right.starts_with("func") && !right.contains('{') {
                let resolved = resolve(right, package, &imports);
                self.0.insert(format!("{package}.{name}"), Decl::Named(resolved));
            }
        }
    }
}

/// Import aliases of a file, as short package names.
fn imports(source: &str) -> BTreeMap<String, String> {
    let mut imports = BTreeMap::new();
    for line in source.lines() {
        let Some((left, path)) = line.split_once('"') else {
            continue;
        };
        let Some(path) = path.strip_suffix('"') else {
            continue;
        };
        let Some(path) = path.strip_prefix("k8s.io/") else {
            continue;
        };
        let Some((rest, last)) = path.rsplit_once('/') else {
            continue;
        };
        let parent = rest.rsplit('/').next().unwrap_or_default();
        let alias = left.trim().trim_start_matches("import ").trim();
        let alias = if alias.is_empty() { last } else { alias };
        let versioned = last.starts_with('v') && last[1..].starts_with(|c: char| c.is_ascii_digit());
        let short = if versioned {
            format!("{parent}.{last}")
        } else {
            last.to_owned()
        };
        imports.insert(alias.to_owned(), short);
    }
    imports
}

/// One line of a struct: `Name Type `tags``, or an embedded `Type `tags``.
fn field(line: &str, package: &str, imports: &BTreeMap<String, String>) -> Option<Field> {
    let line = line.trim();
    if line.starts_with("//") {
        return None;
    }
    let (left, tags) = line.split_once('`')?;
    let json = tag(tags, "json")?;
    let ty = left.split_whitespace().last()?;
    let (name, options) = json.split_once(',').unwrap_or((json, ""));
    if name == "-" {
        return None;
    }
    let number = tag(tags, "protobuf")
        .and_then(|t| t.split(',').nth(1)?.parse().ok())
        .unwrap_or(0);
    Some(Field {
        json: name.to_owned(),
        number,
        ty: resolve(ty.trim_start_matches('*'), package, imports),
        pointer: ty.starts_with('*'),
        omitempty: options.split(',').any(|o| o == "omitempty"),
        omitzero: options.split(',').any(|o| o == "omitzero"),
    })
}

fn tag<'a>(tags: &'a str, name: &str) -> Option<&'a str> {
    let start = tags.find(&format!("{name}:\""))? + name.len() + 2;
    tags[start..].split('"').next()
}

/// Rewrites a Go type with short package names; map keys are always strings in JSON and are dropped.
fn resolve(ty: &str, package: &str, imports: &BTreeMap<String, String>) -> String {
    if ty == "[]byte" {
        return "bytes".to_owned();
    }
    if let Some(rest) = ty.strip_prefix("[]") {
        return format!("[]{}", resolve(rest.trim_start_matches('*'), package, imports));
    }
    if let Some(rest) = ty.strip_prefix("map[") {
        let value = rest.split_once(']').map(|(_, v)| v).unwrap_or_default();
        return format!("{{}}{}", resolve(value, package, imports));
    }
    if let Some((alias, name)) = ty.split_once('.') {
        let short = imports.get(alias).map_or(alias, String::as_str);
        // Names of the types package are plain strings.
        return if short == "types" {
            "string".to_owned()
        } else {
            format!("{short}.{name}")
        };
    }
    match ty {
        "string" | "bool" | "int32" | "int64" | "float64" | "uint32" => ty.to_owned(),
        "byte" => "uint32".to_owned(),
        _ => format!("{package}.{ty}"),
    }
}
