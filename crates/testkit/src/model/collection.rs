//! Objects, their versions and their history. No clock, no faults.

use std::collections::{BTreeMap, VecDeque};

use serde_json::Value;
use skopos_object::{Object, ObjectKey, ResourceVersion, Status};

/// The state of the source.
#[derive(Debug)]
pub(super) struct Collection {
    pub(super) version: u64,
    pub(super) objects: BTreeMap<ObjectKey, Object>,
    /// Every change after `floor`, oldest first.
    history: VecDeque<Past>,
    /// The oldest version that can still be asked for.
    floor: u64,
    next_uid: u64,
    /// How often everything was lost: each time another history begins.
    pub(super) n_lost: u64,
}

/// One change.
#[derive(Clone, Debug)]
pub(super) struct Past {
    pub(super) version: u64,
    pub(super) key: ObjectKey,
    pub(super) before: Option<Object>,
    /// Nothing if it was deleted.
    pub(super) after: Option<Object>,
    /// What a deletion shows: the last state at the version of the deletion.
    pub(super) shown: Object,
}

impl Past {
    /// How it looks to one who no longer selects it: its last state inside, at the version of the change.
    pub(super) fn departed(&self) -> Option<Object> {
        let before = self.before.as_ref()?;
        Some(stamped(before, self.version, before.uid()))
    }
}

impl Collection {
    pub(super) fn new() -> Self {
        Self {
            version: 1,
            objects: BTreeMap::new(),
            history: VecDeque::new(),
            floor: 1,
            next_uid: 1,
            n_lost: 0,
        }
    }

    pub(super) fn put(&mut self, object: &Object) -> Object {
        let key = object.key();
        let before = self.objects.get(&key).cloned();
        let uid = match &before {
            Some(before) => before.uid().to_owned(),
            None => {
                self.next_uid += 1;
                format!("uid-{}", self.next_uid - 1)
            }
        };
        self.version += 1;
        let stored = stamped(object, self.version, &uid);
        self.objects.insert(key.clone(), stored.clone());
        self.history.push_back(Past {
            version: self.version,
            key,
            before,
            after: Some(stored.clone()),
            shown: stored.clone(),
        });
        stored
    }

    pub(super) fn delete(&mut self, key: &ObjectKey) -> Option<Object> {
        let before = self.objects.remove(key)?;
        self.version += 1;
        let shown = stamped(&before, self.version, before.uid());
        self.history.push_back(Past {
            version: self.version,
            key: key.clone(),
            before: Some(before),
            after: None,
            shown: shown.clone(),
        });
        Some(shown)
    }

    pub(super) fn compact(&mut self) {
        self.history.clear();
        self.floor = self.version;
    }

    pub(super) fn lose(&mut self) {
        *self = Self {
            next_uid: self.next_uid,
            n_lost: self.n_lost + 1,
            ..Self::new()
        };
    }

    /// What there was at a version, or why nobody knows.
    pub(super) fn at(&self, version: u64) -> Result<BTreeMap<ObjectKey, Object>, Status> {
        self.check(version)?;
        let mut objects = self.objects.clone();
        for past in self
            .history
            .iter()
            .rev()
            .take_while(|past| past.version > version)
        {
            match &past.before {
                Some(before) => objects.insert(past.key.clone(), before.clone()),
                None => objects.remove(&past.key),
            };
        }
        Ok(objects)
    }

    /// The first change after a version; 410 if it may be forgotten.
    pub(super) fn after(&self, version: u64) -> Result<Option<&Past>, Status> {
        self.check(version)?;
        let next = self.history.partition_point(|past| past.version <= version);
        Ok(self.history.get(next))
    }

    fn check(&self, version: u64) -> Result<(), Status> {
        if version < self.floor {
            let message = format!("too old resource version: {version} ({})", self.floor);
            return Err(Status::expired(message));
        }
        Ok(())
    }
}

fn stamped(object: &Object, version: u64, uid: &str) -> Object {
    let mut value = object.to_value();
    value["metadata"]["resourceVersion"] = Value::String(version.to_string());
    value["metadata"]["uid"] = Value::String(uid.to_owned());
    Object::from_value(&value).unwrap_or_else(|_| object.clone())
}

/// Reads a version that this source gave; others are refused as an API server refuses them.
pub(super) fn number(version: &ResourceVersion) -> Result<u64, Status> {
    let text = version.as_str();
    if text.is_empty() {
        return Ok(0);
    }
    text.parse()
        .map_err(|_| Status::bad_request(format!("Invalid value: {text:?}: not a version of this source")))
}
