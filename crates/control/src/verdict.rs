//! What became of what was asked for.

use std::{collections::BTreeMap, sync::Arc};

use skopos_react::rule::CompiledRule;

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
    /// What it watches, as `plural.group`; nothing while nothing is served by that name.
    pub collection: Option<String>,
    /// Why nothing is watched.
    pub not_served: Option<String>,
    /// The rule that is in force.
    pub compiled: Option<Arc<CompiledRule>>,
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
}
