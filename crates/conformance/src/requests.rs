//! Plays recorded requests and compares the answers.
//!
//! ```text
//! == a title
//! POST $APPS?dryRun=All          method and path
//! content-type: application/json headers
//! | {"a":"<<300 x>>"}            the body, in one line; <<300 x>> stands for 300 times x
//! > 400 BadRequest the message   code, reason and message of the answer, then its causes
//! ~ 401 Unauthorized the message what the embedded server says instead, on purpose; the prose says why
//! ```

use anyhow::Context;
use http::Method;
use regex::Regex;
use serde_json::Value;

use crate::transcript::{compare_or_update, is_real, scripts};
use crate::{Answer, Endpoint, Request};

const APPS: &str = "/apis/myapps.example.com/v1/namespaces/default/applications";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// Makes what the requests speak of: the kind `Application`, an Application and a ConfigMap `steady`.
pub async fn set_requests_stage(endpoint: &Endpoint) -> anyhow::Result<()> {
    let crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let crd = std::fs::read_to_string(scripts().join("fixtures/crd.yaml"))?;
    endpoint
        .send(Request::new(Method::POST, crds).body("application/yaml", crd))
        .await?;
    let app = r#"{"apiVersion":"myapps.example.com/v1","kind":"Application","metadata":{"name":"steady"},"spec":{"image":"nginx"}}"#;
    while endpoint.send(Request::post(APPS, app)).await?.status == 404 {
        tokio::task::yield_now().await;
    }
    let map = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"steady"}}"#;
    endpoint.send(Request::post(MAPS, map)).await?;
    Ok(())
}

/// Plays `scripts/requests/<name>.txt`, request after request, each on a connection of its own.
pub async fn play_requests(endpoint: &Endpoint, name: &str) -> anyhow::Result<()> {
    let path = scripts().join(format!("requests/{name}.txt"));
    let text = std::fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
    let said = play(endpoint, &text).await?;
    compare_or_update(&path, &said)
}

async fn play(endpoint: &Endpoint, text: &str) -> anyhow::Result<String> {
    let mut said = String::new();
    for (number, block) in text.split("\n== ").enumerate() {
        if number == 0 {
            said.push_str(block.trim_end());
            continue;
        }
        let recorded = Recorded::read(block);
        let answer = match endpoint.send(request(&recorded.asked)?).await {
            Ok(answer) => shown(&answer),
            Err(error) => vec![error.to_string()],
        };
        said.push_str("\n\n== ");
        said.push_str(&recorded.with_answer(answer, is_real()));
    }
    said.push('\n');
    Ok(said)
}

/// A request as it stands in a script.
struct Recorded<'a> {
    asked: Vec<&'a str>,
    answered: Vec<&'a str>,
    on_purpose: Vec<&'a str>,
}

impl<'a> Recorded<'a> {
    fn read(block: &'a str) -> Recorded<'a> {
        let mut recorded = Recorded {
            asked: Vec::new(),
            answered: Vec::new(),
            on_purpose: Vec::new(),
        };
        for line in block.trim_end().lines() {
            if let Some(answer) = line.strip_prefix("> ") {
                recorded.answered.push(answer);
            } else if let Some(answer) = line.strip_prefix("~ ") {
                recorded.on_purpose.push(answer);
            } else {
                recorded.asked.push(line);
            }
        }
        recorded
    }

    /// The block with a new answer in the place of the one it is compared with.
    fn with_answer(&self, answer: Vec<String>, real: bool) -> String {
        let owned = |lines: &[&str]| lines.iter().map(|line| (*line).to_owned()).collect();
        let (answered, on_purpose) = match real || self.on_purpose.is_empty() {
            true => (answer, owned(&self.on_purpose)),
            false => (owned(&self.answered), answer),
        };
        let asked = self.asked.iter().map(|line| (*line).to_owned());
        let answered = answered.into_iter().map(|line| format!("> {line}"));
        let on_purpose = on_purpose.into_iter().map(|line| format!("~ {line}"));
        asked
            .chain(answered)
            .chain(on_purpose)
            .collect::<Vec<_>>()
            .join("\n")
    }
}

/// Reads the lines after the title.
fn request(lines: &[&str]) -> anyhow::Result<Request> {
    let (method, path) = lines
        .get(1)
        .and_then(|line| line.split_once(' '))
        .context("no method and path")?;
    let path = repeated(&path.replace("$APPS", APPS).replace("$MAPS", MAPS))?;
    let mut request = Request::new(Method::from_bytes(method.as_bytes())?, path);
    for line in &lines[2..] {
        if let Some(body) = line.strip_prefix("| ") {
            request = request.content(repeated(body)?);
        } else if let Some((name, value)) = line.split_once(": ") {
            request = request.header(name, value);
        }
    }
    Ok(request)
}

/// Writes out `<<300 x>>`.
fn repeated(text: &str) -> anyhow::Result<String> {
    let pattern = Regex::new("<<([0-9]+) (.+?)>>")?;
    Ok(pattern
        .replace_all(text, |found: &regex::Captures<'_>| {
            found[2].repeat(found[1].parse().unwrap_or(0))
        })
        .into_owned())
}

/// An answer in a form that does not change from run to run: code, reason and message, then the causes.
fn shown(answer: &Answer) -> Vec<String> {
    let code = answer.status.as_u16();
    let status = answer.json();
    if answer.status.is_success() {
        return vec![code.to_string()];
    }
    if status["kind"] != "Status" {
        let text = String::from_utf8_lossy(&answer.body);
        let text = if text.starts_with("k8s\0") {
            "(protobuf)"
        } else {
            text.trim()
        };
        return vec![format!("{code} {text}")];
    }
    let word = |value: &Value, name: &str| shortened(value[name].as_str().unwrap_or("-"));
    let mut causes: Vec<String> = Vec::new();
    for cause in status["details"]["causes"].as_array().into_iter().flatten() {
        let (reason, field, message) = (
            word(cause, "reason"),
            word(cause, "field"),
            word(cause, "message"),
        );
        causes.push(format!("  {reason} {field} {message}"));
    }
    let mut message = word(&status, "message");
    if let (true, Some((head, _))) = (causes.len() > 1, message.split_once(": [")) {
        // kube-apiserver walks maps: the order of several complaints changes from run to run.
        message = format!("{head}: […]");
        causes.sort();
    }
    causes.insert(0, format!("{code} {} {message}", word(&status, "reason")));
    causes
}

/// Cuts long runs of one letter, revisions and uids.
fn shortened(message: &str) -> String {
    let replacements = [
        ("a{40,}|x{40,}", "…"),
        ("No_[a-z0-9]{5}", "No_…"),
        (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", "TIME"),
        (r#"(resourceVersion\\?":\\?")\d+"#, "${1}…"),
        // A token is opaque: how its reader words its complaint is its own affair.
        ("(continue key is not valid: ).*", "${1}…"),
        (r"(current: )\d+", "${1}…"),
        ("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "UID"),
        (
            r"(ResourceVersion: |does not match the ResourceVersion in record \()\d+",
            "${1}…",
        ),
    ];
    let mut message = message.to_owned();
    for (pattern, word) in replacements {
        let pattern = Regex::new(pattern).expect("a pattern written here");
        message = pattern.replace_all(&message, word).into_owned();
    }
    message
}
