//! What is shown in the status of our kinds.

use std::{sync::Arc, time::Duration};

use skopos_client::Client;
use skopos_controller::{Action, Context, Controller, Failure, LeaderConfigError, Manager, StatusEdit};
use skopos_journal::{Capture, Journal, Log as _};
use skopos_object::Object;
use skopos_react::Reactor;
use tokio::sync::watch;

use crate::{
    Verdicts,
    caches::{scopes, wanted},
    conditions::{self, Shown},
    engine::manager_config,
    events,
};

/// Where the status comes from.
#[derive(Clone, Debug)]
pub(crate) struct About {
    pub(crate) verdicts: watch::Receiver<Arc<Verdicts>>,
    pub(crate) journal: Journal,
    pub(crate) capture: Capture,
    pub(crate) reactor: Reactor,
    pub(crate) every: Duration,
    /// The namespaces whose objects are looked at; all if there are none.
    pub(crate) namespaces: Vec<String>,
}

/// The controllers that write the status of our kinds.
pub(crate) fn manager(client: &Client, about: &About) -> Result<Manager, LeaderConfigError> {
    let mut manager = Manager::new(client, manager_config(&about.namespaces))?;
    for scope in scopes(&about.namespaces) {
        let controller = |plural: &str| {
            let wanted = wanted(&format!("{plural}.skopos.dev"), scope);
            Controller::for_(wanted).named([&[plural.to_owned()], scope].concat().join(" in "))
        };
        let writer = about.clone();
        manager.add(controller("rules").reconcile(move |rule, context| {
            let about = writer.clone();
            async move { about.show_rule(&rule, &context).await }
        }));
        let writer = about.clone();
        manager.add(controller("sinks").reconcile(move |sink, context| {
            let about = writer.clone();
            async move { about.show_sink(&sink, &context).await }
        }));
        let writer = about.clone();
        manager.add(controller("records").reconcile(move |record, context| {
            let about = writer.clone();
            async move { about.show_record(&record, &context).await }
        }));
    }
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
        let (captures, holes) = (self.capture.status(), self.journal.holes());
        let no_space = status.no_space.as_deref();
        let conditions = conditions::of_rule(verdict, &captures, &holes, &state, no_space);
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
        events::tell(rule, &conditions, context);
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
        let status = self.reactor.status();
        let report = status.sinks.get(&name).cloned().unwrap_or_default();
        let conditions = conditions::of_sink(verdict, &report, status.no_space.as_deref());
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
        events::tell(sink, &conditions, context);
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
        let (captures, holes) = (self.capture.status(), self.journal.holes());
        let conditions = conditions::of_record(verdict, &captures, &holes);
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
        events::tell(record, &conditions, context);
        Ok(Action::RequeueAfter(self.every))
    }
}

fn show(status: &mut StatusEdit, conditions: &[Shown]) {
    for shown in conditions {
        status.condition(shown.kind, shown.holds, shown.reason, shown.message.as_str());
    }
}
