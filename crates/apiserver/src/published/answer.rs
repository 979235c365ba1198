//! Builds the responses: formats, tags, compression, refusals.

use std::io::Read as _;

use bytes::Bytes;
use flate2::read::GzDecoder;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE, ETAG, HOST, IF_NONE_MATCH, VARY, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode, Uri};
use serde::Serialize;
use skopos_object::{Details, Reason, Status, yaml};

use super::discovery::Document;
use crate::present::{
    self, Encoding, ServerVersion, accept_header, accepts_gzip, choose, envelope, pack_if_large,
    parse_accept, wants_pretty,
};
use crate::registry::Registry;
use crate::request::Query;

/// No document is larger than this when it is unpacked; a bound on memory, not on what we make.
const MAX_DOCUMENT_BYTES: u64 = 256 << 20;
const ONE_YEAR_SECONDS: i64 = 365 * 24 * 60 * 60;

/// A request as far as it matters here.
pub(super) struct Asked<'a> {
    pub(super) registry: &'a Registry,
    pub(super) method: &'a Method,
    pub(super) uri: &'a Uri,
    pub(super) headers: &'a HeaderMap,
    pub(super) query: Query,
}

/// Which methods an endpoint answers; some never look at the method.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Methods {
    Any,
    ReadOnly,
}

pub(super) fn document<D: Document>(asked: &Asked<'_>, document: &D, methods: Methods) -> Response<Bytes> {
    if methods == Methods::ReadOnly && !matches!(*asked.method, Method::GET | Method::HEAD) {
        return failure(asked, &method_not_allowed());
    }
    let choice = choose(
        accept_header(asked.headers),
        ServerVersion::Refused,
        |_, wanted| wanted.is_none(),
    );
    let Some(choice) = choice else {
        let types = Encoding::ALL.map(Encoding::content_type).join(", ");
        return failure(
            asked,
            &Status::not_acceptable(format!("only the following media types are accepted: {types}")),
        );
    };
    let mut response = Response::new(Bytes::new());
    set(&mut response, CONTENT_TYPE, choice.encoding.content_type());
    let bytes = match choice.encoding {
        Encoding::Protobuf => envelope("v1", D::KIND, &document.message().finish()).into(),
        encoding => render(
            encoding,
            choice.pretty || wants_pretty(asked.headers, &asked.query),
            document,
        ),
    };
    finish(asked, response, bytes)
}

/// Text of a document; these types always serialize.
pub(super) fn render(encoding: Encoding, pretty: bool, document: &impl Serialize) -> Bytes {
    let text = match (encoding, pretty) {
        (Encoding::Yaml, _) => serde_json::to_value(document).map(|value| yaml::encode(&value).into_bytes()),
        (_, true) => serde_json::to_vec_pretty(document),
        (_, false) => serde_json::to_vec(document).map(|mut text| {
            text.push(b'\n');
            text
        }),
    };
    text.unwrap_or_default().into()
}

/// Answers with a packed document, unpacking it for the few clients that take no gzip.
pub(super) fn unpacked(
    asked: &Asked<'_>,
    mut response: Response<Bytes>,
    tag: &str,
    packed: impl FnOnce() -> Option<Bytes>,
) -> Response<Bytes> {
    if accepts_gzip(asked.headers) {
        let is_whole = !is_known(asked.headers, tag);
        if is_whole {
            set(&mut response, CONTENT_ENCODING, "gzip");
        }
        return tagged(asked, response, tag, packed);
    }
    tagged(asked, response, tag, || {
        let mut bytes = Vec::new();
        GzDecoder::new(packed()?.as_ref())
            .take(MAX_DOCUMENT_BYTES)
            .read_to_end(&mut bytes)
            .ok()?;
        Some(bytes.into())
    })
}

/// Answers with a document unless the client has it already.
pub(super) fn tagged(
    asked: &Asked<'_>,
    mut response: Response<Bytes>,
    tag: &str,
    make: impl FnOnce() -> Option<Bytes>,
) -> Response<Bytes> {
    set(&mut response, ETAG, &format!("{tag:?}"));
    if is_known(asked.headers, tag) {
        response.headers_mut().remove(CONTENT_TYPE);
        *response.status_mut() = StatusCode::NOT_MODIFIED;
        return response;
    }
    match make() {
        Some(bytes) => {
            *response.body_mut() = if *asked.method == Method::HEAD {
                Bytes::new()
            } else {
                bytes
            };
            response
        }
        None => failure(
            asked,
            &Status::internal("the document could not be made".to_owned()),
        ),
    }
}

/// Whether `If-None-Match` names the tag.
fn is_known(headers: &HeaderMap, tag: &str) -> bool {
    let known = headers
        .get(IF_NONE_MATCH)
        .and_then(|value| value.to_str().ok())
        .unwrap_or("");
    known.split(',').any(|known| {
        let known = known.trim();
        known == "*" || known.trim_start_matches("W/").trim_matches('"') == tag
    })
}

pub(super) fn finish(asked: &Asked<'_>, mut response: Response<Bytes>, bytes: Bytes) -> Response<Bytes> {
    let (bytes, is_packed) = pack_if_large(accepts_gzip(asked.headers), bytes);
    if is_packed {
        set(&mut response, CONTENT_ENCODING, "gzip");
        response
            .headers_mut()
            .append(VARY, HeaderValue::from_static("Accept-Encoding"));
    }
    *response.body_mut() = if *asked.method == Method::HEAD {
        Bytes::new()
    } else {
        bytes
    };
    response
}

pub(super) fn failure(asked: &Asked<'_>, status: &Status) -> Response<Bytes> {
    let body = present::status(asked.headers, &asked.query, status);
    let mut response = Response::new(body.bytes);
    *response.status_mut() = StatusCode::from_u16(status.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    set(&mut response, CONTENT_TYPE, body.content_type);
    response
}

pub(super) fn not_found() -> Status {
    let message = "the server could not find the requested resource";
    plain_status(404, Reason::NotFound, message)
}

fn method_not_allowed() -> Status {
    let message = "the server does not allow this method on the requested resource";
    plain_status(405, Reason::MethodNotAllowed, message)
}

fn plain_status(code: u16, reason: Reason, message: &str) -> Status {
    Status {
        code,
        reason,
        message: message.to_owned(),
        details: Some(Box::new(Details::default())),
        continue_token: None,
    }
}

pub(super) fn page_not_found() -> Response<Bytes> {
    let mut response = Response::new(Bytes::from_static(b"404 page not found\n"));
    *response.status_mut() = StatusCode::NOT_FOUND;
    set(&mut response, CONTENT_TYPE, "text/plain; charset=utf-8");
    set(&mut response, X_CONTENT_TYPE_OPTIONS, "nosniff");
    response
}

/// Where the client reached us, which is the one address we know works for it.
pub(super) fn server_address(asked: &Asked<'_>) -> String {
    let host = asked.headers.get(HOST).and_then(|value| value.to_str().ok());
    let authority = || asked.uri.authority().map_or("", |authority| authority.as_str());
    host.unwrap_or_else(authority).to_owned()
}

pub(super) fn accepts_any(headers: &HeaderMap, subtypes: &[&str]) -> bool {
    let header = accept_header(headers);
    let accepts = |sub: &&str| {
        parse_accept(header)
            .iter()
            .any(|clause| clause.covers("application", sub))
    };
    header.is_empty() || subtypes.iter().any(accepts)
}

pub(super) fn in_one_year() -> String {
    let at = jiff::Timestamp::now()
        .as_second()
        .saturating_add(ONE_YEAR_SECONDS);
    let at = jiff::Timestamp::from_second(at).unwrap_or_default();
    at.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string()
}

/// Sets a header; a value that is not allowed in one is left out.
pub(super) fn set(response: &mut Response<Bytes>, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        response.headers_mut().insert(name, value);
    }
}
