//! A server per test, requests as one-liners, watches read event by event.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method};
use http_body_util::{BodyExt as _, Full, combinators::UnsyncBoxBody};
use serde_json::{Value, json};
use skopos_apiserver::{ApiServer, Config};
use tower::Service as _;

use crate::real::Real;

pub(crate) use crate::events::{Clock, Event, Watch};
pub(crate) use crate::objects::{
    conditions, config_map, definition, has_condition, names, version, widget, widgets, with_meta,
};

/// How long anything may take before a test is given up. Nothing here is expected to wait.
pub(crate) const PATIENCE: Duration = Duration::from_secs(100);

/// The namespace every test lives in.
pub(crate) const HOME: &str = "/api/v1/namespaces/home";
/// Config maps of [`HOME`].
pub(crate) const MAPS: &str = "/api/v1/namespaces/home/configmaps";
/// Widgets of [`HOME`], see `widgets.yaml`.
pub(crate) const WIDGETS: &str = "/apis/example.com/v1/namespaces/home/widgets";
/// All definitions.
pub(crate) const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// A server and how to talk to it.
pub(crate) struct Server {
    target: Target,
}

enum Target {
    Embedded(Box<ApiServer>),
    Real(Box<Real>),
}

impl Server {
    /// A fresh server with a namespace `home`.
    pub(crate) async fn start() -> Server {
        let server = match std::env::var("SKOPOS_TEST_KUBECONFIG") {
            Ok(path) => Server {
                target: Target::Real(Box::new(Real::connect(&path).await)),
            },
            Err(_) => return Server::with(|_| {}).await,
        };
        server.create_home().await;
        server
    }

    /// A fresh server with widgets installed.
    pub(crate) async fn with_widgets() -> Server {
        let server = Server::start().await;
        server.install(widgets()).await;
        server
    }

    /// An embedded server with a configuration of its own.
    pub(crate) async fn with(configure: impl FnOnce(&mut Config)) -> Server {
        let server = Server::bare(configure).await;
        server.create_home().await;
        server
    }

    /// An embedded server as it is on its first start, or on a data directory.
    pub(crate) async fn bare(configure: impl FnOnce(&mut Config)) -> Server {
        let mut config = Config {
            future_version_wait: Duration::from_millis(60),
            ..Config::default()
        };
        configure(&mut config);
        Server {
            target: Target::Embedded(Box::new(ApiServer::start(config).await.unwrap())),
        }
    }

    async fn create_home(&self) {
        let answer = self
            .post("/api/v1/namespaces", json!({"metadata": {"name": "home"}}))
            .await;
        answer.ok();
        if self.is_real() {
            self.until(&format!("{HOME}/serviceaccounts/default"), |_| true)
                .await;
            self.until(&format!("{MAPS}/kube-root-ca.crt"), |_| true).await;
        }
    }

    /// Whether a real kube-apiserver answers: it is slower, and others use it too.
    pub(crate) fn is_real(&self) -> bool {
        matches!(self.target, Target::Real(_))
    }

    /// Stops an embedded server the way a user does.
    pub(crate) async fn stop(self) {
        if let Target::Embedded(server) = self.target {
            server.stop().await;
        }
    }

    /// Creates a definition and waits until its first served version answers.
    pub(crate) async fn install(&self, definition: Value) -> Value {
        let created = self.post(CRDS, definition.clone()).await.ok();
        if self.is_real() {
            let name = definition["metadata"]["name"].as_str().unwrap();
            self.until(&format!("{CRDS}/{name}"), |crd| {
                has_condition(crd, "Established", "True")
            })
            .await;
            self.wait_until_served(&definition).await;
        }
        created
    }

    /// Only a real server needs this: it serves a definition some time after it is established.
    pub(crate) async fn wait_until_served(&self, definition: &Value) {
        for version in definition["spec"]["versions"].as_array().unwrap() {
            let (group, plural) = (
                &definition["spec"]["group"],
                &definition["spec"]["names"]["plural"],
            );
            let text = |value: &Value| value.as_str().unwrap().to_owned();
            let path = format!(
                "/apis/{}/{}/{}",
                text(group),
                text(&version["name"]),
                text(plural)
            );
            while version["served"] == true && self.is_real() && self.get(&path).await.code != 200 {
                tokio::task::yield_now().await;
            }
        }
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.send(Method::GET, path, &[], "").await
    }

    /// GET with an Accept header.
    pub(crate) async fn get_as(&self, path: &str, accept: &str) -> Answer {
        self.send(Method::GET, path, &[("accept", accept)], "").await
    }

    pub(crate) async fn post(&self, path: &str, body: Value) -> Answer {
        self.send(
            Method::POST,
            path,
            &[("content-type", "application/json")],
            &body.to_string(),
        )
        .await
    }

    pub(crate) async fn put(&self, path: &str, body: &Value) -> Answer {
        self.send(
            Method::PUT,
            path,
            &[("content-type", "application/json")],
            &body.to_string(),
        )
        .await
    }

    pub(crate) async fn delete(&self, path: &str) -> Answer {
        self.send(Method::DELETE, path, &[], "").await
    }

    /// DELETE with options in the body.
    pub(crate) async fn delete_with(&self, path: &str, options: Value) -> Answer {
        self.send(
            Method::DELETE,
            path,
            &[("content-type", "application/json")],
            &options.to_string(),
        )
        .await
    }

    pub(crate) async fn merge(&self, path: &str, patch: Value) -> Answer {
        self.patch(path, "merge-patch", patch).await
    }

    /// PATCH with `json-patch`, `merge-patch` or `strategic-merge-patch`.
    pub(crate) async fn patch(&self, path: &str, kind: &str, patch: Value) -> Answer {
        let media_type = format!("application/{kind}+json");
        self.send(
            Method::PATCH,
            path,
            &[("content-type", &media_type)],
            &patch.to_string(),
        )
        .await
    }

    /// Any request.
    pub(crate) async fn send(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Answer {
        let answer = async {
            let (parts, body) = self.open(method, path, headers, body).await.into_parts();
            let bytes = read(body).await;
            let bytes = self.inbound(bytes);
            let mut body = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
            Server::forget_managers(&mut body);
            Answer {
                code: parts.status.as_u16(),
                headers: self.inbound_headers(parts.headers),
                bytes,
                body,
            }
        };
        tokio::time::timeout(PATIENCE, answer)
            .await
            .expect("an answer in time")
    }

    async fn open(&self, method: Method, path: &str, headers: &[(&str, &str)], body: &str) -> Response {
        let mut request = http::Request::builder().method(method);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        match &self.target {
            Target::Embedded(server) => {
                let request = request
                    .uri(path)
                    .body(Full::new(Bytes::from(body.to_owned())))
                    .unwrap();
                let response = server.service().call(request).await.unwrap();
                response.map(|body| body.map_err(|error| error.to_string()).boxed_unsync())
            }
            Target::Real(real) => {
                let request = request
                    .uri(real.outbound(path))
                    .body(real.outbound(body).into_bytes().into());
                real.call(request.unwrap()).await
            }
        }
    }

    pub(crate) fn inbound(&self, bytes: Bytes) -> Bytes {
        match &self.target {
            Target::Embedded(_) => bytes,
            Target::Real(real) => real.inbound(&bytes),
        }
    }

    fn inbound_headers(&self, mut headers: HeaderMap) -> HeaderMap {
        for value in headers.values_mut() {
            *value =
                HeaderValue::from_bytes(&self.inbound(Bytes::copy_from_slice(value.as_bytes()))).unwrap();
        }
        headers
    }

    /// Who owns which field is the subject of `applying` alone, which reads it from [`Answer::bytes`].
    pub(crate) fn forget_managers(value: &mut Value) {
        match value {
            Value::Object(fields) => {
                fields.remove("managedFields");
                fields.values_mut().for_each(Server::forget_managers);
            }
            Value::Array(items) => items.iter_mut().for_each(Server::forget_managers),
            _ => {}
        }
    }

    /// Opens a watch; `path` has everything but `watch=true`.
    pub(crate) async fn watch(&self, path: &str) -> Watch<'_> {
        self.watch_as(path, "application/json").await
    }

    pub(crate) async fn watch_as(&self, path: &str, accept: &str) -> Watch<'_> {
        let joint = if path.contains('?') { '&' } else { '?' };
        let path = format!("{path}{joint}watch=true");
        let response = self.open(Method::GET, &path, &[("accept", accept)], "").await;
        assert_eq!(response.status(), 200, "watch {path}");
        Watch::new(self, response)
    }

    /// Waits until an object exists and looks as it should; returns it.
    pub(crate) async fn until(&self, path: &str, is_right: impl Fn(&Value) -> bool) -> Value {
        let (collection, name) = path.rsplit_once('/').unwrap();
        let query = format!("{collection}?fieldSelector=metadata.name%3D{name}");
        // A server ends the watches of a kind whose definition has changed: then there is another one.
        loop {
            let mut watch = self.watch(&query).await;
            while let Some(event) = watch.try_next().await {
                if event.kind != "DELETED" && is_right(&event.object) {
                    return event.object;
                }
            }
        }
    }

    /// Waits until an object is gone; returns its last state. One that is gone already counts.
    pub(crate) async fn until_gone(&self, path: &str) -> Value {
        let Answer {
            code: 200,
            body: object,
            ..
        } = self.get(path).await
        else {
            return Value::Null;
        };
        let (collection, name) = path.rsplit_once('/').unwrap();
        let from = version(&object);
        let query = format!("fieldSelector=metadata.name%3D{name}&resourceVersion={from}");
        let mut watch = self.watch(&format!("{collection}?{query}")).await;
        loop {
            let event = watch.next().await;
            if event.kind == "DELETED" {
                return event.object;
            }
        }
    }

    /// The names in a collection, in the order of the list.
    pub(crate) async fn names(&self, path: &str) -> Vec<String> {
        names(&self.get(path).await.ok())
    }
}

/// The longest body a test reads.
const MAX_BODY_BYTES: usize = 64 << 20;

async fn read(body: UnsyncBoxBody<Bytes, String>) -> Bytes {
    let mut body = http_body_util::Limited::new(body, MAX_BODY_BYTES);
    let mut bytes = Vec::new();
    while let Some(frame) = body.frame().await {
        bytes.extend(frame.unwrap().into_data().unwrap_or_default());
    }
    bytes.into()
}

pub(crate) type Response = http::Response<UnsyncBoxBody<Bytes, String>>;

/// What came back.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) code: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) bytes: Bytes,
    /// The body as JSON, `null` if it is none.
    pub(crate) body: Value,
}

impl Answer {
    /// The body of a request that must have succeeded.
    #[track_caller]
    pub(crate) fn ok(self) -> Value {
        assert!((200..300).contains(&self.code), "{} {}", self.code, self.text());
        self.body
    }

    /// A refusal with code, reason and message.
    #[track_caller]
    pub(crate) fn refused(&self, code: u16, reason: &str, message: &str) {
        let found = (
            self.code,
            self.body["reason"].as_str().unwrap_or(""),
            self.body["message"].as_str().unwrap_or(""),
        );
        assert_eq!(found, (code, reason, message), "{}", self.text());
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes).into_owned()
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers
            .get(name)
            .and_then(|value| value.to_str().ok())
            .unwrap_or("")
    }

    /// The texts of all warnings.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let values = self
            .headers
            .get_all("warning")
            .iter()
            .filter_map(|value| value.to_str().ok());
        let text = |value: &str| {
            let quoted = value
                .strip_prefix("299 - \"")
                .and_then(|rest| rest.strip_suffix('"'));
            quoted.unwrap().replace("\\\"", "\"")
        };
        values.map(text).collect()
    }
}
