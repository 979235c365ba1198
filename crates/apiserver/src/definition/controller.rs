//! Accepts names, establishes definitions, rebuilds the registry, cleans up after deleted definitions.

use std::collections::{BTreeMap, HashMap};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;
use skopos_object::Status;
use skopos_store::{Entry, Expect, Range, Revision, WriteError};
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use super::{
    CLEANUP_FINALIZER, GROUP, PLURAL, is_condition_true, is_definition, names, resources, set_condition,
};
use crate::controllers::RETRY_AFTER;
use crate::options::DeleteOptions;
use crate::registry::{Registry, Resource, Shape, space_of};
use crate::state::Shared;
use crate::versions;
use crate::write::{ObjectExt as _, OwnWrite, delete_entry, track_own};

/// How long the writer of a definition waits for it to be served before it gets its answer anyway.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(2);

/// Follows the stored definitions.
#[derive(Debug)]
pub(crate) struct Definitions {
    bell: Notify,
    /// The newest revision of a definition that was written.
    latest: AtomicU64,
    /// The newest revision that the registry reflects.
    settled: watch::Sender<u64>,
}

impl Definitions {
    pub(crate) fn new() -> Definitions {
        Definitions {
            bell: Notify::new(),
            latest: AtomicU64::new(0),
            settled: watch::Sender::new(0),
        }
    }

    pub(crate) fn observe(&self, revision: Revision) {
        self.latest.fetch_max(revision.0, Ordering::AcqRel);
        self.bell.notify_one();
    }

    /// The newest revision of a definition that was written.
    pub(crate) fn latest(&self) -> Revision {
        Revision(self.latest.load(Ordering::Acquire))
    }

    /// An object went: perhaps the definition itself, perhaps the last one that kept it.
    pub(crate) fn observe_removal(&self, resource: &Resource, revision: Revision) {
        if is_definition(resource) {
            self.observe(revision);
        } else if resource.custom().is_some_and(|custom| custom.terminating) {
            self.bell.notify_one();
        }
    }

    /// Waits until the registry reflects `revision`, so that the next request finds what this one made.
    pub(crate) async fn settle(&self, revision: Revision) {
        let mut settled = self.settled.subscribe();
        let reached = settled.wait_for(|done| *done >= revision.0);
        if tokio::time::timeout(SETTLE_TIMEOUT, reached).await.is_err() {
            tracing::warn!(%revision, "definition not served yet when its write was answered");
        }
    }

    /// Runs until told to stop; `built` is what serves already.
    pub(crate) async fn run(shared: Arc<Shared>, mut built: Built, stop: CancellationToken) {
        loop {
            let outcome = shared.sync_definitions(&mut built).await;
            if let Err(status) = &outcome {
                tracing::error!(error = %status.message, "definitions not up to date");
            }
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                () = tokio::time::sleep(RETRY_AFTER), if outcome.is_err() => {}
                () = shared.definitions.bell.notified() => {}
            }
        }
    }
}

/// The resources made from each definition, kept while nothing about it changes.
#[derive(Debug, Default)]
pub(crate) struct Built {
    by_name: HashMap<String, Made>,
    serial: u64,
}

/// The resources of one definition.
#[derive(Debug, Clone)]
struct Made {
    /// The revision of the definition they were made of, if it is stored as it was then.
    of: Option<Revision>,
    /// A hash of everything they depend on.
    fingerprint: u64,
    resources: Vec<Arc<Resource>>,
    /// The definition without its versions, which are most of it; absent while it is being deleted.
    outline: Option<Value>,
    uid: String,
    /// Ends the watches of the resources when the definition is gone.
    gone: CancellationToken,
}

impl Shared {
    /// Brings conditions, registry and clean-up in line with what is stored.
    pub(crate) async fn sync_definitions(&self, built: &mut Built) -> Result<(), Status> {
        loop {
            let target = self.definitions.latest.load(Ordering::Acquire);
            let mut definitions = self.read_definitions(built)?;
            let changed = judge(&mut definitions);
            for i in &changed {
                complete(&mut definitions[*i])?;
            }
            // Whoever sees a definition established finds it served.
            self.rebuild_registry(built, &definitions, &changed).await;
            if !self.store_changed(&mut definitions, &changed).await? {
                continue;
            }
            if !changed.is_empty() {
                self.rebuild_registry(built, &definitions, &[]).await;
            }
            self.definitions.settled.send_replace(target);
            for (entry, definition) in &definitions {
                if definition.is_deleting() {
                    self.clean_up(built, entry, definition).await?;
                }
            }
            if self.definitions.latest.load(Ordering::Acquire) == target {
                return Ok(());
            }
        }
    }

    /// All definitions, oldest first: who came first keeps a name. Of those that are as they were, the outline.
    fn read_definitions(&self, built: &Built) -> Result<Vec<(Arc<Entry>, Value)>, Status> {
        let space = space_of(GROUP, PLURAL);
        let page = self
            .store
            .list(&space, &Range::default())
            .map_err(|e| Status::internal(e.to_string()))?;
        let mut found = Vec::with_capacity(page.items.len());
        for entry in page.items {
            let definition = match built.outline(&entry) {
                Some(outline) => outline.clone(),
                None => versions::parse(&entry)?,
            };
            found.push((entry, definition));
        }
        found.sort_by_key(|(entry, _)| entry.created);
        Ok(found)
    }

    /// `false` when somebody else wrote a definition meanwhile and all must be read again.
    async fn store_changed(
        &self,
        definitions: &mut [(Arc<Entry>, Value)],
        changed: &[usize],
    ) -> Result<bool, Status> {
        for i in changed {
            let (entry, definition) = &mut definitions[*i];
            match self.store_definition(entry, definition).await? {
                Some(stored) => *entry = stored,
                None => return Ok(false),
            }
        }
        Ok(true)
    }

    async fn store_definition(
        &self,
        entry: &Entry,
        definition: &mut Value,
    ) -> Result<Option<Arc<Entry>>, Status> {
        let registry = self.registry.load();
        let resource = registry
            .find(GROUP, "v1", PLURAL)
            .ok_or_else(|| Status::internal("no definitions"))?;
        let before = versions::parse(entry)?;
        track_own(resource, Some(&before), definition, OwnWrite::ServerStatus);
        let expect = Expect::At(entry.modified);
        let gone = definition.is_deleting() && definition.finalizers().is_empty();
        let outcome = match gone {
            true => self.remove(resource, &entry.key, expect, definition).await,
            false => self.put(resource, &entry.key, expect, definition).await,
        };
        match outcome {
            Ok(entry) => Ok(Some(entry)),
            Err(WriteError::Conflict { .. }) => Ok(None),
            Err(error) => Err(crate::write::storage_failed(&error)),
        }
    }

    /// Makes a registry of `definitions`, of which those at `changed` are not stored as they are here.
    async fn rebuild_registry(
        &self,
        built: &mut Built,
        definitions: &[(Arc<Entry>, Value)],
        changed: &[usize],
    ) {
        let mut all = self.built_in.clone();
        let mut entries = BTreeMap::new();
        let mut kept = HashMap::new();
        for (i, (entry, definition)) in definitions.iter().enumerate() {
            let name = definition.name().to_owned();
            entries.insert(name.clone(), Arc::clone(entry));
            let is_stored = changed.binary_search(&i).is_err();
            let made = built.made_of(entry, definition, is_stored.then_some(entry.modified));
            all.extend(made.resources.iter().map(Arc::clone));
            kept.insert(name, made);
        }
        built.serial += 1;
        let registry = Arc::new(Registry::new(all, entries, built.serial));
        let replaced = std::mem::replace(&mut built.by_name, kept);
        let _alone = self.swap.write().await;
        built.hand_over(&replaced, self.store.revision());
        self.registry.store(registry);
        built.dismiss(&replaced);
    }

    /// Deletes the objects of a definition that is going, then the definition.
    async fn clean_up(&self, built: &Built, entry: &Entry, definition: &Value) -> Result<(), Status> {
        let finalizers: Vec<String> = definition.finalizers().into_iter().map(str::to_owned).collect();
        if !finalizers.iter().any(|f| f == CLEANUP_FINALIZER) {
            return Ok(());
        }
        let now = Timestamp::now();
        let mut definition = definition.clone();
        let made = built.by_name.get(definition.name());
        let served = made.and_then(|made| made.resources.first()).cloned();
        let left = match served.or_else(|| resources::of_storage(&definition)) {
            Some(resource) => self.delete_all(&resource, now).await?,
            None => 0,
        };
        if left > 0 {
            let message = "CustomResource deletion is in progress";
            if set_condition(
                &mut definition,
                "Terminating",
                "True",
                "InstanceDeletionInProgress",
                message,
                now,
            ) {
                self.store_definition(entry, &mut definition).await?;
            }
            return Ok(());
        }
        let message = "removed all instances";
        set_condition(
            &mut definition,
            "Terminating",
            "False",
            "InstanceDeletionCompleted",
            message,
            now,
        );
        let rest: Vec<String> = finalizers
            .into_iter()
            .filter(|f| f != CLEANUP_FINALIZER)
            .collect();
        definition.set_finalizers(&rest);
        self.store_definition(entry, &mut definition).await?;
        Ok(())
    }

    /// Asks every object to go; returns how many are still there.
    async fn delete_all(&self, resource: &Arc<Resource>, now: Timestamp) -> Result<usize, Status> {
        let page = self.store.list(&resource.space, &Range::default());
        for entry in page.map(|page| page.items).unwrap_or_default() {
            delete_entry(self, resource, &entry.key, &DeleteOptions::default(), now).await?;
        }
        Ok(self.store.count(&resource.space))
    }
}

/// Gives every definition the names it can have and the conditions that follow; returns which have changed.
fn judge(definitions: &mut [(Arc<Entry>, Value)]) -> Vec<usize> {
    let now = Timestamp::now();
    let group_of = |definition: &Value| definition["spec"]["group"].as_str().unwrap_or("").to_owned();
    let mut groups: HashMap<String, names::Taken> = HashMap::new();
    for (_, definition) in definitions.iter() {
        groups.entry(group_of(definition)).or_default().add(definition);
    }
    let mut changed = Vec::new();
    for (i, (_, definition)) in definitions.iter_mut().enumerate() {
        let taken = groups.entry(group_of(definition)).or_default();
        taken.remove(definition);
        let renamed = names::accept(definition, taken, now);
        let judged = names::check_approval(definition, now);
        taken.add(definition);
        if renamed || judged {
            changed.push(i);
        }
    }
    changed
}

impl Built {
    /// Ends the shapes of resources that are not served any more and begins those that were made anew.
    fn hand_over(&self, replaced: &HashMap<String, Made>, now: Revision) {
        let shape_of = |made: &Made| Some(Arc::clone(&made.resources.first()?.custom()?.shape));
        for (name, made) in replaced {
            let (old, new) = (shape_of(made), self.by_name.get(name).and_then(shape_of));
            if let (Some(old), Some(new)) = (old, new)
                && !Arc::ptr_eq(&old, &new)
            {
                old.end();
            }
        }
        for shape in self.by_name.values().filter_map(shape_of) {
            shape.begin_unless_begun(now);
        }
    }

    /// The outline of a definition that is stored as it was when its resources were made.
    fn outline(&self, entry: &Entry) -> Option<&Value> {
        let made = self.by_name.get(&*entry.key)?;
        made.outline.as_ref().filter(|_| made.of == Some(entry.modified))
    }

    /// Tells the watches of definitions that are not there any more.
    fn dismiss(&self, replaced: &HashMap<String, Made>) {
        for (name, made) in replaced {
            if self.by_name.get(name).is_none_or(|now| now.uid != made.uid) {
                made.gone.cancel();
            }
        }
    }

    /// The resources of a definition, made anew only when something they depend on has changed.
    fn made_of(&self, entry: &Entry, definition: &Value, of: Option<Revision>) -> Made {
        let before = self.by_name.get(definition.name());
        if let Some(made) = before.filter(|made| of.is_some() && made.of == of) {
            return made.clone();
        }
        let served =
            is_condition_true(definition, "NamesAccepted") || is_condition_true(definition, "Established");
        let fingerprint = fingerprint(definition, served);
        let uid = definition.uid().to_owned();
        let gone = before
            .filter(|made| made.uid == uid)
            .map_or_else(CancellationToken::new, |made| made.gone.clone());
        let resources = match before.filter(|made| made.fingerprint == fingerprint) {
            Some(made) => made.resources.clone(),
            None if served => resources_of(entry, definition, &gone),
            None => Vec::new(),
        };
        Made {
            of,
            fingerprint,
            resources,
            outline: outline_of(definition),
            uid,
            gone,
        }
    }
}

fn outline_of(definition: &Value) -> Option<Value> {
    if definition.is_deleting() {
        return None;
    }
    let without = |value: &Value, left_out: &str| -> Value {
        let fields = value.as_object().into_iter().flatten();
        fields
            .filter(|(name, _)| *name != left_out)
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect()
    };
    let mut outline = without(definition, "spec");
    outline["spec"] = without(&definition["spec"], "versions");
    outline.remove_meta("managedFields");
    Some(outline)
}

/// Makes a whole definition of an outline whose status has been judged anew.
fn complete((entry, definition): &mut (Arc<Entry>, Value)) -> Result<(), Status> {
    if definition["spec"].get("versions").is_none() {
        let status = definition["status"].take();
        *definition = versions::parse(entry)?;
        definition["status"] = status;
    }
    Ok(())
}

fn fingerprint(definition: &Value, served: bool) -> u64 {
    let mut hasher = DefaultHasher::new();
    definition["spec"].to_string().hash(&mut hasher);
    definition["status"]["acceptedNames"]
        .to_string()
        .hash(&mut hasher);
    definition.is_deleting().hash(&mut hasher);
    definition.uid().hash(&mut hasher);
    served.hash(&mut hasher);
    hasher.finish()
}

fn resources_of(entry: &Entry, definition: &Value, gone: &CancellationToken) -> Vec<Arc<Resource>> {
    // A first generation never changed; of later ones only what is written from now on is sure to fit.
    let never_changed = definition.meta("generation").and_then(Value::as_i64) == Some(1);
    let since = if never_changed {
        entry.created
    } else {
        Revision(u64::MAX)
    };
    resources::of_definition(definition, Shape::new(since), gone).unwrap_or_else(|error| {
        tracing::error!(definition = definition.name(), %error, "schema cannot be read; not served");
        Vec::new()
    })
}
