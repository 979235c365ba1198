//! What is served: every resource in every version, as one immutable snapshot.
//!
//! Handlers load the current [`Registry`] once per request; a change of a CRD builds a new one and swaps it
//! whole, so no request ever sees half of a change.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use skopos_builtin::Kind;
use skopos_cel::rules::Rules;
use skopos_object::{GroupKind, GroupResource, GroupVersionKind, compare_versions};
use skopos_schema::{Column, JsonPath, Scale, Structural};
use skopos_store::{Entry, Revision};
use tokio_util::sync::CancellationToken;

use crate::write::Tracking;

/// Every verb a stored resource answers, in the order discovery lists them for custom resources.
pub(crate) const ALL_VERBS: [&str; 8] = [
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "create",
    "update",
    "watch",
];
/// What is left of [`ALL_VERBS`] while the definition is being deleted.
pub(crate) const TERMINATING_VERBS: [&str; 5] = ["delete", "deletecollection", "get", "list", "watch"];

/// An immutable picture of all resources served at one moment.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    resources: Vec<Arc<Resource>>,
    by_path: HashMap<(String, String, String), Arc<Resource>>,
    groups: Vec<Group>,
    definitions: BTreeMap<String, Arc<Entry>>,
    serial: u64,
}

/// One API group with its served versions, best first.
#[derive(Debug, Clone)]
pub(crate) struct Group {
    pub(crate) name: String,
    pub(crate) versions: Vec<String>,
    /// The group only exists because of custom resource definitions.
    pub(crate) custom: bool,
}

/// One resource in one served version.
#[derive(Debug)]
pub(crate) struct Resource {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) plural: String,
    pub(crate) singular: String,
    pub(crate) kind: String,
    pub(crate) list_kind: String,
    pub(crate) short_names: Vec<String>,
    pub(crate) categories: Vec<String>,
    pub(crate) namespaced: bool,
    pub(crate) verbs: Vec<&'static str>,
    pub(crate) subresources: Vec<Subresource>,
    /// The version objects are stored in; equal to `version` for most.
    pub(crate) storage_version: String,
    /// The group objects are stored in; differs from `group` only for events, which two groups share.
    pub(crate) storage_group: String,
    /// The store's space that holds the objects.
    pub(crate) space: Arc<str>,
    pub(crate) source: Source,
    /// How the owners of fields are tracked.
    pub(crate) tracking: OnceLock<Tracking>,
}

/// A subresource as discovery shows it.
#[derive(Debug, Clone)]
pub(crate) struct Subresource {
    pub(crate) name: String,
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) kind: String,
    pub(crate) verbs: Vec<&'static str>,
}

/// Where a resource comes from, with what only that side knows.
#[derive(Debug)]
pub(crate) enum Source {
    BuiltIn(&'static Kind),
    Custom(Box<Custom>),
}

/// What a custom resource definition adds to its resource in one version.
#[derive(Debug)]
pub(crate) struct Custom {
    /// Name of the definition, `<plural>.<group>`.
    pub(crate) definition: String,
    pub(crate) schema: Arc<Structural>,
    /// The rules of the schema; see [`Custom::rules`].
    pub(crate) rules: OnceLock<Option<Rules>>,
    /// The schemas of all versions, for objects that were stored in one of them.
    pub(crate) schemas: Arc<BTreeMap<String, Arc<Structural>>>,
    pub(crate) status: bool,
    pub(crate) scale: Option<Scale>,
    /// Where each version keeps its replicas, by apiVersion; empty without a scale subresource.
    pub(crate) replicas_paths: Arc<Vec<(String, Vec<String>)>>,
    pub(crate) columns: Vec<Column>,
    pub(crate) selectable_fields: Vec<SelectableField>,
    /// The text of the `Warning` header for a deprecated version.
    pub(crate) deprecation: Option<String>,
    /// The definition is being deleted: nothing can be created any more.
    pub(crate) terminating: bool,
    /// Which stored objects have the shape the schemas ask for; the versions of a definition share it.
    pub(crate) shape: Arc<Shape>,
    /// Cancelled when the definition is gone; outlives changes of the definition, unlike the resource.
    pub(crate) gone: CancellationToken,
}

/// What is known of the shape of stored objects.
#[derive(Debug)]
pub(crate) struct Shape {
    since: AtomicU64,
    is_replaced: AtomicBool,
}

impl Shape {
    pub(crate) fn new(since: Revision) -> Shape {
        Shape {
            since: AtomicU64::new(since.0),
            is_replaced: AtomicBool::new(false),
        }
    }

    /// An entry has this shape: it was written after the schemas last changed.
    pub(crate) fn covers(&self, entry: &Entry) -> bool {
        entry.modified.0 > self.since.load(Ordering::Acquire)
    }

    /// A shape that has not begun yet begins now: objects written up to here may have another.
    pub(crate) fn begin_unless_begun(&self, now: Revision) {
        let not_yet = u64::MAX;
        let _ = self
            .since
            .compare_exchange(not_yet, now.0, Ordering::AcqRel, Ordering::Acquire);
    }

    /// What is written from now on has another shape.
    pub(crate) fn end(&self) {
        self.is_replaced.store(true, Ordering::Release);
    }

    pub(crate) fn is_replaced(&self) -> bool {
        self.is_replaced.load(Ordering::Acquire)
    }
}

impl Custom {
    /// The validation rules of the schema, compiled when they are first needed.
    pub(crate) fn rules(&self) -> Option<&Rules> {
        self.rules.get_or_init(|| Rules::compile(&self.schema)).as_ref()
    }

    /// The schema of a version; of one that is gone, the schema this resource is served by.
    pub(crate) fn schema_of(&self, version: &str) -> &Structural {
        self.schemas.get(version).unwrap_or(&self.schema)
    }
}

/// A field of a custom resource that field selectors may name, such as `spec.color`.
#[derive(Debug)]
pub(crate) struct SelectableField {
    pub(crate) label: String,
    pub(crate) path: JsonPath,
}

impl Registry {
    /// Builds a snapshot; `definitions` are the stored CRDs it was made from, by name.
    pub(crate) fn new(
        resources: Vec<Arc<Resource>>,
        definitions: BTreeMap<String, Arc<Entry>>,
        serial: u64,
    ) -> Registry {
        let by_path = resources
            .iter()
            .map(|r| {
                (
                    (r.group.clone(), r.version.clone(), r.plural.clone()),
                    Arc::clone(r),
                )
            })
            .collect();
        let groups = collect_groups(&resources);
        Registry {
            resources,
            by_path,
            groups,
            definitions,
            serial,
        }
    }

    pub(crate) fn find(&self, group: &str, version: &str, plural: &str) -> Option<&Arc<Resource>> {
        self.by_path
            .get(&(group.to_owned(), version.to_owned(), plural.to_owned()))
    }

    /// All resources of one group and version, in discovery order.
    pub(crate) fn of<'a>(
        &'a self,
        group: &'a str,
        version: &'a str,
    ) -> impl Iterator<Item = &'a Arc<Resource>> + 'a {
        self.resources
            .iter()
            .filter(move |r| r.group == group && r.version == version)
    }

    /// All resources, in discovery order.
    pub(crate) fn resources(&self) -> &[Arc<Resource>] {
        &self.resources
    }

    /// All groups in discovery order, the core group (empty name) first.
    pub(crate) fn groups(&self) -> &[Group] {
        &self.groups
    }

    /// The stored definition behind a custom resource, as JSON bytes in `Entry::value`.
    pub(crate) fn definition(&self, name: &str) -> Option<&Arc<Entry>> {
        self.definitions.get(name)
    }

    /// Grows with every snapshot: caches of derived documents are keyed by it.
    pub(crate) fn serial(&self) -> u64 {
        self.serial
    }

    /// The resource that keeps its objects in a space, in its preferred version.
    pub(crate) fn by_space(&self, space: &str) -> Option<&Arc<Resource>> {
        let stored = self
            .resources
            .iter()
            .filter(|r| *r.space == *space && r.is_stored());
        stored.max_by_key(|r| r.is_served_as_stored())
    }

    /// One resource per store space, in its preferred version: what controllers iterate over.
    pub(crate) fn stored(&self) -> Vec<Arc<Resource>> {
        let mut seen = std::collections::HashSet::new();
        let mut found = Vec::new();
        for group in &self.groups {
            for version in &group.versions {
                for resource in self.of(&group.name, version) {
                    if resource.is_stored() && seen.insert(Arc::clone(&resource.space)) {
                        found.push(Arc::clone(resource));
                    }
                }
            }
        }
        found
    }

    /// The resource that serves a kind, for owner references and the like.
    pub(crate) fn by_kind(&self, gvk: &GroupVersionKind) -> Option<&Arc<Resource>> {
        self.resources
            .iter()
            .find(|r| r.group == gvk.group && r.version == gvk.version && r.kind == gvk.kind)
    }
}

impl Resource {
    pub(crate) fn api_version(&self) -> String {
        join_group_version(&self.group, &self.version)
    }

    /// The `apiVersion` objects carry on disk.
    pub(crate) fn storage_api_version(&self) -> String {
        join_group_version(&self.storage_group, &self.storage_version)
    }

    /// Stored bytes can be sent as they are: no conversion and nothing to default on reading.
    pub(crate) fn is_served_as_stored(&self) -> bool {
        self.version == self.storage_version && self.group == self.storage_group
    }

    pub(crate) fn group_resource(&self) -> GroupResource {
        GroupResource {
            group: self.group.clone(),
            resource: self.plural.clone(),
        }
    }

    /// The kind that messages about wrong objects name. Events of both groups are those of the first.
    pub(crate) fn group_kind(&self) -> GroupKind {
        match self.is("events.k8s.io", "events") {
            true => GroupKind::new("", &self.kind),
            false => GroupKind::new(&self.group, &self.kind),
        }
    }

    pub(crate) fn allows(&self, verb: &str) -> bool {
        self.verbs.contains(&verb)
    }

    /// Reviews and the like are answered, never stored.
    pub(crate) fn is_stored(&self) -> bool {
        self.allows("list")
    }

    pub(crate) fn custom(&self) -> Option<&Custom> {
        match &self.source {
            Source::Custom(custom) => Some(custom),
            Source::BuiltIn(_) => None,
        }
    }

    pub(crate) fn built_in(&self) -> Option<&'static Kind> {
        match self.source {
            Source::BuiltIn(kind) => Some(kind),
            Source::Custom(_) => None,
        }
    }

    pub(crate) fn subresource(&self, name: &str) -> Option<&Subresource> {
        self.subresources.iter().find(|s| s.name == name)
    }

    pub(crate) fn is(&self, group: &str, plural: &str) -> bool {
        self.group == group && self.plural == plural
    }

    /// The key of an object inside the resource's space.
    pub(crate) fn key(&self, namespace: &str, name: &str) -> String {
        if self.namespaced {
            format!("{namespace}/{name}")
        } else {
            name.to_owned()
        }
    }
}

pub(crate) fn join_group_version(group: &str, version: &str) -> String {
    if group.is_empty() {
        version.to_owned()
    } else {
        format!("{group}/{version}")
    }
}

/// The store's space for a resource of a group.
pub(crate) fn space_of(group: &str, plural: &str) -> Arc<str> {
    let group = if group.is_empty() { "core" } else { group };
    format!("{group}/{plural}").into()
}

/// Groups in order of appearance (built-in first), custom ones by name, versions best first.
fn collect_groups(resources: &[Arc<Resource>]) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for resource in resources {
        let position = groups
            .iter()
            .position(|g| g.name == resource.group)
            .unwrap_or_else(|| {
                groups.push(Group {
                    name: resource.group.clone(),
                    versions: Vec::new(),
                    custom: true,
                });
                groups.len() - 1
            });
        let group = &mut groups[position];
        group.custom &= resource.custom().is_some();
        if !group.versions.contains(&resource.version) {
            group.versions.push(resource.version.clone());
        }
    }
    for group in &mut groups {
        group.versions.sort_by(|a, b| compare_versions(b, a));
    }
    let n_built_in = groups.iter().take_while(|g| !g.custom).count();
    groups[n_built_in..].sort_by(|a, b| a.name.cmp(&b.name));
    groups
}
