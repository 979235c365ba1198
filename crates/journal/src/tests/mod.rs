//! The journal on a disk that fails and crashes on demand, and the capture that fills it.

mod capturing;
mod damage;
mod existing;
mod full_disk;
mod headers;
mod histories;
mod interrupted;
mod keeping;
mod metrics_page;
mod remote;
mod selecting;
mod simulation;

use std::{collections::BTreeMap, sync::Arc};

use futures_core::future::BoxFuture;
use jiff::Timestamp;
use skopos_disk::SimDisk;
use skopos_object::{
    Collection, CollectionName, Collections, GroupVersionKind, ListWatch, Object, ObjectKey, Op, OpenError,
};
use skopos_testkit::{ModelSource, object};

use crate::{
    Entry, Journal, JournalConfig, Log as _, Observed, Seq, Wanted,
    commit::{Draft, Transaction},
    record::{Bodies, Meta},
    state::About,
};

/// Small segments, so that there are several.
fn config() -> JournalConfig {
    JournalConfig {
        segment_bytes: 2000,
        ..JournalConfig::new("sim")
    }
}

pub(crate) fn open(disk: &SimDisk) -> Journal {
    Journal::open_on(Arc::new(disk.clone()), config()).unwrap()
}

fn widget(name: &str, uid: &str, version: u64, size: u64) -> Object {
    object(&format!(
        "{{apiVersion: example.com/v1, kind: Widget, metadata: {{name: {name}, namespace: home, uid: {uid}, \
         resourceVersion: '{version}'}}, spec: {{size: {size}, text: 'something that takes some room'}}}}"
    ))
}

fn about() -> About {
    About {
        source: "kubernetes".into(),
        name: "widgets.example.com".into(),
        kind: GroupVersionKind::new("example.com", "v1", "Widget"),
        plural: "widgets".into(),
        singular: "widget".into(),
        short_names: vec!["wd".into()],
    }
}

fn change(op: Op, before: Option<&Object>, after: Option<&Object>) -> Draft {
    let newest = after.or(before).unwrap();
    let meta = Meta {
        seq: Seq(0),
        at: Timestamp::UNIX_EPOCH,
        op,
        observed: Observed::Live,
        collection: 0,
        key: newest.key(),
        uid: newest.uid().into(),
        version: newest.resource_version(),
    };
    let text = |object: Option<&Object>| object.map(|object| object.bytes().to_vec());
    let (before, after) = (text(before), text(after));
    Draft::Change(meta, Bodies::pack(before.as_deref(), after.as_deref()))
}

async fn write(journal: &Journal, at: i64, drafts: Vec<Draft>) -> Seq {
    let at = Timestamp::from_second(at).unwrap();
    journal.commit(Transaction { at, drafts }).await.unwrap()
}

async fn all(journal: &Journal) -> Vec<Entry> {
    read(journal, &Wanted::default()).await
}

async fn read(journal: &Journal, wanted: &Wanted) -> Vec<Entry> {
    let mut entries = Vec::new();
    let mut after = Seq(journal.first().0 - 1);
    while after < journal.head() {
        let (found, looked) = journal.read(after, wanted, 7).await.unwrap();
        if looked == after {
            break;
        }
        entries.extend(found);
        after = looked;
    }
    entries
}

/// The objects of the mirror.
async fn mirror(journal: &Journal) -> BTreeMap<ObjectKey, Object> {
    let mut objects = BTreeMap::new();
    let mut after = None;
    loop {
        let found = journal
            .current(&Wanted::default(), after.as_ref(), 3)
            .await
            .unwrap();
        let Some(last) = found.last() else {
            return objects;
        };
        after = Some(last.key.clone());
        objects.extend(found.into_iter().map(|entry| (entry.key, entry.after.unwrap())));
    }
}

/// One collection under every name, or none.
#[derive(Debug)]
pub(crate) struct One(pub(crate) std::sync::Mutex<Option<ModelSource>>);

impl Collections for One {
    fn open<'a>(&'a self, name: &'a CollectionName) -> BoxFuture<'a, Result<Collection, OpenError>> {
        let source = self.0.lock().unwrap().clone();
        let found = source.ok_or_else(|| OpenError::Missing(name.to_string()));
        Box::pin(std::future::ready(found.map(|source| Collection {
            kind: GroupVersionKind::new("example.com", "v1", "Widget"),
            plural: "widgets".into(),
            singular: "widget".into(),
            short_names: vec!["wd".into()],
            namespaced: true,
            source: Arc::new(source) as Arc<dyn ListWatch>,
        })))
    }
}
