//! The store against a model that keeps every revision: random writes, reads, watches, compactions and
//! crashes give the same answers from both.

use std::{sync::Arc, time::Duration};

use proptest::{collection::vec, prelude::*};

use super::{
    open,
    reference::{Model, Seen, Value},
    run,
};
use skopos_disk::SimDisk;

use crate::{
    Compacted, Config, Event, EventOp, Expect, History, Op, Range, Revision, Store, Template, Watcher, Write,
    WriteError,
};

const SPACES: [&str; 2] = ["core/pods", "example.com/apps"];

#[derive(Clone, Debug)]
enum Step {
    Write {
        space: usize,
        key: u8,
        expect: Wanted,
        delete: bool,
        pad: u8,
    },
    /// Several writes at once, which share a group.
    Burst {
        space: usize,
        keys: Vec<u8>,
    },
    DropSpace {
        space: usize,
    },
    List {
        space: usize,
        prefix: u8,
        back: u64,
        limit: usize,
    },
    Watch {
        space: usize,
        back: u64,
        prefix: u8,
    },
    Poll,
    Compact {
        back: u64,
    },
    Maintain {
        seconds: u8,
    },
    Reopen,
    /// The machine goes down; of the unsynced bytes this share survives. Then the same store again.
    Crash {
        keep: u8,
    },
}

#[derive(Clone, Copy, Debug)]
enum Wanted {
    Absent,
    Current,
    Stale,
    Exists,
    Any,
}

fn step() -> impl Strategy<Value = Step> {
    let wanted = prop_oneof![
        2 => Just(Wanted::Absent),
        3 => Just(Wanted::Current),
        1 => Just(Wanted::Stale),
        2 => Just(Wanted::Exists),
        4 => Just(Wanted::Any)
    ];
    let space = 0..SPACES.len();
    prop_oneof![
        20 => (space.clone(), 0..12u8, wanted, prop::bool::weighted(0.3), any::<u8>())
            .prop_map(|(space, key, expect, delete, pad)| Step::Write { space, key, expect, delete, pad }),
        4 => (space.clone(), vec(0..12u8, 1..10)).prop_map(|(space, keys)| Step::Burst { space, keys }),
        1 => space.clone().prop_map(|space| Step::DropSpace { space }),
        10 => (space.clone(), 0..4u8, 0..30u64, 0..6usize)
            .prop_map(|(space, prefix, back, limit)| Step::List { space, prefix, back, limit }),
        4 => (space, 0..20u64, 0..4u8).prop_map(|(space, back, prefix)| Step::Watch { space, back, prefix }),
        6 => Just(Step::Poll),
        1 => (0..20u64).prop_map(|back| Step::Compact { back }),
        2 => (0..40u8).prop_map(|seconds| Step::Maintain { seconds }),
        2 => Just(Step::Reopen),
        2 => any::<u8>().prop_map(|keep| Step::Crash { keep }),
    ]
}

fn key(n: u8) -> String {
    // Namespaced and plain keys, so that prefixes cut in interesting places.
    match n % 3 {
        0 => format!("a/{n}"),
        1 => format!("ab/{n}"),
        _ => format!("c{n}"),
    }
}

fn prefix(n: u8) -> &'static str {
    ["", "a", "a/", "zz"][n as usize % 4]
}

struct Watched {
    watcher: Watcher,
    space: usize,
    prefix: &'static str,
    cursor: u64,
}

struct Bench {
    disk: SimDisk,
    config: Config,
    store: Store,
    model: Model,
    watched: Vec<Watched>,
    clock: Duration,
}

fn seen(event: &Event) -> Seen {
    let text = |entry: &crate::Entry| String::from_utf8(entry.value.to_vec()).unwrap();
    assert_eq!(
        event.created,
        event.op == EventOp::Put && event.previous.is_none()
    );
    let previous = event.previous.as_ref().map(|entry| text(entry));
    (
        event.op == EventOp::Delete,
        event.entry.key.to_string(),
        text(&event.entry),
        event.revision().0,
        previous,
    )
}

impl Bench {
    fn new() -> Self {
        let disk = SimDisk::default();
        let history = History {
            max_events: 25,
            max_bytes: 6_000,
            max_age: Duration::from_secs(60),
        };
        let config = Config {
            history,
            snapshot_after_bytes: 3_000,
            segment_bytes: 1_000,
            room_bytes: 400,
            ..Config::default()
        };
        let store = open(&disk, &config).unwrap();
        Self {
            disk,
            config,
            store,
            model: Model::new(),
            watched: Vec::new(),
            clock: Duration::ZERO,
        }
    }

    async fn step(&mut self, step: &Step) {
        match step {
            Step::Write {
                space,
                key: k,
                expect,
                delete,
                pad,
            } => {
                self.write(*space, *k, *expect, *delete, *pad).await;
            }
            Step::Burst { space, keys } => self.burst(*space, keys).await,
            Step::DropSpace { space } => {
                let revision = self.store.drop_space(SPACES[*space]).await.unwrap();
                self.model.drop_space(*space);
                assert_eq!(revision.0, self.model.revision());
            }
            Step::List {
                space,
                prefix: p,
                back,
                limit,
            } => self.list(*space, prefix(*p), *back, *limit),
            Step::Watch {
                space,
                back,
                prefix: p,
            } => self.watch(*space, *back, prefix(*p)),
            Step::Poll => self.poll(),
            Step::Compact { back } => {
                self.store
                    .compact(Revision(self.model.revision().saturating_sub(*back)));
            }
            Step::Maintain { seconds } => {
                self.clock += Duration::from_secs(u64::from(*seconds));
                self.store.maintain(self.clock);
            }
            Step::Reopen => self.reopen(255).await,
            Step::Crash { keep } => self.reopen(*keep).await,
        }
        assert_eq!(self.store.revision().0, self.model.revision());
    }

    async fn write(&mut self, space: usize, k: u8, wanted: Wanted, delete: bool, pad: u8) {
        let key = key(k);
        let current = self.model.now(space).get(&key).map(|value| value.modified);
        let expect = match wanted {
            Wanted::Absent => Expect::Absent,
            Wanted::Current => Expect::At(Revision(current.unwrap_or(7))),
            Wanted::Stale => Expect::At(Revision(current.unwrap_or(7).saturating_sub(1))),
            Wanted::Exists => Expect::Exists,
            Wanted::Any => Expect::Any,
        };
        let text = format!("{}@", "v".repeat(usize::from(pad)));
        let template = Template::with_revision_at(text.clone().into_bytes(), text.len());
        let op = if delete {
            Op::Delete { tombstone: template }
        } else {
            Op::Put(template)
        };
        let outcome = self
            .store
            .write(Write {
                space: SPACES[space].into(),
                key: key.clone(),
                expect,
                op,
            })
            .await;
        let fits = self.model.write(space, &key, expect, &text, delete);
        match outcome {
            Ok(entry) => assert!(fits && entry.modified.0 == self.model.revision()),
            Err(WriteError::Conflict { current: found }) => {
                assert!(!fits && found.map(|entry| entry.modified.0) == current);
            }
            Err(error) => panic!("{error}"),
        }
    }

    async fn burst(&mut self, space: usize, keys: &[u8]) {
        let mut tasks = tokio::task::JoinSet::new();
        for &k in keys {
            let (store, key) = (self.store.clone(), key(k));
            let template = Template::with_revision_at(&b"burst@"[..], 6);
            let write = Write {
                space: SPACES[space].into(),
                key,
                expect: Expect::Absent,
                op: Op::Put(template),
            };
            tasks.spawn(async move { store.write(write).await });
        }
        let mut created: Vec<_> = tasks.join_all().await.into_iter().flatten().collect();
        created.sort_by_key(|entry| entry.modified);
        for entry in created {
            assert!(
                self.model
                    .write(space, &entry.key, Expect::Absent, "burst@", false),
                "created twice"
            );
            assert_eq!(entry.modified.0, self.model.revision());
        }
    }

    /// Reads a range page by page and compares with the model at that revision.
    fn list(&self, space: usize, prefix: &str, back: u64, limit: usize) {
        let at = self.model.revision().saturating_sub(back).max(1);
        let mut range = Range {
            prefix: prefix.into(),
            after: None,
            limit,
            at: (back > 0).then_some(Revision(at)),
        };
        let expected: Vec<_> = self
            .model
            .at(at, space)
            .iter()
            .filter(|(k, _)| k.starts_with(prefix))
            .collect();
        let mut got = Vec::new();
        loop {
            let page = match self.store.list(SPACES[space], &range) {
                Ok(page) => page,
                Err(Compacted { requested, oldest }) => {
                    assert!(requested.0 == at && oldest > requested && back > 0);
                    return;
                }
            };
            assert_eq!(page.revision.0, at);
            got.extend(page.items.iter().cloned());
            assert_eq!(page.remaining, expected.len() - got.len());
            if page.remaining == 0 {
                break;
            }
            assert_eq!(page.items.len(), limit);
            range.after = got.last().map(|entry| entry.key.to_string());
        }
        let got: Vec<_> = got
            .iter()
            .map(|entry| (entry.key.to_string(), value(entry)))
            .collect();
        let expected: Vec<_> = expected
            .into_iter()
            .map(|(k, v)| (k.clone(), v.clone()))
            .collect();
        assert_eq!(got, expected);
    }

    fn watch(&mut self, space: usize, back: u64, prefix: &'static str) {
        let cursor = self.model.revision().saturating_sub(back).max(1);
        match self.store.watch(SPACES[space], prefix, Revision(cursor)) {
            Ok(watcher) => {
                assert!(cursor >= self.model.dropped(space));
                self.watched.push(Watched {
                    watcher,
                    space,
                    prefix,
                    cursor,
                });
            }
            Err(Compacted { requested, oldest }) => {
                assert!(requested.0 == cursor && oldest.0 > cursor && back > 0);
            }
        }
    }

    /// Each watcher has exactly the events after its cursor, or is cut off.
    fn poll(&mut self) {
        let model = &self.model;
        self.watched.retain_mut(|watched| {
            let expected = model.events_after(watched.space, watched.cursor, watched.prefix);
            let behind = watched.watcher.progress().0;
            assert!(!expected.is_empty() || behind == model.revision() || behind == watched.cursor);
            match watched.watcher.take() {
                Ok(events) => {
                    let got: Vec<_> = events.iter().map(|event| seen(event)).collect();
                    assert_eq!(got, expected);
                    watched.cursor = model.revision();
                    assert_eq!(watched.watcher.progress().0, model.revision());
                    true
                }
                Err(_) => {
                    // Only one that missed something may be cut off.
                    assert!(watched.cursor < model.revision());
                    false
                }
            }
        });
    }

    async fn reopen(&mut self, keep: u8) {
        self.store.close().await;
        self.disk = self.disk.crashed(|n| n);
        if let Some(last) = self.disk.names_with("log-").pop() {
            self.disk.edit(&last, |bytes| {
                bytes.truncate(bytes.len() * usize::from(keep) / 255);
            });
        }
        self.store = open(&self.disk, &self.config).unwrap();
        let revision = self.store.revision().0;
        assert!(revision == self.model.revision() || (keep < 255 && revision < self.model.revision()));
        self.model.roll_back(revision);
        for space in 0..SPACES.len() {
            self.list(space, "", 0, 0);
        }
        self.watched.retain(|watched| watched.cursor <= revision);
        // Clients come back with the revision they had.
        let old = std::mem::take(&mut self.watched);
        for Watched {
            space,
            prefix,
            cursor,
            ..
        } in old
        {
            if let Ok(watcher) = self.store.watch(SPACES[space], prefix, Revision(cursor)) {
                assert!(cursor >= self.model.dropped(space));
                self.watched.push(Watched {
                    watcher,
                    space,
                    prefix,
                    cursor,
                });
            }
        }
        self.clock = Duration::ZERO;
    }
}

fn value(entry: &Arc<crate::Entry>) -> Value {
    let text = String::from_utf8(entry.value.to_vec()).unwrap();
    Value {
        text,
        created: entry.created.0,
        modified: entry.modified.0,
    }
}

proptest! {
    #[test]
    fn answers_like_a_model_that_keeps_every_revision(steps in vec(step(), 1..150)) {
        run(async {
            let mut bench = Bench::new();
            for step in &steps {
                bench.step(step).await;
            }
            bench.poll();
            bench.reopen(255).await;
            bench.poll();
        });
    }
}
