//! The answers that the edge gives itself: Status objects and plain text, worded as kube-apiserver does.

use http::header::{ACCEPT, CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER, USER_AGENT};
use http::{HeaderMap, Response, StatusCode, Uri};
use serde::Serialize;
use serde_json::json;

use super::body::ResponseBody;
use super::query;

const NOSNIFF: (HeaderName, HeaderValue) = (
    HeaderName::from_static("x-content-type-options"),
    HeaderValue::from_static("nosniff"),
);

/// A failure that the edge answers without asking the handler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// No credentials, or wrong ones.
    Unauthorized,
    /// An identity that may not do this: the message after `forbidden: `.
    Forbidden(String),
    /// Somebody wants to act as `user` and may not.
    Impersonation { user: String, why: String },
    /// A request that cannot be read.
    BadRequest(String),
    /// The body is longer than so many bytes.
    TooLarge(usize),
    /// The request did not end in time.
    Timeout(&'static str),
    /// Too many requests in flight.
    Busy,
}

impl Refusal {
    fn code(&self) -> StatusCode {
        match self {
            Self::Unauthorized => StatusCode::UNAUTHORIZED,
            Self::Forbidden(_) | Self::Impersonation { .. } => StatusCode::FORBIDDEN,
            Self::BadRequest(_) => StatusCode::BAD_REQUEST,
            Self::TooLarge(_) => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Timeout(_) => StatusCode::GATEWAY_TIMEOUT,
            Self::Busy => StatusCode::TOO_MANY_REQUESTS,
        }
    }

    /// The answer, in the format the client asked for.
    pub(super) fn respond(&self, format: Format) -> Response<ResponseBody> {
        match self {
            Self::Unauthorized => self.status("Unauthorized", "Unauthorized", None, format),
            Self::Forbidden(what) => {
                let mut response = self.status(
                    "Forbidden",
                    &format!("forbidden: {what}"),
                    Some(Details::default()),
                    format,
                );
                response.headers_mut().extend([NOSNIFF]);
                response
            }
            Self::Impersonation { user, why } => {
                let details = Details {
                    name: Some(user),
                    kind: Some("users"),
                };
                let message = format!("users {user:?} is forbidden: {why}");
                let mut response = self.status("Forbidden", &message, Some(details), format);
                response.headers_mut().extend([NOSNIFF]);
                response
            }
            Self::BadRequest(message) => self.status("BadRequest", message, None, format),
            Self::TooLarge(limit) => {
                let message = format!("Request entity too large: limit is {limit}");
                self.status("RequestEntityTooLarge", &message, None, format)
            }
            Self::Timeout(what) => self.status(
                "Timeout",
                &format!("Timeout: {what}"),
                Some(Details::default()),
                format,
            ),
            Self::Busy => {
                let mut response = text(self.code(), "Too many requests, please try again later.\n");
                response
                    .headers_mut()
                    .insert(RETRY_AFTER, HeaderValue::from_static("1"));
                response
            }
        }
    }

    fn status(
        &self,
        reason: &str,
        message: &str,
        details: Option<Details<'_>>,
        format: Format,
    ) -> Response<ResponseBody> {
        let code = self.code();
        let status = Status {
            kind: "Status",
            api_version: "v1",
            metadata: Empty {},
            status: "Failure",
            message,
            reason,
            details,
            code: code.as_u16(),
        };
        let (content_type, body) = format.render(&status);
        respond(code, content_type, body)
    }
}

#[derive(Serialize)]
struct Empty {}

/// `metav1.StatusDetails`, as far as the edge needs it.
#[derive(Default, Serialize)]
struct Details<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<&'a str>,
}

/// `metav1.Status` with its fields in upstream's order.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Status<'a> {
    kind: &'static str,
    api_version: &'static str,
    metadata: Empty,
    status: &'static str,
    message: &'a str,
    reason: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    details: Option<Details<'a>>,
    code: u16,
}

/// How an error is written: what the client accepts, and whether a person reads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    Json,
    PrettyJson,
    Yaml,
}

impl Format {
    pub(super) fn of(headers: &HeaderMap, uri: &Uri) -> Self {
        let accept = headers
            .get(ACCEPT)
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default();
        let first = accept.split([',', ';']).next().unwrap_or_default().trim();
        if first == "application/yaml" {
            return Self::Yaml;
        }
        let agent = headers
            .get(USER_AGENT)
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default();
        let for_people = match query::first(uri, "pretty") {
            Some(value) => matches!(value.as_str(), "1" | "t" | "T" | "true" | "TRUE" | "True"),
            None => ["curl", "Wget", "Mozilla/5.0"]
                .iter()
                .any(|start| agent.starts_with(start)),
        };
        if for_people { Self::PrettyJson } else { Self::Json }
    }

    fn render(self, status: &Status<'_>) -> (&'static str, String) {
        let written = match self {
            Self::Json => serde_json::to_string(status).map(|mut line| {
                line.push('\n');
                ("application/json", line)
            }),
            Self::PrettyJson => serde_json::to_string_pretty(status).map(|text| ("application/json", text)),
            Self::Yaml => Ok(("application/yaml", yaml(status))),
        };
        written.unwrap_or_default()
    }
}

fn yaml(status: &Status<'_>) -> String {
    // A JSON string is a YAML double-quoted scalar; plain where upstream writes it plain.
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == ' ';
    let message = match status.message.chars().all(is_plain) {
        true => status.message.to_owned(),
        false => json!(status.message).to_string(),
    };
    let details = status
        .details
        .as_ref()
        .map(|details| format!("details: {}\n", json!(details)))
        .unwrap_or_default();
    format!(
        "apiVersion: v1\ncode: {}\n{details}kind: Status\nmessage: {message}\nmetadata: {{}}\nreason: {}\nstatus: Failure\n",
        status.code, status.reason,
    )
}

/// Plain text, as Go's `http.Error` sends it.
pub(super) fn text(code: StatusCode, body: impl Into<ResponseBody>) -> Response<ResponseBody> {
    let mut response = respond(code, "text/plain; charset=utf-8", body);
    response.headers_mut().extend([NOSNIFF]);
    response
}

/// A value for people and scripts: indented, as upstream's raw JSON endpoints send it.
pub(super) fn raw_json(value: &impl Serialize) -> Response<ResponseBody> {
    match serde_json::to_vec_pretty(value) {
        Ok(body) => respond(StatusCode::OK, "application/json", body),
        Err(error) => text(StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")),
    }
}

/// A method that a path of the edge does not know.
pub(super) fn method_not_allowed(format: Format) -> Response<ResponseBody> {
    let status = Status {
        kind: "Status",
        api_version: "v1",
        metadata: Empty {},
        status: "Failure",
        message: "the server does not allow this method on the requested resource",
        reason: "MethodNotAllowed",
        details: Some(Details::default()),
        code: 405,
    };
    let (content_type, body) = format.render(&status);
    respond(StatusCode::METHOD_NOT_ALLOWED, content_type, body)
}

pub(super) fn respond(
    code: StatusCode,
    content_type: &'static str,
    body: impl Into<ResponseBody>,
) -> Response<ResponseBody> {
    let mut response = Response::new(body.into());
    *response.status_mut() = code;
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn format(accept: &'static str, agent: &'static str, uri: &str) -> Format {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, HeaderValue::from_static(accept));
        headers.insert(USER_AGENT, HeaderValue::from_static(agent));
        Format::of(&headers, &uri.parse().unwrap())
    }

    #[test]
    fn picks_the_format_from_accept_agent_and_pretty() {
        assert_eq!(format("application/json", "kubectl/v1.36", "/api"), Format::Json);
        assert_eq!(format("*/*", "curl/8", "/api"), Format::PrettyJson);
        assert_eq!(format("*/*", "curl/8", "/api?pretty=false"), Format::Json);
        assert_eq!(format("application/yaml", "curl/8", "/api"), Format::Yaml);
    }

    fn rendered(message: &str, format: Format) -> String {
        let status = Status {
            kind: "Status",
            api_version: "v1",
            metadata: Empty {},
            status: "Failure",
            message,
            reason: "Unauthorized",
            details: None,
            code: 401,
        };
        format.render(&status).1
    }

    #[test]
    fn words_a_refused_login_as_upstream_does() {
        assert_eq!(
            rendered("Unauthorized", Format::Json),
            "{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},\"status\":\"Failure\",\
             \"message\":\"Unauthorized\",\"reason\":\"Unauthorized\",\"code\":401}\n"
        );
        assert_eq!(rendered("Unauthorized", Format::PrettyJson).len(), 157);
        assert_eq!(rendered("Unauthorized", Format::Yaml).len(), 110);
        assert!(rendered("a: \"b\"", Format::Yaml).contains("message: \"a: \\\"b\\\"\"\n"));
    }
}
