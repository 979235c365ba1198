//! Plays a scenario on one server.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::sync::LazyLock;
use std::time::Duration;

use anyhow::Context;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD as STANDARD;
use bytes::Bytes;
use flate2::read::MultiGzDecoder;
use http::response::Parts;
use http::{HeaderMap, Method};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use regex::{Captures, Regex};
use serde::de::IgnoredAny;
use serde_json::{Value, json};

use super::normal::Normal;
use super::path::find;
use super::protobuf;
use super::scenario::scenarios;
use super::settled::Settled;
use super::{Scenario, Step, Until, Watch, Who};
use crate::{Answer, Endpoint, Request};

const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// How long an answer may take to become what a request waits for.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server and the two who ask it.
#[derive(Debug, Clone)]
pub(super) struct Side {
    pub(super) endpoint: Endpoint,
    pub(super) anonymous: Endpoint,
}

/// One scenario on one server: what was captured, and what its definitions are called.
pub(super) struct Stage<'a> {
    side: &'a Side,
    variables: BTreeMap<String, Value>,
    definitions: Vec<String>,
    settled: Settled,
    normal: Normal,
}

impl<'a> Stage<'a> {
    /// Makes the namespace and the definitions.
    pub(super) async fn set(side: &'a Side, scenario: &Scenario, id: &str) -> anyhow::Result<Stage<'a>> {
        let short = scenario.name.replace('/', "-");
        let (namespace, group) = (format!("{short}-{id}"), format!("{short}-{id}.example.com"));
        let core = format!("/api/v1/namespaces/{namespace}");
        let variables = [
            ("maps", format!("{core}/configmaps")),
            ("api", format!("/apis/{group}/v1/namespaces/{namespace}")),
            ("core", core),
            ("crds", CRDS.to_owned()),
            ("ns", namespace),
            ("reversed", group.rsplit('.').collect::<Vec<_>>().join(".")),
            ("group", group),
        ];
        let mut stage = Stage {
            side,
            variables: variables
                .map(|(name, value)| (name.to_owned(), value.into()))
                .into(),
            definitions: Vec::new(),
            settled: Settled::default(),
            normal: Normal::default(),
        };
        stage.create_namespace().await?;
        for definition in &scenario.definitions {
            stage.install(definition).await?;
        }
        Ok(stage)
    }

    /// Sends the requests one after the other; what each was answered, in a form that can be compared.
    pub(super) async fn play(&mut self, scenario: &Scenario) -> anyhow::Result<Vec<Value>> {
        let mut answers = Vec::new();
        for step in &scenario.requests {
            let answer = self.perform(step).await;
            answers.push(answer.with_context(|| format!("{}: {}", scenario.name, step.name))?);
        }
        Ok(answers)
    }

    /// Asks for everything to be deleted; nobody waits for it.
    pub(super) async fn clear(self) {
        let core = self.variables["core"].as_str().unwrap_or_default().to_owned();
        let names = self.definitions.iter().map(|name| format!("{CRDS}/{name}"));
        for path in names.chain([core]) {
            let _ = self.side.endpoint.send(Request::new(Method::DELETE, path)).await;
        }
    }

    async fn create_namespace(&self) -> anyhow::Result<()> {
        let body = json!({"metadata": {"name": self.variables["ns"]}}).to_string();
        self.send(Request::post("/api/v1/namespaces", body))
            .await?
            .success()?;
        let there = Until {
            code: Some(200),
            ..Until::default()
        };
        for path in ["$core/serviceaccounts/default", "$maps/kube-root-ca.crt"] {
            self.wait(&Request::get(self.filled(path)?), &there).await?;
        }
        Ok(())
    }

    async fn install(&mut self, definition: &Value) -> anyhow::Result<()> {
        let definition = match definition.as_str() {
            Some(name) => {
                let path = scenarios().join(format!("definitions/{name}.yaml"));
                let text =
                    std::fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
                serde_saphyr::from_str(&text)?
            }
            None => definition.clone(),
        };
        let definition = self.value_filled(&definition)?;
        let answer = self.send(Request::post(CRDS, definition.to_string())).await?;
        anyhow::ensure!(answer.status == 201, "{}", String::from_utf8_lossy(&answer.body));
        self.definitions
            .extend(definition["metadata"]["name"].as_str().map(str::to_owned));
        let there = Until {
            code: Some(200),
            ..Until::default()
        };
        for version in definition["spec"]["versions"].as_array().into_iter().flatten() {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let (group, plural) = (
                &definition["spec"]["group"],
                &definition["spec"]["names"]["plural"],
            );
            let path = format!(
                "/apis/{}/{}/{}",
                text(group),
                text(&version["name"]),
                text(plural)
            );
            if version["served"] == true {
                self.wait(&Request::get(path), &there).await?;
            }
        }
        Ok(())
    }

    async fn perform(&mut self, step: &Step) -> anyhow::Result<Value> {
        self.normal.next_request();
        let (method, path) = self.target(step)?;
        if let Some(path) = self.settled.read_before(&method, &path) {
            self.send(Request::get(path)).await?;
        }
        let request = self.request(step)?;
        let (mut seen, headers, body) = match &step.watch {
            Some(watch) => self.watched(request, watch).await?,
            None => {
                let answer = match &step.until {
                    Some(until) => self.wait(&request, until).await?,
                    None => self.asker(step).send(request).await?,
                };
                let body = decoded(&answer);
                let mut seen = json!({"code": answer.status.as_u16(), "layout": layout(&answer)});
                if step.order {
                    seen["fieldsV1"] = owned_fields(&answer.body).into();
                }
                (seen, answer.headers, body)
            }
        };
        // What a refused request says is not what the next one begins with.
        let taken = seen["code"].as_u64().is_some_and(|code| code < 300);
        if taken && !path.contains("dryRun") {
            self.settled.written(&method, &path, &body);
        }
        for (name, path) in step.capture.iter().filter(|_| taken) {
            let found = match path.strip_prefix('@') {
                Some(header) => headers
                    .get(header)
                    .and_then(|value| value.to_str().ok())
                    .map(Value::from),
                None => find(&body, path).cloned(),
            };
            self.variables.insert(name.clone(), found.unwrap_or_default());
        }
        let mut body = match &step.pick {
            Some(path) => find(&body, &self.filled(path)?).cloned().unwrap_or_default(),
            None => body,
        };
        self.normal.value(&mut body);
        seen["header"] = self.normal.headers(&headers);
        seen[if step.watch.is_some() { "events" } else { "body" }] = body;
        Ok(seen)
    }

    fn asker(&self, step: &Step) -> &Endpoint {
        match step.who {
            Some(Who::Anonymous) => &self.side.anonymous,
            None => &self.side.endpoint,
        }
    }

    async fn send(&self, request: Request) -> anyhow::Result<Answer> {
        self.side.endpoint.send(request).await
    }

    /// Asks again and again until the answer is as it should be.
    async fn wait(&self, request: &Request, until: &Until) -> anyhow::Result<Answer> {
        let filled = |path: &Option<String>| path.as_ref().map(|path| self.filled(path)).transpose();
        let until = &Until {
            code: until.code,
            path: filled(&until.path)?,
            gone: filled(&until.gone)?,
        };
        let end = tokio::time::Instant::now() + PATIENCE;
        loop {
            let answer = self.send(request.clone()).await?;
            if is_so(&answer, until) {
                return Ok(answer);
            }
            anyhow::ensure!(
                tokio::time::Instant::now() < end,
                "never became {until:?}: {} {}",
                answer.status,
                String::from_utf8_lossy(&answer.body)
            );
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Opens a watch and reads it. An answer that is no stream counts as one event.
    async fn watched(&self, request: Request, watch: &Watch) -> anyhow::Result<(Value, HeaderMap, Value)> {
        let mut connection = self.side.endpoint.connect().await?;
        let (parts, body) = connection.open(request).await?.into_parts();
        let (events, end) = read_events(body, watch, &parts).await?;
        let seen = json!({"code": parts.status.as_u16(), "end": end});
        Ok((seen, parts.headers, events.into()))
    }

    fn target(&self, step: &Step) -> anyhow::Result<(Method, String)> {
        let (method, path, _) = step.line()?;
        Ok((Method::from_bytes(method.as_bytes())?, self.filled(path)?))
    }

    fn request(&mut self, step: &Step) -> anyhow::Result<Request> {
        let (method, path) = self.target(step)?;
        let mut request = Request::new(method, path);
        for (name, value) in &step.headers {
            request = request.header(name, &self.filled(value)?);
        }
        let Some(body) = self.body(step)? else {
            return Ok(request);
        };
        request = request.content(body);
        Ok(
            match step.content_type.as_deref().map_or("application/json", long_type) {
                "none" => request,
                content_type => request.header("content-type", content_type),
            },
        )
    }

    fn body(&mut self, step: &Step) -> anyhow::Result<Option<Bytes>> {
        if let Some(text) = &step.text {
            return Ok(Some(self.filled(text)?.into()));
        }
        if let Some(coded) = &step.base64 {
            return Ok(Some(STANDARD.decode(coded).context("base64")?.into()));
        }
        let patch = step
            .body
            .as_ref()
            .map(|body| self.value_filled(body))
            .transpose()?;
        let body = match &step.base {
            Some(name) => {
                let base = self.variables.get(name).cloned().unwrap_or_else(|| json!({}));
                Some(merged(base, patch.unwrap_or_else(|| json!({}))))
            }
            None => patch,
        };
        if let Some(prefix) = body
            .as_ref()
            .and_then(|body| find(body, "metadata.generateName")?.as_str())
        {
            self.normal.generates(prefix);
        }
        Ok(body.map(|body| body.to_string().into()))
    }

    /// Text with its variables and repetitions written out.
    fn filled(&self, text: &str) -> anyhow::Result<String> {
        static VARIABLE: LazyLock<Regex> =
            LazyLock::new(|| Regex::new(r"\$\{?([a-z][a-z0-9_]*)\}?").expect("a pattern written here"));
        static REPEATED: LazyLock<Regex> =
            LazyLock::new(|| Regex::new("(?s)<<([0-9]+) (.+?)>>").expect("a pattern written here"));
        let text = VARIABLE.replace_all(text, |found: &Captures<'_>| match self.variables.get(&found[1]) {
            Some(Value::String(text)) => text.clone(),
            Some(value) => value.to_string(),
            // Strategic patches have words of their own that begin with a dollar.
            None => found[0].to_owned(),
        });
        let repeat = |found: &Captures<'_>| found[2].repeat(found[1].parse().unwrap_or(0));
        Ok(REPEATED.replace_all(&text, repeat).into_owned())
    }

    fn value_filled(&self, value: &Value) -> anyhow::Result<Value> {
        Ok(match value {
            Value::String(text) => match text.strip_prefix('$').and_then(|name| self.variables.get(name)) {
                Some(value) => value.clone(),
                None => self.filled(text)?.into(),
            },
            Value::Array(items) => items
                .iter()
                .map(|item| self.value_filled(item))
                .collect::<anyhow::Result<_>>()?,
            Value::Object(fields) => {
                let filled = fields
                    .iter()
                    .map(|(key, value)| Ok((self.filled(key)?, self.value_filled(value)?)));
                Value::Object(filled.collect::<anyhow::Result<_>>()?)
            }
            other => other.clone(),
        })
    }
}

fn long_type(short: &str) -> &str {
    match short {
        "merge" => "application/merge-patch+json",
        "json-patch" => "application/json-patch+json",
        "strategic" => "application/strategic-merge-patch+json",
        "apply" => "application/apply-patch+yaml",
        "yaml" => "application/yaml",
        "protobuf" => "application/vnd.kubernetes.protobuf",
        other => other,
    }
}

fn is_so(answer: &Answer, until: &Until) -> bool {
    let body = answer.json();
    until.code.is_none_or(|code| answer.status == code)
        && until.path.as_ref().is_none_or(|path| find(&body, path).is_some())
        && until.gone.as_ref().is_none_or(|path| find(&body, path).is_none())
}

/// JSON, YAML and protobuf as values, everything else as text.
fn decoded(answer: &Answer) -> Value {
    let header = |name| {
        answer
            .headers
            .get(name)
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default()
    };
    let unpacked = match header("content-encoding") {
        "gzip" => unpacked(&answer.body),
        _ => None,
    };
    let body = unpacked.as_deref().unwrap_or(&answer.body);
    let text = String::from_utf8_lossy(body);
    let content_type = header("content-type");
    if content_type.contains("json") {
        serde_json::from_slice(body).unwrap_or_else(|_| text.into())
    } else if content_type.contains("yaml") {
        serde_saphyr::from_str(&text).unwrap_or_else(|_| text.into())
    } else if body.starts_with(b"k8s\0") || content_type.contains("protobuf") {
        protobuf::object(body)
    } else if text.starts_with('{') {
        // The index of OpenAPI is JSON that says it is text.
        serde_json::from_slice(body).unwrap_or_else(|_| text.into())
    } else {
        text.into()
    }
}

/// How JSON is laid out, which is lost when it is read.
fn layout(answer: &Answer) -> &'static str {
    let body = unpacked(&answer.body);
    let body = body.as_deref().unwrap_or(&answer.body);
    if !body.starts_with(b"{") {
        return "no JSON";
    }
    let Some(body) = body.strip_suffix(b"\n") else {
        return "no end of line";
    };
    match body.windows(3).any(|part| part == b"\n  ") {
        true => "indented",
        false => "a line",
    }
}

fn unpacked(body: &[u8]) -> Option<Vec<u8>> {
    let mut plain = Vec::new();
    MultiGzDecoder::new(body).read_to_end(&mut plain).ok()?;
    Some(plain)
}

/// The text of each `fieldsV1` in a body of JSON, sorted: the order of the entries depends on the second.
fn owned_fields(body: &[u8]) -> Vec<String> {
    const NAME: &str = "\"fieldsV1\":";
    let text = String::from_utf8_lossy(body);
    let end = |fields: &str| {
        let mut values = serde_json::Deserializer::from_str(fields).into_iter::<IgnoredAny>();
        values.next();
        values.byte_offset()
    };
    let parts = text.split(NAME).skip(1);
    let mut fields: Vec<String> = parts.map(|part| part[..end(part)].to_owned()).collect();
    fields.sort_unstable();
    fields
}

/// The events of a watch and how the reading ended.
async fn read_events(
    mut body: Incoming,
    watch: &Watch,
    parts: &Parts,
) -> anyhow::Result<(Vec<Value>, &'static str)> {
    let mut events = Vec::new();
    let mut rest = Vec::new();
    let content_type = parts.headers.get("content-type");
    let in_frames = content_type.is_some_and(|value| value.as_bytes().ends_with(b"protobuf;stream=watch"));
    let enough = |events: &[Value]| match watch {
        Watch::Events(count) => parts.status.is_success() && events.len() >= *count,
        Watch::Object(name) => events
            .iter()
            .any(|event| event["object"]["metadata"]["name"] == name.as_str()),
        Watch::Bookmark => events.last().is_some_and(|event| event["type"] == "BOOKMARK"),
        Watch::End => false,
    };
    let reading = async {
        while !enough(&events) {
            let Some(frame) = body.frame().await else {
                if !rest.is_empty() {
                    events.push(event(&rest));
                }
                return "ended by the server";
            };
            let data: Bytes = frame
                .ok()
                .and_then(|frame| frame.into_data().ok())
                .unwrap_or_default();
            rest.extend_from_slice(&data);
            events.extend(match in_frames {
                true => protobuf::events(&mut rest),
                false => lines(&mut rest),
            });
        }
        "read enough"
    };
    let end = tokio::time::timeout(PATIENCE, reading).await;
    Ok((events, end.unwrap_or("no more came")))
}

/// Takes the whole lines off the front of what was read.
fn lines(read: &mut Vec<u8>) -> Vec<Value> {
    let mut events = Vec::new();
    while let Some(end) = read.iter().position(|byte| *byte == b'\n') {
        let line: Vec<u8> = read.drain(..=end).collect();
        events.push(event(&line[..end]));
    }
    events
}

fn event(line: &[u8]) -> Value {
    serde_json::from_slice(line).unwrap_or_else(|_| String::from_utf8_lossy(line).into())
}

/// RFC 7386.
fn merged(mut base: Value, patch: Value) -> Value {
    let Value::Object(patch) = patch else { return patch };
    if !base.is_object() {
        base = json!({});
    }
    for (key, value) in patch {
        match value {
            Value::Null => {
                base.as_object_mut().map(|base| base.remove(&key));
            }
            value => base[&key] = merged(base[&key].take(), value),
        }
    }
    base
}
