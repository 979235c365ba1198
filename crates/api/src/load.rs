//! Reads our kinds from YAML, as in a directory of files.

use std::{
    fmt,
    path::{Path, PathBuf},
};

use serde::de::DeserializeOwned;
use serde_json::Value;
use skopos_object::{FieldError, FieldPath, yaml};
use skopos_schema::{Root, prune, prune_nulls, validate, validate_list_types};

use crate::{GROUP, Record, Rule, RuleTest, Sink, VERSION, definition::schema};

/// An object of ours and where it was read.
#[derive(Clone, Debug, PartialEq)]
pub struct Loaded {
    /// What it is.
    pub resource: Resource,
    /// The file.
    pub file: PathBuf,
    /// The line on which its document begins, from 1.
    pub line: usize,
}

/// One of our kinds.
#[derive(Clone, Debug, PartialEq)]
pub enum Resource {
    /// Which changes matter, and what happens then.
    Rule(Box<Rule>),
    /// Where deliveries go.
    Sink(Box<Sink>),
    /// What history is kept.
    Record(Box<Record>),
    /// What a rule must do in given cases.
    RuleTest(Box<RuleTest>),
}

/// A document cannot be used. Displayed on one line: file, line, object, what is wrong.
#[derive(Clone, Debug, PartialEq)]
pub struct LoadError {
    /// The file.
    pub file: PathBuf,
    /// The line of what is wrong, or else the one on which the document begins, from 1.
    pub line: usize,
    /// Which object, as `Rule ops/backup-failed`, as far as it can be told.
    pub object: String,
    /// What is wrong.
    pub trouble: Trouble,
}

/// Why a document cannot be used.
#[derive(Clone, Debug, PartialEq)]
pub enum Trouble {
    /// It is no YAML.
    Syntax(String),
    /// It is of a kind that is none of ours: `apiVersion` and `kind`. Who reads definitions too may pass over it.
    UnknownKind(String, String),
    /// Fields that are missing, unknown or wrong, each with its path and what is expected.
    Fields(Vec<FieldError>),
}

/// Reads all documents of a text. One that cannot be used does not spoil the others.
///
/// A namespace that is not given is `default`.
///
/// ```
/// let text = "apiVersion: skopos.dev/v1alpha1\nkind: Sink\nmetadata: {name: out}\nspec: {stdout: {}}\n";
/// let loaded = skopos_api::load(text, "sinks.yaml".as_ref());
/// assert!(loaded[0].is_ok());
/// ```
pub fn load(text: &str, path: &Path) -> Vec<Result<Loaded, LoadError>> {
    let documents = split(text).into_iter();
    documents
        .filter_map(|(line, document)| read(document, line, path).transpose())
        .collect()
}

/// The documents with the lines on which they begin.
fn split(text: &str) -> Vec<(usize, &str)> {
    let mut documents = Vec::new();
    let (mut start, mut start_line, mut at) = (0, 1, 0);
    for (index, line) in text.split_inclusive('\n').enumerate() {
        // A line of a block cannot begin with dashes: it is indented.
        let is_mark = line
            .strip_prefix("---")
            .is_some_and(|rest| rest.is_empty() || rest.starts_with(char::is_whitespace));
        if is_mark && at > 0 {
            documents.push((start_line, &text[start..at]));
            (start, start_line) = (at, index + 1);
        }
        at += line.len();
    }
    documents.push((start_line, &text[start..]));
    documents
}

fn read(document: &str, line: usize, path: &Path) -> Result<Option<Loaded>, LoadError> {
    let fail = |line: usize, object: String, trouble: Trouble| LoadError {
        file: path.to_owned(),
        line,
        object,
        trouble,
    };
    let decoded = match yaml::decode(document.as_bytes()) {
        Ok(decoded) => decoded,
        Err(error) => {
            let (text, at) = (error.to_string(), line + error.line().max(1) - 1);
            let text = text.splitn(3, ": ").last().unwrap_or_default().to_owned();
            return Err(fail(at, String::new(), Trouble::Syntax(text)));
        }
    };
    if decoded.value.is_null() {
        return Ok(None);
    }
    let name = name_of(&decoded.value);
    if !decoded.duplicates.is_empty() {
        let paths = decoded.duplicates.join(", ");
        return Err(fail(
            line,
            name,
            Trouble::Syntax(format!("given more than once: {paths}")),
        ));
    }
    match resource(decoded.value) {
        Ok(resource) => Ok(Some(Loaded {
            resource,
            file: path.to_owned(),
            line: first_line(document, line),
        })),
        Err(trouble) => Err(fail(first_line(document, line), name, trouble)),
    }
}

/// The first line that says something.
fn first_line(document: &str, line: usize) -> usize {
    let says_nothing = |line: &&str| {
        let line = line.trim();
        line.is_empty() || line.starts_with('#') || line == "---"
    };
    line + document.lines().take_while(says_nothing).count()
}

fn name_of(value: &Value) -> String {
    let text = |pointer: &str| value.pointer(pointer).and_then(Value::as_str);
    let namespace = text("/metadata/namespace").map_or(String::new(), |namespace| format!("{namespace}/"));
    let name = text("/metadata/name").unwrap_or_default();
    format!("{} {namespace}{name}", text("/kind").unwrap_or_default())
        .trim()
        .to_owned()
}

fn resource(value: Value) -> Result<Resource, Trouble> {
    let text = |key: &str| {
        value
            .get(key)
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned()
    };
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    let known = schema(&kind).filter(|_| api_version == format!("{GROUP}/{VERSION}"));
    if known.is_none() {
        return Err(Trouble::UnknownKind(api_version, kind));
    }
    match kind.as_str() {
        "Rule" => typed(value, &kind).map(Resource::Rule),
        "Sink" => sink(value, &kind),
        "Record" => typed(value, &kind).map(Resource::Record),
        _ => typed(value, &kind).map(Resource::RuleTest),
    }
}

fn sink(value: Value, kind: &str) -> Result<Resource, Trouble> {
    let sink: Box<Sink> = typed(value, kind)?;
    let given = sink.spec.destinations();
    if given.len() == 1 {
        return Ok(Resource::Sink(sink));
    }
    let names = crate::sink::DESTINATIONS.join(", ");
    let why = format!("exactly one destination must be given: {names}");
    let error = FieldError::invalid(&FieldPath::root().child("spec"), given.join(", "), why);
    Err(Trouble::Fields(vec![error]))
}

/// Checks by the schema first, which tells all that is wrong and where; then reads.
fn typed<T: DeserializeOwned>(mut value: Value, kind: &str) -> Result<Box<T>, Trouble> {
    let schema = schema(kind).expect("the caller knows the kind");
    let root = FieldPath::root();
    let mut errors = check_metadata(&mut value);
    let unknown = prune(schema, &mut value, Root::Resource);
    prune_nulls(schema, &mut value);
    errors.extend(unknown.iter().map(|path| unknown_field(path)));
    errors.extend(validate(schema, &root, &value, None));
    errors.extend(validate_list_types(schema, &value, None));
    if !errors.is_empty() {
        return Err(Trouble::Fields(errors));
    }
    serde_json::from_value(value).map(Box::new).map_err(|error| {
        let why = error.to_string();
        Trouble::Fields(vec![FieldError::invalid(&root, kind, why)])
    })
}

fn check_metadata(value: &mut Value) -> Vec<FieldError> {
    let path = FieldPath::root().child("metadata");
    let name = value.pointer("/metadata/name").and_then(Value::as_str);
    let errors = match name {
        None | Some("") => vec![FieldError::required(&path.child("name"), "name is required")],
        Some(_) => Vec::new(),
    };
    if let Some(Value::Object(metadata)) = value.get_mut("metadata") {
        metadata.entry("namespace").or_insert_with(|| "default".into());
    }
    errors
}

fn unknown_field(path: &str) -> FieldError {
    let why = match path.rsplit('.').next() {
        Some("true") => "unknown field: YAML reads a plain `on` as `true`; the field is called `watch`",
        Some("on") => "unknown field: it is called `watch`",
        _ => "unknown field",
    };
    FieldError::forbidden(&FieldPath::root().child(path), why)
}

impl std::error::Error for LoadError {}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: ", self.file.display(), self.line)?;
        if !self.object.is_empty() {
            write!(f, "{}: ", self.object)?;
        }
        self.trouble.fmt(f)
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Syntax(message) => f.write_str(message),
            Self::UnknownKind(api_version, kind) => write!(
                f,
                "kind {kind:?} of apiVersion {api_version:?} is none of ours: expected Rule, Sink, Record or RuleTest of {GROUP}/{VERSION}"
            ),
            Self::Fields(errors) => {
                let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
                f.write_str(&errors.join("; "))
            }
        }
    }
}

#[cfg(test)]
mod tests;
