//! What sources without HTTP do.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::time::Duration;

use futures_util::StreamExt as _;
use skopos_object::{
    LabelSelector, ListItem, ListRequest, ListWatch as _, ListWatchError, ObjectKey, VersionMatch,
    WatchEvent, WatchRequest,
};
use skopos_testkit::{
    Data, Fault, ModelSource, Rule, Script, Step, added, bookmark, deleted, modified, object,
};
use tokio::time::timeout;

fn thing(name: &str, color: &str) -> skopos_object::Object {
    object(&format!(
        "{{kind: Thing, metadata: {{name: {name}, namespace: home, labels: {{color: {color}}}}}}}"
    ))
}

fn source() -> ModelSource {
    let source = ModelSource::new();
    for name in ["a", "b", "c"] {
        source.put(&thing(name, "red"));
    }
    source
}

async fn list(source: &ModelSource, request: ListRequest) -> Result<String, ListWatchError> {
    let mut items = source.list(request).await?;
    let mut seen = Vec::new();
    while let Some(item) = items.next().await {
        seen.push(match item? {
            ListItem::Object(object) => object.name().to_owned(),
            ListItem::Malformed(malformed) => format!("!{}", malformed.key.unwrap().name),
            ListItem::End(end) => format!("@{} {:?}", end.resource_version, end.continue_token),
        });
    }
    Ok(seen.join(" "))
}

async fn watch(source: &ModelSource, request: WatchRequest) -> String {
    let mut events = match source.watch(request).await {
        Ok(events) => events,
        Err(error) => return format!("refused: {error:?}"),
    };
    let mut seen = Vec::new();
    loop {
        let event = match timeout(Duration::from_secs(40), events.next()).await {
            Err(_) => "silence".to_owned(),
            Ok(None) => "end".to_owned(),
            Ok(Some(Err(error))) if error.is_expired() => "expired".to_owned(),
            Ok(Some(Err(_))) => "broken".to_owned(),
            Ok(Some(Ok(event))) => {
                seen.push(match event {
                    WatchEvent::Added(object) => format!("+{}", object.name()),
                    WatchEvent::Modified(object) => format!("~{}", object.name()),
                    WatchEvent::Deleted(object) => {
                        format!("-{}@{}", object.name(), object.resource_version())
                    }
                    WatchEvent::Malformed { .. } => "malformed".to_owned(),
                    WatchEvent::Bookmark { resource_version, .. } => format!("@{resource_version}"),
                });
                continue;
            }
        };
        seen.push(event);
        return seen.join(" ");
    }
}

fn from(version: u64) -> WatchRequest {
    WatchRequest {
        from: version.into(),
        bookmarks: true,
        ..WatchRequest::default()
    }
}

fn initial() -> WatchRequest {
    WatchRequest {
        initial_events: true,
        ..from(0)
    }
}

#[tokio::test(start_paused = true)]
async fn model_lists_in_pages_at_one_version() {
    let source = source();
    let page = ListRequest {
        limit: Some(2),
        ..ListRequest::default()
    };
    assert_eq!(
        list(&source, page.clone()).await.unwrap(),
        r#"a b @4 Some("4:home/b")"#
    );
    source.delete("home", "c");
    let next = ListRequest {
        continue_token: Some("4:home/b".to_owned()),
        ..page
    };
    assert_eq!(list(&source, next.clone()).await.unwrap(), "c @4 None");
    source.compact();
    assert!(list(&source, next).await.unwrap_err().is_expired());
}

#[tokio::test(start_paused = true)]
async fn model_lists_at_versions() {
    let source = source();
    source.delete("home", "a");
    let at = |version: u64, version_match| ListRequest {
        resource_version: version.into(),
        version_match,
        ..ListRequest::default()
    };
    let exact = list(&source, at(2, VersionMatch::Exact)).await.unwrap();
    assert_eq!(exact, "a @2 None");
    let newer = list(&source, at(2, VersionMatch::NotOlderThan)).await.unwrap();
    assert_eq!(newer, "b c @5 None");
    let future = list(&source, at(9, VersionMatch::NotOlderThan)).await;
    assert!(future.unwrap_err().is_too_large());
}

#[tokio::test(start_paused = true)]
async fn model_watches_from_versions_and_from_the_start() {
    let source = source();
    source.delete("home", "a");
    assert_eq!(watch(&source, from(3)).await, "+c -a@5 silence");
    assert_eq!(watch(&source, initial()).await, "+b +c @5 silence");
    source.compact();
    assert_eq!(watch(&source, from(3)).await, "expired");
    assert_eq!(watch(&source, from(5)).await, "silence");
}

#[tokio::test(start_paused = true)]
async fn model_tells_leaving_a_selection_as_deletion() {
    let source = source();
    source.put(&thing("a", "blue"));
    let red = WatchRequest {
        labels: LabelSelector::parse("color=red").unwrap(),
        ..from(4)
    };
    assert_eq!(watch(&source, red).await, "-a@5 silence");
}

#[tokio::test(start_paused = true)]
async fn model_sends_bookmarks_by_the_clock_and_before_the_end() {
    let source = source();
    let mut events = source
        .watch(WatchRequest {
            timeout: Some(Duration::from_secs(100)),
            ..from(4)
        })
        .await
        .unwrap();
    let mut seen = Vec::new();
    let begun = tokio::time::Instant::now();
    while let Some(event) = events.next().await {
        assert!(matches!(event, Ok(WatchEvent::Bookmark { .. })));
        seen.push(begun.elapsed().as_secs());
    }
    seen.push(begun.elapsed().as_secs());
    assert_eq!(seen, [60, 98, 100]);
}

#[tokio::test(start_paused = true)]
async fn model_restarts_with_and_without_its_objects() {
    let source = source();
    let open = tokio::spawn({
        let source = source.clone();
        async move { watch(&source, from(4)).await }
    });
    tokio::task::yield_now().await;
    source.restart(Data::Kept);
    assert_eq!(open.await.unwrap(), "broken");
    assert_eq!(source.objects().len(), 3);
    source.restart(Data::Lost);
    assert_eq!((source.objects().len(), source.version()), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn model_has_the_faults_of_a_connection() {
    for (fault, expect) in [
        (Fault::Cut { after_bytes: 150 }, "+a broken"),
        (Fault::End { after_bytes: 150 }, "+a end"),
        (Fault::Stall { after_bytes: 150 }, "+a silence"),
        (Fault::Stall { after_bytes: 0 }, "silence"),
        (Fault::gone_in_stream(2), "+a +b expired"),
        (Fault::Malformed { nth: 1 }, "+a malformed +c @4 silence"),
        (Fault::Garbled { nth: 0 }, "malformed +b +c @4 silence"),
        (Fault::DuplicateBookmarks, "+a +b +c @4 @4 silence"),
        (Fault::LateBookmarks, "+a +b +c @4 silence"),
    ] {
        let source = source();
        source.faults().add(Rule::watch().then(fault.clone()));
        assert_eq!(watch(&source, initial()).await, expect, "{fault:?}");
    }
    let source = source();
    source
        .faults()
        .add(Rule::list().nth(1).then(Fault::Malformed { nth: 1 }));
    let spoiled = list(&source, ListRequest::default()).await.unwrap();
    assert_eq!(spoiled, "a !b c @4 None");
    source.faults().add(Rule::any().then(Fault::NoStreamingLists));
    let refused = source.watch(initial()).await.err().unwrap();
    assert!(refused.means_no_initial_events());
}

#[tokio::test(start_paused = true)]
async fn scripts_play_in_order_and_say_what_did_not_fit() {
    let [first, second] = [("1", "a"), ("2", "a")].map(|(version, name)| {
        object(&format!(
            "{{kind: Thing, metadata: {{name: {name}, resourceVersion: '{version}'}}}}"
        ))
    });
    let script = Script::new([
        Step::list(|request| request.limit.is_none()).answers([&first], "1"),
        Step::watch(|request| request.from == "1".into())
            .sends([modified(&second), bookmark("7"), deleted(&second), added(&first)])
            .then_ends(),
        Step::list(|_| true).fails(ListWatchError::Unsupported("lists")),
    ]);
    let items: Vec<_> = script.list(ListRequest::default()).await.unwrap().collect().await;
    assert_eq!(items.len(), 2);
    let events: Vec<_> = script.watch(from(1)).await.unwrap().collect().await;
    assert_eq!((events.len(), script.played()), (4, 2));
    assert!(script.watch(from(1)).await.is_err(), "not in the script");
    let finished = tokio::spawn({
        let script = script.clone();
        async move { script.finished().await }
    });
    assert!(finished.await.unwrap_err().is_panic());
}

#[tokio::test(start_paused = true)]
async fn objects_made_again_get_a_uid_of_their_own() {
    let source = source();
    let uid = |source: &ModelSource| {
        source.objects()[&ObjectKey::namespaced("home", "a")]
            .uid()
            .to_owned()
    };
    let first = uid(&source);
    source.put(&thing("a", "blue"));
    assert_eq!(uid(&source), first);
    source.delete("home", "a");
    source.put(&thing("a", "red"));
    assert_ne!(uid(&source), first);
}
