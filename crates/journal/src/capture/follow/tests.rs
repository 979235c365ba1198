//! What one batch of reports does to a position.

use std::sync::Mutex;

use skopos_disk::SimDisk;
use skopos_testkit::{ModelSource, object};

use super::*;
use crate::{Capture, CaptureConfig, tests};

/// A source that answers at once has what came before a list, the list and what follows it in one batch. The journal
/// must not say that all of that is known when only the first of it is written.
#[tokio::test]
async fn a_position_is_written_with_what_it_is_about_and_not_before() {
    let source = ModelSource::new();
    let collections = Arc::new(tests::One(Mutex::new(Some(source))));
    let journal = tests::open(&SimDisk::default());
    let capture = Capture::new(journal.clone(), collections, CaptureConfig::default());
    let follower = Follower::new(capture.shared.clone(), Asked::from("widgets.example.com"));
    let found = capture
        .shared
        .collections
        .open(&follower.asked.name)
        .await
        .unwrap();
    let known = Position {
        version: 10.into(),
        history: None,
        at: Timestamp::UNIX_EPOCH,
        selection: String::new(),
    };
    let number = follower.number(&found).await.ok().unwrap();
    let draft = Draft::Position(number, known.clone());
    follower
        .write_once(vec![draft], Timestamp::UNIX_EPOCH)
        .await
        .ok()
        .unwrap();
    let mut session = follower.begin(&found).await.ok().unwrap();
    // As far as the source has been read, with the list.
    session.reflector = Reflector::resume(found.source, follower.shared.config.reflector.clone(), 50.into());
    let widget = object(
        "{apiVersion: example.com/v1, kind: Widget, metadata: {name: a, uid: a, resourceVersion: '11'}}",
    );
    let reports = vec![
        Report::Applied(widget),
        Report::Replace {
            reason: ListReason::Expired,
        },
    ];
    follower.take(&mut session, reports).await.ok().unwrap();
    let position = || {
        journal
            .shared
            .read()
            .get(number)
            .unwrap()
            .position
            .clone()
            .unwrap()
    };
    assert_eq!(position(), known);
    let listed = vec![Report::Replaced { version: 50.into() }];
    follower.take(&mut session, listed).await.ok().unwrap();
    assert_eq!(position().version, 50.into());
}
