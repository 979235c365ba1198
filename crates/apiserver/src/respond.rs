//! From a handler's answer to an HTTP response in the form the client asked for.

use http::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderName, HeaderValue, VARY};
use http::{Response, StatusCode};
use skopos_object::Status;

use crate::call::{Answer, Call};
use crate::edge::ResponseBody;
use crate::present::{self, Purpose, Wanted};
use crate::request::Query;
use crate::versions;

/// Turns the outcome of a call into a response, warnings included.
pub(crate) fn respond(call: &Call, outcome: Result<Answer, Status>) -> Response<ResponseBody> {
    let outcome = outcome.and_then(|answer| render(call, answer));
    let mut response = outcome.unwrap_or_else(|status| refuse(&call.headers, &call.query, &status));
    for text in call.take_warnings() {
        if let Ok(value) = HeaderValue::from_str(&warning(&text)) {
            response
                .headers_mut()
                .append(HeaderName::from_static("warning"), value);
        }
    }
    response
}

/// An error as a response.
pub(crate) fn refuse(headers: &http::HeaderMap, query: &Query, status: &Status) -> Response<ResponseBody> {
    let body = present::status(headers, query, status);
    let mut response = build(status.code, body.content_type, ResponseBody::full(body.bytes));
    if let Some(seconds) = status.retry_after_seconds() {
        response
            .headers_mut()
            .insert(http::header::RETRY_AFTER, seconds.into());
    }
    response
}

fn render(call: &Call, answer: Answer) -> Result<Response<ResponseBody>, Status> {
    let (code, value) = match answer {
        Answer::Response(response) => return Ok(*response),
        Answer::Status(status) => return Ok(report(call, &status)),
        Answer::Object { code, value } => (code, value),
        Answer::Stored { code, entry } => {
            let wanted = Wanted::negotiate(&call.headers, &call.query, &call.resource, Purpose::Object)?;
            let as_stored = wanted.is_plain_json() && versions::is_servable_as_stored(&call.resource, &entry);
            if as_stored && !present::is_packed(&wanted, entry.value.len()) {
                let body = ResponseBody::chunks([entry.value.clone(), bytes::Bytes::from_static(b"\n")]);
                return Ok(build(code, "application/json", body));
            }
            (code, versions::from_entry(&call.resource, &entry)?)
        }
    };
    let wanted = Wanted::negotiate(&call.headers, &call.query, &call.resource, Purpose::Object)?;
    let body = present::object(&wanted, &call.resource, value, call.now.as_second())?;
    let (bytes, packed) = present::gzip_if_large(&wanted, body.bytes);
    let mut response = build(code, body.content_type, ResponseBody::full(bytes));
    if packed {
        response
            .headers_mut()
            .insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        response
            .headers_mut()
            .insert(VARY, HeaderValue::from_static("Accept-Encoding"));
    }
    Ok(response)
}

/// A status that is no error, in the form that was asked for as far as it has one.
fn report(call: &Call, status: &Status) -> Response<ResponseBody> {
    let wanted = Wanted::negotiate(&call.headers, &call.query, &call.resource, Purpose::Object);
    match wanted.and_then(|wanted| present::outcome(&wanted, status)) {
        Ok(body) => build(status.code, body.content_type, ResponseBody::full(body.bytes)),
        Err(_) => refuse(&call.headers, &call.query, status),
    }
}

pub(crate) fn build(code: u16, content_type: &'static str, body: ResponseBody) -> Response<ResponseBody> {
    let mut response = Response::new(body);
    *response.status_mut() = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

/// The value of a `Warning` header: code 299, no agent, the text as a quoted string.
fn warning(text: &str) -> String {
    let clean: String = text.chars().filter(|c| !c.is_control()).collect();
    let quoted = clean.replace('\\', "\\\\").replace('"', "\\\"");
    format!("299 - \"{quoted}\"")
}
