//! Statuses for the usual occasions, with the words kube-apiserver uses.

use super::{Cause, Details, Reason, Status};
use crate::{FieldError, FieldErrors, GroupKind, GroupResource, gofmt::quote};

impl Status {
    /// A failure without details.
    pub fn failure(code: u16, reason: Reason, message: impl Into<String>) -> Self {
        Self {
            code,
            reason,
            message: message.into(),
            details: None,
            continue_token: None,
        }
    }

    /// The same with details.
    #[must_use]
    pub fn with_details(mut self, details: Details) -> Self {
        self.details = Some(Box::new(details));
        self
    }

    /// The same with one more cause.
    #[must_use]
    pub fn with_cause(
        mut self,
        reason: impl Into<String>,
        message: impl Into<String>,
        field: impl Into<String>,
    ) -> Self {
        let cause = Cause {
            reason: reason.into(),
            message: message.into(),
            field: field.into(),
        };
        self.details.get_or_insert_default().causes.push(cause);
        self
    }

    fn about(mut self, resource: &GroupResource, name: &str) -> Self {
        let details = self.details.get_or_insert_default();
        details.group.clone_from(&resource.group);
        details.kind.clone_from(&resource.resource);
        details.name = name.to_owned();
        self
    }

    fn retry_after(mut self, seconds: u32) -> Self {
        self.details.get_or_insert_default().retry_after_seconds = seconds;
        self
    }

    /// The request succeeded and there is no object to return.
    pub fn success(details: Details) -> Self {
        Self::failure(200, Reason::Unknown, "").with_details(details)
    }

    /// 404: the object does not exist.
    pub fn not_found(resource: &GroupResource, name: &str) -> Self {
        let message = format!("{resource} {} not found", quote(name));
        Self::failure(404, Reason::NotFound, message).about(resource, name)
    }

    /// 404 for a path that no resource is served under.
    pub fn generic_not_found() -> Self {
        Self::failure(
            404,
            Reason::NotFound,
            "the server could not find the requested resource",
        )
        .with_details(Details::default())
    }

    /// 409: an object of this name exists.
    pub fn already_exists(resource: &GroupResource, name: &str) -> Self {
        let message = format!("{resource} {} already exists", quote(name));
        Self::failure(409, Reason::AlreadyExists, message).about(resource, name)
    }

    /// 409: every name generated from a `generateName` was taken.
    pub fn generate_name_conflict(resource: &GroupResource, name: &str, retry_after_seconds: u32) -> Self {
        let message = format!(
            "{resource} {} already exists, the server was not able to generate a unique name for the object",
            quote(name)
        );
        Self::failure(409, Reason::AlreadyExists, message)
            .about(resource, name)
            .retry_after(retry_after_seconds)
    }

    /// 409: the object cannot be changed as asked.
    pub fn conflict(resource: &GroupResource, name: &str, message: &str) -> Self {
        let message = format!(
            "Operation cannot be fulfilled on {resource} {}: {message}",
            quote(name)
        );
        Self::failure(409, Reason::Conflict, message).about(resource, name)
    }

    /// 409: the object was changed since the caller read it.
    pub fn modified(resource: &GroupResource, name: &str) -> Self {
        let message =
            "the object has been modified; please apply your changes to the latest version and try again";
        Self::conflict(resource, name, message)
    }

    /// 409: server-side apply found fields owned by others.
    pub fn apply_conflict(causes: Vec<Cause>, message: impl Into<String>) -> Self {
        Self::failure(409, Reason::Conflict, message).with_details(Details {
            causes,
            ..Details::default()
        })
    }

    /// 401: credentials are missing or wrong, as the front door says it.
    pub fn unauthorized() -> Self {
        Self::failure(401, Reason::Unauthorized, "Unauthorized")
    }

    /// 403: the action is forbidden. Resource and name may be empty.
    pub fn forbidden(resource: &GroupResource, name: &str, message: &str) -> Self {
        let message = if resource.is_empty() {
            format!("forbidden: {message}")
        } else if name.is_empty() {
            format!("{resource} is forbidden: {message}")
        } else {
            format!("{resource} {} is forbidden: {message}", quote(name))
        };
        Self::failure(403, Reason::Forbidden, message).about(resource, name)
    }

    /// 422: the object is invalid, one cause per error.
    pub fn invalid(kind: &GroupKind, name: &str, errors: Vec<FieldError>) -> Self {
        let mut message = format!("{kind} {} is invalid", quote(name));
        if !errors.is_empty() {
            message = format!("{message}: {}", FieldErrors(&errors));
        }
        let causes = errors.into_iter().map(Cause::from).collect();
        Self::failure(422, Reason::Invalid, message).with_details(Details {
            name: name.to_owned(),
            group: kind.group.clone(),
            kind: kind.kind.clone(),
            causes,
            ..Details::default()
        })
    }

    /// 400: the request is malformed.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::failure(400, Reason::BadRequest, message)
    }

    /// 405: the resource does not support the action.
    pub fn method_not_supported(resource: &GroupResource, action: &str) -> Self {
        let message = format!(
            "{action} is not supported on resources of kind {}",
            quote(&resource.to_string())
        );
        Self::failure(405, Reason::MethodNotAllowed, message).about(resource, "")
    }

    /// 406: no acceptable format. `message` names those that are.
    pub fn not_acceptable(message: impl Into<String>) -> Self {
        Self::failure(406, Reason::NotAcceptable, message)
    }

    /// 415: the format of the body is not known. `message` names those that are.
    pub fn unsupported_media_type(message: impl Into<String>) -> Self {
        Self::failure(415, Reason::UnsupportedMediaType, message)
    }

    /// 413: the body, or something in it, is too large.
    pub fn request_too_large(message: &str) -> Self {
        Self::failure(
            413,
            Reason::RequestEntityTooLarge,
            format!("Request entity too large: {message}"),
        )
    }

    /// 410: the resource version is too old.
    pub fn expired(message: impl Into<String>) -> Self {
        Self::failure(410, Reason::Expired, message)
    }

    /// 410: the item is no longer available.
    pub fn gone(message: impl Into<String>) -> Self {
        Self::failure(410, Reason::Gone, message)
    }

    /// 504: the request took too long.
    pub fn timeout(message: &str, retry_after_seconds: u32) -> Self {
        Self::failure(504, Reason::Timeout, format!("Timeout: {message}")).retry_after(retry_after_seconds)
    }

    /// 500: the operation could not finish now.
    pub fn server_timeout(resource: &GroupResource, operation: &str, retry_after_seconds: u32) -> Self {
        let message = format!(
            "The {operation} operation against {resource} could not be completed at this time, please try again."
        );
        Self::failure(500, Reason::ServerTimeout, message)
            .about(resource, operation)
            .retry_after(retry_after_seconds)
    }

    /// 504: the client asks for a version the server has not reached.
    pub fn too_large_resource_version(requested: u64, current: u64, retry_after_seconds: u32) -> Self {
        let message = format!("Too large resource version: {requested}, current: {current}");
        Self::timeout(&message, retry_after_seconds).with_cause(
            "ResourceVersionTooLarge",
            "Too large resource version",
            "",
        )
    }

    /// 429: try again later.
    pub fn too_many_requests(message: impl Into<String>, retry_after_seconds: u32) -> Self {
        Self::failure(429, Reason::TooManyRequests, message).retry_after(retry_after_seconds)
    }

    /// 503: the service is not available now.
    pub fn service_unavailable(message: impl Into<String>) -> Self {
        Self::failure(503, Reason::ServiceUnavailable, message)
    }

    /// 500: the server failed.
    pub fn internal(message: impl Into<String>) -> Self {
        let message = message.into();
        Self::failure(
            500,
            Reason::InternalError,
            format!("Internal error occurred: {message}"),
        )
        .with_cause("", message, "")
    }

    /// The status for a bare HTTP code: how the server reports an error that has no status of its
    /// own, and how a client reads an answer that is not a status object.
    ///
    /// `verb` is the HTTP method; it and the resource end up in the message if a resource is given.
    pub fn generic(
        code: u16,
        verb: &str,
        resource: &GroupResource,
        name: &str,
        server_message: &str,
    ) -> Self {
        let (reason, mut message) = generic_words(code, verb, server_message);
        let verb = verb.to_lowercase();
        if !resource.is_empty() && !name.is_empty() {
            message = format!("{message} ({verb} {resource} {name})");
        } else if !resource.is_empty() {
            message = format!("{message} ({verb} {resource})");
        }
        Self::failure(code, reason, message).about(resource, name)
    }
}

fn generic_words(code: u16, verb: &str, server_message: &str) -> (Reason, String) {
    let (reason, message) = match code {
        409 if verb == "POST" => (Reason::AlreadyExists, "the server reported a conflict"),
        409 => (Reason::Conflict, "the server reported a conflict"),
        404 => (
            Reason::NotFound,
            "the server could not find the requested resource",
        ),
        400 => (
            Reason::BadRequest,
            "the server rejected our request for an unknown reason",
        ),
        401 => (
            Reason::Unauthorized,
            "the server has asked for the client to provide credentials",
        ),
        403 => (Reason::Forbidden, server_message),
        406 if matches!(server_message, "" | "unknown") => (
            Reason::NotAcceptable,
            "the server was unable to respond with a content type that the client supports",
        ),
        406 => (Reason::NotAcceptable, server_message),
        415 => (Reason::UnsupportedMediaType, server_message),
        405 => (
            Reason::MethodNotAllowed,
            "the server does not allow this method on the requested resource",
        ),
        422 => (
            Reason::Invalid,
            "the server rejected our request due to an error in our request",
        ),
        503 => (
            Reason::ServiceUnavailable,
            "the server is currently unable to handle the request",
        ),
        504 => (
            Reason::Timeout,
            "the server was unable to return a response in the time allotted, but may still be processing the request",
        ),
        429 => (
            Reason::TooManyRequests,
            "the server has received too many requests and has asked us to try again later",
        ),
        500.. => {
            let server_message = quote(server_message);
            return (
                Reason::InternalError,
                format!(
                    "an error on the server ({server_message}) has prevented the request from succeeding"
                ),
            );
        }
        _ => {
            return (
                Reason::Unknown,
                format!(
                    "the server responded with the status code {code} but did not return more information"
                ),
            );
        }
    };
    (reason, message.to_owned())
}

impl From<FieldError> for Cause {
    fn from(error: FieldError) -> Self {
        Self {
            reason: error.kind.as_str().to_owned(),
            message: error.body(),
            field: error.field,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FieldPath;

    fn foos() -> GroupResource {
        GroupResource::new("example.com", "foos")
    }

    #[test]
    fn messages_are_those_of_the_api_server() {
        let foos = &foos();
        let none = &GroupResource::default();
        for (status, code, message) in [
            (
                Status::not_found(foos, "a"),
                404,
                "foos.example.com \"a\" not found",
            ),
            (
                Status::already_exists(foos, "a"),
                409,
                "foos.example.com \"a\" already exists",
            ),
            (
                Status::conflict(foos, "a", "m"),
                409,
                "Operation cannot be fulfilled on foos.example.com \"a\": m",
            ),
            (
                Status::forbidden(foos, "a", "m"),
                403,
                "foos.example.com \"a\" is forbidden: m",
            ),
            (
                Status::forbidden(foos, "", "m"),
                403,
                "foos.example.com is forbidden: m",
            ),
            (Status::forbidden(none, "", "m"), 403, "forbidden: m"),
            (
                Status::method_not_supported(foos, "create"),
                405,
                "create is not supported on resources of kind \"foos.example.com\"",
            ),
            (
                Status::request_too_large("limit is 3145728"),
                413,
                "Request entity too large: limit is 3145728",
            ),
            (Status::timeout("m", 0), 504, "Timeout: m"),
            (
                Status::too_large_resource_version(9, 5, 1),
                504,
                "Timeout: Too large resource version: 9, current: 5",
            ),
            (Status::internal("m"), 500, "Internal error occurred: m"),
            (
                Status::generic(404, "GET", foos, "a", "x"),
                404,
                "the server could not find the requested resource (get foos.example.com a)",
            ),
            (
                Status::generic(502, "GET", none, "", "x"),
                502,
                "an error on the server (\"x\") has prevented the request from succeeding",
            ),
            (
                Status::generic(418, "GET", foos, "", "x"),
                418,
                "the server responded with the status code 418 but did not return more information (get foos.example.com)",
            ),
        ] {
            assert_eq!((status.code, status.message.as_str()), (code, message));
        }
    }

    #[test]
    fn invalid_lists_each_error_as_a_cause() {
        let path = FieldPath::root().child("spec").child("x");
        let errors = vec![
            FieldError::required(&path, ""),
            FieldError::invalid(&path, "v", "d"),
        ];
        let status = Status::invalid(&GroupKind::new("example.com", "Foo"), "a", errors);
        assert_eq!(
            status.message,
            "Foo.example.com \"a\" is invalid: [spec.x: Required value, spec.x: Invalid value: \"v\": d]"
        );
        assert!(status.has_cause("FieldValueInvalid"));
        let causes = status.details.unwrap().causes;
        assert_eq!(causes[1].message, "Invalid value: \"v\": d");
        assert_eq!(causes[1].field, "spec.x");
    }
}
