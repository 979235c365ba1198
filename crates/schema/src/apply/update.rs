//! Moves ownership when fields change hands, and takes away what an applier gave up.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde_json::Value;

use super::check::{Duplicates, check};
use super::compare::{Comparison, compare};
use super::managed::{Managed, Operation, Owner, name_of};
use super::merge::merge;
use super::set::FieldSet;
use super::types::Type;
use super::walk::{fields_of, reconcile, remove};
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
    /// The type of the object in a version; absent for versions that are served no more.
    fn type_of(&self, api_version: &str) -> Option<Type<'a>> {
        if api_version == self.manager.api_version {
            return Some(Type::object(self.target.schema));
        }
        let (_, schema) = self
            .target
            .versions
            .iter()
            .find(|(version, _)| *version == api_version)?;
        Some(Type::object(schema))
    }

    /// The type in which the fields of a version are looked for in an object of the request's version.
    fn type_for(&self, api_version: &str) -> Option<Type<'a>> {
        match self.target.convert {
            Some(_) => Some(self.own_type()),
            None => self.type_of(api_version),
        }
    }

    fn own_type(&self) -> Type<'a> {
        Type::object(self.target.schema)
    }

    fn compare(&self, version: &str, ty: Type<'_>, old: &Value, new: &Value) -> Result<Comparison, Refusal> {
        let mut found = compare(ty, old, new)
            .map_err(|why| Refusal::Fault(format!("failed to compare objects: {why}")))?;
        // The entries themselves are no change: `new` gets them when all is known.
        found.removed = found.removed.difference(&ENTRIES);
        Ok(match self.target.reset {
            // Forms that are converted differ below `spec`; what cannot be written is the same above.
            Some(reset) if version == self.manager.api_version || self.target.convert.is_some() => {
                found.without(reset)
            }
            _ => found,
        })
    }

    /// Drops entries of versions that are gone and fits the others to their schemas.
    ///
    /// Custom resources cannot be converted to a version that is gone, which kube-apiserver takes for a fault.
    fn reconciled(&self, mut managed: Managed) -> Result<Managed, Refusal> {
        let is_custom = self.target.empty.is_none();
        let mut owners = BTreeMap::new();
        for (id, mut owner) in std::mem::take(&mut managed.owners) {
            match self.type_of(&owner.api_version) {
                Some(ty) => {
                    owner.set = reconcile(ty, owner.set);
                    owners.insert(id, owner);
                }
                None if is_custom => {
                    return Err(Refusal::Fault(format!(
                        "request to convert CR to an invalid group/version: {}",
                        owner.api_version
                    )));
                }
                None => {}
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
        let managed = self.reconciled(managed)?;
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
        let mut managed = self.reconciled(managed)?;
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
            Some(last) if !last.set.is_empty() => self.prune(merged, &managed, last),
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
            if let (false, Some(ty)) = (found.contains_key(version), self.type_of(version)) {
                let (old, new) = (self.in_version(old, version), self.in_version(new, version));
                found.insert(version.to_owned(), self.compare(version, ty, &old, &new)?);
            }
        }
        Ok(found)
    }

    fn in_version<'v>(&self, object: &'v Value, version: &str) -> Cow<'v, Value> {
        match self.target.convert {
            Some(convert) if version != self.manager.api_version => {
                Cow::Owned(convert(object, self.manager.api_version, version))
            }
            _ => Cow::Borrowed(object),
        }
    }

    /// Removes what the applier owned before, owns no more, and nobody else owns.
    fn prune(&self, merged: Value, managed: &Managed, last: &Owner) -> Value {
        let Some(ty) = self.type_for(&last.api_version) else {
            return merged;
        };
        let last_fields = last.set.with_named_fields(ty);
        let mut pruned = remove(ty, &merged, &last_fields);
        let mut owned: BTreeMap<&str, FieldSet> = BTreeMap::new();
        for owner in managed.owners.values() {
            let set = owned.entry(&owner.api_version).or_default();
            *set = std::mem::take(set).union(owner.set.clone());
        }
        // The version of the last apply goes first.
        let first = owned.remove(last.api_version.as_str());
        let rest = owned
            .into_iter()
            .filter_map(|(version, set)| Some((self.type_for(version)?, set)));
        for (ty, set) in first.map(|set| (ty, set)).into_iter().chain(rest) {
            let keep = fields_of(ty, &pruned)
                .with_named_fields(ty)
                .union(set.with_named_fields(ty));
            let gone = fields_of(ty, &merged).with_named_fields(ty).difference(&keep);
            pruned = remove(ty, &merged, &gone);
        }
        // Only what the applier owned may go: fields without an owner stay.
        let before = fields_of(ty, &merged).with_named_fields(ty);
        let after = fields_of(ty, &pruned).with_named_fields(ty);
        remove(ty, &merged, &before.difference(&after).intersection(&last_fields))
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
