//! Moves ownership when fields change hands, and takes away what an applier gave up.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde_json::Value;

use super::check::{Duplicates, check};
use super::compare::{Comparison, compare};
use super::managed::{Managed, Operation, Owner, name_of};
use super::merge::merge;
use super::set::FieldSet;
use super::typed::Typed;
use super::types::Type;
use super::walk::{fields_of, reconcile};
use super::{Manager, Target};

/// Why ownership could not be moved.
pub(super) enum Refusal {
    /// The fields that others own, by owner.
    Conflicts(Vec<(Owner, FieldSet)>),
    Fault(String),
}

/// What an apply made.
pub(super) struct Merged {
    /// Absent if the object is as it was.
    pub(super) object: Option<Value>,
    pub(super) managed: Managed,
}

/// One write of one manager to one object.
pub(super) struct Write<'a> {
    pub(super) target: &'a Target<'a>,
    pub(super) manager: &'a Manager<'a>,
}

impl<'a> Write<'a> {
    fn own_type(&self) -> Type<'a> {
        Type::object(self.target.schema)
    }

    fn compare(&self, old: &Typed<'_, '_>, new: &Typed<'_, '_>) -> Result<Comparison, Refusal> {
        let mut found = compare(old.ty, &old.value, &new.value)
            .map_err(|why| Refusal::Fault(format!("failed to compare objects: {why}")))?;
        // The entries themselves are no change: `new` gets them when all is known.
        found.removed = found.removed.difference(&ENTRIES);
        Ok(match self.target.reset {
            // Forms that are converted differ below `spec`; what cannot be written is the same above.
            Some(reset) if old.version == self.manager.api_version || self.target.convert.is_some() => {
                found.without(reset)
            }
            _ => found,
        })
    }

    /// Drops entries of versions that are gone and fits the others to their schemas. The object must have the type
    /// of each of these versions.
    fn reconciled(&self, live: &Value, mut managed: Managed) -> Result<Managed, Refusal> {
        let mut types: BTreeMap<String, Option<Type<'_>>> = BTreeMap::new();
        let mut owners = BTreeMap::new();
        for (id, mut owner) in std::mem::take(&mut managed.owners) {
            if !types.contains_key(&owner.api_version) {
                let found = self
                    .in_version(live, &owner.api_version)
                    .map_err(Refusal::Fault)?;
                types.insert(owner.api_version.clone(), found.map(|typed| typed.ty));
            }
            if let Some(Some(ty)) = types.get(&owner.api_version) {
                owner.set = reconcile(*ty, owner.set);
                owners.insert(id, owner);
            }
        }
        managed.owners = owners;
        Ok(managed)
    }

    /// An object as kube-apiserver names it here: key, version and kind.
    fn named(&self, object: &Value) -> String {
        let metadata = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
        let kind = object["kind"].as_str().unwrap_or_default();
        let version = &self.manager.api_version;
        let group = if version.contains('/') { "" } else { "/" };
        let (namespace, name) = (metadata("namespace"), metadata("name"));
        format!("{namespace}/{name}; {group}{version}, Kind={kind}")
    }

    /// Ownership after an update from `live` to `new`. The fields it wrote go to the owner `id`.
    pub(super) fn update(
        &self,
        live: &Value,
        new: &Value,
        managed: Managed,
        id: &str,
        mut owner: Owner,
    ) -> Result<Managed, Refusal> {
        for (value, which) in [(new, "new"), (live, "live")] {
            check(self.own_type(), value, Duplicates::Allowed).map_err(|why| {
                let object = self.named(value);
                Refusal::Fault(format!(
                    "failed to convert {which} object ({object}) to smd typed: {why}"
                ))
            })?;
        }
        let managed = self.reconciled(live, managed)?;
        let (mut managed, found) = self.move_ownership(live, new, managed, id, true)?;
        let set = managed
            .owners
            .remove(id)
            .map(|owner| owner.set)
            .unwrap_or_default();
        owner.set = set.difference(&found.removed).union(found.written);
        if let Some(reset) = self.target.reset {
            owner.set = owner.set.recursive_difference(reset);
        }
        if !owner.set.is_empty() {
            managed.owners.insert(id.to_owned(), owner);
        }
        Ok(managed)
    }

    /// Merges `applied` into `live` for the applier `id`.
    pub(super) fn apply(
        &self,
        live: &Value,
        applied: &Value,
        managed: Managed,
        mut owner: Owner,
        force: bool,
    ) -> Result<Merged, Refusal> {
        let ty = self.own_type();
        let mut managed = self.reconciled(live, managed)?;
        let merged = merge(ty, live, applied)
            .map_err(|why| Refusal::Fault(format!("failed to merge config: {why}")))?;
        let id = owner.id();
        let last = managed.owners.remove(&id);
        owner.set = fields_of(ty, applied);
        if let Some(reset) = self.target.reset {
            owner.set = owner.set.recursive_difference(reset);
        }
        managed.owners.insert(id.clone(), owner);
        let object = match &last {
            Some(last) if !last.set.is_empty() => {
                let pruned = self.prune(&merged, &managed, last);
                pruned.map_err(|why| Refusal::Fault(format!("failed to prune fields: {why}")))?
            }
            _ => merged,
        };
        let (managed, _) = self.move_ownership(live, &object, managed, &id, force)?;
        Ok(Merged {
            object: (object != *live).then_some(object),
            managed,
        })
    }

    /// Takes from every other owner what changed, or refuses if that is not forced.
    fn move_ownership(
        &self,
        old: &Value,
        new: &Value,
        mut managed: Managed,
        id: &str,
        force: bool,
    ) -> Result<(Managed, Comparison), Refusal> {
        let own_version = self.manager.api_version;
        let mut by_version = self.compare_all(old, new, &managed)?;
        let mut conflicts = Vec::new();
        managed.owners.retain(|other, owner| {
            if other == id {
                return !owner.set.is_empty();
            }
            let Some(found) = by_version.get(owner.api_version.as_str()) else {
                return false;
            };
            let conflict = owner.set.intersection(&found.written);
            if !conflict.is_empty() && !force {
                conflicts.push((owner.clone(), conflict));
            }
            let set = std::mem::take(&mut owner.set);
            owner.set = set.difference(&found.written).difference(&found.removed);
            !owner.set.is_empty()
        });
        if !conflicts.is_empty() {
            return Err(Refusal::Conflicts(conflicts));
        }
        Ok((managed, by_version.remove(own_version).unwrap_or_default()))
    }

    /// The change in the version of the request and in every version that an owner knows.
    fn compare_all(
        &self,
        old: &Value,
        new: &Value,
        managed: &Managed,
    ) -> Result<BTreeMap<String, Comparison>, Refusal> {
        let mut found = BTreeMap::new();
        let versions = managed.owners.values().map(|owner| owner.api_version.as_str());
        for version in std::iter::once(self.manager.api_version).chain(versions) {
            if found.contains_key(version) {
                continue;
            }
            let typed = |which: &str, object| {
                let fault = |why| Refusal::Fault(format!("failed to convert {which} object: {why}"));
                self.in_version(object, version).map_err(fault)
            };
            if let (Some(old), Some(new)) = (typed("old", old)?, typed("new", new)?) {
                found.insert(version.to_owned(), self.compare(&old, &new)?);
            }
        }
        Ok(found)
    }
}

/// Fields that are never owned.
pub(super) fn strip(managed: &mut Managed, id: &str) {
    if let Some(owner) = managed.owners.get_mut(id) {
        owner.set = std::mem::take(&mut owner.set).difference(&UNOWNED);
        if owner.set.is_empty() {
            managed.owners.remove(id);
        }
    }
}

static ENTRIES: LazyLock<FieldSet> = LazyLock::new(|| FieldSet::of_paths(&[&["metadata", "managedFields"]]));

static UNOWNED: LazyLock<FieldSet> = LazyLock::new(|| {
    let mut unowned = FieldSet::of_paths(&[&["apiVersion"], &["kind"], &["metadata"]]);
    for name in UNOWNED_METADATA {
        unowned = unowned.union(FieldSet::of_paths(&[&["metadata", name]]));
    }
    unowned
});

/// Fields of `metadata` that are never owned.
pub(super) const UNOWNED_METADATA: [&str; 9] = [
    "name",
    "namespace",
    "creationTimestamp",
    "selfLink",
    "uid",
    "clusterName",
    "generation",
    "managedFields",
    "resourceVersion",
];

/// The entry of a manager, still without fields.
pub(super) fn owner(manager: &Manager<'_>, operation: Operation) -> Owner {
    Owner {
        manager: name_of(manager).to_owned(),
        operation,
        api_version: manager.api_version.to_owned(),
        subresource: manager.subresource.to_owned(),
        set: FieldSet::default(),
    }
}
