//! What the edge hands to the inner service, and what it expects back.
//!
//! The inner service implements [`Handler`]; everything else here is data.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, Method, Uri};

use super::body::ResponseBody;

/// The group whose members are never refused by authorization.
pub(crate) const MASTERS: &str = "system:masters";
/// The group that every authenticated user is in.
pub(crate) const AUTHENTICATED: &str = "system:authenticated";
/// The group of requests without credentials.
pub(crate) const UNAUTHENTICATED: &str = "system:unauthenticated";
/// The name of a user without credentials.
pub(crate) const ANONYMOUS: &str = "system:anonymous";

/// Who asks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct User {
    /// The user name, as RBAC and audit see it.
    pub(crate) name: String,
    /// A stable identity, often empty.
    pub(crate) uid: String,
    /// The groups, in the order the credential gives them; `system:authenticated` is last.
    pub(crate) groups: Vec<String>,
    /// Further facts from the credential, such as its id.
    pub(crate) extra: BTreeMap<String, Vec<String>>,
}

impl User {
    /// The administrator that in-process clients and the admin kubeconfig act as.
    #[must_use]
    pub(crate) fn admin() -> Self {
        Self {
            name: "kubernetes-admin".to_owned(),
            groups: vec![MASTERS.to_owned(), AUTHENTICATED.to_owned()],
            ..Self::default()
        }
    }

    /// A request without credentials.
    #[must_use]
    pub(crate) fn anonymous() -> Self {
        Self {
            name: ANONYMOUS.to_owned(),
            groups: vec![UNAUTHENTICATED.to_owned()],
            ..Self::default()
        }
    }

    /// Whether the user is in `group`.
    #[must_use]
    pub(crate) fn is_in(&self, group: &str) -> bool {
        self.groups.iter().any(|have| have == group)
    }
}

/// One request after authentication, its body already read within the limit.
///
/// The `Authorization` header is gone; `Audit-Id` is always there.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    /// The HTTP method.
    pub(crate) method: Method,
    /// Path and query.
    pub(crate) uri: Uri,
    /// Headers as sent, without credentials.
    pub(crate) headers: HeaderMap,
    /// The whole body; empty for GET and HEAD.
    pub(crate) body: Bytes,
    /// Who asks.
    pub(crate) user: Arc<User>,
}

/// How a request shows in the metrics. The handler puts one into the extensions of its response.
///
/// Values must come from a bounded set (the registry of resources), never from the request itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct RequestLabels {
    /// Upper case, as upstream reports it: `GET`, `LIST`, `WATCH`, `POST`, `PUT`, `PATCH`, `APPLY`, `DELETE`, `DELETECOLLECTION`.
    pub(crate) verb: &'static str,
    /// API group, empty for core.
    pub(crate) group: Arc<str>,
    /// API version.
    pub(crate) version: Arc<str>,
    /// Plural resource name.
    pub(crate) resource: Arc<str>,
    /// Subresource, or the path for requests that name no resource.
    pub(crate) subresource: Arc<str>,
    /// `cluster`, `namespace`, `resource`, or empty.
    pub(crate) scope: &'static str,
}

/// One number read when `/metrics` is asked for.
#[derive(Clone, Debug)]
pub(crate) struct Sample {
    /// Metric name without `_total`.
    pub(crate) name: &'static str,
    /// One line of help.
    pub(crate) help: &'static str,
    /// Label names and values, possibly none. Samples of one name must follow each other.
    pub(crate) labels: Vec<(&'static str, String)>,
    /// Whether it only grows, and its value.
    pub(crate) value: SampleValue,
}

/// The kind and value of a [`Sample`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum SampleValue {
    /// Only grows.
    Counter(f64),
    /// Goes up and down.
    Gauge(f64),
}

/// The service behind the edge.
///
/// A handler's future may be dropped at any await point: on a timeout, or when the client goes away.
pub(crate) trait Handler: Send + Sync + 'static {
    /// Answers one request.
    fn handle(&self, request: Request) -> impl Future<Output = http::Response<ResponseBody>> + Send;

    /// Whether the request is a watch or another stream: outside the in-flight limits and timeouts.
    fn is_long_running(&self, method: &Method, uri: &Uri) -> bool {
        super::deadline::looks_long_running(method, uri)
    }

    /// The paths that `/` lists, beyond the edge's own. Sorted by the edge.
    fn index_paths(&self) -> Vec<String> {
        Vec::new()
    }

    /// Numbers for `/metrics`: `apiserver_storage_objects`, the store's statistics.
    fn samples(&self) -> Vec<Sample> {
        Vec::new()
    }
}

impl<H: Handler> Handler for Arc<H> {
    fn handle(&self, request: Request) -> impl Future<Output = http::Response<ResponseBody>> + Send {
        H::handle(self, request)
    }

    fn is_long_running(&self, method: &Method, uri: &Uri) -> bool {
        H::is_long_running(self, method, uri)
    }

    fn index_paths(&self) -> Vec<String> {
        H::index_paths(self)
    }

    fn samples(&self) -> Vec<Sample> {
        H::samples(self)
    }
}
