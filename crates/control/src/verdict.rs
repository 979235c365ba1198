//! What became of what was asked for.

use std::{collections::BTreeMap, sync::Arc};

use skopos_api::Existing;
use skopos_react::rule::CompiledRule;

use crate::Forbidden;

/// What became of everything that was asked for, at one moment.
#[derive(Clone, Debug, Default)]
pub struct Verdicts {
    /// Rules by name, as `namespace/name`.
    pub rules: BTreeMap<String, RuleVerdict>,
    /// Sinks by name.
    pub sinks: BTreeMap<String, SinkVerdict>,
    /// Records by name.
    pub records: BTreeMap<String, RecordVerdict>,
    /// What could not be read at all, in words.
    pub unreadable: Vec<String>,
}

impl Verdicts {
    /// Logs what is wrong now and was not before: what comes from files has no status to show it.
    pub(crate) fn log_news(&self, before: &Self) {
        for problem in self
            .unreadable
            .iter()
            .filter(|one| !before.unreadable.contains(one))
        {
            tracing::warn!(problem, "a file cannot be used");
        }
        for (rule, verdict) in &self.rules {
            let known = before.rules.get(rule).map(|one| &one.problems);
            if !verdict.problems.is_empty() && known != Some(&verdict.problems) {
                tracing::warn!(
                    rule,
                    problems = verdict.problems.join("; "),
                    "a rule cannot be used"
                );
            }
        }
        self.log_forbidden(before);
        self.log_records(before);
        for (sink, verdict) in &self.sinks {
            let known = before.sinks.get(sink).and_then(|one| one.problem.as_ref());
            if let Some(problem) = verdict.problem.as_ref().filter(|one| known != Some(one)) {
                tracing::warn!(sink, problem, "a sink cannot be used");
            }
        }
    }

    fn log_records(&self, before: &Self) {
        for (record, verdict) in &self.records {
            let known = before.records.get(record).map(|one| &one.problems);
            if !verdict.problems.is_empty() && known != Some(&verdict.problems) {
                let problems = verdict.problems.join("; ");
                tracing::warn!(record, problems, "a record cannot be used");
            }
        }
    }

    fn log_forbidden(&self, before: &Self) {
        for (rule, verdict) in &self.rules {
            let known = before.rules.get(rule).and_then(|one| one.forbidden.as_ref());
            match (&verdict.forbidden, known) {
                (Some(now), known) if known != Some(now) => {
                    tracing::warn!(
                        rule,
                        reason = now.reason,
                        problem = now.message,
                        "a rule stands still"
                    );
                }
                (None, Some(_)) => tracing::info!(rule, "a rule goes on: its service account may read now"),
                _ => {}
            }
        }
    }
}

/// What became of a rule.
#[derive(Clone, Debug, Default)]
pub struct RuleVerdict {
    /// Which generation of it was looked at.
    pub generation: i64,
    /// Which generation is in force; an older one while the newest has problems.
    pub in_force: Option<i64>,
    /// What is wrong with the newest.
    pub problems: Vec<String>,
    /// Sinks that it names and that are not there or not usable.
    pub missing_sinks: Vec<String>,
    /// Why the service account of the rule keeps it from being in force.
    pub forbidden: Option<Forbidden>,
    /// What it watches, as `plural.group`; nothing while nothing serves it that ever was captured.
    pub collection: Option<String>,
    /// What is captured for it: that, or each namespace of it that is looked at.
    pub captured: Vec<String>,
    /// Why nothing is watched.
    pub not_served: Option<String>,
    /// The rule that is in force.
    pub compiled: Option<Arc<CompiledRule>>,
    /// What it says of objects that were there before it.
    pub existing: Existing,
}

/// What became of a sink.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SinkVerdict {
    /// Which generation of it was looked at.
    pub generation: i64,
    /// Which generation is in force.
    pub in_force: Option<i64>,
    /// What is wrong with the newest.
    pub problem: Option<String>,
}

/// What became of a record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordVerdict {
    /// Which generation of it was looked at.
    pub generation: i64,
    /// What is kept, as `plural.group`.
    pub collections: Vec<String>,
    /// What is wrong.
    pub problems: Vec<String>,
    /// What it names and is not served.
    pub not_served: Vec<String>,
    /// Which generation is in force; an older one while the newest has problems.
    pub in_force: Option<i64>,
}
