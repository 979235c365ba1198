//! The rules that questions are about: those in force, or one that is only tried.

use std::{collections::BTreeMap, fmt, path::Path, sync::Arc};

use serde_json::Value;
use skopos_api::{Existing, Resource, Rule, load};
use skopos_journal::{Capture, Entry, Log as _, Observed};
use skopos_react::Reactor;
use skopos_react::rule::{CompiledRule, EdgeState, Evaluation, Origin, Subject};
use tokio::sync::watch;

use super::{Admin, Reason, Refusal};
use crate::{
    Verdicts,
    conditions::Conditions,
    definitions::{is_definition_of, names, schema},
    planner::captured_names,
};

/// Gives the rules in force.
pub trait RuleProvider: Send + Sync + fmt::Debug {
    /// The rules by name, as `namespace/name`.
    fn rules(&self) -> BTreeMap<String, GivenRule>;

    /// What became of everything that was asked for, if that is known here.
    fn verdicts(&self) -> Option<Arc<Verdicts>> {
        None
    }
}

/// A rule with what its specification says besides what is compiled.
#[derive(Clone, Debug)]
pub struct GivenRule {
    /// The rule itself.
    pub compiled: Arc<CompiledRule>,
    /// What becomes of objects that were there before it.
    pub existing: Existing,
    /// How many matches a minute it may have, as far as a backtest needs it.
    pub max_per_minute: Option<u32>,
}

impl RuleProvider for watch::Receiver<Arc<Verdicts>> {
    fn rules(&self) -> BTreeMap<String, GivenRule> {
        let verdicts = self.borrow().clone();
        let in_force = verdicts.rules.iter().filter_map(|(name, verdict)| {
            let given = GivenRule {
                compiled: verdict.compiled.clone()?,
                existing: verdict.existing,
                max_per_minute: None,
            };
            Some((name.clone(), given))
        });
        in_force.collect()
    }

    fn verdicts(&self) -> Option<Arc<Verdicts>> {
        Some(self.borrow().clone())
    }
}

impl GivenRule {
    /// Compiles a rule. With the definition of its kind, names and types are checked.
    ///
    /// # Errors
    /// Everything that is wrong, for people.
    pub fn compile(origin: Origin, rule: &Rule, definition: Option<&Value>) -> Result<Self, Vec<String>> {
        let spec = &rule.spec;
        let schema = definition.and_then(|one| schema(one, spec.watch.version.as_deref()));
        let compiled = CompiledRule::compile(origin, spec, schema.as_ref())
            .map_err(|problems| problems.iter().map(ToString::to_string).collect::<Vec<_>>())?;
        let compiled = match definition.map(|one| names(&one["spec"])) {
            Some(names) => compiled.with_names(names),
            None => compiled,
        };
        Ok(Self {
            compiled: Arc::new(compiled),
            existing: spec.existing,
            max_per_minute: spec.limits.as_ref().map(|limits| limits.max_actions_per_minute),
        })
    }

    /// What it says about a change, with what was kept of the object.
    pub(crate) fn evaluate(&self, entry: &Entry, edge: Option<&EdgeState>) -> Evaluation {
        let subject = Subject::new(entry);
        // What was there before the kind was first looked at is no news, unless the rule says so.
        let is_old_news = entry.observed == Observed::First && self.existing == Existing::Ignore;
        match is_old_news {
            true => self.compiled.observe(&subject, edge),
            false => self.compiled.evaluate(&subject, edge),
        }
    }
}

impl Admin {
    /// Compiles a rule that somebody wants to try.
    pub(crate) fn tried_rule(
        &self,
        text: &str,
        definitions: &[Value],
        is_from_file: bool,
    ) -> Result<GivenRule, Refusal> {
        let rule = read_rule(text)?;
        let metadata = &rule.metadata;
        let namespace = metadata.namespace.clone().unwrap_or_else(|| "default".into());
        let name = metadata.name.clone().unwrap_or_default();
        let origin = match is_from_file {
            true => Origin::file(namespace, name),
            false => Origin::cluster(namespace, name),
        };
        let watch = &rule.spec.watch;
        let definition = definitions
            .iter()
            .find(|one| is_definition_of(one, &watch.group, &watch.kind));
        let mut given = GivenRule::compile(origin, &rule, definition)
            .map_err(|problems| Refusal::bad(problems.join("\n")).hint("correct the rule and try again"))?;
        if definition.is_none() {
            given = self.with_captured_names(given, &watch.group, &watch.kind);
        }
        Ok(given)
    }

    /// Tells the names of a captured kind, so that a rule that uses another of its names finds it.
    fn with_captured_names(&self, given: GivenRule, group: &str, kind: &str) -> GivenRule {
        let Some(names) = captured_names(&self.journal().collections(), group, kind) else {
            return given;
        };
        let Ok(compiled) = Arc::try_unwrap(given.compiled) else {
            unreachable!("just compiled, and nobody else has it");
        };
        GivenRule {
            compiled: Arc::new(compiled.with_names(names)),
            ..given
        }
    }

    /// The rules in force, or why they are not known.
    pub(crate) fn rules(&self) -> Result<BTreeMap<String, GivenRule>, Refusal> {
        let message = "no rules are in force here: no process runs on this data directory";
        let missing = || {
            Refusal::new(Reason::Unavailable, message)
                .hint("give the rule in a file with -f, or start skopos")
        };
        Ok(self.rules.as_ref().ok_or_else(missing)?.rules())
    }

    /// A rule that is there but not in force says why.
    fn refuse_rule_with_problems(&self, is_meant: &dyn Fn(&str) -> bool) -> Result<(), Refusal> {
        let verdicts = self.verdicts();
        let wrong = verdicts.iter().flat_map(|verdicts| &verdicts.rules);
        match wrong.into_iter().find(|(name, _)| is_meant(name)) {
            Some((name, verdict)) => {
                let problems = verdict.problems.join("; ");
                Err(
                    Refusal::not_found(format!("the rule {name} is not in force: {problems}"))
                        .hint("correct the rule, or try it with -f"),
                )
            }
            None => Ok(()),
        }
    }

    /// What became of everything that was asked for, if that is known here.
    pub(crate) fn verdicts(&self) -> Option<Arc<Verdicts>> {
        self.rules.as_ref().and_then(|rules| rules.verdicts())
    }

    /// The conditions of everything, as far as they are known here.
    pub(crate) fn conditions(&self) -> Conditions {
        let Some(verdicts) = self.verdicts() else {
            return Conditions::default();
        };
        let captures = self.capture.as_ref().map(Capture::status).unwrap_or_default();
        let status = self.reactor.as_ref().map(Reactor::status).unwrap_or_default();
        Conditions::new(&verdicts, &captures, &self.journal.holes(), &status)
    }

    /// A rule in force by its name, with or without its namespace.
    pub(crate) fn rule(&self, name: &str) -> Result<(String, GivenRule), Refusal> {
        let rules = self.rules()?;
        let is_meant =
            |known: &str| known == name || known.split_once('/').is_some_and(|(_, own)| own == name);
        let known: Vec<String> = rules.keys().cloned().collect();
        let mut found: Vec<_> = rules.into_iter().filter(|(known, _)| is_meant(known)).collect();
        match found.len() {
            0 => {
                self.refuse_rule_with_problems(&is_meant)?;
                let hint = match known.is_empty() {
                    true => "no rule is in force".to_owned(),
                    false => format!("in force are {}", known.join(", ")),
                };
                Err(Refusal::not_found(format!("there is no rule {name:?}")).hint(hint))
            }
            1 => Ok(found.remove(0)),
            _ => {
                let names: Vec<String> = found.into_iter().map(|(name, _)| name).collect();
                Err(Refusal::bad(format!("{name:?} may mean {}", names.join(" or ")))
                    .hint("write one of them"))
            }
        }
    }
}

/// The only rule of a text.
fn read_rule(text: &str) -> Result<Box<Rule>, Refusal> {
    let mut rules = Vec::new();
    for read in load(text, Path::new("rule")) {
        match read {
            Ok(loaded) => {
                if let Resource::Rule(rule) = loaded.resource {
                    rules.push(rule);
                }
            }
            Err(error) if matches!(error.trouble, skopos_api::Trouble::UnknownKind(..)) => {}
            Err(error) => return Err(Refusal::bad(error.to_string())),
        }
    }
    match rules.len() {
        1 => Ok(rules.remove(0)),
        0 => Err(Refusal::bad("there is no Rule in the text")),
        n => Err(Refusal::bad(format!("there are {n} Rules in the text: give one"))),
    }
}
