//! Tests of rules as data: given before and after, expect.

use jiff::Timestamp;
use serde_json::Value;
use skopos_api::{Case, Event, RuleTestSpec};
use skopos_journal::{Entry, Observed, Seq, Writer};
use skopos_object::{GroupVersionKind, Object, ObjectError, Op, ResourceVersion};

use super::{
    compile::CompiledRule, edge::EdgeState, evaluate::Evaluation, explain::Explanation, payload::Cause,
    subject::Subject,
};

/// The time of a case that gives none.
const DEFAULT_NOW: &str = "2026-01-01T00:00:00Z";

/// What came of one case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CaseResult {
    /// The case.
    pub name: String,
    /// Its path in the test, such as `spec.cases[0]`.
    pub path: String,
    /// What differs from what was expected, each with its path; nothing if it passed.
    pub failures: Vec<String>,
}

/// A case cannot be run.
#[derive(Debug, thiserror::Error)]
pub enum TestError {
    /// The object is none.
    #[error("read {0}")]
    Object(&'static str, #[source] ObjectError),
    /// The time cannot be read.
    #[error("{0:?} is no time: write it as 2026-01-01T00:00:00Z")]
    Time(String),
    /// Nothing happens.
    #[error("neither before nor after is given")]
    Nothing,
}

/// What the next case goes on from.
#[derive(Debug, Default)]
struct Seen {
    edge: Option<EdgeState>,
    last: Option<Value>,
    n_changes: u64,
}

/// Runs the cases of a test with the rule they are about.
pub fn run_test(rule: &CompiledRule, test: &RuleTestSpec) -> Vec<CaseResult> {
    let mut seen = Seen::default();
    let mut results = Vec::new();
    for (index, case) in test.cases.iter().enumerate() {
        if !case.after_previous {
            seen = Seen::default();
        }
        let path = format!("spec.cases[{index}]");
        let failures = match run_case(rule, case, &mut seen) {
            Ok(failures) => failures,
            Err(error) => vec![describe(&error)],
        };
        let failures = failures
            .into_iter()
            .map(|failure| format!("{path}.{failure}"))
            .collect();
        results.push(CaseResult {
            name: case.name.clone(),
            path,
            failures,
        });
    }
    results
}

fn describe(error: &TestError) -> String {
    match std::error::Error::source(error) {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}

fn run_case(rule: &CompiledRule, case: &Case, seen: &mut Seen) -> Result<Vec<String>, TestError> {
    let entry = entry(rule, case, seen)?;
    let subject = Subject::new(&entry);
    let known = seen.edge.take();
    let mut found = rule.evaluate(&subject, known.as_ref());
    let mut why = rule.explain(&subject, known.as_ref());
    let mut cause = Cause::Change;
    if let Some(wait) = case.wait {
        let until = entry.at.saturating_add(wait.0).unwrap_or(Timestamp::MAX);
        let at = found.wake_at.map_or(until, |at| at.clamp(entry.at, until));
        why = rule.explain_timer(&subject, found.edge.as_ref(), at);
        found = rule.evaluate_timer(&subject, found.edge.as_ref(), at);
        cause = Cause::Held;
    }
    let mut failures = outcome(case, &found, &why);
    if let (Some(expect), true) = (&case.expect.payload, found.matched) {
        compare_payload(rule, &subject, cause, expect, &mut failures);
    }
    seen.edge = found.edge;
    seen.last = subject.after().cloned();
    seen.n_changes = entry.seq.0;
    Ok(failures)
}

fn outcome(case: &Case, found: &Evaluation, why: &Explanation) -> Vec<String> {
    let expect = case.expect.matches;
    if let Some(error) = &found.error {
        return vec![format!("expect.matches: the rule failed: {error}")];
    }
    if found.matched == expect {
        return Vec::new();
    }
    let decisive = why.steps.iter().find(|step| !step.passed).or(why.steps.last());
    let why = decisive.map_or_else(String::new, |step| {
        let values = step
            .values
            .iter()
            .map(|(what, value)| format!("; {what} = {value}"));
        format!(": {}: {}{}", step.name, step.detail, values.collect::<String>())
    });
    vec![format!(
        "expect.matches: expected {expect}, found {}{why}",
        found.matched
    )]
}

fn compare_payload(
    rule: &CompiledRule,
    subject: &Subject<'_>,
    cause: Cause,
    expect: &Value,
    failures: &mut Vec<String>,
) {
    let event = match rule.event(subject, cause, 0, usize::MAX) {
        Ok(event) => event,
        Err(error) => return failures.push(format!("expect.payload: {error}")),
    };
    let text = String::from_utf8_lossy(&event.data);
    let found = match event.content_type {
        "text/plain" => Value::from(text),
        _ => serde_json::from_str(&text).unwrap_or_default(),
    };
    differences("expect.payload", expect, &found, failures);
}

/// Everything that is expected must be there; what is there beside is not asked for.
fn differences(path: &str, expect: &Value, found: &Value, failures: &mut Vec<String>) {
    match (expect, found) {
        (Value::Object(expect), Value::Object(found)) => {
            for (name, value) in expect {
                let field = format!("{path}.{name}");
                match found.get(name) {
                    Some(found) => differences(&field, value, found, failures),
                    None => failures.push(format!("{field}: expected {value}, found nothing")),
                }
            }
        }
        (Value::Array(expect), Value::Array(found)) if expect.len() == found.len() => {
            for (index, (expect, found)) in expect.iter().zip(found).enumerate() {
                differences(&format!("{path}[{index}]"), expect, found, failures);
            }
        }
        (expect, found) if is_equal(expect, found) => {}
        _ => failures.push(format!("{path}: expected {expect}, found {found}")),
    }
}

/// Texts may differ in the line break at their end: YAML blocks have one.
fn is_equal(expect: &Value, found: &Value) -> bool {
    match (expect.as_str(), found.as_str()) {
        (Some(expect), Some(found)) => expect.trim_end() == found.trim_end(),
        _ => expect == found,
    }
}

fn entry(rule: &CompiledRule, case: &Case, seen: &Seen) -> Result<Entry, TestError> {
    let number = seen.n_changes + 1;
    let before = match (&case.before, &seen.last) {
        (Some(before), _) => Some(complete(rule, before, number)),
        (None, last) => last.clone(),
    };
    let after = case.after.as_ref().map(|after| complete(rule, after, number + 1));
    let op = match (case.op, &before, &after) {
        (Some(Event::Created), ..) | (None, None, Some(_)) => Op::Created,
        (Some(Event::Deleted), ..) | (None, Some(_), None) => Op::Deleted,
        (Some(Event::Updated), ..) | (None, Some(_), Some(_)) => Op::Updated,
        (None, None, None) => return Err(TestError::Nothing),
    };
    let read = |name: &'static str, value: Option<Value>| {
        let object = value.map(|value| Object::from_value(&value));
        object.transpose().map_err(|error| TestError::Object(name, error))
    };
    let before = read("before", before.filter(|_| op != Op::Created))?;
    let after = read("after", after.filter(|_| op != Op::Deleted))?;
    let object = after.as_ref().or(before.as_ref()).ok_or(TestError::Nothing)?;
    let now = case.now.as_deref().unwrap_or(DEFAULT_NOW);
    Ok(Entry {
        seq: Seq(number),
        at: now.parse().map_err(|_| TestError::Time(now.to_owned()))?,
        op,
        source: "kubernetes".to_owned(),
        kind: object.group_version_kind(),
        plural: plural(rule),
        key: object.key(),
        uid: object.uid().to_owned(),
        version: ResourceVersion::from(object.resource_version().to_string().as_str()),
        observed: Observed::Live,
        by: case.by.iter().map(|name| writer(name)).collect(),
        before,
        after,
    })
}

fn writer(manager: &str) -> Writer {
    Writer {
        manager: manager.to_owned(),
        operation: "Update".to_owned(),
        subresource: String::new(),
    }
}

/// Fills in what every object has, so that tests need only say what they are about.
fn complete(rule: &CompiledRule, value: &Value, version: u64) -> Value {
    let mut value = value.clone();
    let kind = rule.test_kind();
    let Some(object) = value.as_object_mut() else {
        return value;
    };
    object
        .entry("apiVersion")
        .or_insert_with(|| kind.api_version().into());
    object.entry("kind").or_insert_with(|| kind.kind.into());
    let metadata = object
        .entry("metadata")
        .or_insert_with(|| Value::Object(serde_json::Map::new()));
    if let Some(metadata) = metadata.as_object_mut() {
        let namespace = rule.test_namespace();
        metadata.entry("name").or_insert_with(|| "test".into());
        metadata.entry("namespace").or_insert_with(|| namespace.into());
        metadata
            .entry("uid")
            .or_insert_with(|| "00000000-0000-0000-0000-000000000001".into());
        metadata
            .entry("resourceVersion")
            .or_insert_with(|| version.to_string().into());
    }
    value
}

fn plural(rule: &CompiledRule) -> String {
    let known = rule.scope.names.as_ref().map(|names| names.plural.clone());
    known.unwrap_or_else(|| rule.scope.kind.to_lowercase())
}

impl CompiledRule {
    fn test_kind(&self) -> GroupVersionKind {
        let kind = self
            .scope
            .names
            .as_ref()
            .map_or(&self.scope.kind, |names| &names.kind);
        GroupVersionKind::new(
            self.scope.group.clone(),
            self.scope.version.clone().unwrap_or_else(|| "v1".to_owned()),
            kind.clone(),
        )
    }

    fn test_namespace(&self) -> String {
        match &self.scope.namespaces {
            super::scope::Namespaces::These(names) => names.first().cloned().unwrap_or_default(),
            super::scope::Namespaces::All => "default".to_owned(),
        }
    }
}
