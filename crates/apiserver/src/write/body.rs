//! From the bytes of a request to an object of the right kind: type checks, pruning, strict decoding.

use serde_json::Value;
use skopos_object::Status;
use skopos_schema::sanitise_resource;

use crate::call::Call;
use crate::options::FieldValidation;
use crate::present::{Types, missing_kind};
use crate::registry::{Resource, Source};

/// Reads the request's body as an object of the call's resource.
pub(super) fn read_object(call: &Call, validation: FieldValidation) -> Result<Value, Status> {
    let types = match (&call.resource.source, validation) {
        (Source::Custom(_), FieldValidation::Ignore) => Types::RequiredLater,
        (Source::Custom(_), FieldValidation::Warn | FieldValidation::Strict) => Types::Required,
        (Source::BuiltIn(_), _) => Types::Optional,
    };
    let decoded = call.decode_body(types)?;
    let mut object = decoded.value;
    if types == Types::RequiredLater
        && let Some(why) = missing_kind(&object, call.body.trim_ascii(), decoded.encoding)
    {
        return Err(unhandled(call, &why));
    }
    check_type(&call.resource, &mut object)?;
    let found = Found {
        duplicates: decoded.duplicates,
        ..Found::default()
    };
    sanitise(call, &mut object, found, validation).map_err(|why| unhandled(call, &why))?;
    Ok(object)
}

fn unhandled(call: &Call, why: &str) -> Status {
    let Resource { kind, version, .. } = &*call.resource;
    Status::bad_request(format!(
        "{kind} in version {version:?} cannot be handled as a {kind}: {why}"
    ))
}

/// What was odd about a body before it was an object.
#[derive(Debug, Clone, Default)]
pub(super) struct Found {
    /// The paths of fields that are given twice.
    pub(super) duplicates: Vec<String>,
    /// Complaints about the operations of a JSON patch.
    pub(super) of_operations: Vec<String>,
}

/// Prunes an object and reports what was dropped the way the client asked for.
///
/// # Errors
/// Why the object cannot be read as one of its kind.
pub(super) fn sanitise(
    call: &Call,
    object: &mut Value,
    found: Found,
    validation: FieldValidation,
) -> Result<(), String> {
    let duplicates = found.duplicates;
    let (unknown, duplicates) = match &call.resource.source {
        Source::Custom(custom) => (sanitise_resource(&custom.schema, object)?, duplicates),
        Source::BuiltIn(kind) => {
            let unknown = skopos_builtin::decode(kind, object)?;
            // A typed decoder skips what it does not know without looking inside.
            let duplicates = duplicates
                .into_iter()
                .filter(|path| !unknown.contains(path))
                .collect();
            (unknown, duplicates)
        }
    };
    let duplicates = duplicates
        .into_iter()
        .map(|path| format!("duplicate field {path:?}"));
    let complaints: Vec<String> = found
        .of_operations
        .into_iter()
        .chain(duplicates)
        .chain(unknown.into_iter().map(|path| format!("unknown field {path:?}")))
        .collect();
    match validation {
        FieldValidation::Strict if !complaints.is_empty() => {
            Err(format!("strict decoding error: {}", complaints.join(", ")))
        }
        FieldValidation::Warn => {
            complaints.into_iter().for_each(|text| call.warn(text));
            Ok(())
        }
        FieldValidation::Strict | FieldValidation::Ignore => Ok(()),
    }
}

/// Checks `apiVersion` and `kind`, and fills them in where the real server does.
fn check_type(resource: &Resource, object: &mut Value) -> Result<(), Status> {
    let text = |field: &str| object.get(field).and_then(Value::as_str).unwrap_or("").to_owned();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    match &resource.source {
        Source::Custom(_) => check_version(resource, &api_version),
        Source::BuiltIn(_) => {
            check_built_in_type(resource, &api_version, &kind)?;
            object["apiVersion"] = resource.api_version().into();
            object["kind"] = resource.kind.clone().into();
            Ok(())
        }
    }
}

fn check_version(resource: &Resource, api_version: &str) -> Result<(), Status> {
    let expected = resource.api_version();
    if api_version == expected {
        return Ok(());
    }
    Err(Status::bad_request(format!(
        "the API version in the data ({api_version}) does not match the expected API version ({expected})"
    )))
}

fn check_built_in_type(resource: &Resource, api_version: &str, kind: &str) -> Result<(), Status> {
    let version_fits = api_version.is_empty() || api_version == resource.api_version();
    if version_fits && (kind.is_empty() || kind == resource.kind) {
        return Ok(());
    }
    let version = api_version.rsplit('/').next().unwrap_or("");
    Err(Status::bad_request(format!(
        "{kind} in version {version:?} cannot be handled as a {}: no kind {kind:?} is registered for version {api_version:?} in scheme \"pkg/runtime/scheme.go:111\"",
        resource.kind,
    )))
}
