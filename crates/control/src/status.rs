//! What is shown in the status of our kinds.

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use skopos_client::Client;
use skopos_controller::{Action, Context, Controller, Failure, LeaderConfigError, Manager, StatusEdit};
use skopos_journal::{Capture, CaptureStatus, Hole, Journal, Log as _, Phase};
use skopos_object::Object;
use skopos_react::{Reactor, RuleState};
use tokio::sync::watch;

use crate::{
    Verdicts,
    engine::manager_config,
    verdict::{RecordVerdict, RuleVerdict},
};

/// For so long a hole makes the capture count as incomplete.
const HOLE_SHOWN: Duration = Duration::from_secs(24 * 3600);

/// Where the status comes from.
#[derive(Clone, Debug)]
pub(crate) struct About {
    pub(crate) verdicts: watch::Receiver<Arc<Verdicts>>,
    pub(crate) journal: Journal,
    pub(crate) capture: Capture,
    pub(crate) reactor: Reactor,
    pub(crate) every: Duration,
}

/// A condition to show.
struct Shown {
    kind: &'static str,
    holds: bool,
    reason: &'static str,
    message: String,
}

/// The controllers that write the status of our kinds.
pub(crate) fn manager(client: &Client, about: &About) -> Result<Manager, LeaderConfigError> {
    let mut manager = Manager::new(client, manager_config())?;
    let writer = about.clone();
    manager.add(
        Controller::for_("rules.skopos.dev")
            .named("rules")
            .reconcile(move |rule, context| {
                let about = writer.clone();
                async move { about.show_rule(&rule, &context).await }
            }),
    );
    let writer = about.clone();
    manager.add(
        Controller::for_("sinks.skopos.dev")
            .named("sinks")
            .reconcile(move |sink, context| {
                let about = writer.clone();
                async move { about.show_sink(&sink, &context).await }
            }),
    );
    let writer = about.clone();
    manager.add(
        Controller::for_("records.skopos.dev")
            .named("records")
            .reconcile(move |record, context| {
                let about = writer.clone();
                async move { about.show_record(&record, &context).await }
            }),
    );
    Ok(manager)
}

impl About {
    async fn show_rule(&self, rule: &Object, context: &Context) -> Result<Action, Failure> {
        let name = rule.key().to_string();
        let verdicts = self.verdicts.borrow().clone();
        let Some(verdict) = verdicts
            .rules
            .get(&name)
            .filter(|one| one.generation >= rule.generation())
        else {
            return Ok(Action::RequeueAfter(Duration::from_millis(50)));
        };
        let status = self.reactor.status();
        let state = status.rules.get(&name).cloned().unwrap_or_default();
        let captured = self.captured(verdict.collection.as_deref());
        let conditions = [
            ready(verdict),
            complete(
                verdict.collection.as_deref(),
                captured.as_ref(),
                &self.journal.holes(),
            ),
            delivering(verdict, &state),
        ];
        let sum = |part: fn(&skopos_react::RouteState) -> u64| state.routes.values().map(part).sum::<u64>();
        let (delivered, pending, dead) = (sum(|r| r.delivered), sum(|r| r.pending), sum(|r| r.dead));
        context
            .status(|status| {
                show(status, &conditions);
                status
                    .set("position", state.position.0)
                    .set("matched", state.matched)
                    .set("delivered", delivered)
                    .set("pending", pending)
                    .set("deadLettered", dead);
                match state.last_error.is_empty() {
                    true => status.remove("lastError"),
                    false => status.set("lastError", &state.last_error),
                };
            })
            .await?;
        Ok(Action::RequeueAfter(self.every))
    }

    async fn show_sink(&self, sink: &Object, context: &Context) -> Result<Action, Failure> {
        let name = sink.key().to_string();
        let verdicts = self.verdicts.borrow().clone();
        let Some(verdict) = verdicts
            .sinks
            .get(&name)
            .filter(|one| one.generation >= sink.generation())
        else {
            return Ok(Action::RequeueAfter(Duration::from_millis(50)));
        };
        let report = self
            .reactor
            .status()
            .sinks
            .get(&name)
            .cloned()
            .unwrap_or_default();
        let conditions = [
            match &verdict.problem {
                Some(problem) => Shown::no("Ready", "Invalid", problem.clone()),
                None => Shown::yes("Ready", "InForce", "deliveries go there".into()),
            },
            match report.down_for {
                Some(_) => Shown::no("Delivering", "Unavailable", report.last_error.clone()),
                None => Shown::yes("Delivering", "Available", String::new()),
            },
        ];
        context
            .status(|status| {
                show(status, &conditions);
                status
                    .set("delivered", report.delivered)
                    .set("pending", report.pending);
                match report.last_error.is_empty() {
                    true => status.remove("lastError"),
                    false => status.set("lastError", &report.last_error),
                };
            })
            .await?;
        Ok(Action::RequeueAfter(self.every))
    }

    async fn show_record(&self, record: &Object, context: &Context) -> Result<Action, Failure> {
        let name = record.key().to_string();
        let verdicts = self.verdicts.borrow().clone();
        let Some(verdict) = verdicts
            .records
            .get(&name)
            .filter(|one| one.generation >= record.generation())
        else {
            return Ok(Action::RequeueAfter(Duration::from_millis(50)));
        };
        let holes = self.journal.holes();
        let captured = verdict.collections.iter().map(|one| {
            let status = self.captured(Some(one));
            complete(Some(one), status.as_ref(), &holes)
        });
        let worst = captured.reduce(|worst, one| if worst.holds { one } else { worst });
        let mut conditions = vec![recording(verdict)];
        conditions.extend(worst);
        let n_changes: u64 = verdict
            .collections
            .iter()
            .map(|one| self.journal.n_changes(one))
            .sum();
        let n_objects: usize = self
            .journal
            .collections()
            .iter()
            .filter(|one| verdict.collections.contains(&one.name))
            .map(|one| one.n_objects)
            .sum();
        context
            .status(|status| {
                show(status, &conditions);
                status.set("objects", n_objects).set("changes", n_changes);
            })
            .await?;
        Ok(Action::RequeueAfter(self.every))
    }

    fn captured(&self, collection: Option<&str>) -> Option<CaptureStatus> {
        let collection = collection?;
        let mut all = self.capture.status().into_iter();
        all.find(|status| status.name.to_string() == collection)
    }
}

impl Shown {
    fn yes(kind: &'static str, reason: &'static str, message: String) -> Self {
        Self {
            kind,
            holds: true,
            reason,
            message,
        }
    }

    fn no(kind: &'static str, reason: &'static str, message: String) -> Self {
        Self {
            holds: false,
            ..Self::yes(kind, reason, message)
        }
    }
}

fn show(status: &mut StatusEdit, conditions: &[Shown]) {
    for shown in conditions {
        status.condition(shown.kind, shown.holds, shown.reason, shown.message.as_str());
    }
}

fn recording(verdict: &RecordVerdict) -> Shown {
    if !verdict.problems.is_empty() {
        let mut message = verdict.problems.join("; ");
        if let Some(generation) = verdict.in_force {
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
        if let Some(generation) = verdict.in_force {
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

fn complete(collection: Option<&str>, captured: Option<&CaptureStatus>, holes: &[Hole]) -> Shown {
    const KIND: &str = "CaptureComplete";
    let (Some(collection), Some(captured)) = (collection, captured) else {
        return Shown::no(KIND, "NotCaptured", "nothing is captured yet".into());
    };
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
    let failing = state
        .routes
        .iter()
        .find(|(_, route)| route.pending > 0 && !route.last_error.is_empty());
    match failing {
        Some((sink, route)) => Shown::no(KIND, "Failing", format!("{sink}: {}", route.last_error)),
        None => Shown::yes(KIND, "UpToDate", String::new()),
    }
}
