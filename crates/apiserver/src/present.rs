//! Turns objects into what a client asked for: plain, a table or metadata only, in JSON, YAML or protobuf.
//!
//! A handler calls [`Wanted::negotiate`] before it does anything else. If the answer is plain JSON it may send
//! stored bytes as they are; else it hands values to [`object`], [`list`] and [`watch_event`].

mod accept;
mod body;
#[cfg(test)]
pub(crate) mod fixture;
mod render;
mod table;
#[cfg(test)]
mod tests;
mod wire;

use bytes::Bytes;
use http::HeaderMap;
use http::header::ACCEPT_ENCODING;
use serde_json::json;
use skopos_object::Status;

use self::accept::Conversion;
pub(crate) use self::accept::{
    ServerVersion, choose, header as accept_header, parse as parse_accept, wants_pretty,
};
pub(crate) use self::body::{Decoded, Types, decode_body, go_name, missing_kind};
pub(crate) use self::render::{
    ListFrame, gzip_if_large, is_packed, list, object, outcome, pack_if_large, status, watch_event,
};
pub(crate) use self::wire::{Message, envelope};
use crate::registry::Resource;
use crate::request::Query;

/// Every media type an endpoint speaks, as errors list them.
const MEDIA_TYPES: &str = "application/json, application/yaml, application/vnd.kubernetes.protobuf";
const STREAM_MEDIA_TYPES: &str =
    "application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch";
/// The format of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Encoding {
    Json,
    Yaml,
    Protobuf,
}

/// The version of the `meta.k8s.io` group that tables and partial objects are wanted in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MetaVersion {
    V1,
    V1beta1,
}

/// How much of each object a table's row carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IncludeObject {
    None,
    Metadata,
    Object,
}

/// The shape an object is wanted in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    Plain,
    Table {
        version: MetaVersion,
        include: IncludeObject,
    },
    PartialMetadata {
        version: MetaVersion,
    },
}

/// What the request is going to answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    Object,
    List,
    Watch,
}

/// What was agreed with the client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub(crate) form: Form,
    pub(crate) encoding: Encoding,
    pub(crate) pretty: bool,
    pub(crate) gzip: bool,
}

/// A finished body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Body {
    pub(crate) content_type: &'static str,
    pub(crate) bytes: Bytes,
}

/// What a list says about itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ListMeta {
    pub(crate) resource_version: String,
    pub(crate) continue_token: Option<String>,
    pub(crate) remaining: Option<i64>,
}

impl Encoding {
    pub(crate) const ALL: [Encoding; 3] = [Encoding::Json, Encoding::Yaml, Encoding::Protobuf];

    pub(crate) fn content_type(self) -> &'static str {
        match self {
            Encoding::Json => "application/json",
            Encoding::Yaml => "application/yaml",
            Encoding::Protobuf => "application/vnd.kubernetes.protobuf",
        }
    }

    fn subtype(self) -> &'static str {
        match self {
            Encoding::Json => "json",
            Encoding::Yaml => "yaml",
            Encoding::Protobuf => "vnd.kubernetes.protobuf",
        }
    }

    fn streams(self) -> bool {
        self != Encoding::Yaml
    }
}

impl MetaVersion {
    fn parse(conversion: &Conversion<'_>) -> Option<MetaVersion> {
        match (conversion.group, conversion.version) {
            ("meta.k8s.io", "v1") => Some(MetaVersion::V1),
            ("meta.k8s.io", "v1beta1") => Some(MetaVersion::V1beta1),
            _ => None,
        }
    }

    fn api_version(self) -> &'static str {
        match self {
            MetaVersion::V1 => "meta.k8s.io/v1",
            MetaVersion::V1beta1 => "meta.k8s.io/v1beta1",
        }
    }
}

impl Wanted {
    /// Stored bytes may be sent without being looked at.
    pub(crate) fn is_plain_json(&self) -> bool {
        self.form == Form::Plain && self.encoding == Encoding::Json && !self.pretty
    }

    /// Agrees with the client on a representation, or says what there is.
    pub(crate) fn negotiate(
        headers: &HeaderMap,
        query: &Query,
        resource: &Resource,
        purpose: Purpose,
    ) -> Result<Wanted, Status> {
        let allows = |encoding, conversion: Option<&Conversion<'_>>| allows(resource, encoding, conversion);
        let choice = choose(accept_header(headers), ServerVersion::Taken, allows)
            .ok_or_else(|| not_acceptable(MEDIA_TYPES))?;
        if purpose == Purpose::Watch && !choice.encoding.streams() {
            return Err(not_acceptable(STREAM_MEDIA_TYPES));
        }
        let form = match &choice.conversion {
            None => Form::Plain,
            Some(conversion) => form_of(conversion, query, resource, purpose)?,
        };
        Ok(Wanted {
            form,
            encoding: choice.encoding,
            pretty: purpose != Purpose::Watch
                && choice.encoding == Encoding::Json
                && (choice.pretty || wants_pretty(headers, query)),
            gzip: accepts_gzip(headers),
        })
    }

    /// The `Content-Type` of a watch stream.
    pub(crate) fn watch_content_type(&self) -> &'static str {
        match self.encoding {
            Encoding::Protobuf => "application/vnd.kubernetes.protobuf;stream=watch",
            Encoding::Json | Encoding::Yaml => "application/json",
        }
    }
}

/// Whether a resource can be shown that way: tables are text only, custom resources have no protobuf form.
fn allows(resource: &Resource, encoding: Encoding, conversion: Option<&Conversion<'_>>) -> bool {
    let Some(conversion) = conversion else {
        return encoding != Encoding::Protobuf || speaks_protobuf(resource);
    };
    match conversion.kind {
        _ if MetaVersion::parse(conversion).is_none() => false,
        "Table" => encoding != Encoding::Protobuf,
        "PartialObjectMetadata" | "PartialObjectMetadataList" => true,
        _ => false,
    }
}

fn speaks_protobuf(resource: &Resource) -> bool {
    let empty = json!({"apiVersion": resource.api_version(), "kind": resource.kind});
    resource.built_in().is_some() && skopos_builtin::protobuf::encode(&empty).is_some()
}

fn form_of(
    conversion: &Conversion<'_>,
    query: &Query,
    resource: &Resource,
    purpose: Purpose,
) -> Result<Form, Status> {
    let version = MetaVersion::parse(conversion).ok_or_else(|| not_acceptable(MEDIA_TYPES))?;
    match (conversion.kind, purpose) {
        ("Table", _) => Ok(Form::Table {
            version,
            include: include_object(query)?,
        }),
        ("PartialObjectMetadata", Purpose::List) => Err(Status::not_acceptable(format!(
            "you requested PartialObjectMetadata, but the requested object is a list ({})",
            go_type(resource, &resource.list_kind)
        ))),
        ("PartialObjectMetadataList", Purpose::Object) => Err(Status::not_acceptable(format!(
            "you requested PartialObjectMetadataList, but the requested object is not a list ({})",
            go_type(resource, &resource.kind)
        ))),
        _ => Ok(Form::PartialMetadata { version }),
    }
}

/// The name upstream's errors give a type; clients that show it have seen no other.
fn go_type(resource: &Resource, kind: &str) -> String {
    let is_list = kind == resource.list_kind;
    match resource.built_in() {
        None => format!("*unstructured.Unstructured{}", if is_list { "List" } else { "" }),
        Some(_) if resource.group.is_empty() => format!("*core.{kind}"),
        Some(_) => format!("*{}.{kind}", resource.group.split('.').next().unwrap_or("")),
    }
}

fn include_object(query: &Query) -> Result<IncludeObject, Status> {
    match query.get("includeObject") {
        None | Some("Metadata") => Ok(IncludeObject::Metadata),
        Some("None") => Ok(IncludeObject::None),
        Some("Object") => Ok(IncludeObject::Object),
        Some(other) => Err(Status::bad_request(format!(
            "Unable to convert to Table as requested: includeObject: Invalid value: {other:?}: \
             must be 'Metadata', 'Object', 'None', or empty"
        ))),
    }
}

fn not_acceptable(media_types: &str) -> Status {
    Status::not_acceptable(format!(
        "only the following media types are accepted: {media_types}"
    ))
}

/// Whether the client takes gzip; weights are not read, as upstream does not.
pub(crate) fn accepts_gzip(headers: &HeaderMap) -> bool {
    let text = headers
        .get(ACCEPT_ENCODING)
        .and_then(|value| value.to_str().ok())
        .unwrap_or("");
    text.split(',').any(|token| token.trim() == "gzip")
}
