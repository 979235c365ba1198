//! Follows the plan, and does what it is told.

use std::{collections::BTreeMap, sync::Arc};

use skopos_api::Existing as Policy;
use skopos_journal::Seq;
use tokio::sync::oneshot;

use super::{Command, Guards, Looked, Looker, turns::hold_name};
use crate::delivery::{
    Error, Plan, PlannedRule,
    lanes::RouteId,
    shared::{Directed, Directory, Route},
    store::{Existing, Replayed, RuleRecord, Tables, first_timer},
};

impl Looker {
    /// Takes up the newest plan.
    pub(super) async fn apply_plan(&mut self) -> Result<(), Error> {
        let plan = self.plan.borrow_and_update().clone();
        let (known, _) = self.shared.store.board.records();
        let mut rules = BTreeMap::new();
        for (name, planned) in &plan.rules {
            let planned = Arc::new(planned.clone());
            let record = self.adopt(name, &planned, known.get(name)).await?;
            rules.insert(name.clone(), self.looked(name, planned, record).await?);
        }
        let (left, _) = self.shared.store.board.records();
        for (name, record) in &left {
            if let Some(replayed) = &record.replay
                && let Some(planned) = plan.rules.get(&replayed.rule)
            {
                let planned = Arc::new(replaying(planned, replayed));
                rules.insert(name.clone(), self.looked(name, planned, record.clone()).await?);
            }
        }
        // Where a rule begins must not be forgotten by a crash: it would begin later then.
        let is_new = |(name, rule): (&String, &Looked)| {
            let before = known.get(name);
            before.is_none_or(|before| before.id != rule.record.id)
        };
        if rules.iter().any(is_new) {
            self.shared.store.sync().await?;
        }
        self.rules = rules;
        self.publish();
        if plan.complete {
            self.remove_what_is_gone(&plan, &left).await?;
        }
        tracing::debug!(
            rules = plan.rules.len(),
            sinks = plan.sinks.len(),
            "took up a plan"
        );
        Ok(())
    }

    async fn looked(
        &mut self,
        name: &str,
        planned: Arc<PlannedRule>,
        record: RuleRecord,
    ) -> Result<Looked, Error> {
        let id = record.id;
        let next_timer = self
            .shared
            .store
            .read(move |transaction| first_timer(transaction, id))
            .await?;
        let before = self.rules.remove(name);
        let before = before.filter(|rule| {
            let old = &rule.planned;
            old.limits == planned.limits && old.writes_objects == planned.writes_objects
        });
        let (guards, rests_until) = match before {
            Some(rule) => (rule.guards, rule.rests_until),
            None => (Guards::new(&planned), None),
        };
        Ok(Looked {
            guards,
            rests_until,
            n_rests: 0,
            planned,
            record,
            next_timer,
        })
    }

    /// Brings what is kept of a rule in line with its specification.
    async fn adopt(
        &mut self,
        name: &str,
        planned: &Arc<PlannedRule>,
        known: Option<&RuleRecord>,
    ) -> Result<RuleRecord, Error> {
        let mut record = match known {
            Some(record) if is_another(record, planned) => {
                self.forget_with_replays(name).await?;
                self.introduce(name, planned).await?
            }
            Some(record) => record.clone(),
            None => self.introduce(name, planned).await?,
        };
        if !planned.uid.is_empty() {
            record.uid.clone_from(&planned.uid);
        }
        self.stay_within_the_journal(name, &mut record);
        if record.edges != planned.edges {
            self.repeat(move |tables| tables.forget_objects(record.id))
                .await?;
            record.edges = planned.edges;
        }
        if record.generation != planned.generation {
            record.generation = planned.generation;
            if planned.existing == Policy::Reconcile {
                self.repeat(move |tables| tables.forget_told(record.id)).await?;
                record.existing = Existing::Telling { after: None };
            }
        }
        if planned.existing == Policy::Ignore && matches!(record.existing, Existing::Telling { .. }) {
            record.existing = Existing::Done;
        }
        if !planned.evaluator.remembers() && matches!(record.existing, Existing::Observing { .. }) {
            record.existing = Existing::Done;
        }
        let (name, actions, saved) = (name.to_owned(), planned.actions.clone(), record.clone());
        let save = move |tables: &mut Tables<'_>| {
            for sink in &actions {
                tables.route(saved.id, sink)?;
            }
            tables.put_rule(&name, &saved)
        };
        self.shared.store.write(save).await?;
        Ok(record)
    }

    /// A rule that was never seen begins at the newest change there is.
    async fn introduce(&mut self, name: &str, planned: &Arc<PlannedRule>) -> Result<RuleRecord, Error> {
        let head = self.shared.log.head();
        self.shared.log.hold(&hold_name(name), Some(head));
        let record = RuleRecord {
            position: head.0,
            looked_at: self.shared.now().as_millisecond(),
            introduced: Some(self.shared.now().as_millisecond()),
            generation: planned.generation,
            edges: planned.edges,
            existing: match planned.existing {
                // What holds already goes on holding without a change.
                Policy::Ignore if planned.evaluator.remembers() => Existing::Observing { after: None },
                Policy::Ignore => Existing::Done,
                Policy::Emit | Policy::Reconcile => Existing::Telling { after: None },
            },
            ..RuleRecord::default()
        };
        let name = name.to_owned();
        self.shared
            .store
            .write(move |tables| tables.add_rule(&name, record))
            .await
    }

    /// A journal that was moved away, restored from a copy or damaged at its end counts new changes by numbers that the
    /// rule has looked at already. It must not take them for the old ones.
    fn stay_within_the_journal(&self, name: &str, record: &mut RuleRecord) {
        let head = self.shared.log.head().0;
        if record.position <= head {
            return;
        }
        let position = record.position;
        tracing::warn!(
            rule = name,
            position,
            head,
            "the journal ends before what a rule has looked at; it goes on from the end"
        );
        record.last_error = format!(
            "the journal ends at change {head}, and the rule had looked at everything up to {position}: it goes on from the end"
        );
        record.position = head;
        if let Existing::Recognizing { until } = &mut record.existing {
            *until = head.min(*until);
        }
    }

    /// Does something in as many transactions as it takes.
    async fn repeat(
        &self,
        part: impl Fn(&mut Tables<'_>) -> Result<bool, Error> + Clone + Send + 'static,
    ) -> Result<(), Error> {
        while self.shared.store.write(part.clone()).await? {}
        Ok(())
    }

    async fn remove_what_is_gone(
        &mut self,
        plan: &Plan,
        known: &BTreeMap<String, RuleRecord>,
    ) -> Result<(), Error> {
        for (name, record) in known {
            let of = record.replay.as_ref().map_or(name, |replayed| &replayed.rule);
            match plan.rules.get(of) {
                None if plan.set_aside.contains(of) => {}
                None => self.forget_rule(name).await?,
                Some(planned) if record.replay.is_none() => self.forget_routes(record.id, planned).await?,
                Some(_) => {}
            }
        }
        Ok(())
    }

    /// The rule that is kept was deleted, and another one made by its name.
    async fn forget_with_replays(&mut self, name: &str) -> Result<(), Error> {
        let (known, _) = self.shared.store.board.records();
        let is_of_it = |replayed: &Replayed| replayed.rule == name;
        for (replay, record) in known {
            if record.replay.as_ref().is_some_and(is_of_it) {
                self.forget_rule(&replay).await?;
            }
        }
        self.forget_rule(name).await
    }

    async fn forget_rule(&mut self, name: &str) -> Result<(), Error> {
        self.rules.remove(name);
        let removed = name.to_owned();
        self.repeat(move |tables| tables.remove_rule(&removed)).await?;
        self.shared.log.hold(&hold_name(name), None);
        tracing::info!(rule = name, "removed what was kept of a rule");
        Ok(())
    }

    async fn forget_routes(&mut self, rule: u32, planned: &PlannedRule) -> Result<(), Error> {
        let (_, routes) = self.shared.store.board.records();
        for (of, sink) in routes.into_keys() {
            if of == rule && !planned.actions.contains(&sink) {
                self.repeat(move |tables| tables.remove_route(rule, &sink))
                    .await?;
            }
        }
        Ok(())
    }

    /// Tells senders who delivers where.
    pub(super) fn publish(&mut self) {
        let plan = self.plan.borrow().clone();
        let (_, routes) = self.shared.store.board.records();
        let mut sinks: BTreeMap<String, Directed> = BTreeMap::new();
        for (name, sink) in &plan.sinks {
            let directed = Directed {
                sink: sink.clone(),
                routes: BTreeMap::new(),
            };
            sinks.insert(name.clone(), directed);
        }
        for (name, rule) in self.rules.iter().filter(|(_, rule)| !rule.is_suspended()) {
            for sink in &rule.planned.actions {
                let route = routes.get(&(rule.record.id, sink.clone()));
                if let (Some(route), Some(directed)) = (route, sinks.get_mut(sink)) {
                    let to = Route {
                        rule: rule.record.id,
                        name: name.clone(),
                        planned: rule.planned.clone(),
                    };
                    directed.routes.insert(RouteId(route.id), to);
                }
            }
        }
        self.directory.send_replace(Arc::new(Directory { sinks }));
    }

    pub(super) async fn obey(&mut self, command: Command) {
        match command {
            Command::Resume(name, reply) => {
                let done = self.set_suspended(&name, None).await;
                answer(reply, done);
            }
            Command::Pause(name, reason, reply) => {
                let done = self.set_suspended(&name, Some(reason)).await;
                answer(reply, done);
            }
            Command::Replay(replayed, reply) => {
                let done = self.begin_replay(replayed).await;
                answer(reply, done);
            }
            Command::Cancel(name, reply) => {
                let done = self.cancel_replay(&name).await;
                answer(reply, done);
            }
        }
    }

    async fn set_suspended(&mut self, name: &str, reason: Option<String>) -> Result<(), Error> {
        let rule = self
            .rules
            .get_mut(name)
            .filter(|rule| rule.record.replay.is_none());
        let rule = rule.ok_or_else(|| Error::NoSuchRule(name.to_owned()))?;
        rule.record.suspended = reason;
        rule.guards = Guards::new(&rule.planned);
        rule.rests_until = None;
        let (name, record) = (name.to_owned(), rule.record.clone());
        self.shared
            .store
            .write(move |tables| tables.put_rule(&name, &record))
            .await?;
        self.shared.store.sync().await?;
        self.publish();
        Ok(())
    }

    async fn begin_replay(&mut self, mut replayed: Replayed) -> Result<String, Error> {
        let plan = self.plan.borrow().clone();
        let planned = plan.rules.get(&replayed.rule);
        let planned = planned.ok_or_else(|| Error::NoSuchRule(replayed.rule.clone()))?;
        if let Some(sink) = replayed
            .sink
            .as_ref()
            .filter(|sink| !plan.sinks.contains_key(*sink))
        {
            return Err(Error::NoSuchSink(sink.clone()));
        }
        let first = self.shared.log.first().0;
        if replayed.from < first {
            return Err(Error::NotKept { first });
        }
        replayed.to = replayed.to.min(self.shared.log.head().0);
        let planned = Arc::new(replaying(planned, &replayed));
        let actions = planned.actions.clone();
        let of = self.rules.get(&replayed.rule).map(|rule| &rule.record);
        let record = RuleRecord {
            introduced: of.and_then(|record| record.introduced),
            position: replayed.from - 1,
            looked_at: self.shared.now().as_millisecond(),
            generation: planned.generation,
            replay: Some(replayed.clone()),
            ..RuleRecord::default()
        };
        let begin = move |tables: &mut Tables<'_>| {
            let id = tables.next_replay()?;
            let name = format!("{}/replay-{id}", replayed.rule);
            let record = tables.add_rule(&name, record)?;
            for sink in &actions {
                tables.route(record.id, sink)?;
            }
            Ok((name, record))
        };
        let (name, record) = self.shared.store.write(begin).await?;
        self.shared.store.sync().await?;
        self.shared
            .log
            .hold(&hold_name(&name), Some(Seq(record.position)));
        let looked = self.looked(&name, planned, record).await?;
        self.rules.insert(name.clone(), looked);
        self.publish();
        Ok(name)
    }

    /// Everything a replay sends has arrived.
    pub(super) async fn finish_replay(&mut self, name: &str) -> Result<(), Error> {
        self.shared.store.board.finish(name);
        self.forget_rule(name).await?;
        self.publish();
        Ok(())
    }

    async fn cancel_replay(&mut self, name: &str) -> Result<(), Error> {
        match self.rules.get(name) {
            Some(rule) if rule.record.replay.is_some() => self.finish_replay(name).await,
            _ => Err(Error::NoSuchReplay(name.to_owned())),
        }
    }
}

/// Whether what is kept is of another rule, which was deleted.
fn is_another(record: &RuleRecord, planned: &PlannedRule) -> bool {
    !record.uid.is_empty() && !planned.uid.is_empty() && record.uid != planned.uid
}

/// The rule as a replay needs it.
fn replaying(planned: &PlannedRule, replayed: &Replayed) -> PlannedRule {
    let mut planned = planned.clone();
    planned.limits = None;
    planned.suspend = false;
    planned.dry_run = replayed.is_dry;
    if let Some(sink) = &replayed.sink {
        for action in &mut planned.actions {
            action.clone_from(sink);
        }
    }
    planned
}

/// Answers who asked, if they are still there. Trouble with the storage shows at the next write too.
fn answer<T>(reply: oneshot::Sender<Result<T, Error>>, result: Result<T, Error>) {
    reply.send(result).ok();
}
