//! How is everything doing?

use std::{collections::BTreeMap, time::Duration};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use skopos_journal::{CaptureStatus, Log as _, Phase};
use skopos_react::{ReplayState, RouteState, RuleState, SinkReport};

use super::{Admin, Question, Refusal};
use crate::{ConditionView, conditions::ByName};

/// How is everything doing?
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Status {}

/// How everything is doing, at one moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StatusView {
    /// The journal.
    pub journal: JournalView,
    /// What is captured; empty if nothing captures in this process.
    pub captures: Vec<CaptureView>,
    /// The rules.
    pub rules: Vec<RuleView>,
    /// The sinks.
    pub sinks: Vec<SinkView>,
    /// The records.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub records: Vec<RecordView>,
    /// Replays under way, and the last that ended.
    pub replays: Vec<ReplayView>,
    /// What of files cannot be used at all, in words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unreadable: Vec<String>,
}

/// How the journal is doing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct JournalView {
    /// The oldest change kept.
    pub first: u64,
    /// The newest change.
    pub head: u64,
    /// Objects that exist.
    pub objects: usize,
    /// Bytes on disk.
    pub disk_bytes: u64,
    /// Commits that failed since the start.
    pub commit_errors: u64,
    /// Times for which changes may be missing.
    pub holes: usize,
    /// Parts that cannot be read.
    pub damaged: usize,
}

/// How the capture of a kind is doing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CaptureView {
    /// Which, as it was asked for.
    pub resource: String,
    /// `watching`, `listing`, `notServed`, `paused` or `failed`.
    pub phase: String,
    /// Why, if it is not watching.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub detail: String,
    /// The last trouble.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
    /// When that was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trouble_at: Option<Timestamp>,
    /// When it was last known to be up to date.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub heard: Option<Timestamp>,
    /// Objects that could not be read so far.
    pub malformed: u64,
}

/// How a rule is doing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RuleView {
    /// As `namespace/name`.
    pub name: String,
    /// Up to which change it has looked.
    pub position: u64,
    /// How many changes it has not looked at.
    pub lag_changes: u64,
    /// How old the first of them may be.
    pub lag_seconds: f64,
    /// How many changes matched.
    pub matched: u64,
    /// How many it could not evaluate.
    pub failed: u64,
    /// How many it never saw.
    pub missed: u64,
    /// Why it stands still although its specification does not say so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspended: Option<String>,
    /// What went wrong last.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub last_error: String,
    /// Its deliveries by sink.
    pub routes: Vec<RouteView>,
    /// `Ready`, `CaptureComplete` and `Delivering`; none if no process runs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<ConditionView>,
}

/// How the deliveries of a rule to a sink are doing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RouteView {
    /// The sink.
    pub sink: String,
    /// How many were acknowledged.
    pub delivered: u64,
    /// How many wait.
    pub pending: u64,
    /// How many were given up and are kept.
    pub dead: u64,
    /// What went wrong last.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub last_error: String,
}

/// How a sink is doing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SinkView {
    /// As `namespace/name`.
    pub name: String,
    /// How many deliveries were acknowledged.
    pub delivered: u64,
    /// How many wait.
    pub pending: u64,
    /// How many were given up and are kept.
    pub dead: u64,
    /// How many attempts failed since the start.
    pub failed_attempts: u64,
    /// How many requests are on their way.
    pub in_flight: usize,
    /// For how long nothing has arrived although it was tried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub down_seconds: Option<f64>,
    /// What went wrong last.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub last_error: String,
    /// `Ready` and `Delivering`; none if no process runs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<ConditionView>,
}

/// How a record is doing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RecordView {
    /// As `namespace/name`.
    pub name: String,
    /// `Ready` and `CaptureComplete`.
    pub conditions: Vec<ConditionView>,
}

/// How a replay is doing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReplayView {
    /// What it is called.
    pub name: String,
    /// Of which rule.
    pub rule: String,
    /// The first change.
    pub from: u64,
    /// The last change.
    pub to: u64,
    /// Up to which change it has looked.
    pub position: u64,
    /// How many changes matched.
    pub matched: u64,
    /// How many deliveries were acknowledged.
    pub delivered: u64,
    /// How many wait.
    pub pending: u64,
    /// How many were given up and are kept.
    pub dead: u64,
    /// Whether it is done, or was cancelled.
    pub finished: bool,
}

impl Question for Status {
    const NAME: &'static str = "status";
    type Answer = StatusView;

    async fn answer(&self, admin: &Admin) -> Result<StatusView, Refusal> {
        let journal = admin.journal();
        let stats = journal.stats();
        let captures = admin
            .capture
            .as_ref()
            .map(skopos_journal::Capture::status)
            .unwrap_or_default();
        let reactions = admin
            .reactor
            .as_ref()
            .map(skopos_react::Reactor::status)
            .unwrap_or_default();
        let conditions = admin.conditions();
        Ok(StatusView {
            journal: JournalView {
                first: stats.first.0,
                head: stats.head.0,
                objects: stats.n_objects,
                disk_bytes: stats.disk_bytes,
                commit_errors: stats.n_commit_errors,
                holes: journal.holes().len(),
                damaged: journal.damage().len(),
            },
            captures: captures.into_iter().map(CaptureView::from).collect(),
            rules: rules(reactions.rules, conditions.rules),
            sinks: sinks(reactions.sinks, conditions.sinks),
            records: conditions.records.into_iter().map(RecordView::from).collect(),
            replays: reactions.replays.into_iter().map(ReplayView::from).collect(),
            unreadable: admin
                .verdicts()
                .map(|verdicts| verdicts.unreadable.clone())
                .unwrap_or_default(),
        })
    }
}

/// The rules that deliver, and those that are there but never were in force.
fn rules(states: BTreeMap<String, RuleState>, mut conditions: ByName) -> Vec<RuleView> {
    let mut views: Vec<RuleView> = states.into_iter().map(RuleView::from).collect();
    for view in &mut views {
        view.conditions = conditions.remove(&view.name).unwrap_or_default();
    }
    for (name, conditions) in conditions {
        views.push(RuleView {
            conditions,
            ..RuleView::from((name, RuleState::default()))
        });
    }
    views.sort_by(|a, b| a.name.cmp(&b.name));
    views
}

/// The sinks that are delivered to, and those that are there but cannot be used or are not yet.
fn sinks(reports: BTreeMap<String, SinkReport>, mut conditions: ByName) -> Vec<SinkView> {
    let mut views: Vec<SinkView> = reports.into_iter().map(SinkView::from).collect();
    for view in &mut views {
        view.conditions = conditions.remove(&view.name).unwrap_or_default();
    }
    for (name, conditions) in conditions {
        views.push(SinkView {
            conditions,
            ..SinkView::from((name, SinkReport::default()))
        });
    }
    views.sort_by(|a, b| a.name.cmp(&b.name));
    views
}

impl From<CaptureStatus> for CaptureView {
    fn from(status: CaptureStatus) -> Self {
        let (phase, detail) = match status.phase {
            Phase::Watching => ("watching", String::new()),
            Phase::Listing => ("listing", String::new()),
            Phase::NotServed(what) => ("notServed", what),
            Phase::Paused(why) => ("paused", why),
            Phase::Failed(why) => ("failed", why),
        };
        let (trouble, trouble_at) = status.trouble.unzip();
        Self {
            resource: status.name.to_string(),
            phase: phase.to_owned(),
            detail,
            trouble,
            trouble_at,
            heard: status.heard,
            malformed: status.n_malformed,
        }
    }
}

impl From<(String, RuleState)> for RuleView {
    fn from((name, state): (String, RuleState)) -> Self {
        Self {
            name,
            position: state.position.0,
            lag_changes: state.lag_changes,
            lag_seconds: state.lag.as_secs_f64(),
            matched: state.matched,
            failed: state.failed,
            missed: state.missed,
            suspended: state.suspended,
            last_error: state.last_error,
            routes: state.routes.into_iter().map(RouteView::from).collect(),
            conditions: Vec::new(),
        }
    }
}

impl From<(String, RouteState)> for RouteView {
    fn from((sink, state): (String, RouteState)) -> Self {
        Self {
            sink,
            delivered: state.delivered,
            pending: state.pending,
            dead: state.dead,
            last_error: state.last_error,
        }
    }
}

impl From<(String, SinkReport)> for SinkView {
    fn from((name, report): (String, SinkReport)) -> Self {
        Self {
            name,
            delivered: report.delivered,
            pending: report.pending,
            dead: report.dead,
            failed_attempts: report.failed_attempts,
            in_flight: report.in_flight,
            down_seconds: report.down_for.as_ref().map(Duration::as_secs_f64),
            last_error: report.last_error,
            conditions: Vec::new(),
        }
    }
}

impl From<(String, Vec<ConditionView>)> for RecordView {
    fn from((name, conditions): (String, Vec<ConditionView>)) -> Self {
        Self { name, conditions }
    }
}

impl From<(String, ReplayState)> for ReplayView {
    fn from((name, state): (String, ReplayState)) -> Self {
        Self {
            name,
            rule: state.rule,
            from: state.from.0,
            to: state.to.0,
            position: state.position.0,
            matched: state.matched,
            delivered: state.delivered,
            pending: state.pending,
            dead: state.dead,
            finished: state.is_finished,
        }
    }
}
