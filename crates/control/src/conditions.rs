//! What is said of rules and records: whether they are in force, complete and delivering.

use std::{collections::BTreeMap, time::Duration};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use skopos_journal::{CaptureStatus, Hole, Phase};
use skopos_react::{RuleState, Status};

use crate::{
    Verdicts,
    verdict::{RecordVerdict, RuleVerdict},
};

/// For so long a hole makes the capture count as incomplete.
const HOLE_SHOWN: Duration = Duration::from_secs(24 * 3600);

/// A condition of a rule, as its status has it.
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

/// The conditions of all rules by name, also of those from files, which have no status elsewhere.
pub(crate) fn of_rules(
    verdicts: &Verdicts,
    captures: &[CaptureStatus],
    holes: &[Hole],
    status: &Status,
) -> BTreeMap<String, Vec<ConditionView>> {
    let of = |(name, verdict): (&String, &RuleVerdict)| {
        let state = status.rules.get(name).cloned().unwrap_or_default();
        let shown = of_rule(verdict, captures, holes, &state);
        (name.clone(), shown.into_iter().map(ConditionView::from).collect())
    };
    verdicts.rules.iter().map(of).collect()
}

/// What is said of a rule.
pub(crate) fn of_rule(
    verdict: &RuleVerdict,
    captures: &[CaptureStatus],
    holes: &[Hole],
    state: &RuleState,
) -> [Shown; 3] {
    [
        ready(verdict),
        complete(&verdict.captured, captures, holes),
        delivering(verdict, state),
    ]
}

/// Whether a record is in force.
pub(crate) fn recording(verdict: &RecordVerdict) -> Shown {
    if !verdict.problems.is_empty() {
        let mut message = verdict.problems.join("; ");
        if let Some(generation) = verdict.in_force.filter(|one| *one != verdict.generation) {
            message += &format!(" (generation {generation} stays in force)");
        }
        return Shown::no("Ready", "Invalid", message);
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

fn ready(verdict: &RuleVerdict) -> Shown {
    if !verdict.problems.is_empty() {
        let mut message = verdict.problems.join("; ");
        if let Some(generation) = verdict.in_force.filter(|one| *one != verdict.generation) {
            message += &format!(" (generation {generation} stays in force)");
        }
        return Shown::no("Ready", "Invalid", message);
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
pub(crate) fn complete(collections: &[String], captures: &[CaptureStatus], holes: &[Hole]) -> Shown {
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

fn delivering(verdict: &RuleVerdict, state: &RuleState) -> Shown {
    const KIND: &str = "Delivering";
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
