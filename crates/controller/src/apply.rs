//! Applying the objects that ought to be there.

use std::hash::BuildHasher as _;

use hashbrown::DefaultHashBuilder;
use serde::Serialize;
use serde_json::Value;
use skopos_client::{Api, Patch, Resource, WriteParams};
use skopos_object::{GroupVersionKind, Object, ObjectKey};

use crate::owner::{check_controller, set_controller};
use crate::records::Applied;
use crate::{Context, Error};

impl Context {
    /// Makes an object be as given, on the server: all fields that are given, none that were given before and are
    /// not now. Fields of others stay as they are.
    ///
    /// Takes any type of `k8s-openapi`, of your own, or JSON, with `apiVersion`, `kind` and `metadata.name`; without a
    /// namespace it goes to the one of the object that is reconciled, and if that has none it is an error. Fields that
    /// others changed are taken back. If the cache shows that nothing would change, nothing is sent.
    pub async fn apply(&self, object: &impl Serialize) -> Result<Object, Error> {
        let (wanted, resource) = self.wanted(object).await?;
        self.apply_wanted(wanted, &resource).await
    }

    /// Makes an object be as given, and the object that is reconciled its controller, so that it goes with it.
    ///
    /// An object that another controls is an error, and left alone.
    pub async fn apply_owned(&self, object: &impl Serialize) -> Result<Object, Error> {
        let (mut wanted, resource) = self.wanted(object).await?;
        set_controller(self.object(), &mut wanted)?;
        if let Some(live) = self.cached(&resource, &key_of(&wanted)) {
            check_controller(self.object(), &live)?;
        }
        self.apply_wanted(wanted, &resource).await
    }

    /// The object as it will be sent, and where to.
    async fn wanted(&self, object: &impl Serialize) -> Result<(Value, Resource), Error> {
        let mut wanted = serde_json::to_value(object).map_err(|error| {
            Error::Invalid(format!("the object to apply cannot be written as JSON: {error}"))
        })?;
        let kind = kind_of(&wanted)?;
        let resource = self.resource(&kind).await?;
        let Some(metadata) = wanted["metadata"].as_object_mut() else {
            return Err(Error::Invalid(format!(
                "the {} to apply has no metadata",
                kind.kind
            )));
        };
        metadata.remove("managedFields");
        let is_empty = |field: Option<&Value>| field.and_then(Value::as_str).is_none_or(str::is_empty);
        if is_empty(metadata.get("name")) {
            return Err(Error::Invalid(format!("the {} to apply has no name", kind.kind)));
        }
        if resource.namespaced && is_empty(metadata.get("namespace")) {
            let owner = self.object();
            if owner.namespace().is_empty() {
                let name = metadata["name"].as_str().unwrap_or_default();
                return Err(Error::Invalid(format!(
                    "the {} {name} to apply needs a namespace: the {} {} has none",
                    kind.kind,
                    owner.kind(),
                    owner.name()
                )));
            }
            metadata.insert("namespace".to_owned(), owner.namespace().into());
        }
        Ok((wanted, resource))
    }

    async fn apply_wanted(&self, wanted: Value, resource: &Resource) -> Result<Object, Error> {
        let key = key_of(&wanted);
        let to = (resource.group_resource(), key.clone());
        let hash = hash_of(&wanted);
        if let Some(live) = self.cached(resource, &key) {
            let known = self.records().applied(self.key(), self.object().uid(), &to);
            let is_same = known.is_some_and(|known| known.hash == hash && known.uid == live.uid());
            if is_same && contains(&live.to_value(), &wanted) {
                self.count_suppressed();
                return Ok(live);
            }
        }
        // Until it is answered nobody knows what the server has: what is wanted may be what it was before, and the
        // object contain it, and yet have a field that is not wanted any more.
        self.records().unset_applied(self.key(), &to);
        let api = Api::namespaced(self.client(), resource, &key.namespace);
        let patch = Patch::Apply {
            object: &wanted,
            manager: self.field_manager(),
            force: true,
        };
        let answer = api.patch(&key.name, patch, &WriteParams::default()).await?;
        let applied = Object::from_value(&answer.value)
            .map_err(|error| Error::Invalid(format!("the answer to applying {key} is no object: {error}")))?;
        let uid = applied.uid().to_owned();
        self.records()
            .set_applied(self.key(), self.object().uid(), to, Applied { uid, hash });
        Ok(applied)
    }
}

fn kind_of(object: &Value) -> Result<GroupVersionKind, Error> {
    let text = |field: &str| object[field].as_str().unwrap_or_default();
    if text("kind").is_empty() || text("apiVersion").is_empty() {
        return Err(Error::Invalid(
            "the object to apply has no apiVersion or no kind".to_owned(),
        ));
    }
    GroupVersionKind::from_api_version(text("apiVersion"), text("kind"))
        .map_err(|error| Error::Invalid(format!("the object to apply: {error}")))
}

fn key_of(object: &Value) -> ObjectKey {
    let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
    ObjectKey::namespaced(text("namespace"), text("name"))
}

fn hash_of(object: &Value) -> u64 {
    // Random per process, the same within it: the hashes are never kept longer.
    static SEEDS: std::sync::LazyLock<DefaultHashBuilder> =
        std::sync::LazyLock::new(DefaultHashBuilder::default);
    SEEDS.hash_one(object.to_string())
}

/// Whether `live` has all that is wanted. Cautious: a list of another length, or in another order, does not.
fn contains(live: &Value, wanted: &Value) -> bool {
    match (live, wanted) {
        (Value::Object(live), Value::Object(wanted)) => wanted
            .iter()
            .all(|(name, wanted)| live.get(name).is_some_and(|live| contains(live, wanted))),
        (Value::Array(live), Value::Array(wanted)) => {
            live.len() == wanted.len()
                && live
                    .iter()
                    .zip(wanted)
                    .all(|(live, wanted)| contains(live, wanted))
        }
        (live, wanted) => live == wanted,
    }
}

#[cfg(test)]
mod tests {
    use skopos_testkit::value;

    use super::*;

    #[test]
    fn defaults_of_the_server_are_no_difference_and_drift_is() {
        let wanted = value("{spec: {replicas: 3, ports: [{port: 80}]}}");
        let check = |live: &str, expect: bool| assert_eq!(contains(&value(live), &wanted), expect, "{live}");
        check(
            "{spec: {replicas: 3, type: ClusterIP, ports: [{port: 80, protocol: TCP}]}}",
            true,
        );
        check("{spec: {replicas: 2, ports: [{port: 80}]}}", false);
        check("{spec: {replicas: 3, ports: [{port: 80}, {port: 81}]}}", false);
        check("{spec: {replicas: 3}}", false);
    }
}
