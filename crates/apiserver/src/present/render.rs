//! Writes objects, lists, watch events and errors in the agreed representation.

use std::io::Write as _;

use bytes::Bytes;
use flate2::{Compression, write::GzEncoder};
use http::HeaderMap;
use serde::Serialize;
use serde::ser::SerializeMap as _;
use serde_json::{Value, json};
use skopos_builtin::protobuf;
use skopos_object::{Status, yaml};

use super::accept::{ServerVersion, choose, header as accept_header, wants_pretty};
use super::table::{Headers, Layout};
use super::wire::{self, Message, envelope};
use super::{Body, Encoding, Form, ListMeta, MEDIA_TYPES, MetaVersion, Wanted, not_acceptable};
use crate::registry::Resource;
use crate::request::Query;

/// Bodies up to this size are sent as they are.
const GZIP_THRESHOLD_BYTES: usize = 128 * 1024;
/// The order in which upstream writes a status.
const STATUS_ORDER: [&str; 8] = [
    "kind",
    "apiVersion",
    "metadata",
    "status",
    "message",
    "reason",
    "details",
    "code",
];

/// One object, in the served version, as the client wants it. `now` is in unix seconds.
pub(crate) fn object(wanted: &Wanted, resource: &Resource, value: Value, now: i64) -> Result<Body, Status> {
    if is_status(&value) {
        return encode_status(wanted.encoding, wanted.pretty, &value);
    }
    match (wanted.form, wanted.encoding) {
        (Form::Plain, Encoding::Protobuf) => encode_protobuf(&value),
        (Form::Plain, encoding) => encode_text(encoding, wanted.pretty, &value),
        (Form::PartialMetadata { version }, Encoding::Protobuf) => encode_protobuf(&partial(version, value)),
        (Form::PartialMetadata { version }, encoding) => {
            encode_text(encoding, wanted.pretty, &partial(version, value))
        }
        (Form::Table { version, include }, _) => {
            let layout = Layout::new(resource, version, include, now).for_object(&value);
            finish_text(wanted, one_row_table(layout, value, Headers::Shown))
        }
    }
}

/// A list, item by item: what is built is never larger than the answer itself. `now` is in unix seconds.
pub(crate) fn list(
    wanted: &Wanted,
    resource: &Resource,
    meta: &ListMeta,
    items: impl Iterator<Item = Value>,
    now: i64,
) -> Result<Body, Status> {
    match (wanted.form, wanted.encoding) {
        (Form::Plain, Encoding::Protobuf) => {
            list_protobuf(&resource.api_version(), &resource.list_kind, meta, items)
        }
        (Form::PartialMetadata { version }, Encoding::Protobuf) => {
            let items = items.map(|item| partial(version, item));
            list_protobuf(version.api_version(), "PartialObjectMetadataList", meta, items)
        }
        (Form::Plain, _) => {
            let frame = ListFrame::plain(resource, meta);
            finish_text(wanted, frame.fill(items)?)
        }
        (Form::PartialMetadata { version }, _) => {
            let frame = ListFrame::typed("PartialObjectMetadataList", version.api_version(), meta);
            finish_text(wanted, frame.fill(items.map(|item| partial(version, item)))?)
        }
        (Form::Table { version, include }, _) => {
            let layout = Layout::new(resource, version, include, now);
            let prefix = layout.prefix(&list_meta_json(meta), Headers::Shown);
            let frame = ListFrame {
                prefix,
                suffix: Layout::SUFFIX.to_owned(),
            };
            finish_text(wanted, frame.fill(items.map(|item| layout.row(item)))?)
        }
    }
}

/// One event of a watch, framed. `kind` is `ADDED` and so on; `first` says that no event went before it.
pub(crate) fn watch_event(
    wanted: &Wanted,
    resource: &Resource,
    kind: &str,
    value: &Value,
    first: bool,
    now: i64,
) -> Bytes {
    if wanted.encoding == Encoding::Protobuf {
        return wire::watch_frame(kind, &watch_object_protobuf(wanted, value)).into();
    }
    let mut line = format!(r#"{{"type":"{kind}","object":"#).into_bytes();
    match wanted.form {
        _ if is_status(value) => write_json(&mut line, &Ordered(value, &STATUS_ORDER)),
        Form::Plain => write_json(&mut line, value),
        Form::PartialMetadata { version } => write_json(&mut line, &partial(version, value.clone())),
        Form::Table { version, include } => {
            let headers = if first { Headers::Shown } else { Headers::Omitted };
            let layout = Layout::new(resource, version, include, now).for_object(value);
            line.extend(one_row_table(layout, value.clone(), headers));
        }
    }
    line.extend_from_slice(b"}\n");
    line.into()
}

/// A status in the encoding the client asked for. Errors are never refused: the last resort is readable JSON.
pub(crate) fn status(headers: &HeaderMap, query: &Query, status: &Status) -> Body {
    let value = status.to_json();
    let choice = choose(accept_header(headers), ServerVersion::Refused, |_, conversion| {
        conversion.is_none()
    });
    let (encoding, pretty) = match choice {
        Some(choice) => (choice.encoding, choice.pretty || wants_pretty(headers, query)),
        None => (Encoding::Json, true),
    };
    encode_status(encoding, pretty, &value).unwrap_or_else(|_| Body {
        content_type: "text/plain",
        bytes: status.message.clone().into(),
    })
}

/// A status that is the answer to a request that was understood.
pub(crate) fn outcome(wanted: &Wanted, status: &Status) -> Result<Body, Status> {
    encode_status(wanted.encoding, wanted.pretty, &status.to_json())
}

/// Compresses a large body for a client that takes gzip; the flag says whether it did.
pub(crate) fn gzip_if_large(wanted: &Wanted, bytes: Bytes) -> (Bytes, bool) {
    pack_if_large(wanted.gzip, bytes)
}

/// Whether a body of that length is sent compressed.
pub(crate) fn is_packed(wanted: &Wanted, length: usize) -> bool {
    wanted.gzip && length > GZIP_THRESHOLD_BYTES
}

/// Like [`gzip_if_large`] where nothing else was negotiated.
pub(crate) fn pack_if_large(accepts_gzip: bool, bytes: Bytes) -> (Bytes, bool) {
    if !accepts_gzip || bytes.len() <= GZIP_THRESHOLD_BYTES {
        return (bytes, false);
    }
    match gzip(&bytes) {
        Some(packed) => (packed.into(), true),
        None => (bytes, false),
    }
}

fn gzip(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::with_capacity(bytes.len() / 8), Compression::fast());
    encoder.write_all(bytes).ok()?;
    encoder.finish().ok()
}

/// What stands around the items of a list; joined with commas they make the whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ListFrame {
    pub(crate) prefix: String,
    pub(crate) suffix: String,
}

impl ListFrame {
    /// The frame of a plain list. Custom resources have their keys in the order of the alphabet, as upstream.
    pub(crate) fn plain(resource: &Resource, meta: &ListMeta) -> ListFrame {
        let api_version = resource.api_version();
        if resource.built_in().is_some() {
            return ListFrame::typed(&resource.list_kind, &api_version, meta);
        }
        let mut metadata = list_meta_json(meta);
        if metadata.get("continue").is_none() {
            metadata["continue"] = "".into();
        }
        ListFrame {
            prefix: format!(r#"{{"apiVersion":"{api_version}","items":["#),
            suffix: format!(r#"],"kind":"{}","metadata":{metadata}}}"#, resource.list_kind),
        }
    }

    fn typed(kind: &str, api_version: &str, meta: &ListMeta) -> ListFrame {
        let metadata = list_meta_json(meta);
        ListFrame {
            prefix: format!(
                r#"{{"kind":"{kind}","apiVersion":"{api_version}","metadata":{metadata},"items":["#
            ),
            suffix: "]}".to_owned(),
        }
    }

    fn fill(self, items: impl Iterator<Item = impl Serialize>) -> Result<Vec<u8>, Status> {
        let mut out = self.prefix.into_bytes();
        for (i, item) in items.enumerate() {
            if i > 0 {
                out.push(b',');
            }
            serde_json::to_writer(&mut out, &item).map_err(|error| Status::internal(error.to_string()))?;
        }
        out.extend_from_slice(self.suffix.as_bytes());
        Ok(out)
    }
}

fn list_meta_json(meta: &ListMeta) -> Value {
    let mut value = json!({"resourceVersion": meta.resource_version});
    if let Some(token) = &meta.continue_token {
        value["continue"] = token.as_str().into();
    }
    if let Some(count) = meta.remaining {
        value["remainingItemCount"] = count.into();
    }
    value
}

/// Only what every object has: type and metadata.
pub(super) fn partial(version: MetaVersion, mut value: Value) -> Value {
    let metadata = value.get_mut("metadata").map_or_else(|| json!({}), Value::take);
    json!({
        "kind": "PartialObjectMetadata",
        "apiVersion": version.api_version(),
        "metadata": metadata,
    })
}

fn one_row_table(layout: Layout<'_>, value: Value, headers: Headers) -> Vec<u8> {
    let resource_version = value.pointer("/metadata/resourceVersion").cloned();
    let metadata = match resource_version {
        Some(resource_version) => json!({"resourceVersion": resource_version}),
        None => json!({}),
    };
    let mut out = layout.prefix(&metadata, headers).into_bytes();
    write_json(&mut out, &layout.row(value));
    out.extend_from_slice(Layout::SUFFIX.as_bytes());
    out
}

fn list_protobuf(
    api_version: &str,
    kind: &str,
    meta: &ListMeta,
    items: impl Iterator<Item = Value>,
) -> Result<Body, Status> {
    let token = meta.continue_token.as_deref().unwrap_or("");
    let mut message =
        Message::new().message(1, wire::list_meta(&meta.resource_version, token, meta.remaining));
    for item in items {
        let encoded = protobuf::encode(&item);
        let raw = encoded.as_deref().and_then(wire::unwrap_envelope);
        message = message.bytes(2, raw.ok_or_else(|| not_acceptable(MEDIA_TYPES))?);
    }
    Ok(Body::protobuf(envelope(api_version, kind, &message.finish())))
}

fn watch_object_protobuf(wanted: &Wanted, value: &Value) -> Vec<u8> {
    let encoded = match wanted.form {
        Form::PartialMetadata { version } if !is_status(value) => {
            protobuf::encode(&partial(version, value.clone()))
        }
        _ => protobuf::encode(value),
    };
    encoded.unwrap_or_default()
}

fn is_status(value: &Value) -> bool {
    value.get("kind").is_some_and(|kind| kind == "Status")
        && value.get("apiVersion").is_some_and(|v| v == "v1")
}

fn encode_status(encoding: Encoding, pretty: bool, value: &Value) -> Result<Body, Status> {
    match encoding {
        Encoding::Protobuf => encode_protobuf(value),
        _ => encode_text(encoding, pretty, &Ordered(value, &STATUS_ORDER)),
    }
}

/// Clients decode by the type of the answer, so what has no protobuf form is sent as text.
fn encode_protobuf(value: &Value) -> Result<Body, Status> {
    match protobuf::encode(value) {
        Some(bytes) => Ok(Body::protobuf(bytes)),
        None => encode_text(Encoding::Json, false, value),
    }
}

fn encode_text(encoding: Encoding, pretty: bool, value: &impl Serialize) -> Result<Body, Status> {
    let internal = |error: serde_json::Error| Status::internal(error.to_string());
    let bytes = match encoding {
        Encoding::Yaml => yaml::encode(&serde_json::to_value(value).map_err(internal)?).into_bytes(),
        _ if pretty => serde_json::to_vec_pretty(value).map_err(internal)?,
        _ => {
            let mut bytes = serde_json::to_vec(value).map_err(internal)?;
            bytes.push(b'\n');
            bytes
        }
    };
    let encoding = if encoding == Encoding::Yaml {
        Encoding::Yaml
    } else {
        Encoding::Json
    };
    Ok(Body {
        content_type: encoding.content_type(),
        bytes: bytes.into(),
    })
}

/// Ends a JSON text that was written piece by piece, going through a value only for YAML and for people.
fn finish_text(wanted: &Wanted, mut json: Vec<u8>) -> Result<Body, Status> {
    if wanted.encoding == Encoding::Yaml || wanted.pretty {
        let value: Value =
            serde_json::from_slice(&json).map_err(|error| Status::internal(error.to_string()))?;
        return encode_text(wanted.encoding, wanted.pretty, &value);
    }
    json.push(b'\n');
    Ok(Body {
        content_type: Encoding::Json.content_type(),
        bytes: json.into(),
    })
}

/// Values always serialize: their keys are strings and a vector takes every write.
fn write_json(out: &mut Vec<u8>, value: &impl Serialize) {
    let _ = serde_json::to_writer(out, value);
}

impl Body {
    fn protobuf(bytes: Vec<u8>) -> Body {
        Body {
            content_type: Encoding::Protobuf.content_type(),
            bytes: bytes.into(),
        }
    }
}

/// An object written with some keys first.
struct Ordered<'a>(&'a Value, &'static [&'static str]);

impl Serialize for Ordered<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Value::Object(object) = self.0 else {
            return self.0.serialize(serializer);
        };
        let mut map = serializer.serialize_map(Some(object.len()))?;
        for name in self.1 {
            if let Some(value) = object.get(*name) {
                map.serialize_entry(name, value)?;
            }
        }
        for (name, value) in object.iter().filter(|(name, _)| !self.1.contains(&name.as_str())) {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}
