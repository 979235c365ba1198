//! Which objects and which changes a rule is about, before anything is evaluated.

use serde_json::Value;
use skopos_api::{Event, Fields, Watch};
use skopos_journal::{Entry, REDACTED};
use skopos_object::{LabelSelector, Object, Op};

use super::{
    path::FieldPattern,
    problem::Problem,
    subject::{Changed, Subject},
};

/// The names of a kind, by which a rule may call it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KindNames {
    /// The group; empty for the core group.
    pub group: String,
    /// The kind, such as `Deployment`.
    pub kind: String,
    /// The plural, such as `deployments`.
    pub plural: String,
    /// The singular, such as `deployment`.
    pub singular: String,
    /// Short names, such as `deploy`.
    pub short_names: Vec<String>,
}

impl KindNames {
    /// Whether a rule that watches `group` and `name` means this kind.
    pub fn is_meant_by(&self, group: &str, name: &str) -> bool {
        let mut names = [&self.kind, &self.plural, &self.singular]
            .into_iter()
            .chain(&self.short_names);
        self.group == group && names.any(|own| own == name)
    }
}

/// Which namespaces a rule sees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Namespaces {
    All,
    These(Vec<String>),
}

impl Namespaces {
    pub(crate) fn contain(&self, namespace: &str) -> bool {
        match self {
            Self::All => true,
            Self::These(names) => names.iter().any(|name| name == namespace),
        }
    }
}

/// The checked `watch` of a rule.
#[derive(Debug)]
pub(crate) struct Scope {
    pub(crate) group: String,
    pub(crate) version: Option<String>,
    /// What the rule calls the kind.
    pub(crate) kind: String,
    /// The names of the kind, once someone knows them.
    pub(crate) names: Option<KindNames>,
    pub(crate) events: Vec<Event>,
    pub(crate) namespaces: Namespaces,
    pub(crate) selector: LabelSelector,
    pub(crate) match_fields: Vec<(FieldPattern, String)>,
}

impl Scope {
    pub(crate) fn compile(watch: &Watch, namespaces: Namespaces) -> Result<Self, Vec<Problem>> {
        let mut problems = Vec::new();
        let selector = match &watch.selector {
            None => Ok(LabelSelector::everything()),
            Some(selector) => {
                let json = serde_json::to_value(selector).unwrap_or_default();
                LabelSelector::from_match(&json)
            }
        };
        let selector = selector.unwrap_or_else(|error| {
            problems.push(Problem::new("spec.watch.selector", error.to_string(), ""));
            LabelSelector::nothing()
        });
        let mut match_fields = Vec::new();
        for (path, value) in &watch.match_fields {
            match path.parse() {
                Ok(pattern) => match_fields.push((pattern, value.clone())),
                Err(error) => problems.push(bad_path("spec.watch.matchFields", &error)),
            }
        }
        let scope = Self {
            group: watch.group.clone(),
            version: watch.version.clone(),
            kind: watch.kind.clone(),
            names: None,
            events: watch.events.clone(),
            namespaces,
            selector,
            match_fields,
        };
        match problems.is_empty() {
            true => Ok(scope),
            false => Err(problems),
        }
    }

    /// Whether an entry is of the kind that is watched.
    pub(crate) fn is_kind(&self, entry: &Entry) -> bool {
        let kind = &entry.kind;
        let known = self.names.as_ref();
        let named = self.kind == kind.kind
            || self.kind == entry.plural
            || self.kind == kind.kind.to_lowercase()
            || known.is_some_and(|names| names.kind == kind.kind);
        let version = self.version.as_ref();
        kind.group == self.group && named && version.is_none_or(|version| *version == kind.version)
    }

    pub(crate) fn is_event(&self, op: Op) -> bool {
        let event = event(op);
        self.events.is_empty() || self.events.contains(&event)
    }

    /// An object that leaves the selection is still told: its old state counts too.
    pub(crate) fn is_selected(&self, entry: &Entry) -> bool {
        let states = [&entry.after, &entry.before];
        let mut states = states.into_iter().flatten();
        states.any(|object: &Object| object.is_selected_by(&self.selector))
    }

    /// The first condition on a field that neither state meets.
    pub(crate) fn unmet_field(&self, subject: &Subject<'_>) -> Option<&(FieldPattern, String)> {
        let meets = |state: Option<&Value>, (path, value): &(FieldPattern, String)| {
            state.is_some_and(|state| path.any(state, &|found| is_text(found, value)))
        };
        let mut conditions = self.match_fields.iter();
        conditions.find(|condition| !meets(subject.after(), condition) && !meets(subject.before(), condition))
    }
}

fn is_text(value: &Value, text: &str) -> bool {
    match value {
        Value::String(own) => own == text,
        Value::Number(number) => number.to_string() == text,
        Value::Bool(own) => text.parse() == Ok(*own),
        _ => false,
    }
}

pub(crate) fn event(op: Op) -> Event {
    match op {
        Op::Created => Event::Created,
        Op::Updated => Event::Updated,
        Op::Deleted => Event::Deleted,
    }
}

fn bad_path(field: &str, error: &impl ToString) -> Problem {
    Problem::new(
        field,
        error.to_string(),
        "write paths as in spec.containers[*].image",
    )
}

/// What changes without anything having happened.
const NOISE: [&str; 8] = [
    "metadata.resourceVersion",
    "metadata.generation",
    "metadata.managedFields",
    "status.conditions[*].lastHeartbeatTime",
    "status.conditions[*].lastProbeTime",
    "status.lastHeartbeatTime",
    "status.lastProbeTime",
    "spec.renewTime",
];

/// Of these, what an update changes whatever it is about.
const EVERY_UPDATE: [&str; 2] = ["metadata.resourceVersion", "metadata.generation"];

/// The checked `fields` of a rule: which changed fields count.
#[derive(Debug)]
pub(crate) struct FieldFilter {
    include: Vec<FieldPattern>,
    ignore: Vec<FieldPattern>,
}

impl FieldFilter {
    pub(crate) fn compile(fields: &Fields) -> Result<Self, Vec<Problem>> {
        let mut problems = Vec::new();
        let mut read = |paths: &[String], name: &str| -> Vec<FieldPattern> {
            let mut patterns = Vec::new();
            for (index, path) in paths.iter().enumerate() {
                match path.parse() {
                    Ok(pattern) => patterns.push(pattern),
                    Err(error) => problems.push(bad_path(&format!("spec.fields.{name}[{index}]"), &error)),
                }
            }
            patterns
        };
        let include = read(&fields.include, "include");
        let mut ignore = read(&fields.ignore, "ignore");
        // Who asks for such a field by name gets it.
        let noise = NOISE.iter().filter_map(|path| path.parse().ok());
        ignore.extend(noise.filter(|noise| !include.iter().any(|include| include.is_within(noise))));
        match problems.is_empty() {
            true => Ok(Self { include, ignore }),
            false => Err(problems),
        }
    }

    /// The changed fields that count.
    pub(crate) fn counting<'s>(&'s self, changed: &'s [Changed]) -> impl Iterator<Item = &'s Changed> {
        changed.iter().filter(|changed| {
            let is_in = |patterns: &[FieldPattern]| {
                let mut patterns = patterns.iter();
                patterns.any(|pattern| pattern.touches(&changed.parts, &changed.change))
            };
            let covered = || {
                let mut patterns = self.ignore.iter();
                patterns.any(|pattern| pattern.covers(&changed.parts))
            };
            (self.include.is_empty() || is_in(&self.include)) && !covered()
        })
    }
}

impl FieldFilter {
    /// Whether a change that counts may be in what was left out: an update changed nothing but what every update does,
    /// and there are redacted values that count.
    pub(crate) fn may_hide(&self, subject: &Subject<'_>) -> bool {
        let every_update = |changed: &Changed| EVERY_UPDATE.contains(&changed.change.path.as_str());
        let Some(after) = subject
            .after()
            .filter(|_| subject.changed().iter().all(every_update))
        else {
            return false;
        };
        let hit = |patterns: &[FieldPattern]| patterns.iter().any(|path| path.any(after, &is_redacted));
        match self.include.is_empty() {
            true => is_redacted(after) && !hit(&self.ignore),
            false => hit(&self.include) && !hit(&self.ignore),
        }
    }
}

/// Whether a value, or one within it, was left out.
fn is_redacted(value: &Value) -> bool {
    match value {
        Value::String(text) => text == REDACTED,
        Value::Array(items) => items.iter().any(is_redacted),
        Value::Object(fields) => fields.values().any(is_redacted),
        _ => false,
    }
}

/// The changed fields without what the server keeps for itself.
pub(crate) fn without_noise(changed: &[Changed]) -> impl Iterator<Item = &Changed> {
    let noise: Vec<FieldPattern> = NOISE.iter().filter_map(|path| path.parse().ok()).collect();
    changed
        .iter()
        .filter(move |changed| !noise.iter().any(|pattern| pattern.covers(&changed.parts)))
}
