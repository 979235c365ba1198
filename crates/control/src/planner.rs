//! From what was asked for to what is in force. What is wrong is set aside with the reason, and the rest goes on.

mod find;
mod fit;
mod memory;
mod records;
mod scope;
mod sinks;
mod surroundings;

use std::{collections::BTreeMap, sync::Arc};

use skopos_api::RuleSpec;
use skopos_client::ServiceAccount;
use skopos_journal::{Asked, Retention, Selection, SelectionPart};
use skopos_object::{CollectionName, LabelSelector, Object};
use skopos_react::{
    Plan, PlannedRule,
    rule::{CompiledRule, KindNames, Origin},
};

pub(crate) use self::{
    find::captured_names,
    memory::News,
    surroundings::{Origins, Surroundings},
};
use self::{
    find::{Found, NotServed},
    memory::{Form, Memory},
    records::{GoodRecord, LeftOut},
    sinks::{GoodSink, Looks},
};
use crate::{
    Forbidden, Kinds, RuleVerdict, Verdicts,
    access::{Reading, Reviews},
    in_force::{Confined, InForce},
    kinds::Given,
};

/// Makes plans, and remembers what was good.
#[derive(Debug)]
pub(crate) struct Planner {
    around: Surroundings,
    rules: BTreeMap<String, GoodRule>,
    sinks: BTreeMap<String, GoodSink>,
    reviews: Reviews,
    records: BTreeMap<String, GoodRecord>,
    looks: Looks,
    /// What was good, also before the start.
    memory: Memory,
    /// As much of it as is written down.
    written: Memory,
}

#[derive(Clone, Debug)]
struct GoodRule {
    form: Form<RuleSpec>,
    compiled: Arc<CompiledRule>,
}

/// What is to be in force.
#[derive(Debug)]
pub(crate) struct Planned {
    pub(crate) plan: Plan,
    pub(crate) asked: Vec<Asked>,
    pub(crate) retention: Retention,
    pub(crate) verdicts: Verdicts,
    /// The kinds of which something is asked for.
    kinds: Vec<KindNames>,
    /// What records want left out of kinds that they do not ask for themselves.
    left_out: Vec<LeftOut>,
    /// Whether something may be better when looked at again.
    pub(crate) is_unsettled: bool,
}

impl Planner {
    /// Remembers what was good before, by what was written down of it.
    pub(crate) fn new(around: Surroundings, notes: &BTreeMap<String, Vec<u8>>) -> Self {
        let memory = Memory::read(notes);
        let elsewhere = memory.elsewhere(&around);
        if !elsewhere.is_empty() {
            tracing::warn!(
                rules = elsewhere.join(", "),
                "rules are not where this start looks for them: what is kept of them waits"
            );
        }
        Self {
            written: memory.clone(),
            memory,
            reviews: Reviews::new(around.review_every),
            looks: Looks::new(around.look_every),
            around,
            rules: BTreeMap::new(),
            sinks: BTreeMap::new(),
            records: BTreeMap::new(),
        }
    }

    /// Whether the rights of a service account should be looked at again, which a new plan does.
    pub(crate) fn is_review_due(&self) -> bool {
        self.reviews.are_due()
    }

    /// What is to be written down, so that the next start remembers it.
    pub(crate) fn news(&self) -> News {
        self.memory.news(&self.written)
    }

    /// That was written down.
    pub(crate) fn noted(&mut self) {
        self.written = self.memory.clone();
    }

    pub(crate) async fn plan(&mut self, kinds: &Kinds, definitions: &[Object]) -> Planned {
        let kinds = &self.memory.complete(kinds);
        let mut planned = Planned {
            plan: Plan {
                // A file that cannot be read may have any of those that are not here.
                complete: kinds.is_complete(),
                ..Plan::default()
            },
            asked: Vec::new(),
            retention: self.around.retention.clone(),
            verdicts: Verdicts {
                unreadable: kinds.unreadable.clone(),
                ..Verdicts::default()
            },
            kinds: Vec::new(),
            left_out: Vec::new(),
            is_unsettled: false,
        };
        self.forget_what_is_gone(kinds);
        planned.plan.set_aside.extend(self.memory.elsewhere(&self.around));
        self.plan_sinks(&kinds.sinks, &mut planned).await;
        for (name, given) in &kinds.records {
            self.plan_record(name, given, definitions, &mut planned).await;
        }
        for (name, given) in &kinds.rules {
            self.plan_rule(name, given, definitions, &mut planned).await;
        }
        planned.leave_out();
        self.remember();
        planned
    }

    fn forget_what_is_gone(&mut self, kinds: &Kinds) {
        let around = &self.around;
        let may_come_back = |name: &str, is_from_file: bool| {
            is_from_file && !kinds.is_complete() || !around.looks_for(name, is_from_file)
        };
        let is_there = |name: &String, form: &Form<RuleSpec>| {
            let given = kinds.rules.get(name);
            given.map_or_else(
                || may_come_back(name, form.is_from_file),
                |given| form.is_of(given),
            )
        };
        self.rules.retain(|name, good| is_there(name, &good.form));
        self.memory.rules.retain(|name, form| is_there(name, form));
        self.reviews.retain(|name| kinds.rules.contains_key(name));
        self.sinks.retain(|name, _| kinds.sinks.contains_key(name));
        self.records.retain(|name, _| kinds.records.contains_key(name));
        self.memory.records.retain(|name, form| {
            kinds.records.contains_key(name) || !around.looks_for(name, form.is_from_file)
        });
    }

    fn remember(&mut self) {
        let rules = self.rules.iter();
        let rules = rules.map(|(name, good)| (name.clone(), good.form.clone()));
        self.memory.rules.extend(rules);
        let records = self.records.iter();
        let records = records.map(|(name, good)| (name.clone(), good.form.clone()));
        self.memory.records.extend(records);
    }

    async fn plan_rule(
        &mut self,
        name: &str,
        given: &Given<RuleSpec>,
        definitions: &[Object],
        planned: &mut Planned,
    ) {
        let mut verdict = RuleVerdict {
            generation: given.generation,
            ..RuleVerdict::default()
        };
        let mut known = None;
        match &given.spec {
            Ok(spec) => {
                let found = self.find(&spec.watch.group, &spec.watch.kind, definitions).await;
                if let Ok(found) = &found {
                    match self.version_problem(found, spec.watch.version.as_deref()).await {
                        Ok(problem) => verdict.problems.extend(problem),
                        Err(()) => planned.is_unsettled = true,
                    }
                }
                let unwritable = self.unwritable(given, spec, definitions).await;
                verdict.problems.extend(unwritable);
                self.compile(name, given, spec, NotServed::known(&found), &mut verdict);
                known = Some(found);
            }
            Err(problem) => verdict.problems.push(problem.clone()),
        }
        self.recall(name, given, definitions).await;
        if let Some(spec) = self.watching(name, given) {
            let found = match known {
                Some(found) if given.spec.as_ref().is_ok_and(|one| one.watch == spec.watch) => found,
                _ => self.find(&spec.watch.group, &spec.watch.kind, definitions).await,
            };
            self.ask_for(name, &found, &mut verdict, planned);
        }
        verdict.forbidden = self
            .review(name, given, verdict.collection.as_deref())
            .await
            .err();
        match self.rules.get(name) {
            Some(good) => {
                // Its sink may have become one that writes objects after the rule was good.
                let is_lacking = !self
                    .unwritable(given, &good.form.spec, definitions)
                    .await
                    .is_empty();
                let rule = self.in_force(given, good, is_lacking, &mut verdict, planned);
                planned.plan.rules.insert(name.to_owned(), rule);
            }
            None => {
                planned.plan.set_aside.insert(name.to_owned());
            }
        }
        planned.verdicts.rules.insert(name.to_owned(), verdict);
    }

    /// Puts the last good form in force that is remembered from before the start, if none is in force.
    async fn recall(&mut self, name: &str, given: &Given<RuleSpec>, definitions: &[Object]) {
        if self.rules.contains_key(name) {
            return;
        }
        let Some(form) = self.memory.rules.get(name).cloned() else {
            return;
        };
        let watch = &form.spec.watch;
        let found = self.find(&watch.group, &watch.kind, definitions).await;
        let (given, mut unseen) = (form.given(given.key.clone()), RuleVerdict::default());
        self.compile(name, &given, &form.spec, NotServed::known(&found), &mut unseen);
    }

    /// The form in force; if there is none, what is asked for.
    fn watching<'a>(&'a self, name: &str, given: &'a Given<RuleSpec>) -> Option<&'a RuleSpec> {
        let good = self.rules.get(name);
        good.map(|good| &good.form.spec).or(given.spec.as_ref().ok())
    }

    /// Asks for what the form in force watches; for nothing if there is none, but says what that would be.
    fn ask_for(
        &self,
        name: &str,
        found: &Result<Found, NotServed>,
        verdict: &mut RuleVerdict,
        planned: &mut Planned,
    ) {
        if let Err(not) = found {
            planned.is_unsettled = true;
            verdict.not_served = Some(not.reason.clone());
        }
        let Some(found) = NotServed::known(found) else {
            return;
        };
        let good = self.rules.get(name);
        let collection = CollectionName::new(found.names.group.as_str(), found.names.plural.as_str());
        verdict.collection = Some(collection.to_string());
        let part = good.map_or_else(SelectionPart::everything, |good| seen_by(&good.compiled));
        let scoped = self.scoped(found, &collection, &part);
        verdict.problems.extend(scoped.problem);
        for (collection, part) in scoped.parts {
            verdict.captured.push(collection.to_string());
            // A rule that was never right asks for nothing.
            if good.is_some() {
                planned.ask(collection, &found.names).selection.add(part);
            }
        }
    }

    fn in_force(
        &self,
        given: &Given<RuleSpec>,
        good: &GoodRule,
        is_lacking: bool,
        verdict: &mut RuleVerdict,
        planned: &Planned,
    ) -> PlannedRule {
        let is_held = verdict.forbidden.is_some() || is_lacking;
        verdict.in_force = (!is_held).then_some(good.form.generation);
        verdict.compiled = Some(good.compiled.clone());
        verdict.existing = good.form.spec.existing;
        let mut rule = planned_rule(given, good, &self.sinks);
        // It stands still instead of being left out: what it has not looked at yet, and what is pending, waits.
        rule.suspend |= is_held;
        let missing = rule
            .actions
            .iter()
            .filter(|sink| !planned.plan.sinks.contains_key(*sink));
        verdict.missing_sinks = missing.cloned().collect();
        rule
    }

    /// Puts a rule in force if nothing is wrong with it; adds to what is.
    fn compile(
        &mut self,
        name: &str,
        given: &Given<RuleSpec>,
        spec: &RuleSpec,
        found: Option<&Found>,
        verdict: &mut RuleVerdict,
    ) {
        let key = &given.key;
        let origin = match given.is_from_file {
            true => Origin::file(key.namespace.as_str(), key.name.as_str()),
            false => Origin::cluster(key.namespace.as_str(), key.name.as_str()),
        };
        let schema = found.and_then(|found| found.schema.as_ref());
        match CompiledRule::compile(origin, spec, schema) {
            Ok(compiled) => {
                let namespaces = compiled.namespaces().unwrap_or_default();
                let problem = found.and_then(|found| self.scope_problem(found, given, namespaces));
                verdict.problems.extend(problem);
                if !verdict.problems.is_empty() {
                    return;
                }
                let generation = lasting_generation(given.is_from_file, given.generation, spec);
                let compiled = compiled.with_generation(generation);
                let compiled = match found {
                    Some(found) => compiled.with_names(found.names.clone()),
                    None => compiled,
                };
                let good = GoodRule {
                    form: Form::of(given, spec),
                    compiled: Arc::new(compiled),
                };
                self.rules.insert(name.to_owned(), good);
            }
            Err(problems) => verdict.problems.extend(problems.iter().map(ToString::to_string)),
        }
    }

    /// Whether the rule in force may read what it watches, if it acts as a service account.
    async fn review(
        &mut self,
        name: &str,
        given: &Given<RuleSpec>,
        collection: Option<&str>,
    ) -> Result<(), Forbidden> {
        let (Some(good), Some(client)) = (self.rules.get(name), &self.around.client) else {
            return Ok(());
        };
        let Some(account) = account(given, &good.form.spec) else {
            return Ok(());
        };
        let collection = collection.map_or_else(
            || CollectionName::new(&good.form.spec.watch.group, &good.form.spec.watch.kind),
            CollectionName::from,
        );
        let reading = Reading {
            account,
            group: collection.group,
            plural: collection.resource,
            namespaces: self.looked_at(good.compiled.namespaces().unwrap_or_default()),
            is_local: !self.around.namespaces.is_empty(),
        };
        if reading.is_local && reading.namespaces.is_empty() {
            // Nothing that it watches is looked at.
            return Ok(());
        }
        self.reviews.check(name, reading, client).await
    }
}

impl Planned {
    /// What is asked for of a collection, once for all who ask.
    fn ask(&mut self, name: CollectionName, kind: &KindNames) -> &mut Asked {
        if !self.kinds.contains(kind) {
            self.kinds.push(kind.clone());
        }
        let at = self.asked.iter().position(|one| one.name == name);
        let at = at.unwrap_or_else(|| {
            self.asked.push(Asked {
                name,
                selection: Selection::nothing(),
                redact: Vec::new(),
            });
            self.asked.len() - 1
        });
        &mut self.asked[at]
    }
}

/// What a rule must know: its namespaces, but all labels, since it tells what enters and leaves its selector.
fn seen_by(rule: &CompiledRule) -> SelectionPart {
    SelectionPart {
        namespaces: rule.namespaces().unwrap_or_default().to_vec(),
        labels: LabelSelector::everything(),
    }
}

fn planned_rule(given: &Given<RuleSpec>, good: &GoodRule, sinks: &BTreeMap<String, GoodSink>) -> PlannedRule {
    let form = &good.form;
    let generation = lasting_generation(given.is_from_file, form.generation, &form.spec);
    let planned = PlannedRule::compiled(good.compiled.clone(), &form.spec, generation);
    let writes = |sink: &String| sinks.get(sink).is_some_and(|good| good.spec.kubernetes.is_some());
    PlannedRule {
        writes_objects: planned.actions.iter().any(writes),
        evaluator: Arc::new(InForce::new(
            good.compiled.clone(),
            account(given, &form.spec),
            fit::confined_to(given, &form.spec).map(|namespace| Confined {
                namespace: namespace.to_owned(),
                writes: planned.actions.iter().map(writes).collect(),
            }),
        )),
        uid: given.uid.clone(),
        since: given.created,
        ..planned
    }
}

/// As whom a rule acts, if not as Skopos itself.
fn account(given: &Given<RuleSpec>, spec: &RuleSpec) -> Option<ServiceAccount> {
    let name = spec.service_account_name.clone()?;
    let namespace = given.key.namespace.to_string();
    Some(ServiceAccount { namespace, name })
}

/// By which it is noticed, also after a restart, that a rule is another one. Files do not count their generations.
fn lasting_generation(is_from_file: bool, generation: i64, spec: &RuleSpec) -> i64 {
    if !is_from_file {
        return generation;
    }
    let text = serde_json::to_vec(spec).unwrap_or_default();
    let hash = text.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    i64::from((hash >> 32) as u32)
}

/// An error with all its causes, on one line.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text += &format!(": {error}");
        cause = error.source();
    }
    text
}
