//! Patch: JSON patch, merge patch and, for built-in kinds, strategic merge patch.

use serde_json::Value;
use skopos_object::{
    Details, FieldError, FieldPath, GroupKind, JsonPatch, MAX_OPERATIONS, Reason, Status, json, json_patch,
    merge_patch,
};

use super::body::{self, Found};
use super::update::{self, Change, modify};
use super::{Configuration, apply, commit};
use crate::call::{Answer, Call};
use crate::options::{WriteKind, WriteOptions};
use crate::scale;
use crate::state::Shared;

const JSON_PATCH: &str = "application/json-patch+json";
const MERGE_PATCH: &str = "application/merge-patch+json";
const STRATEGIC_MERGE_PATCH: &str = "application/strategic-merge-patch+json";
const APPLY_PATCH: &str = "application/apply-patch+yaml";

/// A patch as the request carries it.
#[derive(Debug)]
pub(crate) enum Patch {
    Json(JsonPatch),
    Merge(Value),
    Strategic(Value),
}

pub(crate) async fn patch(shared: &Shared, call: &Call) -> Result<Answer, Status> {
    let media_type = media_type(call);
    let kind = match media_type {
        APPLY_PATCH => WriteKind::Apply,
        _ => WriteKind::Patch,
    };
    let options = WriteOptions::parse(&call.query, &call.headers, kind)?;
    if call.target.name.is_empty() {
        return Err(Status::bad_request("name must be provided"));
    }
    if kind == WriteKind::Apply {
        let configuration = Configuration::read(call)?;
        return match call.target.subresource.as_str() {
            "scale" => scale::apply(shared, call, &configuration, &options).await,
            _ => apply::apply(shared, call, &configuration, &options).await,
        };
    }
    let (patch, found) = Patch::read(call, media_type)?;
    if call.target.subresource == "scale" {
        return scale::patch(shared, call, &patch, &options).await;
    }
    let apply = |old: &Value| {
        let mut new = patch.apply(call, old)?;
        let shown = new.to_string();
        if call.resource.custom().is_some() && !new["kind"].is_string() {
            return Err(no_object(
                &shown,
                &format!("Object 'Kind' is missing in '{shown}'"),
            ));
        }
        update::check_name(call, &new)?;
        body::sanitise(call, &mut new, found.clone(), options.field_validation)
            .map_err(|why| no_object(&shown, &why.to_string()))?;
        Ok(new)
    };
    let entry = modify(shared, call, &options, Change::Patch(&apply)).await?;
    Ok(Answer::Stored { code: 200, entry })
}

/// The refusal of a patch whose result is none of the kind.
pub(crate) fn no_object(result: &str, why: &str) -> Status {
    let error = FieldError::invalid(&FieldPath::root().child("patch"), result, why);
    Status::invalid(&GroupKind::new("", ""), "", vec![error])
}

/// Whether a request applies a configuration.
pub(super) fn is_apply(call: &Call) -> bool {
    media_type(call) == APPLY_PATCH
}

fn media_type(call: &Call) -> &str {
    let header = call.headers.get(http::header::CONTENT_TYPE);
    let text = header.and_then(|v| v.to_str().ok()).unwrap_or("");
    text.split(';').next().unwrap_or("").trim()
}

impl Patch {
    /// The patch and what is odd about it.
    fn read(call: &Call, media_type: &str) -> Result<(Patch, Found), Status> {
        let twice = |duplicates| Found {
            duplicates,
            ..Found::default()
        };
        match media_type {
            JSON_PATCH => read_json_patch(&call.body),
            MERGE_PATCH => {
                let decoded = read_document(&call.body)?;
                Ok((Patch::Merge(decoded.value), twice(decoded.duplicates)))
            }
            STRATEGIC_MERGE_PATCH if call.resource.built_in().is_some() => {
                let decoded = json::decode(&call.body).map_err(|e| Status::bad_request(e.to_string()))?;
                Ok((Patch::Strategic(decoded.value), twice(decoded.duplicates)))
            }
            _ if call.resource.built_in().is_some() => {
                Err(Status::unsupported_media_type("415: Unsupported Media Type")
                    .with_details(Details::default()))
            }
            _ => Err(Status::unsupported_media_type(format!(
                "the body of the request was in an unknown format - accepted media types include: {JSON_PATCH}, {MERGE_PATCH}, {APPLY_PATCH}"
            ))),
        }
    }

    /// The object after the patch.
    pub(crate) fn apply(&self, call: &Call, old: &Value) -> Result<Value, Status> {
        let mut new = old.clone();
        match self {
            Patch::Json(patch) => json_patch(&mut new, patch).map_err(|_| rejected())?,
            Patch::Merge(patch) => merge_patch(&mut new, patch).map_err(|_| rejected())?,
            Patch::Strategic(patch) => {
                let kind = call.resource.built_in().ok_or_else(rejected)?;
                new = skopos_builtin::strategic_merge(kind, old, patch).map_err(|error| {
                    match error.is_bad_request() {
                        true => Status::bad_request(error.to_string()),
                        false => commit::storage_error(error.to_string()),
                    }
                })?;
            }
        }
        match new.is_object() {
            true => Ok(new),
            false => Err(rejected()),
        }
    }
}

fn read_json_patch(body: &[u8]) -> Result<(Patch, Found), Status> {
    let decoded = decode(body)?;
    let document = decoded.value;
    let Value::Array(operations) = &document else {
        return Err(Status::bad_request(
            "error decoding patch: json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp",
        ));
    };
    if operations.len() > MAX_OPERATIONS {
        let n = operations.len();
        return Err(Status::request_too_large(&format!(
            "The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {n}"
        )));
    }
    let patch =
        JsonPatch::parse(&document).map_err(|e| Status::bad_request(format!("error decoding patch: {e}")))?;
    let twice = decoded
        .duplicates
        .iter()
        .map(|path| format!("json patch duplicate field {path:?}"));
    let found = Found {
        of_operations: twice.chain(unknown_keys(operations)).collect(),
        ..Found::default()
    };
    Ok((Patch::Json(patch), found))
}

/// Complaints about what no operation has.
fn unknown_keys(operations: &[Value]) -> Vec<String> {
    let mut unknown = Vec::new();
    for (i, operation) in operations.iter().enumerate() {
        for key in operation.as_object().into_iter().flat_map(serde_json::Map::keys) {
            if !["op", "path", "from", "value"].contains(&key.as_str()) {
                let path = format!("[{i}].{key}");
                unknown.push(format!("json patch unknown field {path:?}"));
            }
        }
    }
    unknown
}

fn read_document(body: &[u8]) -> Result<json::Decoded, Status> {
    let document = decode(body)?;
    match document.value.is_object() {
        true => Ok(document),
        false => Err(Status::bad_request(
            "error decoding patch: json: cannot unmarshal array into Go value of type map[string]interface {}",
        )),
    }
}

fn decode(body: &[u8]) -> Result<json::Decoded, Status> {
    json::decode(body).map_err(|e| Status::bad_request(format!("error decoding patch: {e}")))
}

/// What clients get for a patch that does not apply.
fn rejected() -> Status {
    let message = "the server rejected our request due to an error in our request";
    Status::failure(422, Reason::Invalid, message).with_details(Details::default())
}
