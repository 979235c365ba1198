//! Lists, watches and history of a store in memory.

use std::time::Duration;

use super::{delete, put, run, text, write};
use crate::{Compacted, Config, Expect, History, Op, Range, Revision, Store, Template, Write, WriteError};

const S: &str = "core/pods";

fn with_history(history: History) -> Store {
    Store::open(Config {
        history,
        ..Config::default()
    })
    .unwrap()
}

async fn filled(keys: &[&str]) -> Store {
    let store = with_history(History::default());
    for key in keys {
        write(&store, put(S, key, key)).await.unwrap();
    }
    store
}

#[test]
fn the_revision_is_spliced_into_the_value() {
    run(async {
        let store = filled(&["first"]).await;
        let op = Op::Put(Template::with_revision_at(&br#"{"v":"","x":1}"#[..], 6));
        let entry = store
            .write(Write {
                space: S.into(),
                key: "a".into(),
                expect: Expect::Absent,
                op,
            })
            .await
            .unwrap();
        assert_eq!(text(&entry), r#"{"v":"3","x":1}"#);
    });
}

#[test]
fn a_list_is_cut_by_prefix_cursor_and_limit() {
    run(async {
        let store = filled(&["a", "ns/1", "ns/2", "ns/3", "ns0/1", "z"]).await;
        let keys = |prefix: &str, after: Option<&str>, limit| {
            let range = Range {
                prefix: prefix.into(),
                after: after.map(Into::into),
                limit,
                at: None,
            };
            let page = store.list(S, &range).unwrap();
            (
                page.items
                    .iter()
                    .map(|e| e.key.to_string())
                    .collect::<Vec<_>>()
                    .join(" "),
                page.remaining,
            )
        };
        assert_eq!(keys("ns/", None, 0), ("ns/1 ns/2 ns/3".into(), 0));
        assert_eq!(keys("ns/", None, 2), ("ns/1 ns/2".into(), 1));
        assert_eq!(keys("ns/", Some("ns/2"), 2), ("ns/3".into(), 0));
        assert_eq!(keys("ns/", Some("zzz"), 2), (String::new(), 0));
        assert_eq!(keys("ns/", Some("a"), 1), ("ns/1".into(), 2));
        assert_eq!(keys("", Some("ns/3"), 1), ("ns0/1".into(), 1));
        assert_eq!(keys("\u{10ffff}", None, 1), (String::new(), 0));
    });
}

#[test]
fn a_conflict_carries_what_is_there() {
    run(async {
        let store = filled(&["a"]).await;
        let stale = Write {
            expect: Expect::At(Revision(1)),
            ..put(S, "a", "new")
        };
        let Err(WriteError::Conflict {
            current: Some(current),
        }) = store.write(stale).await
        else {
            panic!()
        };
        assert_eq!(current.modified, Revision(2));
        let absent = store.write(delete(S, "nothing")).await;
        assert!(matches!(absent, Err(WriteError::Conflict { current: None })));
        assert_eq!(store.stats().conflicts, 2);
    });
}

#[test]
fn a_write_beyond_the_limit_is_refused() {
    run(async {
        let store = Store::open(Config {
            max_write_bytes: 100,
            ..Config::default()
        })
        .unwrap();
        let error = write(&store, put(S, "a", &"x".repeat(200))).await.unwrap_err();
        assert!(
            matches!(error, WriteError::TooLarge { limit: 100, .. }),
            "{error}"
        );
        assert_eq!(store.revision(), Revision(1));
    });
}

#[test]
fn a_waiting_watcher_is_woken_and_may_be_cancelled() {
    run(async {
        let store = filled(&[]).await;
        let mut watcher = store.watch(S, "a", store.revision()).unwrap();
        tokio::select! {
            biased;
            _ = watcher.next() => panic!("nothing to see yet"),
            () = std::future::ready(()) => {}
        }
        let writer = async {
            write(&store, put(S, "b", "not ours")).await.unwrap();
            write(&store, put("core/other", "a", "not ours")).await.unwrap();
            write(&store, put(S, "a", "ours")).await.unwrap();
        };
        let (events, ()) = tokio::join!(watcher.next(), writer);
        let events = events.unwrap();
        assert_eq!(
            (events.len(), events[0].revision(), text(&events[0].entry)),
            (1, Revision(4), "ours".into())
        );
        assert_eq!(store.stats().watchers, 1);
        drop(watcher);
        assert_eq!(store.stats().watchers, 0);
    });
}

#[test]
fn progress_moves_on_with_other_spaces() {
    run(async {
        let store = filled(&["a"]).await;
        let mut watcher = store.watch(S, "", Revision(1)).unwrap();
        assert_eq!(watcher.progress(), Revision(1));
        watcher.next().await.unwrap();
        write(&store, put("core/other", "x", "x")).await.unwrap();
        assert_eq!(watcher.progress(), Revision(3));
        write(&store, put(S, "b", "x")).await.unwrap();
        assert_eq!(watcher.progress(), Revision(2));
    });
}

#[test]
fn a_watcher_that_falls_behind_is_cut_off() {
    run(async {
        let store = with_history(History {
            max_events: 3,
            ..History::default()
        });
        write(&store, put(S, "a", "0")).await.unwrap();
        let mut slow = store.watch(S, "", Revision(2)).unwrap();
        for i in 0..4 {
            write(&store, put(S, "a", &i.to_string())).await.unwrap();
        }
        assert_eq!(
            slow.next().await.unwrap_err(),
            Compacted {
                requested: Revision(2),
                oldest: Revision(3)
            }
        );
        assert_eq!(
            store
                .watch(S, "", Revision(3))
                .unwrap()
                .next()
                .await
                .unwrap()
                .len(),
            3
        );
        assert_eq!(store.stats().cut_off_watchers, 1);
    });
}

#[test]
fn replaced_values_count_towards_the_bytes_of_history() {
    run(async {
        let store = with_history(History {
            max_bytes: 10_000,
            ..History::default()
        });
        for _ in 0..10 {
            write(&store, put(S, "a", &"x".repeat(3_000))).await.unwrap();
        }
        assert!(store.watch(S, "", Revision(7)).is_err());
        assert_eq!(store.watch(S, "", Revision(8)).unwrap().take().unwrap().len(), 3);
    });
}

#[test]
fn history_ends_with_age() {
    run(async {
        let store = with_history(History {
            max_age: Duration::from_secs(60),
            ..History::default()
        });
        let seconds = Duration::from_secs;
        store.maintain(seconds(0));
        write(&store, put(S, "a", "old")).await.unwrap();
        store.maintain(seconds(30));
        write(&store, put(S, "a", "new")).await.unwrap();
        let at = |revision| Range {
            at: Some(Revision(revision)),
            ..Range::default()
        };
        store.maintain(seconds(59));
        assert_eq!(text(&store.list(S, &at(2)).unwrap().items[0]), "old");
        store.maintain(seconds(91));
        assert_eq!(
            store.list(S, &at(1)).unwrap_err(),
            Compacted {
                requested: Revision(1),
                oldest: Revision(2)
            }
        );
        assert!(store.watch(S, "", Revision(1)).is_err());
        assert_eq!(store.watch(S, "", Revision(2)).unwrap().take().unwrap().len(), 1);
        // A space where nothing happened can be watched from anywhere.
        assert!(store.watch("core/quiet", "", Revision(1)).is_ok());
    });
}

#[test]
fn compaction_refuses_old_revisions_and_spares_watchers_that_missed_nothing() {
    run(async {
        let store = filled(&["a"]).await;
        let mut behind = store.watch(S, "", Revision(1)).unwrap();
        let mut current = store.watch(S, "", Revision(2)).unwrap();
        write(&store, put("core/other", "x", "x")).await.unwrap();
        store.compact(Revision(3));
        assert!(store.watch(S, "", Revision(2)).is_err());
        assert!(behind.take().is_err());
        write(&store, put(S, "a", "b")).await.unwrap();
        assert_eq!(current.take().unwrap().len(), 1);
    });
}

#[test]
fn dropping_a_space_cuts_off_its_watchers_only() {
    run(async {
        let store = filled(&["a"]).await;
        write(&store, put("core/other", "x", "x")).await.unwrap();
        let mut ours = store.watch(S, "", store.revision()).unwrap();
        let mut other = store.watch("core/other", "", store.revision()).unwrap();
        let (outcome, dropped) = tokio::join!(ours.next(), store.drop_space(S));
        assert_eq!(outcome.unwrap_err().oldest, dropped.unwrap());
        assert_eq!((store.count(S), store.spaces().len()), (0, 1));
        assert!(other.take().unwrap().is_empty());
        assert!(store.watch(S, "", Revision(3)).is_err());
        assert!(store.watch(S, "", store.revision()).is_ok());
    });
}

#[test]
fn a_closed_store_serves_reads_and_refuses_writes() {
    run(async {
        let store = filled(&["a"]).await;
        tokio::join!(store.close(), store.close());
        assert_eq!(store.count(S), 1);
        assert!(matches!(
            write(&store, put(S, "b", "")).await,
            Err(WriteError::Closed)
        ));
    });
}
