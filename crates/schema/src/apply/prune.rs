//! Takes away what an applier applied the last time and does not this time, in the version in which it did.

use std::collections::BTreeMap;

use serde_json::Value;

use super::managed::{Managed, Owner};
use super::set::FieldSet;
use super::typed::Typed;
use super::update::Write;

impl<'a> Write<'a> {
    /// Removes what the applier owned before, owns no more, and nobody else owns.
    pub(super) fn prune(&self, merged: &Value, managed: &Managed, last: &Owner) -> Result<Value, String> {
        let found = self
            .in_version(merged, &last.api_version)
            .map_err(|why| format!("failed to convert merged object to last applied version: {why}"))?;
        let Some(before) = found else {
            return Ok(merged.clone());
        };
        let last_fields = last.set.with_named_fields(before.ty);
        let pruned = self
            .with_owned(&before, before.without(&last_fields), managed)
            .map_err(|why| format!("failed add back owned items: {why}"))?;
        let after = self
            .converted(pruned, &last.api_version)
            .map_err(|why| {
                format!(
                    "failed add back dangling items: failed to convert pruned object to last applied version: {why}"
                )
            })?;
        let pruned = match after {
            // Only what the applier owned may go: fields without an owner stay.
            Some(after) => {
                let gone = before.fields().difference(&after.fields());
                before.without(&gone.intersection(&last_fields))
            }
            None => before,
        };
        let pruned = self.converted(pruned, self.manager.api_version)?;
        Ok(pruned.map_or_else(|| merged.clone(), |pruned| pruned.value.into_owned()))
    }

    /// Puts back what has an owner, each in the version of its owner.
    fn with_owned<'v>(
        &self,
        merged: &Typed<'a, 'v>,
        mut pruned: Typed<'a, 'v>,
        managed: &'v Managed,
    ) -> Result<Typed<'a, 'v>, String>
    where
        'a: 'v,
    {
        let mut merged = merged.clone();
        for (version, owned) in owned_by_version(managed, merged.version) {
            let fault =
                |which: &str, why| format!("failed to convert {which} object at version {version}: {why}");
            let Some(here) = self
                .converted(merged.clone(), version)
                .map_err(|why| fault("merged", why))?
            else {
                continue;
            };
            let there = self
                .converted(pruned, version)
                .map_err(|why| fault("pruned", why))?;
            let kept = there.map(|pruned| pruned.fields()).unwrap_or_default();
            let kept = kept.union(owned.with_named_fields(here.ty));
            pruned = here.without(&here.fields().difference(&kept));
            merged = here;
        }
        Ok(pruned)
    }
}

/// What somebody owns, by version; `first` goes first, because other versions may need what is owned there.
fn owned_by_version<'v>(managed: &'v Managed, first: &str) -> Vec<(&'v str, FieldSet)> {
    let mut owned: BTreeMap<&str, FieldSet> = BTreeMap::new();
    for owner in managed.owners.values() {
        let set = owned.entry(&owner.api_version).or_default();
        *set = std::mem::take(set).union(owner.set.clone());
    }
    let mut owned: Vec<_> = owned.into_iter().collect();
    owned.sort_by_key(|(version, _)| *version != first);
    owned
}
