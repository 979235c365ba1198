//! What one batch of reports does to a position.

use std::sync::{
    Mutex,
    atomic::{AtomicI64, Ordering},
};

use skopos_disk::SimDisk;
use skopos_testkit::{ModelSource, object};

use super::*;
use crate::{Capture, CaptureConfig, Journal, Log as _, tests};

/// A collection that is known up to version 10, and whose source has been read up to version 50.
struct Following {
    journal: Journal,
    follower: Follower,
    session: Session,
}

fn known() -> Position {
    Position {
        version: 10.into(),
        history: None,
        at: Timestamp::UNIX_EPOCH,
        selection: String::new(),
    }
}

impl Following {
    async fn new(config: CaptureConfig) -> Self {
        let collections = Arc::new(tests::One(Mutex::new(Some(ModelSource::new()))));
        let journal = tests::open(&SimDisk::default());
        let capture = Capture::new(journal.clone(), collections, config);
        let follower = Follower::new(capture.shared.clone(), Asked::from("widgets.example.com"));
        let found = capture.shared.collections.open(&follower.asked.name);
        let found = found.await.unwrap();
        let number = follower.number(&found).await.ok().unwrap();
        let draft = Draft::Position(number, known());
        let written = follower.write_once(vec![draft], Timestamp::UNIX_EPOCH).await;
        written.ok().unwrap();
        let mut session = follower.begin(&found).await.ok().unwrap();
        session.reflector =
            Reflector::resume(found.source, follower.shared.config.reflector.clone(), 50.into());
        Self {
            journal,
            follower,
            session,
        }
    }

    async fn take(&mut self, reports: Vec<Report>) {
        let taken = self.follower.take(&mut self.session, reports).await;
        taken.ok().unwrap();
    }

    fn position(&self) -> Position {
        let state = self.journal.shared.read();
        let collection = state.get(self.session.collection).unwrap();
        collection.position.clone().unwrap()
    }
}

/// A source that answers at once has what came before a list, the list and what follows it in one batch. The journal
/// must not say that all of that is known when only the first of it is written.
#[tokio::test]
async fn a_position_is_written_with_what_it_is_about_and_not_before() {
    let mut following = Following::new(CaptureConfig::default()).await;
    let widget = object(
        "{apiVersion: example.com/v1, kind: Widget, metadata: {name: a, uid: a, resourceVersion: '11'}}",
    );
    let reason = ListReason::Expired;
    let reports = vec![Report::Applied(widget), Report::Replace { reason }];
    following.take(reports).await;
    assert_eq!(following.position(), known());
    following
        .take(vec![Report::Replaced { version: 50.into() }])
        .await;
    assert_eq!(following.position().version, 50.into());
}

static SECOND: AtomicI64 = AtomicI64::new(0);

#[tokio::test]
async fn a_hole_begins_at_the_last_bookmark_and_not_at_the_last_change() {
    let now = || Timestamp::from_second(SECOND.load(Ordering::SeqCst)).unwrap();
    let mut following = Following::new(CaptureConfig {
        now,
        ..CaptureConfig::default()
    })
    .await;
    for minute in 1..=60 {
        SECOND.store(60 * minute, Ordering::SeqCst);
        following.take(vec![Report::Bookmark(50.into())]).await;
    }
    let last = now();
    SECOND.fetch_add(600, Ordering::SeqCst);
    let reason = ListReason::Expired;
    let listed = Report::Replaced { version: 70.into() };
    following.take(vec![Report::Replace { reason }, listed]).await;
    let holes = following.journal.holes();
    assert_eq!(
        holes.iter().map(|hole| hole.from).collect::<Vec<_>>(),
        [last],
        "{holes:?}"
    );
}
