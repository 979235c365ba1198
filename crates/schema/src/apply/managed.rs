//! The entries of `metadata.managedFields`: read, written, sorted and kept few.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::Manager;
use super::set::FieldSet;
use crate::clock::{format_rfc3339, parse_rfc3339};

/// More managers than this that update are merged into one.
const MAX_UPDATE_MANAGERS: usize = 10;
const OLD_UPDATES: &str = "ancient-changes";

/// Who owns which fields.
#[derive(Debug, Clone, Default)]
pub(super) struct Managed {
    /// By [`Owner::id`].
    pub(super) owners: BTreeMap<String, Owner>,
    /// When an owner last changed something, in seconds.
    pub(super) times: BTreeMap<String, i64>,
}

/// One entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Owner {
    pub(super) manager: String,
    pub(super) operation: Operation,
    pub(super) api_version: String,
    pub(super) subresource: String,
    pub(super) set: FieldSet,
}

/// How an owner came to own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Operation {
    Apply,
    Update,
}

impl Operation {
    fn as_str(self) -> &'static str {
        match self {
            Operation::Apply => "Apply",
            Operation::Update => "Update",
        }
    }
}

impl Owner {
    /// What makes an entry the same entry. An applier keeps its entry when it changes its version.
    pub(super) fn id(&self) -> String {
        let mut parts = Vec::new();
        let mut part = |name: &str, value: &str| {
            if !value.is_empty() {
                parts.push(format!(
                    "\"{name}\":{}",
                    skopos_object::json::to_go_string(&value.into())
                ));
            }
        };
        part("manager", &self.manager);
        part("operation", self.operation.as_str());
        if self.operation == Operation::Update {
            part("apiVersion", &self.api_version);
        }
        part("subresource", &self.subresource);
        format!("{{{}}}", parts.join(","))
    }

    fn parse(entry: &Value) -> Option<(Owner, Option<i64>)> {
        let entry = entry.as_object()?;
        let text = |name: &str| match entry.get(name) {
            None | Some(Value::Null) => Some(String::new()),
            Some(value) => value.as_str().map(str::to_owned),
        };
        let operation = match text("operation")?.as_str() {
            "Apply" => Operation::Apply,
            "Update" => Operation::Update,
            _ => return None,
        };
        let api_version = text("apiVersion")?;
        if api_version.is_empty() || text("fieldsType")? != "FieldsV1" {
            return None;
        }
        let time = text("time")?;
        let time = if time.is_empty() {
            None
        } else {
            Some(parse_rfc3339(&time)?)
        };
        let set = match entry.get("fieldsV1") {
            None | Some(Value::Null) => FieldSet::default(),
            Some(fields) => FieldSet::parse(fields).ok()?,
        };
        let (manager, subresource) = (text("manager")?, text("subresource")?);
        Some((
            Owner {
                manager,
                operation,
                api_version,
                subresource,
                set,
            },
            time,
        ))
    }

    fn to_json(&self, time: Option<i64>) -> Value {
        let header = Header {
            manager: &self.manager,
            operation: self.operation,
            api_version: &self.api_version,
            subresource: &self.subresource,
            time,
        };
        header.entry(self.set.contents(false))
    }
}

/// All of an entry but its fields.
struct Header<'a> {
    manager: &'a str,
    operation: Operation,
    api_version: &'a str,
    subresource: &'a str,
    time: Option<i64>,
}

impl Header<'_> {
    fn entry(&self, fields: Map<String, Value>) -> Value {
        let mut entry = Map::new();
        let mut put = |name: &str, value: &str| {
            if !value.is_empty() {
                entry.insert(name.to_owned(), value.into());
            }
        };
        put("manager", self.manager);
        put("operation", self.operation.as_str());
        put("apiVersion", self.api_version);
        put("subresource", self.subresource);
        put("fieldsType", "FieldsV1");
        if let Some(time) = self.time {
            put("time", &format_rfc3339(time));
        }
        entry.insert("fieldsV1".to_owned(), Value::Object(fields));
        Value::Object(entry)
    }
}

/// The entry of a manager who creates an object with these fields.
pub(super) fn first_entry(manager: &Manager<'_>, fields: Map<String, Value>) -> Value {
    let header = Header {
        manager: name_of(manager),
        operation: Operation::Update,
        api_version: manager.api_version,
        subresource: manager.subresource,
        time: parse_rfc3339(manager.time),
    };
    header.entry(fields)
}

/// The name that a manager's entry has.
pub(super) fn name_of<'a>(manager: &Manager<'a>) -> &'a str {
    match manager.name {
        "" => "unknown",
        name => name,
    }
}

impl Managed {
    /// Reads the entries; none at all if one of them is broken.
    pub(super) fn parse(entries: Option<&Value>) -> Option<Managed> {
        let mut managed = Managed::default();
        let entries = match entries {
            None | Some(Value::Null) => return Some(managed),
            Some(entries) => entries.as_array()?,
        };
        for entry in entries {
            let (owner, time) = Owner::parse(entry)?;
            let id = owner.id();
            match time {
                Some(time) => managed.times.insert(id.clone(), time),
                None => managed.times.remove(&id),
            };
            managed.owners.insert(id, owner);
        }
        Some(managed)
    }

    /// The entries as kube-apiserver sorts them: appliers first, then by time and name.
    pub(super) fn to_json(&self) -> Option<Value> {
        if self.owners.is_empty() {
            return None;
        }
        let mut entries: Vec<(&Owner, Option<i64>)> = self
            .owners
            .iter()
            .map(|(id, owner)| (owner, self.times.get(id).copied()))
            .collect();
        entries.sort_by(|(a, a_time), (b, b_time)| {
            let by_operation = a.operation.cmp(&b.operation);
            by_operation
                .then(a_time.unwrap_or(0).cmp(&b_time.unwrap_or(0)))
                .then_with(|| a.manager.cmp(&b.manager))
                .then_with(|| a.api_version.cmp(&b.api_version))
                .then_with(|| a.subresource.cmp(&b.subresource))
        });
        Some(
            entries
                .into_iter()
                .map(|(owner, time)| owner.to_json(time))
                .collect(),
        )
    }

    /// Merges the oldest entries of updates, by version, until there are few enough.
    pub(super) fn cap(&mut self) {
        let updates = self
            .owners
            .iter()
            .filter(|(_, owner)| owner.operation == Operation::Update);
        let mut updates: Vec<(i64, String)> = updates
            .map(|(id, _)| (self.times.get(id).copied().unwrap_or(0), id.clone()))
            .collect();
        let mut excess = updates.len().saturating_sub(MAX_UPDATE_MANAGERS);
        updates.sort();
        let mut first_of_version: BTreeMap<String, String> = BTreeMap::new();
        for (_, id) in updates {
            if excess == 0 {
                return;
            }
            let Some(owner) = self.owners.get(&id) else {
                continue;
            };
            let version = owner.api_version.clone();
            match first_of_version.get(&version) {
                None => {
                    first_of_version.insert(version, id);
                }
                Some(first) => {
                    self.merge_old(&first.clone(), &id, version);
                    excess -= 1;
                }
            }
        }
    }

    fn merge_old(&mut self, first: &str, id: &str, version: String) {
        let mut old = Owner {
            manager: OLD_UPDATES.to_owned(),
            operation: Operation::Update,
            api_version: version,
            subresource: String::new(),
            set: FieldSet::default(),
        };
        let bucket = old.id();
        if !self.owners.contains_key(&bucket)
            && let Some(first) = self.owners.remove(first)
        {
            old.set = first.set;
            self.owners.insert(bucket.clone(), old);
        }
        let Some(owner) = self.owners.get(id).cloned() else {
            return;
        };
        if id != bucket {
            self.owners.remove(id);
        }
        if let Some(known) = self.owners.get_mut(&bucket) {
            known.set = owner.set.union(std::mem::take(&mut known.set));
        }
        match self.times.get(id).copied() {
            Some(time) => self.times.insert(bucket, time),
            None => self.times.remove(&bucket),
        };
    }
}
