//! Why did a rule fire, or not?

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use skopos_journal::{Entry, Log as _, Observed, Seq, Wanted};
use skopos_react::rule::{EdgeState, Explanation, Subject};

use crate::ConditionView;

use super::{Admin, ChangeName, ChangeView, Question, Refusal, changes::Walk, rules::GivenRule};

/// Changes that are looked at to say what a rule has seen lately.
const RECENT: usize = 5;
/// To find them, so many of the newest changes are looked at.
const RECENT_SPAN: u64 = 20_000;
/// Changes read at a time.
const CHUNK: usize = 200;

/// Why did a rule fire for a change, or not? Without a change: what does a rule make of the newest ones?
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Explain {
    /// The number or the id of a change, or the id of a delivery.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub change: Option<String>,
    /// A rule in force, as `namespace/name`; unless given that of the delivery, or else all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// A rule in YAML instead, whether or not it is in force.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub try_rule: Option<String>,
    /// Definitions to check that rule against.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub definitions: Vec<Value>,
    /// Treat that rule as one of the cluster, which sees only its own namespace.
    #[serde(default)]
    pub in_cluster: bool,
}

/// Why rules fired for changes, or not.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Explained {
    /// The change, if one was asked about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub change: Option<ChangeView>,
    /// Each rule with each change.
    pub explanations: Vec<ExplanationView>,
    /// If a rule in force was asked about: how it is doing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<ConditionView>,
}

/// Why a rule fired for a change, or not.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ExplanationView {
    /// The rule, as `namespace/name`.
    pub rule: String,
    /// The number of the change.
    pub seq: u64,
    /// The id of the change.
    pub change: String,
    /// Whether it matched.
    pub matched: bool,
    /// What was asked, in order; the first that failed decided.
    pub steps: Vec<StepView>,
}

/// One thing that was asked of a change.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StepView {
    /// What.
    pub name: String,
    /// Whether it was so.
    pub passed: bool,
    /// What was wanted and what was found.
    pub detail: String,
    /// The values that decided, as (expression or path, value).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<(String, String)>,
}

impl Question for Explain {
    const NAME: &'static str = "explain";
    type Answer = Explained;

    async fn answer(&self, admin: &Admin) -> Result<Explained, Refusal> {
        let Some(change) = &self.change else {
            return self.recent(admin, &self.rules(admin)?).await;
        };
        let entry = admin.find_change(change).await?;
        let rules = self.rules(admin)?;
        let mut explanations = Vec::new();
        for rule in rules.values() {
            explanations.push(admin.explain(rule, &entry).await?);
        }
        Ok(Explained {
            change: Some(ChangeView::new(&entry, &[])),
            explanations,
            conditions: Vec::new(),
        })
    }
}

impl Explain {
    fn rules(&self, admin: &Admin) -> Result<BTreeMap<String, GivenRule>, Refusal> {
        match (&self.try_rule, &self.rule) {
            (Some(text), _) => {
                let rule = admin.tried_rule(text, &self.definitions, !self.in_cluster)?;
                Ok(BTreeMap::from([(rule.compiled.name(), rule)]))
            }
            (None, Some(name)) => Ok(BTreeMap::from([admin.rule(name)?])),
            (None, None) if self.change.is_none() => {
                Err(Refusal::bad("explain what? Name a change or a rule"))
            }
            (None, None) => {
                let name = self.change.as_deref().and_then(ChangeName::parse);
                match name.and_then(|name| name.rule) {
                    Some(rule) => Ok(BTreeMap::from([admin.rule(&rule)?])),
                    None => admin.rules(),
                }
            }
        }
    }

    /// What each rule makes of the newest changes of its kind.
    async fn recent(&self, admin: &Admin, rules: &BTreeMap<String, GivenRule>) -> Result<Explained, Refusal> {
        let mut explanations = Vec::new();
        for rule in rules.values() {
            let after = Seq(admin.journal().head().0.saturating_sub(RECENT_SPAN));
            let mut walk = Walk::new(rule.compiled.wanted(), after);
            let mut newest = Vec::new();
            while !walk.is_done {
                newest.extend(walk.next(admin, CHUNK).await?);
                let n_old = newest.len().saturating_sub(RECENT);
                newest.drain(..n_old);
            }
            for entry in &newest {
                explanations.push(admin.explain(rule, entry).await?);
            }
        }
        Ok(Explained {
            change: None,
            explanations,
            conditions: match (&self.rule, rules.keys().next()) {
                (Some(_), Some(name)) => admin.conditions().rules.remove(name).unwrap_or_default(),
                _ => Vec::new(),
            },
        })
    }
}

impl Admin {
    async fn explain(&self, rule: &GivenRule, entry: &Entry) -> Result<ExplanationView, Refusal> {
        let edge = self.edge_before(rule, entry).await?;
        let is_old_news = entry.observed == Observed::First && rule.existing == skopos_api::Existing::Ignore;
        let mut view = view(entry, rule.compiled.explain(&Subject::new(entry), edge.as_ref()));
        if is_old_news {
            view.matched = false;
            view.steps.push(StepView {
                name: "existing".into(),
                passed: false,
                detail: "the object was there before; the rule says `existing: ignore`".into(),
                values: Vec::new(),
            });
        }
        Ok(view)
    }

    /// What was kept of the object before a change: found by going through its earlier changes.
    async fn edge_before(&self, rule: &GivenRule, entry: &Entry) -> Result<Option<EdgeState>, Refusal> {
        if !rule.compiled.remembers() {
            return Ok(None);
        }
        let wanted = Wanted {
            source: Some(entry.source.clone()),
            kind: Some((entry.kind.group.clone(), entry.plural.clone())),
            namespace: Some(entry.key.namespace.to_string()),
            name: Some(entry.key.name.to_string()),
            ..Wanted::default()
        };
        let mut walk = Walk::new(wanted, Seq(0));
        let mut past = Past::new(rule);
        while !walk.is_done {
            for earlier in walk.next(self, CHUNK).await? {
                past.wake_until(earlier.at);
                if earlier.seq >= entry.seq {
                    return Ok(past.edge);
                }
                past.look(earlier);
            }
        }
        past.wake_until(entry.at);
        Ok(past.edge)
    }
}

/// A rule going through the changes of one object.
struct Past<'r> {
    rule: &'r GivenRule,
    edge: Option<EdgeState>,
    /// When its time comes if the object stays as this change made it.
    waiting: Option<(Timestamp, Entry)>,
}

impl<'r> Past<'r> {
    fn new(rule: &'r GivenRule) -> Self {
        Self {
            rule,
            edge: None,
            waiting: None,
        }
    }

    fn look(&mut self, entry: Entry) {
        let found = self.rule.evaluate(&entry, self.edge.as_ref());
        self.edge = found.edge;
        self.waiting = found.wake_at.map(|at| (at, entry));
    }

    fn wake_until(&mut self, now: Timestamp) {
        if let Some((at, entry)) = self.waiting.take().filter(|(at, _)| *at <= now) {
            let subject = Subject::new(&entry);
            let found = self
                .rule
                .compiled
                .evaluate_timer(&subject, self.edge.as_ref(), at.max(entry.at));
            self.edge = found.edge;
        }
    }
}

fn view(entry: &Entry, explanation: Explanation) -> ExplanationView {
    let steps = explanation.steps.into_iter().map(|step| StepView {
        name: step.name.to_owned(),
        passed: step.passed,
        detail: step.detail,
        values: step.values,
    });
    ExplanationView {
        rule: explanation.rule,
        seq: entry.seq.0,
        change: explanation.change,
        matched: explanation.matched,
        steps: steps.collect(),
    }
}
