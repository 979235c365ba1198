//! Tells of owners that live in another namespace than what they are said to own.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};
use skopos_object::{GroupVersionKind, Status, raw_path, validation::dns1123_subdomain};
use skopos_store::{Expect, Range, WriteError};

use super::graph::owner_references;
use crate::registry::{Registry, Resource};
use crate::state::Shared;
use crate::write::{ObjectExt as _, OwnWrite, rfc3339, storage_failed, track_own};

impl Shared {
    /// Writes an event if one of the owners that are new, by uid, is found in another namespace; the first of them
    /// counts.
    pub(super) async fn report_strange_owners(
        &self,
        registry: &Registry,
        dependent: &Value,
        new_owners: &[String],
    ) -> Result<(), Status> {
        let is_new = |owner: &&Value| new_owners.iter().any(|uid| owner["uid"] == uid.as_str());
        let mut owners = owner_references(dependent).iter().filter(is_new);
        match owners.find(|owner| self.is_elsewhere(registry, dependent, owner)) {
            Some(owner) => self.record(dependent, &complaint(dependent, owner)).await,
            None => Ok(()),
        }
    }

    /// Whether an object of the owner's kind and uid is in a namespace, but in another one than its dependent.
    fn is_elsewhere(&self, registry: &Registry, dependent: &Value, owner: &Value) -> bool {
        let text = |field: &str| owner[field].as_str().unwrap_or("");
        let gvk = GroupVersionKind::from_api_version(text("apiVersion"), text("kind"));
        let Some(resource) = gvk.ok().and_then(|gvk| registry.by_kind(&gvk)) else {
            return false;
        };
        if !resource.namespaced || self.is_beside(resource, dependent, owner) {
            return false;
        }
        let uid = owner["uid"].to_string();
        let Ok(page) = self.store.list(&resource.space, &Range::default()) else {
            return false;
        };
        let home = format!("{}/", dependent.namespace());
        page.items.iter().any(|entry| {
            let found = raw_path(&entry.value, &["metadata", "uid"]);
            !entry.key.starts_with(&home) && found.is_some_and(|found| found == uid.as_bytes())
        })
    }

    /// The usual case, which needs no search.
    fn is_beside(&self, resource: &Arc<Resource>, dependent: &Value, owner: &Value) -> bool {
        let name = owner["name"].as_str().unwrap_or("");
        let key = resource.key(dependent.namespace(), name);
        let found = self.store.get(&resource.space, &key);
        let uid = owner["uid"].to_string();
        found.is_some_and(|entry| {
            raw_path(&entry.value, &["metadata", "uid"]).is_some_and(|found| found == uid.as_bytes())
        })
    }

    async fn record(&self, dependent: &Value, message: &str) -> Result<(), Status> {
        let Some(resource) = self.built_in("", "events").cloned() else {
            return Ok(());
        };
        let mut event = self.event(dependent, message);
        let (name, namespace) = (event.name().to_owned(), event.namespace().to_owned());
        if self
            .namespaces
            .admit_into(&self.store, &resource, &name, &namespace)
            .is_err()
        {
            // Nobody would read it there.
            return Ok(());
        }
        track_own(&resource, None, &mut event, OwnWrite::Controller(""));
        let key = resource.key(&namespace, &name);
        match self.put(&resource, &key, Expect::Absent, &event).await {
            Ok(entry) => {
                self.namespaces.recheck(&self.store, &entry);
                Ok(())
            }
            Err(WriteError::Conflict { .. }) => Ok(()),
            Err(error) => Err(storage_failed(&error)),
        }
    }

    fn event(&self, dependent: &Value, message: &str) -> Value {
        let now = Timestamp::now();
        let time = rfc3339(now);
        let name = format!("{}.{:x}", dependent.name(), now.as_nanosecond());
        let name = match dns1123_subdomain(&name).is_empty() {
            true => name,
            false => self.chance.uuid().to_string(),
        };
        let namespace = match dependent.namespace() {
            "" => "default",
            namespace => namespace,
        };
        let mut involved = json!({
            "apiVersion": dependent["apiVersion"], "kind": dependent["kind"],
            "name": dependent.name(), "uid": dependent.uid(),
        });
        if !dependent.namespace().is_empty() {
            involved["namespace"] = Value::from(dependent.namespace());
        }
        json!({
            "apiVersion": "v1", "kind": "Event",
            "metadata": {
                "name": name, "namespace": namespace,
                "uid": self.chance.uuid().to_string(), "creationTimestamp": time,
            },
            "involvedObject": involved,
            "reason": "OwnerRefInvalidNamespace", "message": message, "type": "Warning",
            "count": 1, "firstTimestamp": time, "lastTimestamp": time, "eventTime": null,
            "source": {"component": COMPONENT}, "reportingComponent": COMPONENT, "reportingInstance": "",
        })
    }
}

const COMPONENT: &str = "garbage-collector-controller";

fn complaint(dependent: &Value, owner: &Value) -> String {
    let text = |field: &str| owner[field].as_str().unwrap_or("");
    let namespace = dependent.namespace();
    let (api_version, kind, name, uid) = (text("apiVersion"), text("kind"), text("name"), text("uid"));
    format!(
        "ownerRef [{api_version}/{kind}, namespace: {namespace}, name: {name}, uid: {uid}] does not exist in namespace {namespace:?}"
    )
}
