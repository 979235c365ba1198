//! A server per test, requests as one-liners, watches read event by event.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method};
use http_body_util::{BodyExt as _, Full, combinators::UnsyncBoxBody};
use serde_json::{Value, json};
use skopos_apiserver::{ApiServer, Config};
use tower::Service as _;

use crate::real::Real;

/// How long anything may take before a test is given up. Nothing here is expected to wait.
const PATIENCE: Duration = Duration::from_secs(60);

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
    Embedded(ApiServer),
    Real(Box<Real>),
}

impl Server {
    /// A fresh server with a namespace `home`.
    pub(crate) async fn start() -> Server {
        let server = match std::env::var("SKOPOS_TEST_KUBECONFIG") {
            Ok(path) => Server { target: Target::Real(Box::new(Real::connect(&path).await)) },
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
        let mut config = Config { future_version_wait: Duration::from_millis(60), ..Config::default() };
        configure(&mut config);
        Server { target: Target::Embedded(ApiServer::start(config).await.unwrap()) }
    }

    async fn create_home(&self) {
        let answer = self.post("/api/v1/namespaces", json!({"metadata": {"name": "home"}})).await;
        answer.ok();
        if self.is_real() {
            self.until(&format!("{HOME}/serviceaccounts/default"), |_| true).await;
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
            self.until(&format!("{CRDS}/{name}"), |crd| has_condition(crd, "Established", "True")).await;
            self.wait_until_served(&definition).await;
        }
        created
    }

    /// Only a real server needs this: it serves a definition some time after it is established.
    pub(crate) async fn wait_until_served(&self, definition: &Value) {
        for version in definition["spec"]["versions"].as_array().unwrap() {
            let (group, plural) = (&definition["spec"]["group"], &definition["spec"]["names"]["plural"]);
            let text = |value: &Value| value.as_str().unwrap().to_owned();
            let path = format!("/apis/{}/{}/{}", text(group), text(&version["name"]), text(plural));
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
        self.send(Method::POST, path, &[("content-type", "application/json")], &body.to_string()).await
    }

    pub(crate) async fn put(&self, path: &str, body: &Value) -> Answer {
        self.send(Method::PUT, path, &[("content-type", "application/json")], &body.to_string()).await
    }

    pub(crate) async fn delete(&self, path: &str) -> Answer {
        self.send(Method::DELETE, path, &[], "").await
    }

    /// DELETE with options in the body.
    pub(crate) async fn delete_with(&self, path: &str, options: Value) -> Answer {
        self.send(Method::DELETE, path, &[("content-type", "application/json")], &options.to_string()).await
    }

    pub(crate) async fn merge(&self, path: &str, patch: Value) -> Answer {
        self.patch(path, "merge-patch", patch).await
    }

    /// PATCH with `json-patch`, `merge-patch` or `strategic-merge-patch`.
    pub(crate) async fn patch(&self, path: &str, kind: &str, patch: Value) -> Answer {
        let media_type = format!("application/{kind}+json");
        self.send(Method::PATCH, path, &[("content-type", &media_type)], &patch.to_string()).await
    }

    /// Any request.
    pub(crate) async fn send(&self, method: Method, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        let answer = async {
            let (parts, body) = self.open(method, path, headers, body).await.into_parts();
            let bytes = body.collect().await.unwrap().to_bytes();
            let bytes = self.inbound(bytes);
            let mut body = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
            self.forget_managers(&mut body);
            Answer { code: parts.status.as_u16(), headers: parts.headers, bytes, body }
        };
        tokio::time::timeout(PATIENCE, answer).await.expect("an answer in time")
    }

    async fn open(&self, method: Method, path: &str, headers: &[(&str, &str)], body: &str) -> Response {
        let mut request = http::Request::builder().method(method);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        match &self.target {
            Target::Embedded(server) => {
                let request = request.uri(path).body(Full::new(Bytes::from(body.to_owned()))).unwrap();
                let response = server.service().call(request).await.unwrap();
                response.map(|body| body.map_err(|error| error.to_string()).boxed_unsync())
            }
            Target::Real(real) => {
                let request = request.uri(real.outbound(path)).body(real.outbound(body).into_bytes().into());
                real.call(request.unwrap()).await
            }
        }
    }

    fn inbound(&self, bytes: Bytes) -> Bytes {
        match &self.target {
            Target::Embedded(_) => bytes,
            Target::Real(real) => real.inbound(&bytes),
        }
    }

    /// Field managers are not tracked yet, so what a real server says about them is left out.
    fn forget_managers(&self, value: &mut Value) {
        match value {
            Value::Object(fields) if self.is_real() => {
                fields.remove("managedFields");
                fields.values_mut().for_each(|field| self.forget_managers(field));
            }
            Value::Array(items) if self.is_real() => items.iter_mut().for_each(|item| self.forget_managers(item)),
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
        Watch { server: self, headers: response.headers().clone(), body: response.into_body(), pending: Vec::new() }
    }

    /// Waits until an object exists and looks as it should; returns it.
    pub(crate) async fn until(&self, path: &str, is_right: impl Fn(&Value) -> bool) -> Value {
        let (collection, name) = path.rsplit_once('/').unwrap();
        let mut watch = self.watch(&format!("{collection}?fieldSelector=metadata.name%3D{name}")).await;
        loop {
            let event = watch.next().await;
            if event.kind != "DELETED" && is_right(&event.object) {
                return event.object;
            }
        }
    }

    /// Waits until an object is gone; returns its last state. One that is gone already counts.
    pub(crate) async fn until_gone(&self, path: &str) -> Value {
        let Answer { code: 200, body: object, .. } = self.get(path).await else { return Value::Null };
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
        let found = (self.code, self.body["reason"].as_str().unwrap_or(""), self.body["message"].as_str().unwrap_or(""));
        assert_eq!(found, (code, reason, message), "{}", self.text());
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes).into_owned()
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or("")
    }

    /// The texts of all warnings.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let values = self.headers.get_all("warning").iter().filter_map(|value| value.to_str().ok());
        let strip = |value: &str| value.trim_start_matches("299 - \"").trim_end_matches('"').replace("\\\"", "\"");
        values.map(strip).collect()
    }
}

/// One event of a watch.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Event {
    pub(crate) kind: String,
    pub(crate) object: Value,
}

impl Event {
    /// `ADDED a`, for comparisons at a glance.
    pub(crate) fn brief(&self) -> String {
        format!("{} {}", self.kind, self.object["metadata"]["name"].as_str().unwrap_or(""))
    }
}

/// A watch under way.
pub(crate) struct Watch<'a> {
    server: &'a Server,
    pub(crate) headers: HeaderMap,
    body: UnsyncBoxBody<Bytes, String>,
    pending: Vec<u8>,
}

impl Watch<'_> {
    /// The next event; there must be one.
    #[track_caller]
    pub(crate) fn next(&mut self) -> impl Future<Output = Event> {
        let caller = std::panic::Location::caller();
        async move { self.try_next().await.unwrap_or_else(|| panic!("the watch of {caller} has ended")) }
    }

    /// The next event, or `None` at the end of the stream.
    pub(crate) async fn try_next(&mut self) -> Option<Event> {
        loop {
            if let Some(end) = self.pending.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.pending.drain(..=end).collect();
                let line = self.server.inbound(line.into());
                let mut event: Value = serde_json::from_slice(&line).unwrap();
                self.server.forget_managers(&mut event);
                let kind = event["type"].as_str().unwrap().to_owned();
                return Some(Event { kind, object: event["object"].take() });
            }
            let frame = tokio::time::timeout(PATIENCE, self.body.frame()).await.expect("an event in time")?;
            if let Ok(data) = frame.unwrap().into_data() {
                self.pending.extend_from_slice(&data);
            }
        }
    }

    /// So many events, each as `KIND name`.
    #[track_caller]
    pub(crate) fn briefs(&mut self, n: usize) -> impl Future<Output = Vec<String>> {
        let caller = std::panic::Location::caller();
        async move {
            let mut found = Vec::new();
            while found.len() < n {
                let event = self.try_next().await;
                let event = event.unwrap_or_else(|| panic!("the watch of {caller} has ended after {found:?}"));
                found.push(event.brief());
            }
            found
        }
    }
}

/// Stops the clock of the test: it moves only by [`Clock::advance`].
///
/// A paused clock runs ahead while nothing in the runtime has work, and the store commits on a thread of its
/// own; a blocking task that never ends keeps it from doing so.
pub(crate) struct Clock {
    _release: std::sync::mpsc::Sender<()>,
}

impl Clock {
    pub(crate) fn stop() -> Clock {
        let (release, wait) = std::sync::mpsc::channel::<()>();
        tokio::task::spawn_blocking(move || wait.recv());
        tokio::time::pause();
        Clock { _release: release }
    }

    pub(crate) async fn advance(&self, by: Duration) {
        // Whoever is about to sleep gets to it first.
        for _ in 0..32 {
            tokio::task::yield_now().await;
        }
        tokio::time::advance(by).await;
    }
}

pub(crate) fn names(list: &Value) -> Vec<String> {
    let name = |item: &Value| item["metadata"]["name"].as_str().unwrap().to_owned();
    list["items"].as_array().unwrap().iter().map(name).collect()
}

/// The resource version of an object or list.
pub(crate) fn version(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap()
}

pub(crate) fn has_condition(object: &Value, kind: &str, status: &str) -> bool {
    let conditions = object["status"]["conditions"].as_array();
    conditions.is_some_and(|list| list.iter().any(|c| c["type"] == kind && c["status"] == status))
}

/// `type=status reason` of every condition.
pub(crate) fn conditions(object: &Value) -> Vec<String> {
    let text = |value: &Value| value.as_str().unwrap_or("").to_owned();
    let brief = |c: &Value| format!("{}={} {}", text(&c["type"]), text(&c["status"]), text(&c["reason"]));
    object["status"]["conditions"].as_array().into_iter().flatten().map(brief).collect()
}

/// The definition most tests work with.
pub(crate) fn widgets() -> Value {
    skopos_object::yaml::decode(include_bytes!("widgets.yaml")).unwrap().value
}

/// A small definition with one open version.
pub(crate) fn definition(plural: &str, kind: &str) -> Value {
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.example.com")},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"plural": plural, "kind": kind},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
        },
    })
}

pub(crate) fn widget(name: &str, spec: Value) -> Value {
    json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name}, "spec": spec})
}

pub(crate) fn config_map(name: &str, data: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data})
}

/// The same object with some metadata set.
pub(crate) fn with_meta(mut object: Value, metadata: Value) -> Value {
    for (field, value) in metadata.as_object().unwrap() {
        object["metadata"][field] = value.clone();
    }
    object
}
