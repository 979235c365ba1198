//! Tests of the store on a simulated disk.

mod chaos;
mod disk_faults;
mod model;
mod reading;
mod reference;

use std::sync::Arc;

use skopos_disk::SimDisk;

use crate::{Config, Entry, Expect, History, Op, OpenError, Revision, Store, Template, Write, WriteError};

/// Runs a future to its end.
fn run<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap()
        .block_on(future)
}

/// Small bounds, so that few writes reach them.
fn small() -> Config {
    let history = History {
        max_events: 40,
        max_bytes: 1 << 20,
        ..History::default()
    };
    Config {
        history,
        snapshot_after_bytes: 4_000,
        segment_bytes: 1_500,
        room_bytes: 700,
        ..Config::default()
    }
}

/// Bounds that the test does not reach, and files that are no longer than what they hold.
fn large() -> Config {
    Config {
        snapshot_after_bytes: u64::MAX,
        segment_bytes: u64::MAX,
        room_bytes: 0,
        ..Config::default()
    }
}

fn open(disk: &SimDisk, config: &Config) -> Result<Store, OpenError> {
    Store::open_on(Arc::new(disk.clone()), config)
}

fn put(space: &str, key: &str, value: &str) -> Write {
    let op = Op::Put(Template::plain(value.to_owned().into_bytes()));
    Write {
        space: space.into(),
        key: key.into(),
        expect: Expect::Any,
        op,
    }
}

fn delete(space: &str, key: &str) -> Write {
    let op = Op::Delete {
        tombstone: Template::with_revision_at(&b"gone at "[..], 8),
    };
    Write {
        space: space.into(),
        key: key.into(),
        expect: Expect::Any,
        op,
    }
}

fn text(entry: &Entry) -> String {
    String::from_utf8(entry.value.to_vec()).unwrap()
}

async fn write(store: &Store, write: Write) -> Result<Revision, WriteError> {
    store.write(write).await.map(|entry| entry.modified)
}

/// Everything a store holds: space, key, value, created, modified.
fn dump(store: &Store) -> Vec<(String, String, String, u64, u64)> {
    let mut all = Vec::new();
    for space in store.spaces() {
        for entry in store.list(&space, &crate::Range::default()).unwrap().items {
            let (created, modified) = (entry.created.0, entry.modified.0);
            all.push((
                space.to_string(),
                entry.key.to_string(),
                text(&entry),
                created,
                modified,
            ));
        }
    }
    all
}
