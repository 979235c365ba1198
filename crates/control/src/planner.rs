//! From what was asked for to what is in force. What is wrong is set aside with the reason, and the rest goes on.

mod fit;
mod records;
mod scope;
mod sinks;

use std::{collections::BTreeMap, ffi::OsString, sync::Arc, time::Duration};

use skopos_api::RuleSpec;
use skopos_client::{Client, ServiceAccount};
use skopos_journal::{Asked, Retention, Selection, SelectionPart};
use skopos_object::{CollectionName, Collections, LabelSelector, Object};
use skopos_react::{
    Plan, PlannedRule,
    rule::{CompiledRule, KindNames, Origin},
};
use skopos_schema::Structural;
use skopos_sink::Allowed;

use self::{
    records::GoodRecord,
    sinks::{GoodSink, Looks},
};
use crate::{
    Forbidden, Kinds, RuleVerdict, Verdicts,
    access::{Reading, Reviews},
    definitions,
    in_force::InForce,
    kinds::Given,
};

/// What surrounds rules and sinks.
#[derive(Clone, Debug)]
pub(crate) struct Surroundings {
    pub(crate) client: Option<Client>,
    pub(crate) collections: Arc<dyn Collections>,
    /// What sinks of a cluster may do on this machine; those from files may do all.
    pub(crate) allowed: Allowed,
    pub(crate) search_path: Option<OsString>,
    pub(crate) env: fn(&str) -> Option<String>,
    pub(crate) retention: Retention,
    /// How often the values that sinks name are looked at.
    pub(crate) look_every: Duration,
    /// How often the rights of service accounts are looked at.
    pub(crate) review_every: Duration,
    /// The namespaces that are looked at; all if there are none.
    pub(crate) namespaces: Vec<String>,
}

/// Makes plans, and remembers what was good.
#[derive(Debug)]
pub(crate) struct Planner {
    around: Surroundings,
    rules: BTreeMap<String, GoodRule>,
    sinks: BTreeMap<String, GoodSink>,
    reviews: Reviews,
    records: BTreeMap<String, GoodRecord>,
    looks: Looks,
}

#[derive(Clone, Debug)]
struct GoodRule {
    generation: i64,
    spec: RuleSpec,
    compiled: Arc<CompiledRule>,
}

/// What is to be in force.
#[derive(Debug)]
pub(crate) struct Planned {
    pub(crate) plan: Plan,
    pub(crate) asked: Vec<Asked>,
    pub(crate) retention: Retention,
    pub(crate) verdicts: Verdicts,
    /// Whether something may be better when looked at again.
    pub(crate) is_unsettled: bool,
}

/// A kind that is served.
struct Found {
    names: KindNames,
    version: Option<String>,
    namespaced: bool,
    schema: Option<Structural>,
}

impl Planner {
    pub(crate) fn new(around: Surroundings) -> Self {
        Self {
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

    pub(crate) async fn plan(&mut self, kinds: &Kinds, definitions: &[Object]) -> Planned {
        let mut planned = Planned {
            plan: Plan {
                complete: true,
                ..Plan::default()
            },
            asked: Vec::new(),
            retention: self.around.retention.clone(),
            verdicts: Verdicts {
                unreadable: kinds.unreadable.clone(),
                ..Verdicts::default()
            },
            is_unsettled: false,
        };
        self.rules.retain(|name, _| kinds.rules.contains_key(name));
        self.sinks.retain(|name, _| kinds.sinks.contains_key(name));
        self.reviews.retain(|name| kinds.rules.contains_key(name));
        self.records.retain(|name, _| kinds.records.contains_key(name));
        self.plan_sinks(&kinds.sinks, &mut planned).await;
        for (name, given) in &kinds.records {
            self.plan_record(name, given, definitions, &mut planned).await;
        }
        for (name, given) in &kinds.rules {
            self.plan_rule(name, given, definitions, &mut planned).await;
        }
        planned
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
        match &given.spec {
            Ok(spec) => {
                let watch = &spec.watch;
                let found = self.find(&watch.group, &watch.kind, definitions).await;
                if let Ok(found) = &found {
                    match self.version_problem(found, watch.version.as_deref()).await {
                        Ok(problem) => verdict.problems.extend(problem),
                        Err(()) => planned.is_unsettled = true,
                    }
                }
                verdict.problems.extend(self.missing_templates(given, spec));
                self.compile(name, given, spec, found.as_ref().ok(), &mut verdict);
                match found {
                    Ok(found) => {
                        let collection =
                            CollectionName::new(found.names.group.as_str(), found.names.plural.as_str());
                        verdict.collection = Some(collection.to_string());
                        let good = self.rules.get(name);
                        let part =
                            good.map_or_else(SelectionPart::everything, |good| seen_by(&good.compiled));
                        let scoped = self.scoped(&found, &collection, &part);
                        verdict.problems.extend(scoped.problem);
                        for (collection, part) in scoped.parts {
                            verdict.captured.push(collection.to_string());
                            // A rule that was never right asks for nothing.
                            if good.is_some() {
                                ask(&mut planned.asked, collection).selection.add(part);
                            }
                        }
                    }
                    Err(reason) => {
                        planned.is_unsettled = true;
                        verdict.not_served = Some(reason);
                    }
                }
            }
            Err(problem) => verdict.problems.push(problem.clone()),
        }
        verdict.forbidden = self
            .review(name, given, verdict.collection.as_deref())
            .await
            .err();
        if let Some(good) = self.rules.get(name) {
            // Its sink may have become one that writes objects after the rule was good.
            let is_lacking = !self.missing_templates(given, &good.spec).is_empty();
            let is_held = verdict.forbidden.is_some() || is_lacking;
            verdict.in_force = (!is_held).then_some(good.generation);
            verdict.compiled = Some(good.compiled.clone());
            verdict.existing = good.spec.existing;
            let mut rule = planned_rule(given, good, &self.sinks);
            // It stands still instead of being left out: what it has not looked at yet, and what is pending, waits.
            rule.suspend |= is_held;
            let missing = rule
                .actions
                .iter()
                .filter(|sink| !planned.plan.sinks.contains_key(*sink));
            verdict.missing_sinks = missing.cloned().collect();
            planned.plan.rules.insert(name.to_owned(), rule);
        }
        planned.verdicts.rules.insert(name.to_owned(), verdict);
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
                    generation: given.generation,
                    spec: spec.clone(),
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
        let Some(account) = account(given, &good.spec) else {
            return Ok(());
        };
        let collection = collection.map_or_else(
            || CollectionName::new(&good.spec.watch.group, &good.spec.watch.kind),
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

    /// Finds what serves a kind, by any of its names.
    async fn find(&self, group: &str, kind: &str, definitions: &[Object]) -> Result<Found, String> {
        if let Some(defined) = definitions::find(definitions, group, kind, None) {
            return Ok(Found {
                names: defined.names,
                version: None,
                namespaced: defined.namespaced,
                schema: defined.schema,
            });
        }
        let name = CollectionName::new(group, kind);
        let found = self.around.collections.open(&name).await;
        let found = found.map_err(|error| chain(&error))?;
        Ok(Found {
            names: KindNames {
                group: group.into(),
                singular: found.kind.kind.to_lowercase(),
                kind: found.kind.kind,
                plural: found.plural,
                short_names: Vec::new(),
            },
            version: Some(found.kind.version),
            namespaced: found.namespaced,
            schema: None,
        })
    }
}

/// What is asked for of a collection, once for all who ask.
fn ask(all: &mut Vec<Asked>, name: CollectionName) -> &mut Asked {
    let at = all.iter().position(|one| one.name == name).unwrap_or_else(|| {
        all.push(Asked {
            name,
            selection: Selection::nothing(),
            redact: Vec::new(),
        });
        all.len() - 1
    });
    &mut all[at]
}

/// What a rule must know: its namespaces, but all labels, since it tells what enters and leaves its selector.
fn seen_by(rule: &CompiledRule) -> SelectionPart {
    SelectionPart {
        namespaces: rule.namespaces().unwrap_or_default().to_vec(),
        labels: LabelSelector::everything(),
    }
}

fn planned_rule(given: &Given<RuleSpec>, good: &GoodRule, sinks: &BTreeMap<String, GoodSink>) -> PlannedRule {
    let generation = lasting_generation(given.is_from_file, good.generation, &good.spec);
    let planned = PlannedRule::compiled(good.compiled.clone(), &good.spec, generation);
    let writes = |sink: &String| sinks.get(sink).is_some_and(|good| good.spec.kubernetes.is_some());
    PlannedRule {
        writes_objects: planned.actions.iter().any(writes),
        evaluator: Arc::new(InForce::new(
            good.compiled.clone(),
            given.created,
            account(given, &good.spec),
        )),
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
