//! Reads the body of a write in whatever format it came.

use bytes::Bytes;
use http::HeaderMap;
use http::header::CONTENT_TYPE;
use serde_json::Value;
use skopos_builtin::protobuf;
use skopos_object::{GroupVersionKind, Status, json, yaml};

use super::{Encoding, MEDIA_TYPES};

/// The longest piece of a body that an error quotes.
const MAX_QUOTE: usize = 30;
/// What an error calls the value it expected; clients and tests know these words.
const GO_TYPE_META: &str = concat!(
    r#"json: cannot unmarshal {} into Go value of type struct { APIVersion string "json:\"apiVersion,omitempty\"";"#,
    r#" Kind string "json:\"kind,omitempty\"" }"#
);

/// A body as a value, with the paths of fields that were given twice.
#[derive(Debug, PartialEq)]
pub(crate) struct Decoded {
    pub(crate) value: Value,
    pub(crate) duplicates: Vec<String>,
    /// The format it came in: protobuf bodies hold fields that JSON would leave out.
    pub(crate) encoding: Encoding,
}

/// Whether a body must say what it is; built-in kinds fill in what is missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Types {
    Required,
    /// The caller asks [`missing_kind`]: a reader that validates nothing notices later, and says so in other words.
    RequiredLater,
    Optional,
}

/// The format that a `Content-Type` names; absent means JSON.
fn content_type(headers: &HeaderMap) -> Result<Encoding, Status> {
    let Some(value) = headers.get(CONTENT_TYPE) else {
        return Ok(Encoding::Json);
    };
    let text = value.to_str().unwrap_or("?");
    if text.is_empty() {
        return Ok(Encoding::Json);
    }
    let media = text.split(';').next().unwrap_or("").trim().to_ascii_lowercase();
    let found = Encoding::ALL
        .into_iter()
        .find(|encoding| encoding.content_type() == media);
    found.ok_or_else(|| {
        Status::unsupported_media_type(format!(
            "the body of the request was in an unknown format - accepted media types include: {MEDIA_TYPES}"
        ))
    })
}

/// Decodes the body of a create or update of `kind`, or of the options of a delete.
pub(crate) fn decode_body(
    headers: &HeaderMap,
    body: &Bytes,
    kind: &str,
    types: Types,
) -> Result<Decoded, Status> {
    let encoding = content_type(headers)?;
    let (value, duplicates) = match encoding {
        Encoding::Json => from_json(body),
        Encoding::Yaml => from_yaml(body),
        Encoding::Protobuf => from_protobuf(body, kind, types),
    }
    .and_then(|(value, duplicates)| {
        check_types(&value)?;
        match missing_kind(&value, body, encoding).filter(|_| types == Types::Required) {
            Some(missing) => Err(missing),
            None => Ok((value, duplicates)),
        }
    })
    .map_err(|reason| unrecognized(kind, &reason, body))?;
    Ok(Decoded {
        value,
        duplicates,
        encoding,
    })
}

type Parsed = (Value, Vec<String>);

fn from_json(body: &[u8]) -> Result<Parsed, String> {
    let decoded = json::decode(body)
        .map_err(|error| format!("couldn't get version/kind; json parse error: {error}"))?;
    Ok((decoded.value, decoded.duplicates))
}

fn from_yaml(body: &[u8]) -> Result<Parsed, String> {
    let decoded = yaml::decode(body).map_err(|error| error.to_string())?;
    Ok((decoded.value, decoded.duplicates))
}

fn from_protobuf(body: &[u8], kind: &str, types: Types) -> Result<Parsed, String> {
    // Options of a delete come without a type.
    let default = GroupVersionKind {
        group: String::new(),
        version: "v1".to_owned(),
        kind: kind.to_owned(),
    };
    let (_, value) = protobuf::decode_as(body, Some(&default)).map_err(|error| error.to_string())?;
    match types {
        Types::Required | Types::RequiredLater => Err("custom resources have no protobuf form".to_owned()),
        Types::Optional => Ok((value, Vec::new())),
    }
}

/// Checks that a body can say what it is.
fn check_types(value: &Value) -> Result<(), String> {
    if !matches!(value, Value::Object(_) | Value::Null) {
        let reason = GO_TYPE_META.replacen("{}", go_name(value), 1);
        return Err(format!("couldn't get version/kind; json parse error: {reason}"));
    }
    for field in ["kind", "apiVersion"] {
        if let Some(other) = value
            .get(field)
            .filter(|value| !value.is_string() && !value.is_null())
        {
            let name = go_name(other);
            let reason =
                format!("json: cannot unmarshal {name} into Go struct field .{field} of type string");
            return Err(format!("couldn't get version/kind; json parse error: {reason}"));
        }
    }
    Ok(())
}

/// What to say of a body that does not tell its kind.
pub(crate) fn missing_kind(value: &Value, body: &[u8], encoding: Encoding) -> Option<String> {
    if value
        .get("kind")
        .is_some_and(|kind| kind != "" && !kind.is_null())
    {
        return None;
    }
    let shown = match encoding {
        Encoding::Json => String::from_utf8_lossy(body).into_owned(),
        Encoding::Yaml | Encoding::Protobuf => value.to_string(),
    };
    Some(format!("Object 'Kind' is missing in '{shown}'"))
}

pub(crate) fn go_name(value: &Value) -> &'static str {
    match value {
        Value::Object(_) => "object",
        Value::Array(_) => "array",
        Value::String(_) => "string",
        Value::Number(_) => "number",
        Value::Bool(_) => "bool",
        Value::Null => "null",
    }
}

fn unrecognized(kind: &str, reason: &str, body: &[u8]) -> Status {
    let quote = quote(body);
    Status::bad_request(format!(
        "the object provided is unrecognized (must be of type {kind}): {reason} ({quote})"
    ))
}

/// The start of a body for an error: text if it looks like JSON, else hex.
fn quote(body: &[u8]) -> String {
    let start = &body[..body.len().min(MAX_QUOTE)];
    let shown = match body.first() {
        None => return "<empty>".to_owned(),
        Some(b'{') => String::from_utf8_lossy(start).into_owned(),
        Some(_) => start.iter().map(|byte| format!("{byte:02x}")).collect(),
    };
    if body.len() > MAX_QUOTE {
        format!("{shown} ...")
    } else {
        shown
    }
}
