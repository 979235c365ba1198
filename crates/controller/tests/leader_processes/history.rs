//! Every write that the server took, in its order.

use std::sync::{Arc, Mutex};

use skopos_client::{Api, WatchParams};
use skopos_object::{Object, WatchEvent};
use skopos_testkit::eventually;
use tokio::task::JoinHandle;
use tokio::time::Instant;

/// The writes of all replicas, as a watch told them.
pub(crate) struct History {
    writes: Arc<Mutex<Vec<Write>>>,
    watching: JoinHandle<()>,
}

/// One write that the server took.
#[derive(Debug, Clone)]
pub(crate) struct Write {
    pub(crate) at: Instant,
    pub(crate) map: String,
    pub(crate) identity: String,
    pub(crate) epoch: u64,
    pub(crate) counter: u64,
}

impl History {
    pub(crate) async fn follow(maps: &Api, run: &str) -> Self {
        let params = WatchParams {
            label_selector: format!("run={run}"),
            ..WatchParams::default()
        };
        let mut watch = maps.watch(&params).await.unwrap();
        let writes: Arc<Mutex<Vec<Write>>> = Arc::default();
        let seen = Arc::clone(&writes);
        let watching = tokio::spawn(async move {
            while let Ok(Some(event)) = watch.next().await {
                if let WatchEvent::Modified(object) = event {
                    seen.lock().unwrap().push(Write::read(&object));
                }
            }
        });
        Self { writes, watching }
    }

    fn writes(&self) -> Vec<Write> {
        self.writes.lock().unwrap().clone()
    }

    pub(crate) fn last(&self) -> Write {
        self.writes().pop().unwrap()
    }

    /// Waits for the first write of a term after `epoch`.
    pub(crate) async fn first_after(&self, epoch: Option<u64>) -> Write {
        let first = || self.writes().into_iter().find(|write| Some(write.epoch) > epoch);
        eventually(async || first().map(drop).ok_or("nobody took over")).await;
        first().unwrap()
    }

    /// Waits for so many more writes.
    pub(crate) async fn more(&self, n: usize) {
        let enough = self.writes().len() + n;
        eventually(async || match self.writes().len() {
            now if now >= enough => Ok(()),
            now => Err(format!("{now} writes of {enough}")),
        })
        .await;
    }

    /// Every write goes on where the last one ended, and nobody writes after a later term began.
    pub(crate) fn check_versioned_writes(&self, map: &str) {
        let writes = self.of(map);
        assert!(!self.watching.is_finished(), "the watch broke");
        for pair in writes.windows(2) {
            let [before, after] = pair else { unreachable!() };
            assert_eq!(after.counter, before.counter + 1, "{before:?}, then {after:?}");
            assert!(after.epoch >= before.epoch, "{before:?}, then {after:?}");
            if after.epoch == before.epoch {
                assert_eq!(after.identity, before.identity, "{before:?}, then {after:?}");
            }
        }
    }

    /// How many writes came after a later leader's first.
    pub(crate) fn late_writes(&self, map: &str) -> usize {
        let mut latest = 0;
        let mut late = 0;
        for write in self.of(map) {
            latest = latest.max(write.epoch);
            late += usize::from(write.epoch < latest);
        }
        late
    }

    fn of(&self, map: &str) -> Vec<Write> {
        let writes = self.writes().into_iter();
        writes.filter(|write| write.map == map).collect()
    }
}

impl Drop for History {
    fn drop(&mut self) {
        self.watching.abort();
    }
}

impl Write {
    fn read(object: &Object) -> Self {
        let data = object.get(&["data"]).unwrap_or_default();
        let text = |name: &str| data[name].as_str().unwrap_or_default().to_owned();
        Self {
            at: Instant::now(),
            map: object.name().to_owned(),
            identity: text("identity"),
            epoch: text("epoch").parse().unwrap(),
            counter: text("counter").parse().unwrap(),
        }
    }
}
