//! Kubernetes protobuf: objects of built-in kinds to and from JSON, driven by the table.
//!
//! A body is the magic `k8s\0` and an envelope with the object's API version, kind and bytes. Watch events
//! come in frames without the magic, the object inside with it.

mod decode;
mod encode;
mod wire;

use serde_json::Value;
use skopos_object::GroupVersionKind;

use crate::codec;
use crate::kind::kinds;
use crate::types::{self, Id};

/// The first bytes of every body.
pub const MAGIC: &[u8; 4] = b"k8s\0";

/// Messages may nest this deep; schemas in resource definitions are the deepest.
const MAX_DEPTH: usize = 200;

/// Why a body could not be decoded. None of them is worth a retry.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProtobufError {
    /// The body does not start with the magic.
    #[error("provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]")]
    NoMagic,
    /// The body ends inside a field, or a field is malformed.
    #[error("unexpected EOF")]
    Truncated,
    /// Messages nest deeper than any object can.
    #[error("proto: message nested too deeply")]
    TooDeep,
    /// The body is none of the built-in kinds.
    #[error("no kind {kind:?} is registered for version {api_version:?}")]
    UnknownKind {
        /// API version of the envelope.
        api_version: String,
        /// Kind of the envelope.
        kind: String,
    },
    /// A value inside is not what its type allows, such as a quantity that is none.
    #[error("{0}")]
    Value(String),
}

/// Decodes a body into its kind and the object as JSON.
pub fn decode(bytes: &[u8]) -> Result<(GroupVersionKind, Value), ProtobufError> {
    decode_as(bytes, None)
}

/// Like [`decode()`], for a body whose envelope may leave out API version and kind, as delete options do.
pub fn decode_as(
    bytes: &[u8],
    default: Option<&GroupVersionKind>,
) -> Result<(GroupVersionKind, Value), ProtobufError> {
    let envelope = decode::envelope(bytes.strip_prefix(MAGIC).ok_or(ProtobufError::NoMagic)?)?;
    let mut gvk = split(&envelope.api_version, &envelope.kind);
    if gvk.kind.is_empty()
        && let Some(default) = default
    {
        gvk = default.clone();
    }
    let Some(id) = type_of(&gvk.group, &gvk.version, &gvk.kind) else {
        return Err(ProtobufError::UnknownKind {
            api_version: gvk.api_version(),
            kind: gvk.kind,
        });
    };
    let mut object = decode::message(id.get(), envelope.raw, 0)?;
    object.insert("apiVersion".to_owned(), gvk.api_version().into());
    object.insert("kind".to_owned(), gvk.kind.clone().into());
    let mut object = Value::Object(object);
    let keep_empty = gvk.group == "apiextensions.k8s.io";
    codec::decode_as(id, &mut object, keep_empty).map_err(ProtobufError::Value)?;
    Ok((gvk, object))
}

/// Encodes an object by its own API version and kind: a built-in kind, a list of one, `Status`,
/// `PartialObjectMetadata` and its list. None for anything else, such as tables and custom resources.
pub fn encode(object: &Value) -> Option<Vec<u8>> {
    let (api_version, kind) = (object["apiVersion"].as_str()?, object["kind"].as_str()?);
    let gvk = split(api_version, kind);
    let id = type_of(&gvk.group, &gvk.version, &gvk.kind)?;
    let raw = encode::message(id.get(), object.as_object()?);
    Some(encode::envelope(api_version, kind, &raw))
}

/// One frame of a protobuf watch: the length in four bytes, then the event.
pub fn watch_frame(event: &str, object: &Value) -> Option<Vec<u8>> {
    let body = encode::watch_event(event, &encode(object)?);
    let length = u32::try_from(body.len()).ok()?;
    let mut frame = Vec::with_capacity(body.len() + 4);
    frame.extend_from_slice(&length.to_be_bytes());
    frame.extend_from_slice(&body);
    Some(frame)
}

fn split(api_version: &str, kind: &str) -> GroupVersionKind {
    let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
    GroupVersionKind {
        group: group.to_owned(),
        version: version.to_owned(),
        kind: kind.to_owned(),
    }
}

fn type_of(group: &str, version: &str, kind: &str) -> Option<Id> {
    let named = |name: &str| {
        kinds()
            .iter()
            .find(|k| k.kind == name && k.version == version && k.group == group)
    };
    if let Some(kind) = named(kind) {
        return Some(kind.ty);
    }
    if let Some(item) = kind.strip_suffix("List").and_then(named) {
        return types::find(&format!("{}List", item.ty.get().name));
    }
    // Delete options are known in every group version; the others only in these.
    let known = matches!((group, version), ("" | "meta.k8s.io", "v1"))
        || kinds().iter().any(|k| k.group == group && k.version == version);
    match kind {
        "DeleteOptions" if known => types::find("meta.v1.DeleteOptions"),
        "Status" | "WatchEvent" | "List" if group.is_empty() => types::find(&format!("meta.v1.{kind}")),
        "PartialObjectMetadata" | "PartialObjectMetadataList" if group == "meta.k8s.io" => {
            types::find(&format!("meta.v1.{kind}"))
        }
        _ => {
            let package = if group.is_empty() {
                "core"
            } else {
                group.split('.').next().unwrap_or_default()
            };
            let spoken = |s: &crate::Subresource| s.group == group && s.version == version && s.kind == kind;
            let served = kinds().iter().flat_map(|k| k.subresources).any(spoken);
            if served {
                types::find(&format!("{package}.{version}.{kind}"))
            } else {
                None
            }
        }
    }
}

#[cfg(test)]
mod tests;
