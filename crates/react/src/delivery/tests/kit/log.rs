//! A journal in memory.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use futures_core::future::BoxFuture;
use jiff::Timestamp;
use serde_json::json;
use skopos_journal::{Entry, Hole, Log, Observed, ReadError, Seq, Wanted};
use skopos_object::{GroupVersionKind, Object, ObjectKey, Op};
use tokio::sync::watch;

pub(crate) struct MemoryLog {
    now: Arc<dyn Fn() -> Timestamp + Send + Sync>,
    head: watch::Sender<Seq>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    first: u64,
    entries: Vec<Entry>,
    current: BTreeMap<ObjectKey, Entry>,
    n_uids: u64,
    holds: BTreeMap<String, Seq>,
    /// The next so many reads fail.
    n_failures: usize,
    /// The objects there are cannot be read.
    hides_current: bool,
    damaged: Option<(u64, u64)>,
    /// New states are larger by so many bytes.
    n_padding: usize,
}

impl MemoryLog {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            now: super::clock(),
            head: watch::Sender::new(Seq(0)),
            state: Mutex::new(State {
                first: 1,
                ..State::default()
            }),
        })
    }

    pub(crate) fn clock(&self) -> Arc<dyn Fn() -> Timestamp + Send + Sync> {
        self.now.clone()
    }

    /// Sets the number of an object, creating it if need be.
    pub(crate) fn set(&self, name: &str, n: i64) -> Entry {
        self.append(name, Some(n), Observed::Live)
    }

    /// An object that was there when its kind was first looked at.
    pub(crate) fn found(&self, name: &str, n: i64) -> Entry {
        self.append(name, Some(n), Observed::First)
    }

    /// Makes what is set from now on larger.
    pub(crate) fn pad(&self, n_bytes: usize) {
        self.state.lock().unwrap().n_padding = n_bytes;
    }

    pub(crate) fn delete(&self, name: &str) -> Entry {
        self.append(name, None, Observed::Live)
    }

    pub(crate) fn exists(&self, name: &str) -> bool {
        let state = self.state.lock().unwrap();
        state.current.contains_key(&ObjectKey::namespaced("home", name))
    }

    fn append(&self, name: &str, n: Option<i64>, observed: Observed) -> Entry {
        let state = &mut *self.state.lock().unwrap();
        let key = ObjectKey::namespaced("home", name);
        let last = state.current.get(&key).cloned();
        let seq = state.first + state.entries.len() as u64;
        if last.is_none() {
            state.n_uids += 1;
        }
        let uid = last
            .as_ref()
            .map_or_else(|| format!("u{}", state.n_uids), |last| last.uid.clone());
        let after = n.map(|n| object(name, &uid, seq, n, state.n_padding));
        let op = match (&last, &after) {
            (None, _) => Op::Created,
            (Some(_), Some(_)) => Op::Updated,
            (Some(_), None) => Op::Deleted,
        };
        let entry = Entry {
            seq: Seq(seq),
            at: (self.now)(),
            op,
            source: "kubernetes".into(),
            kind: GroupVersionKind::new("x.io", "v1", "Widget"),
            plural: "widgets".into(),
            key: key.clone(),
            uid,
            version: seq.to_string().as_str().into(),
            observed,
            by: Vec::new(),
            before: last.and_then(|last| last.after),
            after,
        };
        match op {
            Op::Deleted => state.current.remove(&key),
            Op::Created | Op::Updated => state.current.insert(key, entry.clone()),
        };
        state.entries.push(entry.clone());
        self.head.send_replace(Seq(seq));
        entry
    }

    /// Removes what nobody holds, up to `seq`.
    pub(crate) fn trim(&self, seq: u64) -> u64 {
        let state = &mut *self.state.lock().unwrap();
        let held = state.holds.values().map(|seq| seq.0).min().unwrap_or(u64::MAX);
        let last = state.first + state.entries.len() as u64 - 1;
        let to = seq.min(held).min(last);
        while state.first <= to {
            state.entries.remove(0);
            state.first += 1;
        }
        state.first
    }

    pub(crate) fn hold_of(&self, name: &str) -> Option<Seq> {
        self.state.lock().unwrap().holds.get(name).copied()
    }

    pub(crate) fn fail_reads(&self, n: usize) {
        self.state.lock().unwrap().n_failures = n;
    }

    pub(crate) fn hide_current(&self, hides: bool) {
        self.state.lock().unwrap().hides_current = hides;
    }

    /// The last state of an object cannot be read any more.
    pub(crate) fn lose_state(&self, name: &str) {
        let key = ObjectKey::namespaced("home", name);
        let mut state = self.state.lock().unwrap();
        let entry = state.current.get_mut(&key).unwrap();
        (entry.before, entry.after) = (None, None);
    }

    pub(crate) fn damage(&self, from: u64, to: u64) {
        self.state.lock().unwrap().damaged = Some((from, to));
    }
}

impl State {
    fn fail(&mut self) -> Result<(), ReadError> {
        if self.n_failures == 0 {
            return Ok(());
        }
        self.n_failures -= 1;
        Err(ReadError::Storage("the disk is away".into()))
    }

    fn read(&mut self, after: Seq, wanted: &Wanted, limit: usize) -> Result<(Vec<Entry>, Seq), ReadError> {
        self.fail()?;
        if after.0 + 1 < self.first {
            return Err(ReadError::Removed(Seq(self.first - 1)));
        }
        let mut up_to = after;
        let mut found = Vec::new();
        for entry in &self.entries[usize::try_from(after.0 + 1 - self.first).unwrap()..] {
            if let Some((from, to)) = self.damaged
                && (from..=to).contains(&entry.seq.0)
            {
                if up_to > after {
                    break;
                }
                return Err(ReadError::Damaged {
                    seq: Seq(from),
                    to: Seq(to),
                    what: "bad checksum".into(),
                });
            }
            if found.len() == limit {
                break;
            }
            up_to = entry.seq;
            if wants(wanted, entry) {
                found.push(entry.clone());
            }
        }
        Ok((found, up_to))
    }
}

fn wants(wanted: &Wanted, entry: &Entry) -> bool {
    let is = |wanted: &Option<String>, has: &str| wanted.as_ref().is_none_or(|wanted| wanted == has);
    is(&wanted.namespace, &entry.key.namespace) && is(&wanted.name, &entry.key.name)
}

fn object(name: &str, uid: &str, version: u64, n: i64, n_padding: usize) -> Object {
    Object::from_value(&json!({
        "apiVersion": "x.io/v1", "kind": "Widget",
        "metadata": {"name": name, "namespace": "home", "uid": uid, "resourceVersion": version.to_string()},
        "spec": {"n": n, "padding": "x".repeat(n_padding)},
    }))
    .unwrap()
}

impl Log for MemoryLog {
    fn first(&self) -> Seq {
        Seq(self.state.lock().unwrap().first)
    }

    fn head(&self) -> Seq {
        *self.head.borrow()
    }

    fn advanced(&self) -> watch::Receiver<Seq> {
        self.head.subscribe()
    }

    fn read<'a>(
        &'a self,
        after: Seq,
        wanted: &'a Wanted,
        limit: usize,
    ) -> BoxFuture<'a, Result<(Vec<Entry>, Seq), ReadError>> {
        Box::pin(async move { self.state.lock().unwrap().read(after, wanted, limit) })
    }

    fn get(&self, seq: Seq) -> BoxFuture<'_, Result<Option<Entry>, ReadError>> {
        Box::pin(async move {
            let mut state = self.state.lock().unwrap();
            state.fail()?;
            let Some(place) = seq.0.checked_sub(state.first) else {
                return Ok(None);
            };
            Ok(state.entries.get(usize::try_from(place).unwrap()).cloned())
        })
    }

    fn current<'a>(
        &'a self,
        wanted: &'a Wanted,
        after: Option<&'a ObjectKey>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<Entry>, ReadError>> {
        Box::pin(async move {
            let mut state = self.state.lock().unwrap();
            state.fail()?;
            if state.hides_current {
                return Err(ReadError::Storage("bad checksum".into()));
            }
            let rest = state
                .current
                .values()
                .filter(|entry| after.is_none_or(|after| entry.key > *after));
            Ok(rest
                .filter(|entry| wants(wanted, entry))
                .take(limit)
                .cloned()
                .collect())
        })
    }

    fn holes(&self) -> Vec<Hole> {
        Vec::new()
    }

    fn hold(&self, name: &str, seq: Option<Seq>) {
        let mut state = self.state.lock().unwrap();
        match seq {
            Some(seq) => state.holds.insert(name.to_owned(), seq),
            None => state.holds.remove(name),
        };
    }
}

impl std::fmt::Debug for MemoryLog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MemoryLog").finish_non_exhaustive()
    }
}
