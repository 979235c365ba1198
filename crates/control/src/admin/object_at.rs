//! What was an object at some time?

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use skopos_journal::{Entry, Log as _, Seq, Wanted};
use skopos_object::{Object, Op};

use super::{Admin, Question, Refusal, change::not_before, changes::Walk};

/// So many changes are read at a time.
const CHUNK: usize = 100;

/// What was an object at some time?
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ObjectAt {
    /// The kind: plural, kind, or either with its group.
    pub resource: String,
    /// The namespace. Without one the name must be the only one of its kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// The name.
    pub name: String,
    /// When.
    pub at: Timestamp,
}

/// What an object was at some time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectState {
    /// Whether it was there.
    pub presence: Presence,
    /// The object; if it was gone by then, the last state it had.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub object: Option<Value>,
    /// The change that made it so; nothing if that is no longer kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seq: Option<u64>,
    /// Since when it was so, as far as is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// If a change was only found later, it may have been different by then already.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uncertain: Option<Uncertain>,
}

/// Whether an object was there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Presence {
    /// It was there.
    Present,
    /// It was not.
    Absent,
    /// It cannot be told: its kind was not captured then, or the changes are no longer kept.
    Unknown,
}

/// A change that happened at some time within an interval.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Uncertain {
    /// Its number.
    pub seq: u64,
    /// It happened after this.
    pub after: Timestamp,
    /// It happened before this.
    pub until: Timestamp,
}

impl Question for ObjectAt {
    const NAME: &'static str = "object";
    type Answer = ObjectState;

    async fn answer(&self, admin: &Admin) -> Result<ObjectState, Refusal> {
        let wanted = Wanted {
            namespace: self.namespace.clone(),
            name: Some(self.name.clone()),
            ..admin.wanted(Some(&self.resource))?
        };
        let (before, after) = self.around(admin, &wanted).await?;
        let kept = match before {
            Some(entry) => Some(entry),
            // What made it so may be out of the log, but while the object exists its last change is kept.
            None => {
                let current = admin.journal().current(&wanted, None, 2).await?;
                self.only_one(current.iter().map(|entry| entry.key.namespace.to_string()))?;
                current.into_iter().find(|entry| entry.at <= self.at)
            }
        };
        if kept.is_none() && after.is_none() {
            let message = format!("there is no change of {} {:?}", self.resource, self.name);
            return Err(Refusal::not_found(message).hint("check the name and the namespace (-n)"));
        }
        Ok(state(kept.as_ref(), after.as_ref(), self.at))
    }
}

impl ObjectAt {
    /// The last change up to the time, and the first after it.
    async fn around(
        &self,
        admin: &Admin,
        wanted: &Wanted,
    ) -> Result<(Option<Entry>, Option<Entry>), Refusal> {
        let mut walk = Walk::new(wanted.clone(), Seq(0));
        let (mut before, mut namespace) = (None, None);
        while !walk.is_done {
            for entry in walk.next(admin, CHUNK).await? {
                let here = entry.key.namespace.to_string();
                self.only_one(namespace.iter().cloned().chain([here.clone()]))?;
                namespace = Some(here);
                if entry.at > self.at {
                    return Ok((before, Some(entry)));
                }
                before = Some(entry);
            }
        }
        Ok((before, None))
    }

    fn only_one(&self, namespaces: impl Iterator<Item = String>) -> Result<(), Refusal> {
        let mut names: Vec<String> = namespaces.collect();
        names.sort();
        names.dedup();
        match names.len() {
            0 | 1 => Ok(()),
            _ => {
                let message = format!("{:?} is in several namespaces: {}", self.name, names.join(", "));
                Err(Refusal::bad(message).hint("name one with -n"))
            }
        }
    }
}

/// What is known from the last change up to a time and the first after it.
fn state(before: Option<&Entry>, after: Option<&Entry>, at: Timestamp) -> ObjectState {
    let uncertain = after.and_then(|entry| {
        let since = not_before(entry.observed).filter(|since| *since <= at)?;
        Some(Uncertain {
            seq: entry.seq.0,
            after: since,
            until: entry.at,
        })
    });
    let (presence, object, source) = match (before, after) {
        (Some(entry), _) if entry.op == Op::Deleted => (Presence::Absent, entry.before.as_ref(), before),
        (Some(entry), _) => (Presence::Present, entry.after.as_ref(), before),
        (None, Some(entry)) => unseen(entry, at),
        (None, None) => (Presence::Unknown, None, None),
    };
    ObjectState {
        presence,
        object: object.map(Object::to_value),
        seq: source.map(|entry| entry.seq.0),
        since: source.map(|entry| entry.at),
        uncertain,
    }
}

/// What the first change that is kept says of the time before it.
fn unseen(entry: &Entry, at: Timestamp) -> (Presence, Option<&Object>, Option<&Entry>) {
    let object = entry.object();
    let created = object.and_then(|object| object.get(&["metadata", "creationTimestamp"]));
    let created: Option<Timestamp> = created.and_then(|time| time.as_str()?.parse().ok());
    let is_older = created.is_some_and(|created| at < created);
    let was_there_first = entry.observed == skopos_journal::Observed::First;
    match (entry.op, &entry.before) {
        _ if is_older => (Presence::Absent, None, None),
        (Op::Created, _) if was_there_first => (Presence::Unknown, None, None),
        (Op::Created, _) => (Presence::Absent, None, None),
        (_, Some(before)) => (Presence::Present, Some(before), None),
        (_, None) => (Presence::Unknown, None, None),
    }
}
