//! One request to a resource endpoint on its way through the server.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use http::HeaderMap;
use jiff::Timestamp;
use serde_json::Value;
use skopos_object::Status;
use skopos_store::Entry;

use crate::edge::{ResponseBody, User};
use crate::present::{self, Decoded, Types};
use crate::registry::Resource;
use crate::request::{Query, Target};
use crate::warnings::Warnings;

/// Everything a handler needs to know about the request.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) resource: Arc<Resource>,
    pub(crate) target: Target,
    pub(crate) query: Query,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    pub(crate) user: Arc<User>,
    pub(crate) now: Timestamp,
    warnings: Mutex<Warnings>,
}

impl Call {
    pub(crate) fn new(
        resource: Arc<Resource>,
        target: Target,
        query: Query,
        request: crate::edge::Request,
        now: Timestamp,
    ) -> Call {
        Call {
            resource,
            target,
            query,
            headers: request.headers,
            body: request.body,
            user: request.user,
            now,
            warnings: Mutex::default(),
        }
    }

    /// The key of the object the request names.
    pub(crate) fn key(&self) -> String {
        self.resource.key(&self.target.namespace, &self.target.name)
    }

    /// Reads the body in whatever format it came.
    pub(crate) fn decode_body(&self, types: Types) -> Result<Decoded, Status> {
        present::decode_body(&self.headers, &self.body, &self.resource.kind, types)
    }

    pub(crate) fn not_found(&self) -> Status {
        Status::not_found(&self.resource.group_resource(), &self.target.name)
    }

    /// Adds a `Warning` header to the response.
    pub(crate) fn warn(&self, text: impl Into<String>) {
        self.warnings().add(text.into());
    }

    pub(crate) fn take_warnings(&self) -> Vec<String> {
        std::mem::take(&mut *self.warnings()).shown()
    }

    fn warnings(&self) -> MutexGuard<'_, Warnings> {
        self.warnings.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a handler answers; [`crate::respond`] gives it the form the client asked for.
pub(crate) enum Answer {
    /// An object as it is stored.
    Stored { code: u16, entry: Arc<Entry> },
    /// An object already in the version that was asked for.
    Object { code: u16, value: Value },
    /// The end of an immediate delete and the like.
    Status(Status),
    /// A body the handler writes itself: lists and watches.
    Response(Box<http::Response<ResponseBody>>),
}
