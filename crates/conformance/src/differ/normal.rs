//! Replaces what changes from run to run: uids, times, resource versions, generated names, certificates.
//!
//! Uids and the versions of objects are named after the request that first showed them, so that a write that
//! should change nothing, or an object that should be a new one, still shows.

use std::collections::BTreeMap;
use std::sync::LazyLock;
use std::time::Duration;

use http::HeaderMap;
use jiff::Timestamp;
use regex::{Captures, Regex};
use serde_json::{Map, Value};

/// The replacements of one scenario on one server.
#[derive(Debug, Default)]
pub(super) struct Normal {
    uids: BTreeMap<String, String>,
    versions: BTreeMap<String, String>,
    prefixes: Vec<Regex>,
    request: usize,
}

/// Headers of one connection or of one moment.
const TRANSPORT: [&str; 6] = [
    "date",
    "content-length",
    "transfer-encoding",
    "connection",
    "last-modified",
    "expires",
];

/// Headers whose presence counts, not their value.
const OPAQUE: [&str; 4] = [
    "audit-id",
    "etag",
    "x-kubernetes-pf-flowschema-uid",
    "x-kubernetes-pf-prioritylevel-uid",
];

static TIME: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d)(\.\d+)?(Z| \+0000 UTC)"));

/// What is further from now was sent by the scenario.
const NOW: Duration = Duration::from_secs(3600);

static UID: LazyLock<Regex> = LazyLock::new(|| pattern("[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"));

static TEXTS: LazyLock<Vec<(Regex, &str)>> = LazyLock::new(|| {
    let replacements = [
        (
            r"(?s)-----BEGIN CERTIFICATE-----.*-----END CERTIFICATE-----\n?",
            "CERTIFICATE",
        ),
        (
            r"((?:R|r)esource ?(?:V|v)ersion(?: in record)?:? ?\(?\\*:?\\*)\d+",
            "${1}RV",
        ),
        (r#"(\\*"resourceVersion\\*":\\*")\d+"#, "${1}RV"),
        (r"(current: )\d+", "${1}RV"),
        (r"(too old resource version: )\S+ \(\d+\)", "${1}RV (RV)"),
        (r"hash=[0-9A-F]+", "hash=HASH"),
        (r"\b\d+\.\d+\.\d+\.\d+:\d+", "ADDRESS"),
        (r"(larger than max \()\d+", "${1}SIZE"),
        // A token is opaque: how its reader words its complaint is its own affair.
        ("(continue key is not valid: ).*", "${1}…"),
    ];
    let compile = |(text, word)| (pattern(text), word);
    replacements.into_iter().map(compile).collect()
});

static AGE: LazyLock<Regex> = LazyLock::new(|| pattern(r"^(\d+[smhdy])+$"));

fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("a pattern written here")
}

impl Normal {
    /// What follows belongs to the next request.
    pub(super) fn next_request(&mut self) {
        self.request += 1;
    }

    /// From now on, names generated from this prefix are alike.
    pub(super) fn generates(&mut self, prefix: &str) {
        let pattern = format!("{}[bcdfghjklmnpqrstvwxz2456789]{{5}}", regex::escape(prefix));
        self.prefixes.extend(Regex::new(&pattern));
    }

    /// The headers that matter.
    pub(super) fn headers(&mut self, headers: &HeaderMap) -> Value {
        let mut kept = Map::new();
        kept.insert("warning".to_owned(), self.warnings(headers));
        for name in headers.keys().filter(|name| *name != "warning") {
            if TRANSPORT.contains(&name.as_str()) {
                continue;
            }
            if OPAQUE.contains(&name.as_str()) {
                kept.insert(name.as_str().to_owned(), "(there)".into());
                continue;
            }
            let mut values = Vec::new();
            for value in headers.get_all(name) {
                let value = String::from_utf8_lossy(value.as_bytes());
                // One header with two names says what two headers say.
                let single = name != "vary";
                let parts = value.split(", ").filter(|_| !single);
                let whole = Some(value.as_ref()).filter(|_| single);
                values.extend(parts.chain(whole).map(|part| self.text(part)));
            }
            values.sort();
            kept.insert(name.as_str().to_owned(), values.join("\n").into());
        }
        Value::Object(kept)
    }

    /// How often each warning is given, so that each can differ by itself.
    fn warnings(&mut self, headers: &HeaderMap) -> Value {
        let mut counts = Map::new();
        for value in headers.get_all("warning") {
            let text = self.text(&String::from_utf8_lossy(value.as_bytes()));
            let count = counts.get(&text).and_then(Value::as_u64).unwrap_or(0);
            counts.insert(text, (count + 1).into());
        }
        Value::Object(counts)
    }

    /// A body, or a part of one.
    pub(super) fn value(&mut self, value: &mut Value) {
        match value {
            Value::String(text) => *text = self.text(text),
            Value::Array(items) => items.iter_mut().for_each(|item| self.value(item)),
            Value::Object(fields) => self.fields(fields),
            _ => {}
        }
    }

    fn fields(&mut self, fields: &mut Map<String, Value>) {
        if let Some(Value::Object(details)) = fields.get_mut("details").filter(|details| walks_maps(details))
        {
            let causes = sort_causes(details);
            if let Some(message) = fields.get_mut("message").filter(|_| causes > 1) {
                sort_complaints(message);
            }
        }
        let is_object = fields.contains_key("uid");
        let is_build = fields.contains_key("gitVersion");
        let is_row = fields.contains_key("cells");
        self.rename_keys(fields);
        // In the order of the keys, whatever the order of the map.
        let mut keys: Vec<String> = fields.keys().cloned().collect();
        keys.sort();
        for key in keys {
            let value = fields.get_mut(&key).expect("a key of this map");
            match key.as_str() {
                "resourceVersion" => self.version(value, is_object),
                "continue" if value != "" => *value = "CONTINUE".into(),
                "clusterIP" | "nodePort" | "healthCheckNodePort" if value != "None" => {
                    *value = "GIVEN".into();
                }
                "clusterIPs" | "caBundle" => *value = "GIVEN".into(),
                "managedFields" => self.managers(value),
                "cells" if is_row => self.cells(value),
                _ if is_build && !matches!(key.as_str(), "major" | "minor") => *value = "GIVEN".into(),
                _ => self.value(value),
            }
        }
    }

    /// Field sets name the items of a list by their keys, which may be uids.
    fn rename_keys(&mut self, fields: &mut Map<String, Value>) {
        let keys: Vec<String> = fields.keys().filter(|key| UID.is_match(key)).cloned().collect();
        for key in keys {
            let value = fields.remove(&key).unwrap_or_default();
            fields.insert(self.text(&key), value);
        }
    }

    fn version(&mut self, value: &mut Value, is_object: bool) {
        let Some(text) = value.as_str().filter(|text| !text.is_empty() && *text != "0") else {
            return;
        };
        if !is_object {
            *value = "RV".into();
            return;
        }
        *value = named(&mut self.versions, text, "RV", self.request).into();
    }

    /// Entries are sorted by time on the server, so that their order depends on the second.
    fn managers(&mut self, value: &mut Value) {
        self.value_inside(value);
        sort_entries(value);
    }

    fn value_inside(&mut self, value: &mut Value) {
        if let Value::Array(items) = value {
            items.iter_mut().for_each(|item| self.value(item));
        }
    }

    fn cells(&mut self, value: &mut Value) {
        self.value_inside(value);
        for cell in value.as_array_mut().into_iter().flatten() {
            if cell.as_str().is_some_and(|text| AGE.is_match(text)) {
                *cell = "AGE".into();
            }
        }
    }

    fn text(&mut self, text: &str) -> String {
        let text = &sorted_faults(sorted_quoted_entries(text));
        let (uids, request) = (&mut self.uids, self.request);
        let numbered = UID.replace_all(text, |found: &Captures<'_>| {
            named(uids, &found[0], "UID", request)
        });
        let mut text = TIME.replace_all(&numbered, time).into_owned();
        for (pattern, word) in TEXTS.iter() {
            text = pattern.replace_all(&text, *word).into_owned();
        }
        for prefix in &self.prefixes {
            let stem = prefix
                .as_str()
                .split('[')
                .next()
                .unwrap_or_default()
                .replace('\\', "");
            text = prefix.replace_all(&text, format!("{stem}?????")).into_owned();
        }
        text
    }
}

/// A time of about now without its value; how exact it is still shows.
fn time(found: &Captures<'_>) -> String {
    let at: Option<Timestamp> = format!("{}T{}Z", &found[1], &found[2]).parse().ok();
    let is_now = at.is_some_and(|at| at.duration_until(Timestamp::now()).unsigned_abs() < NOW);
    match (is_now, found.get(3)) {
        (false, _) => found[0].to_owned(),
        (true, None) => "TIME".to_owned(),
        (true, Some(digits)) => format!("TIME.{}", digits.len() - 1),
    }
}

/// `UID3.1` is the first uid that was first seen with the third request.
fn named(known: &mut BTreeMap<String, String>, text: &str, word: &str, request: usize) -> String {
    if let Some(name) = known.get(text) {
        return name.clone();
    }
    let stem = format!("{word}{request}.");
    let before = known.values().filter(|name| name.starts_with(&stem)).count();
    let name = format!("{stem}{}", before + 1);
    known.insert(text.to_owned(), name.clone());
    name
}

/// Entries come by operation, then by time; of one operation, they are brought in an order of their own.
fn sort_entries(entries: &mut Value) {
    if let Value::Array(entries) = entries {
        let key =
            |entry: &Value| ["manager", "apiVersion", "subresource"].map(|field| entry[field].to_string());
        for of_one_operation in entries.chunk_by_mut(|a, b| a["operation"] == b["operation"]) {
            of_one_operation.sort_by_key(key);
        }
    }
}

/// A message may quote a whole object: its managedFields are brought in order too. What follows them loses its
/// escapes, on both servers alike.
fn sorted_quoted_entries(text: &str) -> String {
    const START: &str = r#"\"managedFields\":"#;
    let Some((head, rest)) = text.split_once(START) else {
        return text.to_owned();
    };
    let rest = rest.replace(r#"\""#, "\"").replace(r"\\", r"\");
    let mut values = serde_json::Deserializer::from_str(&rest).into_iter::<Value>();
    let Some(Ok(mut entries)) = values.next() else {
        return text.to_owned();
    };
    sort_entries(&mut entries);
    format!("{head}{START}{entries}{}", &rest[values.byte_offset()..])
}

/// The faults of an applied object, which kube-apiserver finds in the order of a map.
fn sorted_faults(text: String) -> String {
    const START: &str = ": errors:\n";
    let Some((head, faults)) = text.split_once(START) else {
        return text;
    };
    let mut faults: Vec<&str> = faults.lines().collect();
    faults.sort_unstable();
    format!("{head}{START}{}", faults.join("\n"))
}

/// Whether the order of complaints is that of a map, which changes from run to run: so it is where schemas are
/// walked, those of custom resources and those that definitions hold, and where owners are in conflict.
fn walks_maps(details: &Value) -> bool {
    let group = details["group"].as_str().unwrap_or_default();
    let is_conflict = details["causes"][0]["reason"] == "FieldManagerConflict";
    is_conflict || group == "apiextensions.k8s.io" || group.ends_with(".example.com")
}

/// Brings complaints in an order. Returns how many there are.
fn sort_causes(details: &mut Map<String, Value>) -> usize {
    let Some(Value::Array(causes)) = details.get_mut("causes") else {
        return 0;
    };
    causes.sort_by_key(Value::to_string);
    causes.len()
}

/// `head: [a, b]` with its parts in order.
fn sort_complaints(message: &mut Value) {
    let Some((head, list)) = message.as_str().and_then(|text| text.split_once(": [")) else {
        return;
    };
    let mut parts: Vec<&str> = list.trim_end_matches(']').split(", ").collect();
    parts.sort_unstable();
    *message = format!("{head}: [{}]", parts.join(", ")).into();
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn sorts_what_messages_quote() {
        let mut normal = Normal::default();
        let entry = |manager: &str| format!(r#"{{\"manager\":\"{manager}\"}}"#);
        let quoted = |entries: [String; 2]| {
            format!(
                r#"patch: Invalid value: "{{\"managedFields\":[{}]}}": no"#,
                entries.join(",")
            )
        };
        assert_eq!(
            normal.text(&quoted([entry("b"), entry("a")])),
            normal.text(&quoted([entry("a"), entry("b")]))
        );
        assert_eq!(
            normal.text("x: errors:\n  b\n  a"),
            normal.text("x: errors:\n  a\n  b")
        );
    }

    #[test]
    fn names_uids_and_versions_after_the_request_that_showed_them() {
        let mut normal = Normal::default();
        let object = |uid: &str, version: &str| json!({"metadata": {"uid": uid, "resourceVersion": version}});
        let mut seen = json!([
            object("0a1b2c3d-0000-4444-8888-0123456789ab", "12"),
            object("0a1b2c3d-0000-4444-8888-0123456789ab", "15"),
            object("ffffffff-0000-4444-8888-0123456789ab", "12"),
        ]);
        normal.value(&mut seen);
        let expect = json!([
            object("UID0.1", "RV0.1"),
            object("UID0.1", "RV0.2"),
            object("UID0.2", "RV0.1")
        ]);
        assert_eq!(seen, expect);
    }

    #[test]
    fn replaces_times_and_generated_names() {
        let mut normal = Normal::default();
        normal.generates("web-");
        let now = Timestamp::now();
        let sent = "2006-01-02T03:04:05Z";
        let mut seen =
            json!({"name": "web-bc4x9", "times": [format!("{now:.0}"), format!("{now:.6}"), sent]});
        normal.value(&mut seen);
        assert_eq!(
            seen,
            json!({"name": "web-?????", "times": ["TIME", "TIME.6", sent]})
        );
    }
}
