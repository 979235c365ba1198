//! What was asked for: all rules, sinks and records, from a cluster and from files.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    path::{Path, PathBuf},
    time::SystemTime,
};

use jiff::Timestamp;
use serde::de::DeserializeOwned;
use skopos_api::{LoadError, RecordSpec, Resource, RuleSpec, SinkSpec, Trouble};
use skopos_object::{Object, ObjectKey};

/// Everything that was asked for, at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Kinds {
    /// Rules by name, as `namespace/name`.
    pub rules: BTreeMap<String, Given<RuleSpec>>,
    /// Sinks by name.
    pub sinks: BTreeMap<String, Given<SinkSpec>>,
    /// Records by name.
    pub records: BTreeMap<String, Given<RecordSpec>>,
    /// What could not be read, in words.
    pub unreadable: Vec<String>,
    /// Whether files were looked at only once since the start, or since something in them could not be read: they may
    /// just be written.
    pub is_settling: bool,
}

impl Kinds {
    /// Whether this is all there is.
    pub(crate) fn is_complete(&self) -> bool {
        self.unreadable.is_empty() && !self.is_settling
    }
}

/// One thing that was asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct Given<S> {
    /// Which one.
    pub key: ObjectKey,
    /// Tells it from another one of the same name; empty if nothing does, as in files.
    pub uid: String,
    /// Counts its specifications.
    pub generation: i64,
    /// Since when it is there.
    pub created: Option<Timestamp>,
    /// Whether it was read from a file of whoever started Skopos: then it may do more.
    pub is_from_file: bool,
    /// What is asked for, or what is wrong with it.
    pub spec: Result<S, String>,
}

impl<S: DeserializeOwned> Given<S> {
    /// Reads an object of a cluster.
    pub(crate) fn from_object(object: &Object) -> Self {
        let spec = object.get(&["spec"]).unwrap_or_default();
        let created = object.get(&["metadata", "creationTimestamp"]);
        Self {
            key: object.key(),
            uid: object.uid().to_owned(),
            generation: object.generation(),
            created: created.and_then(|at| at.as_str()?.parse().ok()),
            is_from_file: false,
            spec: serde_json::from_value(spec).map_err(|error| error.to_string()),
        }
    }
}

/// The objects of a cache by name.
pub(crate) fn given<S: DeserializeOwned>(objects: &[Object]) -> BTreeMap<String, Given<S>> {
    let given = objects
        .iter()
        .map(|object| (object.key().to_string(), Given::from_object(object)));
    given.collect()
}

/// Files and directories of YAML, read again when they change.
#[derive(Debug, Default)]
pub(crate) struct Files {
    paths: Vec<PathBuf>,
    /// What was read, and by which state of the files.
    read: BTreeMap<PathBuf, Stamp>,
    kinds: Kinds,
    generation: i64,
    /// What the last look did not find. It counts as gone if the next one does not find it either.
    missing: BTreeSet<String>,
    /// Documents that are none of ours, which was said.
    passed_over: BTreeSet<String>,
}

/// By what a change of a file is noticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    modified: Option<SystemTime>,
    len: u64,
}

impl Files {
    pub(crate) fn new(paths: Vec<PathBuf>) -> Self {
        Self {
            paths,
            ..Self::default()
        }
    }

    /// Reads what changed, and says whether anything did.
    ///
    /// What cannot be read any more leaves what was read before, and so does a file with a mistake in it. What is no
    /// longer there counts as gone only after two looks: a file may be seen while it is written or replaced.
    pub(crate) fn refresh(&mut self) -> Result<bool, (PathBuf, io::Error)> {
        let mut found = BTreeMap::new();
        for path in &self.paths {
            for file in yaml_files(path).map_err(|error| (path.clone(), error))? {
                let metadata = fs::metadata(&file).map_err(|error| (file.clone(), error))?;
                let stamp = Stamp {
                    modified: metadata.modified().ok(),
                    len: metadata.len(),
                };
                found.insert(file, stamp);
            }
        }
        let is_settled = self.missing.is_empty() && !self.kinds.is_settling;
        if found == self.read && self.generation > 0 && is_settled {
            return Ok(false);
        }
        let mut kinds = Kinds::default();
        for file in found.keys() {
            let text = fs::read_to_string(file).map_err(|error| (file.clone(), error))?;
            self.load(&text, file, &mut kinds);
        }
        let had_mistakes = !self.kinds.unreadable.is_empty();
        kinds.is_settling = kinds.unreadable.is_empty() && (had_mistakes || self.generation == 0);
        self.missing = self.keep_missing(&mut kinds);
        self.generation += 1;
        self.read = found;
        let is_new = kinds != self.kinds;
        self.kinds = kinds;
        Ok(is_new)
    }

    pub(crate) fn kinds(&self) -> &Kinds {
        &self.kinds
    }

    /// Takes over what was read before and is not there now, unless it certainly is gone. What is taken over.
    fn keep_missing(&self, kinds: &mut Kinds) -> BTreeSet<String> {
        let has_mistakes = !kinds.unreadable.is_empty();
        let mut missing = BTreeSet::new();
        let mut may_stay = |kind: &str, name: &str| {
            let missed = format!("{kind}/{name}");
            let stays = has_mistakes || !self.missing.contains(&missed);
            // While there are mistakes it is not known what is missing.
            if stays && !has_mistakes {
                missing.insert(missed);
            }
            stays
        };
        take_over(&mut kinds.rules, &self.kinds.rules, |name| may_stay("rule", name));
        take_over(&mut kinds.sinks, &self.kinds.sinks, |name| may_stay("sink", name));
        take_over(&mut kinds.records, &self.kinds.records, |name| {
            may_stay("record", name)
        });
        missing
    }

    fn load(&mut self, text: &str, file: &Path, kinds: &mut Kinds) {
        for loaded in skopos_api::load(text, file) {
            match loaded.map(|loaded| loaded.resource) {
                Ok(Resource::Rule(rule)) => {
                    let before = &self.kinds.rules;
                    insert(&mut kinds.rules, before, &rule.metadata, rule.spec);
                }
                Ok(Resource::Sink(sink)) => {
                    let before = &self.kinds.sinks;
                    insert(&mut kinds.sinks, before, &sink.metadata, sink.spec);
                }
                Ok(Resource::Record(record)) => {
                    let before = &self.kinds.records;
                    insert(&mut kinds.records, before, &record.metadata, record.spec);
                }
                Ok(Resource::RuleTest(_)) => {}
                Err(error) if is_of_others(&error.trouble) => self.pass_over(&error),
                Err(error) => kinds.unreadable.push(error.to_string()),
            }
        }
    }

    /// Says once that a document is not for us.
    fn pass_over(&mut self, document: &LoadError) {
        let place = document.file.display().to_string();
        if self.passed_over.insert(format!("{place}: {}", document.object)) {
            tracing::info!(
                file = place,
                line = document.line,
                object = document.object,
                "an object of another kind in the files is passed over"
            );
        }
    }
}

/// Whether a document is an object of somebody else's. A list is not: what is in it may be ours.
fn is_of_others(trouble: &Trouble) -> bool {
    match trouble {
        Trouble::UnknownKind(version, kind) => {
            let group = version.split_once('/').map_or("", |(group, _)| group);
            !version.is_empty() && !kind.is_empty() && kind != "List" && group != skopos_api::GROUP
        }
        Trouble::Syntax(_) | Trouble::Fields(_) => false,
    }
}

/// Adds what was there before and is not now, if it may stay.
fn take_over<S: Clone>(
    now: &mut BTreeMap<String, Given<S>>,
    before: &BTreeMap<String, Given<S>>,
    mut may_stay: impl FnMut(&str) -> bool,
) {
    for (name, given) in before {
        if !now.contains_key(name) && may_stay(name) {
            now.insert(name.clone(), given.clone());
        }
    }
}

/// Takes in what a file asks for. Its generation goes up when it differs from what was asked for before.
fn insert<S: PartialEq>(
    all: &mut BTreeMap<String, Given<S>>,
    before: &BTreeMap<String, Given<S>>,
    metadata: &k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta,
    spec: S,
) {
    let namespace = metadata.namespace.as_deref().unwrap_or("default");
    let key = ObjectKey::namespaced(namespace, metadata.name.as_deref().unwrap_or_default());
    let spec = Ok(spec);
    let generation = match before.get(&key.to_string()) {
        Some(given) if given.spec == spec => given.generation,
        Some(given) => given.generation + 1,
        None => 1,
    };
    let given = Given {
        key,
        uid: String::new(),
        generation,
        created: None,
        is_from_file: true,
        spec,
    };
    all.insert(given.key.to_string(), given);
}

/// The YAML files that a path with rules means, in order: itself, or those in the directory and below, but for names that
/// begin with a dot.
///
/// # Errors
/// What the system says of a path that is not there or cannot be read.
pub fn yaml_files(path: &Path) -> io::Result<Vec<PathBuf>> {
    if !fs::metadata(path)?.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut files = Vec::new();
    for entry in fs::read_dir(path)? {
        let path = entry?.path();
        let name = path
            .file_name()
            .and_then(|name| name.to_str())
            .unwrap_or_default();
        // Names that begin with dots are those of editors, and of mounted ConfigMaps, which show their files twice.
        if name.starts_with('.') {
            continue;
        }
        let is_yaml = [".yaml", ".yml", ".json"].iter().any(|end| name.ends_with(end));
        if fs::metadata(&path)?.is_dir() {
            files.extend(yaml_files(&path)?);
        } else if is_yaml {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

impl Kinds {
    /// Both, where what comes from files is preferred.
    pub(crate) fn with(mut self, files: &Kinds) -> Self {
        self.rules.extend(files.rules.clone());
        self.sinks.extend(files.sinks.clone());
        self.records.extend(files.records.clone());
        self.unreadable.extend(files.unreadable.iter().cloned());
        self.is_settling |= files.is_settling;
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SINK: &str =
        "apiVersion: skopos.dev/v1alpha1\nkind: Sink\nmetadata: {name: out}\nspec: {stdout: {}}\n";

    #[test]
    fn files_are_read_again_when_they_change() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("a.yaml");
        fs::write(&file, SINK).unwrap();
        let mut files = Files::new(vec![dir.path().to_owned()]);
        assert!(files.refresh().unwrap());
        assert_eq!(files.kinds().sinks["default/out"].generation, 1);
        // The first look alone is not sure to have seen everything.
        assert!(!files.kinds().is_complete());
        assert!(files.refresh().unwrap());
        assert!(files.kinds().is_complete());
        assert!(!files.refresh().unwrap());

        let changed = SINK.replace("stdout: {}", "file: {path: /tmp/out}");
        fs::write(&file, changed).unwrap();
        assert!(files.refresh().unwrap());
        assert_eq!(files.kinds().sinks["default/out"].generation, 2);

        fs::write(dir.path().join("b.yaml"), "kind: [").unwrap();
        assert!(files.refresh().unwrap());
        assert_eq!(files.kinds().sinks.len(), 1);
        assert_eq!(files.kinds().unreadable.len(), 1);
    }

    #[test]
    fn what_is_gone_from_the_files_counts_as_gone_after_two_looks() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("a.yaml");
        fs::write(&file, SINK).unwrap();
        let mut files = Files::new(vec![dir.path().to_owned()]);
        files.refresh().unwrap();
        files.refresh().unwrap();
        // As an editor leaves it for a moment.
        fs::write(&file, "").unwrap();
        assert!(!files.refresh().unwrap());
        fs::write(&file, SINK).unwrap();
        assert!(!files.refresh().unwrap());
        fs::remove_file(&file).unwrap();
        assert!(!files.refresh().unwrap());
        assert_eq!(files.kinds().sinks.len(), 1);
        assert!(files.refresh().unwrap());
        assert_eq!(files.kinds().sinks.len(), 0);
    }

    #[test]
    fn a_file_with_a_mistake_leaves_what_was_read_of_it() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("a.yaml");
        let two = format!("{SINK}---\n{}", SINK.replace("name: out", "name: two"));
        fs::write(&file, &two).unwrap();
        let mut files = Files::new(vec![file.clone()]);
        files.refresh().unwrap();
        fs::write(&file, two.replace("name: two", "name: [two")).unwrap();
        for _ in 0..3 {
            files.refresh().unwrap();
            assert_eq!(files.kinds().sinks.len(), 2);
            assert_eq!(files.kinds().unreadable.len(), 1);
        }
        fs::write(&file, SINK).unwrap();
        files.refresh().unwrap();
        assert!(!files.kinds().is_complete());
        files.refresh().unwrap();
        assert!(files.kinds().is_complete());
        assert_eq!(
            (files.kinds().sinks.len(), files.kinds().unreadable.len()),
            (1, 0)
        );
    }

    #[test]
    fn objects_of_other_kinds_are_passed_over() {
        let check = |other: &str, n_unreadable: usize| {
            let dir = tempfile::tempdir().unwrap();
            fs::write(dir.path().join("a.yaml"), format!("{SINK}---\n{other}")).unwrap();
            let mut files = Files::new(vec![dir.path().to_owned()]);
            files.refresh().unwrap();
            files.refresh().unwrap();
            assert_eq!(files.kinds().sinks.len(), 1, "{other}");
            assert_eq!(files.kinds().unreadable.len(), n_unreadable, "{other}");
            assert_eq!(files.kinds().is_complete(), n_unreadable == 0, "{other}");
        };
        check(
            "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\n",
            0,
        );
        check("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n", 0);
        check("apiVersion: skopos.dev/v1alpha1\nkind: Rul\n", 1);
        check("apiVersion: skopos.dev/v1\nkind: Rule\n", 1);
        check("apiVersion: v1\nkind: List\nitems: []\n", 1);
        check("kind: Rule\n", 1);
        check("colour: red\n", 1);
    }

    #[test]
    fn a_directory_that_is_gone_leaves_what_was_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("rules");
        fs::create_dir(&path).unwrap();
        fs::write(path.join("a.yaml"), SINK).unwrap();
        let mut files = Files::new(vec![path.clone()]);
        files.refresh().unwrap();
        fs::remove_dir_all(&path).unwrap();
        assert!(files.refresh().is_err());
        assert_eq!(files.kinds().sinks.len(), 1);
    }
}
