//! The graph of owners and dependents.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use serde_json::Value;

use crate::registry::Resource;
use crate::strategy::{self, Dependents};
use crate::write::ObjectExt as _;

/// An object by where it is stored.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Place {
    pub(super) space: Arc<str>,
    pub(super) key: String,
}

/// Who depends on whom, kept up by notes of committed writes.
#[derive(Debug, Default)]
pub(super) struct Graph {
    /// Dependents by the uid of an owner.
    pub(super) dependents: HashMap<String, BTreeSet<Place>>,
    /// The uids each dependent names, to take it out of the map above.
    owners: HashMap<Place, Vec<String>>,
    /// The uids that a dependent has named since it was last looked at.
    pub(super) new_owners: HashMap<Place, Vec<String>>,
    /// Objects in foreground deletion by their uid.
    pub(super) waiting: HashMap<String, Place>,
    /// Owners that are gone and still have dependents; their kind may be gone as well.
    pub(super) gone: HashSet<String>,
    /// Objects whose owners, or whose own deletion, must be looked at.
    pub(super) dirty: BTreeSet<Place>,
}

/// What a committed write means for the graph; made before the write, so that nothing else is needed after it.
#[derive(Debug)]
pub(crate) enum Note {
    Put {
        place: Place,
        owners: Vec<String>,
        uid: String,
        /// The object is being deleted, and its finalizers hold it.
        waits: bool,
        /// One of them stands for its dependents.
        waits_for_dependents: bool,
    },
    Removal {
        place: Place,
        uid: String,
        owners: Vec<Place>,
    },
}

impl Note {
    pub(crate) fn of_put(resource: &Resource, object: &Value) -> Note {
        let finalizers = object.finalizers();
        let is_ignored = strategy::dependents(resource) == Dependents::Ignored;
        let waits = object.is_deleting() && !finalizers.is_empty() && !is_ignored;
        let waits_for_dependents = waits && finalizers.contains(&"foregroundDeletion");
        Note::Put {
            place: place_of(resource, object),
            owners: match is_ignored {
                true => Vec::new(),
                false => owner_uids(object),
            },
            waits,
            uid: object.uid().to_owned(),
            waits_for_dependents,
        }
    }

    pub(crate) fn of_removal(resource: &Resource, last: &Value) -> Note {
        Note::Removal {
            place: place_of(resource, last),
            uid: last.uid().to_owned(),
            owners: owner_places(last),
        }
    }
}

impl Graph {
    /// Returns whether there is something to look at.
    pub(super) fn take(&mut self, note: Note) -> bool {
        match note {
            Note::Put {
                place,
                owners,
                uid,
                waits,
                waits_for_dependents,
            } => {
                match waits_for_dependents {
                    true => self.waiting.insert(uid, place.clone()),
                    false => self.waiting.remove(&uid),
                };
                if owners.is_empty() && !self.owners.contains_key(&place) && !waits {
                    return false;
                }
                let known = self.owners.get(&place).map_or(&[][..], Vec::as_slice);
                let new: Vec<String> = owners
                    .iter()
                    .filter(|uid| !known.contains(uid))
                    .cloned()
                    .collect();
                if !new.is_empty() {
                    self.new_owners.entry(place.clone()).or_default().extend(new);
                }
                self.set_owners(&place, owners);
                self.dirty.insert(place);
                true
            }
            Note::Removal { place, uid, owners } => {
                self.set_owners(&place, Vec::new());
                self.new_owners.remove(&place);
                self.waiting.remove(&uid);
                let orphans: Vec<Place> = self.dependents.get(&uid).into_iter().flatten().cloned().collect();
                let any = !orphans.is_empty() || !owners.is_empty();
                if !orphans.is_empty() {
                    self.gone.insert(uid);
                }
                self.dirty.extend(orphans);
                // An owner that waits for its dependents looks again when one of them goes.
                self.dirty.extend(owners);
                any
            }
        }
    }

    /// Replaces what is known about the owners of an object.
    fn set_owners(&mut self, place: &Place, uids: Vec<String>) {
        for uid in self.owners.remove(place).unwrap_or_default() {
            // An owner that waits for its dependents looks again when one of them changes.
            self.dirty.extend(self.waiting.get(&uid).cloned());
            if let Some(places) = self.dependents.get_mut(&uid) {
                places.remove(place);
                if places.is_empty() {
                    self.dependents.remove(&uid);
                    if !uids.contains(&uid) {
                        self.gone.remove(&uid);
                    }
                }
            }
        }
        for uid in &uids {
            self.dependents
                .entry(uid.clone())
                .or_default()
                .insert(place.clone());
        }
        if !uids.is_empty() {
            self.owners.insert(place.clone(), uids);
        }
    }
}

fn place_of(resource: &Resource, object: &Value) -> Place {
    Place {
        space: Arc::clone(&resource.space),
        key: resource.key(object.namespace(), object.name()),
    }
}

pub(super) fn owner_references(object: &Value) -> &[Value] {
    object
        .meta("ownerReferences")
        .and_then(Value::as_array)
        .map_or(&[], Vec::as_slice)
}

fn owner_uids(object: &Value) -> Vec<String> {
    owner_references(object)
        .iter()
        .filter_map(|owner| owner["uid"].as_str())
        .map(str::to_owned)
        .collect()
}

/// The owners of an object, known only by kind until the registry is asked.
fn owner_places(object: &Value) -> Vec<Place> {
    let namespace = object.namespace();
    let place = |owner: &Value| {
        let api_version = owner["apiVersion"].as_str()?;
        let group = api_version.rsplit_once('/').map_or("", |(group, _)| group);
        let kind = owner["kind"].as_str()?;
        Some(Place {
            space: format!("?{group}/{kind}").into(),
            key: format!("{namespace}/{}", owner["name"].as_str()?),
        })
    };
    owner_references(object).iter().filter_map(place).collect()
}
