//! What is said of rules, sinks and records: whether they are in force, complete and delivering.

use std::{collections::BTreeMap, time::Duration};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use skopos_journal::{CaptureStatus, Hole, Phase};
use skopos_object::ObjectKey;
use skopos_react::{RuleState, SinkReport, Status};

use crate::{
    Verdicts,
    verdict::{RecordVerdict, RuleVerdict, SinkVerdict},
};

/// For so long a hole makes the capture count as incomplete.
const HOLE_SHOWN: Duration = Duration::from_secs(24 * 3600);

/// A condition of a rule, sink or record, as its status has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConditionView {
    /// `Ready`, `CaptureComplete` or `Delivering`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Whether it holds.
    pub holds: bool,
    /// Why, in a word.
    pub reason: String,
    /// Why, in a sentence.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
}

/// A condition to show.
pub(crate) struct Shown {
    pub(crate) kind: &'static str,
    pub(crate) holds: bool,
    pub(crate) reason: &'static str,
    pub(crate) message: String,
}

impl Shown {
    pub(crate) fn yes(kind: &'static str, reason: &'static str, message: String) -> Self {
        Self {
            kind,
            holds: true,
            reason,
            message,
        }
    }

    pub(crate) fn no(kind: &'static str, reason: &'static str, message: String) -> Self {
        Self {
            holds: false,
            ..Self::yes(kind, reason, message)
        }
    }
}

impl From<Shown> for ConditionView {
    fn from(shown: Shown) -> Self {
        Self {
            kind: shown.kind.to_owned(),
            holds: shown.holds,
            reason: shown.reason.to_owned(),
            message: shown.message,
        }
    }
}

/// Conditions by the name of what they are about.
pub(crate) type ByName = BTreeMap<String, Vec<ConditionView>>;

/// The conditions of everything, also of what comes from files, which has no status elsewhere.
#[derive(Debug, Default)]
pub(crate) struct Conditions {
    pub(crate) rules: ByName,
    pub(crate) sinks: ByName,
    pub(crate) records: ByName,
}

impl Conditions {
    pub(crate) fn new(
        verdicts: &Verdicts,
        captures: &[CaptureStatus],
        holes: &[Hole],
        status: &Status,
    ) -> Self {
        Self {
            rules: by_name(&verdicts.rules, |name, verdict| {
                let state = status.rules.get(name).cloned().unwrap_or_default();
                of_rule(verdict, captures, holes, &state, status.no_space.as_deref()).into()
            }),
            sinks: by_name(&verdicts.sinks, |name, verdict| {
                let report = status.sinks.get(name).cloned().unwrap_or_default();
                of_sink(verdict, &report, status.no_space.as_deref()).into()
            }),
            records: by_name(&verdicts.records, |_, verdict| {
                of_record(verdict, captures, holes)
            }),
        }
    }
}

fn by_name<V>(verdicts: &BTreeMap<String, V>, shown: impl Fn(&str, &V) -> Vec<Shown>) -> ByName {
    let of = |(name, verdict): (&String, &V)| {
        let shown = shown(name, verdict).into_iter();
        (name.clone(), shown.map(ConditionView::from).collect())
    };
    verdicts.iter().map(of).collect()
}

/// What is said of a rule.
pub(crate) fn of_rule(
    verdict: &RuleVerdict,
    captures: &[CaptureStatus],
    holes: &[Hole],
    state: &RuleState,
    no_space: Option<&str>,
) -> [Shown; 3] {
    [
        ready(verdict),
        complete(&verdict.captured, captures, holes),
        no_space.map_or_else(|| delivering(verdict, state), no_room),
    ]
}

/// What is said of a sink.
pub(crate) fn of_sink(verdict: &SinkVerdict, report: &SinkReport, no_space: Option<&str>) -> [Shown; 2] {
    let ready = match &verdict.problem {
        Some(problem) => invalid(
            std::slice::from_ref(problem),
            verdict.generation,
            verdict.in_force,
        ),
        None => Shown::yes("Ready", "InForce", "deliveries go there".into()),
    };
    let delivering = match (no_space, verdict.in_force, report.down_for) {
        (Some(what), ..) => no_room(what),
        (None, None, _) => {
            let message = "no generation of the sink is in force; deliveries wait for one";
            Shown::no(DELIVERING, "NotInForce", message.into())
        }
        (None, Some(_), Some(_)) => Shown::no(DELIVERING, "Unavailable", report.last_error.clone()),
        (None, Some(_), None) => Shown::yes(DELIVERING, "Available", String::new()),
    };
    [ready, delivering]
}

/// What is said of a record.
pub(crate) fn of_record(verdict: &RecordVerdict, captures: &[CaptureStatus], holes: &[Hole]) -> Vec<Shown> {
    let mut all = vec![recording(verdict)];
    if !verdict.collections.is_empty() {
        all.push(complete(&verdict.collections, captures, holes));
    }
    all
}

/// Whether a record is in force.
fn recording(verdict: &RecordVerdict) -> Shown {
    if !verdict.problems.is_empty() {
        return invalid(&verdict.problems, verdict.generation, verdict.in_force);
    }
    match verdict.not_served.is_empty() {
        true => Shown::yes("Ready", "Recording", verdict.collections.join(", ")),
        false => {
            let missing = verdict.not_served.join("; ");
            let message = format!("{missing}; it is recorded as soon as it is there");
            Shown::no("Ready", "KindNotServed", message)
        }
    }
}

/// Something is wrong with what was asked for last.
fn invalid(problems: &[String], generation: i64, in_force: Option<i64>) -> Shown {
    let mut message = problems.join("; ");
    if let Some(earlier) = in_force.filter(|one| *one != generation) {
        message += &format!(" (generation {earlier} stays in force)");
    }
    Shown::no("Ready", "Invalid", message)
}

fn ready(verdict: &RuleVerdict) -> Shown {
    if !verdict.problems.is_empty() {
        return invalid(&verdict.problems, verdict.generation, verdict.in_force);
    }
    if let (Some(forbidden), None) = (&verdict.forbidden, &verdict.not_served) {
        return Shown::no("Ready", forbidden.reason, forbidden.message.clone());
    }
    match (&verdict.not_served, verdict.missing_sinks.as_slice()) {
        (Some(reason), _) => Shown::no(
            "Ready",
            "KindNotServed",
            format!("{reason}; it is watched as soon as it is there"),
        ),
        (None, []) => Shown::yes("Ready", "InForce", String::new()),
        (None, missing) => {
            let message = format!("no usable sink {}; deliveries wait for it", missing.join(", "));
            Shown::no("Ready", "SinkMissing", message)
        }
    }
}

/// Whether every change of some collections is known.
fn complete(collections: &[String], captures: &[CaptureStatus], holes: &[Hole]) -> Shown {
    let all = collections.iter().map(|one| {
        let captured = captures.iter().find(|status| status.name.to_string() == *one);
        let mut shown = captured.map_or_else(not_captured, |captured| complete_one(one, captured, holes));
        if collections.len() > 1 && !shown.holds {
            shown.message = format!("{one}: {}", shown.message);
        }
        shown
    });
    let worst = all.reduce(|worst, one| if worst.holds { one } else { worst });
    worst.unwrap_or_else(not_captured)
}

/// The condition that says so.
const COMPLETE: &str = "CaptureComplete";

fn not_captured() -> Shown {
    Shown::no(COMPLETE, "NotCaptured", "nothing is captured yet".into())
}

fn complete_one(collection: &str, captured: &CaptureStatus, holes: &[Hole]) -> Shown {
    const KIND: &str = COMPLETE;
    match &captured.phase {
        Phase::NotServed(what) => return Shown::no(KIND, "KindNotServed", what.clone()),
        Phase::Listing => return Shown::no(KIND, "Listing", "the objects are being listed".into()),
        Phase::Paused(what) => return Shown::no(KIND, "NoSpace", format!("capture waits: {what}")),
        Phase::Failed(what) => return Shown::no(KIND, "JournalFailed", what.clone()),
        Phase::Watching => {}
    }
    if !captured.unreadable.is_empty() {
        return Shown::no(KIND, "Unreadable", unreadable(captured));
    }
    let is_recent = |hole: &&Hole| {
        let age = Duration::try_from(Timestamp::now().duration_since(hole.to));
        hole.collection == collection && age.is_ok_and(|age| age < HOLE_SHOWN)
    };
    match holes.iter().rev().find(is_recent) {
        Some(hole) => {
            let message = format!(
                "between {} and {} only the outcome is known ({})",
                hole.from, hole.to, hole.reason
            );
            Shown::no(KIND, "HoleBridged", message)
        }
        None => Shown::yes(KIND, "EveryChange", String::new()),
    }
}

/// Which objects cannot be read, in words.
fn unreadable(captured: &CaptureStatus) -> String {
    let name = |key: &ObjectKey| match key.name.is_empty() {
        true => "one without a name".to_owned(),
        false => key.to_string(),
    };
    let mut names: Vec<String> = captured.unreadable.iter().take(NAMED).map(name).collect();
    if captured.unreadable.len() > NAMED {
        names.push("others".to_owned());
    }
    let names = names.join(", ");
    format!("objects cannot be read, and their changes are not written down: {names}")
}

/// So many objects are named in a message.
const NAMED: usize = 5;

/// The condition that says whether deliveries arrive.
const DELIVERING: &str = "Delivering";

/// Nothing is sent: there is no room to write down that it was.
fn no_room(what: &str) -> Shown {
    Shown::no(DELIVERING, "NoSpace", format!("deliveries wait: {what}"))
}

fn delivering(verdict: &RuleVerdict, state: &RuleState) -> Shown {
    const KIND: &str = DELIVERING;
    if let Some(reason) = &state.suspended {
        return Shown::no(KIND, "Suspended", reason.clone());
    }
    if verdict.in_force.is_none() {
        return Shown::no(KIND, "NotInForce", "no generation of the rule is in force".into());
    }
    if !verdict.missing_sinks.is_empty() {
        let missing = verdict.missing_sinks.join(", ");
        return Shown::no(
            KIND,
            "SinkMissing",
            format!("no usable sink {missing}; deliveries wait for it"),
        );
    }
    let failing = state
        .routes
        .iter()
        .find(|(_, route)| route.pending > 0 && !route.last_error.is_empty());
    match failing {
        Some((sink, route)) => Shown::no(KIND, "Failing", format!("{sink}: {}", route.last_error)),
        None => Shown::yes(KIND, "UpToDate", String::new()),
    }
}
