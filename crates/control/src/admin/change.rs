//! One change, as it is shown.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use skopos_api::Event;
use skopos_journal::{Entry, Observed, Writer};
use skopos_object::{GroupResource, Object, Op, diff};

/// One change of one object.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ChangeView {
    /// Its number in the journal.
    pub seq: u64,
    /// What it is known by, to everyone, for ever.
    pub id: String,
    /// When it was written down.
    pub time: Timestamp,
    /// What happened.
    pub op: Event,
    /// Where the object lives.
    pub source: String,
    /// The kind, as `plural.group`.
    pub resource: String,
    /// The version and group of the kind.
    pub api_version: String,
    /// The kind.
    pub kind: String,
    /// The namespace; empty for an object that is in none.
    pub namespace: String,
    /// The name.
    pub name: String,
    /// Which of all that ever had this name.
    pub uid: String,
    /// The version after the change.
    pub resource_version: String,
    /// How it was observed.
    pub observed: Observation,
    /// If it was only found later: it happened after this and before `time`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_before: Option<Timestamp>,
    /// Who wrote, as far as managed fields tell.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub by: Vec<WriterView>,
    /// The state before, if it was asked for and there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<Value>,
    /// The state after, if it was asked for and there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<Value>,
    /// The fields that differ, if they were asked for; empty if the object came or went.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diff: Option<Vec<FieldDiff>>,
}

/// A field manager that took part in a change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WriterView {
    /// Its name.
    pub manager: String,
    /// `Apply` or `Update`.
    pub operation: String,
    /// Such as `status`; empty for the object itself.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub subresource: String,
}

/// How a change was observed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Observation {
    /// As it happened.
    Live,
    /// Late, but exactly.
    Resumed,
    /// By comparing a list with what was known.
    Relist,
    /// It was there when the kind was first looked at.
    First,
}

/// One field that differs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FieldDiff {
    /// Which.
    pub path: String,
    /// The value before; nothing if it was added.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub old: Option<Value>,
    /// The value after; nothing if it was removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub new: Option<Value>,
}

/// What of a change is told beside what is always told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Part {
    /// The state before.
    Before,
    /// The state after.
    After,
    /// The fields that differ, without those that only the server keeps.
    Diff,
}

impl ChangeView {
    pub(crate) fn new(entry: &Entry, parts: &[Part]) -> Self {
        let state = |part, object: &Option<Object>| {
            let object = object.as_ref().filter(|_| parts.contains(&part));
            object.map(Object::to_value)
        };
        Self {
            seq: entry.seq.0,
            id: entry.id().to_string(),
            time: entry.at,
            op: event(entry.op),
            source: entry.source.clone(),
            resource: GroupResource::new(entry.kind.group.clone(), entry.plural.clone()).to_string(),
            api_version: entry.kind.api_version(),
            kind: entry.kind.kind.clone(),
            namespace: entry.key.namespace.to_string(),
            name: entry.key.name.to_string(),
            uid: entry.uid.clone(),
            resource_version: entry.version.to_string(),
            observed: observation(entry.observed),
            not_before: not_before(entry.observed),
            by: entry.by.iter().map(WriterView::new).collect(),
            before: state(Part::Before, &entry.before),
            after: state(Part::After, &entry.after),
            diff: parts.contains(&Part::Diff).then(|| fields(entry)),
        }
    }
}

impl WriterView {
    fn new(writer: &Writer) -> Self {
        Self {
            manager: writer.manager.clone(),
            operation: writer.operation.clone(),
            subresource: writer.subresource.clone(),
        }
    }
}

pub(crate) fn event(op: Op) -> Event {
    match op {
        Op::Created => Event::Created,
        Op::Updated => Event::Updated,
        Op::Deleted => Event::Deleted,
    }
}

pub(crate) fn op(event: Event) -> Op {
    match event {
        Event::Created => Op::Created,
        Event::Updated => Op::Updated,
        Event::Deleted => Op::Deleted,
    }
}

fn observation(observed: Observed) -> Observation {
    match observed {
        Observed::Live => Observation::Live,
        Observed::Resumed => Observation::Resumed,
        Observed::Relist { .. } => Observation::Relist,
        Observed::First => Observation::First,
    }
}

pub(crate) fn not_before(observed: Observed) -> Option<Timestamp> {
    match observed {
        Observed::Relist { after } => Some(after),
        Observed::Live | Observed::Resumed | Observed::First => None,
    }
}

fn fields(entry: &Entry) -> Vec<FieldDiff> {
    let (Some(before), Some(after)) = (&entry.before, &entry.after) else {
        return Vec::new();
    };
    let changes = diff(&plain(before), &plain(after)).into_iter();
    changes
        .map(|change| FieldDiff {
            path: change.path,
            old: change.old,
            new: change.new,
        })
        .collect()
}

/// Without what only the server keeps and what follows from the rest.
fn plain(object: &Object) -> Value {
    let mut value = object.to_value();
    if let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) {
        for name in ["managedFields", "resourceVersion", "generation"] {
            metadata.remove(name);
        }
    }
    value
}
