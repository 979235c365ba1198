//! Sinks whose Secrets change, and rules from files.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[expect(dead_code, reason = "other tests use the rest")]
mod support;

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use serde_json::json;
use skopos_control::{Admin, Engine, EngineConfig, Explain, Status, Verdicts};
use skopos_testkit::TestServer;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
    sync::watch,
};

/// An endpoint that takes requests with one token only, and remembers what came.
#[derive(Clone)]
struct Endpoint {
    address: std::net::SocketAddr,
    accepts: Arc<Mutex<&'static str>>,
    /// The names of objects, and how often a wrong token came.
    seen: Arc<Mutex<(Vec<String>, usize)>>,
}

impl Endpoint {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = Self {
            address: listener.local_addr().unwrap(),
            accepts: Arc::new(Mutex::new("one")),
            seen: Arc::default(),
        };
        let own = endpoint.clone();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut request = Vec::new();
                let mut buffer = [0; 4096];
                while !is_whole(&request) {
                    let n = stream.read(&mut buffer).await.unwrap_or(0);
                    if n == 0 {
                        break;
                    }
                    request.extend_from_slice(&buffer[..n]);
                }
                let status = own.judge(&String::from_utf8_lossy(&request));
                let answer = format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
                let _ = stream.write_all(answer.as_bytes()).await;
            }
        });
        endpoint
    }

    fn judge(&self, request: &str) -> &'static str {
        let token = format!("Bearer {}", self.accepts.lock().unwrap());
        let mut seen = self.seen.lock().unwrap();
        if !request.contains(&token) {
            seen.1 += 1;
            return "401 Unauthorized";
        }
        let subject = request.lines().find_map(|line| line.strip_prefix("ce-subject: "));
        seen.0.push(subject.unwrap_or("none").to_owned());
        "200 OK"
    }

    async fn until(&self, n: usize) -> (Vec<String>, usize) {
        for _ in 0..1000 {
            let seen = self.seen.lock().unwrap().clone();
            if seen.0.len() >= n {
                return seen;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("never came: {:?}", self.seen.lock().unwrap());
    }
}

/// Whether a request is complete: its headers, and as much body as they say.
fn is_whole(request: &[u8]) -> bool {
    let text = String::from_utf8_lossy(request).to_lowercase();
    let Some((head, body)) = text.split_once("\r\n\r\n") else {
        return false;
    };
    let len = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length: "));
    body.len() >= len.map_or(0, |len| len.trim().parse().unwrap())
}

struct Stage {
    server: TestServer,
    admin: Admin,
    verdicts: watch::Receiver<Arc<Verdicts>>,
    running: support::Running,
    _dir: tempfile::TempDir,
}

async fn start(look_every: Duration, files: &[(&str, &str)]) -> Stage {
    let server = support::server().await;
    let dir = tempfile::tempdir().unwrap();
    for (name, text) in files {
        std::fs::write(dir.path().join(name), text).unwrap();
    }
    let files = files.iter().map(|(name, _)| dir.path().join(name)).collect();
    let config = EngineConfig {
        look_every,
        files,
        ..EngineConfig::new(dir.path().join("data"))
    };
    let engine = Engine::open(&server.client(), config).await.unwrap();
    Stage {
        server,
        admin: engine.admin(),
        verdicts: engine.verdicts(),
        running: support::Running::start(engine),
        _dir: dir,
    }
}

impl Stage {
    async fn stop(self) {
        self.running.stop().await;
    }

    async fn secret(&self, token: impl AsRef<[u8]>) {
        use base64::Engine as _;
        let data = base64::engine::general_purpose::STANDARD.encode(token);
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "hook", "namespace": "default"},
            "data": {"token": data}});
        self.server.put(&secret).await;
    }

    /// The problems of the sink with the token, in as many plans, from the first one on that is as it should be.
    async fn problems(&mut self, n: usize, is_so: fn(&Option<String>) -> bool) -> Vec<Option<String>> {
        let mut found = Vec::new();
        while found.len() < n {
            self.verdicts.changed().await.unwrap();
            let problem = self.verdicts.borrow_and_update().sinks["default/hook"]
                .problem
                .clone();
            if !found.is_empty() || is_so(&problem) {
                found.push(problem);
            }
        }
        found
    }

    async fn widget(&self, name: &str) {
        support::widget(&self.server, "default", name, 1).await;
    }

    async fn rule_to(&self, endpoint: &Endpoint) {
        let token = json!({"secret": {"name": "hook", "key": "token"}});
        let url = format!("http://{}/", endpoint.address);
        let sink = json!({"webhook": {"url": url, "auth": {"token": token}}});
        support::put(&self.server, "Sink", "default", "hook", &sink).await;
        support::put(
            &self.server,
            "Rule",
            "default",
            "all",
            &support::all_widgets("hook"),
        )
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_that_changes_is_noticed_in_time() {
    let endpoint = Endpoint::start().await;
    let stage = start(Duration::from_millis(100), &[]).await;
    stage.secret("one").await;
    stage.rule_to(&endpoint).await;
    stage.widget("a").await;
    endpoint.until(1).await;
    stage.secret("two").await;
    *endpoint.accepts.lock().unwrap() = "two";
    stage.widget("b").await;
    assert_eq!(endpoint.until(2).await.0, ["default/a", "default/b"]);
    stage.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_token_is_looked_up_again_at_once() {
    let endpoint = Endpoint::start().await;
    // By the clock it would take an hour.
    let stage = start(Duration::from_secs(3600), &[]).await;
    stage.secret("one").await;
    stage.rule_to(&endpoint).await;
    stage.widget("a").await;
    endpoint.until(1).await;
    stage.secret("two").await;
    *endpoint.accepts.lock().unwrap() = "two";
    stage.widget("b").await;
    let (subjects, n_refused) = endpoint.until(2).await;
    assert_eq!(subjects, ["default/a", "default/b"]);
    assert!(n_refused > 0);
    stage.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sink_says_that_a_secret_is_unusable_until_it_can_be_used() {
    let endpoint = Endpoint::start().await;
    // Plans are made every second meanwhile, and the values are looked at in some of them only.
    let mut stage = start(Duration::from_millis(3500), &[]).await;
    stage.secret("one").await;
    stage.rule_to(&endpoint).await;
    stage.widget("a").await;
    endpoint.until(1).await;
    stage.secret([0xff]).await;
    let problems = stage.problems(3, Option::is_some).await;
    assert!(problems.iter().all(Option::is_some), "{problems:?}");
    stage.widget("b").await;
    assert_eq!(endpoint.until(2).await.0, ["default/a", "default/b"]);
    stage.secret("one").await;
    assert_eq!(stage.problems(1, Option::is_none).await, [None]);
    stage.stop().await;
}

const RULES: &str = "
apiVersion: skopos.dev/v1alpha1
kind: Rule
metadata: {name: waiting}
spec: {watch: {group: example.com, kind: Widget}, do: [{sink: nowhere}]}
---
apiVersion: skopos.dev/v1alpha1
kind: Rule
metadata: {name: wrong}
spec: {watch: {group: example.com, kind: Widget}, when: 'object.spec.size >', do: [{sink: nowhere}]}
";

#[tokio::test(flavor = "multi_thread")]
async fn rules_from_files_show_their_conditions() {
    let stage = start(Duration::from_secs(30), &[("rules.yaml", RULES)]).await;
    let mut found = Vec::new();
    for _ in 0..1000 {
        let status = stage.admin.ask(&Status {}).await.unwrap();
        found = status
            .rules
            .iter()
            .flat_map(|rule| rule.conditions.iter().map(|one| (rule.name.clone(), one.clone())))
            .map(|(rule, one)| format!("{rule} {} {} {}", one.kind, one.holds, one.reason))
            .collect();
        if found.iter().any(|line| line.contains("EveryChange")) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let expected = [
        "default/waiting Ready false SinkMissing",
        "default/waiting CaptureComplete true EveryChange",
        "default/waiting Delivering false SinkMissing",
        "default/wrong Ready false Invalid",
        "default/wrong CaptureComplete true EveryChange",
        "default/wrong Delivering false NotInForce",
    ];
    assert_eq!(found, expected);
    let explain = |rule: &str| Explain {
        rule: Some(rule.to_owned()),
        ..Explain::default()
    };
    let explained = stage.admin.ask(&explain("waiting")).await.unwrap();
    assert_eq!(explained.conditions.len(), 3);
    let refused = stage.admin.ask(&explain("wrong")).await.unwrap_err();
    assert!(
        refused.message.contains("not in force: spec.when"),
        "{}",
        refused.message
    );
    stage.stop().await;
}
