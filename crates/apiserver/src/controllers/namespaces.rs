//! Namespaces: what each is born with, and what must go before it does.

use std::collections::{BTreeSet, HashSet};
use std::sync::{Arc, Mutex};

use jiff::Timestamp;
use serde_json::{Value, json};
use skopos_object::{Cause, Status, raw_path};
use skopos_store::{Entry, Expect, Range, Store, WriteError};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::RETRY_AFTER;
use crate::options::{DeleteOptions, Propagation};
use crate::registry::Resource;
use crate::state::Shared;
use crate::versions;
use crate::write::{ObjectExt as _, OwnWrite, delete_entry, rfc3339, track_own};

/// Namespaces that exist from the start. All but the last cannot be deleted.
const SYSTEM: [&str; 4] = ["default", "kube-system", "kube-public", "kube-node-lease"];
const SPACE: &str = "core/namespaces";

/// Follows the namespaces.
#[derive(Debug)]
pub(crate) struct Namespaces {
    bell: Notify,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// To be looked at.
    dirty: BTreeSet<String>,
    /// Being deleted: whatever goes inside is a reason to look again.
    terminating: HashSet<String>,
}

impl Namespaces {
    pub(crate) fn new() -> Namespaces {
        Namespaces {
            bell: Notify::new(),
            state: Mutex::new(State::default()),
        }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    pub(crate) fn observe(&self, name: &str) {
        self.state().dirty.insert(name.to_owned());
        self.bell.notify_one();
    }

    /// An object of the namespace went, perhaps one that every namespace has.
    pub(crate) fn observe_removal(&self, namespace: &str, is_furniture: bool) {
        if is_furniture || self.state().terminating.contains(namespace) {
            self.observe(namespace);
        }
    }

    /// Nothing can be created in a namespace that is not there or is going.
    pub(crate) fn admit_into(
        &self,
        store: &Store,
        resource: &Resource,
        name: &str,
        namespace: &str,
    ) -> Result<(), Status> {
        let Some(entry) = store.get(SPACE, namespace) else {
            let namespaces = skopos_object::GroupResource::new("", "namespaces");
            return Err(Status::not_found(&namespaces, namespace));
        };
        if raw_path(&entry.value, &["metadata", "deletionTimestamp"]).is_none() {
            return Ok(());
        }
        let why =
            format!("unable to create new content in namespace {namespace} because it is being terminated");
        let mut status = Status::forbidden(&resource.group_resource(), name, &why);
        if let Some(details) = &mut status.details {
            details.causes.push(Cause {
                reason: "NamespaceTerminating".into(),
                message: format!("namespace {namespace} is being terminated"),
                field: "metadata.namespace".into(),
            });
        }
        Err(status)
    }

    /// Looks again at the namespace of a new object if it has begun to go since it was asked.
    pub(crate) fn recheck(&self, store: &Store, created: &Entry) {
        let Some((namespace, _)) = created.key.split_once('/') else {
            return;
        };
        let found = store.get(SPACE, namespace);
        if found.is_none_or(|entry| raw_path(&entry.value, &["metadata", "deletionTimestamp"]).is_some()) {
            self.observe(namespace);
        }
    }

    /// Makes the system namespaces and looks at all that are stored.
    pub(crate) async fn bootstrap(shared: &Shared) -> Result<(), Status> {
        let Some(resource) = shared.built_in("", "namespaces") else {
            return Ok(());
        };
        for name in SYSTEM {
            create_if_absent(shared, resource, name, || system_namespace(resource, name)).await?;
        }
        let page = shared
            .store
            .list(SPACE, &Range::default())
            .map_err(|e| Status::internal(e.to_string()))?;
        for entry in page.items {
            shared.sync_namespace(&entry.key).await?;
        }
        Ok(())
    }

    /// Runs until told to stop.
    pub(crate) async fn run(shared: Arc<Shared>, stop: CancellationToken) {
        loop {
            let dirty = std::mem::take(&mut shared.namespaces.state().dirty);
            let mut failed = Vec::new();
            for name in dirty {
                if let Err(status) = shared.sync_namespace(&name).await {
                    tracing::error!(namespace = name, error = %status.message, "namespace not brought up to date");
                    failed.push(name);
                }
            }
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                () = tokio::time::sleep(RETRY_AFTER), if !failed.is_empty() => {}
                () = shared.namespaces.bell.notified() => {}
            }
            shared.namespaces.state().dirty.extend(failed);
        }
    }
}

/// Stores an object with fresh metadata unless its name is taken.
///
/// It is made only then: on every start but the first all of them are there, and what noting their owners needs
/// would be kept for nothing.
pub(crate) async fn create_if_absent(
    shared: &Shared,
    resource: &Arc<Resource>,
    key: &str,
    make: impl FnOnce() -> Value,
) -> Result<(), Status> {
    if shared.store.get(&resource.space, key).is_some() {
        return Ok(());
    }
    let mut object = make();
    object.set_meta("uid", shared.chance.uuid().to_string());
    object.set_meta("creationTimestamp", rfc3339(Timestamp::now()));
    match shared.put(resource, key, Expect::Absent, &object).await {
        Ok(_) | Err(WriteError::Conflict { .. }) => Ok(()),
        Err(error) => Err(crate::write::storage_failed(&error)),
    }
}

fn system_namespace(resource: &Resource, name: &str) -> Value {
    let mut namespace = json!({
        "apiVersion": "v1", "kind": "Namespace",
        "metadata": {"name": name, "labels": {"kubernetes.io/metadata.name": name}},
    });
    // As with every new namespace, nobody owns what the server adds.
    track_own(resource, None, &mut namespace, OwnWrite::Server);
    namespace["spec"] = json!({"finalizers": ["kubernetes"]});
    namespace["status"] = json!({"phase": "Active"});
    namespace
}

impl Shared {
    async fn sync_namespace(&self, name: &str) -> Result<(), Status> {
        let Some(entry) = self.store.get(SPACE, name) else {
            self.namespaces.state().terminating.remove(name);
            // Somebody may have created an object at the very end.
            self.empty_namespace(name).await?;
            return Ok(());
        };
        let namespace = versions::parse(&entry)?;
        if !namespace.is_deleting() {
            return self.furnish(name).await;
        }
        self.namespaces.state().terminating.insert(name.to_owned());
        let left = self.empty_namespace(name).await?;
        self.report_namespace(name, &left).await
    }

    /// Every namespace has a service account and the authority's certificate.
    async fn furnish(&self, name: &str) -> Result<(), Status> {
        if let Some(resource) = self.built_in("", "serviceaccounts") {
            // Has no field that could be owned.
            let account = || {
                json!({
                    "apiVersion": "v1", "kind": "ServiceAccount",
                    "metadata": {"name": "default", "namespace": name},
                })
            };
            create_if_absent(self, resource, &format!("{name}/default"), account).await?;
        }
        if let Some(resource) = self.built_in("", "configmaps") {
            let key = format!("{name}/kube-root-ca.crt");
            let config = || self.root_ca_config(resource, name);
            create_if_absent(self, resource, &key, config).await?;
        }
        Ok(())
    }

    fn root_ca_config(&self, resource: &Resource, namespace: &str) -> Value {
        let description = "Contains the certificate authority of this API server.";
        let mut config = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {
                "name": "kube-root-ca.crt", "namespace": namespace,
                "annotations": {"kubernetes.io/description": description},
            },
            "data": {"ca.crt": self.settings.root_ca},
        });
        track_own(resource, None, &mut config, OwnWrite::Controller(""));
        config
    }

    /// Deletes what is in a namespace, pods before everything else; returns what has not gone.
    async fn empty_namespace(&self, name: &str) -> Result<Vec<Remainder>, Status> {
        let registry = self.registry.load_full();
        let mut resources: Vec<Arc<Resource>> =
            registry.stored().into_iter().filter(|r| r.namespaced).collect();
        resources.sort_by_key(|r| !r.is("", "pods"));
        let now = Timestamp::now();
        let options = DeleteOptions {
            propagation: Some(Propagation::Background),
            ..DeleteOptions::default()
        };
        let prefix = format!("{name}/");
        let mut left = Vec::new();
        for resource in &resources {
            let range = Range {
                prefix: prefix.clone(),
                ..Range::default()
            };
            let page = self
                .store
                .list(&resource.space, &range)
                .map_err(|e| Status::internal(e.to_string()))?;
            for entry in page.items {
                delete_entry(self, resource, &entry.key, &options, now).await?;
                if let Some(entry) = self.store.get(&resource.space, &entry.key) {
                    let finalizers = versions::parse(&entry)?
                        .finalizers()
                        .into_iter()
                        .map(str::to_owned)
                        .collect();
                    left.push(Remainder {
                        resource: format!("{}.{}", resource.plural, resource.group),
                        finalizers,
                    });
                }
            }
            if resource.is("", "pods") && !left.is_empty() {
                break;
            }
        }
        Ok(left)
    }

    /// Writes what is left into the namespace's conditions, or lets it go.
    async fn report_namespace(&self, name: &str, left: &[Remainder]) -> Result<(), Status> {
        let Some(resource) = self.built_in("", "namespaces").cloned() else {
            return Ok(());
        };
        loop {
            let Some(entry) = self.store.get(SPACE, name) else {
                return Ok(());
            };
            let before = versions::parse(&entry)?;
            let mut namespace = before.clone();
            set_conditions(&mut namespace, left);
            track_own(
                &resource,
                Some(&before),
                &mut namespace,
                OwnWrite::Controller("status"),
            );
            if left.is_empty() {
                let rest: Vec<Value> = namespace["spec"]["finalizers"]
                    .as_array()
                    .map(|list| list.iter().filter(|f| *f != "kubernetes").cloned().collect())
                    .unwrap_or_default();
                namespace["spec"] = if rest.is_empty() {
                    json!({})
                } else {
                    json!({"finalizers": rest})
                };
            }
            let held = namespace.pointer("/spec/finalizers").is_some() || !namespace.finalizers().is_empty();
            let expect = Expect::At(entry.modified);
            let outcome = match (held, namespace == before) {
                (true, true) => return Ok(()),
                (true, false) => self.put(&resource, name, expect, &namespace).await,
                (false, _) => self.remove(&resource, name, expect, &namespace).await,
            };
            match outcome {
                Ok(_) => break,
                Err(WriteError::Conflict { .. }) => {}
                Err(error) => return Err(crate::write::storage_failed(&error)),
            }
        }
        if self.store.get(SPACE, name).is_none() {
            self.namespaces.state().terminating.remove(name);
        }
        Ok(())
    }
}

/// An object that its finalizers keep in a namespace.
struct Remainder {
    resource: String,
    finalizers: Vec<String>,
}

fn set_conditions(namespace: &mut Value, left: &[Remainder]) {
    let content = describe(left.iter().map(|r| r.resource.as_str()), |kind, n| {
        format!("{kind} has {n} resource instances")
    });
    let finalizers = describe(
        left.iter().flat_map(|r| r.finalizers.iter().map(String::as_str)),
        |name, n| format!("{name} in {n} resource instances"),
    );
    let all = [
        (
            "NamespaceDeletionDiscoveryFailure",
            String::new(),
            "ResourcesDiscovered",
            "All resources successfully discovered",
        ),
        (
            "NamespaceDeletionGroupVersionParsingFailure",
            String::new(),
            "ParsedGroupVersions",
            "All legacy kube types successfully parsed",
        ),
        (
            "NamespaceDeletionContentFailure",
            String::new(),
            "ContentDeleted",
            "All content successfully deleted, may be waiting on finalization",
        ),
        (
            "NamespaceContentRemaining",
            content
                .map(|c| format!("Some resources are remaining: {c}"))
                .unwrap_or_default(),
            "ContentRemoved",
            "All content successfully removed",
        ),
        (
            "NamespaceFinalizersRemaining",
            finalizers
                .map(|f| format!("Some content in the namespace has finalizers remaining: {f}"))
                .unwrap_or_default(),
            "ContentHasNoFinalizers",
            "All content-preserving finalizers finished",
        ),
    ];
    let now = rfc3339(Timestamp::now());
    let old = namespace["status"]["conditions"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    let conditions: Vec<Value> = all
        .into_iter()
        .map(|(kind, problem, fine_reason, fine_message)| {
            let (status, reason, message) = match problem.as_str() {
                "" => ("False", fine_reason, fine_message.to_owned()),
                _ if kind == "NamespaceContentRemaining" => ("True", "SomeResourcesRemain", problem),
                _ => ("True", "SomeFinalizersRemain", problem),
            };
            let same = old.iter().find(|c| c["type"] == kind && c["status"] == status);
            let time = same.map_or_else(|| Value::from(now.clone()), |c| c["lastTransitionTime"].clone());
            json!({"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": time})
        })
        .collect();
    namespace["status"]["conditions"] = conditions.into();
}

/// `a has 2 …, b has 1 …`, or nothing.
fn describe<'a>(
    names: impl Iterator<Item = &'a str>,
    text: impl Fn(&str, usize) -> String,
) -> Option<String> {
    let mut counts = std::collections::BTreeMap::new();
    for name in names {
        *counts.entry(name).or_insert(0) += 1;
    }
    let parts: Vec<String> = counts.into_iter().map(|(name, n)| text(name, n)).collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}
