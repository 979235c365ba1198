//! What would a rule have done?

use std::collections::{BTreeMap, BTreeSet, HashMap};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use skopos_api::Event;
use skopos_journal::{Entry, Seq, Wanted};
use skopos_object::ObjectKey;
use skopos_react::rule::{Cause, EdgeState, Subject};

use super::{Admin, Damaged, Question, Refusal, change::event, changes::Walk, rules::GivenRule};

/// Payloads that are shown unless the question says otherwise.
const DEFAULT_PAYLOADS: usize = 5;
/// Payloads that are shown at most.
const MAX_PAYLOADS: usize = 1_000;
/// No payload is shown that is larger.
const MAX_PAYLOAD_BYTES: usize = 1 << 20;
/// Problems that are shown.
const MAX_PROBLEMS: usize = 10;
/// Changes read at a time.
const CHUNK: usize = 200;

/// What would a rule have done? Nothing is sent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Backtest {
    /// The rule in YAML; other documents beside it are passed over.
    pub rule: String,
    /// Definitions to check the rule against.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub definitions: Vec<Value>,
    /// Treat it as a rule of the cluster, which sees only its own namespace, not as one from a file.
    #[serde(default)]
    pub in_cluster: bool,
    /// Only changes written down at or after this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// Only changes written down before this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// Show so many payloads, the first; 5 unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payloads: Option<usize>,
}

/// What a rule would have done.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BacktestReport {
    /// The rule, as `namespace/name`.
    pub rule: String,
    /// How many changes of its kind it looked at.
    pub looked: u64,
    /// When the first and the last of them were written down.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub range: Option<(Timestamp, Timestamp)>,
    /// How often it would have matched.
    pub matched: u64,
    /// Of how many objects.
    pub objects: usize,
    /// How often it could not be told.
    pub failed: u64,
    /// How many deliveries there would have been, by sink.
    pub deliveries: BTreeMap<String, u64>,
    /// The most matches within one minute of the clock.
    pub max_per_minute: u64,
    /// When that minute began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub busiest: Option<Timestamp>,
    /// What the rule allows, if that would not have been enough.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit_exceeded: Option<u32>,
    /// The first payloads.
    pub payloads: Vec<PayloadView>,
    /// What went wrong, the first of each sort.
    pub problems: Vec<String>,
    /// What could not be read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub damaged: Vec<Damaged>,
}

/// What would have been sent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PayloadView {
    /// About which change.
    pub seq: u64,
    /// The id of the event.
    pub id: String,
    /// When.
    pub time: Timestamp,
    /// What happened.
    pub op: Event,
    /// Whether nothing happened but time passed (`heldFor`).
    #[serde(default)]
    pub held: bool,
    /// The object, as `namespace/name`.
    pub object: String,
    /// Where to.
    pub sink: String,
    /// The type of the data.
    pub content_type: String,
    /// The data: a value if it is JSON, else text.
    pub data: Value,
}

impl Question for Backtest {
    const NAME: &'static str = "backtest";
    type Answer = BacktestReport;

    async fn answer(&self, admin: &Admin) -> Result<BacktestReport, Refusal> {
        let rule = admin.tried_rule(&self.rule, &self.definitions, !self.in_cluster)?;
        let wanted = Wanted {
            since: self.since,
            until: self.until,
            ..rule.compiled.wanted()
        };
        let payloads = self.payloads.unwrap_or(DEFAULT_PAYLOADS).min(MAX_PAYLOADS);
        let mut trial = Trial::new(&rule, payloads);
        let mut walk = Walk::new(wanted, Seq(0));
        while !walk.is_done {
            for entry in walk.next(admin, CHUNK).await? {
                trial.look(entry);
            }
        }
        let mut report = trial.end(self.until);
        report.damaged = walk.damaged;
        Ok(report)
    }
}

/// A rule going through the past.
struct Trial<'r> {
    rule: &'r GivenRule,
    n_payloads: usize,
    /// What is kept of each object, only for rules that keep something.
    edges: HashMap<ObjectKey, EdgeState>,
    /// Objects whose time comes if they stay as they are, with the change that made them so.
    timers: BTreeSet<(Timestamp, ObjectKey)>,
    waiting: HashMap<ObjectKey, (Timestamp, Entry)>,
    objects: BTreeSet<ObjectKey>,
    minute: (i64, u64),
    report: BacktestReport,
}

impl<'r> Trial<'r> {
    fn new(rule: &'r GivenRule, n_payloads: usize) -> Self {
        let report = BacktestReport {
            rule: rule.compiled.name(),
            ..BacktestReport::default()
        };
        Self {
            rule,
            n_payloads,
            edges: HashMap::new(),
            timers: BTreeSet::new(),
            waiting: HashMap::new(),
            objects: BTreeSet::new(),
            minute: (i64::MIN, 0),
            report,
        }
    }

    fn look(&mut self, entry: Entry) {
        self.wake_until(entry.at);
        self.report.looked += 1;
        let range = self.report.range.get_or_insert((entry.at, entry.at));
        range.1 = entry.at;
        let found = self.rule.evaluate(&entry, self.edges.get(&entry.key));
        self.forget_timer(&entry.key);
        self.keep(&entry.key, found.edge);
        if found.matched {
            self.matched(&entry, Cause::Change, entry.at);
        }
        self.failed(found.error);
        if let Some(at) = found.wake_at {
            self.timers.insert((at, entry.key.clone()));
            self.waiting.insert(entry.key.clone(), (at, entry));
        }
    }

    /// Lets the time come for all objects that waited until then.
    fn wake_until(&mut self, now: Timestamp) {
        while let Some((at, key)) = self.timers.first().cloned().filter(|(at, _)| *at <= now) {
            self.timers.remove(&(at, key.clone()));
            let Some((_, entry)) = self.waiting.remove(&key) else {
                continue;
            };
            let at = at.max(entry.at);
            let subject = Subject::new(&entry);
            let found = self
                .rule
                .compiled
                .evaluate_timer(&subject, self.edges.get(&key), at);
            self.keep(&key, found.edge);
            if found.matched {
                self.matched(&entry, Cause::Held, at);
            }
            self.failed(found.error);
        }
    }

    fn forget_timer(&mut self, key: &ObjectKey) {
        if let Some((at, _)) = self.waiting.remove(key) {
            self.timers.remove(&(at, key.clone()));
        }
    }

    fn keep(&mut self, key: &ObjectKey, edge: Option<EdgeState>) {
        match edge {
            Some(edge) => self.edges.insert(key.clone(), edge),
            None => self.edges.remove(key),
        };
    }

    fn matched(&mut self, entry: &Entry, cause: Cause, at: Timestamp) {
        self.report.matched += 1;
        self.objects.insert(entry.key.clone());
        self.count(at);
        let subject = Subject::new(entry);
        let sinks: Vec<String> = self.rule.compiled.sinks().map(str::to_owned).collect();
        for (action, sink) in sinks.into_iter().enumerate() {
            match self
                .rule
                .compiled
                .event(&subject, cause, action, MAX_PAYLOAD_BYTES)
            {
                Ok(event) => {
                    *self.report.deliveries.entry(sink.clone()).or_default() += 1;
                    if self.report.payloads.len() < self.n_payloads {
                        self.report.payloads.push(payload(entry, cause, at, sink, &event));
                    }
                }
                Err(error) => self.problem(format!("change {} to {sink}: {error}", entry.seq)),
            }
        }
    }

    fn count(&mut self, at: Timestamp) {
        let minute = at.as_second().div_euclid(60);
        match self.minute.0 == minute {
            true => self.minute.1 += 1,
            false => self.minute = (minute, 1),
        }
        if self.minute.1 > self.report.max_per_minute {
            self.report.max_per_minute = self.minute.1;
            self.report.busiest = Timestamp::from_second(minute * 60).ok();
        }
    }

    fn failed(&mut self, error: Option<String>) {
        if let Some(error) = error {
            self.report.failed += 1;
            self.problem(error);
        }
    }

    fn problem(&mut self, problem: String) {
        let problems = &mut self.report.problems;
        if problems.len() < MAX_PROBLEMS && !problems.contains(&problem) {
            problems.push(problem);
        }
    }

    fn end(mut self, until: Option<Timestamp>) -> BacktestReport {
        // What nobody changed since is still so at the end of the time that is asked about.
        if let Some(until) = until {
            self.wake_until(until);
        }
        self.report.objects = self.objects.len();
        let allowed = self.rule.max_per_minute;
        self.report.limit_exceeded = allowed.filter(|most| self.report.max_per_minute > u64::from(*most));
        self.report
    }
}

fn payload(
    entry: &Entry,
    cause: Cause,
    at: Timestamp,
    sink: String,
    sent: &skopos_sink::Event,
) -> PayloadView {
    let text = || Value::String(String::from_utf8_lossy(&sent.data).into_owned());
    let data = match sent.content_type {
        "application/json" => serde_json::from_slice(&sent.data).unwrap_or_else(|_| text()),
        _ => text(),
    };
    PayloadView {
        seq: entry.seq.0,
        id: sent.id.clone(),
        time: at,
        op: event(entry.op),
        held: cause == Cause::Held,
        object: entry.key.to_string(),
        sink,
        content_type: sent.content_type.to_owned(),
        data,
    }
}
