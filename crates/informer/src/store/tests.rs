//! Random life of a store beside a plain map, which it must equal: by key, list, index, snapshot and change.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;
use skopos_object::{Object, ObjectKey, Op};

use super::{Changes, Compression, Delta, Index, IndexReader, Snapshot, Staging, Store};

type Model = BTreeMap<ObjectKey, Object>;

struct Life {
    rng: fastrand::Rng,
    store: Store,
    indexes: Vec<(&'static str, IndexReader)>,
    model: Model,
    /// What one made of the changes who hears of all.
    told: Model,
    /// Snapshots, and what was there when they were taken.
    snapshots: Vec<(Snapshot, Model)>,
    version: u64,
    n_names: usize,
}

/// Each part of the collection is a namespace.
const PARTS: [&str; 2] = ["east", "west"];
const COLORS: [&str; 3] = ["red", "green", "blue"];

impl Life {
    fn new(seed: u64) -> Self {
        let mut rng = fastrand::Rng::with_seed(seed);
        let compression = match rng.bool() {
            true => Compression::Lz4,
            false => Compression::None,
        };
        // Few names make many encounters; many take more than one piece of the table.
        let n_names = [3, 30, 300][rng.usize(0..3)];
        Self {
            rng,
            store: Store::new(compression),
            indexes: Vec::new(),
            model: Model::new(),
            told: Model::new(),
            snapshots: Vec::new(),
            version: 100,
            n_names,
        }
    }

    fn step(&mut self) {
        match self.rng.u32(0..100) {
            0..45 => self.apply(),
            45..60 => self.delete(),
            60..65 => self.delete_unread(),
            65..72 => self.repeat(),
            72..80 => self.relist(),
            80..82 => self.purge(),
            82..90 => self.snapshot(),
            90..92 => self.add_index(),
            _ => self.compare(),
        }
    }

    /// Takes a new state, of the same object or of another under its name.
    fn apply(&mut self) {
        let part = self.part();
        let object = self.draw(part);
        self.model.insert(object.key(), object.clone());
        self.change(|store, deltas| store.write().apply(part, object, deltas));
    }

    /// Takes again what is known, and what is older: nothing happens.
    fn repeat(&mut self) {
        let Some(known) = self.choose() else { return };
        let older = object(&known.key(), known.uid(), 99, "red", 1);
        let part = part_of(&known);
        self.change(|store, deltas| {
            let mut content = store.write();
            content.apply(part, known, deltas);
            content.apply(part, older.clone(), deltas);
            content.delete(older, deltas);
            assert!(deltas.is_empty(), "nothing is new: {deltas:?}");
        });
    }

    fn delete(&mut self) {
        self.version += 1;
        let part = self.part();
        let key = self.key(part);
        let last = match self.model.remove(&key) {
            Some(known) => with_version(&known, self.version),
            None => object(&key, "stranger", self.version, "red", 1),
        };
        self.change(|store, deltas| store.write().delete(last, deltas));
    }

    fn delete_unread(&mut self) {
        let part = self.part();
        let key = self.key(part);
        self.model.remove(&key);
        self.change(|store, deltas| store.write().delete_unread(&key, deltas));
    }

    /// Lists a part: some objects as they are, some changed, some new, some gone, some unreadable, some told twice.
    fn relist(&mut self) {
        let part = self.part();
        let before: Vec<Object> = self.of(part).cloned().collect();
        let mut staging = Staging::new(part, &self.store.read().table);
        let mut listed = Model::new();
        for known in &before {
            match self.rng.u32(0..10) {
                0..5 => self.list(known.clone(), &mut staging, &mut listed),
                5..7 => {
                    let color = self.color();
                    self.version += 1;
                    let changed = object(&known.key(), known.uid(), self.version, color, self.version);
                    self.list(changed, &mut staging, &mut listed);
                }
                7 => {
                    staging.keep(&known.key(), &self.store.read().table);
                    listed.insert(known.key(), known.clone());
                }
                _ => {}
            }
        }
        for _ in 0..self.rng.usize(0..4) {
            let fresh = self.draw(part);
            self.list(fresh, &mut staging, &mut listed);
        }
        if let Some(key) = listed.keys().nth(self.rng.usize(0..8)).cloned() {
            staging.remove(&key, &self.store.read().table);
            listed.remove(&key);
        }
        // Until it is complete nothing shows.
        self.compare();
        self.model
            .retain(|key, _| key.namespace != PARTS[usize::from(part)]);
        self.model.extend(listed);
        self.change(|store, deltas| {
            let mut changes = Changes::default();
            store.write().replace(staging, &mut changes);
            let hasher = store.read().table.hasher().clone();
            for entry in changes.appeared.iter().flat_map(Snapshot::entries) {
                let hash = hasher.key_of(&entry.body.unpacked()).hash;
                deltas.push(Delta::created(hash, entry.body.clone()));
            }
            deltas.append(&mut changes.deltas);
            let is_deletion = |delta: &Delta| delta.op == Op::Deleted;
            let n_first = deltas.iter().take_while(|delta| is_deletion(delta)).count();
            let n_deletions = deltas.iter().filter(|delta| is_deletion(delta)).count();
            assert_eq!(n_first, n_deletions, "deletions come first");
        });
    }

    fn list(&mut self, object: Object, staging: &mut Staging, listed: &mut Model) {
        staging.add(object.clone(), &self.store.read().table);
        listed.insert(object.key(), object);
    }

    fn purge(&mut self) {
        let part = self.part();
        self.model
            .retain(|key, _| key.namespace != PARTS[usize::from(part)]);
        self.change(|store, deltas| store.write().purge(part, deltas));
    }

    fn snapshot(&mut self) {
        if self.snapshots.len() > 5 {
            let gone = self.rng.usize(0..self.snapshots.len());
            self.snapshots.swap_remove(gone);
        }
        self.snapshots.push((self.store.snapshot(), self.model.clone()));
    }

    fn add_index(&mut self) {
        let (name, index) = match self.rng.bool() {
            true => ("color", Index::label("color")),
            false => ("namespace", Index::namespace()),
        };
        self.indexes.push((name, self.store.add_index(index)));
    }

    /// Changes the store, and tells of it.
    fn change(&mut self, change: impl FnOnce(&Store, &mut Vec<Delta>)) {
        let mut deltas = Vec::new();
        change(&self.store, &mut deltas);
        for delta in deltas {
            self.tell(delta);
        }
        assert!(self.told == self.model, "what was told is what is there");
    }

    fn tell(&mut self, delta: Delta) {
        let [old, new] = [delta.old, delta.new].map(|body| body.map(|body| body.object()));
        let key = new.as_ref().or(old.as_ref()).unwrap().key();
        let known = self.told.get(&key);
        match delta.op {
            Op::Created => assert_eq!((old, known), (None, None), "{key}"),
            Op::Updated => {
                assert_eq!(old.as_ref(), known, "{key}");
                assert_eq!(known.unwrap().uid(), new.as_ref().unwrap().uid());
            }
            Op::Deleted => assert_eq!(old.unwrap().uid(), known.unwrap().uid(), "{key}"),
        }
        match new {
            Some(new) => self.told.insert(key, new),
            None => self.told.remove(&key),
        };
    }

    fn compare(&self) {
        assert!(models(self.store.list()) == self.model, "list");
        assert_eq!(self.store.len(), self.model.len());
        for (key, object) in &self.model {
            assert_eq!(self.store.get_key(key).as_ref(), Some(object));
        }
        assert_eq!(self.store.get("east", "nobody"), None);
        for (snapshot, then) in &self.snapshots {
            assert!(models(snapshot.iter()) == *then, "a snapshot does not change");
            assert_eq!(snapshot.len(), then.len());
        }
        for (name, reader) in &self.indexes {
            self.compare_index(name, reader);
        }
    }

    fn compare_index(&self, name: &str, reader: &IndexReader) {
        let mut expected: BTreeMap<String, Model> = BTreeMap::new();
        for (key, object) in &self.model {
            let value = match name {
                "color" => object.label("color").unwrap().into_owned(),
                _ => key.namespace.clone(),
            };
            expected
                .entry(value)
                .or_default()
                .insert(key.clone(), object.clone());
        }
        let values: BTreeSet<_> = reader.values().into_iter().collect();
        let counted = expected
            .iter()
            .map(|(value, objects)| (value.clone(), objects.len()));
        assert_eq!(values, counted.collect(), "empty values are not there");
        for (value, objects) in expected {
            assert!(models(reader.get(&value)) == objects, "{name}={value}");
        }
    }

    /// A new state of an object: sometimes another object of that name, mostly the one that is there.
    fn draw(&mut self, part: u16) -> Object {
        self.version += 1;
        let key = self.key(part);
        let known = self.model.get(&key).map(|known| known.uid().to_owned());
        let uid = known
            .filter(|_| self.rng.u32(0..5) > 0)
            .unwrap_or_else(|| format!("uid-{}", self.version));
        object(&key, &uid, self.version, self.color(), self.version)
    }

    fn part(&mut self) -> u16 {
        self.rng.u16(0..PARTS.len() as u16)
    }

    fn key(&mut self, part: u16) -> ObjectKey {
        let n = self.rng.usize(0..self.n_names);
        ObjectKey::namespaced(PARTS[usize::from(part)], format!("thing-{n}"))
    }

    fn color(&mut self) -> &'static str {
        COLORS[self.rng.usize(0..COLORS.len())]
    }

    fn choose(&mut self) -> Option<Object> {
        let n = self.rng.usize(0..self.model.len().max(1));
        self.model.values().nth(n).cloned()
    }

    fn of(&self, part: u16) -> impl Iterator<Item = &Object> {
        let namespace = PARTS[usize::from(part)];
        self.model
            .values()
            .filter(move |object| object.namespace() == namespace)
    }
}

fn part_of(object: &Object) -> u16 {
    PARTS.iter().position(|part| *part == object.namespace()).unwrap() as u16
}

fn models(objects: impl IntoIterator<Item = Object>) -> Model {
    objects.into_iter().map(|object| (object.key(), object)).collect()
}

/// Long enough that some make a dictionary.
fn object(key: &ObjectKey, uid: &str, version: u64, color: &str, n: u64) -> Object {
    let value = json!({
        "apiVersion": "example.com/v1", "kind": "Thing",
        "metadata": {
            "name": key.name, "namespace": key.namespace, "uid": uid,
            "resourceVersion": version.to_string(), "labels": {"color": color},
        },
        "spec": {"n": n, "text": "what they all have in common ".repeat(20)},
    });
    Object::from_value(&value).unwrap()
}

fn with_version(known: &Object, version: u64) -> Object {
    let mut value = known.to_value();
    value["metadata"]["resourceVersion"] = json!(version.to_string());
    Object::from_value(&value).unwrap()
}

fn run(seed: u64) {
    let mut life = Life::new(seed);
    for _ in 0..150 {
        life.step();
    }
    life.compare();
}

/// `SEED=<n>` replays one.
#[test]
fn store_equals_a_plain_map_whatever_happens() {
    if let Some(seed) = std::env::var("SEED").ok().and_then(|seed| seed.parse().ok()) {
        return run(seed);
    }
    let first = fastrand::u64(..u64::MAX / 2);
    for seed in first..first + 200 {
        let lived = std::panic::catch_unwind(|| run(seed));
        assert!(
            lived.is_ok(),
            "replay: SEED={seed} cargo test -p skopos-informer store_equals"
        );
    }
}
